"""Trials of Optuna and Ax: the state after them, in whatever order they came, and what is due.

States may be large, so few are kept, and the fewer the older: one after a multiple of 2^j rounds
until it is 2^(j + 1) rounds old. What comes L rounds late then finds one that is at most
L - 1 + 2^j rounds old, for the least 2^j from L - 1 on, which is less than 3 L.

Categories that have not been tried for long are tried again: where nothing is observed but values,
a category that became the best while others stayed as they were shows in no measurement; a model
learns from those others that nothing changes, and is sure of it everywhere. Only a measurement
there can tell [Liu, Lee, Shroff, AAAI 2018]. Where nothing changes each such measurement is lost,
so they grow rarer as long as nothing comes of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.strategies.box import Box
from botorch_tv.strategies.mixed_search import MixedSearch
from botorch_tv.strategies.outcomes import Success, as_if_measured, success
from botorch_tv.strategies.parameters import Choice, Space
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import State, Suggestion


def is_kept(told: int, newest: int, oldest: int) -> bool:
    """Whether a state is kept.

    Args:
        told: Rounds that it has been told.
        newest: Rounds that have been told.
        oldest: Age beyond which none is, in rounds.
    """
    lasts = 2 * (told & -told) if told else oldest
    return newest - told <= min(lasts, oldest)


def oldest_for(late: int) -> int:
    """The greatest age at which a state is of use to what comes up to so many rounds late."""
    before = max(late - 1, 1)
    return late - 1 + (1 << (before - 1).bit_length())


EVERY = 10
"""One trial in so many may go to a category because of its age, however many there are."""
PATIENCE = 30
"""Trials without it after which it may; after each time in vain, twice as many."""
MOST_PATIENCE = 240
"""Upper limit, whatever happened before."""


class Category(NamedTuple):
    """A category of one of some parameters."""

    axis: int
    level: int


def overdue(space: Space, tried: Tensor) -> Category | None:
    """The category that is to be tried again now, if any: the one not tried for the longest time.

    Args:
        space: The parameters.
        tried: Points of all trials so far, the newest last, `n x D`.
    """
    trials = len(tried)
    if trials < PATIENCE or trials % EVERY:
        return None
    found: list[Category] = []
    oldest = 0
    for number, (axis, at) in enumerate(zip(space.axes, space.places)):
        if not isinstance(axis.of, Choice) or axis.levels is None or axis.of.single:
            continue
        level = torch.cdist(tried[:, at], axis.levels.to(tried)).argmin(-1)
        for each in range(len(axis.levels)):
            when = (level == each).nonzero().squeeze(-1)
            age = trials - 1 - int(when[-1]) if len(when) else trials
            if age < _patience(when):
                continue
            if age > oldest:
                found, oldest = [], age
            if age == oldest:
                found.append(Category(number, each))
    return found[trials // EVERY % len(found)] if found else None


def _patience(when: Tensor) -> int:
    """Trials without a category after which it may be tried again.

    Args:
        when: The trials with it, in order.
    """
    lone = (when.diff() >= PATIENCE).flip(0).to(torch.int64).cumprod(0).sum()
    return min(PATIENCE << int(lone), MOST_PATIENCE)


def retried(state: State) -> State:
    """The state, in which only a category that is due may be chosen; as it is where none is.

    Args:
        state: Of one trial, on a box whose search knows of categories.
    """
    domain = state.domain
    if not isinstance(domain, Box) or not isinstance(domain.search, MixedSearch):
        return state
    if state.told < PATIENCE:
        return state
    space = domain.search.space
    tried = state.history.choice.tensor().reshape(state.told, -1)[:, : space.columns]
    due = overdue(space, tried)
    if due is None:
        return state
    levels = space.axes[due.axis].levels
    assert levels is not None
    search = replace(domain.search, fixed=(space.places[due.axis], levels[due.level]))
    return state._replace(domain=Box(domain.bounds, context_dim=domain.context_dim, search=search))


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
    """The same without what fantasies must not set off, see :meth:`Strategy.undisturbed`."""
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
        return cls(strategy, strategy.undisturbed(), space, (), (state,))

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
