"""Strategies: frozen configurations of a bandit, for one trial or thousands at once."""

from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.gp.point_recursion import Features
from botorch_tv.gp.search import DiscreteSearch, MultiStart
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.committee import BanditOverBandits, PriorElimination
from botorch_tv.strategies.domains import Grid
from botorch_tv.strategies.gp_strategy import GPStrategy
from botorch_tv.strategies.parameters import Choice, Float, Integer
from botorch_tv.strategies.presets import (
    adaptive_gp_ucb,
    bob_gp_ucb,
    br_gp_ucb,
    et_gp_ucb,
    glr_gp_ucb,
    gp_ei,
    gp_pi,
    gp_ts,
    gp_ucb,
    igp_ucb,
    pe_gp_ucb,
    r_gp_ucb,
    r_perp,
    random_search,
    rexp3,
    sparq_gp_ucb,
    sw_gp_ucb,
    tv_bayesopt,
    tv_gp_ucb,
    ui_gp_ucb,
    ui_tvbo,
    w_dbo,
    w_gp_ucb,
    w_sparq_gp_ucb,
)
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import Info, State, Suggestion

__all__ = [
    "BanditOverBandits",
    "Bank",
    "Box",
    "Choice",
    "DiscreteSearch",
    "Features",
    "Float",
    "GPStrategy",
    "Grid",
    "Info",
    "Integer",
    "MultiStart",
    "PriorElimination",
    "State",
    "Strategy",
    "Suggestion",
    "adaptive_gp_ucb",
    "bob_gp_ucb",
    "br_gp_ucb",
    "et_gp_ucb",
    "glr_gp_ucb",
    "gp_ei",
    "gp_pi",
    "gp_ts",
    "gp_ucb",
    "igp_ucb",
    "pe_gp_ucb",
    "r_gp_ucb",
    "r_perp",
    "random_search",
    "rexp3",
    "sparq_gp_ucb",
    "sw_gp_ucb",
    "tv_bayesopt",
    "tv_gp_ucb",
    "ui_gp_ucb",
    "ui_tvbo",
    "w_dbo",
    "w_gp_ucb",
    "w_sparq_gp_ucb",
]
