"""Measurements that fail, and measurements with a variance of their own, in every preset.

Strategies with an expert are compared with the textbook; ``test_combinations.py`` compares the
others.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from conformance.presets import BESIDE, NARROW, PRESETS, RECURSIONS, Preset, each_pair
from conformance.rounds import Setting, assert_close, make_world
from oracles.dense import DenseBandit

from botorch_tv.forgetting import EventTrigger
from botorch_tv.strategies import Strategy, gp_ucb, sw_gp_ucb

SETTING = Setting(points=5, kernel="se", noise=0.02, rounds=24)
TRIALS = 3
TOLERANCE = 1e-8
X = SETTING.domain.X
each_engine = pytest.mark.parametrize("engine", RECURSIONS)


def schedule() -> tuple[np.ndarray, np.ndarray]:
    """Success and noise variance of each measurement: `rounds x trials` each.

    Trial 0 fails at first and then now and then, trial 1 never, trial 2 for longer than any window
    or period lasts.
    """
    random = np.random.default_rng(5)
    ok = np.ones((SETTING.rounds, TRIALS), dtype=bool)
    ok[:, 0] = random.random(SETTING.rounds) < 0.7
    ok[:2, 0] = False
    ok[3:18, 2] = False
    noise = np.exp(random.uniform(np.log(0.01), np.log(1.0), ok.shape))
    return ok, noise


@each_pair(2, [preset for preset in PRESETS if preset.consults])
def test_expert_beside_failures_equals_the_textbook(preset: Preset, engine: str) -> None:
    """Every third round has the strategy's noise variance."""
    world = make_world(SETTING.points, SETTING.noise, SETTING.rounds, TRIALS)
    ok, noise = schedule()
    strategy = preset.by(SETTING.module(), SETTING.noise, engine)
    state = strategy.init(SETTING.domain, batch_shape=(TRIALS,))
    book = preset.book(SETTING.noise)
    bandits = [DenseBandit(SETTING.matrix(), SETTING.noise, **book) for _ in range(TRIALS)]
    for t in range(SETTING.rounds):
        succeeds = ok[t]
        own = noise[t] if t % 3 else None
        choices = [bandit.choose() for bandit in bandits]
        index = torch.tensor([choice.index for choice in choices])
        y = world.observe(t, index)
        y[torch.as_tensor(~succeeds)] = math.nan
        for trial, (bandit, choice) in enumerate(zip(bandits, choices)):
            bandit.tell(
                choice,
                float(y[trial]),
                ok=bool(succeeds[trial]),
                noise=None if own is None else float(own[trial]),
            )
        where = f"round {t + 1}"
        suggestion = strategy.ask(state)
        assert suggestion.index.tolist() == index.tolist(), where
        for name in preset.compared:
            expected = [getattr(choice, name) for choice in choices]
            assert_close(getattr(suggestion, name), expected, TOLERANCE, f"{name}, {where}")
        state, info = strategy.tell(
            state,
            suggestion,
            y,
            ok=torch.as_tensor(succeeds),
            noise=None if own is None else torch.as_tensor(own),
        )
        gain = [
            0.5 * math.log1p(choice.sd**2 / bandit.rows[-1].noise)
            for choice, bandit in zip(choices, bandits)
        ]
        assert_close(info.information_gain, gain, TOLERANCE, f"gain, {where}")
        if t % 4 == 3:
            ahead = 7.375 if t % 8 == 3 else None
            now = None if ahead is None else bandits[0].rows[-1].time + ahead
            dense = [bandit.predict(now) for bandit in bandits]
            posterior, what = strategy.posterior(state, X, now=now), f"{where}, now {now}"
            joint = posterior.distribution.covariance_matrix
            assert_close(posterior.mean[..., 0], [one.mean for one in dense], TOLERANCE, what)
            assert_close(joint, [one.covariance for one in dense], TOLERANCE, what)


@each_pair(0, beside=BESIDE)
def test_the_value_of_a_failed_measurement_has_no_effect(preset: Preset, engine: str) -> None:
    """NaN, infinities and plausible numbers."""
    strategy = preset.by(SETTING.module(), SETTING.noise, engine)
    world = make_world(SETTING.points, SETTING.noise, SETTING.rounds, TRIALS)
    ok, _ = schedule()
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


