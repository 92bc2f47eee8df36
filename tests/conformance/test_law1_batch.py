"""Law 1: a batch of trials is a loop of single trials; trials permute with their results."""

from dataclasses import replace

import numpy as np
import pytest
from conformance.presets import ENGINES, PRESETS, Preset
from conformance.rounds import Run, Setting, assert_close, assert_same_choices, make_world, play

SETTING = Setting(points=6, kernel="se", noise=0.02, rounds=26)
TRIALS = 4
ORDER = [2, 0, 3, 1]


def assert_same_run(actual: Run, expected: Run) -> None:
    assert_same_choices(actual.index, expected.index)
    np.testing.assert_array_equal(actual.reset, expected.reset)
    for name in ("mean", "sd", "multiplier", "gain", "posterior_mean", "posterior_variance"):
        assert_close(getattr(actual, name), getattr(expected, name), 1e-10, name)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_batch_is_a_loop_of_singles(preset: Preset, engine: str) -> None:
    strategy = replace(preset.strategy(SETTING.module(), SETTING.noise), inference=engine)
    world = make_world(SETTING.points, SETTING.noise, SETTING.rounds, TRIALS)
    batch = play(strategy, SETTING.domain, world, (TRIALS,), every=13)
    singles = [
        play(strategy, SETTING.domain, world.take([trial]), (), every=13) for trial in range(TRIALS)
    ]
    loop = Run(
        **{
            name: np.concatenate([getattr(single, name) for single in singles], axis=1)
            for name in Run.__annotations__
        }
    )
    assert_same_run(batch, loop)
    assert len(np.unique(batch.mean.T, axis=0)) == TRIALS  # the trials really differ

    permuted = play(strategy, SETTING.domain, world.take(ORDER), (TRIALS,), every=13)
    taken = Run(**{name: getattr(batch, name)[:, ORDER] for name in Run.__annotations__})
    assert_same_run(permuted, taken)

    square = play(strategy, SETTING.domain, world, (2, 2), every=13)
    assert_same_run(square, batch)
