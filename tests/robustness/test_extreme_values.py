"""Extreme values are refused, or all results are finite."""

import math
from dataclasses import replace

import pytest
import torch
from botorch.exceptions import InputDataError
from conformance.presets import BY_NAME
from gpytorch.kernels import RBFKernel, ScaleKernel

from botorch_tv.learning import Refit
from botorch_tv.loop import Loop
from botorch_tv.strategies import Box, Grid, gp_ucb, tv_gp_ucb, ui_tvbo
from botorch_tv.strategies.arguments import least_noise
from botorch_tv.validation import largest, latest

# Extremes are the point here.
pytestmark = pytest.mark.filterwarnings("ignore::botorch_tv.validation.MisspecificationWarning")
D, S = torch.float64, torch.float32
NAMES = ["GP-UCB", "TV-GP-UCB", "SW-GP-UCB", "ET-GP-UCB", "WGP-UCB", "UI-TVBO", "GP-TS"]
NAMES += ["GP-EI", "TV-GP-UCB estimated mean"]
GRID = Grid.regular(points=3, dim=2)
BOX = Box(torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D))


def kernel(variance=1.0):
    module = ScaleKernel(RBFKernel()).double()
    module.base_kernel.lengthscale, module.outputscale = 0.3, variance
    return module


def play(strategy, domain, y, dtype=D, rounds=4, **options):
    """Rounds with the observation y; all results are finite."""
    state = strategy.init(domain, batch_shape=(2,), dtype=dtype)
    for t in range(rounds):
        suggestion = strategy.ask(state, generator=torch.Generator().manual_seed(t))
        for part in (suggestion.X, suggestion.mean, suggestion.sd, suggestion.sqrt_beta):
            assert part.isfinite().all(), f"round {t + 1}"
        state, info = strategy.tell(
            state, suggestion, torch.tensor([y, -y], dtype=dtype), **options
        )
        assert info.information_gain.isfinite().all()
    assert strategy.recommend(state).isfinite().all()
    return state


@pytest.mark.parametrize("dtype", [D, S], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_the_largest_observation(name, dtype):
    noise = 0.02
    strategy = BY_NAME[name].strategy(kernel(), noise)
    most = 0.99 * largest(dtype) * noise**0.5
    play(strategy, GRID, most, dtype)
    with pytest.raises(InputDataError, match=r"too large for .*choose another unit"):
        play(strategy, GRID, 1.1 * largest(dtype), dtype)


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", [D, S], ids=str)
@pytest.mark.parametrize("learning", [None, Refit(every=2, least=2)], ids=["fixed", "learned"])
def test_the_largest_observation_on_a_box(learning, dtype):
    strategy = replace(tv_gp_ucb(kernel=kernel(), noise=0.02, epsilon=0.01), learning=learning)
    state = play(strategy, BOX, 0.1 * largest(dtype), dtype)
    assert strategy.posterior(state, BOX.bounds.to(dtype)).mean.isfinite().all()


@pytest.mark.few(8)
@pytest.mark.parametrize("dtype", [D, S], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_the_smallest_noise(name, dtype):
    """Of a strategy and of an observation; below it, variances vanish in rounding."""
    least = least_noise(1.0, dtype)
    play(BY_NAME[name].strategy(kernel(), 1.01 * least), GRID, 0.3, dtype, rounds=12)
    strategy = BY_NAME[name].strategy(kernel(), 0.02)
    play(strategy, GRID, 0.3, dtype, rounds=12, noise=1.01 * least)
    with pytest.raises(ValueError, match=r"noise is .* must lie in .*; use (1e-06|0.0001) times"):
        play(BY_NAME[name].strategy(kernel(), 0.9 * least), GRID, 0.3, dtype)
    with pytest.raises(InputDataError, match="noise variance is not positive and finite, from"):
        play(strategy, GRID, 0.3, dtype, noise=0.9 * least)


@pytest.mark.parametrize("name", NAMES)
def test_the_latest_time(name):
    strategy = BY_NAME[name].strategy(kernel(), 0.02)
    state = play(strategy, GRID, 0.3, time=1.0)
    y = torch.tensor([0.1, 0.2], dtype=D)
    last = latest(D)
    state, _ = strategy.tell(state, strategy.ask(state, now=last - 1), y)
    suggestion = strategy.ask(state, now=last)
    assert suggestion.mean.isfinite().all()
    assert suggestion.sd.isfinite().all()
    for time in (1e308, 2 * last, -2 * last):
        with pytest.raises(InputDataError, match="is no valid now: a time must be finite"):
            strategy.ask(state, now=time)
        with pytest.raises(InputDataError, match="is no valid time: a time must be"):
            strategy.tell(state, suggestion, y, time=time)


@pytest.mark.parametrize(
    ("make", "dtype", "message"),
    [
        (lambda: gp_ucb(kernel=kernel(1e30), noise=1e10), S, r"variance is 1e\+30, but in .*unit"),
        (lambda: gp_ucb(kernel=kernel(), noise=1e16), S, r"noise is 1e\+16, but .* 1e\+15"),
        (lambda: gp_ucb(kernel=kernel(), noise=0.1, mean=1e151), D, r"mean is 1e\+151, .* unit"),
        (lambda: gp_ucb(kernel=kernel(), noise=0.1, mean=1e16), S, r"mean is 1e\+16, .* unit"),
        (lambda: ui_tvbo(kernel=kernel(), noise=0.1, sigma_w2=1e20), S, "growth of the variance"),
    ],
)
def test_values_beyond_a_dtype_are_refused(make, dtype, message):
    for domain in (GRID, BOX):
        with pytest.raises((ValueError, InputDataError), match=message):
            make().init(domain, dtype=dtype)


def test_a_box_that_a_dtype_cannot_hold():
    with pytest.raises(InputDataError, match=r"at most 1e\+150 in size, "):
        Box(torch.tensor([[-1e308], [1e308]], dtype=D))
    far = Box(torch.tensor([[1e6], [1e6 + 1]], dtype=D))
    strategy = gp_ucb(kernel=kernel(), noise=0.1)
    strategy.init(far)
    with pytest.raises(InputDataError, match=r"ranges of at least \[7\.6.*\] \(64 times"):
        strategy.init(far, dtype=S)


def test_context_that_cannot_be_squared():
    strategy = gp_ucb(kernel=kernel(), noise=0.1)
    state = strategy.init(Box(BOX.bounds, context_dim=1))
    with pytest.raises(InputDataError, match=r"1e\+300 is no valid context: .* 1e\+150"):
        strategy.ask(state, context=torch.tensor([1e300], dtype=D))


@pytest.mark.few(1)
@pytest.mark.parametrize("wrong", [1e150, -1e150])
def test_a_wrong_reading_whose_square_is_infinite_in_units_of_the_others(wrong):
    """It has the same small effect as a reading of 1e50."""

    def mean(reading):
        loop = Loop([(0.0, 1.0)])
        for number in range(12):
            y = reading if number == 9 else 1e-8 * math.sin(number)
            loop.observe([number * 0.37 % 1], y, time=float(number))
        return loop.posterior([[0.2], [0.6]]).mean

    torch.testing.assert_close(mean(wrong), mean(1e50), rtol=1e-6, atol=0)
