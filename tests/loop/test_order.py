"""Answers out of order, amended or removed."""

import itertools
import json
import math
import pickle
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from loop.loops import (
    BOX,
    CASES,
    FEW,
    GRID,
    NOISE,
    PLACES,
    STRATEGIES,
    assert_refused,
    choices,
    fired,
    kernel,
    made,
    measured,
)

from botorch_tv.experts import sparq_gp_ucb
from botorch_tv.forgetting import EventTrigger
from botorch_tv.forgetting.change_detection import prediction_band
from botorch_tv.loop import Loop
from botorch_tv.loop.log import MeasurementLog
from botorch_tv.strategies import et_gp_ucb, tv_gp_ucb


@pytest.mark.few(4)
@pytest.mark.parametrize("case", CASES, ids="-".join)
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


def trigger_loop(values=(1.0,) * 6, pending=1):
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
        loop.tell(y, suggestion=loop.ask())
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
    assert loop.posterior(GRID.X[:1]).mean.item() == pytest.approx(-4 / (4 + NOISE), abs=1e-9)


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
    loop = trigger_loop()
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
    loop = trigger_loop()
    loop.observe(GRID.X[3], -3.0, time=2.5)
    assert fired(loop)
    assert loop.history.reset.tolist() == [False, False, True, True, False, False, False]


def test_observations_are_compared_at_their_time():
    loop = trigger_loop()
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
    assert len(loop._record.log.states) <= 7
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
    loop = trigger_loop([1.0, 1.0, 1.0, 0.53, 1.0, 1.0])
    loop.observe(GRID.X[3], -3.0, time=2.5)
    assert fired(loop)
    assert loop.history.reset.tolist() == [False, False, True, True, False, False, False]
    # Without the outlier 0.01; the stored prediction is 1 ± 0.0577, which is 2.98 away.
    noise, level = NOISE**0.5, math.sqrt(2 * math.log(math.pi**2 / 3 / 0.1))
    old, new = ((NOISE / (n + NOISE)) ** 0.5 for n in (3, 1))
    assert level * (old + noise) < 3 / (3 + NOISE) - 0.53
    assert level * (new + noise) > 1 / (1 + NOISE) - 0.53


ROUNDS, WRONG = 11, 4
"""Suggestion ``WRONG`` gets a reading so wrong that triggers fire."""
KINDS = STRATEGIES | FEW
AMENDED = [("adaptive", "grid"), ("adaptive", "box"), ("trigger", "grid"), ("trigger", "box")]
AMENDED += [("trigger", "candidates"), ("window", "grid"), ("window", "box"), ("ratio", "grid")]
AMENDED += [("learning", "box"), ("Thompson", "grid")]
AMENDED = [(case, 2) for case in AMENDED]
AMENDED += [(("trigger", "grid"), 1), (("window", "box"), 1), (("Thompson", "grid"), 1)]


def loop_of(case, pending):
    return Loop(KINDS[case[0]](), PLACES[case[1]], pending=pending, seed=5)


def night(loop, wrong, points=None):
    """Play rounds with late answers; ``wrong`` of None discards the suggestion ``WRONG``.

    Returns the suggested points, which ``points`` may prescribe, and the right reading.
    """
    asked = []
    right = math.nan
    with pytest.MonkeyPatch.context() as patch:
        plain = MeasurementLog.choice

        def dictated(self, now, *given, **named):
            choice = plain(self, now, *given, **named)  # draws its random numbers
            if points is None:
                return choice
            X = torch.tensor(points[len(asked)], dtype=torch.float64)
            return self.quiet.suggestion_at(self.state, X, now=now)

        patch.setattr(MeasurementLog, "choice", dictated)
        for t in range(1, ROUNDS + 1):
            while len(loop.open) < loop.pending:
                asked.append(loop.ask(now=float(t)).point)
            item = loop.open[-1 if t % 3 == 0 else 0]
            y = measured(item.point, t)
            if item.number == WRONG:
                right, y = measured(item.point, t), wrong
            if y is None:
                loop.discard(item)
            else:
                loop.tell(y, suggestion=item, time=t + 0.5 - 1.75 * (t % 4 == 0))
            if t % 5 == 0:
                loop.observe(GRID.X[t], 0.3, time=t - 1.2)
    return asked, right


