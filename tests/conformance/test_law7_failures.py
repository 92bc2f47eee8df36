"""Law 7: a failed measurement equals no measurement, but for the count of rounds.

A batch of trials with failures is compared with single trials that never made these rounds. Rounds
are far apart by pauses that differ between the trials.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from conformance.presets import BESIDE, Preset, composed, one_per_path, pair_id, pairs
from conformance.rounds import Setting
from conformance.test_law4_pure import tensors
from torch import Tensor

from botorch_tv.acquisition import Constant
from botorch_tv.forgetting import (
    ConfirmedTrigger,
    EventTrigger,
    GLRTrigger,
    Markov,
    PeriodicReset,
    Retention,
    SlidingWindow,
    Static,
    Wiener,
)
from botorch_tv.learning import Refit
from botorch_tv.strategies import (
    BanditOverBandits,
    Box,
    DiscreteSearch,
    GPStrategy,
    Grid,
    PriorElimination,
    Strategy,
    gp_ts,
)
from botorch_tv.strategies.contrib import RestartedExp3

pytestmark = pytest.mark.filterwarnings("ignore::botorch_tv.validation.MisspecificationWarning")
SETTING = Setting(points=4, kernel="se", noise=0.02, rounds=10, lengthscale=0.4)
TRIALS, X, KERNEL = 3, SETTING.domain.X, SETTING.module()
BOX = Box([(0.0, 1.0)] * 2, search=DiscreteSearch(X))
ROUNDWISE = {"thinned", "restart", "blank", "cusum", "sessions"}  # parts that act in every round


class Data:
    """Times, points, values and successes, `rounds x trials` each.

    Args:
        longest: The longest pause.
        together: Whether the first rounds, which fail in two trials, are at one time.
    """

    def __init__(self, longest: float, together: bool = False) -> None:
        random = np.random.default_rng(7)
        shape = SETTING.rounds, TRIALS
        gaps = random.integers(1, 13, shape) / 8.0
        gaps[[3, 5, 7], [0, 1, 2]] = longest, longest / 1e3, 17.0
        ok = random.random(shape) < 0.75
        ok[[0, 3]], ok[0, 1], ok[:2, 2], ok[6], ok[9, 1] = True, False, False, False, False
        if together:
            gaps[1:3, 1:] = 0.0
        at = random.integers(len(X), size=shape)
        at[2:6] = at[2]
        y = 0.3 * np.sin(9.0 * X.numpy().sum(-1))[at] + 0.02 * random.standard_normal(shape)
        y[3] += [0.0, 2.0, -2.2]  # an outlier
        y[5:] += [1.1, 1.1, -1.7]  # a jump
        self.time, self.y = torch.as_tensor(gaps.cumsum(0)), torch.as_tensor(y)
        self.at, self.ok = torch.as_tensor(at), torch.as_tensor(ok)


def play(
    strategy: Strategy, domain: Grid | Box, data: Data, elsewhere: bool, trial: int | None = None
) -> tuple[list[list[dict[str, Tensor]]], Any, Tensor]:
    """The rounds that succeeded in each trial, the last state, and its predictions later.

    Args:
        strategy: The strategy.
        domain: The domain.
        data: The rounds.
        elsewhere: Whether points are chosen elsewhere; otherwise by the strategy.
        trial: A single trial, in which failed rounds are not made; all trials if None.
    """
    trials = range(TRIALS) if trial is None else [trial]
    state = strategy.init(domain, batch_shape=(len(trials),))
    record: list[list[dict[str, Tensor]]] = [[] for _ in trials]
    for t in range(len(data.y)):
        time, y, ok = (part[t, list(trials)] for part in (data.time, data.y, data.ok))
        if trial is not None and not bool(ok):
            continue
        step = torch.as_tensor(strategy.step(state)).expand(len(trials))
        if elsewhere:
            said = strategy.suggestion_at(state, X[data.at[t, list(trials)]], now=time)
        else:
            generators = [torch.Generator().manual_seed(9 * t + one) for one in trials]
            said = strategy.ask(state, now=time, generator=generators)
        nothing = (torch.nan, 7.0, torch.inf, -torch.inf)[t % 4]
        given = ok if trial is None else None
        state, info = strategy.tell(state, said, torch.where(ok, y, nothing), ok=given)
        parts = {"X": said.X, "mean": said.mean, "sd": said.sd, "sqrt_beta": said.sqrt_beta}
        parts |= {"reset": info.reset, "noise": info.noise, "step": step}
        for own, number in zip(record, range(len(trials))):
            if ok[number]:
                own.append({name: part[number] for name, part in parts.items()})
    later = data.time[-1, list(trials)] + 3.0
    posterior = strategy.posterior(state, X, now=later)
    whole = [posterior.mean.flatten(1), posterior.distribution.covariance_matrix.flatten(1)]
    return record, state, torch.cat(whole, -1)


def assert_law(
    strategy: Strategy,
    domain: Grid | Box,
    *,
    elsewhere: bool = False,
    without: Any = lambda trial: None,
    spared: tuple[str, ...] = (),
    data: Data | None = None,
    tolerance: float = 1e-8,
) -> None:
    """Args: see :func:`play`.

    without: The strategy of a trial that never makes failed rounds, if it counts rounds.
    spared: What depends on the count of rounds.
    """
    data = data or Data(1e12)
    record, state, predicted = play(strategy, domain, data, elsewhere)
    assert not state.history.y.tensor()[~data.ok.T].any()  # 0, as documented
    for trial in range(TRIALS):
        alone = without(trial) or strategy
        (expected,), single, later = play(alone, domain, data, elsewhere, trial)
        assert len(record[trial]) == len(expected) == int(data.ok[:, trial].sum())
        for number, (one, other) in enumerate(zip(record[trial], expected)):
            for name in one.keys() - spared:
                where = f"{name} of trial {trial}, measurement {number + 1}"
                close(one[name], other[name], tolerance, where)
        close(predicted[trial], later[0], tolerance, f"prediction of trial {trial}")
        if "memory" not in spared:
            parts = itertools.zip_longest(tensors(state.memory), tensors(single.memory))
            for part, wanted in parts:
                close(part[trial], wanted[0], tolerance, f"memory of trial {trial}")


def close(one: Tensor, other: Tensor, tolerance: float, where: str) -> None:
    scale = float(other.double().abs().max()) if other.numel() else 1.0
    scale = max(scale, 1.0)
    torch.testing.assert_close(
        one, other, rtol=0, atol=tolerance * scale, msg=lambda text: f"{where}: {text}"
    )


def counts(preset: Preset) -> bool:
    """Whether the width depends on the count of rounds."""
    width = preset.book(SETTING.noise).get("sqrt_beta", lambda *_: 1.0)
    return width(3, 0.5, 0.5) != width(4, 0.5, 0.5)


def names(preset: Preset) -> set[str]:
    return {rule[0] for rule in preset.rules}


PLAYED = [
    (preset, engine)
    for preset, engine in dict.fromkeys(pairs(0, short=True) + pairs(1, short=True))
    if not (names(preset) & ROUNDWISE or preset.consults)
    and preset.book(1.0).get("exploration") != "greedy"
]


@one_per_path
@pytest.mark.parametrize("domain", [SETTING.domain, BOX], ids=["grid", "box"])
@pytest.mark.parametrize(("preset", "engine"), PLAYED, ids=map(pair_id, PLAYED))
def test_a_failure_equals_no_measurement(preset: Preset, engine: str, domain: Grid | Box) -> None:
    method = engine if domain is SETTING.domain or engine == "exact" else "auto"
    strategy = preset.by(KERNEL, SETTING.noise, method)
    spared = ("sqrt_beta",) if counts(preset) else ()
    grows = isinstance(strategy, GPStrategy) and isinstance(strategy.decay, Wiener)
    # A period begins at the first round, although it fails.
    by_time = any(rule[0] == "period" and rule[-1] == "time" for rule in preset.rules)
    data = Data(1e5 if grows else 1e12, together=by_time)
    # On a box, a sample draws a number for each row of the log.
    elsewhere = counts(preset) or (preset.samples and domain is BOX)
    assert_law(strategy, domain, elsewhere=elsewhere, spared=spared, data=data)


@pytest.mark.few(2)
@pytest.mark.parametrize("domain", [SETTING.domain, BOX], ids=["grid", "box"])
@pytest.mark.parametrize("preset", BESIDE, ids=lambda preset: preset.name)
def test_of_the_adaptive_strategy(preset: Preset, domain: Grid | Box) -> None:
    """The first points are chosen by the count of rounds."""
    strategy, data = preset.by(KERNEL, SETTING.noise, "auto"), Data(4.0)
    data.time[8:] += torch.tensor([1e12, 1e6, 1e9])  # once the units are set
    assert_law(strategy, domain, elsewhere=True, spared=("sqrt_beta",), data=data)


# Triggers beside a reset by another rule, in other rounds than theirs.
DAILY = PeriodicReset(6.0, by="time")
TRIGGERS = [
    EventTrigger(0.1),
    ConfirmedTrigger(0.1),
    ConfirmedTrigger(0.1, confirm=2),
    GLRTrigger(0.5, longest=3),
]


@pytest.mark.parametrize("other", [(), (DAILY,)], ids=["alone", "beside a period"])
@pytest.mark.parametrize("rule", TRIGGERS, ids=repr)
@pytest.mark.few(3)
def test_of_triggers(rule: EventTrigger | GLRTrigger, other: tuple[PeriodicReset, ...]) -> None:
    """What a trigger remembers of earlier rounds survives a failure, and no reset."""
    decay = Wiener(0.002) if other else Static()
    strategy = composed(decay=decay, retention=(rule, *other), width=Constant(4.0))(KERNEL, 0.02)
    data = Data(4.0, together=bool(other))
    assert_law(strategy, SETTING.domain, elsewhere=True, spared=("memory",), data=data)


@pytest.mark.parametrize("rule", TRIGGERS, ids=repr)
def test_triggers_forget_earlier_contradictions_in_a_reset_by_another_rule(rule: Retention) -> None:
    """After the end of a period, a run equals one that begins then."""
    parts = {"retention": (rule, PeriodicReset(5)), "width": Constant(4.0)}
    strategy, data = composed(**parts)(KERNEL, 0.02), Data(4.0)
    data.y[2:8], data.y[5:, 2], data.ok[5:, 0] = 6.0, 1.4, True
    whole, *_ = play(strategy, SETTING.domain, data, True)
    for name in ("time", "at", "y", "ok"):
        setattr(data, name, getattr(data, name)[5:])
    afresh, *_ = play(strategy, SETTING.domain, data, True)
    for one, other in zip(whole, afresh):
        for ours, wanted in zip(one[-len(other) :], other):
            for name in wanted.keys() - {"reset"} if wanted is other[0] else wanted:
                close(ours[name], wanted[name], 1e-8, name)
    # 6 contradicts the prior mean 0.
    fires = [bool(measured["reset"]) for measured in afresh[0]]
    assert fires.index(True) == getattr(rule, "confirm", 0)


def test_an_outlier_that_is_not_confirmed_equals_a_failure() -> None:
    """From the first agreeing measurement on; the agreeing one is retained."""
    strategy = composed(retention=ConfirmedTrigger(0.1), width=Constant(4.0))(KERNEL, 0.02)
    data = Data(4.0)
    data.y[3], data.y[5:], data.ok[:], data.at[4] = 9.0, 0.2, True, data.at[3]
    data.y[:3], data.y[4] = 0.2, 0.2
    predicted = []
    for good in (True, False):
        data.ok[3] = good
        predicted.append(play(strategy, SETTING.domain, data, True)[2])
    close(*predicted, 1e-9, "prediction")
    data.ok[4] = False
    assert not torch.equal(play(strategy, SETTING.domain, data, True)[2], predicted[1])


SAMPLED = gp_ts(kernel=KERNEL, noise=0.02, mean=0.4, B=0.5, R=0.1, delta=0.1)
MEMBERS = tuple(
    composed(decay=Markov(rate), width=Constant(4.0), mean=0.4)(KERNEL, 0.02)
    for rate in (0.0, 0.05, 0.4)
)
CONSTANT = {"kernel": KERNEL, "noise": 0.02, "width": Constant(4.0)}
weighing = partial(RestartedExp3, **CONSTANT, low=-3.0, high=3.0, gamma=0.4)
COMMITTEES = [
    PriorElimination(members=MEMBERS, delta=0.9),
    BanditOverBandits(members=(*MEMBERS, SAMPLED), block=20, horizon=60, bound=2.0),
    weighing(period=20),
]


@pytest.mark.parametrize("strategy", COMMITTEES, ids=lambda strategy: type(strategy).__name__)
def test_of_committees_and_weights(strategy: Strategy) -> None:
    """Rewards, plays and errors of the members, and the weights of the arms."""
    assert_law(strategy, SETTING.domain)


def periodic() -> Data:
    """One failure in every four rounds, another round in every trial."""
    data = Data(8.0)
    data.ok = (torch.arange(8).unsqueeze(-1) + torch.arange(1, 1 + TRIALS)) % 4 != 0
    data.time, data.y, data.at = data.time[:8], data.y[:8], data.at[:8]
    return data


PERIODS = {
    "period": lambda n: composed(retention=PeriodicReset(n), width=Constant(4.0))(KERNEL, 0.02),
    "window": lambda n: composed(retention=SlidingWindow(n), width=Constant(4.0))(KERNEL, 0.02),
    "drift": lambda n: composed(
        decay=Wiener(0.05), retention=(PeriodicReset(n), SlidingWindow(n)), width=Constant(4.0)
    )(KERNEL, 0.02),
    "weights": lambda n: weighing(period=n),
}


@pytest.mark.parametrize("name", PERIODS)
def test_periods_and_windows_count_failures(name: str) -> None:
    """Four rounds, one of which fails, are three measurements."""
    make = PERIODS[name]
    assert_law(make(4), SETTING.domain, without=lambda trial: make(3), data=periodic())


def test_of_learned_hyperparameters() -> None:
    """One fit, after the last round."""
    data = Data(8.0)
    learned = composed(decay=Markov(0.05), learning=Refit(every=10), width=Constant(4.0))
    strategy = learned(KERNEL, 0.02)
    assert isinstance(strategy, GPStrategy)

    def without(trial: int) -> Strategy:
        return replace(strategy, learning=Refit(every=int(data.ok[:, trial].sum())))

    assert_law(strategy, BOX, elsewhere=True, without=without, data=data, tolerance=1e-5)
