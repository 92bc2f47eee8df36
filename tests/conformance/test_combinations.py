"""Every decay with every inflation with every retention, at uneven times, against the textbook."""

import itertools

import pytest
import torch
from conformance.presets import ENGINES, deng
from conformance.rounds import Setting, assert_close, make_world
from oracles.dense import DenseBandit

from botorch_tv.acquisition.widths import WGPUCB
from botorch_tv.forgetting import (
    EventTrigger,
    ExponentialWeights,
    KeepAll,
    Markov,
    PeriodicReset,
    SlidingWindow,
    Static,
    UncertaintyInjection,
    Wiener,
)
from botorch_tv.strategies import Strategy

SETTING = Setting(points=5, kernel="se", noise=0.02, rounds=24, lengthscale=0.3)
TRIALS = 2
DECAYS = [(Static(), ("static",)), (Markov(0.08), ("markov", 0.08)), (Wiener(0.1), ("wiener", 0.1))]
INFLATIONS = [
    (Static(), ("constant",)),
    (ExponentialWeights(0.9), ("exponential", 0.9)),
    (UncertaintyInjection(0.7, kappa=0.5), ("injection", 0.7, 0.5)),
]
RETENTIONS = [
    (KeepAll(), ("all",)),
    (PeriodicReset(7), ("period", 7, "rounds")),
    (PeriodicReset(6.5, by="time"), ("period", 6.5, "time")),
    (SlidingWindow(8), ("window", 8, "rounds")),
    (SlidingWindow(7.5, by="time"), ("window", 7.5, "time")),
    (EventTrigger(0.1), ("trigger", 0.1)),
]


@pytest.mark.parametrize(
    ("decay", "inflation", "retention"),
    [
        pytest.param(*parts, id="-".join(part[1][0] + str(part[1][-1]) for part in parts))
        for parts in itertools.product(DECAYS, INFLATIONS, RETENTIONS)
    ],
)
def test_equals_the_textbook(decay: tuple, inflation: tuple, retention: tuple) -> None:
    """Double-weighted gain in the width, steps of 3/8 to 13/8, an explicit time every third."""
    world = make_world(SETTING.points, SETTING.noise, SETTING.rounds, TRIALS)
    multiplier = deng(SETTING.noise)["multiplier"]
    bandits = [
        DenseBandit(
            SETTING.matrix(),
            SETTING.noise,
            decay=decay[1],
            inflation=inflation[1],
            retention=retention[1],
            multiplier=multiplier,
        )
        for _ in range(TRIALS)
    ]
    strategies = [
        Strategy(
            kernel=SETTING.module(),
            noise=SETTING.noise,
            decay=decay[0],
            inflation=inflation[0],
            retention=retention[0],
            width=WGPUCB(B=0.5, R=0.1, noise=SETTING.noise, delta=0.1),
            inference=engine,
        )
        for engine in ENGINES
    ]
    states = [strategy.init(SETTING.domain, batch_shape=(TRIALS,)) for strategy in strategies]
    for t in range(SETTING.rounds):
        step = torch.tensor([(3 + (5 * t) % 11) / 8, (3 + (7 * t) % 11) / 8]).double()
        newest = torch.tensor([b.rows[-1].time if b.rows else 0.25 for b in bandits]).double()
        now = newest + step if t % 3 == 2 else None
        choices = [
            bandit.choose(None if now is None else float(now[trial]))
            for trial, bandit in enumerate(bandits)
        ]
        index = torch.tensor([choice.index for choice in choices])
        y = world.observe(t, index)
        time = None if t % 4 == 3 else newest + step
        for trial, (bandit, choice) in enumerate(zip(bandits, choices)):
            bandit.tell(choice, float(y[trial]), None if time is None else float(time[trial]))
        for i, strategy in enumerate(strategies):
            suggestion = strategy.ask(states[i], now=now)
            where = f"{strategy.inference}, round {t + 1}"
            assert torch.equal(suggestion.index, index), where
            for name in ("mean", "sd", "multiplier"):
                expected = [getattr(choice, name) for choice in choices]
                assert_close(getattr(suggestion, name), expected, 1e-8, f"{name}, {where}")
            states[i], _ = strategy.tell(states[i], suggestion, y, time=time)
