"""The log of a loop or a study: its rows, and the state after them in whatever order they arrive.

Rows are plain data, which is what a loop's file holds, field by field.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor

from botorch_tv.strategies.box import Box
from botorch_tv.strategies.outcomes import Success, as_if_measured, avoiding, elsewhere, success
from botorch_tv.strategies.parameters import Choice, MixedSearch, Space
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import Consultation, State, Suggestion

OPEN = -1
"""The arrival of what is not answered yet."""
OLDEST = 32
"""States of up to so many trials ago are retained."""
RECENT = 16
"""Running trials that count are among the newest so many."""
Place = tuple[float, tuple[float, ...]]
"""When something was or is to be measured, and where."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A point to measure, and what was measured there.

    Attributes:
        number: Of the suggestion; -1, -2, ... for measurements that were not suggested.
        point: Its coordinates, the context behind.
        arm: Its number among the arms of a grid; None on a box.
        planned_for: The time for which it was chosen.
        time: When it was really made; as planned until then.
        known: Answers that had arrived when it was chosen.
        predicted: Posterior mean and standard deviation of the objective, predicted from these,
            and sqrt(beta), the width of the band; None where nothing was, or nobody needs it.
        y: The value; None where the measurement failed, or is still to be made.
        noise: Its noise variance; None for the strategy's.
        arrival: How many answers had arrived before; ``OPEN`` where it is still to be made.
        became: ``"amended"`` or ``"removed"`` where it no longer counts.
    """

    number: int
    point: tuple[float, ...]
    arm: int | None
    planned_for: float
    time: float
    known: int
    predicted: tuple[float, float, float] | None
    y: float | None = None
    noise: float | None = None
    arrival: int = OPEN
    became: str | None = None

    def suggestion(self, state: State) -> Suggestion:
        """As the strategy made it."""
        own = like(state)
        mean, sd, sqrt_beta = own.new_tensor(self.predicted or (math.nan,) * 3).unbind()
        return Suggestion(
            X=own.new_tensor(self.point),
            index=None if self.arm is None else torch.tensor(self.arm, device=own.device),
            mean=mean,
            sd=sd,
            sqrt_beta=sqrt_beta,
            time=state.time.new_tensor(self.planned_for),
        )


def planned(suggestion: Suggestion, number: int, known: int, *, predicts: bool) -> Measurement:
    """A strategy's suggestion, as a loop writes it down.

    Args:
        suggestion: It.
        number: Of the suggestion or measurement.
        known: Answers that had arrived.
        predicts: Whether the strategy predicted anything.
    """
    predicted = (float(suggestion.mean), float(suggestion.sd), float(suggestion.sqrt_beta))
    return Measurement(
        number=number,
        point=tuple(suggestion.X.tolist()),
        arm=None if suggestion.index is None else int(suggestion.index),
        planned_for=float(suggestion.time),
        time=float(suggestion.time),
        known=known,
        predicted=predicted if predicts else None,
    )


@dataclass(frozen=True, slots=True)
class Question:
    """Points that an expert is to measure again, and the expert's reply.

    Attributes:
        number: Of the consultation, counted from 1.
        points: The coordinates of each.
        arms: Their numbers among the arms of a grid; None on a box.
        time: The time that is asked about, that of the newest answer told by then.
        known: Answers that had been told by then.
        y: The values, each None where there is no answer; None before the reply.
    """

    number: int
    points: tuple[tuple[float, ...], ...]
    arms: tuple[int, ...] | None
    time: float
    known: int
    y: tuple[float | None, ...] | None = None


def question(asked: Consultation, number: int, known: int) -> Question | None:
    """A strategy's consultation, as a loop writes it down; None where it asks about no point."""
    choice, X = asked.choice[asked.mask], asked.X[asked.mask]
    if len(X) == 0:
        return None
    return Question(
        number=number,
        points=tuple(tuple(point) for point in X.tolist()),
        arms=None if choice.is_floating_point() else tuple(choice.tolist()),
        time=float(asked.time),
        known=known,
    )


