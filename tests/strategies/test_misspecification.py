"""Warnings name data, domains and clocks that are far from the prior: once, and no others."""

import warnings
from dataclasses import replace

import pytest
import torch
from conformance.presets import BY_NAME
from gpytorch.kernels import LinearKernel, MaternKernel, PeriodicKernel, RBFKernel, ScaleKernel

from botorch_tv.forgetting import SlidingWindow, UncertaintyInjection
from botorch_tv.learning import Refit
from botorch_tv.simulation import AbruptWorld, MarkovWorld, StaticWorld
from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds.grid import GaussianDraw, RKHSFunctions
from botorch_tv.strategies import (
    Box,
    Grid,
    et_gp_ucb,
    gp_ucb,
    tv_gp_ucb,
    ui_gp_ucb,
    ui_tvbo,
    w_gp_ucb,
)
from botorch_tv.validation import MisspecificationWarning

D = torch.float64
GRID = Grid.regular(points=4, dim=2)


def kernel(lengthscale=0.3, variance=1.0, make=RBFKernel):
    module = ScaleKernel(make()).double()
    module.base_kernel.lengthscale, module.outputscale = lengthscale, variance
    return module


def box(*sides):
    return Box(torch.tensor(sides, dtype=D).T.contiguous())


UNIT = box((0, 1), (0, 1))


