"""The state after answers that may arrive in any order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from botorch_tv.strategies.adaptive import Adaptive
from botorch_tv.strategies.loop.log import Answer, Planned, Prediction, Question, Reply, like
from botorch_tv.strategies.outcomes import as_if_measured
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import State
from botorch_tv.strategies.trial_history import is_kept, oldest_for

NEVER = -1
Note = dict[str, list[float]]
"""What the adaptive strategy believed after an answer: the weights of the values of each part;
``jump``, the probability of a jump before the answer; and ``clock``, the time unit of rates and
hazards, empty while unknown. Empty for other strategies."""


class Moment(NamedTuple):
    """A state after some of the answers."""

    told: int
    """How many answers it has been told, the first in order of time, with the expert's replies."""
    state: State
    trigger: int
    """Latest arrival of an answer that fired a trigger; ``NEVER`` if none did."""


class Replay:
    """Answers in order of time, and the state after them.

    An answer older than the newest one is inserted at its place in time: the replay goes back to a
    state before it and tells all later answers again. A few earlier states are kept for this. For
    an answer older than all of them, everything is told again from the start.

    A trigger compares an answer with the prediction stored with it, also when the answer is told
    again. There is one exception: the prediction came from a model that has since been forgotten,
    by a reset on an answer that had not arrived by then. The state before the answer then predicts.

    A question to an expert comes after the answers that were older than it, or as old and already
    told. The expert's replies replace these, and also an older answer that arrives late.

    Args:
        strategy: The strategy whose state is kept.
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
        """Start from a state that already contains some answers, without telling them."""
        self.answers, self.resets, self.notes = list(answers), list(resets), list(notes)
        self._recent = [moment]

    @property
    def newest(self) -> Moment:
        """After all answers."""
        return self._recent[-1]

    def before(self, time: float) -> State:
        """The state before an answer of a given time."""
        place = self._place(time)
        moment = self._base(place)
        due = self._replies_after(moment.told)
        for answer in self.answers[moment.told : place]:
            moment, _ = self._step(moment, answer, due)
        return moment.state

    def add(self, answer: Answer, late: int) -> bool:
        """Add an answer at its place in time.

        Args:
            answer: Anything that the strategy accepts.
            late: By how many answers one may be late, at least 1, without telling all again.

        Returns:
            Whether the strategy forgot everything before it.

        Raises:
            InputDataError: If the strategy refuses it; the replay is then unchanged.
        """
        place = self._place(answer.time)
        base = self._base(place)
        due = self._replies_after(base.told, answer)
        self._tell_from(base, [*self.answers[:place], answer, *self.answers[place:]], due, late)
        return self.resets[place]

    def change(self, answers: list[Answer], late: int) -> None:
        """Replace the answers, of a loop without replies, from the first that differs.

        Args:
            answers: All, in order of time.
            late: As in :meth:`add`.

        Raises:
            InputDataError: As :meth:`add`.
        """
        pairs = enumerate(zip(answers, self.answers))
        least = min(len(answers), len(self.answers))
        place = next((place for place, (one, other) in pairs if one != other), least)
        self._tell_from(self._base(place), answers, {}, late)

    def _tell_from(
        self, base: Moment, answers: list[Answer], due: Mapping[int, Reply], late: int
    ) -> None:
        """Tell all answers after a state, and take them in."""
        moments, resets, notes = [], [], []
        moment, oldest = base, oldest_for(late)
        for one in answers[base.told :]:
            try:
                moment, reset = self._step(moment, one, due)
            except Exception as error:
                error.add_note(
                    f"Loop: as measurement {moment.told + 1} is told, of time {one.time:g}"
                    + (f", the answer to suggestion {one.number}." if one.number > 0 else ".")
                )
                raise
            moments.append(moment)
            resets.append(reset)
            notes.append(_note(self.strategy, moment.state))
            moments = [one for one in moments if is_kept(one.told, moment.told, oldest)]
        earlier = [one for one in self._recent if one.told <= base.told]
        earlier = [one for one in earlier if is_kept(one.told, moment.told, oldest)]
        self._recent = [*earlier, *moments] or [base]
        self.answers = answers
        self.resets[base.told :] = resets
        self.notes[base.told :] = notes

    def absorb(self, reply: Reply) -> None:
        """Add an expert's reply; its question is newer than those of all earlier replies."""
        place = self.place_of(reply)
        self._recent = [
            moment if moment.told < place else self._absorbed(moment, reply, place)
            for moment in self._recent
        ]
        self.replies.append(reply)

    def place_of(self, question: Question) -> int:
        """How many answers are older than a question to an expert."""
        return bisect_left(self.answers, question.key, key=lambda one: (one.time, one.arrival))

    def _replies_after(self, told: int, new: Answer | None = None) -> dict[int, Reply]:
        """Replies that a state does not contain yet, by the number of answers older than each.

        Args:
            told: Number of answers that the state contains.
            new: An answer about to be added.
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
        """The place of an answer of a given time, after those of the same time."""
        if not self.answers or time >= self.answers[-1].time:
            return len(self.answers)
        return bisect_right(self.answers, time, key=lambda one: one.time)

    def _base(self, place: int) -> Moment:
        """The newest state kept that contains no answer at or after a place."""
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


def told_anew(
    strategy: Strategy,
    start: State,
    answers: Iterable[Answer],
    waiting: Iterable[Planned],
    replies: Iterable[Reply],
    stale: Collection[int],
    late: int,
) -> tuple[Replay, list[Planned]]:
    """Tell all answers in the order in which they arrived, and predict some of them anew.

    Args:
        strategy: The strategy whose state is kept.
        start: The state before any answer.
        answers: All of them.
        waiting: The open suggestions.
        replies: The expert's; each counts from the answer after which it was asked for.
        stale: Numbers of the answers and open suggestions whose prediction knew answers that have
            since been changed. They get the prediction that the others give.
        late: As in :meth:`Replay.add`.

    Returns:
        The replay, and the open suggestions.

    Raises:
        InputDataError: If the strategy refuses an answer.
    """
    replay, due = Replay(strategy, start), list(replies)
    plans: list[Any] = [*sorted(answers, key=lambda one: one.arrival), *waiting]
    arrived = sum(isinstance(one, Answer) for one in plans)
    begun = defaultdict(list)
    for place, plan in enumerate(plans):
        if plan.number in stale and plan.predicted is not None:
            begun[plan.known].append(place)
    for known in range(arrived + 1):
        while due and due[0].known <= known:
            replay.absorb(due.pop(0))
        for place in begun[known]:
            plans[place] = replace(plans[place], predicted=_predicted(replay, plans[place]))
        if known < arrived:
            replay.add(plans[known], late)
    return replay, plans[arrived:]


def _predicted(replay: Replay, plan: Planned) -> Prediction:
    """What is predicted of a measurement, as when it was suggested or, if not, arrived."""
    when, former = plan.planned_for, plan.predicted
    state = replay.before(when) if plan.number < 0 else replay.state
    if state.told:
        when = max(when, float(state.time))  # which an amended time may have moved past it
    said = replay.strategy.suggestion_at(state, like(state).new_tensor(plan.point), now=when)
    sqrt_beta = said.sqrt_beta if former is None else former.sqrt_beta
    return Prediction(float(said.mean), float(said.sd), float(sqrt_beta))


def fantasized(
    strategy: Strategy, state: State, waiting: Iterable[Planned], now: float | None
) -> State:
    """The state as if every open suggestion had been answered with the mean predicted for it.

    So the mean of the model stays and its variance shrinks where answers are on their way, as in
    GP-BUCB, Desautels, Krause and Burdick, JMLR 15 (2014), Algorithm 1. Fantasies fire no
    trigger, teach no hyperparameters and set no units.

    Args:
        strategy: See :meth:`Strategy.undisturbed`.
        state: After all answers.
        waiting: The open suggestions.
        now: The present; None where suggestions carry it.
    """
    for one in waiting:
        time = max(one.planned_for, float(state.time)) if state.told else one.planned_for
        time = time if now is None else min(time, now)
        state = as_if_measured(strategy, state, like(state).new_tensor(one.point), time)
    return state
