"""Time-varying objectives: drawn for every trial, or replayed from recorded data."""

from botorch_tv.simulation.worlds.base import GridWorld, World
from botorch_tv.simulation.worlds.box import BoxWorld, GMPBWorld, MovingPeaksWorld, PeaksWorld
from botorch_tv.simulation.worlds.grid import (
    AbruptWorld,
    DriftWorld,
    FixedFunctions,
    FunctionDistribution,
    FunctionDraw,
    GaussianDraw,
    MarkovWorld,
    PowerLawWorld,
    RKHSFunctions,
    SineWorld,
    SmoothedDraw,
    StaticWorld,
)
from botorch_tv.simulation.worlds.panel import PanelWorld

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
    "PowerLawWorld",
    "RKHSFunctions",
    "SineWorld",
    "SmoothedDraw",
    "StaticWorld",
    "World",
]
