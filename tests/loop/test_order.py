"""Answers out of order."""

import itertools
import math
from typing import Any

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
def test_any_order_of_arrival_gives_the_state_of_the_order_of_time(case: tuple[str, str]) -> None:
    """Near misses go by recent states, far ones from the start."""
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
    assert sum(one > other for one, other in itertools.pairwise(arrival)) >= 4
    for row in arrival:
        shuffled.observe(X[row], y[row], time=times[row])
    assert shuffled.history.X.tolist() == ordered.history.X.tolist()
    assert shuffled.history.reset.tolist() == ordered.history.reset.tolist()
    Z = GRID.X if case[1] == "grid" else PLACES["box"].bounds  # type: ignore[attr-defined]
    ours, theirs = shuffled.posterior(Z), ordered.posterior(Z)
    assert torch.equal(ours.mean, theirs.mean)
    assert torch.equal(ours.variance, theirs.variance)
    assert shuffled.ask().point == ordered.ask().point


def test_late_answers_to_suggestions_are_taken_in_at_their_place() -> None:
    loop, other = made(("window", "grid"), pending=5), made(("window", "grid"))
    asked = [loop.ask() for _ in range(5)]
    answers = [measured(one.point, one.time) for one in asked]
    for number in (4, 2, 0, 3, 1):
        loop.tell(answers[number], suggestion=asked[number])
    for one, y in zip(asked, answers):
        other.observe(one.point, y, time=one.time)
    assert loop.history.number.tolist() == [1, 2, 3, 4, 5]
    assert loop.ask().point == other.ask().point


def trigger_loop(pending: int) -> Loop:
    """Knows y = 1 everywhere, and well."""
    return trigger_loop_of([1.0] * 6, pending)


def trigger_loop_of(values: list[float], pending: int = 1) -> Loop:
    """The same number everywhere, measured a few times."""
    strategy = et_gp_ucb(kernel=torch.ones(36, 36).double(), noise=NOISE)
    loop = Loop(strategy, GRID, pending=pending)
    for value in values:
        loop.ask()
        assert not loop.tell(value)
    return loop


def test_verdicts_are_by_the_prediction_made_at_the_choice() -> None:
    """Late, an answer is judged by what its suggestion predicted, not by what came meanwhile."""
    loop = trigger_loop(pending=2)
    early = loop.ask()
    # Drifts down in steps that are each too small to fire.
    for y in (0.9, 0.8, 0.7):
        other = loop.ask()
        loop.tell(y, suggestion=other)
        assert not fired(loop)
    retention = loop.strategy.retention
    assert isinstance(retention, EventTrigger)
    band = float(retention.band(torch.tensor(early.sd), NOISE, loop.state.data.since))  # type: ignore[arg-type]
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


def test_suggestions_open_at_a_change_do_not_fire_one_after_another() -> None:
    loop = trigger_loop(pending=4)
    waiting = [loop.ask() for _ in range(4)]
    resets = []
    for one in waiting:
        loop.tell(-1.0, suggestion=one)
        resets.append(fired(loop))
    assert resets == [True, False, False, False]
    # By what they predicted they would all have fired, even with the widest band of these rounds.
    for one in waiting:
        band = prediction_band(torch.tensor(one.sd), NOISE, torch.tensor(10), 0.1)
        assert abs(-1.0 - one.mean) > float(band)
    # All four measurements of the new world are kept: the prior is 0 with variance 1.
    expected = -4 / (4 + NOISE)
    assert loop.posterior(GRID.X[:1]).mean.item() == pytest.approx(expected, abs=1e-9)


def test_verdict_after_a_reset_comes_from_what_is_left() -> None:
    """Open at a change, but measured when the world had changed once more: that fires again."""
    loop = trigger_loop(pending=2)
    first, second = loop.ask(), loop.ask()
    loop.tell(-3.0, suggestion=first)
    assert fired(loop)
    loop.tell(4.0, suggestion=second)
    assert fired(loop)


def test_late_answer_from_before_a_reset_belongs_before_it() -> None:
    loop = trigger_loop(pending=3)
    early, later = loop.ask(), loop.ask()
    loop.tell(-1.0, suggestion=later)
    assert fired(loop)
    before = loop.posterior(GRID.X[:1]).mean.item()
    loop.tell(1.1, suggestion=early)
    assert not fired(loop)
    assert loop.history.reset.tolist() == [False] * 7 + [True]
    assert loop.posterior(GRID.X[:1]).mean.item() == pytest.approx(before, abs=1e-12)


def test_a_reset_by_a_late_answer_makes_older_predictions_void() -> None:
    """What counts is when the answer arrived, not its place in time."""
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


def test_an_outlier_found_late_does_not_set_off_all_that_followed() -> None:
    """It fires, and so does the answer behind it, which agrees with those that came after."""
    loop = trigger_loop(pending=1)
    loop.observe(GRID.X[3], -3.0, time=2.5)
    assert fired(loop)
    assert loop.history.reset.tolist() == [False, False, True, True, False, False, False]


def test_observations_are_judged_at_their_place() -> None:
    """A value that nobody suggested, from before a change: the model of that time predicts it."""
    loop = trigger_loop(pending=1)
    loop.ask()
    loop.tell(-1.0)
    assert fired(loop)
    loop.observe(GRID.X[3], 1.05, time=3.5)
    assert not fired(loop)
    loop.observe(GRID.X[3], -3.0, time=4.5)
    assert fired(loop)
    assert loop.history.time[loop.history.reset].tolist()[0] == 4.5


def test_states_kept_are_few_and_late_answers_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state may take 80 MB; one of each of 16 answers was kept for 8 open suggestions."""
    loop = made(("Markov", "grid"), pending=8)
    for number in range(40):
        loop.observe(GRID.X[number % 36], 0.1, time=float(number))
    assert len(loop._log.states) <= 7
    tells, plain = [], type(loop.strategy).tell

    def counted(*given: Any, **more: Any) -> Any:
        tells.append(1)
        return plain(*given, **more)

    monkeypatch.setattr(type(loop.strategy), "tell", counted)
    for late in (1, 7, 15):
        tells.clear()
        loop.observe(GRID.X[0], 0.2, time=float(loop.history.time[-late]) - 0.5)
        assert late < len(tells) <= 2 * late + 1


def test_what_a_late_trigger_made_void_stays_so_when_an_older_answer_fires() -> None:
    """By the prediction it was told with, of three more measurements, 0.53 would fire as well."""
    loop = trigger_loop_of([1.0, 1.0, 1.0, 0.53, 1.0, 1.0])
    loop.observe(GRID.X[3], -3.0, time=2.5)
    assert fired(loop)
    assert loop.history.reset.tolist() == [False, False, True, True, False, False, False]
    # Of 0.01 less the outlier; what it was told with is 1 ± 0.0577, which is 2.98 beyond.
    noise, level = NOISE**0.5, math.sqrt(2 * math.log(math.pi**2 / 3 / 0.1))
    old, new = ((NOISE / (n + NOISE)) ** 0.5 for n in (3, 1))
    assert level * (old + noise) < 3 / (3 + NOISE) - 0.53
    assert level * (new + noise) > 1 / (1 + NOISE) - 0.53