def recounted(answers: Iterable[Measurement], *others: Iterable[Any]) -> tuple[list[Any], ...]:
    """Answers in order of time, and other rows, after some answers were removed or added.

    Arrivals are counted anew, 0 to n - 1, and so is how many of these answers each row knew.
    """
    order = sorted(answers, key=lambda one: one.arrival)
    arrivals = [one.arrival for one in order]

    def known(row: Any) -> Any:
        return replace(row, known=bisect_left(arrivals, row.known))

    anew = [replace(known(one), arrival=arrival) for arrival, one in enumerate(order)]
    return sorted(anew, key=by_time), *([known(row) for row in rows] for rows in others)


def by_time(answer: Measurement) -> tuple[float, int]:
    """The order of answers; of those of one time the first to arrive is first."""
    return answer.time, answer.arrival


def like(state: State) -> Tensor:
    """A tensor of the dtype and device in which all is computed."""
    return state.basis.variance


class MeasurementLog(NamedTuple):
    """Measurements in order of time, and the states after the newest of them; never changed.

    A loop, the sampler of Optuna and the node of Ax share it. Each method returns another log.

    The state is that of all answers in order of time, in whatever order they arrived. An answer
    older than the newest one is inserted at its place in time: the log goes back to a state before
    it and replays all later answers. A few earlier states are retained for this. For an answer
    older than all of them, everything is replayed from the start.

    A trigger compares an answer with the prediction stored with it, also when the answer is
    replayed. There are two exceptions, in which the state before the answer predicts: nothing is
    stored; or the prediction came from a model that has since been forgotten, by a reset on an
    answer that had not arrived by then.

    A question to an expert comes after the answers that were older than it, or as old and already
    there. The expert's replies replace these, and also an older answer that arrives late.

    Attributes:
        strategy: The strategy whose state it is.
        quiet: The same without what fantasies must not set off, see :meth:`Strategy.undisturbed`.
        start: The state before any answer.
        states: After fewer answers, the first in order of time with the expert's replies, and
            after all of them.
        answers: In order of time.
        resets: Whether each of them made the strategy forget everything before it.
        replies: The expert's, oldest first.
    """

    strategy: Strategy
    quiet: Strategy
    start: State
    states: tuple[State, ...]
    answers: tuple[Measurement, ...] = ()
    resets: tuple[bool, ...] = ()
    replies: tuple[Question, ...] = ()

    @classmethod
    def begin(cls, strategy: Strategy, start: State) -> MeasurementLog:
        """Before any answer."""
        return cls(strategy, strategy.undisturbed(), start, (start,))

    @property
    def state(self) -> State:
        """After all answers."""
        return self.states[-1]

    def before(self, time: float) -> State:
        """The state before an answer of a given time."""
        place = bisect_right(self.answers, time, key=lambda one: one.time)
        state = self._base(place)
        for after, _ in islice(self._steps(state, self.answers), place - state.rounds):
            state = after
        return state

    def added(self, answer: Measurement, oldest: int) -> MeasurementLog:
        """With another answer at its place in time, after those of the same time.

        Args:
            answer: Anything that the strategy accepts.
            oldest: States of up to so many answers ago are retained.

        Raises:
            InputDataError: If the strategy refuses it.
        """
        place = bisect_right(self.answers, answer.time, key=lambda one: one.time)
        answers = (*self.answers[:place], answer, *self.answers[place:])
        return self._replayed(place, answers, oldest)

    def changed(self, answers: Iterable[Measurement], oldest: int) -> MeasurementLog:
        """With other answers, of a log without replies; replayed from the first that differs.

        Args:
            answers: All, in any order; of those of one time the first to arrive is first.
            oldest: As in :meth:`added`.

        Raises:
            InputDataError: As :meth:`added`.
        """
        answers = tuple(sorted(answers, key=by_time))
        pairs = enumerate(zip(answers, self.answers))
        least = min(len(answers), len(self.answers))
        place = next((place for place, (one, other) in pairs if one != other), least)
        return self._replayed(place, answers, oldest)

    def absorbed(self, reply: Question) -> MeasurementLog:
        """With an expert's reply, whose question is newer than those of all earlier replies."""
        place = self.place_of(reply)
        states = tuple(
            state if state.rounds < place else self._with_reply(state, reply, place)
            for state in self.states
        )
        return self._replace(states=states, replies=(*self.replies, reply))

    def place_of(self, question: Question, answers: Sequence[Measurement] | None = None) -> int:
        """How many answers are older than a question to an expert, or as old and already there."""
        answers = self.answers if answers is None else answers
        return bisect_left(answers, (question.time, question.known), key=by_time)

    def _replayed(
        self, place: int, answers: tuple[Measurement, ...], oldest: int
    ) -> MeasurementLog:
        """With answers that are the same before a place."""
        base = self._base(place)
        states, resets = [one for one in self.states if one.rounds <= base.rounds], []
        try:
            for state, reset in self._steps(base, answers):
                resets.append(reset)
                states = [
                    one for one in (*states, state) if is_retained(one.rounds, state.rounds, oldest)
                ]
        except Exception as error:
            at = base.rounds + len(resets)
            error.add_note(f"Loop: measurement {at + 1} is replayed, of time {answers[at].time:g}.")
            raise
        return self._replace(
            states=tuple(states) or (base,),
            answers=answers,
            resets=(*self.resets[: base.rounds], *resets),
        )

    def _base(self, place: int) -> State:
        """The newest state that contains no answer at or after a place."""
        return next((one for one in reversed(self.states) if one.rounds <= place), self.start)

    def _steps(self, state: State, answers: Sequence[Measurement]) -> Iterator[tuple[State, bool]]:
        """The state after each answer that a state lacks, and whether that was a reset."""
        strategy, own, begun = self.strategy, like(state), state.rounds
        # Replies that the state does not contain yet, by the number of answers older than each.
        due = {self.place_of(one, answers): one for one in self.replies}
        fired = zip(self.answers[:begun], self.resets)
        trigger = max((one.arrival for one, reset in fired if reset), default=-1)
        for answer in answers[begun:]:
            suggestion, stored = answer.suggestion(state), answer.predicted
            # The prediction of a model that has since been forgotten.
            stale = stored is not None and strategy.process.reacts and answer.known <= trigger
            if stale or (stored is None and strategy.compares):
                fresh = strategy.suggestion_at(state, suggestion.X, now=answer.time)
                suggestion = suggestion._replace(mean=fresh.mean, sd=fresh.sd)
                if stored is None:
                    suggestion = suggestion._replace(sqrt_beta=fresh.sqrt_beta)
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
            trigger = max(answer.arrival, trigger) if reset else trigger
            if state.rounds in due:
                state = self._with_reply(state, due[state.rounds], state.rounds)
            yield state, reset

    def _with_reply(self, state: State, reply: Question, place: int) -> State:
        """A state with an expert's reply to a question that ``place`` answers are older than."""
        own = like(state)
        assert reply.y is not None
        X = own.new_tensor(reply.points)
        asked = Consultation(
            X=X,
            choice=X if reply.arms is None else torch.tensor(reply.arms, device=X.device),
            mask=torch.ones(len(X), dtype=torch.bool, device=X.device),
            time=state.time.new_tensor(reply.time),
            round=place,
            limit=len(X),
        )
        y = own.new_tensor([0.0 if one is None else one for one in reply.y])
        ok = torch.tensor([one is not None for one in reply.y], device=own.device)
        return self.strategy.absorb(
            state, asked, y, ok=ok if None in reply.y else None, check=False
        )

    # ---------------------------------------------------------------- choosing

    def success(self, now: float, failed: Iterable[Place] = ()) -> Success | None:
        """Where measurements succeed; None where none has failed.

        Args:
            now: The present, no earlier than the newest answer.
            failed: Failures that are not among the answers.
        """
        ended = [(one.time, one.point, one.y is not None) for one in self.answers]
        others = [(min(time, now), point, False) for time, point in failed]
        if others:
            ended = sorted(ended + others)
        if all(ok for _, _, ok in ended):
            return None
        own, d = like(self.state), self.state.domain.dim
        X = own.new_tensor([point[:d] for _, point, _ in ended])
        ok = torch.tensor([ok for _, _, ok in ended], device=own.device)
        time = self.state.time.new_tensor([time for time, _, _ in ended])
        return success(self.state, X, ok, time, now)

    def as_if_answered(
        self, waiting: Iterable[Place], now: float | None, stopped: Iterable[Place] = ()
    ) -> State:
        """The state as if points without an answer had one, of the strategy that is ``quiet``.

        So the mean of the model stays and its variance shrinks where answers are on their way, as
        in GP-BUCB, Desautels, Krause and Burdick, JMLR 15 (2014), Algorithm 1. Fantasies fire no
        trigger, teach no hyperparameters and set no units.

        Args:
            waiting: Open suggestions; they count as the mean predicted.
            now: The present; None where suggestions carry it.
            stopped: Those stopped since others were better; they count as the median of all
                answers, or as the mean predicted where that is worse.
        """
        state = self.state
        middle = median(one.y for one in self.answers if one.y is not None) if stopped else None
        for points, limit in ((stopped, middle), (waiting, None)):
            for time, point in points:
                time = max(time, float(state.time)) if state.rounds else time
                time = time if now is None else min(time, now)
                X = like(state).new_tensor(point)
                state = as_if_measured(self.quiet, state, X, time, limit)
        return state

    def choice(
        self,
        state: State,
        now: float | None,
        chance: Success | None,
        *,
        retry: bool,
        context: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Suggestion:
        """Where to measure next, where success is likely enough.

        Args:
            state: Of the answers, or as if open suggestions had been answered.
            now: The present.
            chance: The probability of success; None where nothing has failed.
            retry: Whether a category that has not been tried for long may be due, see
                :func:`~botorch_tv.loop.log.retried`.
            context: The context, `c`.
            generator: For strategies that draw random numbers.
        """
        among = avoiding(retried(state) if retry else state, chance)
        ask = partial(self.quiet.ask, among, now=now, context=context, generator=generator)
        return elsewhere(self.quiet, state, now, ask, chance)


def replayed(
    log: MeasurementLog,
    answers: Iterable[Measurement],
    waiting: Iterable[Measurement],
    replies: Iterable[Question],
    stale: Collection[int],
    oldest: int,
) -> tuple[MeasurementLog, list[Measurement]]:
    """Replay all answers in the order in which they arrived, and predict some of them anew.

    Args:
        log: Another log of the same start.
        answers: All of them.
        waiting: The open suggestions.
        replies: The expert's; each counts from the answer after which it was asked for.
        stale: Numbers of the answers and open suggestions whose prediction knew answers that have
            since been changed. They get the prediction that the others give.
        oldest: As in :meth:`MeasurementLog.added`.

    Returns:
        The log, and the open suggestions.

    Raises:
        InputDataError: If the strategy refuses an answer.
    """
    log, due = MeasurementLog.begin(log.strategy, log.start), list(replies)
    plans = [*sorted(answers, key=lambda one: one.arrival), *waiting]
    arrived = sum(one.arrival != OPEN for one in plans)
    begun = defaultdict(list)
    for place, plan in enumerate(plans):
        if plan.number in stale and plan.predicted is not None:
            begun[plan.known].append(place)
    for known in range(arrived + 1):
        while due and due[0].known <= known:
            log = log.absorbed(due.pop(0))
        for place in begun[known]:
            plans[place] = replace(plans[place], predicted=_predicted(log, plans[place]))
        if known < arrived:
            log = log.added(plans[known], oldest)
    return log, plans[arrived:]


def _predicted(log: MeasurementLog, plan: Measurement) -> tuple[float, float, float]:
    """The prediction of a measurement, as when it was suggested or, if not, arrived."""
    when = plan.planned_for
    state = log.before(when) if plan.number < 0 else log.state
    if state.rounds:
        when = max(when, float(state.time))  # which an amended time may have moved past it
    fresh = log.strategy.suggestion_at(state, like(state).new_tensor(plan.point), now=when)
    sqrt_beta = fresh.sqrt_beta if plan.predicted is None else plan.predicted[2]
    return float(fresh.mean), float(fresh.sd), float(sqrt_beta)


def trial_log(strategy: Strategy, space: Space) -> MeasurementLog:
    """A log for trials of some parameters, before any of them."""
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.float64, device="cpu")
    box = Box(bounds.expand(2, space.columns), search=MixedSearch(space))
    return MeasurementLog.begin(strategy, strategy.init(box))


