"""The state after answers that may arrive in any order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.forgetting import EventTrigger
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.loop_log import Answer, Planned
from botorch_tv.strategies.state import State

NEVER = -1


class Moment(NamedTuple):
    """A state on the way."""

    told: int
    """Answers told, the first so many in order of time."""
    state: State
    trigger: int
    """Latest arrival of an answer that has fired a trigger; ``NEVER`` without one."""


class Replay:
    """Answers in order of time, and the state after them.

    One that is older than the newest is taken in at its place: the state before it is found again
    and all later answers are told anew. A few recent states are kept for that; for an answer older
    than these, everything is told anew from the start.

    A trigger compares an answer with the prediction stored with it, also when it is told anew. The
    exception is a prediction from a model that has been forgotten since, by a reset on an answer
    that had not arrived by then: the state before the answer predicts in its place.

    Args:
        strategy: Whose state it is.
        start: The state before any answer.
    """

    def __init__(self, strategy: Strategy, start: State) -> None:
        self.strategy = strategy
        self.answers: list[Answer] = []
        self.resets: list[bool] = []
        self._start = Moment(0, start, NEVER)
        self._recent = [self._start]

    @property
    def state(self) -> State:
        """After all answers."""
        return self._recent[-1].state

    def before(self, time: float) -> State:
        """The state in which an answer of some time finds the loop."""
        place = self._place(time)
        moment = self._base(place)
        for answer in self.answers[moment.told : place]:
            moment, _ = self._step(moment, answer)
        return moment.state

    def add(self, answer: Answer, keep: int) -> bool:
        """Take in an answer.

        Args:
            answer: Anything that the strategy accepts.
            keep: How many recent states to keep, at least 1.

        Returns:
            Whether it made the strategy forget everything before it.

        Raises:
            InputDataError: If the strategy refuses it; nothing has changed then.
        """
        place = self._place(answer.time)
        base = self._base(place)
        again = [*self.answers[base.told : place], answer, *self.answers[place:]]
        moments, resets = [], []
        moment = base
        for one in again:
            moment, reset = self._step(moment, one)
            moments.append(moment)
            resets.append(reset)
            del moments[:-keep]
        earlier = [one for one in self._recent if one.told <= base.told]
        self._recent = [*earlier, *moments][-keep:]
        self.answers[place:place] = [answer]
        self.resets[base.told :] = resets
        return self.resets[place]

    def _place(self, time: float) -> int:
        """Where an answer belongs; behind those of the same time."""
        if not self.answers or time >= self.answers[-1].time:
            return len(self.answers)
        return bisect_right(self.answers, time, key=lambda one: one.time)

    def _base(self, place: int) -> Moment:
        """The newest state kept that has seen no answer from a place on."""
        return next((one for one in reversed(self._recent) if one.told <= place), self._start)

    def _step(self, base: Moment, answer: Answer) -> tuple[Moment, bool]:
        strategy, state, plan = self.strategy, base.state, answer.planned
        suggestion = plan.suggestion(state)
        if plan.prediction is not None and plan.known <= base.trigger:
            fresh = strategy.suggestion_at(state, suggestion.X, now=answer.time)
            suggestion = suggestion._replace(mean=fresh.mean, sd=fresh.sd)
        own = state.basis.variance
        good = answer.y is not None
        state, info = strategy.tell(
            state,
            suggestion,
            own.new_tensor(answer.y if good else 0.0),
            time=answer.time,
            ok=None if good else torch.tensor(False, device=own.device),
            noise=answer.noise,
        )
        reset = bool(info.reset)
        fired = reset and strategy.retention.uses_data
        trigger = max(answer.arrival, base.trigger) if fired else base.trigger
        return Moment(base.told + 1, state, trigger), reset


def pretended(
    strategy: Strategy, state: State, waiting: Iterable[Planned], now: float | None
) -> State:
    """The state as if every open suggestion had been answered with the mean predicted for it.

    So the mean of the model stays and its variance shrinks where answers are on their way, as in
    GP-BUCB, Desautels, Krause and Burdick, JMLR 15 (2014), Algorithm 1. What is pretended fires no
    trigger and teaches no hyperparameters.

    Args:
        strategy: See :func:`credulous`.
        state: After all answers.
        waiting: The open suggestions.
        now: The present; None where suggestions carry it.
    """
    for one in waiting:
        time = max(one.time, float(state.time)) if state.told else one.time
        time = time if now is None else min(time, now)
        X: Tensor = state.basis.variance.new_tensor(one.point)
        suggestion = strategy.suggestion_at(state, X, now=time)
        state, _ = strategy.tell(state, suggestion, suggestion.mean)
    return state


def credulous(strategy: Strategy) -> Strategy:
    """The strategy without what pretended answers must not set off."""
    retention = strategy.retention
    if isinstance(retention, EventTrigger):
        retention = replace(retention, rule=_never)
    return replace(strategy, retention=retention, learning=None)


def _never(
    y: Tensor, mean: Tensor, sd: Tensor, noise: float | Tensor, since: Tensor, delta: float
) -> Tensor:
    return torch.zeros_like(since, dtype=torch.bool)
