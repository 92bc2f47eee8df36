"""Regret studies: worlds (simulated objectives), the engine that runs studies, and results."""

try:
    import pandas  # noqa: F401
    import xarray  # noqa: F401
except ImportError as error:
    raise ImportError(f"{error.name} is not installed: pip install 'botorch-tv[study]'") from error

from botorch_tv.simulation.recorders import (
    Diagnosis,
    PredictionError,
    Recorder,
    Seen,
    Variable,
    Weights,
)
from botorch_tv.simulation.result import StudyResult
from botorch_tv.simulation.study import run_study
from botorch_tv.simulation.worlds import (
    AbruptWorld,
    BoxWorld,
    DriftWorld,
    FixedFunctions,
    GaussianDraw,
    GMPBWorld,
    GridWorld,
    MarkovWorld,
    MovingPeaksWorld,
    PanelWorld,
    PeaksWorld,
    PowerLawWorld,
    RKHSFunctions,
    SineWorld,
    SmoothedDraw,
    StaticWorld,
    World,
)

__all__ = [
    "AbruptWorld",
    "BoxWorld",
    "Diagnosis",
    "DriftWorld",
    "FixedFunctions",
    "GMPBWorld",
    "GaussianDraw",
    "GridWorld",
    "MarkovWorld",
    "MovingPeaksWorld",
    "PanelWorld",
    "PeaksWorld",
    "PowerLawWorld",
    "PredictionError",
    "RKHSFunctions",
    "Recorder",
    "Seen",
    "SineWorld",
    "SmoothedDraw",
    "StaticWorld",
    "StudyResult",
    "Variable",
    "Weights",
    "World",
    "run_study",
]
