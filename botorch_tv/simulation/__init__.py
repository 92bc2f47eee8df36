"""Regret studies: worlds, the engine that plays them, and labelled results."""

from botorch_tv.simulation.result import StudyResult
from botorch_tv.simulation.study import run_study
from botorch_tv.simulation.worlds import (
    AbruptWorld,
    DriftWorld,
    GaussianDraw,
    Given,
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
    "DriftWorld",
    "GaussianDraw",
    "Given",
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
