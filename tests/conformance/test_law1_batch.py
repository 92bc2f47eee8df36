"""Law 1: a batch of trials is a loop of single trials; trials permute with their results.

Randomised strategies have a generator per trial.
"""

import numpy as np
import torch
from conformance.presets import BESIDE, DRAWING, Preset, each_pair, one_per_path
from conformance.rounds import Run, Setting, assert_close, assert_same_choices, make_world, play

SETTING = Setting(points=6, kernel="se", noise=0.02, rounds=16)
TRIALS = 3
ORDER = [2, 0, 1]


def assert_same_run(actual: Run, expected: Run) -> None:
    assert_same_choices(actual.index, expected.index)
    np.testing.assert_array_equal(actual.reset, expected.reset)
    for name in ("mean", "sd", "sqrt_beta", "gain", "posterior_mean", "posterior_variance"):
        assert_close(getattr(actual, name), getattr(expected, name), 1e-10, name)


@one_per_path
@each_pair(0, beside=BESIDE)
def test_batch_is_a_loop_of_singles(preset: Preset, engine: str) -> None:
    strategy = preset.by(SETTING.module(), SETTING.noise, engine)
    world = make_world(SETTING.points, SETTING.noise, SETTING.rounds, TRIALS)
    batch = play(strategy, SETTING.domain, world, (TRIALS,), every=13)
    singles = [
        play(strategy, SETTING.domain, world.take([trial]), (), every=13, seeds=[trial])
        for trial in range(TRIALS)
    ]
    loop = Run(
        **{
            name: np.concatenate([getattr(single, name) for single in singles], axis=1)
            for name in Run.__annotations__
        }
    )
    assert_same_run(batch, loop)
    assert len(np.unique(batch.mean.T, axis=0)) == TRIALS  # the trials really differ

    # In another order, and as a column.
    permuted = play(strategy, SETTING.domain, world.take(ORDER), (TRIALS, 1), every=13, seeds=ORDER)
    taken = Run(**{name: getattr(batch, name)[:, ORDER] for name in Run.__annotations__})
    assert_same_run(permuted, taken)


@each_pair(1, DRAWING, beside=[one for one in BESIDE if one.draws])
def test_one_generator_serves_one_trial_as_a_list_of_one_does(preset: Preset, engine: str) -> None:
    strategy = preset.by(SETTING.module(), SETTING.noise, engine)
    state = strategy.init(SETTING.domain)
    y = torch.tensor(0.3, dtype=torch.float64)
    for t in range(8):
        alone = strategy.ask(state, generator=torch.Generator().manual_seed(t))
        listed = strategy.ask(state, generator=[torch.Generator().manual_seed(t)])
        assert torch.equal(alone.index, listed.index)
        state, _ = strategy.tell(state, alone, y)
