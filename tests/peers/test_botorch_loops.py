"""The loops written with BoTorch alone make the library's choices."""

import pytest
import torch

from benchmarks.speed.against_botorch import play, rewards, spread, strategy, time_peer, verify
from benchmarks.speed.botorch_gp_ucb import LOOPS, Problem, lowest_best
from botorch_tv.strategies import Grid

POINTS, ROUNDS, TRIALS = 10, 15, 3


def world(seed):
    return rewards(points=POINTS, epsilon=0.03, trials=TRIALS, seed=seed)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "epsilon",
    [None, 0.03, pytest.param(0.3, marks=pytest.mark.slow)],
    ids=["gp_ucb", "tv_0.03", "tv_0.3"],
)
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_loop_makes_the_choices_of_the_library(loop, epsilon):
    domain = Grid.regular(points=POINTS, dim=2)
    problem = Problem(domain.X, epsilon=epsilon)
    played = play(strategy(epsilon), domain, world(1), ROUNDS)
    assert played.indices[:, 0].unique().numel() > 5
    verify(loop(problem), played, world(1), ROUNDS)
    assert len(time_peer(loop(problem), played, spread(ROUNDS, 4))) == 4


def test_a_different_choice_is_reported():
    domain = Grid.regular(points=POINTS, dim=2)
    played = play(strategy(None), domain, world(1), ROUNDS)
    other = played._replace(indices=(played.indices + 1) % len(domain))
    with pytest.raises(AssertionError, match="chose arm 0 in round 1, the engine 1"):
        verify(LOOPS[1](Problem(domain.X)), other, world(1), ROUNDS)


def test_lowest_index_wins_a_tie():
    mean = torch.tensor([0.0, 1.0 - 5e-8, 1.0], dtype=torch.float64)
    assert lowest_best(mean, torch.zeros(3, dtype=torch.float64), 1.0) == 1
    assert lowest_best(mean, torch.tensor([4.0, 0, 0], dtype=torch.float64), 1.0) == 0


def test_timed_rounds_spread_over_the_horizon():
    assert spread(200, 500) == set(range(2, 201))
    rounds = sorted(spread(200, 50))
    assert len(rounds) == 50
    assert 2 <= rounds[0] < rounds[-1] <= 200
    assert abs(sum(rounds) / 50 - 101) <= 1


def test_the_world_has_the_covariance_of_the_kernel():
    sample = rewards(points=4, epsilon=0.5, trials=40_000, seed=0)
    first = sample.values
    sample.advance()
    X = Grid.regular(points=4, dim=2).X
    expected = torch.exp(-0.5 * torch.cdist(X, X).square() / 0.2**2)
    assert torch.allclose(first.mT @ first / 40_000, expected, atol=0.04)
    assert torch.allclose(first.mT @ sample.values / 40_000, expected * 0.5**0.5, atol=0.04)
