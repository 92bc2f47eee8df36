"""Law 7: bands cover the truth, triggers are rarely false, and who beats whom."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from conformance.presets import BY_NAME, PRESETS, Preset
from conformance.rounds import Setting
from numpy.typing import NDArray
from scipy.stats import kstest, norm
from torch import Tensor

from botorch_tv.acquisition.widths import IGPUCB, WGPUCB, BayesTV, Heteroscedastic, Logarithmic
from botorch_tv.forgetting import EventTrigger
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

SETTING = Setting(points=5, kernel="se", noise=0.05, rounds=100, lengthscale=0.3)
Array = NDArray[np.float64]


def root(K: Array) -> Array:
    """The symmetric R with R R = K, which no order of equal eigenvalues changes."""
    values, vectors = np.linalg.eigh(K)
    return (vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T


def gaussian_process(
    model: str, parameter: float, trials: int, rounds: int, seed: int
) -> Iterator[Tensor]:
    """Draws of f_1, f_2, ... on the grid of ``SETTING``: `trials x M` each.

    Markov: f_{t+1} = sqrt(1 - eps) f_t + sqrt(eps) g_{t+1} with independent draws g. Wiener:
    f_{t+1} = f_t + sqrt(s) g_{t+1}.
    """
    random = np.random.default_rng([seed, trials, rounds])
    R = root(SETTING.matrix())

    def draw() -> Array:
        return random.standard_normal((trials, len(R))) @ R.T

    f = draw()
    for _ in range(rounds):
        yield torch.as_tensor(f)
        if model == "markov":
            f = np.sqrt(1.0 - parameter) * f + np.sqrt(parameter) * draw()
        elif model == "wiener":
            f = f + np.sqrt(parameter) * draw()


def of_norm(B: float, trials: int, seed: int) -> Tensor:
    """f = sum_i a_i k(x_i, .) with norm sqrt(a' K a) = B in the kernel's space: `trials x M`."""
    random = np.random.default_rng(seed)
    K = SETTING.matrix()
    arms = np.argsort(random.random((trials, len(K))), axis=1)[:, :4]
    a = np.zeros((trials, len(K)))
    np.put_along_axis(a, arms, random.standard_normal(arms.shape), axis=1)
    return torch.as_tensor(B * (a @ K) / np.sqrt(np.einsum("ti,ij,tj->t", a, K, a))[:, None])


def noises(trials: int, rounds: int, variance: float, seed: int) -> Tensor:
    """Independent normal errors, `rounds x trials`."""
    random = np.random.default_rng([seed, 77])
    return torch.as_tensor(random.standard_normal((rounds, trials)) * variance**0.5)


def pick(values: Tensor, index: Tensor) -> Tensor:
    return values.gather(-1, index.unsqueeze(-1)).squeeze(-1)


TRIALS = 1000
ROUNDS = 25
LOOKS = (0, 4, 14, 24)
LEVEL = 1e-5
# Strategies whose model is the world's, so that given the data f is exactly as predicted, however
# the arms were chosen. (Not those that drop data by which they chose.)
MATCHED = [
    ("static", 0.0, "GP-UCB above 0.7", 0.7, True),
    ("static", 0.0, "GP-TS", 0.0, False),
    ("static", 0.0, "GP-PI", 0.0, False),
    ("markov", 0.03, "TV-GP-UCB below 0.7", -0.7, False),
    ("markov", 0.05, "EI + Markov", 0.0, True),
    ("wiener", 0.03, "UI-TVBO", 0.0, False),
    ("wiener", 0.03, "UI-TVBO", 0.0, True),
    ("wiener", 0.02, "Thompson + Wiener", 0.0, True),
]
"""Process, its rate, preset, prior mean, and whether noise varies and measurements fail."""


def residuals(strategy: Strategy, model: str, parameter: float, level: float, extra: bool) -> list:
    """(f - mean) / sd at the arm chosen and at one fixed arm, before it is observed, per look."""
    state = strategy.init(SETTING.domain, batch_shape=(TRIALS,))
    errors = noises(TRIALS, ROUNDS, 1.0, seed=3)
    random = np.random.default_rng(4)
    generator = torch.Generator().manual_seed(1)
    seen = []
    for t, f in enumerate(gaussian_process(model, parameter, TRIALS, ROUNDS, seed=5)):
        values = f + level
        suggestion = strategy.ask(state, generator=generator)
        if t in LOOKS:
            fixed = strategy.suggestion_at(state, SETTING.domain.X[7].expand(TRIALS, 2))
            for at in (suggestion, fixed):
                seen.append(((pick(values, at.index) - at.mean) / at.sd).numpy())
        variance = torch.full((TRIALS,), SETTING.noise, dtype=torch.float64)
        arguments: dict[str, Any] = {}
        if extra:  # variances of their own, and a fifth of the measurements fail
            variance = torch.as_tensor(np.exp(random.uniform(np.log(0.01), 0.0, TRIALS)))
            arguments = {"noise": variance, "ok": torch.as_tensor(random.random(TRIALS) < 0.8)}
        y = pick(values, suggestion.index) + errors[t] * variance.sqrt()
        state, _ = strategy.tell(state, suggestion, y, check=False, consume=True, **arguments)
    return seen


@pytest.mark.few(3)
@pytest.mark.parametrize(("model", "parameter", "name", "level", "extra"), MATCHED)
def test_mean_and_sd_are_calibrated(model, parameter, name, level, extra) -> None:
    strategy = BY_NAME[name].strategy(SETTING.module(), SETTING.noise)
    for residual in residuals(strategy, model, parameter, level, extra):
        assert kstest(residual, "norm").pvalue > LEVEL
        for z in (1.0, 2.0):
            nominal = 1.0 - 2.0 * norm.sf(z)
            error = math.sqrt(nominal * (1.0 - nominal) / TRIALS)
            assert (np.abs(residual) < z).mean() == pytest.approx(nominal, abs=4.5 * error)


def share_covered(strategy: Strategy, worlds: Any, variance: float, rounds: int) -> float:
    """Trials in which |f - mean| <= sqrt(beta) sd on all arms in all rounds."""
    trials = len(worlds[0])
    state = strategy.init(SETTING.domain, batch_shape=(trials,))
    errors = noises(trials, rounds, variance, seed=6)
    covered = torch.ones(trials, dtype=torch.bool)
    generator = torch.Generator().manual_seed(2)
    for t, values in zip(range(rounds), worlds):
        suggestion = strategy.ask(state, generator=generator)
        posterior = strategy.posterior(state, SETTING.domain.X)
        sd = posterior.variance.squeeze(-1).clamp_min(0).sqrt()
        apart = (values - posterior.mean.squeeze(-1)).abs()
        covered &= (apart <= suggestion.sqrt_beta.unsqueeze(-1) * sd + 1e-9).all(-1)
        y = pick(values, suggestion.index) + errors[t]
        state, _ = strategy.tell(state, suggestion, y, check=False, consume=True)
    return float(covered.double().mean())


ROUNDS_IN_A_BALL = 40
LAMBDA = 1.0 + 2.0 / ROUNDS_IN_A_BALL  # [C17] regularises with 1 + 2 / T


def with_band(kind: str, B: float, R: float, delta: float) -> Strategy:
    ball, kernel = {"B": B, "R": R, "delta": delta}, SETTING.module()
    if kind == "IGP-UCB":
        return gp_ucb(kernel=kernel, noise=LAMBDA, width=IGPUCB(**ball))
    if kind == "Thompson":
        return gp_ts(kernel=kernel, noise=LAMBDA, **ball)
    if kind == "weighted":
        return w_gp_ucb(kernel=kernel, noise=0.05, gamma=1.0, width=WGPUCB(noise=0.05, **ball))
    return gp_ucb(kernel=kernel, noise=R**2, width=Heteroscedastic(B=B, delta=delta))


@pytest.mark.few("heteroscedastic-1.0-0.22360679774997896-0.1")
@pytest.mark.parametrize("delta", [0.1, pytest.param(0.5, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("kind", "B", "R"),
    [
        ("IGP-UCB", 1.0, 1.0),
        ("IGP-UCB", 2.0, 0.1),
        ("Thompson", 1.0, 0.5),
        ("weighted", 1.0, 0.05**0.5),
        ("heteroscedastic", 1.0, 0.05**0.5),
    ],
)
def test_bands_cover_a_ball_uniformly(kind: str, B: float, R: float, delta: float) -> None:
    """Functions of norm B, errors of scale R: all arms in all rounds, in 1 - delta of the trials.

    [C17] Theorem 2, [W22] Theorem 1, [M] (12).
    """
    trials = 300
    strategy = with_band(kind, B, R, delta)
    f = of_norm(B, trials, seed=8)
    share = share_covered(strategy, [f] * ROUNDS_IN_A_BALL, R**2, ROUNDS_IN_A_BALL)
    assert share >= 1.0 - delta - 3.0 * math.sqrt(delta * (1.0 - delta) / trials)


@pytest.mark.full
def test_bayes_band_covers_a_moving_objective() -> None:
    """[B16] Theorem 1: all arms in all rounds with probability 1 - delta."""
    strategy = tv_gp_ucb(
        kernel=SETTING.module(),
        noise=SETTING.noise,
        epsilon=0.05,
        width=BayesTV(delta=0.1, r=1.0, a1=2.0, b1=3.0),
    )
    trials = 500
    worlds = list(gaussian_process("markov", 0.05, trials, 60, seed=9))
    assert share_covered(strategy, worlds, SETTING.noise, 60) >= 0.9


TRIGGER_TRIALS = 400
TRIGGER_ROUNDS = 100
# The lemma assumes the true model: no decay, no inflation, prior mean 0.
RIGHT = [
    preset
    for preset in PRESETS
    if preset.triggers
    and preset.maximize  # downwards is the same upside down
    and not {"decay", "inflation", "mean"} & set(preset.book(1.0))
    and preset.name not in ("ET-GP-UCB Bayes", "ET-GP-UCB realised gain")  # slower, not different
]


@cache
def share_of_triggers(preset: Preset, delta: float, jump: int | None = None) -> float:
    """Trials in which the trigger fires at all; ``jump``: the round at which f is drawn anew."""
    strategy = preset.strategy(SETTING.module(), SETTING.noise)
    strategy = replace(strategy, retention=EventTrigger(delta))
    (first,) = gaussian_process("static", 0.0, TRIGGER_TRIALS, 1, seed=1)
    (second,) = gaussian_process("static", 0.0, TRIGGER_TRIALS, 1, seed=2)
    errors = noises(TRIGGER_TRIALS, TRIGGER_ROUNDS, SETTING.noise, seed=1)
    state = strategy.init(SETTING.domain, batch_shape=(TRIGGER_TRIALS,))
    generator = torch.Generator().manual_seed(0)
    triggered = torch.zeros(TRIGGER_TRIALS, dtype=torch.bool)
    for t in range(TRIGGER_ROUNDS):
        values = first if jump is None or t < jump else second
        suggestion = strategy.ask(state, generator=generator)
        y = pick(values, suggestion.index) + errors[t]
        state, info = strategy.tell(state, suggestion, y, check=False, consume=True)
        triggered |= info.reset
    return float(triggered.double().mean())


@pytest.mark.few(1)
@pytest.mark.parametrize("delta", [0.1, pytest.param(0.5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("preset", RIGHT, ids=lambda preset: preset.name)
def test_at_most_delta_of_the_trials_trigger(preset: Preset, delta: float) -> None:
    share = share_of_triggers(preset, delta)
    assert share <= delta + 3.0 * math.sqrt(delta * (1.0 - delta) / TRIGGER_TRIALS)


@pytest.mark.full
def test_the_trigger_is_not_asleep() -> None:
    (preset,) = (item for item in RIGHT if item.name == "ET-GP-UCB")
    rare, common = share_of_triggers(preset, 0.1), share_of_triggers(preset, 0.9)
    assert rare < common  # rare may be 0: the bound is conservative
    assert 0.0 < common < 0.9
    assert share_of_triggers(preset, 0.1, jump=60) > 0.5


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


@pytest.mark.few("False-UCB-forgetful")
@pytest.mark.parametrize(
    ("moves", "better", "worse"),
    [(False, informed, "random") for informed in ("UCB", "EI", "PI", "TS")]
    + [(False, "UCB", "forgetful"), (True, "TV", "wrong TV")]
    + [(True, adapting, worse) for adapting in ("TV", "UI", "W") for worse in ("UCB", "random")],
)
def test_order(moves: bool, better: str, worse: str) -> None:
    assert beats(moves, better, worse)
    assert not beats(moves, worse, better)