def trial_answer(time: float, number: int, point: tuple[float, ...], y: float) -> Measurement:
    """A trial that has ended with a value."""
    return Measurement(number, point, None, time, time, 0, None, y, arrival=number)


def is_retained(count: int, newest: int, oldest: int) -> bool:
    """Whether a state after ``count`` of ``newest`` answers is retained, so that late ones insert.

    States may be large, so few are retained, and the fewer the older: the state after a multiple of
    2^j answers until it is 2^(j + 1) answers old. An answer that is L late then finds one at most
    L - 1 + 2^j answers old, for the least 2^j from L - 1 on, which is less than 3 L.

    Args:
        count: Answers in the state.
        newest: All answers.
        oldest: Age beyond which none is retained, in answers.
    """
    lasts = 2 * (count & -count) if count else oldest
    return newest - count <= min(lasts, oldest)


def oldest_for(late: int) -> int:
    """The greatest age at which a state is of use to an answer up to so many answers late."""
    before = max(late - 1, 1)
    return late - 1 + (1 << (before - 1).bit_length())


# ---------------- Categories that have not been tried for long are tried again

EVERY = 10
"""One trial in so many may go to a category because of its age, however many there are."""
PATIENCE = 30
"""Trials without it after which it may; after each time in vain, twice as many."""
MOST_PATIENCE = 240
"""Upper limit, whatever happened before."""


