"""Time-varying objectives: drawn for every trial, or replayed from recorded data."""

from botorch_tv.simulation.worlds.base import GridWorld, World
from botorch_tv.simulation.worlds.box import BoxWorld
from botorch_tv.simulation.worlds.functions import (
    FixedFunctions,
    FunctionDistribution,
    FunctionDraw,
    GaussianDraw,
    RKHSFunctions,
    SmoothedDraw,
)
from botorch_tv.simulation.worlds.grid import (
    AbruptWorld,
    DriftWorld,
    MarkovWorld,
    SineWorld,
    StaticWorld,
)
from botorch_tv.simulation.worlds.panel import PanelWorld
from botorch_tv.simulation.worlds.peaks import GMPBWorld, MovingPeaksWorld, PeaksWorld

__all__ = [
    "AbruptWorld",
    "BoxWorld",
    "DriftWorld",
    "FixedFunctions",
    "FunctionDistribution",
    "FunctionDraw",
    "GMPBWorld",
    "GaussianDraw",
    "GridWorld",
    "MarkovWorld",
    "MovingPeaksWorld",
    "PanelWorld",
    "PeaksWorld",
    "RKHSFunctions",
    "SineWorld",
    "SmoothedDraw",
    "StaticWorld",
    "World",
]
