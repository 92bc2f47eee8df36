"""Law 7: who beats whom, by paired tests on the same worlds. Full size in the papers' tests."""

import math
from collections.abc import Mapping

import pytest
from theory.objectives import SETTING

from botorch_tv.acquisition.widths import Logarithmic
from botorch_tv.simulation import MarkovWorld, StudyResult, run_study
from botorch_tv.strategies import (
    Strategy,
    gp_ei,
    gp_pi,
    gp_ts,
    gp_ucb,
    random_search,
    tv_gp_ucb,
    ui_tvbo,
    w_gp_ucb,
)

NARROW = Logarithmic(c1=0.4, c2=4.0)
COMMON = {"kernel": SETTING.module(), "noise": SETTING.noise}


def study(epsilon: float, strategies: Mapping[str, Strategy], horizon: int) -> StudyResult:
    world = MarkovWorld(
        SETTING.domain, kernel=SETTING.module(), epsilon=epsilon, noise=SETTING.noise
    )
    return run_study(world, strategies, trials=60, horizon=horizon, seed=11, progress=False)


def beats(result: StudyResult, better: str, worse: str) -> bool:
    """Whether the mean paired difference of cumulative regret is above three standard errors."""
    total = result.regret.sum("round")
    difference = (total.sel(strategy=worse) - total.sel(strategy=better)).values
    return difference.mean() > 3.0 * difference.std(ddof=1) / math.sqrt(len(difference))


@pytest.fixture(scope="module")
def static() -> StudyResult:
    return study(
        0.0,
        {
            "UCB": gp_ucb(width=NARROW, **COMMON),
            "EI": gp_ei(**COMMON),
            "PI": gp_pi(**COMMON),
            "TS": gp_ts(B=0.5, R=0.1, **COMMON),
            "random": random_search(**COMMON),
            "forgetful": tv_gp_ucb(epsilon=0.2, width=NARROW, **COMMON),
        },
        60,
    )


@pytest.fixture(scope="module")
def moving() -> StudyResult:
    return study(
        0.05,
        {
            "UCB": gp_ucb(width=NARROW, **COMMON),
            "TV": tv_gp_ucb(epsilon=0.05, width=NARROW, **COMMON),
            "wrong TV": tv_gp_ucb(epsilon=0.9, width=NARROW, **COMMON),
            "UI": ui_tvbo(sigma_w2=0.05, width=NARROW, **COMMON),
            "W": w_gp_ucb(gamma=0.93, width=NARROW, **COMMON),
            "random": random_search(**COMMON),
        },
        120,
    )


@pytest.mark.parametrize("informed", ["UCB", "EI", "PI", "TS"])
def test_anything_beats_chance_where_nothing_moves(static: StudyResult, informed: str) -> None:
    assert beats(static, informed, "random")


def test_forgetting_costs_where_nothing_moves(static: StudyResult) -> None:
    assert beats(static, "UCB", "forgetful")


@pytest.mark.parametrize("adapting", ["TV", "UI", "W"])
def test_forgetting_pays_where_things_move(moving: StudyResult, adapting: str) -> None:
    assert beats(moving, adapting, "UCB")
    assert beats(moving, adapting, "random")


def test_the_right_rate_of_change_is_best(moving: StudyResult) -> None:
    assert beats(moving, "TV", "wrong TV")


def test_the_comparison_can_say_no(static: StudyResult) -> None:
    assert not beats(static, "random", "UCB")
    assert not beats(static, "UCB", "UCB")
