"""Law 2: features = exact = the textbook formula, choice for choice, numbers within 1e-8."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from conformance.presets import (
    BY_NAME,
    CHOOSING,
    DRAWING,
    ENGINES,
    NARROW,
    PRESETS,
    Preset,
    each_pair,
    every_pair,
    one_per,
)
from conformance.rounds import (
    Run,
    Setting,
    World,
    assert_close,
    assert_same_choices,
    by_the_book,
    dense_run,
    make_world,
    play,
)
from gpytorch.kernels import RBFKernel, ScaleKernel
from oracles.dense import regression, squared_exponential

from botorch_tv.acquisition.widths import WGPUCB, Constant, DoublyWeighted
from botorch_tv.strategies import Grid, gp_ucb, sw_gp_ucb, w_gp_ucb

TOLERANCE = 1e-8
TRIALS = 2
ROUGH = Setting(points=7, kernel="matern", noise=0.01, rounds=36)
FINE = Setting(points=12, kernel="se", noise=0.01, rounds=32)
LONG = Setting(points=8, kernel="se", noise=0.02, rounds=140)  # rows and arms outgrow their memory
SETTINGS = [ROUGH, FINE, LONG]
EVERY = {36: 4, 32: 4, 140: 10}  # rounds between looks at the posterior of the whole grid
WAYS_TO_FORGET = one_per(
    lambda preset: preset.way_to_forget, [preset for preset in CHOOSING if preset.only_forgets]
)


def assert_agree(actual: Run, expected: Run, width: bool = True) -> None:
    assert_same_choices(actual.index, expected.index)
    names = ["mean", "sd", "gain", "posterior_mean", "posterior_variance"]
    for name in [*names, "sqrt_beta"] if width else names:
        assert_close(getattr(actual, name), getattr(expected, name), TOLERANCE, name)


def assert_equals_the_textbook(preset: Preset, setting: Setting, engine: str) -> None:
    every = EVERY[setting.rounds]
    expected = by_the_book(preset.name, setting, TRIALS, every)
    strategy = replace(preset.strategy(setting.module(), setting.noise), inference=engine)
    world = make_world(setting.points, setting.noise, setting.rounds, TRIALS)
    actual = play(strategy, setting.domain, world, (TRIALS,), every=every)
    assert_agree(actual, expected, width="sqrt_beta" in preset.compared)
    if preset.tells_resets:
        np.testing.assert_array_equal(actual.reset, expected.reset)


@every_pair(CHOOSING)
def test_equals_the_textbook(preset: Preset, engine: str) -> None:
    assert_equals_the_textbook(preset, ROUGH, engine)


@each_pair(0, CHOOSING)
def test_equals_the_textbook_on_more_arms(preset: Preset, engine: str) -> None:
    assert_equals_the_textbook(preset, FINE, engine)


@each_pair(1, WAYS_TO_FORGET)
def test_equals_the_textbook_for_long(preset: Preset, engine: str) -> None:
    assert_equals_the_textbook(preset, LONG, engine)


def test_the_engine_is_chosen_automatically_unless_named() -> None:
    assert {p.strategy(ROUGH.module(), 0.01).inference for p in PRESETS} == {"auto"}


@every_pair(DRAWING)
@pytest.mark.parametrize("setting", [ROUGH, pytest.param(FINE, marks=pytest.mark.slow)], ids=str)
def test_posterior_at_drawn_arms_equals_the_textbook(
    preset: Preset, setting: Setting, engine: str
) -> None:
    """``test_thompson.py`` tests the draws."""
    strategy = replace(preset.strategy(setting.module(), setting.noise), inference=engine)
    world = make_world(setting.points, setting.noise, setting.rounds, TRIALS)
    every = EVERY[setting.rounds]
    actual = play(strategy, setting.domain, world, (TRIALS,), every=every)
    book = preset.book(setting.noise)
    expected = dense_run(setting.matrix(), setting.noise, book, world, every, actual.index)
    assert_agree(actual, expected, width="sqrt_beta" in preset.compared)
    if preset.tells_resets:
        np.testing.assert_array_equal(actual.reset, expected.reset)


def test_the_worlds_make_triggers_fire() -> None:
    """Without resets the tests above would not test triggers."""
    for setting in SETTINGS:
        fired = by_the_book("ET-GP-UCB", setting, TRIALS, EVERY[setting.rounds]).reset
        assert 1 <= fired.sum() < 0.5 * fired.size


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["TV-GP-UCB", "UI-TVBO", "ET-GP-UCB", "SW-GP-UCB", "UI-GP-UCB"])
def test_scattered_arms_in_one_dimension_with_a_scaled_kernel(name: str, engine: str) -> None:
    """Variance 4 scales the tolerance of ties, the trigger and every prior."""
    random = np.random.default_rng(3)
    X = np.sort(random.uniform(0.0, 2.0, 40))[:, None]
    kernel = ScaleKernel(RBFKernel()).double()
    kernel.outputscale = torch.tensor(4.0, dtype=torch.float64)
    kernel.base_kernel.lengthscale = torch.tensor(0.25, dtype=torch.float64)
    K = 4.0 * squared_exponential(X, 0.25)
    values = np.linalg.cholesky(K + 1e-9 * np.eye(40)) @ random.standard_normal((2, 40, 50))
    drift = np.linspace(0.0, 1.0, 50)
    world = World(
        np.ascontiguousarray(((1 - drift) * values + drift * values[::-1]).transpose(2, 0, 1)),
        random.standard_normal((50, 2)) * 0.1,
    )
    strategy = replace(BY_NAME[name].strategy(kernel, 0.01), inference=engine)
    expected = dense_run(K, 0.01, BY_NAME[name].book(0.01), world, every=5)
    assert_agree(play(strategy, Grid(torch.as_tensor(X)), world, (2,), every=5), expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_round_without_data_plays_index_zero_whatever_the_prior(engine: str) -> None:
    K = torch.diag(torch.tensor([1.0, 4.0, 2.0], dtype=torch.float64))
    domain = Grid(torch.arange(3, dtype=torch.float64).unsqueeze(-1))
    strategy = gp_ucb(kernel=K, noise=0.02, inference=engine)
    state = strategy.init(domain)
    suggestion = strategy.ask(state)
    assert suggestion.index == 0
    state, _ = strategy.tell(state, suggestion, torch.tensor(0.0, dtype=torch.float64))
    assert strategy.ask(state).index == 1


@pytest.mark.parametrize(("points", "lengthscale"), [(20, 0.2), (14, 0.4)])
def test_window_that_slides_for_long_stays_accurate(points: int, lengthscale: float) -> None:
    """Deleting a row amplifies rounding; hundreds of deletions must not add up to 1e-8.

    The library plays; the textbook regresses on the library's log.
    """
    window, trials = 150, 2
    setting = Setting(points, "se", noise=0.01, rounds=400, lengthscale=lengthscale)
    world = make_world(points, setting.noise, 100, trials)  # comes round four times
    strategy = sw_gp_ucb(
        kernel=setting.module(), noise=0.01, window=window, width=NARROW, inference="features"
    )
    state = strategy.init(setting.domain, batch_shape=(trials,))
    K, log = setting.matrix(), []
    for t in range(setting.rounds):
        suggestion = strategy.ask(state)
        y = world.observe(t % 100, suggestion.index)
        state, _ = strategy.tell(state, suggestion, y)
        log.append((suggestion.index, suggestion.time, y))
        if t % 25 == 24 and t > window:
            posterior = strategy.posterior(state, setting.domain.X)
            index, times, values = (torch.stack(column, -1).numpy() for column in zip(*log))
            for trial in range(trials):
                retained = (part[trial, -window:] for part in (index, times, values))
                mean, variance = regression(K, *retained, now=t + 2.0, noise=0.01)
                where = f"round {t + 1}, trial {trial}"
                assert_close(posterior.mean[trial, :, 0], mean, TOLERANCE, f"mean, {where}")
                assert_close(posterior.variance[trial, :, 0], variance, TOLERANCE, where)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("scale", "behind", "index"),
    [(1.0, 0.9e-7, 1), (1.0, 1.1e-7, 2), (4.0, 1.9e-7, 1), (4.0, 2.1e-7, 2)],
)
def test_scores_tie_within_a_share_of_the_prior_sd(
    scale: float, behind: float, index: int, engine: str
) -> None:
    """Three independent arms, observed once each, no exploration: the means are the scores."""
    K = scale * torch.eye(3, dtype=torch.float64)
    domain = Grid(torch.arange(3, dtype=torch.float64).unsqueeze(-1))
    strategy = gp_ucb(kernel=K, noise=0.5, width=Constant(0.0), inference=engine)
    state = strategy.init(domain)
    for arm, mean in enumerate((-1.0, 1.0 - behind, 1.0)):
        y = torch.tensor(mean * (scale + 0.5) / scale, dtype=torch.float64)
        state, _ = strategy.tell(state, strategy.suggestion_at(state, domain.X[arm]), y)
    assert strategy.ask(state).index == index
    assert torch.equal(strategy.recommend(state), domain.X[index])


@pytest.mark.parametrize("engine", ENGINES)
def test_gap_so_long_that_weights_underflow(engine: str) -> None:
    """gamma^-lag overflows; so old an observation has no weight, and nothing becomes NaN."""
    setting = ROUGH
    strategy = w_gp_ucb(
        kernel=setting.module(),
        noise=0.01,
        gamma=0.5,
        width=WGPUCB(B=0.5, R=0.1, noise=0.01, delta=0.1, gain=DoublyWeighted()),
        inference=engine,
    )
    state = strategy.init(setting.domain, batch_shape=(2,))
    fresh = strategy.init(setting.domain, batch_shape=(2,))
    for time in (1.0, 2.0, 50_000.0):
        suggestion = strategy.suggestion_at(
            state, setting.domain.X[[int(time) % 7, 3]], now=torch.full((2,), time).double()
        )
        y = torch.tensor([1.0, -0.5], dtype=torch.float64)
        state, info = strategy.tell(state, suggestion, y)
        assert torch.isfinite(info.information_gain).all()
    suggestion = strategy.suggestion_at(
        fresh,
        setting.domain.X[[50_000 % 7, 3]],
        now=torch.full((2,), 50_000.0, dtype=torch.float64),
    )
    fresh, _ = strategy.tell(fresh, suggestion, y)
    old = strategy.posterior(state, setting.domain.X)
    new = strategy.posterior(fresh, setting.domain.X)
    assert_close(old.mean, new.mean, TOLERANCE, "mean")
    assert_close(old.variance, new.variance, TOLERANCE, "variance")
