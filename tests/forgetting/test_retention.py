"""Retention of rows: which are kept, and what counts as a reset."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from oracles.dense import trigger_threshold

from botorch_tv.forgetting import (
    EventTrigger,
    KeepAll,
    Log,
    Observation,
    PeriodicReset,
    Retained,
    Retention,
    SlidingWindow,
    prediction_error,
)
from botorch_tv.forgetting.retention import require_rules

D = torch.float64


def log_of(times: list[float], now: float | None = None, **more: Any) -> Log:
    """A log of one trial; before a choice at ``now``, after an observation unless given."""
    time = torch.tensor([times], dtype=D)
    at = time[:, -1] if now is None else torch.tensor([now], dtype=D)
    one = torch.ones_like(at)
    seen = Observation(X=one.unsqueeze(-1), y=one, mean=one, sd=one, noise=one)
    left = SimpleNamespace(time=time, y=torch.zeros_like(time), noise=torch.ones_like(time))
    facts: dict[str, Any] = {
        "now": at,
        "rounds": len(times),
        "since": torch.ones(1, dtype=torch.int64),
        "first_time": time[:, 0],
        "newest": seen if now is None else None,
    }
    return Log(left, **(facts | more))


def live(rule: Retention, times: list[float], now: float) -> list[bool]:
    retained = rule.keep(log_of(times, now))
    assert isinstance(retained, Retained)
    assert retained.rows is not None
    return retained.rows.tolist()[0]


def test_periods_in_rounds() -> None:
    """Before deciding round t = told + 1 all is forgotten when told mod N = 0."""
    rule = PeriodicReset(3)
    answers = [rule.keep(log_of([0.0] * told, now=9.0)) for told in range(1, 8)]
    assert [one.newest for one in answers] == [1, 2, 0, 1, 2, 0, 1]
    assert [one.reset for one in answers] == [False, False, True] * 2 + [False]
    assert PeriodicReset(1).keep(log_of([0.0], now=9.0)) == Retained(newest=0, reset=True)


def test_a_period_does_not_end_within_a_round() -> None:
    assert PeriodicReset(3).keep(log_of([0.0] * 3)) == Retained()


def test_windows_in_rounds() -> None:
    for now in (None, 9.0):
        assert SlidingWindow(3).keep(log_of([0.0] * 5, now)) == Retained(newest=3)


def test_periods_in_time() -> None:
    """They count from the first observation; an end belongs to the next."""
    rule, times = PeriodicReset(2.0, by="time"), [5.0, 6.5, 7.0, 8.75, 9.0]
    assert live(rule, times[:2], 6.75) == [True, True]
    assert live(rule, times[:2], 7.0) == [False, False]
    assert live(rule, times, 9.0) == [False, False, False, False, True]
    assert live(rule, times, 8.9)[:4] == [False, False, True, True]
    assert live(rule, times, 1e6) == [False] * 5


def test_a_period_in_time_is_reset_before_a_choice() -> None:
    rule, times = PeriodicReset(2.0, by="time"), [5.0, 6.5]
    for now, reset in ((6.9, [False]), (7.0, [True]), (100.0, [True])):
        assert rule.keep(log_of(times, now)).reset.tolist() == reset
    assert rule.keep(log_of([5.0, 6.5, 7.0])).reset is False


def test_windows_in_time() -> None:
    """An observation exactly W old is kept."""
    rule, times = SlidingWindow(2.0, by="time"), [0.0, 1.0, 2.5]
    assert live(rule, times, 2.5) == [False, True, True]
    assert live(rule, times, 3.0) == [False, True, True]
    assert live(rule, times, 3.25) == [False, False, True]
    assert live(rule, times, 100.0) == [False] * 3


@pytest.mark.parametrize("rule", [KeepAll(), EventTrigger(0.1)], ids=repr)
def test_others_keep_all_whatever_the_time(rule: Retention) -> None:
    assert rule.keep(log_of([0.0, 1.0], now=1e9)) == Retained()


@pytest.mark.parametrize("delta", [0.01, 0.1, 0.9])
@pytest.mark.parametrize("since", [1, 2, 50])
def test_event_trigger(since: int, delta: float) -> None:
    """[ET] Lemma 3: it fires beyond the band, on either side, and not within."""
    rule, sd, noise = EventTrigger(delta), 0.4, 0.02
    limit = trigger_threshold(sd, noise, since, delta)
    y = 0.3 + torch.tensor([limit, -limit, limit, -limit], dtype=torch.float64)
    y = y + torch.tensor([1e-9, -1e-9, -1e-9, 1e-9], dtype=torch.float64)
    mean, spread = torch.full_like(y, 0.3), torch.full_like(y, sd)
    rounds = torch.full((4,), since)
    for variance in (noise, torch.full_like(y, noise)):
        noises = torch.as_tensor(variance, dtype=D).expand(4)
        seen = Observation(X=y.unsqueeze(-1), y=y, mean=mean, sd=spread, noise=noises)
        retained = rule.keep(log_of([0.0], since=rounds, newest=seen))
        assert retained.newest == 1
        assert retained.where.tolist() == retained.reset.tolist() == [True, True, False, False]
        band = rule.band(spread, variance, rounds)
        assert band is not None
        torch.testing.assert_close(band, torch.full_like(y, limit))


def test_rule_of_ones_own_is_asked_and_has_no_band() -> None:
    def upwards(
        y: torch.Tensor,
        mean: torch.Tensor,
        sd: torch.Tensor,
        noise: object,
        since: torch.Tensor,
        delta: float,
    ) -> torch.Tensor:
        return (y > mean + delta * sd) & (since > 1)

    rule = EventTrigger(0.5, upwards)
    y = torch.tensor([1.4, 1.6, 1.6], dtype=torch.float64)
    one, since = torch.ones_like(y), torch.tensor([2, 2, 1])
    seen = Observation(X=y.unsqueeze(-1), y=y, mean=one, sd=one, noise=0.1 * one)
    retained = rule.keep(log_of([0.0], since=since, newest=seen))
    assert retained.where.tolist() == [False, True, False]
    assert rule.band(one, 0.1, since) is None
    assert "upwards" in repr(rule)
    assert "prediction_error" in repr(EventTrigger(0.5, prediction_error))


@pytest.mark.parametrize("kind", [PeriodicReset, SlidingWindow])
def test_lengths_that_are_none_are_refused(kind: type) -> None:
    for length in (0, -1, 2.5, math.nan, math.inf):
        with pytest.raises(ValueError, match="rounds"):
            kind(length)
    for length in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="time"):
            kind(length, by="time")
    with pytest.raises(ValueError, match="by is 'hours'"):
        kind(3, by="hours")


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, math.nan])
def test_probabilities_that_are_none_are_refused(delta: float) -> None:
    with pytest.raises(ValueError, match="delta"):
        EventTrigger(delta)


def test_a_rule_that_defines_nothing_is_refused() -> None:
    """Such as one that only has a method nobody calls."""

    class Old(Retention):
        def live(self, time: torch.Tensor, now: torch.Tensor) -> torch.Tensor:
            return now - time < 1

    with pytest.raises(TypeError, match=r"abstract class Old .*keep"):
        Old()  # type: ignore[abstract]
    with pytest.raises(ValueError, match="retention is 5"):
        require_rules((KeepAll(), 5))
