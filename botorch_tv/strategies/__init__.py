"""Strategies: frozen configurations of a bandit, for one trial or thousands at once."""

from typing import TYPE_CHECKING

from botorch_tv.gp.mixture.bank import Bank as Bank
from botorch_tv.gp.point_recursion import Features as Features
from botorch_tv.gp.search import DiscreteSearch as DiscreteSearch
from botorch_tv.gp.search import MultiStart as MultiStart
from botorch_tv.strategies.box import Box as Box
from botorch_tv.strategies.committee import BanditOverBandits as BanditOverBandits
from botorch_tv.strategies.committee import PriorElimination as PriorElimination
from botorch_tv.strategies.domains import Grid as Grid
from botorch_tv.strategies.gp_strategy import GPStrategy as GPStrategy
from botorch_tv.strategies.outcomes import Outcomes as Outcomes
from botorch_tv.strategies.parameters import Choice as Choice
from botorch_tv.strategies.parameters import Context as Context
from botorch_tv.strategies.parameters import Float as Float
from botorch_tv.strategies.parameters import Integer as Integer
from botorch_tv.strategies.presets import *
from botorch_tv.strategies.protocol import Strategy as Strategy
from botorch_tv.strategies.state import Info as Info
from botorch_tv.strategies.state import State as State
from botorch_tv.strategies.state import Suggestion as Suggestion

if not TYPE_CHECKING:  # type checkers export the imports above
    __all__ = sorted(name for name, value in globals().items() if callable(value))
