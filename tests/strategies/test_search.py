"""Starts and slopes of searches."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.optim import optimize_acqf
from gpytorch.kernels import MaternKernel, PeriodicKernel, RBFKernel, ScaleKernel
from oracles.dense import log_improvement

from botorch_tv.acquisition import (
    AgnosticGPUCB,
    Constant,
    ExpectedImprovement,
    ProbabilityOfImprovement,
    Thompson,
)
from botorch_tv.forgetting import Markov
from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.gp.search import SearchProblem, _climb, nearest, peaks_of, raw_points, spread
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Box, Float, GPStrategy, Integer, MultiStart, adaptive_gp_ucb
from botorch_tv.strategies.state import draws_from

D = torch.float64
UNIT = Box(torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D))
BROAD, NARROW = torch.tensor([0.25, 0.3], dtype=D), torch.tensor([0.8, 0.75], dtype=D)


def raw_samples(number, dim):
    return spread(number, dim).on(D, torch.device("cpu"))


def two_hills(X, trials):
    broad = 0.9 * torch.exp(-0.5 * (X - BROAD).square().sum(-1) / 0.3**2)
    return broad + torch.exp(-0.5 * (X - NARROW).square().sum(-1) / 0.06**2)


def by_hand(points, values):
    points, values = points.numpy(), values.numpy()
    retained = np.full_like(values, -np.inf)
    for trial, row in enumerate(values):
        for i, value in enumerate(row):
            order = np.argsort(np.linalg.norm(points - points[i], axis=1), kind="stable")
            near = [j for j in order if j != i][: 2 * points.shape[1] + 2]
            if value >= max(row[j] for j in near):
                retained[trial, i] = value
    return retained


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_peaks_are_no_lower_than_their_neighbours(dim):
    source = torch.Generator().manual_seed(dim)
    values = torch.rand(4, 60, dtype=D, generator=source)
    points = raw_points(60, dim, 3, values)
    peaks = peaks_of(points, values)
    np.testing.assert_array_equal(peaks.numpy(), by_hand(points, values))
    assert int((peaks > -torch.inf).sum(-1).max()) < 60 / 2


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 6])
def test_the_nearest_in_a_cube_are_found_among_those_on_a_torus(dim):
    for rounds in (0, 1, 17):
        raw = raw_points(300, dim, rounds, torch.zeros(1, dtype=D))
        apart = (raw.unsqueeze(1) - raw).square().sum(-1).fill_diagonal_(torch.inf)
        wanted = apart.topk(2 * dim + 2, largest=False).indices
        assert torch.equal(nearest(raw, 2 * dim + 2).sort().values, wanted.sort().values)


def test_few_points_have_few_neighbours():
    values = torch.tensor([[0.3, 0.1, 0.2]], dtype=D)
    retained = peaks_of(raw_samples(3, 2), values)
    assert retained.tolist() == [[0.3, -torch.inf, -torch.inf]]  # all three are next to each other
    assert peaks_of(raw_samples(1, 2), values[:, :1]).tolist() == [[0.3]]


def test_a_third_of_the_starts_are_the_best_observations():
    search = MultiStart(raw_samples=64, restarts=6)
    seen = torch.rand(2, 5, 2, dtype=D, generator=torch.Generator().manual_seed(1))
    live = torch.tensor([[True, True, False, True, True], [False, False, True, False, False]])
    heights = two_hills(seen, None).masked_fill(~live, -torch.inf)
    start = search._starts(UNIT, SearchProblem(two_hills, seen, live, 0, 1.0))
    assert start.shape == (2, 6, 2)
    for trial, number in enumerate((2, 1)):
        wanted = seen[trial, heights[trial].topk(number).indices]
        found = [row for row in start[trial] if bool((row == seen[trial]).all(-1).any())]
        torch.testing.assert_close(torch.stack(found), wanted)
        others = {tuple(row) for row in start[trial].tolist()} - {
            tuple(row) for row in wanted.tolist()
        }
        raw = raw_samples(64, 2)
        peaks = by_hand(raw, two_hills(raw, None).unsqueeze(0))[0]
        assert others == {tuple(raw[i].tolist()) for i in np.argsort(-peaks)[: len(others)]}
        assert len(others) == min(6 - number, int(np.isfinite(peaks).sum()))


@dataclass(frozen=True)
class Recording(MultiStart):
    sought: list = field(default_factory=list)

    def best(self, box, sought):
        self.sought.append((box, sought))
        return super().best(box, sought)


def strategy_of(kernel, **parts):
    kernel = kernel.double()
    parts = {"width": Constant(4.0), "decay": Markov(0.05), "noise": 0.01} | parts
    return GPStrategy(kernel=kernel, **parts)


def sought_by(strategy, dim, *, context=0, trials=2, rounds=12):
    random = torch.Generator().manual_seed(dim)
    search = Recording()
    corners = torch.stack([-torch.arange(1.0, dim + 1), torch.arange(dim) + 0.5]).to(D)
    box = Box(corners, context_dim=context, search=search)
    state = strategy.init(box, batch_shape=(trials,))
    contexts = torch.rand(rounds + 1, trials, context, dtype=D, generator=random)
    for number in range(rounds):
        X = box.from_unit(torch.rand(trials, dim, dtype=D, generator=random))
        at = strategy.suggestion_at(state, torch.cat([X, contexts[number]], -1))
        y = X.sum(-1).sin() + torch.randn(trials, dtype=D, generator=random)
        state, _ = strategy.tell(state, at, y)
    strategy.ask(state, **({"context": contexts[-1]} if context else {}))
    return (*search.sought[-1], random)


def compared(strategy, dim, **parts):
    box, sought, random = sought_by(strategy, dim, **parts)
    assert sought.climbed is not None
    for trials in (torch.arange(len(sought.observed)), torch.tensor([1])):
        U = torch.rand(len(trials), 7, dim, dtype=D, generator=random)
        found = _climb(box, sought)(U, trials)
        recorded = _climb(box, sought._replace(climbed=None))(U, trials)
        torch.testing.assert_close(found, recorded, rtol=1e-10, atol=1e-10)
        assert recorded[1].abs().amax() > 1e-2


KERNELS = {
    "squared exponential": lambda dim: RBFKernel(ard_num_dims=dim),
    "Matérn 1/2": lambda dim: MaternKernel(nu=0.5),
    "Matérn 3/2": lambda dim: MaternKernel(nu=1.5),
    "Matérn 5/2, scaled": lambda dim: ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=dim)),
    "of some columns": lambda dim: RBFKernel(active_dims=[dim - 1]),
    "any other": lambda dim: PeriodicKernel(),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("kernel", KERNELS)
def test_bounds_of_a_regression_and_in_features(kernel):
    for dim in (1, 3):
        made = KERNELS[kernel](dim)
        if kernel == "squared exponential":
            made.lengthscale = torch.arange(1.0, dim + 1)
        compared(strategy_of(made, inference="exact"), dim)
    if kernel in ("squared exponential", "of some columns"):
        compared(strategy_of(KERNELS[kernel](2), inference="features"), 2)


BANK = Bank(rates=(0.0, 0.05), lengthscales=(0.2, 0.5), noise_ratios=(0.01,))


def test_bounds_of_the_adaptive_strategy():
    for dim in (1, 2, 6):
        bank = replace(BANK, lengthscales=(0.2 * dim**0.5, 0.5 * dim**0.5))
        compared(adaptive_gp_ucb(bank=bank), dim, rounds=14)


@pytest.mark.parametrize("maximize", [True, False])
def test_bounds_in_a_context_with_widths_of_each_trial(maximize):
    width = {"width": AgnosticGPUCB(B=1.0, delta=0.1), "maximize": maximize}
    compared(strategy_of(RBFKernel(), **width), 2, context=1)
    compared(adaptive_gp_ucb(bank=BANK, **width), 1, context=1, rounds=14)


def test_named_integers_have_slopes_without_rounding():
    search, strategy = Recording(), strategy_of(RBFKernel())
    state = strategy.init(Box({"x": Float(1.0, 9.0), "n": Integer(1, 8)}, search=search))
    for place in (0.1, 0.7):
        at = strategy.suggestion_at(state, torch.tensor([place, place], dtype=D).round(decimals=0))
        state, _ = strategy.tell(state, at, place)
    strategy.ask(state)
    box, sought = search.sought[-1]
    U = torch.rand(1, 5, 2, dtype=D, generator=torch.Generator().manual_seed(0))
    found = _climb(box, sought)(U, torch.arange(1))
    recorded = _climb(box, sought._replace(climbed=None))(U, torch.arange(1))
    torch.testing.assert_close(found, recorded, rtol=1e-10, atol=1e-10)


# ---------------- The point found is the best

NOISE, EPSILON = 0.01, 0.04


def markov_strategy(kind, lengthscale, **parts):
    return GPStrategy(
        kernel=unit_kernel(kind, lengthscale),
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


def posterior_by_hand(kind, lengthscale, X, y, query):
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
        axis = np.linspace(0, 2, 121)
        return np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    random = np.random.default_rng(1)
    inside = 2 * random.random((40_000, dim))
    faces = np.where(random.random(inside.shape) < 0.3, 2.0 * (inside > 1), inside)
    return np.concatenate([inside, faces])


CASES = [(1, "se", 0.15, 9), (2, "se", 0.4, 12), (2, "matern52", 0.7, 25), (3, "se", 0.8, 20)]
CASES += [(6, "matern52", 1.5, 30)]


@pytest.mark.few(1)
@pytest.mark.parametrize(("dim", "kind", "lengthscale", "n"), CASES)
def test_upper_bounds_are_as_high_as_on_a_dense_grid_and_as_botorchs(dim, kind, lengthscale, n):
    strategy = markov_strategy(kind, lengthscale)
    state, X, y = observed(strategy, dim, n)
    suggestion = strategy.ask(state)
    assert suggestion.X.min() >= 0
    assert suggestion.X.max() <= 2
    found = suggestion.mean + 2 * suggestion.sd
    for trial in range(2):
        at = suggestion.X[trial].numpy()[None]
        mean, sd = posterior_by_hand(kind, lengthscale, X[trial], y[trial], at)
        assert float(found[trial]) == pytest.approx(float(mean[0] + 2 * sd[0]), abs=1e-7)
        mean, sd = posterior_by_hand(kind, lengthscale, X[trial], y[trial], dense_points(dim))
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
    strategy = markov_strategy("se", 0.5, exploration=exploration, maximize=maximize)
    state, X, y = observed(strategy, 2, 10, seed=2)
    suggestion, sign = strategy.ask(state), 1 if maximize else -1

    def score(trial, query):
        at_data, _ = posterior_by_hand("se", 0.5, X[trial], y[trial], X[trial])
        mean, sd = posterior_by_hand("se", 0.5, X[trial], y[trial], query)
        u = (sign * mean - (sign * at_data).max()) / sd
        improves = isinstance(exploration, ExpectedImprovement)
        return np.log(sd) + log_improvement(u) if improves else u

    for trial in range(2):
        best = score(trial, dense_points(2)).max()
        assert score(trial, suggestion.X[trial].numpy()[None])[0] >= best - 1e-6


@pytest.mark.full
def test_the_best_of_a_drawn_function_is_found():
    strategy = markov_strategy("matern52", 0.4, exploration=Thompson())
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
        strategy = markov_strategy("se", 0.5, maximize=maximize)
        state, X, y = observed(strategy, 2, 12, seed=4)
        chosen, sign = strategy.recommend(state), 1 if maximize else -1
        for trial in range(2):
            means, _ = posterior_by_hand("se", 0.5, X[trial], y[trial], dense_points(2))
            mean, _ = posterior_by_hand("se", 0.5, X[trial], y[trial], chosen[trial].numpy()[None])
            assert sign * mean[0] >= (sign * means).max() - 1e-6


def test_bounds_hold_where_all_is_better_beyond():
    strategy = GPStrategy(kernel=unit_kernel("se", 3.0), noise=1e-4, width=Constant(1e-8))
    state = strategy.init(Box(torch.tensor([[-3.0, 5.0], [-1.0, 6.5]], dtype=D)))
    for x in ((-3.0, 5.0), (-1.0, 5.0), (-3.0, 6.5), (-2.0, 6.0), (-1.0, 6.5)):
        X = torch.tensor(x, dtype=D)
        value = X[0] + 2 - 0.5 * (X[1] - 5.75)
        state, _ = strategy.tell(state, strategy.suggestion_at(state, X), value)
    assert strategy.ask(state).X.tolist() == [-1.0, 5.0]
    assert strategy.recommend(state).tolist() == [-1.0, 5.0]
