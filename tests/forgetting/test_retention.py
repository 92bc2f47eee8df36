"""Retention of rows: which are kept, and what counts as a reset."""

import math

import pytest
import torch
from oracles.dense import trigger_threshold

from botorch_tv.forgetting import (
    EventTrigger,
    KeepAll,
    PeriodicReset,
    Retention,
    SlidingWindow,
    prediction_error,
)


def live(rule: Retention, times: list[float], now: float) -> list[bool]:
    first = torch.tensor([times[0]], dtype=torch.float64)
    told = torch.tensor(times, dtype=torch.float64)
    return rule.live(told, torch.tensor([now], dtype=torch.float64), first).tolist()


def test_periods_in_rounds() -> None:
    """Before deciding round t = told + 1 all is forgotten when told mod N = 0."""
    rule = PeriodicReset(3)
    assert [rule.first_kept(told) for told in range(8)] == [0, 0, 0, 3, 3, 3, 6, 6]
    assert [told for told in range(1, 10) if rule.resets(told)] == [3, 6, 9]
    assert [PeriodicReset(1).first_kept(told) for told in range(4)] == [0, 1, 2, 3]
    assert not any(PeriodicReset(10).resets(told) for told in range(1, 10))


def test_windows_in_rounds() -> None:
    rule = SlidingWindow(3)
    assert [rule.first_kept(told) for told in range(6)] == [0, 0, 0, 0, 1, 2]
    assert not any(rule.resets(told) for told in range(6))
    assert SlidingWindow(100).first_kept(100) == 0


def test_periods_in_time() -> None:
    """They count from the first observation; an end belongs to the next."""
    rule, times = PeriodicReset(2.0, by="time"), [5.0, 6.5, 7.0, 8.75, 9.0]
    assert live(rule, times[:2], 6.75) == [True, True]
    assert live(rule, times[:2], 7.0) == [False, False]
    assert live(rule, times, 9.0) == [False, False, False, False, True]
    assert live(rule, times, 8.9)[:4] == [False, False, True, True]
    assert live(rule, times, 1e6) == [False] * 5


def test_windows_in_time() -> None:
    """An observation exactly W old is kept."""
    rule, times = SlidingWindow(2.0, by="time"), [0.0, 1.0, 2.5]
    assert live(rule, times, 2.5) == [False, True, True]
    assert live(rule, times, 3.0) == [False, True, True]
    assert live(rule, times, 3.25) == [False, False, True]
    assert live(rule, times, 100.0) == [False] * 3


@pytest.mark.parametrize("rule", [KeepAll(), EventTrigger(0.1)], ids=repr)
def test_others_keep_all_whatever_the_time(rule: Retention) -> None:
    assert live(rule, [0.0, 1.0], 1e9) == [True, True]
    assert rule.first_kept(1000) == 0
    assert not rule.resets(1000)


@pytest.mark.parametrize("rule", [PeriodicReset(2), SlidingWindow(2)], ids=repr)
def test_rules_in_rounds_do_not_look_at_times(rule: Retention) -> None:
    assert not rule.uses_time
    assert live(rule, [0.0, 1.0], 1e9) == [True, True]


def test_what_restarts_a_clock_and_what_slides() -> None:
    restarts = [PeriodicReset(2), PeriodicReset(2.0, by="time"), EventTrigger(0.1)]
    assert all(rule.restarts and not rule.slides for rule in restarts)
    windows = [SlidingWindow(2), SlidingWindow(2.0, by="time")]
    assert all(rule.slides and not rule.restarts for rule in windows)
    assert not any((KeepAll().restarts, KeepAll().slides, KeepAll().uses_data))


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
        fired = rule.fires(y, mean, spread, variance, rounds)
        assert fired.tolist() == [True, True, False, False]
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
    assert rule.fires(y, one, one, 0.1, since).tolist() == [False, True, False]
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
    assert kind(0.5, by="time").uses_time


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, math.nan])
def test_probabilities_that_are_none_are_refused(delta: float) -> None:
    with pytest.raises(ValueError, match="delta"):
        EventTrigger(delta)
