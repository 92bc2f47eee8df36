"""A box whose candidates are the arms of a grid: the same strategy makes the same choices."""

import numpy as np
import pytest
import torch
from conformance.presets import BY_NAME, PRESETS, Preset
from conformance.rounds import Setting, make_world
from gpytorch.kernels import ScaleKernel
from oracles.dense import DenseBandit, probability_best
from scipy.stats import chi2

from botorch_tv.acquisition import Constant, ExpectedImprovement, Thompson
from botorch_tv.forgetting import EventTrigger, Markov, SlidingWindow, Wiener
from botorch_tv.strategies import Box, DiscreteSearch, GPStrategy

SETTING = Setting(points=4, kernel="se", noise=0.05, rounds=12, lengthscale=0.35)
TRIALS = 2
GRID = SETTING.domain
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
BOX = Box(CUBE, search=DiscreteSearch(GRID.X))
SAME = [preset for preset in PRESETS if not preset.samples]


@pytest.mark.parametrize("preset", SAME, ids=lambda preset: preset.name)
def test_same_choices(preset: Preset) -> None:
    strategy = preset.strategy(SETTING.module(), SETTING.noise)
    world = make_world(SETTING.points, SETTING.noise, SETTING.rounds, TRIALS)
    random = np.random.default_rng(0)
    states = [strategy.init(domain, batch_shape=(TRIALS,)) for domain in (GRID, BOX)]
    for t in range(SETTING.rounds):
        now = torch.tensor(1.4 * t + random.random(TRIALS)) if t % 3 else None
        generators = [torch.Generator().manual_seed(t) for _ in states]
        grid, box = (
            strategy.ask(state, now=now, generator=generator)
            for state, generator in zip(states, generators)
        )
        assert torch.equal(grid.X, box.X), f"round {t}"
        for name in ("mean", "sd", "sqrt_beta", "time"):
            ours, theirs = getattr(box, name), getattr(grid, name)
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-7)
        y, ok = world.observe(t, grid.index), torch.tensor(random.random(TRIALS) < 0.85)
        results = [
            strategy.tell(state, suggestion, y, ok=ok)
            for state, suggestion in zip(states, (grid, box))
        ]
        states = [state for state, _ in results]
        for name in ("reset", "side_queries"):
            assert torch.equal(getattr(results[0][1], name), getattr(results[1][1], name))
        gains = [info.information_gain for _, info in results]
        torch.testing.assert_close(*gains, rtol=0, atol=1e-7)
        assert torch.equal(*(strategy.recommend(state) for state in states))


@pytest.mark.parametrize("exploration", [ExpectedImprovement(), Constant(1.0)], ids=repr)
def test_ties_are_in_the_unit_of_the_kernel(exploration) -> None:
    X = torch.tensor([[0.9, 0.5], [0.1, 0.5], [0.5, 0.5]], dtype=torch.float64)
    for scale in (1e-6, 1.0, 1e6):
        kernel = ScaleKernel(SETTING.module()).double()
        kernel.outputscale = torch.tensor(scale**2, dtype=torch.float64)
        parts = {"exploration": exploration} if scale and hasattr(exploration, "score") else {}
        strategy = GPStrategy(kernel=kernel, noise=0.01 * scale**2, width=Constant(4.0), **parts)
        state = strategy.init(Box(CUBE, search=DiscreteSearch(X)))
        at = strategy.suggestion_at(state, X[2])
        state, _ = strategy.tell(state, at, torch.tensor(-scale, dtype=torch.float64))
        assert torch.equal(strategy.ask(state).X, X[0])
        assert torch.equal(strategy.recommend(state), X[0])


THOMPSON = {
    "static": ({}, {}),
    "Markov": ({"decay": Markov(0.05)}, {"decay": ("markov", 0.05)}),
    "Wiener": ({"decay": Wiener(0.1)}, {"decay": ("wiener", 0.1)}),
    "Markov window": (
        {"decay": Markov(0.05), "retention": SlidingWindow(4)},
        {"decay": ("markov", 0.05), "retention": ("window", 4, "rounds")},
    ),
    "trigger": ({"retention": EventTrigger(0.1)}, {"retention": ("trigger", 0.1)}),
    "estimated mean": (
        {"decay": Wiener(0.1), "mean": "estimated"},
        {"decay": ("wiener", 0.1), "mean": "estimated"},
    ),
    "downwards": (
        {"decay": Markov(0.05), "maximize": False},
        {"decay": ("markov", 0.05), "maximize": False},
    ),
}


