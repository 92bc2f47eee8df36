"""Starts and slopes of searches."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from gpytorch.kernels import MaternKernel, PeriodicKernel, RBFKernel, ScaleKernel

from botorch_tv.acquisition import AgnosticGPUCB, Constant, ExpectedImprovement, UpperConfidence
from botorch_tv.forgetting import Markov
from botorch_tv.gp.search import Sought, _climb, nearest, peaks_of, raw_points, spread
from botorch_tv.strategies import Box, Float, GPStrategy, Integer, MultiStart, adaptive_gp_ucb

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
    start = search._starts(UNIT, Sought(two_hills, seen, live, 0, 1.0))
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


class Half(UpperConfidence):
    def score(self, candidates):
        return 0.5 * super().score(candidates)


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


@pytest.mark.parametrize("kernel", KERNELS)
def test_bounds_of_a_regression(kernel):
    for dim in (1, 3):
        made = KERNELS[kernel](dim)
        if kernel == "squared exponential":
            made.lengthscale = torch.arange(1.0, dim + 1)
        compared(strategy_of(made, inference="exact"), dim)


@pytest.mark.parametrize("kernel", ["squared exponential", "of some columns"])
def test_bounds_in_features(kernel):
    compared(strategy_of(KERNELS[kernel](2), inference="features"), 2)


def test_bounds_of_the_adaptive_strategy():
    for dim in (1, 2):
        compared(adaptive_gp_ucb(), dim, rounds=14)


@pytest.mark.parametrize("maximize", [True, False])
def test_bounds_in_a_context_with_widths_of_each_trial(maximize):
    width = {"width": AgnosticGPUCB(B=1.0, delta=0.1), "maximize": maximize}
    compared(strategy_of(RBFKernel(), **width), 2, context=1)
    compared(adaptive_gp_ucb(**width), 1, context=1, rounds=14)


def test_user_defined_scores_have_recorded_slopes():
    for exploration in (Half(), ExpectedImprovement()):
        _, sought, _ = sought_by(strategy_of(RBFKernel(), exploration=exploration), 1, rounds=2)
        assert sought.climbed is None


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