def overdue(space: Space, tried: Tensor) -> tuple[int, int] | None:
    """The category not tried for the longest time, as axis and level, if it is to be tried again.

    A category that became the best while others stayed as they were shows in no measurement: the
    model learns from the others that nothing changes. Only a measurement there can tell [Liu, Lee,
    Shroff, AAAI 2018]. Where nothing changes each such measurement is lost, so they grow rarer as
    long as nothing comes of them.

    Args:
        space: The parameters.
        tried: Points of all trials so far, the newest last, `n x D`.
    """
    trials = len(tried)
    if trials < PATIENCE or trials % EVERY:
        return None
    found: list[tuple[int, int]] = []
    oldest = 0
    for number, (axis, at) in enumerate(zip(space.axes, space.places)):
        if not isinstance(axis, Choice) or axis.columns == 0:
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
                found.append((number, each))
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
    if state.rounds < PATIENCE:
        return state
    space = domain.search.space
    tried = state.history.choice.tensor().reshape(state.rounds, -1)[:, : space.columns]
    due = overdue(space, tried)
    if due is None:
        return state
    axis, level = due
    levels = space.axes[axis].levels
    assert levels is not None
    search = replace(domain.search, fixed=(space.places[axis], levels[level]))
    return state._replace(domain=Box(domain.bounds, context_dim=domain.context_dim, search=search))
