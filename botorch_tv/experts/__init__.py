"""Experts measure a few selected past points again, to preserve the accuracy of predictions."""

from typing import TYPE_CHECKING

from botorch_tv.strategies.dpp import default_steps as default_steps
from botorch_tv.strategies.dpp import greedy_map as greedy_map
from botorch_tv.strategies.dpp import k_dpp as k_dpp
from botorch_tv.strategies.presets import sparq_gp_ucb as sparq_gp_ucb
from botorch_tv.strategies.presets import w_sparq_gp_ucb as w_sparq_gp_ucb
from botorch_tv.strategies.sparq import EveryRound as EveryRound
from botorch_tv.strategies.sparq import Never as Never
from botorch_tv.strategies.sparq import Refresh as Refresh
from botorch_tv.strategies.sparq import Schedule as Schedule
from botorch_tv.strategies.sparq import SparQ as SparQ
from botorch_tv.strategies.sparq import Windows as Windows
from botorch_tv.strategies.state import Consultation as Consultation
from botorch_tv.strategies.state import ExpertData as ExpertData
from botorch_tv.strategies.state import ExpertWarning as ExpertWarning

if not TYPE_CHECKING:  # type checkers export the imports above
    __all__ = sorted(name for name, value in globals().items() if callable(value))