def misspecification(index: torch.Tensor, often: np.ndarray) -> float:
    expected, seen = often * len(index), np.bincount(index.numpy(), minlength=len(often))
    rare, order = expected < 8, np.argsort(expected)
    if rare.any():
        first = order[rare.sum()]
        expected[first] += expected[rare].sum()
        seen[first] += seen[rare].sum()
    terms = (seen - expected)[~rare] ** 2 / expected[~rare]
    return float(chi2.sf(terms.sum(), len(terms) - 1))


DRAWS, SAMPLES, LEVEL = 2000, 200_000, 1e-5


@pytest.mark.parametrize("rounds", [0, 6])
@pytest.mark.parametrize("name", THOMPSON)
def test_thompson_takes_an_arm_as_often_as_it_is_the_best(
    name: str, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botorch_tv.gp.points.FREQUENCIES", 128)
    X = GRID.X[torch.tensor([0, 5, 6, 9, 11, 14])]
    K = SETTING.matrix()[np.ix_([0, 5, 6, 9, 11, 14], [0, 5, 6, 9, 11, 14])]
    strategy = GPStrategy(
        kernel=SETTING.module(),
        noise=SETTING.noise,
        width=Constant(1.5),
        exploration=Thompson(),
        **THOMPSON[name][0],
    )
    bandit = DenseBandit(
        K, SETTING.noise, sqrt_beta=lambda t, g, gbar: 1.5**0.5, gains=False, **THOMPSON[name][1]
    )
    state = strategy.init(Box(CUBE, search=DiscreteSearch(X)), batch_shape=(DRAWS,))
    random, time = np.random.default_rng(5), 0.0
    for t in range(rounds):
        arm, y = int(random.integers(6)), float(random.standard_normal())
        time += float(random.exponential(2.0))
        bandit.tell(bandit.consider(arm, time), y, ok=t != 3)
        at = strategy.suggestion_at(state, X[arm].expand(DRAWS, 2), now=time)
        ok = torch.full((DRAWS,), t != 3)
        state, _ = strategy.tell(state, at, torch.full((DRAWS,), y, dtype=X.dtype), ok=ok)
    prediction = bandit.consider(0, time + 1.5).prediction
    sign = -1.0 if name == "downwards" else 1.0
    often = probability_best(sign * prediction.mean, 1.5 * prediction.covariance, SAMPLES, seed=1)
    suggestion = strategy.ask(
        state, now=time + 1.5, generator=torch.Generator().manual_seed(rounds)
    )
    index = (suggestion.X.unsqueeze(1) - X).abs().amax(-1).argmin(-1)
    np.testing.assert_allclose(suggestion.mean, prediction.mean[index], rtol=0, atol=1e-8)
    np.testing.assert_allclose(suggestion.sd, prediction.sd[index], rtol=0, atol=1e-8)
    assert misspecification(index, often) > LEVEL
    if rounds:  # the test tells joint from independent samples
        apart = np.diag(1.5 * prediction.variance)
        wrong = probability_best(sign * prediction.mean, apart, SAMPLES, seed=1)
        assert misspecification(index, wrong) < LEVEL or np.abs(wrong - often).max() < 0.05


def test_random_candidates_are_equally_likely() -> None:
    strategy = BY_NAME["random"].strategy(SETTING.module(), 0.1)
    state = strategy.init(BOX, batch_shape=(3000,), dtype=torch.float32)
    X = strategy.ask(state, generator=torch.Generator().manual_seed(0)).X
    assert X.dtype == torch.float32
    index = GRID.index_of(X)
    assert misspecification(index, np.full(16, 1 / 16)) > LEVEL
