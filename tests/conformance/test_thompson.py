"""Randomised strategies draw each arm as often as the textbook's posterior says.

The tests compare the winning arms of samples. Engines may use different roots of a
covariance: their draws differ, their distribution does not.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from conformance.presets import DRAWING, ENGINES, Preset, one_per
from conformance.rounds import Setting, assert_close, make_world
from oracles.dense import DenseBandit, probability_best
from scipy.stats import chi2

from botorch_tv.acquisition.exploration import Thompson
from botorch_tv.strategies import GPStrategy, Grid, State, Strategy

SETTING = Setting(points=4, kernel="se", noise=0.1, rounds=20, lengthscale=0.4)
DRAWS, SAMPLES = 3000, 100_000  # the library's, the textbook's
LEVEL = 1e-5  # of each test below; there are about a hundred, and their seeds are fixed
X = SETTING.domain.X
each_engine = pytest.mark.parametrize("engine", ENGINES)


def p_value(index: torch.Tensor, often: np.ndarray) -> float:
    """p-value of Pearson's test; arms expected fewer than 8 times are counted together."""
    expected, seen = often * len(index), np.bincount(index.numpy(), minlength=len(often))
    rare = expected < 8
    expected = np.append(expected[~rare], expected[rare].sum())
    seen = np.append(seen[~rare], seen[rare].sum())
    if expected[-1] < 1e-9:
        expected, seen = expected[:-1], seen[:-1]
    return float(chi2.sf(((seen - expected) ** 2 / expected).sum(), len(expected) - 1))


def history(rounds: int) -> list[tuple[int, float]]:
    """Arms and their observations."""
    world = make_world(SETTING.points, SETTING.noise, SETTING.rounds, 1)
    arms = [(5 * t + t // 3) % len(X) for t in range(rounds)]
    return [(arm, float(world.observe(t, torch.tensor([arm])))) for t, arm in enumerate(arms)]


def same_history(strategy: Strategy, log: list[tuple[int, float]]) -> State:
    """Many trials with the same observations."""
    state = strategy.init(SETTING.domain, batch_shape=(DRAWS,))
    for arm, y in log:
        at = strategy.suggestion_at(state, X[arm].expand(DRAWS, 2))
        state, _ = strategy.tell(state, at, torch.full((DRAWS,), y, dtype=torch.float64))
    return state


# Before the first round only the exploration matters.
FIRST = one_per(lambda preset: preset.path[1], DRAWING)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("preset", "rounds"),
    [(preset, 14) for preset in DRAWING] + [(preset, 0) for preset in FIRST],
    ids=lambda value: str(getattr(value, "name", value)),
)
def test_arms_are_drawn_as_often_as_they_should_be(preset: Preset, rounds: int) -> None:
    """3000 draws before the first round or after fourteen, by Pearson's test."""
    book, log = preset.book(SETTING.noise), history(rounds)
    bandit = DenseBandit(SETTING.matrix(), SETTING.noise, **book)
    for arm, y in log:
        bandit.tell(bandit.consider(arm), y)
    choice = bandit.consider(0)
    predicted, sampled = choice.prediction, preset.samples
    often = np.full(len(X), 1.0 / len(X))
    if book["exploration"] == "greedy":  # random arms become rarer with every round
        chance = 0.9 ** (len(bandit.rows) - bandit.rules.began)
        often = chance * often + (1 - chance) * np.eye(len(X))[bandit.recommend()]
    if book["exploration"] == "forced":
        often = 0.3 * often + 0.7 * np.eye(len(X))[bandit.choose().index]
    if sampled:
        sign = 1.0 if preset.maximize else -1.0
        spread = choice.sqrt_beta if book["exploration"] == "thompson" else 1.0
        covariance = spread**2 * predicted.covariance
        often = probability_best(sign * predicted.mean, covariance, SAMPLES, seed=1)
        wrong = probability_best(predicted.mean, np.diag(predicted.variance), SAMPLES, seed=1)
    for engine in ENGINES:
        strategy = replace(preset.strategy(SETTING.module(), SETTING.noise), inference=engine)
        state = same_history(strategy, log)
        suggestion = strategy.ask(state, generator=torch.Generator().manual_seed(rounds))
        index = suggestion.index
        assert_close(suggestion.mean, predicted.mean[index], 1e-8, f"mean, {engine}")
        assert_close(suggestion.sd, predicted.sd[index], 1e-8, f"sd, {engine}")
        assert p_value(index, often) > LEVEL, engine
        if sampled:
            assert_close(suggestion.sqrt_beta, choice.sqrt_beta, 1e-8, f"sqrt_beta, {engine}")
        if sampled and rounds:  # the test tells joint from independent samples, and arm from arm
            assert p_value(index, wrong) < LEVEL
            assert p_value(index, np.roll(often, 1)) < LEVEL


@each_engine
def test_equal_arms_have_equal_samples(engine: str) -> None:
    """Every arm twice, a covariance of deficient rank: the lower number always wins."""
    domain = Grid(SETTING.domain.X.repeat_interleave(2, 0))
    strategy = GPStrategy(
        kernel=SETTING.module(), noise=0.1, exploration=Thompson(), inference=engine
    )
    state = strategy.init(domain, batch_shape=(500,))
    for t in range(4):
        suggestion = strategy.ask(state, generator=torch.Generator().manual_seed(t))
        assert (suggestion.index % 2 == 0).all()
        y = torch.linspace(-1.0, 1.0, 500, dtype=torch.float64)
        state, _ = strategy.tell(state, suggestion, y)
