"""The point found is the best: against dense grids, BoTorch's optimiser, and by hand."""

import sys
from functools import partial

import numpy as np
import pytest
import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.optim import optimize_acqf
from gpytorch.kernels import MaternKernel, RBFKernel
from oracles.dense import log_improvement

from botorch_tv.acquisition import (
    Constant,
    ExpectedImprovement,
    ProbabilityOfImprovement,
    Thompson,
    UpperConfidence,
)
from botorch_tv.forgetting import Markov
from botorch_tv.loop import Loop
from botorch_tv.strategies import Box, DiscreteSearch, GPStrategy
from botorch_tv.strategies.candidates import _SomeTrials
from botorch_tv.strategies.state import draws_from

D = torch.float64
NOISE, EPSILON = 0.01, 0.04


def module(kind, lengthscale):
    kernel = (RBFKernel() if kind == "se" else MaternKernel(nu=2.5)).double()
    kernel.lengthscale = torch.tensor(lengthscale, dtype=D)
    return kernel


def strategy_of(kind, lengthscale, **parts):
    return GPStrategy(
        kernel=module(kind, lengthscale),
        noise=NOISE,
        decay=Markov(EPSILON),
        width=Constant(4.0),
        **parts,
    )


def observed(strategy, dim, n, seed=0, trials=2):
    """A state after n observations at random points of [0, 2]^d; and these, trial by trial."""
    random = np.random.default_rng([seed, dim])
    X, y = 2 * random.random((n, trials, dim)), random.standard_normal((n, trials))
    box = Box(torch.tensor([[0.0] * dim, [2.0] * dim], dtype=D))
    state = strategy.init(box, batch_shape=(trials,))
    for t in range(n):
        at = strategy.suggestion_at(state, torch.tensor(X[t]))
        state, _ = strategy.tell(state, at, torch.tensor(y[t]))
    return state, X.transpose(1, 0, 2), y.T


def by_hand(kind, lengthscale, X, y, query):
    def k(a, b):
        square = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T
        r = np.sqrt(np.clip(square, 0, None)) / lengthscale
        if kind == "se":
            return np.exp(-0.5 * r**2)
        return (1 + 5**0.5 * r + 5 * r**2 / 3) * np.exp(-(5**0.5) * r)

    t = np.arange(1.0, len(y) + 1)
    A = k(X, X) * (1 - EPSILON) ** (np.abs(np.subtract.outer(t, t)) / 2) + NOISE * np.eye(len(y))
    cross = k(query, X) * (1 - EPSILON) ** ((len(y) + 1 - t) / 2)
    variance = 1 - (cross * np.linalg.solve(A, cross.T).T).sum(1)
    return cross @ np.linalg.solve(A, y), np.sqrt(np.clip(variance, 1e-12, None))


def dense_points(dim):
    if dim == 1:
        return np.linspace(0, 2, 4001)[:, None]
    if dim == 2:
        axis = np.linspace(0, 2, 161)
        return np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    random = np.random.default_rng(1)
    inside = 2 * random.random((40_000, dim))
    faces = np.where(random.random(inside.shape) < 0.3, 2.0 * (inside > 1), inside)
    return np.concatenate([inside, faces])


CASES = [(1, "se", 0.15, 9), (2, "se", 0.4, 12), (2, "m52", 0.7, 25), (3, "se", 0.8, 20)]
CASES += [(6, "m52", 1.5, 30)]


@pytest.mark.parametrize(("dim", "kind", "lengthscale", "n"), CASES)
def test_upper_bounds_are_as_high_as_on_a_dense_grid_and_as_botorchs(dim, kind, lengthscale, n):
    strategy = strategy_of(kind, lengthscale)
    state, X, y = observed(strategy, dim, n)
    suggestion = strategy.ask(state)
    assert suggestion.X.min() >= 0
    assert suggestion.X.max() <= 2
    found = suggestion.mean + 2 * suggestion.sd
    for trial in range(2):
        at = suggestion.X[trial].numpy()[None]
        mean, sd = by_hand(kind, lengthscale, X[trial], y[trial], at)
        assert float(found[trial]) == pytest.approx(float(mean[0] + 2 * sd[0]), abs=1e-7)
        mean, sd = by_hand(kind, lengthscale, X[trial], y[trial], dense_points(dim))
        assert float(found[trial]) >= (mean + 2 * sd).max() - 1e-6
    # BoTorch on the strategy's own model, a trial alone.
    alone = strategy.init(state.domain)
    for t in range(n):
        at = strategy.suggestion_at(alone, torch.tensor(X[0, t]))
        alone, _ = strategy.tell(alone, at, torch.tensor(y[0, t]))
    torch.manual_seed(0)
    _, theirs = optimize_acqf(
        UpperConfidenceBound(strategy.as_model(alone), beta=4.0),
        state.domain.bounds,
        q=1,
        num_restarts=4,
        raw_samples=128,
    )
    assert float(found[0]) >= float(theirs) - 1e-3