@pytest.mark.few(1)
@pytest.mark.parametrize("change", ["amend", "remove"])
@pytest.mark.parametrize(("case", "pending"), AMENDED)
def test_as_if_the_wrong_reading_had_never_been(case, pending, change, tmp_path):
    loop, never = loop_of(case, pending), loop_of(case, pending)
    points, right = night(loop, -4.0)
    if case[0] in ("trigger", "ratio"):
        assert loop.history.reset[loop.history.number.tolist().index(WRONG)]
    night(never, right if change == "amend" else None, points)
    if change == "amend":
        loop.amend(WRONG, right)
    else:
        loop.remove(WRONG)
    file = tmp_path / "loop.json"
    loop.save(file)
    for item in (loop, Loop.load(file, loop.strategy)):
        for ours, theirs in zip(item.history[:7], never.history[:7], strict=True):
            assert torch.equal(ours.nan_to_num(), theirs.nan_to_num())
        if item.strategy.compares:  # other strategies store predictions
            assert [(o.mean, o.sd) for o in item.open] == [(o.mean, o.sd) for o in never.open]
    expected = choices(never)
    assert choices(Loop.load(file, loop.strategy)) == expected
    assert choices(loop) == expected
    assert repr(loop.history) == repr(never.history)


def test_of_a_failure_and_back():
    loop = Loop(STRATEGIES["static"](), GRID)
    loop.observe(GRID.X[3], 0.5, time=1.0)
    loop.ask()
    loop.tell(ok=False)
    loop.amend(1, 0.25)
    assert loop.history.y.tolist() == [0.5, 0.25]
    loop.amend(-1, ok=False)
    assert loop.table()["ok"].tolist() == [False, True]
    loop.amend(-1, 0.75, ok=True, time=9.0)
    assert loop.history.number.tolist() == [1, -1]
    assert loop.history.y.tolist() == [0.25, 0.75]
    wrong = [(row.number, row.y, row.time, row.became) for row in loop.superseded]
    assert math.isnan(wrong[0][1])
    assert math.isnan(wrong[2][1])
    assert [item[0] for item in wrong] == [1, -1, -1]
    assert wrong[1] == (-1, 0.5, 1.0, "amended")
    assert loop.superseded[1].point == GRID.X[3].tolist()
    assert "2 measurements from time 2 to 9; 3 amended" in loop.describe()


def test_numbers_are_not_used_again(tmp_path):
    loop = Loop(STRATEGIES["static"](), GRID)
    for y in (0.1, 0.2, 0.3):
        loop.observe(GRID.X[0], y)
    loop.remove(-3)
    loop.remove(-1)
    loop.save(tmp_path / "loop.json")
    for item in (loop, Loop.load(tmp_path / "loop.json", loop.strategy)):
        item.observe(GRID.X[1], 0.4, time=0.5)
        assert item.history.number.tolist() == [-4, -2]
        found = [(old.number, old.became) for old in item.superseded]
        assert found == [(-3, "removed"), (-1, "removed")]
        item.remove(-2)
        item.remove(-4)
        assert item.last is None
        assert "No measurements yet; 4 removed." in item.describe()
        assert len(item.table()) == 0
        assert item.ask().number == 1


