"""Regret studies: worlds, the engine that plays them, and labelled results."""

from botorch_tv.simulation.result import StudyResult
from botorch_tv.simulation.study import run_study
from botorch_tv.simulation.worlds import (
    AbruptWorld,
    BoxWorld,
    DriftWorld,
    GaussianDraw,
    Given,
    GridWorld,
    KernelSum,
    MarkovWorld,
    PanelWorld,
    SineWorld,
    SmoothedDraw,
    StaticWorld,
    World,
)

__all__ = [
    "AbruptWorld",
    "BoxWorld",
    "DriftWorld",
    "GaussianDraw",
    "Given",
    "GridWorld",
    "KernelSum",
    "MarkovWorld",
    "PanelWorld",
    "SineWorld",
    "SmoothedDraw",
    "StaticWorld",
    "StudyResult",
    "World",
    "run_study",
]
