"""The state after trials, whoever ran them and in whatever order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.strategies.box import Box
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.fantasies import as_if_measured, for_fantasies
from botorch_tv.strategies.late import is_kept
from botorch_tv.strategies.mixed.search import MixedSearch
from botorch_tv.strategies.mixed.space import Space
from botorch_tv.strategies.outcomes import Success, success
from botorch_tv.strategies.state import State, Suggestion

OLDEST = 32
"""States up to so many trials old are kept."""
RECENT = 16
"""Running trials that count are among the newest so many."""

Point = tuple[float, ...]
"""In the unit cube, `D`."""
Ended = tuple[float, Point]
"""When a trial without a value was measured, and where."""


class TrialRow(NamedTuple):
    """A trial as it is told; in the order of these."""

    time: float
    number: int
    """The trial's number."""
    point: Point
    value: float


class TrialHistory(NamedTuple):
    """Trials in order of time, and the states after the newest of them.

    The state is that of all trials told one after the other in this order, however they came in:
    two processes that see the same trials have the same.
    """

    strategy: Strategy
    quiet: Strategy
    """The same without what fantasies must not set off, see :func:`for_fantasies`."""
    space: Space
    rows: tuple[TrialRow, ...]
    states: tuple[State, ...]
    """After all rows, and after fewer of them, newest last; so that a trial which ends after
    younger ones is told at its place."""

    @classmethod
    def begin(cls, strategy: Strategy, space: Space) -> TrialHistory:
        """Before any trial."""
        bounds = torch.tensor([[0.0], [1.0]], dtype=torch.float64, device="cpu").expand(
            2, space.columns
        )
        state = strategy.init(Box(bounds, search=MixedSearch(space)))
        return cls(strategy, for_fantasies(strategy), space, (), (state,))

    @property
    def state(self) -> State:
        """After all rows."""
        return self.states[-1]

    def brought_to(self, rows: Sequence[TrialRow]) -> TrialHistory:
        """The history of other rows, as far as possible from states that are there.

        Args:
            rows: All that are to be told, in any order.
        """
        rows = tuple(sorted(rows))
        alike = _alike(self.rows, rows)
        states = [one for one in self.states if one.told <= alike]
        if not states:
            return TrialHistory.begin(self.strategy, self.space).brought_to(rows)
        for row in rows[states[-1].told :]:
            states.append(told(self.strategy, states[-1], row))
            newest = states[-1].told
            states = [one for one in states if is_kept(one.told, newest, OLDEST)]
        return self._replace(rows=rows, states=tuple(states))

    def success(self, failed: Iterable[Ended], now: float) -> Success | None:
        """Where trials succeed; None where none has failed.

        Args:
            failed: The failures.
            now: The present, no earlier than the newest row.
        """
        ended = [(row.time, row.point, True) for row in self.rows]
        ended += [(min(time, now), point, False) for time, point in failed]
        ended.sort()
        X = torch.stack([_place(point) for _, point, _ in ended])
        ok = torch.tensor([ok for _, _, ok in ended], device="cpu")
        return success(self.state, X, ok, _place(tuple(time for time, _, _ in ended)), now)

    def as_if_ended(self, pruned: Iterable[Ended], running: Iterable[Point], now: float) -> State:
        """The state as if trials without a value had one, of the strategy that is ``quiet``.

        Args:
            pruned: Those stopped since others were better; they count as the median of all rows, or
                as the mean predicted where that is worse.
            running: Where others are measured now; they count as the mean predicted.
            now: The present, no earlier than the newest row.
        """
        state, middle = self.state, median(row.value for row in self.rows)
        for time, point in pruned:
            when = min(max(time, float(state.time)), now)
            state = as_if_measured(self.quiet, state, _place(point), when, middle)
        for point in running:
            state = as_if_measured(self.quiet, state, _place(point), now)
        return state


def told(strategy: Strategy, state: State, row: TrialRow) -> State:
    """The state after another row, of which is predicted what somebody looks at."""
    X, when = _place(row.point), torch.tensor(row.time, dtype=torch.float64, device="cpu")
    nothing = torch.zeros_like(when)
    suggestion = Suggestion(X, None, mean=nothing, sd=nothing, sqrt_beta=nothing, time=when)
    if strategy.compares:
        suggestion = strategy.suggestion_at(state, X, now=when)
    return strategy.tell(state, suggestion, row.value)[0]


def _place(point: Point) -> Tensor:
    return torch.tensor(point, dtype=torch.float64, device="cpu")


def _alike(one: Sequence[TrialRow], other: Sequence[TrialRow]) -> int:
    """With how many rows both begin."""
    pairs = enumerate(zip(one, other))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
