"""Measurements that fail, in every preset; ``test_combinations.py`` has the textbook."""

import math

import numpy as np
import torch
from conformance.presets import BESIDE, Preset, each_pair
from conformance.rounds import Setting, make_world

SETTING = Setting(points=5, kernel="se", noise=0.02, rounds=24)
TRIALS = 3


def schedule() -> np.ndarray:
    """Success of each measurement: `rounds x trials`.

    Trial 0 fails at first and then now and then, trial 1 never, trial 2 for longer than any window
    or period lasts.
    """
    ok = np.ones((SETTING.rounds, TRIALS), dtype=bool)
    ok[:, 0] = np.random.default_rng(5).random(SETTING.rounds) < 0.7
    ok[:2, 0] = False
    ok[3:18, 2] = False
    return ok


@each_pair(0, beside=BESIDE)
def test_the_value_of_a_failed_measurement_has_no_effect(preset: Preset, engine: str) -> None:
    """NaN, infinities and plausible numbers."""
    strategy = preset.by(SETTING.module(), SETTING.noise, engine)
    world = make_world(SETTING.points, SETTING.noise, SETTING.rounds, TRIALS)
    ok = schedule()
    runs = []
    for nothing in ([math.nan, math.inf, -math.inf], [0.25]):
        state, record = strategy.init(SETTING.domain, batch_shape=(TRIALS,)), []
        for t in range(15):
            generator = torch.Generator().manual_seed(t)
            suggestion = strategy.ask(state, generator=generator)
            y, succeeds = world.observe(t, suggestion.index), torch.as_tensor(ok[t])
            y = torch.where(succeeds, y, nothing[t % len(nothing)])
            state, info = strategy.tell(state, suggestion, y, ok=succeeds)
            record.append((suggestion.index, suggestion.mean, suggestion.sd, info.reset))
        runs.append(record)
    for one, another in zip(*runs, strict=True):
        for left, right in zip(one, another, strict=True):
            torch.testing.assert_close(left, right, rtol=0, atol=1e-12)
