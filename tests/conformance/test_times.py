"""Real-valued, uneven times, different in every trial: ask(now=...), tell(time=...).

``test_combinations.py`` compares such rounds with the textbook.
"""

from typing import Any

import numpy as np
import pytest
import torch
from conformance.presets import BESIDE, BY_NAME, Preset, each_path
from conformance.rounds import Setting, make_world
from torch import Tensor

from botorch_tv.strategies import Strategy

SETTING = Setting(points=6, kernel="se", noise=0.02, rounds=18)
TRIALS = 2


def schedule(shift: float = 0.0) -> tuple[Tensor, Tensor]:
    """Planned and actual time of each measurement: `rounds x trials` each.

    Multiples of 1/8 have exact sums. Some rounds coincide, some gaps are long; measurements
    may be earlier or later than planned.
    """
    random = np.random.default_rng(11)
    steps = random.integers(0, 25, (SETTING.rounds, TRIALS)) / 8.0
    steps[random.random(steps.shape) < 0.05] = 15.0
    measured = np.cumsum(steps, 0) + np.array([0.5, -3.25])
    before = np.vstack([measured[:1] - 1.0, measured[:-1]])
    planned = before + random.integers(0, 40, steps.shape) / 8.0
    return torch.as_tensor(planned + shift), torch.as_tensor(measured + shift)


def play_at(strategy: Strategy, shift: float) -> list[Any]:
    world = make_world(SETTING.points, SETTING.noise, SETTING.rounds, TRIALS)
    planned, measured = schedule(shift)
    planned = torch.minimum(planned, measured)  # measured at or after the planned time
    planned[1:] = torch.maximum(planned[1:], measured[:-1])
    state = strategy.init(SETTING.domain, batch_shape=(TRIALS,))
    record = []
    for t in range(SETTING.rounds):
        generator = torch.Generator().manual_seed(t)
        suggestion = strategy.ask(
            state, now=planned[t] if t % 2 == 0 else None, generator=generator
        )
        record.append(suggestion)
        state, _ = strategy.tell(
            state, suggestion, world.observe(t, suggestion.index), time=measured[t]
        )
    return record


@each_path(0, beside=BESIDE)
@pytest.mark.few(12)
def test_only_differences_of_times_matter(preset: Preset, engine: str) -> None:
    """The origin of time does not matter: seconds since 1970 serve as well as rounds."""
    strategy = preset.by(SETTING.module(), SETTING.noise, engine)
    here, there = play_at(strategy, 0.0), play_at(strategy, 2.0**31)
    for t, (one, other) in enumerate(zip(here, there)):
        assert torch.equal(one.index, other.index), f"round {t + 1}"
        torch.testing.assert_close(one.mean, other.mean, atol=1e-10, rtol=0.0)
        torch.testing.assert_close(one.sd, other.sd, atol=1e-10, rtol=0.0)


@pytest.mark.parametrize("name", ["TV-GP-UCB", "WGP-UCB", "GP-TS"])
def test_a_number_stands_for_every_trial(name: str) -> None:
    strategy = BY_NAME[name].strategy(SETTING.module(), SETTING.noise)
    state = strategy.init(SETTING.domain, batch_shape=(TRIALS,))
    for time in (2.5, 4.0):
        every = torch.full((TRIALS,), time, dtype=torch.float64)
        by_number, by_tensor = (
            strategy.ask(state, now=now, generator=torch.Generator().manual_seed(0))
            for now in (time, every)
        )
        assert torch.equal(by_number.time, every)
        assert by_number.made_by == by_tensor.made_by
        for one, other in zip(by_number, by_tensor):
            assert not isinstance(one, torch.Tensor) or torch.equal(one, other)
        y = torch.tensor([0.1, -0.2], dtype=torch.float64)
        state, _ = strategy.tell(state, by_number, y, time=time + 0.25)
    assert torch.equal(strategy.ask(state).time, torch.full((TRIALS,), 5.25).double())
