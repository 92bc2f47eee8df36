"""Experts measure a few selected past points again, to preserve the accuracy of predictions."""

from botorch_tv.strategies.dpp import default_steps, greedy_map, k_dpp
from botorch_tv.strategies.presets import sparq_gp_ucb, w_sparq_gp_ucb
from botorch_tv.strategies.sparq import EveryRound, Never, Refresh, Schedule, SparQ, Windows
from botorch_tv.strategies.state import Consultation, ExpertData, ExpertWarning

__all__ = [
    "Consultation",
    "EveryRound",
    "ExpertData",
    "ExpertWarning",
    "Never",
    "Refresh",
    "Schedule",
    "SparQ",
    "Windows",
    "default_steps",
    "greedy_map",
    "k_dpp",
    "sparq_gp_ucb",
    "w_sparq_gp_ucb",
]
