"""The state is that after all trials in order of time, for any order of arrival."""

import itertools

import pytest
import torch
from optuna.distributions import FloatDistribution

from botorch_tv.loop.log import OLDEST, MeasurementLog, trial_answer, trial_log
from botorch_tv.optuna.trials import StudySpace


@pytest.fixture
def empty(given):
    return trial_log(given, StudySpace({"x": FloatDistribution(0.0, 1.0)}))


def rows(number):
    generator = torch.Generator().manual_seed(3)
    U = torch.rand(number, 2, dtype=torch.float64, generator=generator).tolist()
    return [trial_answer(float(t), t, (x,), y) for t, (x, y) in enumerate(U)]


def require_same_state(first, other):
    assert first.answers == other.answers
    assert first.state.rounds == other.state.rounds == len(first.answers)
    for mine, its in zip(first.state.history, other.state.history):
        assert torch.equal(mine.tensor(), its.tensor())


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_any_order_gives_the_same(empty, order):
    every = rows(8)
    first, late = every[:4], every[4:]
    grown = empty.changed(first, OLDEST)
    for number in range(1, 5):
        grown = grown.changed([*first, *(late[place] for place in order[:number])], OLDEST)
    require_same_state(grown, empty.changed(every, OLDEST))


def test_trials_of_the_same_time_are_ordered_by_number(empty):
    first, second = trial_answer(1.0, 4, (0.7,), 2.0), trial_answer(1.0, 5, (0.2,), 1.0)
    grown = empty.changed([second], OLDEST).changed([second, first], OLDEST)
    require_same_state(grown, empty.changed([first, second], OLDEST))
    assert grown.answers == (first, second)


def test_only_new_rows_are_replayed(empty, monkeypatch):
    replayed_rows = []

    def counted(log, base, answers):
        for state, reset in plain(log, base, answers):
            replayed_rows.append(answers[state.rounds - 1])
            yield state, reset

    plain = MeasurementLog._steps
    monkeypatch.setattr(MeasurementLog, "_steps", counted)
    every = rows(40)
    grown = empty.changed(every[:30], OLDEST)
    assert replayed_rows == every[:30]
    replayed_rows.clear()
    grown = grown.changed(every[:30], OLDEST)
    assert replayed_rows == []
    grown = grown.changed([*every[:29], every[30]], OLDEST)  # a row replaced
    assert replayed_rows == [every[30]]
    replayed_rows.clear()
    late = grown.changed(every[:31], OLDEST)
    assert replayed_rows == every[29:31]
    replayed_rows.clear()
    assert len(late.states) <= 7
    require_same_state(late.changed(every[1:31], OLDEST), empty.changed(every[1:31], OLDEST))


@pytest.mark.parametrize("lateness", range(1, 20))
def test_late_trials_cost_what_they_are_late(empty, monkeypatch, lateness):
    replayed_rows = []

    def counted(log, base, answers):
        for state, reset in plain(log, base, answers):
            replayed_rows.append(answers[state.rounds - 1])
            yield state, reset

    plain = MeasurementLog._steps
    every = rows(60)
    monkeypatch.setattr(MeasurementLog, "_steps", counted)
    for number in (40, 47, 59):
        grown = empty.changed(every[:number], OLDEST)
        replayed_rows.clear()
        late = trial_answer(number - lateness - 0.5, 99, (0.5,), 1.0)
        grown.changed([*every[:number], late], OLDEST)
        assert lateness + 1 <= len(replayed_rows) <= 4 * lateness + 3
        assert replayed_rows[-1] == every[number - 1]
