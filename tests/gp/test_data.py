"""Retained rows of a log, trial by trial, against lists of rows."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
import torch

from botorch_tv import Grid, gp_ucb
from botorch_tv.forgetting import Retained
from botorch_tv.gp import data as module
from botorch_tv.gp.data import Data

TRIALS, ROUNDS = 3, 12


class Row(NamedTuple):
    number: int
    good: bool


@dataclass
class Trial:
    """Retained rows, oldest first, and the two clocks."""

    rows: list[Row] = field(default_factory=list)
    since: int = 1
    origin: float = math.inf
    aside: set[int] = field(default_factory=set)

    @property
    def live(self) -> list[Row]:
        """Rows that are not set aside."""
        return [row for row in self.rows if row.number not in self.aside]

    def observe(self, row: Row) -> None:
        self.rows.append(row)
        self.since += 1
        if row.good:
            self.origin = min(self.origin, row.number)

    def keep(self, numbers: list[set[int]], reset: bool, aside: set[int]) -> None:
        self.aside = aside
        asked = bool(self.rows)  # a trial alone is not asked about an empty log
        self.rows = [row for row in self.rows if all(row.number in some for some in numbers)]
        if reset and asked:
            self.since = 1
            self.origin = min([row.number for row in self.rows if row.good], default=math.inf)


def an_answer(data: Data, draw: random.Random) -> tuple[Retained, list[set[int]], list[bool]]:
    """An answer, the rows that each trial retains by it, and which trials it resets."""
    length, some = data.rounds - data.dropped, [draw.random() < 0.3 for _ in range(TRIALS)]
    numbers = range(data.dropped, data.rounds)
    everything, none, where = set(numbers), [False] * TRIALS, torch.tensor(some)
    newest, kind = draw.choice([0, 1, 1, 1, 2, 4]), draw.randrange(6)
    rest = set(numbers[max(0, length - newest) :])
    in_some = [rest if item else everything for item in some]
    if kind == 0:
        return Retained(newest=max(newest, 1)), [set(numbers[-max(newest, 1) :])] * TRIALS, none
    if kind == 1:
        return Retained(newest=newest, where=where, reset=where), in_some, some
    if kind == 2:
        return Retained(newest=newest, where=where), in_some, none
    if kind == 3:
        retained = [[draw.random() < 0.8 for _ in numbers] for _ in range(TRIALS)]
        rows = torch.tensor(retained, dtype=torch.bool).view(TRIALS, length)
        by_trial = [{n for n, item in zip(numbers, row) if item} for row in retained]
        return Retained(rows=rows, reset=where), by_trial, some
    if kind == 4 and draw.random() < 0.3:
        return Retained(newest=0, reset=True), [set()] * TRIALS, [True] * TRIALS
    return Retained(), [everything] * TRIALS, none


def set_aside(data: Data, draw: random.Random) -> tuple[Retained, list[set[int]]]:
    """An answer that sets rows aside, and these rows in each trial."""
    numbers, share = range(data.dropped, data.rounds), draw.choice([0.0, 0.2, 1.0])
    rows = [[draw.random() < share for _ in numbers] for _ in range(TRIALS)]
    aside = torch.tensor(rows, dtype=torch.bool).view(TRIALS, len(numbers))
    return Retained(aside=aside), [{n for n, item in zip(numbers, row) if item} for row in rows]


def asked(data: Data, trials: list[Trial], draw: random.Random, all_good: bool | None) -> Data:
    answers = [an_answer(data, draw) for _ in range(draw.choice([1, 1, 2]))]
    asides = [set_aside(data, draw) for _ in range(draw.choice([0, 0, 1, 1, 2]))]
    for number, item in enumerate(trials):
        resets = any(reset[number] for _, _, reset in answers)
        set_aside_rows = set().union(*(some[number] for _, some in asides))
        item.keep([numbers[number] for _, numbers, _ in answers], resets, set_aside_rows)
    given = [*(answer for answer, _, _ in answers), *(answer for answer, _ in asides)]
    return data.keep(given, all_good=all_good)[0]


def require_same(data: Data, trials: list[Trial]) -> None:
    for rows, item in zip(data.retained.tolist(), trials):
        assert [n + data.dropped for n, it in enumerate(rows) if it] == [
            r.number for r in item.live
        ]
    assert data.since.tolist() == [item.since for item in trials]
    assert data.origin.tolist() == [item.origin for item in trials]
    empty = [not any(row.good for row in item.live) for item in trials]
    assert empty == ([False] * len(trials) if data.empty is None else data.empty.tolist())


@pytest.mark.parametrize("looks", [True, False], ids=["looked at", "not waited for"])
@pytest.mark.parametrize("seed", range(60))
def test_retained_rows(seed: int, looks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_looks", lambda data: looks)
    draw = random.Random(seed)
    strategy = gp_ucb(kernel=torch.eye(4, dtype=torch.float64), noise=0.1)
    data = strategy.init(Grid.regular(4, 1), batch_shape=(TRIALS,)).data
    trials = [Trial() for _ in range(TRIALS)]
    y = torch.zeros(TRIALS, dtype=torch.float64)
    require_same(data, trials)
    for number in range(ROUNDS):
        good = [draw.random() < 0.7 for _ in range(TRIALS)]
        all_good = draw.random() < 0.5
        good = [True] * TRIALS if all_good else good
        noise = torch.tensor([0.1 if item else math.inf for item in good], dtype=torch.float64)
        data = data.observed(y.long(), y, noise, y.double() + number, 0.1, all_good=all_good)
        for item, is_good in zip(trials, good):
            item.observe(Row(number, is_good))
        require_same(data, trials)
        data = asked(data, trials, draw, all_good)
        require_same(data, trials)
        if data.rounds > data.dropped and draw.random() < 0.5:
            data = asked(data, trials, draw, None)
            require_same(data, trials)
