"""Law 3: every way to forget nothing is GP-UCB, choice for choice."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from conformance.presets import ENGINES, NARROW
from conformance.rounds import Run, Setting, assert_close, assert_same_choices, make_world, play

from botorch_tv.acquisition import Forced
from botorch_tv.experts import Never, Refresh, SparQ, w_sparq_gp_ucb
from botorch_tv.forgetting import (
    EventTrigger,
    ExponentialWeights,
    GLRTrigger,
    Markov,
    PeriodicMarkov,
    PeriodicReset,
    SlidingWindow,
    Smooth,
    UncertaintyInjection,
    Wiener,
)
from botorch_tv.strategies import (
    Strategy,
    et_gp_ucb,
    gp_ucb,
    r_gp_ucb,
    sw_gp_ucb,
    tv_gp_ucb,
    ui_gp_ucb,
    ui_tvbo,
    w_gp_ucb,
)

SETTING = Setting(points=7, kernel="se", noise=0.02, rounds=36)
T = SETTING.rounds
TRIALS = 3
COMMON = {"kernel": SETTING.module(), "noise": SETTING.noise, "width": NARROW}


def run(strategy: Strategy, engine: str) -> Run:
    world = make_world(SETTING.points, SETTING.noise, T, TRIALS)
    return play(replace(strategy, inference=engine), SETTING.domain, world, (TRIALS,), every=10)


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def gp_ucb_run(engine: str) -> Run:
    return run(gp_ucb(**COMMON), engine)


@pytest.fixture(scope="module")
def newest_only(engine: str) -> Run:
    return run(sw_gp_ucb(window=1, **COMMON), engine)


PLAIN = gp_ucb(**COMMON)
LIMITS: dict[str, Strategy] = {
    "epsilon = 0": tv_gp_ucb(epsilon=0.0, **COMMON),
    "gamma = 1": w_gp_ucb(gamma=1.0, **COMMON),
    "kappa = 0": ui_gp_ucb(alpha=1.0, kappa=0.0, **COMMON),
    "sigma_w2 = 0": ui_tvbo(sigma_w2=0.0, **COMMON),
    "N = T": r_gp_ucb(period=T, **COMMON),
    "N > T": r_gp_ucb(period=10**9, **COMMON),
    "W = T": sw_gp_ucb(window=T, **COMMON),
    "W > T": sw_gp_ucb(window=10**9, **COMMON),
    "delta -> 0": et_gp_ucb(delta=1e-300, **COMMON),
    "GLR": replace(PLAIN, retention=GLRTrigger(1e-300), exploration=Forced(0.0)),
    "endless smoothness": replace(PLAIN, decay=Smooth(1e100, 2.5)),
    "a cycle every round": replace(PLAIN, decay=PeriodicMarkov(0.0, 1.0, 0.5)),
    "no expert": SparQ(refresh=Refresh(Never()), **COMMON),
    "N > T by time": replace(PLAIN, retention=PeriodicReset(1e9, by="time")),
    "W > T by time": replace(PLAIN, retention=SlidingWindow(1e9, by="time")),
    "three limits at once": replace(
        PLAIN, decay=Markov(0.0), inflation=ExponentialWeights(1.0), retention=EventTrigger(1e-300)
    ),
    "three other limits at once": replace(
        PLAIN,
        decay=Wiener(0.0),
        inflation=UncertaintyInjection(0.5, kappa=0.0),
        retention=SlidingWindow(T),
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_forgetting_nothing_is_gp_ucb(name: str, engine: str, gp_ucb_run: Run) -> None:
    actual = run(LIMITS[name], engine)
    assert_same_choices(actual.index, gp_ucb_run.index)
    for kind in ("mean", "sd", "posterior_mean", "posterior_variance"):
        # Not after round T: N = T resets before T + 1.
        one, other = getattr(actual, kind)[:-1], getattr(gp_ucb_run, kind)[:-1]
        assert_close(one, other, 1e-8, kind)


@pytest.mark.filterwarnings("ignore::botorch_tv.experts.ExpertWarning")
def test_w_sparq_whose_expert_never_answers_is_ui_gp_ucb(engine: str) -> None:
    absent, plain = (run(made(alpha=1.0, **COMMON), engine) for made in (w_sparq_gp_ucb, ui_gp_ucb))
    assert_same_choices(absent.index, plain.index)
    assert_close(absent.mean, plain.mean, 1e-8, "mean")


@pytest.mark.few(2)
@pytest.mark.parametrize("gamma", [1e-12, 1e-300])
def test_gamma_to_zero_retains_the_newest_point(
    engine: str, gamma: float, newest_only: Run
) -> None:
    """Also where gamma^-lag overflows: so old an observation has no weight."""
    weighted = run(w_gp_ucb(gamma=gamma, **COMMON), engine)
    assert_same_choices(weighted.index, newest_only.index)
    assert_close(weighted.mean, newest_only.mean, 1e-8, "mean")
    assert_close(weighted.sd, newest_only.sd, 1e-8, "sd")
    theory = {"B": 0.5, "R": 0.1, "delta": 0.1}
    doubled = run(w_gp_ucb(gamma=gamma, **{**COMMON, "width": None}, **theory), engine)
    newest_gain = 0.5 * np.log1p(1 / SETTING.noise)
    wanted = 0.5 + 0.1 / SETTING.noise**0.5 * np.sqrt(2 * (np.log(10) + newest_gain))
    assert_close(doubled.sqrt_beta[1:], wanted, 1e-8, "sqrt_beta")


def test_trigger_on_any_observation_retains_one_point(
    engine: str, gp_ucb_run: Run, newest_only: Run
) -> None:
    """A threshold near zero fires in every round: the window of one."""

    def always(*arguments: object, **named: object) -> torch.Tensor:
        shape = next(a.shape for a in arguments if isinstance(a, torch.Tensor))
        return torch.ones(shape, dtype=torch.bool)

    strategy = replace(gp_ucb(**COMMON), retention=EventTrigger(0.1, rule=always))
    fired = run(strategy, engine)
    assert fired.reset.all()
    assert_same_choices(fired.index, newest_only.index)
    assert not np.array_equal(fired.index, gp_ucb_run.index)
