"""Which recursions the laws leave out, and why that loses nothing."""

from dataclasses import replace

import pytest
from conformance.presets import PRESETS, RECURSIONS, Preset, pairs_of
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
    """The same numbers to the last bit: samples take features, and so does a log of few arms."""
    assert set(RECURSIONS) - set(preset.recursions) == {"auto"}
    left_out, kept = run(preset, "auto"), run(preset, "features")
    for name in Run.__annotations__:
        one, other = getattr(left_out, name), getattr(kept, name)
        assert one.tobytes() == other.tobytes(), name


def own(turn: int) -> set[tuple[str, str]]:
    """The pairs of a turn that are not marked slow."""
    named = [(pair.values[0].name, pair.values[1], pair.marks) for pair in pairs_of(turn)]
    return {(name, engine) for name, engine, marks in named if not marks}


@pytest.mark.parametrize("turn", range(6))
def test_every_turn_brings_every_preset_and_every_recursion_of_its_path(turn: int) -> None:
    pairs = own(turn)
    assert {name for name, _ in pairs} == {preset.name for preset in PRESETS}
    paths = {preset.name: preset.path for preset in PRESETS}
    expected = {(preset.path, engine) for preset in PRESETS for engine in preset.recursions}
    assert {(paths[name], engine) for name, engine in pairs} == expected
    assert len(pairs) < 1.3 * len(PRESETS)


def test_turns_together_bring_every_pair() -> None:
    every = {(preset.name, engine) for preset in PRESETS for engine in preset.recursions}
    assert set().union(*(own(turn) for turn in range(3))) == every
