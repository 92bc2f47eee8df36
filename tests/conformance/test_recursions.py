"""Which recursions the laws skip, and that nothing is lost by it."""

from dataclasses import replace

import numpy as np
import pytest
from conformance.presets import BY_NAME, PRESETS, RECURSIONS, Preset, composed, one_per, pairs
from conformance.rounds import Run, Setting, make_world, play

from botorch_tv.forgetting import EventTrigger, Log, Retained, Retention

SETTING = Setting(points=5, kernel="se", noise=0.02, rounds=16)
PATHS = {preset.path for preset in PRESETS}
EVERY = {(preset.path, engine) for preset in PRESETS for engine in preset.recursions}


def run(preset: Preset, engine: str) -> Run:
    strategy = replace(preset.strategy(SETTING.module(), SETTING.noise), inference=engine)
    world = make_world(SETTING.points, SETTING.noise, SETTING.rounds, 2)
    return play(strategy, SETTING.domain, world, (2,), every=8)


@pytest.mark.few(6)
@pytest.mark.parametrize(
    "preset",
    one_per(
        lambda preset: preset.path,
        [preset for preset in PRESETS if preset.recursions != RECURSIONS],
    ),
    ids=lambda preset: preset.name,
)
def test_a_recursion_that_is_skipped_is_another_by_name_only(preset: Preset) -> None:
    """Samples take features, and so does a log of few arms."""
    assert set(RECURSIONS) - set(preset.recursions) == {"auto"}
    skipped, retained = run(preset, "auto"), run(preset, "features")
    for name in Run.__annotations__:
        one, other = getattr(skipped, name), getattr(retained, name)
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12, err_msg=name)


def test_every_turn_brings_every_path_and_turns_together_every_recursion() -> None:
    turns = [{(preset.path, engine) for preset, engine in pairs(turn)} for turn in range(6)]
    for turn in turns:
        assert {path for path, _ in turn} == PATHS
        assert turn >= {(path, engine) for path, engine in EVERY if path[1] == "ucb"}
    assert set().union(*turns[:3]) == EVERY
    assert {preset.path for preset, _ in pairs(0, short=True)} == PATHS


@pytest.mark.parametrize("name", ["SW-GP-UCB", "SW-GP-UCB estimated mean"])
def test_removals_lose_few_digits(name: str) -> None:
    """The difference of noise and posterior variance would lose (1 + 1 / noise)² ulps each time."""
    world = make_world(6, 0.02, 60, 8, seed=3)
    strategy = BY_NAME[name].strategy(SETTING.module(), 0.02)
    domain = Setting(points=6, kernel="se", noise=0.02, rounds=60).domain
    one, other = (
        play(replace(strategy, inference=engine), domain, world, (8,), every=13)
        for engine in ("auto", "exact")
    )
    for field in Run.__annotations__:
        np.testing.assert_allclose(getattr(one, field), getattr(other, field), rtol=0, atol=2e-9)


class Newest(Retention):
    """Answers like a window of five rounds, and declares nothing."""

    def keep(self, log: Log) -> Retained:
        return Retained(newest=5)


@pytest.mark.parametrize("rules", [Newest(), (Newest(), EventTrigger(0.1))], ids=["alone", "both"])
def test_rows_that_an_undeclared_rule_drops_are_removed(rules: Retention) -> None:
    world = make_world(SETTING.points, SETTING.noise, 40, 4, seed=2)
    one, other = (
        play(
            composed(retention=rules, inference=engine)(SETTING.module(), 0.02),
            *(SETTING.domain, world, (4,)),
            every=8,
        )
        for engine in ("auto", "exact")
    )
    for field in Run.__annotations__:
        np.testing.assert_allclose(getattr(one, field), getattr(other, field), rtol=0, atol=1e-8)
