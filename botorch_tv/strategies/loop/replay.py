"""The state after answers that may arrive in any order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch

from botorch_tv.strategies.adaptive import Adaptive
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.fantasies import as_if_measured
from botorch_tv.strategies.late import is_kept, oldest_for
from botorch_tv.strategies.loop.log import Answer, Planned, Question, Reply, like
from botorch_tv.strategies.state import State

NEVER = -1
Note = dict[str, list[float]]
"""What a strategy came to believe with an answer, where it says so: weights of the values of each
part; ``jump``, the chance of one before the answer; and ``clock``, the unit of time of rates and
hazards, none while it is not known."""


class Moment(NamedTuple):
    """A state on the way."""

    told: int
    """Answers told, the first so many in order of time, and with them what an expert replied."""
    state: State
    trigger: int
    """Latest arrival of an answer that has fired a trigger; ``NEVER`` without one."""


class Replay:
    """Answers in order of time, and the state after them.

    One that is older than the newest is taken in at its place: the state before it is found again
    and all later answers are told anew. A few earlier states are kept for that; for an answer older
    than these, everything is told anew from the start.

    A trigger compares an answer with the prediction stored with it, also when it is told anew. The
    exception is a prediction from a model that has been forgotten since, by a reset on an answer
    that had not arrived by then: the state before the answer predicts in its place.

    What an expert was asked belongs behind the answers that were older, or as old and told by then:
    those are set aside by its replies, and one that arrives late is set aside with them.

    Args:
        strategy: Whose state it is.
        start: The state before any answer.
    """

    def __init__(self, strategy: Strategy, start: State) -> None:
        self.strategy = strategy
        self.answers: list[Answer] = []
        self.replies: list[Reply] = []
        self.resets: list[bool] = []
        self.notes: list[Note] = []
        self._start = Moment(0, start, NEVER)
        self._recent = [self._start]

    @property
    def state(self) -> State:
        """After all answers."""
        return self.newest.state

    @property
    def start(self) -> State:
        """Before any answer."""
        return self._start.state

    def begin(
        self, moment: Moment, answers: Iterable[Answer], resets: list[bool], notes: list[Note]
    ) -> None:
        """Take over what another replay has after some answers, in place of telling them."""
        self.answers, self.resets, self.notes = list(answers), list(resets), list(notes)
        self._recent = [moment]

    @property
    def newest(self) -> Moment:
        """After all answers."""
        return self._recent[-1]

    def before(self, time: float) -> State:
        """The state in which an answer of some time finds the loop."""
        place = self._place(time)
        moment = self._base(place)
        due = self._replies_after(moment.told)
        for answer in self.answers[moment.told : place]:
            moment, _ = self._step(moment, answer, due)
        return moment.state

    def add(self, answer: Answer, late: int) -> bool:
        """Take in an answer.

        Args:
            answer: Anything that the strategy accepts.
            late: How many answers one may come behind, at least 1, for which not all is told anew.

        Returns:
            Whether it made the strategy forget everything before it.

        Raises:
            InputDataError: If the strategy refuses it; nothing has changed then.
        """
        place = self._place(answer.time)
        base = self._base(place)
        again = [*self.answers[base.told : place], answer, *self.answers[place:]]
        due = self._replies_after(base.told, answer)
        moments, resets, notes = [], [], []
        moment, oldest = base, oldest_for(late)
        for one in again:
            try:
                moment, reset = self._step(moment, one, due)
            except Exception as error:
                error.add_note(
                    f"Loop: as measurement {moment.told + 1} is told, of time {one.time:g}"
                    + (f", the answer to suggestion {one.number}." if one.number else ".")
                )
                raise
            moments.append(moment)
            resets.append(reset)
            notes.append(_note(self.strategy, moment.state))
            moments = [one for one in moments if is_kept(one.told, moment.told, oldest)]
        earlier = [one for one in self._recent if one.told <= base.told]
        earlier = [one for one in earlier if is_kept(one.told, moment.told, oldest)]
        self._recent = [*earlier, *moments]
        self.answers[place:place] = [answer]
        self.resets[base.told :] = resets
        self.notes[base.told :] = notes
        return self.resets[place]

    def absorb(self, reply: Reply) -> None:
        """Take in what an expert replied to a question newer than all that it replied to before."""
        place = self.place_of(reply)
        self._recent = [
            moment if moment.told < place else self._absorbed(moment, reply, place)
            for moment in self._recent
        ]
        self.replies.append(reply)

    def place_of(self, question: Question) -> int:
        """How many answers are older than what an expert was asked."""
        return bisect_left(self.answers, question.key, key=lambda one: (one.time, one.arrival))

    def _replies_after(self, told: int, new: Answer | None = None) -> dict[int, Reply]:
        """Replies that a state after so many answers lacks, by how many answers are older.

        Args:
            told: Of the state.
            new: An answer about to be taken in.
        """
        due = {}
        for reply in reversed(self.replies):
            place = self.place_of(reply)
            if place <= told:
                break
            late = new is not None and (new.time, new.arrival) < reply.key
            due[place + late] = reply
        return due

    def _place(self, time: float) -> int:
        """Where an answer belongs; behind those of the same time."""
        if not self.answers or time >= self.answers[-1].time:
            return len(self.answers)
        return bisect_right(self.answers, time, key=lambda one: one.time)

    def _base(self, place: int) -> Moment:
        """The newest state kept that has seen no answer from a place on."""
        return next((one for one in reversed(self._recent) if one.told <= place), self._start)

    def _absorbed(self, moment: Moment, reply: Reply, place: int) -> Moment:
        y, ok = reply.values(moment.state)
        asked = reply.consultation(moment.state, place)
        state = self.strategy.absorb(moment.state, asked, y, ok=ok, check=False)
        return moment._replace(state=state)

    def _step(self, base: Moment, answer: Answer, due: Mapping[int, Reply]) -> tuple[Moment, bool]:
        strategy, state = self.strategy, base.state
        suggestion = answer.suggestion(state)
        if answer.predicted is not None and answer.known <= base.trigger:
            fresh = strategy.suggestion_at(state, suggestion.X, now=answer.time)
            suggestion = suggestion._replace(mean=fresh.mean, sd=fresh.sd)
        own = like(state)
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
        fired = reset and strategy.process.reacts
        trigger = max(answer.arrival, base.trigger) if fired else base.trigger
        after = Moment(base.told + 1, state, trigger)
        if after.told in due:
            after = self._absorbed(after, due[after.told], after.told)
        return after, reset


def _note(strategy: Strategy, state: State) -> Note:
    if not isinstance(strategy, Adaptive):
        return {}
    note = {name: one.tolist() for name, one in strategy.marginals(state).items()}
    clock = [float(strategy.step(state))] if strategy.predicts(state) else []
    return {**note, "jump": [float(strategy.jump(state))], "clock": clock}


def fantasized(
    strategy: Strategy, state: State, waiting: Iterable[Planned], now: float | None
) -> State:
    """The state as if every open suggestion had been answered with the mean predicted for it.

    So the mean of the model stays and its variance shrinks where answers are on their way, as in
    GP-BUCB, Desautels, Krause and Burdick, JMLR 15 (2014), Algorithm 1. Fantasies fire no
    trigger, teach no hyperparameters and set no units.

    Args:
        strategy: See :func:`~botorch_tv.strategies.fantasies.for_fantasies`.
        state: After all answers.
        waiting: The open suggestions.
        now: The present; None where suggestions carry it.
    """
    for one in waiting:
        time = max(one.planned_for, float(state.time)) if state.told else one.planned_for
        time = time if now is None else min(time, now)
        state = as_if_measured(strategy, state, like(state).new_tensor(one.point), time)
    return state
