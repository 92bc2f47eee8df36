"""Numbers and parts of strategies, through every preset."""

import pytest
from bad_input.rows import INF, NAN, Parameter, Row, assert_refuses, named, table
from gpytorch.kernels import RBFKernel

from botorch_tv import strategies
from botorch_tv.experts import sparq_gp_ucb, w_sparq_gp_ucb
from botorch_tv.learning import Refit
from botorch_tv.strategies import GPStrategy

KERNEL = RBFKernel().double()
COMMON = {"kernel": KERNEL, "noise": 0.02}
VARIANCE = (0.0, -0.02, NAN, INF)
PRESETS = {
    "gp_ucb": {},
    "igp_ucb": {},
    "gp_ts": {},
    "gp_ei": {},
    "gp_pi": {},
    "random_search": {},
    "r_gp_ucb": {"period": 5},
    "br_gp_ucb": {"period": 5},
    "sw_gp_ucb": {"window": 5},
    "tv_gp_ucb": {"epsilon": 0.1},
    "w_gp_ucb": {"gamma": 0.9},
    "ui_tvbo": {"sigma_w2": 0.1},
    "ui_gp_ucb": {"alpha": 1.0},
    "et_gp_ucb": {},
    "sparq_gp_ucb": {},
    "w_sparq_gp_ucb": {"alpha": 2.0},
}
EXPERTS = {"sparq_gp_ucb": sparq_gp_ucb, "w_sparq_gp_ucb": w_sparq_gp_ucb}


def preset(name, parameter):
    """A preset with one of its arguments to be replaced."""
    make = EXPERTS.get(name) or getattr(strategies, name)
    return lambda value: make(**(COMMON | PRESETS[name] | {parameter: value}))


AT_LEAST_ONE = "an integer of at least 1"
NUMBERS = {
    f"{name} noise": Parameter(
        preset(name, "noise"), VARIANCE, "must be positive and finite", "use 1e-6 times"
    )
    for name in PRESETS
} | {
    f"{name} {parameter}": Parameter(preset(name, parameter), outside, limit, cure)
    for name, parameter, outside, limit, cure in [
        ("igp_ucb", "delta", (0.0, 1.0, 1.5), "must lie in [1e-100, 1)", "the papers use 0.1"),
        ("gp_ts", "delta", (0.0, 1.0, 1.5), "must lie in [1e-100, 1)", "the papers use 0.1"),
        ("gp_ts", "B", (-1.0, NAN), "must lie in [0, 1e100]", "it bounds the norm"),
        ("r_gp_ucb", "period", (0, 2.5), AT_LEAST_ONE, "give whole rounds"),
        ("br_gp_ucb", "period", (0, 2.5), AT_LEAST_ONE, "give whole rounds"),
        ("sw_gp_ucb", "window", (0, 2.5), AT_LEAST_ONE, "give whole rounds"),
        ("tv_gp_ucb", "epsilon", (-0.1, 1.1), "must lie in [0, 1]", "0 keeps the objective"),
        ("w_gp_ucb", "gamma", (0.0, 1.01), "must lie in (0, 1]", "1 forgets nothing"),
        ("ui_tvbo", "sigma_w2", (-1.0,), "must lie in [0, 1e100]", "0 keeps the objective static"),
        ("ui_gp_ucb", "alpha", (-1.0,), "finite and at least 0", "is usual"),
        ("ui_gp_ucb", "kappa", (-1.0,), "finite and at least 0", "is usual"),
        ("et_gp_ucb", "delta", (0.0, 1.0), "strictly between 0 and 1", "the papers use 0.1"),
        ("w_sparq_gp_ucb", "alpha", (-1.0, INF), "finite and at least 0", "is usual"),
        ("sparq_gp_ucb", "c_Q", (0.0, NAN), "positive and finite", "1 is usual"),
        ("gp_ucb", "mean", (NAN, INF), "must be finite", "or give 'estimated'"),
    ]
}


def strategy(**wrong):
    return lambda: GPStrategy(**(COMMON | wrong))


PARTS = {
    "retention None": Row(strategy(retention=None), "None", "a Retention", "such as KeepAll()"),
    "maximize a number": Row(strategy(maximize=1), "1", "must be a bool", "False to minimise"),
    "inference text": Row(strategy(inference="magic"), "'magic'", "inference is", "'features'"),
    "mean text": Row(strategy(mean="fitted"), "'fitted'", "must be finite", "'estimated'"),
    "learning on a grid": Row(
        lambda: GPStrategy(**COMMON, learning=Refit()).init(strategies.Grid.regular(3, 1)),
        "Grid(3 arms in 1-d)",
        "learned on a Box",
        "learning=None",
    ),
}


@pytest.mark.parametrize("row", table(NUMBERS) + named(PARTS))
def test_refused(row):
    assert_refuses(row)
