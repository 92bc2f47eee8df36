"""Law 2: features = exact = the textbook formula, choice for choice, numbers within 1e-8."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from conformance.presets import (
    BY_NAME,
    CHOOSING,
    ENGINES,
    Preset,
    each_pair,
    every_pair,
    one_per_path,
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

from botorch_tv.acquisition.widths import Constant
from botorch_tv.strategies import Grid, gp_ucb

TOLERANCE = 1e-8
ROUGH = Setting(points=7, kernel="matern", noise=0.01, rounds=36)
LONG = Setting(points=8, kernel="se", noise=0.02, rounds=140)  # rows and arms outgrow their memory
SIZES = {ROUGH: (2, 4), LONG: (1, 10)}
"""Trials, and rounds between looks at the posterior of the whole grid."""
BOUNDED = [preset for preset in CHOOSING if preset.path[1] == "ucb" and not preset.consults]
# It measures few arms again and again, where removing an observation loses most digits.
BOUNDED.append(BY_NAME["EI + window"])


def assert_agree(actual: Run, expected: Run, width: bool = True) -> None:
    assert_same_choices(actual.index, expected.index)
    names = ["mean", "sd", "gain", "posterior_mean", "posterior_variance"]
    for name in [*names, "sqrt_beta"] if width else names:
        assert_close(getattr(actual, name), getattr(expected, name), TOLERANCE, name)


def assert_equals_the_textbook(preset: Preset, setting: Setting, engine: str) -> None:
    trials, every = SIZES[setting]
    expected = by_the_book(preset.name, setting, trials, every)
    strategy = replace(preset.strategy(setting.module(), setting.noise), inference=engine)
    world = make_world(setting.points, setting.noise, setting.rounds, trials)
    actual = play(strategy, setting.domain, world, (trials,), every=every)
    assert_agree(actual, expected, width="sqrt_beta" in preset.compared)
    np.testing.assert_array_equal(actual.reset, expected.reset)


@every_pair(CHOOSING)
@one_per_path
def test_equals_the_textbook(preset: Preset, engine: str) -> None:
    assert_equals_the_textbook(preset, ROUGH, engine)


@pytest.mark.few(
    *("SW-GP-UCB-auto", "UI-GP-UCB root-features", "replaced-auto", "injection + trigger-exact"),
    *("ET-GP-UCB estimated mean-auto", "WGP-UCB estimated mean-features"),
)
@each_pair(1, BOUNDED)
def test_equals_the_textbook_for_long(preset: Preset, engine: str) -> None:
    assert_equals_the_textbook(preset, LONG, engine)


def test_the_worlds_make_triggers_fire() -> None:
    """Without resets the tests above would not test triggers."""
    for setting, size in SIZES.items():
        fired = by_the_book("ET-GP-UCB", setting, *size).reset
        assert 1 <= fired.sum() < 0.5 * fired.size


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
