"""Law 2: features = exact = the textbook formula, choice for choice, numbers within 1e-8."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from conformance.presets import (
    BY_NAME,
    CHOOSING,
    ENGINES,
    NARROW,
    PRESETS,
    Preset,
    each_pair,
    every_pair,
)
from conformance.rounds import (
    Run,
    Setting,
    assert_close,
    assert_same_choices,
    by_the_book,
    make_world,
    play,
)
from oracles.dense import regression

from botorch_tv.acquisition.widths import WGPUCB, Constant, DoublyWeighted
from botorch_tv.strategies import Grid, gp_ucb, sw_gp_ucb, w_gp_ucb

TOLERANCE = 1e-8
TRIALS = 2
ROUGH = Setting(points=7, kernel="matern", noise=0.01, rounds=36)
LONG = Setting(points=8, kernel="se", noise=0.02, rounds=140)  # rows and arms outgrow their memory
SETTINGS = [ROUGH, LONG]
EVERY = {36: 4, 140: 10}  # rounds between looks at the posterior of the whole grid
BOUNDED = [preset for preset in CHOOSING if preset.path[1] == "ucb" and not preset.consults]
# It measures few arms again and again, where removing an observation loses most digits.
BOUNDED.append(BY_NAME["EI + window"])


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


@each_pair(1, BOUNDED)
def test_equals_the_textbook_for_long(preset: Preset, engine: str) -> None:
    assert_equals_the_textbook(preset, LONG, engine)


def test_the_engine_is_chosen_automatically_unless_named() -> None:
    assert {p.strategy(ROUGH.module(), 0.01).inference for p in PRESETS} == {"auto"}


def test_the_worlds_make_triggers_fire() -> None:
    """Without resets the tests above would not test triggers."""
    for setting in SETTINGS:
        fired = by_the_book("ET-GP-UCB", setting, TRIALS, EVERY[setting.rounds]).reset
        assert 1 <= fired.sum() < 0.5 * fired.size


def test_window_that_slides_for_long_stays_accurate() -> None:
    """Deleting a row amplifies rounding; hundreds of deletions must not add up to 1e-8.

    The library plays; the textbook regresses on the library's log.
    """
    window, trials = 150, 2
    setting = Setting(14, "se", noise=0.01, rounds=400, lengthscale=0.4)
    world = make_world(14, setting.noise, 100, trials)  # comes round four times
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
