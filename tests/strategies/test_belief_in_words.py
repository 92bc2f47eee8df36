"""What is said of a world is so."""

import math

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import RBFKernel

from botorch_tv.strategies import Grid, Loop, adaptive_gp_ucb, gp_ucb

DOMAIN = Grid.regular(points=12, dim=1)


def told(jump: bool, clock: float = 1.0):
    """A state after 60 readings of a wave, noise 0.2, scale near 3, that changes at 40 or stays."""
    player, generator = adaptive_gp_ucb(), torch.Generator().manual_seed(0)
    state = player.init(DOMAIN)
    for t in range(60):
        X = DOMAIN.X[(5 * t) % 12]
        suggestion = player.suggestion_at(state, X, now=clock * t)
        phase = 2.5 if jump and t >= 40 else 0.0
        error = 0.2 * torch.randn((), generator=generator, dtype=torch.float64)
        y = 70 + 4 * torch.sin(7 * X.sum() + phase) + error
        state, _ = player.tell(state, suggestion, y)
    return player, state


def test_a_world_that_stands_still():
    player, state = told(jump=False)
    words = player.describe(state)
    assert words.startswith("It stands still")
    assert "not been seen to" in words
    noise = float(player.believed_noise(state).sqrt())
    assert 0.1 < noise < 0.5
    assert f"off by {noise:.2g}" in words
    assert float(player.weights(state).sum()) == pytest.approx(1.0)
    assert float(player.weights(state)[:, 0].sum()) > 0.5


def test_a_jump_is_dated_in_the_unit_of_the_clock():
    player, state = told(jump=True, clock=3600.0)
    running = state.data.running
    assert not math.isnan(float(running.jumped))
    assert 40 * 3600 <= float(running.jumped) <= 44 * 3600
    assert f"It jumped before time {float(running.jumped):g}" in player.describe(state)
    assert 0 <= float(player.jump(state)) < 0.5


def test_a_loop_says_it_too():
    loop = Loop(DOMAIN)
    assert loop.describe().startswith(adaptive_gp_ucb().describe(loop.state))
    told_all = gp_ucb(kernel=RBFKernel().double(), noise=0.1)
    assert "noise=0.1" in Loop(told_all, DOMAIN).describe()


def test_before_anything_is_known_and_of_several_trials():
    player = adaptive_gp_ucb()
    assert "0 of the first" in player.describe(player.init(DOMAIN))
    with pytest.raises(InputDataError, match="one can be told of at a time"):
        player.describe(player.init(DOMAIN, batch_shape=(2,)))


def test_values_that_never_differ():
    """No scale can be had of them, and that is said, however many there are."""
    player, state = adaptive_gp_ucb(starts=3), adaptive_gp_ucb(starts=3).init(DOMAIN)
    for told in range(1, 6):
        state, _ = player.tell(state, player.ask(state), 2.5)
        words = player.describe(state)
        if told < 3:
            assert f"{told} of the first 3 measurements" in words
        else:
            assert f"all {told} measurements so far are 2.5" in words
            assert "without a difference there is no scale" in words
    failed = player.suggestion_at(state, DOMAIN.X[0])
    state, _ = player.tell(state, failed, 9.0, ok=torch.tensor(False))
    assert "all 5 measurements so far are 2.5" in player.describe(state)
    for y in (2.5, 2.75, 3.0):
        state, _ = player.tell(state, player.ask(state), y)
    assert "Nothing is believed" not in player.describe(state)
