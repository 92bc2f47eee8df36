"""What a preset means where nothing is said: one table for all of them."""

import inspect

import pytest

from botorch_tv import strategies
from botorch_tv.forgetting.retention import prediction_error

COMMON = {"maximize": True, "mean": 0.0, "inference": "auto"}
WIDE = {"width": None}
GAIN = WIDE | {"B": 1.0, "R": None, "delta": 0.1}  # δ = 0.1 as in the papers' experiments
EXPERT = WIDE | {"B": 1.0, "delta": 0.1, "c_Q": 1.0, "steps": None}
DEFAULTS = {
    "gp_ucb": WIDE,
    "igp_ucb": GAIN,
    "gp_ts": GAIN,
    "gp_ei": {"incumbent": "posterior", "ties": "first"},
    "gp_pi": {"incumbent": "posterior", "ties": "first"},
    "random_search": {},
    "r_gp_ucb": WIDE,
    "br_gp_ucb": GAIN,
    "sw_gp_ucb": GAIN,
    "tv_gp_ucb": WIDE,
    "tv_bayesopt": WIDE,
    "w_gp_ucb": GAIN,
    "ui_tvbo": WIDE,
    "ui_gp_ucb": WIDE | {"kappa": 1.0, "B": 1.0, "delta": 0.1},
    "et_gp_ucb": WIDE | {"delta": 0.1, "rule": prediction_error},
    "glr_gp_ucb": WIDE | {"delta": 0.1, "longest": 64},
    "w_dbo": WIDE | {"alpha": 0.25},
    "pe_gp_ucb": WIDE | {"delta": 0.1},
    "bob_gp_ucb": GAIN,
    "r_perp": {},
    "sparq_gp_ucb": EXPERT,
    "w_sparq_gp_ucb": EXPERT | {"alpha_tilde": 0.25, "inflate": True},
}


def test_every_preset_is_here():
    presets = {name for name in strategies.__all__ if name.islower()}
    assert set(DEFAULTS) <= presets


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults(name):
    parameters = inspect.signature(getattr(strategies, name)).parameters.values()
    assert all(one.kind is one.KEYWORD_ONLY for one in parameters)
    given = {one.name: one.default for one in parameters if one.default is not one.empty}
    assert given == COMMON | DEFAULTS[name]
