"""The state is that of all trials in order of time, however they came in."""

import itertools

import pytest
import torch
from optuna.distributions import FloatDistribution

from botorch_tv.optuna.space import StudySpace
from botorch_tv.strategies import trial_history as module
from botorch_tv.strategies.trial_history import TrialHistory, TrialRow


@pytest.fixture
def empty(told):
    return TrialHistory.begin(told, StudySpace({"x": FloatDistribution(0.0, 1.0)}))


def rows(number):
    generator = torch.Generator().manual_seed(3)
    U = torch.rand(number, 2, dtype=torch.float64, generator=generator).tolist()
    return [TrialRow(float(t), t, (x,), y) for t, (x, y) in enumerate(U)]


def told_alike(one, other):
    assert one.rows == other.rows
    assert one.state.told == other.state.told == len(one.rows)
    for mine, its in zip(one.state.history, other.state.history):
        assert torch.equal(mine.tensor(), its.tensor())


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_any_order_gives_the_same(empty, order):
    every = rows(8)
    first, late = every[:4], every[4:]
    grown = empty.brought_to(first)
    for number in range(1, 5):
        grown = grown.brought_to([*first, *(late[place] for place in order[:number])])
    told_alike(grown, empty.brought_to(every))


def test_trials_of_one_time_are_told_in_the_order_of_their_numbers(empty):
    first, second = TrialRow(1.0, 4, (0.7,), 2.0), TrialRow(1.0, 5, (0.2,), 1.0)
    grown = empty.brought_to([second]).brought_to([second, first])
    told_alike(grown, empty.brought_to([first, second]))
    assert grown.rows == (first, second)


def test_only_what_is_new_is_told(empty, monkeypatch):
    told_rows = []

    def counted(strategy, state, row):
        told_rows.append(row)
        return plain(strategy, state, row)

    plain = module.told
    monkeypatch.setattr(module, "told", counted)
    every = rows(40)
    grown = empty.brought_to(every[:30])
    assert told_rows == every[:30]
    told_rows.clear()
    grown = grown.brought_to(every[:30])
    assert told_rows == []
    grown = grown.brought_to([*every[:29], every[30]])  # one is gone, another there
    assert told_rows == [every[30]]
    told_rows.clear()
    late = grown.brought_to(every[:31])
    assert told_rows == every[29:31]
    told_rows.clear()
    assert len(late.states) <= 7
    told_alike(late.brought_to(every[1:31]), empty.brought_to(every[1:31]))


@pytest.mark.parametrize("lateness", range(1, 20))
def test_late_trials_cost_what_they_are_late(empty, monkeypatch, lateness):
    told_rows = []

    def counted(strategy, state, row):
        told_rows.append(row)
        return plain(strategy, state, row)

    plain = module.told
    every = rows(60)
    monkeypatch.setattr(module, "told", counted)
    for number in (40, 47, 59):
        grown = empty.brought_to(every[:number])
        told_rows.clear()
        late = TrialRow(number - lateness - 0.5, 99, (0.5,), 1.0)
        grown.brought_to([*every[:number], late])
        assert lateness + 1 <= len(told_rows) <= 4 * lateness + 3
        assert told_rows[-1] == every[number - 1]
