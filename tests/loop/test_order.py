"""Answers out of order."""

import itertools
import math

import numpy as np
import pytest
import torch
from loop.loops import CASES, GRID, NOISE, PLACES, fired, made, measured

from botorch_tv.forgetting import EventTrigger
from botorch_tv.forgetting.change_detection import prediction_band
from botorch_tv.loop import Loop
from botorch_tv.strategies import et_gp_ucb

WITHOUT_TRIGGER = [case for case in CASES if case[0] not in ("trigger", "confirmed")]


@pytest.mark.parametrize("case", WITHOUT_TRIGGER, ids="-".join)
def test_any_order_of_arrival_gives_the_state_of_the_order_of_time(case):
    random = np.random.default_rng(1)
    n = 18
    times = np.cumsum(random.integers(0, 5, n) / 4.0)
    times[3] = times[2]  # ties keep the order of arrival
    arms = torch.as_tensor(random.integers(0, 36, n))
    X = GRID.X[arms] if case[1] == "grid" else GRID.X[arms] * 0.9
    y = [measured(point, time) for point, time in zip(X.tolist(), times)]
    ordered, shuffled = made(case, pending=2), made(case, pending=2)
    for row in range(n):
        ordered.observe(X[row], y[row], time=times[row])
    arrival = np.argsort(np.arange(n) + random.uniform(0, 4, n))
    arrival = [*arrival[4:], *arrival[:4]]
    ties = [row for row in arrival if times[row] == times[2]]
    arrival = [sorted(ties)[ties.index(row)] if row in ties else row for row in arrival]
    assert sum(item > other for item, other in itertools.pairwise(arrival)) >= 4
    for row in arrival:
        shuffled.observe(X[row], y[row], time=times[row])
    assert shuffled.history.X.tolist() == ordered.history.X.tolist()
    assert shuffled.history.reset.tolist() == ordered.history.reset.tolist()
    Z = GRID.X if case[1] == "grid" else PLACES["box"].bounds
    ours, theirs = shuffled.posterior(Z), ordered.posterior(Z)
    assert torch.equal(ours.mean, theirs.mean)
    assert torch.equal(ours.variance, theirs.variance)
    assert shuffled.ask().point == ordered.ask().point


def test_late_answers_are_inserted_at_their_time():
    loop, other = made(("window", "grid"), pending=5), made(("window", "grid"))
    asked = [loop.ask() for _ in range(5)]
    answers = [measured(suggestion.point, suggestion.time) for suggestion in asked]
    for number in (4, 2, 0, 3, 1):
        loop.tell(answers[number], suggestion=asked[number])
    for suggestion, y in zip(asked, answers):
        other.observe(suggestion.point, y, time=suggestion.time)
    assert loop.history.number.tolist() == [1, 2, 3, 4, 5]
    assert loop.ask().point == other.ask().point


def trigger_loop(pending):
    """Knows y = 1 everywhere, and well."""
    return trigger_loop_of([1.0] * 6, pending)


def trigger_loop_of(values, pending=1):
    """The same number everywhere, measured a few times."""
    strategy = et_gp_ucb(kernel=torch.ones(36, 36).double(), noise=NOISE)
    loop = Loop(strategy, GRID, pending=pending)
    for value in values:
        loop.ask()
        assert not loop.tell(value)
    return loop


def test_triggers_use_the_prediction_made_at_the_choice():
    loop = trigger_loop(pending=2)
    early = loop.ask()
    # Drifts down in steps that are each too small to fire.
    for y in (0.9, 0.8, 0.7):
        other = loop.ask()
        loop.tell(y, suggestion=other)
        assert not fired(loop)
    retention = loop.strategy.retention
    assert isinstance(retention, EventTrigger)
    band = float(retention.band(torch.tensor(early.sd), NOISE, loop.state.data.since))
    y = early.mean + 0.98 * band
    since = loop.posterior(early.X, now=20.0)
    now_band = float(prediction_band(since.variance.sqrt(), NOISE, loop.state.data.since, 0.1))
    assert abs(y - since.mean.item()) > now_band  # today's prediction would fire
    loop.tell(y, suggestion=early, time=20.0)
    assert not fired(loop)
    late = loop.ask()
    assert not loop.history.reset.any()
    loop.tell(late.mean + 10 * band, suggestion=late)
    assert fired(loop)


