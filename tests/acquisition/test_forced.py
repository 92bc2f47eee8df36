"""Forced exploration: between another exploration and pure chance."""

import pytest
import torch
from conformance.user_parts import EpsilonGreedy

from botorch_tv.acquisition import Exploration, Forced, Thompson, UpperConfidence
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Box, GPStrategy, Grid, Strategy

DOMAINS = [Grid.regular(points=5, dim=2), Box([(0.0, 1.0), (0.0, 1.0)])]
MIDDLE = torch.tensor([0.5, 0.5], dtype=torch.float64)
each_domain = pytest.mark.parametrize("domain", DOMAINS, ids=["grid", "box"])


def strategy(exploration: Exploration) -> Strategy:
    return GPStrategy(kernel=unit_kernel("se", 0.3), noise=0.05, exploration=exploration)


def played(exploration: Exploration, domain, trials: int = 6, rounds: int = 6) -> torch.Tensor:
    player = strategy(exploration)
    state, points = player.init(domain, batch_shape=(trials,)), []
    for t in range(rounds):
        suggestion = player.ask(state, generator=torch.Generator().manual_seed(t))
        points.append(suggestion.X)
        state, _ = player.tell(state, suggestion, torch.cos(4 * suggestion.X.sum(-1) + t))
    return torch.stack(points)


def test_no_chance_is_the_other_exploration():
    points = played(Forced(0.0), DOMAINS[1])  # on a grid: law 3
    torch.testing.assert_close(points, played(UpperConfidence(), DOMAINS[1]), rtol=0, atol=1e-9)


@each_domain
def test_sure_chance_is_pure_chance(domain):
    first = played(Forced(1.0), domain, trials=200, rounds=1)[0]
    assert len(first.unique(dim=0)) > 20  # an upper bound would take the same point in all


@each_domain
def test_the_other_remembers_as_it_does_alone(domain):
    alone, forced = strategy(EpsilonGreedy()), strategy(Forced(0.0, EpsilonGreedy()))
    states = [player.init(domain) for player in (alone, forced)]
    for t in range(3):
        for number, player in enumerate((alone, forced)):
            suggestion = player.suggestion_at(states[number], MIDDLE)
            states[number], _ = player.tell(states[number], suggestion, 0.1 * t)
    fades = [state.memory[-1] for state in states]
    assert float(fades[0]) == pytest.approx(0.9**3)
    assert torch.equal(*fades)


def test_functions_are_drawn_where_the_other_needs_them():
    assert Forced(0.1, Thompson()).samples
    assert not Forced(0.1).samples
    assert played(Forced(0.5, Thompson()), DOMAINS[0]).shape == (6, 6, 2)
