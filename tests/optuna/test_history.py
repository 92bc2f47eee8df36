"""The state is that of all trials in order of time, however they came in."""

import itertools

import pytest
import torch
from optuna.distributions import FloatDistribution

from botorch_tv.loop.log import OLDEST, MeasurementLog, trial_answer, trial_log
from botorch_tv.optuna.trials import StudySpace


@pytest.fixture
def empty(told):
    return trial_log(told, StudySpace({"x": FloatDistribution(0.0, 1.0)}))


def rows(number):
    generator = torch.Generator().manual_seed(3)
    U = torch.rand(number, 2, dtype=torch.float64, generator=generator).tolist()
    return [trial_answer(float(t), t, (x,), y) for t, (x, y) in enumerate(U)]


def told_alike(one, other):
    assert one.answers == other.answers
    assert one.state.rounds == other.state.rounds == len(one.answers)
    for mine, its in zip(one.state.history, other.state.history):
        assert torch.equal(mine.tensor(), its.tensor())


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_any_order_gives_the_same(empty, order):
    every = rows(8)
    first, late = every[:4], every[4:]
    grown = empty.changed(first, OLDEST)
    for number in range(1, 5):
        grown = grown.changed([*first, *(late[place] for place in order[:number])], OLDEST)
    told_alike(grown, empty.changed(every, OLDEST))


def test_trials_of_one_time_are_told_in_the_order_of_their_numbers(empty):
    first, second = trial_answer(1.0, 4, (0.7,), 2.0), trial_answer(1.0, 5, (0.2,), 1.0)
    grown = empty.changed([second], OLDEST).changed([second, first], OLDEST)
    told_alike(grown, empty.changed([first, second], OLDEST))
    assert grown.answers == (first, second)


def test_only_what_is_new_is_told(empty, monkeypatch):
    told_rows = []

    def counted(log, base, answers):
        for state, reset in plain(log, base, answers):
            told_rows.append(answers[state.rounds - 1])
            yield state, reset

    plain = MeasurementLog._steps
    monkeypatch.setattr(MeasurementLog, "_steps", counted)
    every = rows(40)
    grown = empty.changed(every[:30], OLDEST)
    assert told_rows == every[:30]
    told_rows.clear()
    grown = grown.changed(every[:30], OLDEST)
    assert told_rows == []
    grown = grown.changed([*every[:29], every[30]], OLDEST)  # one is gone, another there
    assert told_rows == [every[30]]
    told_rows.clear()
    late = grown.changed(every[:31], OLDEST)
    assert told_rows == every[29:31]
    told_rows.clear()
    assert len(late.states) <= 7
    told_alike(late.changed(every[1:31], OLDEST), empty.changed(every[1:31], OLDEST))


@pytest.mark.parametrize("lateness", range(1, 20))
def test_late_trials_cost_what_they_are_late(empty, monkeypatch, lateness):
    told_rows = []

    def counted(log, base, answers):
        for state, reset in plain(log, base, answers):
            told_rows.append(answers[state.rounds - 1])
            yield state, reset

    plain = MeasurementLog._steps
    every = rows(60)
    monkeypatch.setattr(MeasurementLog, "_steps", counted)
    for number in (40, 47, 59):
        grown = empty.changed(every[:number], OLDEST)
        told_rows.clear()
        late = trial_answer(number - lateness - 0.5, 99, (0.5,), 1.0)
        grown.changed([*every[:number], late], OLDEST)
        assert lateness + 1 <= len(told_rows) <= 4 * lateness + 3
        assert told_rows[-1] == every[number - 1]