def told(strategy, domain, values, times=None, batch=(), **options):
    """The warnings of a run in which these values are told."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        state = strategy.init(domain, batch_shape=batch)
        for t, y in enumerate(values):
            now = None if times is None else times[t]
            suggestion = strategy.ask(state, now=now, generator=torch.Generator().manual_seed(t))
            y = torch.as_tensor(y, dtype=D).expand(batch)
            state, _ = strategy.tell(state, suggestion, y, **options)
    return [one for one in caught if issubclass(one.category, MisspecificationWarning)]


RAW = [55.0, 55.3, 54.6, 55.1, 56.0]


@pytest.mark.parametrize(
    "name", ["GP-UCB", "TV-GP-UCB", "ET-GP-UCB", "WGP-UCB", "UI-TVBO", "GP-TS"]
)
@pytest.mark.parametrize("domain", [GRID, UNIT], ids=["grid", "box"])
def test_raw_measurements_are_named_once(name, domain):
    [warning] = told(BY_NAME[name].strategy(kernel(), 0.02), domain, RAW)
    said = str(warning.message)
    for part in (
        "an observation is 55",
        "prior mean is 0",
        "deviation",
        'mean="estimated"',
        "outputscale",
        "standardise",
    ):
        assert part in said
    assert warning.filename == __file__


def test_the_first_that_is_far_and_no_other():
    strategy = gp_ucb(kernel=kernel(), noise=0.02)
    assert len(told(strategy, GRID, [0.3, 20.0, -20.0, 30.0, -40.0, 55.0])) == 1
    assert not told(strategy, GRID, [0.3, 20.0, -20.0])
    assert len(told(strategy, GRID, RAW, batch=(3,))) == 1
    assert not told(strategy, GRID, RAW, check=False)
    assert not told(strategy, GRID, [1e9] * 3, ok=torch.tensor(False))


@pytest.mark.parametrize(
    "cure",
    [
        lambda s: replace(s, mean=55.0),
        lambda s: replace(s, mean="estimated"),
        lambda s: replace(s, kernel=kernel(variance=60.0)),
        lambda s: replace(s, noise=100.0),
    ],
    ids=["mean", "estimated mean", "outputscale", "noise"],
)
def test_the_cures_are_some(cure):
    assert not told(cure(tv_gp_ucb(kernel=kernel(), noise=0.02, epsilon=0.01)), GRID, RAW)


def test_an_estimated_mean_has_a_scale_to_fit():
    strategy = gp_ucb(kernel=kernel(), noise=0.02, mean="estimated")
    [warning] = told(strategy, GRID, [55.0, 540.0, 55.0])
    assert "the mean of earlier observations is 55" in str(warning.message)


def test_a_learned_variance_fits_itself():
    strategy = tv_gp_ucb(kernel=kernel(), noise=0.02, epsilon=0.01)
    assert not told(replace(strategy, learning=Refit(every=50)), UNIT, RAW)
    assert told(replace(strategy, learning=Refit(every=50, outputscale=None)), UNIT, RAW)


def test_a_random_walk_may_have_gone_far():
    walk = ui_tvbo(kernel=kernel(), noise=0.02, sigma_w2=1.0)
    assert not told(walk, GRID, [0.0, 90.0], times=[0.0, 100.0])
    assert told(walk, GRID, [0.0, 33.0], times=[0.0, 0.1])


DOMAINS = [
    (box((20, 80), (1, 10)), kernel(0.2), "apart in coordinate 0, a hundredth of the range"),
    (box((0, 1), (300, 900)), kernel(), "apart in coordinate 1"),
    (box((0, 1e-4)), kernel(), "functions are constant"),
    (Grid.regular(5, 2, bounds=[(0, 100), (0, 100)]), kernel(), "predicts nothing about others"),
    (Grid.regular(5, 1, bounds=[(0, 1e-4)]), kernel(), "functions are constant"),
]


@pytest.mark.parametrize(("domain", "module", "said"), DOMAINS)
def test_a_kernel_for_another_unit(domain, module, said):
    [warning] = told(gp_ucb(kernel=module, noise=0.02), domain, [])
    assert said in str(warning.message)
    assert "Give lengthscales in the unit of the coordinates" in str(warning.message)
    assert warning.filename == __file__
    strategy = replace(gp_ucb(kernel=module, noise=0.02), learning=Refit())
    if isinstance(domain, Box):
        assert not told(strategy, domain, [])


FIT = [
    (UNIT, kernel(0.02)),
    (UNIT, kernel(5.0)),
    (UNIT, kernel(0.05, make=lambda: MaternKernel(nu=0.5))),
    (UNIT, PeriodicKernel().double()),
    (UNIT, LinearKernel().double()),
    (box((-1, 1)), LinearKernel().double()),
    (box((20, 80), (1, 10)), kernel(10.0)),
    (Grid(torch.arange(6, dtype=D).unsqueeze(-1)), kernel(0.7)),
    (Grid(torch.zeros(1, 1, dtype=D)), kernel()),
    (Grid.regular(5, 2, bounds=[(0, 100), (0, 100)]), torch.eye(25, dtype=D)),
]


@pytest.mark.parametrize(("domain", "module"), FIT)
def test_no_false_alarm_about_a_domain(domain, module):
    assert not told(gp_ucb(kernel=module, noise=0.02), domain, [])


HOURS = [1.7e9, 1.7e9 + 3600, 1.7e9 + 7200, 1.7e9 + 10800]
CLOCKS = [
    (tv_gp_ucb(kernel=kernel(), noise=0.02, epsilon=0.01), "Markov(epsilon=0.01) forgets"),
    (w_gp_ucb(kernel=kernel(), noise=0.02, gamma=0.97), "ExponentialWeights(gamma=0.97) forgets"),
    (ui_gp_ucb(kernel=kernel(), noise=0.02, alpha=2.0), "UncertaintyInjection"),
    (
        replace(gp_ucb(kernel=kernel(), noise=0.02), retention=SlidingWindow(50.0, by="time")),
        "SlidingWindow(window=50.0, by='time') forgets",
    ),
    (ui_tvbo(kernel=kernel(), noise=0.02, sigma_w2=3.0), "Wiener(sigma_w2=3.0) forgets"),
]


@pytest.mark.parametrize(("strategy", "said"), CLOCKS)
@pytest.mark.parametrize("domain", [GRID, UNIT], ids=["grid", "box"])
def test_a_clock_in_another_unit(strategy, said, domain):
    [warning] = told(strategy, domain, [0.1] * 4, times=HOURS)
    assert said in str(warning.message)
    assert "3600 units of time apart" in str(warning.message)
    assert "per unit of the clock" in str(warning.message)
    assert warning.filename == __file__


def test_no_false_alarm_about_a_clock():
    """Pauses are forgotten rightly, and forgetting within one round is meant."""
    strategy = tv_gp_ucb(kernel=kernel(), noise=0.02, epsilon=0.01)
    assert not told(strategy, GRID, [0.1] * 4, times=[0.0, 1.0, 5000.0, 5001.0])
    assert not told(strategy, GRID, [0.1] * 4, times=[0.0, 60.0, 120.0, 180.0])
    for parts in (
        {"decay": replace(strategy.decay, epsilon=1.0)},
        {"inflation": UncertaintyInjection(20.0)},
        {"retention": SlidingWindow(0.5, by="time")},
    ):
        assert not told(replace(strategy, **parts), GRID, [0.1] * 4)


@pytest.mark.parametrize("seed", range(3))
def test_no_false_alarm_on_the_worlds(seed):
    """Every value that worlds of a unit kernel show, all arms and all rounds."""
    module = kernel(0.2)
    common = {"noise": 0.02}
    draws = GaussianDraw(module)
    for world in (
        MarkovWorld(GRID, kernel=module, epsilon=0.03, **common),
        AbruptWorld(GRID, functions=draws, changes=(5,), **common),
        StaticWorld(GRID, functions=RKHSFunctions(module, terms=20), **common),
    ):
        stream = Stream(seed, "world", 0, 64, dtype=D, device=torch.device("cpu"))
        rounds = world.rounds(stream)
        highest = max(float(next(rounds).abs().max()) for _ in range(10))
        strategy = et_gp_ucb(kernel=module, noise=0.02)
        assert not told(strategy, GRID, [highest, -highest])


def test_it_can_be_silenced():
    strategy = gp_ucb(kernel=kernel(), noise=0.02)
    state = strategy.init(GRID)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MisspecificationWarning)
        strategy.tell(state, strategy.ask(state), 55.0)
    with pytest.warns(UserWarning, match="an observation is 55"):
        strategy.tell(state, strategy.ask(state), 55.0)