REFUSED = {
    "nothing": (lambda loop: loop.amend(1), r"measurement 1 is 0.5 already"),
    "no value": (lambda loop: loop.amend(2, ok=True), "y is None.*ok=False"),
    "not finite": (lambda loop: loop.amend(1, math.nan), "y is nan, but it must be finite"),
    "time": (lambda loop: loop.amend(1, time=math.inf), "time is inf"),
    "open": (lambda loop: loop.amend(3, 1.0), "no measurement 3; give a number from the table"),
    "removed": (lambda loop: loop.amend(4, 1.0), "no measurement 4; give a number"),
    "unknown": (lambda loop: loop.remove(0), "no measurement 0; give a number"),
    "text number": (lambda loop: loop.remove("1"), "no measurement '1'"),
    "too large": (lambda loop: loop.amend(1, 1e300), "too large"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_and_nothing_changed(name, tmp_path):
    loop = made(("trigger", "grid"), pending=2)
    for _ in range(2):
        loop.ask()
    loop.tell(0.5, suggestion=1)
    loop.tell(ok=False)
    for _ in range(2):
        loop.ask()
    loop.tell(0.1, suggestion=4)
    loop.remove(4)
    assert_refused(loop, *REFUSED[name], tmp_path)


def test_dates_and_names():
    start = datetime(2026, 3, 1, 8, tzinfo=UTC)
    loop = Loop({"temperature": (20, 80)})
    for hour in range(6):
        loop.observe({"temperature": 30 + hour}, 0.1 * hour, time=start + timedelta(hours=hour))
    loop.amend(-1, time=start + timedelta(hours=7))
    assert loop.table()["temperature"].tolist() == pytest.approx([31, 32, 33, 34, 35, 30])
    assert loop.superseded[0].time == start
    assert loop.superseded[0].point == pytest.approx({"temperature": 30})
    never = Loop({"temperature": (20, 80)})
    never._units.clock = never._units.clock.begin(start)  # from which times are counted
    for hour in range(1, 6):
        never.observe({"temperature": 30 + hour}, 0.1 * hour, time=start + timedelta(hours=hour))
    never.observe({"temperature": 30}, 0.0, time=start + timedelta(hours=7))
    later = start + timedelta(hours=8)
    assert loop.ask(now=later).point == never.ask(now=later).point


@pytest.mark.parametrize("change", ["amend", "remove"])
def test_replies_of_an_expert_stay(change, tmp_path):
    def rounds(fifth):
        loop = Loop(sparq_gp_ucb(kernel=kernel(), noise=NOISE), BOX)
        for t in range(1, 8):
            y = fifth if t == 5 else 0.1 * t
            loop.observe([0.1 * t, 0.5 - 0.1 * t], y, time=float(t))
            if t in (3, 6):
                asked = loop.consult()
                if asked is not None:
                    loop.absorb(asked, [0.2 + 0.1 * item for item in range(len(asked))])
        return loop

    def replies():
        loop.save(tmp_path / "loop.json")
        found = json.loads((tmp_path / "loop.json").read_text())["replies"]
        return [(row["number"], row["points"], row["time"], row["y"]) for row in found]

    loop = rounds(-3.0)
    before = replies()
    assert before
    if change == "amend":
        loop.amend(-5, 0.5)
    else:
        loop.remove(-5)
    assert replies() == before
    # Without the round, the expert is asked at another time, so only the file is compared.
    again = Loop.load(tmp_path / "loop.json", loop.strategy)
    for other in [again, *([rounds(0.5)] if change == "amend" else [])]:
        actual, expected = loop.ask(now=9.0), other.ask(now=9.0)
        assert actual.point == expected.point
        assert (actual.mean, actual.sd) == (expected.mean, expected.sd)
        loop.discard()


def test_the_clock_goes_on_when_all_was_removed():
    start = datetime(2026, 3, 1, 8, tzinfo=UTC)
    loop = Loop({"x": (0, 1)})
    loop.observe({"x": 0.5}, 1.0, time=start)
    loop.remove(-1)
    loop.observe({"x": 0.5}, 1.0, time=start + timedelta(hours=5))
    assert loop.superseded[0].time == start
    assert list(loop.history.times) == [start + timedelta(hours=5)]


def test_a_prediction_is_not_made_for_a_time_before_the_amended_data():
    drifting = tv_gp_ucb(kernel=kernel(), noise=NOISE, epsilon=0.3)
    loop = Loop(replace(drifting, retention=EventTrigger(0.1)), GRID, pending=2)
    loop.observe(GRID.X[3], 0.8, time=1.0)
    loop.observe(GRID.X[4], 0.7, time=2.0)
    suggestion = loop.ask(now=3.0)
    loop.amend(-1, time=10.0)
    posterior = loop.posterior(suggestion.X, now=10.0)
    assert loop.open[0].mean == pytest.approx(posterior.mean.item(), abs=1e-12)
    assert loop.open[0].sd == pytest.approx(posterior.variance.sqrt().item(), abs=1e-9)


@pytest.mark.parametrize("kind", ["static", "trigger", "adaptive"])
def test_a_correction_leaves_the_open_suggestions_answerable(kind):
    loop = Loop(KINDS[kind](), GRID, pending=2)
    for y in (0.1, 0.3, -0.2):
        loop.observe(GRID.X[round(abs(10 * y))], y)
    first, second = loop.ask(), pickle.loads(pickle.dumps(loop.ask()))
    loop.remove(-2)
    loop.amend(-1, 0.7)
    loop.tell(0.2, suggestion=second)
    loop.discard(first)
    assert loop.history.number.tolist() == [-1, -3, 2]
    foreign = replace(loop.ask(), number=4, row=replace(first.row, point=(0.5, 0.5)))
    loop.ask()
    with pytest.raises(InputDataError, match=r"the open suggestions are: 3 .*; 4 "):
        loop.tell(0.2, suggestion=foreign)


def test_a_correction_leaves_the_open_consultations_answerable():
    loop = Loop(sparq_gp_ucb(kernel=kernel(), noise=NOISE), GRID)
    asked = None
    for row in range(6):
        loop.observe(GRID.X[row], 0.1 * row)
        asked = loop.consult() or asked
    assert asked is not None
    loop.remove(-1)
    assert loop.absorb(asked, [0.5] * len(asked)) == 0