def test_suggestions_open_at_a_change_trigger_once():
    loop = trigger_loop(pending=4)
    waiting = [loop.ask() for _ in range(4)]
    resets = []
    for suggestion in waiting:
        loop.tell(-1.0, suggestion=suggestion)
        resets.append(fired(loop))
    assert resets == [True, False, False, False]
    # With their own predictions all would have fired, even with the widest band.
    for suggestion in waiting:
        band = prediction_band(torch.tensor(suggestion.sd), NOISE, torch.tensor(10), 0.1)
        assert abs(-1.0 - suggestion.mean) > float(band)
    # All four measurements after the change are retained; the prior is 0 with variance 1.
    expected = -4 / (4 + NOISE)
    assert loop.posterior(GRID.X[:1]).mean.item() == pytest.approx(expected, abs=1e-9)


def test_the_remaining_data_predict_after_a_reset():
    """Open at a change, but measured when the world had changed once more: that fires again."""
    loop = trigger_loop(pending=2)
    first, second = loop.ask(), loop.ask()
    loop.tell(-3.0, suggestion=first)
    assert fired(loop)
    loop.tell(4.0, suggestion=second)
    assert fired(loop)


def test_late_answer_from_before_a_reset_belongs_before_it():
    loop = trigger_loop(pending=3)
    early, later = loop.ask(), loop.ask()
    loop.tell(-1.0, suggestion=later)
    assert fired(loop)
    before = loop.posterior(GRID.X[:1]).mean.item()
    loop.tell(1.1, suggestion=early)
    assert not fired(loop)
    assert loop.history.reset.tolist() == [False] * 7 + [True]
    assert loop.posterior(GRID.X[:1]).mean.item() == pytest.approx(before, abs=1e-12)


def test_a_reset_by_a_late_answer_makes_older_predictions_void():
    loop = trigger_loop(pending=1)
    loop.ask()
    loop.tell(ok=False)
    waiting = loop.ask()
    loop.observe(GRID.X[3], -1.0, time=6.5)
    assert fired(loop)
    assert abs(-1.0 - waiting.mean) > 1.5
    loop.tell(-1.0, suggestion=waiting)
    assert not fired(loop)
    assert loop.posterior(GRID.X[:1]).mean.item() == pytest.approx(-2 / (2 + NOISE), abs=1e-9)


def test_a_late_outlier_triggers_only_its_neighbours():
    loop = trigger_loop(pending=1)
    loop.observe(GRID.X[3], -3.0, time=2.5)
    assert fired(loop)
    assert loop.history.reset.tolist() == [False, False, True, True, False, False, False]


def test_observations_are_compared_at_their_time():
    loop = trigger_loop(pending=1)
    loop.ask()
    loop.tell(-1.0)
    assert fired(loop)
    loop.observe(GRID.X[3], 1.05, time=3.5)
    assert not fired(loop)
    loop.observe(GRID.X[3], -3.0, time=4.5)
    assert fired(loop)
    assert loop.history.time[loop.history.reset].tolist()[0] == 4.5


def test_retained_states_are_few_and_late_answers_fast(monkeypatch):
    loop = made(("Markov", "grid"), pending=8)
    for number in range(40):
        loop.observe(GRID.X[number % 36], 0.1, time=float(number))
    assert len(loop._log.states) <= 7
    tells, plain = [], type(loop.strategy).tell

    def counted(*given, **more):
        tells.append(1)
        return plain(*given, **more)

    monkeypatch.setattr(type(loop.strategy), "tell", counted)
    for late in (1, 7, 15):
        tells.clear()
        loop.observe(GRID.X[0], 0.2, time=float(loop.history.time[-late]) - 0.5)
        assert late < len(tells) <= 2 * late + 1


def test_a_void_prediction_stays_void_after_an_older_trigger():
    loop = trigger_loop_of([1.0, 1.0, 1.0, 0.53, 1.0, 1.0])
    loop.observe(GRID.X[3], -3.0, time=2.5)
    assert fired(loop)
    assert loop.history.reset.tolist() == [False, False, True, True, False, False, False]
    # Without the outlier 0.01; the stored prediction is 1 ± 0.0577, which is 2.98 away.
    noise, level = NOISE**0.5, math.sqrt(2 * math.log(math.pi**2 / 3 / 0.1))
    old, new = ((NOISE / (n + NOISE)) ** 0.5 for n in (3, 1))
    assert level * (old + noise) < 3 / (3 + NOISE) - 0.53
    assert level * (new + noise) > 1 / (1 + NOISE) - 0.53
