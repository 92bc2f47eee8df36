"""Warnings name data, domains and clocks that are far from the prior: once, and no others."""

import warnings
from dataclasses import replace

import pytest
import torch
from conformance.presets import BY_NAME
from gpytorch.kernels import LinearKernel, MaternKernel, RBFKernel, ScaleKernel

from botorch_tv.forgetting import SlidingWindow, UncertaintyInjection
from botorch_tv.learning import Refit
from botorch_tv.strategies import Box, Grid, gp_ucb, tv_gp_ucb, ui_gp_ucb, ui_tvbo, w_gp_ucb
from botorch_tv.validation import MisspecificationWarning

D = torch.float64
GRID = Grid.regular(points=4, dim=2)


def kernel(lengthscale=0.3, variance=1.0, make=RBFKernel):
    module = ScaleKernel(make()).double()
    module.base_kernel.lengthscale, module.outputscale = lengthscale, variance
    return module


def box(*ranges):
    return Box(torch.tensor(ranges, dtype=D).T.contiguous())


UNIT = box((0, 1), (0, 1))


def caught_of(strategy, domain, values, times=None, batch=(), **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        state = strategy.init(domain, batch_shape=batch)
        for t, y in enumerate(values):
            now = None if times is None else times[t]
            suggestion = strategy.ask(state, now=now, generator=torch.Generator().manual_seed(t))
            y = torch.as_tensor(y, dtype=D).expand(batch)
            state, _ = strategy.tell(state, suggestion, y, **options)
    return [item for item in caught if issubclass(item.category, MisspecificationWarning)]


RAW = [55.0, 55.3, 54.6, 55.1, 56.0]


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["GP-UCB", "TV-GP-UCB", "WGP-UCB", "UI-TVBO", "GP-TS"])
@pytest.mark.parametrize("domain", [GRID, UNIT], ids=["grid", "box"])
def test_raw_measurements_are_named_once(name, domain):
    [warning] = caught_of(BY_NAME[name].strategy(kernel(), 0.02), domain, RAW)
    text = str(warning.message)
    for part in ("an observation is 55", "prior mean is 0", 'mean="estimated"', "standardise"):
        assert part in text
    assert warning.filename == __file__


def test_the_first_that_is_far_and_no_other():
    strategy = gp_ucb(kernel=kernel(), noise=0.02)
    assert len(caught_of(strategy, GRID, [0.3, 20.0, -20.0, 30.0, -40.0, 55.0])) == 1
    assert not caught_of(strategy, GRID, [0.3, 20.0, -20.0])
    assert len(caught_of(strategy, GRID, RAW, batch=(3,))) == 1
    assert not caught_of(strategy, GRID, RAW, check=False)
    assert not caught_of(strategy, GRID, [1e9] * 3, ok=torch.tensor(False))


@pytest.mark.parametrize(
    "parts",
    [{"mean": 55.0}, {"mean": "estimated"}, {"kernel": kernel(variance=60.0)}, {"noise": 100.0}],
)
def test_the_fixes_work(parts):
    strategy = tv_gp_ucb(kernel=kernel(), noise=0.02, epsilon=0.01)
    assert not caught_of(replace(strategy, **parts), GRID, RAW)


def test_an_estimated_mean_has_a_scale_to_fit():
    strategy = gp_ucb(kernel=kernel(), noise=0.02, mean="estimated")
    [warning] = caught_of(strategy, GRID, [55.0, 540.0, 55.0])
    assert "the mean of earlier observations is 55" in str(warning.message)


def test_a_learned_variance_fits_itself():
    strategy = tv_gp_ucb(kernel=kernel(), noise=0.02, epsilon=0.01)
    assert not caught_of(replace(strategy, learning=Refit(every=50)), UNIT, RAW)
    assert caught_of(replace(strategy, learning=Refit(every=50, outputscale=None)), UNIT, RAW)


def test_a_random_walk_may_have_gone_far():
    walk = ui_tvbo(kernel=kernel(), noise=0.02, sigma_w2=1.0)
    assert not caught_of(walk, GRID, [0.0, 90.0], times=[0.0, 100.0])
    assert caught_of(walk, GRID, [0.0, 33.0], times=[0.0, 0.1])


DOMAINS = [
    (box((20, 80), (1, 10)), kernel(0.2), "apart in coordinate 0, a hundredth of the range"),
    (box((0, 1), (300, 900)), kernel(), "apart in coordinate 1"),
    (box((0, 1e-4)), kernel(), "functions are constant"),
    (
        Grid.regular(5, 2, bounds=[(0, 100), (0, 100)]),
        kernel(),
        "predicts nothing about other arms",
    ),
]


@pytest.mark.parametrize(("domain", "module", "text"), DOMAINS)
def test_a_kernel_for_another_unit(domain, module, text):
    [warning] = caught_of(gp_ucb(kernel=module, noise=0.02), domain, [])
    assert text in str(warning.message)
    assert "Give lengthscales in the unit of the coordinates" in str(warning.message)
    assert warning.filename == __file__
    strategy = replace(gp_ucb(kernel=module, noise=0.02), learning=Refit())
    if isinstance(domain, Box):
        assert not caught_of(strategy, domain, [])


FIT = [
    (UNIT, kernel(0.02)),
    (UNIT, kernel(0.05, make=lambda: MaternKernel(nu=0.5))),
    (UNIT, LinearKernel().double()),
    (box((20, 80), (1, 10)), kernel(10.0)),
    (Grid(torch.arange(6, dtype=D).unsqueeze(-1)), kernel(0.7)),
    (Grid(torch.zeros(1, 1, dtype=D)), kernel()),
    (Grid.regular(5, 2, bounds=[(0, 100), (0, 100)]), torch.eye(25, dtype=D)),
]


@pytest.mark.parametrize(("domain", "module"), FIT)
def test_no_false_warning_about_a_domain(domain, module):
    assert not caught_of(gp_ucb(kernel=module, noise=0.02), domain, [])


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


@pytest.mark.few(4)
@pytest.mark.parametrize(("strategy", "text"), CLOCKS)
@pytest.mark.parametrize("domain", [GRID, UNIT], ids=["grid", "box"])
def test_a_clock_in_another_unit(strategy, text, domain):
    [warning] = caught_of(strategy, domain, [0.1] * 4, times=HOURS)
    assert text in str(warning.message)
    assert "3600 units of time apart" in str(warning.message)
    assert "per unit of the clock" in str(warning.message)
    assert warning.filename == __file__


def test_no_false_warning_about_a_clock():
    strategy = tv_gp_ucb(kernel=kernel(), noise=0.02, epsilon=0.01)
    assert not caught_of(strategy, GRID, [0.1] * 4, times=[0.0, 1.0, 5000.0, 5001.0])
    assert not caught_of(strategy, GRID, [0.1] * 4, times=[0.0, 60.0, 120.0, 180.0])
    for parts in (
        {"decay": replace(strategy.decay, epsilon=1.0)},
        {"inflation": UncertaintyInjection(20.0)},
        {"retention": SlidingWindow(0.5, by="time")},
    ):
        assert not caught_of(replace(strategy, **parts), GRID, [0.1] * 4)
