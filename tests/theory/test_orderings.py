"""Law 7: who beats whom, by paired tests on the same worlds. Full size in the papers' tests."""

import math
from functools import cache

import pytest
from theory.objectives import SETTING

from botorch_tv.acquisition.widths import Logarithmic
from botorch_tv.simulation import MarkovWorld, StudyResult, run_study
from botorch_tv.strategies import (
    gp_ei,
    gp_pi,
    gp_ts,
    gp_ucb,
    random_search,
    tv_gp_ucb,
    ui_tvbo,
    w_gp_ucb,
)

MODEL = {"kernel": SETTING.module(), "noise": SETTING.noise}
NARROW = MODEL | {"width": Logarithmic(c1=0.4, c2=4.0)}
COMMON = {"UCB": gp_ucb(**NARROW), "random": random_search(**MODEL)}
STATIC = COMMON | {
    "EI": gp_ei(**MODEL),
    "PI": gp_pi(**MODEL),
    "TS": gp_ts(B=0.5, R=0.1, **MODEL),
    "forgetful": tv_gp_ucb(epsilon=0.2, **NARROW),
}
MOVING = COMMON | {
    "TV": tv_gp_ucb(epsilon=0.05, **NARROW),
    "wrong TV": tv_gp_ucb(epsilon=0.9, **NARROW),
    "UI": ui_tvbo(sigma_w2=0.05, **NARROW),
    "W": w_gp_ucb(gamma=0.93, **NARROW),
}


@cache
def study(moves: bool) -> StudyResult:
    world = MarkovWorld(SETTING.domain, epsilon=0.05 * moves, **MODEL)
    strategies, horizon = (MOVING, 120) if moves else (STATIC, 60)
    return run_study(world, strategies, trials=60, horizon=horizon, seed=11, progress=False)


def beats(moves: bool, better: str, worse: str) -> bool:
    """Whether the mean paired difference of cumulative regret is above three standard errors."""
    total = study(moves).regret.sum("round")
    difference = (total.sel(strategy=worse) - total.sel(strategy=better)).values
    return difference.mean() > 3.0 * difference.std(ddof=1) / math.sqrt(len(difference))


@pytest.mark.parametrize(
    ("moves", "better", "worse"),
    [(False, informed, "random") for informed in ("UCB", "EI", "PI", "TS")]
    + [(False, "UCB", "forgetful"), (True, "TV", "wrong TV")]
    + [(True, adapting, worse) for adapting in ("TV", "UI", "W") for worse in ("UCB", "random")],
)
def test_order(moves: bool, better: str, worse: str) -> None:
    assert beats(moves, better, worse)
    assert not beats(moves, worse, better)
