"""Law 7: on a static world the event trigger rarely fires, [ET] Lemma 3."""

import math
from dataclasses import replace
from functools import cache

import pytest
import torch
from conformance.presets import PRESETS, Preset
from theory.objectives import SETTING, gaussian_process, noises, pick

from botorch_tv.forgetting import EventTrigger

TRIALS = 400
ROUNDS = 100
# The lemma assumes the true model: no decay, no inflation, prior mean 0.
RIGHT = [
    preset
    for preset in PRESETS
    if preset.triggers
    and preset.maximize  # downwards is the same upside down
    and not {"decay", "inflation", "mean"} & set(preset.book(1.0))
    and preset.name not in ("ET-GP-UCB Bayes", "ET-GP-UCB realised gain")  # slower, not different
]


@cache
def share_of_triggers(preset: Preset, delta: float, jump: int | None = None) -> float:
    """Trials in which the trigger fires at all; ``jump``: the round at which f is drawn anew."""
    strategy = preset.strategy(SETTING.module(), SETTING.noise)
    strategy = replace(strategy, retention=EventTrigger(delta))
    (first,) = gaussian_process("static", 0.0, TRIALS, 1, seed=1)
    (second,) = gaussian_process("static", 0.0, TRIALS, 1, seed=2)
    errors = noises(TRIALS, ROUNDS, SETTING.noise, seed=1)
    state = strategy.init(SETTING.domain, batch_shape=(TRIALS,))
    generator = torch.Generator().manual_seed(0)
    triggered = torch.zeros(TRIALS, dtype=torch.bool)
    for t in range(ROUNDS):
        values = first if jump is None or t < jump else second
        suggestion = strategy.ask(state, generator=generator)
        y = pick(values, suggestion.index) + errors[t]
        state, info = strategy.tell(state, suggestion, y, check=False, consume=True)
        triggered |= info.reset
    return float(triggered.double().mean())


@pytest.mark.parametrize("delta", [0.1, pytest.param(0.5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("preset", RIGHT, ids=lambda preset: preset.name)
def test_at_most_delta_of_the_trials_trigger(preset: Preset, delta: float) -> None:
    share = share_of_triggers(preset, delta)
    assert share <= delta + 3.0 * math.sqrt(delta * (1.0 - delta) / TRIALS)


def test_the_trigger_is_not_asleep() -> None:
    (preset,) = (item for item in RIGHT if item.name == "ET-GP-UCB")
    rare, common = share_of_triggers(preset, 0.1), share_of_triggers(preset, 0.9)
    assert 0.0 < rare < common < 0.9
    assert share_of_triggers(preset, 0.1, jump=60) > 0.5
