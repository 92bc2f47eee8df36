"""Derivatives of confidence bounds that are written out, against those that PyTorch records."""

from dataclasses import dataclass, field

import pytest
import torch
from gpytorch.kernels import MaternKernel, PeriodicKernel, RBFKernel, ScaleKernel

from botorch_tv.acquisition import AgnosticGPUCB, Constant, ExpectedImprovement, UpperConfidence
from botorch_tv.forgetting import Markov
from botorch_tv.gp.search import _climb
from botorch_tv.strategies import Box, Float, GPStrategy, Integer, MultiStart, adaptive_gp_ucb

D = torch.float64


@dataclass(frozen=True)
class Retained(MultiStart):
    sought: list = field(default_factory=list)

    def best(self, box, sought):
        self.sought.append((box, sought))
        return super().best(box, sought)


class Half(UpperConfidence):
    def score(self, candidates):
        return 0.5 * super().score(candidates)


def told(kernel, **parts):
    kernel = kernel.double()
    parts = {"width": Constant(4.0), "decay": Markov(0.05), "noise": 0.01} | parts
    return GPStrategy(kernel=kernel, **parts)


def sought_by(strategy, dim, *, context=0, trials=2, rounds=12):
    random = torch.Generator().manual_seed(dim)
    search = Retained()
    corners = torch.stack([-torch.arange(1.0, dim + 1), torch.arange(dim) + 0.5]).to(D)
    box = Box(corners, context_dim=context, search=search)
    state = strategy.init(box, batch_shape=(trials,))
    known = torch.rand(rounds + 1, trials, context, dtype=D, generator=random)
    for number in range(rounds):
        X = box.from_unit(torch.rand(trials, dim, dtype=D, generator=random))
        at = strategy.suggestion_at(state, torch.cat([X, known[number]], -1))
        y = X.sum(-1).sin() + torch.randn(trials, dtype=D, generator=random)
        state, _ = strategy.tell(state, at, y)
    strategy.ask(state, **({"context": known[-1]} if context else {}))
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
        compared(told(made, inference="exact"), dim)


@pytest.mark.parametrize("kernel", ["squared exponential", "of some columns"])
def test_bounds_in_features(kernel):
    compared(told(KERNELS[kernel](2), inference="features"), 2)


def test_bounds_of_a_strategy_that_is_told_nothing():
    for dim in (1, 2):
        compared(adaptive_gp_ucb(), dim, rounds=14)


@pytest.mark.parametrize("maximize", [True, False])
def test_bounds_in_a_context_with_widths_of_each_trial(maximize):
    width = {"width": AgnosticGPUCB(B=1.0, delta=0.1), "maximize": maximize}
    compared(told(RBFKernel(), **width), 2, context=1)
    compared(adaptive_gp_ucb(**width), 1, context=1, rounds=14)


def test_scores_of_ones_own_are_recorded():
    for exploration in (Half(), ExpectedImprovement()):
        _, sought, _ = sought_by(told(RBFKernel(), exploration=exploration), 1, rounds=2)
        assert sought.climbed is None


def test_named_integers_have_the_slopes_of_what_is_not_rounded():
    search, strategy = Retained(), told(RBFKernel())
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