@each_engine
def test_round_that_fails_counts_by_hand(engine: str) -> None:
    """After 1.02 at arm 12 and a failure, clock and window advance; the posterior stays."""
    k = SETTING.matrix()[12]
    one = torch.tensor(1.02, dtype=torch.float64)
    failed = {"ok": torch.tensor(False)}

    def twice(strategy: Strategy) -> tuple:
        state = strategy.init(SETTING.domain)
        state, _ = strategy.tell(state, strategy.suggestion_at(state, X[12]), one)
        return strategy.tell(state, strategy.suggestion_at(state, X[3]), one * math.nan, **failed)

    common = gp_ucb(kernel=SETTING.module(), noise=0.02, width=NARROW, inference=engine)
    state, info = twice(common)
    assert float(info.information_gain) == 0.0
    assert float(strategy_time(common, state)) == 3.0
    assert_close(common.posterior(state, X).mean[:, 0], k, 1e-12, "mean")
    # A window of one round holds only the failure.
    window = sw_gp_ucb(kernel=SETTING.module(), noise=0.02, window=1, width=NARROW)
    window = replace(window, inference=engine)
    state, _ = twice(window)
    assert_close(window.posterior(state, X).mean[:, 0], 0.0, 1e-12, "mean")
    assert_close(window.posterior(state, X).variance[:, 0], 1.0, 1e-12, "variance")
    # The trigger's clock t' goes on: round 3 is judged with t' = 3.
    trigger = replace(common, retention=EventTrigger(0.1))
    L = math.log(2.0 * (math.pi**2 * 9 / 6.0) / 0.1)
    sd = math.sqrt(1.0 - 1.0 / 1.02)
    limit = math.sqrt(2.0 * L) * sd + math.sqrt(2.0 * 0.02 * L)
    for beyond, fires in ((-1e-6, False), (1e-6, True)):
        state, _ = twice(trigger)
        y = torch.tensor(1.0 + limit + beyond, dtype=torch.float64)
        _, info = trigger.tell(state, trigger.suggestion_at(state, X[12]), y)
        assert bool(info.reset) == fires


def strategy_time(strategy: Strategy, state: object) -> torch.Tensor:
    return strategy.suggestion_at(state, X[0]).time


@each_engine
def test_variance_of_its_own_by_hand(engine: str) -> None:
    """One observation of variance 0.5: mean k y / 1.5, and a trigger's band of that variance."""
    k = SETTING.matrix()[12]
    strategy = gp_ucb(kernel=SETTING.module(), noise=0.02, width=NARROW, inference=engine)
    state = strategy.init(SETTING.domain, batch_shape=(2,))
    at = strategy.suggestion_at(state, X[[12, 12]])
    y = torch.tensor([1.5, 1.5], dtype=torch.float64)
    variances = torch.tensor([0.5, 0.02], dtype=torch.float64)
    state, info = strategy.tell(state, at, y, noise=variances)
    posterior = strategy.posterior(state, X)
    assert_close(posterior.mean[0, :, 0], k, 1e-12, "mean")
    assert_close(posterior.variance[0, :, 0], 1.0 - k**2 / 1.5, 1e-12, "variance")
    assert_close(posterior.mean[1, :, 0], k * 1.5 / 1.02, 1e-12, "mean of the other trial")
    assert_close(info.information_gain[0], 0.5 * math.log(3.0), 1e-12, "gain")
    trigger = replace(strategy, retention=EventTrigger(0.1))
    L = math.log(2.0 * (math.pi**2 / 6.0) / 0.1)
    limit = math.sqrt(2.0 * L) + math.sqrt(2.0 * 0.5 * L)
    state = trigger.init(SETTING.domain, batch_shape=(2,))
    y = torch.tensor([limit - 1e-6, limit + 1e-6], dtype=torch.float64)
    _, info = trigger.tell(state, trigger.suggestion_at(state, X[[12, 12]]), y, noise=0.5)
    assert info.reset.tolist() == [False, True]
