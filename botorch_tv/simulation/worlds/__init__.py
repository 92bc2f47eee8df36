"""Time-varying objectives: drawn for every trial, or replayed from recorded data."""

from typing import TYPE_CHECKING

from botorch_tv.simulation.worlds.base import GridWorld as GridWorld
from botorch_tv.simulation.worlds.base import OutcomesWorld as OutcomesWorld
from botorch_tv.simulation.worlds.base import World as World
from botorch_tv.simulation.worlds.box import BoxWorld as BoxWorld
from botorch_tv.simulation.worlds.box import GMPBWorld as GMPBWorld
from botorch_tv.simulation.worlds.box import MovingPeaksWorld as MovingPeaksWorld
from botorch_tv.simulation.worlds.box import PeaksWorld as PeaksWorld
from botorch_tv.simulation.worlds.grid import AbruptWorld as AbruptWorld
from botorch_tv.simulation.worlds.grid import DriftWorld as DriftWorld
from botorch_tv.simulation.worlds.grid import FixedFunctions as FixedFunctions
from botorch_tv.simulation.worlds.grid import FunctionDistribution as FunctionDistribution
from botorch_tv.simulation.worlds.grid import FunctionDraw as FunctionDraw
from botorch_tv.simulation.worlds.grid import GaussianDraw as GaussianDraw
from botorch_tv.simulation.worlds.grid import MarkovWorld as MarkovWorld
from botorch_tv.simulation.worlds.grid import PowerLawWorld as PowerLawWorld
from botorch_tv.simulation.worlds.grid import RKHSFunctions as RKHSFunctions
from botorch_tv.simulation.worlds.grid import SineWorld as SineWorld
from botorch_tv.simulation.worlds.grid import SmoothedDraw as SmoothedDraw
from botorch_tv.simulation.worlds.grid import StaticWorld as StaticWorld
from botorch_tv.simulation.worlds.panel import PanelWorld as PanelWorld

if not TYPE_CHECKING:  # type checkers export the imports above
    __all__ = sorted(name for name, value in globals().items() if callable(value))
