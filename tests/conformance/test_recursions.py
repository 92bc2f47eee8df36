"""Which recursions the laws leave out, and why that loses nothing."""

from dataclasses import replace

import numpy as np
import pytest
from _pytest.mark import ParameterSet
from conformance.presets import BY_NAME, PRESETS, RECURSIONS, Preset, every_pair, pairs_of
from conformance.rounds import Run, Setting, make_world, play

SETTING = Setting(points=5, kernel="se", noise=0.02, rounds=16)
TRIALS = 2


def run(preset: Preset, engine: str) -> Run:
    strategy = replace(preset.strategy(SETTING.module(), SETTING.noise), inference=engine)
    world = make_world(SETTING.points, SETTING.noise, SETTING.rounds, TRIALS)
    return play(strategy, SETTING.domain, world, (TRIALS,), every=8)


@pytest.mark.parametrize(
    "preset",
    [preset for preset in PRESETS if preset.recursions != RECURSIONS],
    ids=lambda preset: preset.name,
)
def test_recursion_left_out_is_another_by_name_only(preset: Preset) -> None:
    """The same numbers: samples take features, and so does a log of few arms."""
    assert set(RECURSIONS) - set(preset.recursions) == {"auto"}
    left_out, retained = run(preset, "auto"), run(preset, "features")
    for name in Run.__annotations__:
        one, other = getattr(left_out, name), getattr(retained, name)
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12, err_msg=name)


def own(pairs: list[ParameterSet]) -> set[tuple[str, str]]:
    """The pairs that are not marked slow."""
    return {(pair.values[0].name, pair.values[1]) for pair in pairs if not pair.marks}


def of_ucb() -> set[tuple[tuple[str | bool, ...], str]]:
    """Every recursion of every path that explores by an upper bound."""
    bounded = [preset for preset in PRESETS if preset.path[1] == "ucb"]
    return {(preset.path, engine) for preset in bounded for engine in preset.recursions}


@pytest.mark.parametrize("turn", range(6))
def test_every_turn_brings_every_path_and_every_recursion_of_a_bound(turn: int) -> None:
    pairs = {(BY_NAME[name].path, engine) for name, engine in own(pairs_of(turn))}
    assert {path for path, _ in pairs} == {preset.path for preset in PRESETS}
    assert pairs >= of_ucb()
    others = {preset.path for preset in PRESETS if preset.path[1] != "ucb"}
    assert len(pairs) == len(own(pairs_of(turn))) == len(of_ucb()) + len(others), "none twice"


@pytest.mark.parametrize("turn", range(3))
def test_a_short_turn_brings_every_path_once(turn: int) -> None:
    paths = sorted(str(BY_NAME[name].path) for name, _ in own(pairs_of(turn, every=False)))
    assert paths == sorted({str(preset.path) for preset in PRESETS})


def test_turns_together_bring_every_recursion_to_every_path() -> None:
    every = {(preset.path, engine) for preset in PRESETS for engine in preset.recursions}
    turns = [own(pairs_of(turn)) for turn in range(3)]
    assert {(BY_NAME[name].path, engine) for name, engine in set().union(*turns)} == every


def test_the_textbook_meets_every_preset_and_every_recursion_of_every_path() -> None:
    (pairs,) = every_pair().args[1:]
    assert {name for name, _ in own(pairs)} == set(BY_NAME)
    every = {(preset.path, engine) for preset in PRESETS for engine in preset.recursions}
    assert {(BY_NAME[name].path, engine) for name, engine in own(pairs)} == every