@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("exploration", [ExpectedImprovement(), ProbabilityOfImprovement()])
def test_improvements_are_as_high_as_on_a_dense_grid(exploration, maximize):
    strategy = strategy_of("se", 0.5, exploration=exploration, maximize=maximize)
    state, X, y = observed(strategy, 2, 10, seed=2)
    suggestion, sign = strategy.ask(state), 1 if maximize else -1

    def score(trial, query):
        at_data, _ = by_hand("se", 0.5, X[trial], y[trial], X[trial])
        mean, sd = by_hand("se", 0.5, X[trial], y[trial], query)
        u = (sign * mean - (sign * at_data).max()) / sd
        improves = isinstance(exploration, ExpectedImprovement)
        return np.log(sd) + log_improvement(u) if improves else u

    for trial in range(2):
        best = score(trial, dense_points(2)).max()
        assert score(trial, suggestion.X[trial].numpy()[None])[0] >= best - 1e-6


def test_the_best_of_a_drawn_function_is_found():
    strategy = strategy_of("m52", 0.4, exploration=Thompson())
    state, _, _ = observed(strategy, 2, 8)
    chosen = strategy.ask(state, generator=torch.Generator().manual_seed(3))
    # The same function once more, everywhere.
    draws = draws_from(torch.Generator().manual_seed(3), state)
    candidates = strategy.decision(state)._points(strategy.exploration, draws)
    posterior = candidates.posterior

    def values(X):
        return posterior.mean_at(X) + 2.0 * posterior.sample_at(X)

    grid = torch.tensor(dense_points(2)).expand(2, -1, -1)
    best = torch.cat([values(part).amax(-1, keepdim=True) for part in grid.split(4000, 1)], 1)
    assert (values(chosen.X.unsqueeze(1))[:, 0] >= best.amax(-1) - 1e-6).all()


def test_recommended_is_the_best_mean():
    for maximize in (True, False):
        strategy = strategy_of("se", 0.5, maximize=maximize)
        state, X, y = observed(strategy, 2, 12, seed=4)
        chosen, sign = strategy.recommend(state), 1 if maximize else -1
        for trial in range(2):
            means, _ = by_hand("se", 0.5, X[trial], y[trial], dense_points(2))
            mean, _ = by_hand("se", 0.5, X[trial], y[trial], chosen[trial].numpy()[None])
            assert sign * mean[0] >= (sign * means).max() - 1e-6


def test_bounds_hold_where_all_is_better_beyond():
    strategy = GPStrategy(kernel=module("se", 3.0), noise=1e-4, width=Constant(1e-8))
    state = strategy.init(Box(torch.tensor([[-3.0, 5.0], [-1.0, 6.5]], dtype=D)))
    for x in ((-3.0, 5.0), (-1.0, 5.0), (-3.0, 6.5), (-2.0, 6.0), (-1.0, 6.5)):
        X = torch.tensor(x, dtype=D)
        value = X[0] + 2 - 0.5 * (X[1] - 5.75)
        state, _ = strategy.tell(state, strategy.suggestion_at(state, X), value)
    assert strategy.ask(state).X.tolist() == [-1.0, 5.0]
    assert strategy.recommend(state).tolist() == [-1.0, 5.0]


def test_a_uniform_number_1_takes_the_last_candidate():
    class Highest:
        def uniform(self):
            return torch.ones(3)

    X = torch.tensor([[0.1], [0.5], [0.9]], dtype=D)
    box = Box(torch.tensor([[0.0], [1.0]], dtype=D), search=DiscreteSearch(X))
    assert box.search.anywhere(box, Highest()).flatten().tolist() == pytest.approx([0.9] * 3)


def test_the_ascent_is_of_the_score_itself():
    rules = [UpperConfidence(), ExpectedImprovement(), ProbabilityOfImprovement(), Thompson()]
    for exploration in rules:
        strategy = strategy_of("se", 0.6, exploration=exploration)
        state, _, _ = observed(strategy, 2, 5, trials=3)
        draws = draws_from(torch.Generator().manual_seed(0), state)
        whole = strategy.decision(state)._points(exploration, draws)
        whole.sqrt_beta = torch.tensor([[1.0], [2.0], [3.0]], dtype=D)
        X = torch.rand(3, 2, 2, dtype=D, generator=torch.Generator().manual_seed(5))
        some = torch.tensor([2, 0])
        values = whole._scored(exploration.score, X)
        assert values.shape == (3, 2)
        picked = _SomeTrials(whole, some)._scored(exploration.score, X[some])
        torch.testing.assert_close(picked, values[some])
        X.requires_grad_(True)
        score = partial(whole._scored, exploration.score)
        assert torch.autograd.gradcheck(score, X)


def test_ascents_do_not_import_sympy(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.fx.experimental.symbolic_shapes", None)
    loop = Loop(Box([[0, 1]]), seed=0)
    for y in (0.1, 0.7, 0.4, 0.5):
        loop.observe([y], y)
    loop.recommend()
