"""What a preset means where nothing is said: one table for all of them."""

import inspect
import math

import pytest
from gpytorch.kernels import RBFKernel

from botorch_tv import strategies
from botorch_tv.acquisition import WidthContext
from botorch_tv.forgetting.change_detection import prediction_error
from botorch_tv.strategies import et_gp_ucb, gp_ucb

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
    "et_gp_ucb": WIDE | {"delta": 0.1, "rule": prediction_error, "confirm": 0},
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


def test_an_event_trigger_explores_as_its_paper_does():
    et, usual = (one(kernel=RBFKernel(), noise=0.1).width for one in (et_gp_ucb, gp_ucb))
    for t in (1, 7, 400):
        context = WidthContext(t, t)
        assert float(et.sqrt_beta(context)) == pytest.approx((0.4 * math.log(4 * t)) ** 0.5)
        assert float(usual.sqrt_beta(context)) == pytest.approx((0.8 * math.log(4 * t)) ** 0.5)
