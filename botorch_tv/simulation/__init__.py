"""Regret studies: worlds (simulated objectives), the engine that runs studies, and results."""

from typing import TYPE_CHECKING

try:
    import pandas  # noqa: F401
    import xarray  # noqa: F401
except ImportError as error:
    raise ImportError(f"{error.name} is not installed: pip install 'botorch-tv[study]'") from error

from botorch_tv.simulation.recorders import Diagnosis as Diagnosis
from botorch_tv.simulation.recorders import PredictionError as PredictionError
from botorch_tv.simulation.recorders import Recorder as Recorder
from botorch_tv.simulation.recorders import Seen as Seen
from botorch_tv.simulation.recorders import Variable as Variable
from botorch_tv.simulation.recorders import Violations as Violations
from botorch_tv.simulation.recorders import Weights as Weights
from botorch_tv.simulation.result import StudyResult as StudyResult
from botorch_tv.simulation.study import run_study as run_study
from botorch_tv.simulation.worlds import AbruptWorld as AbruptWorld
from botorch_tv.simulation.worlds import BoxWorld as BoxWorld
from botorch_tv.simulation.worlds import DriftWorld as DriftWorld
from botorch_tv.simulation.worlds import FixedFunctions as FixedFunctions
from botorch_tv.simulation.worlds import GaussianDraw as GaussianDraw
from botorch_tv.simulation.worlds import GMPBWorld as GMPBWorld
from botorch_tv.simulation.worlds import GridWorld as GridWorld
from botorch_tv.simulation.worlds import MarkovWorld as MarkovWorld
from botorch_tv.simulation.worlds import MovingPeaksWorld as MovingPeaksWorld
from botorch_tv.simulation.worlds import PanelWorld as PanelWorld
from botorch_tv.simulation.worlds import PeaksWorld as PeaksWorld
from botorch_tv.simulation.worlds import PowerLawWorld as PowerLawWorld
from botorch_tv.simulation.worlds import RKHSFunctions as RKHSFunctions
from botorch_tv.simulation.worlds import SineWorld as SineWorld
from botorch_tv.simulation.worlds import SmoothedDraw as SmoothedDraw
from botorch_tv.simulation.worlds import StaticWorld as StaticWorld
from botorch_tv.simulation.worlds import World as World

if not TYPE_CHECKING:  # type checkers export the imports above
    __all__ = sorted(name for name, value in globals().items() if callable(value))
