"""The log of a loop or a study: its rows, and the state after them in whatever order they arrive.

Rows are plain data, which is what a loop's file holds, field by field.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from statistics import median
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from botorch_tv.strategies.box import Box
from botorch_tv.strategies.domains import Grid
from botorch_tv.strategies.outcomes import Success, as_if_measured, avoiding, elsewhere, success
from botorch_tv.strategies.parameters import Choice, MixedSearch, Space
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import Consultation, State, Suggestion

NEVER = -1
OLDEST = 32
"""States of up to so many trials ago are retained."""
RECENT = 16
"""Running trials that count are among the newest so many."""
Place = tuple[float, tuple[float, ...]]
"""When something was or is to be measured, and where."""
Extended = TypeVar("Extended", bound="Planned | Question")


@dataclass(frozen=True, slots=True)
class Prediction:
    """What was predicted of a measurement before it was made.

    Attributes:
        mean: Posterior mean of the objective there and then.
        sd: Its standard deviation, without observation noise.
        sqrt_beta: Width of the confidence band in standard deviations, sqrt(beta), when it was
            chosen.
    """

    mean: float
    sd: float
    sqrt_beta: float


@dataclass(frozen=True, slots=True)
class Planned:
    """A point to measure.

    Attributes:
        number: Of the suggestion; -1, -2, ... for measurements that were not suggested.
        point: Its coordinates, the context behind.
        arm: Its number among the arms of a grid; None on a box.
        planned_for: The time for which it was chosen.
        known: Answers that had arrived by then.
        predicted: From these; None where there was none, or nobody needs it.
    """

    number: int
    point: tuple[float, ...]
    arm: int | None
    planned_for: float
    known: int
    predicted: Prediction | None

    @property
    def points(self) -> tuple[tuple[float, ...], ...]:
        """The one point."""
        return (self.point,)

    @property
    def arms(self) -> tuple[int, ...] | None:
        """Its arm."""
        return None if self.arm is None else (self.arm,)

    @property
    def name(self) -> str:
        """Its name in error messages."""
        number = self.number
        return f"suggestion {number}" if number > 0 else f"measurement {number}"

    def __str__(self) -> str:
        return f"at {short(self.point)} for time {self.planned_for:g}"

    def suggestion(self, state: State) -> Suggestion:
        """As the strategy made it."""
        own, said = like(state), self.predicted
        numbers = (math.nan,) * 3 if said is None else (said.mean, said.sd, said.sqrt_beta)
        mean, sd, sqrt_beta = own.new_tensor(numbers).unbind()
        return Suggestion(
            X=own.new_tensor(self.point),
            index=None if self.arm is None else torch.tensor(self.arm, device=own.device),
            mean=mean,
            sd=sd,
            sqrt_beta=sqrt_beta,
            time=state.time.new_tensor(self.planned_for),
        )


def planned(suggestion: Suggestion, number: int, known: int, *, predicts: bool) -> Planned:
    """A strategy's suggestion, as a loop writes it down.

    Args:
        suggestion: It.
        number: Of the suggestion or measurement.
        known: Answers that had arrived.
        predicts: Whether the strategy predicted anything.
    """
    numbers = (suggestion.mean, suggestion.sd, suggestion.sqrt_beta)
    return Planned(
        number=number,
        point=tuple(suggestion.X.tolist()),
        arm=None if suggestion.index is None else int(suggestion.index),
        planned_for=float(suggestion.time),
        known=known,
        predicted=Prediction(*(float(one) for one in numbers)) if predicts else None,
    )


def unpredicted(state: State, X: Tensor, number: int, time: float, known: int) -> Planned:
    """A point `d + c` that nobody suggested and of which nobody needs a prediction.

    Raises:
        InputDataError: If it lies outside the domain.
    """
    choice = state.domain.locate(X)
    arm = int(choice) if isinstance(state.domain, Grid) else None
    point = state.domain.points(choice, like(state))
    return Planned(number, tuple(point.tolist()), arm, time, known, None)


@dataclass(frozen=True, slots=True)
class Answer(Planned):
    """What was measured where it was planned.

    Attributes:
        y: The value; None where the measurement failed.
        time: When it was really made.
        noise: Its noise variance; None for the strategy's.
        arrival: How many answers had arrived before.
    """

    y: float | None
    time: float
    noise: float | None
    arrival: int

    @property
    def outcome(self) -> str:
        """The value in words."""
        return "failed" if self.y is None else f"gave {self.y:g}"


@dataclass(frozen=True, slots=True)
class Superseded(Answer):
    """An answer that no longer counts.

    Attributes:
        became: ``"amended"`` or ``"removed"``.
    """

    became: str


@dataclass(frozen=True, slots=True)
class Question:
    """Points that an expert is to measure again.

    Attributes:
        number: Of the consultation, counted from 1.
        points: The coordinates of each.
        arms: Their numbers among the arms of a grid; None on a box.
        time: The time that is asked about, that of the newest answer told by then.
        known: Answers that had been told by then.
    """

    number: int
    points: tuple[tuple[float, ...], ...]
    arms: tuple[int, ...] | None
    time: float
    known: int

    @property
    def name(self) -> str:
        """Its name in error messages."""
        return f"consultation {self.number}"

    @property
    def key(self) -> tuple[float, int]:
        """Sorts it among answers by (time, arrival): behind all that had been told."""
        return (self.time, self.known)

    def __str__(self) -> str:
        return f"about time {self.time:g}"

    def consultation(self, state: State, told: int) -> Consultation:
        """As the strategy made it, had ``told`` rounds been told."""
        X = like(state).new_tensor(self.points)
        return Consultation(
            X=X,
            choice=X if self.arms is None else torch.tensor(self.arms, device=X.device),
            mask=torch.ones(len(self.points), dtype=torch.bool, device=X.device),
            time=state.time.new_tensor(self.time),
            told=told,
            limit=len(self.points),
        )


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


@dataclass(frozen=True, slots=True)
class Reply(Question):
    """What an expert answered to it.

    Attributes:
        y: The values; None where there is no answer.
    """

    y: tuple[float | None, ...]

    @property
    def unanswered(self) -> int:
        """Points without answer."""
        return sum(one is None for one in self.y)

    def values(self, state: State) -> tuple[Tensor, Tensor | None]:
        """Answers in the kind of a state, and which there are, `Q` each; None where all are."""
        own = like(state)
        y = own.new_tensor([0.0 if one is None else one for one in self.y])
        if not self.unanswered:
            return y, None
        return y, torch.tensor([one is not None for one in self.y], device=own.device)


def extended(kind: type[Extended], row: Planned | Question, **more: Any) -> Extended:
    """A row with the fields that an :class:`Answer` or :class:`Reply` has besides."""
    return kind(**{one.name: getattr(row, one.name) for one in fields(row)}, **more)


def recounted(answers: Iterable[Answer], *others: Iterable[Any]) -> tuple[list[Any], ...]:
    """Answers in order of time, and other rows, after some answers were removed or added.

    Arrivals are counted anew, 0 to n - 1, and so is how many of these answers each row knew.
    """
    order = sorted(answers, key=lambda one: one.arrival)
    arrivals = [one.arrival for one in order]

    def known(row: Any) -> Any:
        return replace(row, known=bisect_left(arrivals, row.known))

    anew = [replace(known(one), arrival=arrival) for arrival, one in enumerate(order)]
    anew.sort(key=lambda one: (one.time, one.arrival))
    return anew, *([known(row) for row in rows] for rows in others)


def like(state: State) -> Tensor:
    """A tensor of the dtype and device in which all is computed."""
    return state.basis.variance


def short(point: Sequence[float]) -> str:
    """A point, to four digits."""
    return f"[{', '.join(f'{one:.4g}' for one in point)}]"


class Moment(NamedTuple):
    """A state after some of the answers.

    Attributes:
        size: Number of answers in it, the first in order of time, with the expert's replies.
        state: The state.
        trigger: Latest arrival of an answer that fired a trigger; ``NEVER`` if none did.
    """

    size: int
    state: State
    trigger: int


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
        moments: States after all answers, and after fewer of them, newest last.
        answers: In order of time.
        resets: Whether each of them made the strategy forget everything before it.
        replies: The expert's, oldest first.
    """

    strategy: Strategy
    quiet: Strategy
    start: State
    moments: tuple[Moment, ...]
    answers: tuple[Answer, ...] = ()
    resets: tuple[bool, ...] = ()
    replies: tuple[Reply, ...] = ()

    @classmethod
    def begin(cls, strategy: Strategy, start: State) -> MeasurementLog:
        """Before any answer."""
        return cls(strategy, strategy.undisturbed(), start, (Moment(0, start, NEVER),))

    @property
    def state(self) -> State:
        """After all answers."""
        return self.moments[-1].state

    def before(self, time: float) -> State:
        """The state before an answer of a given time."""
        place = bisect_right(self.answers, time, key=lambda one: one.time)
        moment = self._base(place)
        due = self._replies_after(moment.size)
        for answer in self.answers[moment.size : place]:
            moment, _ = self._step(moment, answer, due)
        return moment.state

    def added(self, answer: Answer, oldest: int) -> MeasurementLog:
        """With another answer at its place in time, after those of the same time.

        Args:
            answer: Anything that the strategy accepts.
            oldest: States of up to so many answers ago are retained.

        Raises:
            InputDataError: If the strategy refuses it.
        """
        place = bisect_right(self.answers, answer.time, key=lambda one: one.time)
        base = self._base(place)
        due = self._replies_after(base.size, answer)
        answers = (*self.answers[:place], answer, *self.answers[place:])
        return self._replayed(base, answers, due, oldest)

    def changed(self, answers: Iterable[Answer], oldest: int) -> MeasurementLog:
        """With other answers, of a log without replies; replayed from the first that differs.

        Args:
            answers: All, in any order; of those of one time the first to arrive is first.
            oldest: As in :meth:`added`.

        Raises:
            InputDataError: As :meth:`added`.
        """
        answers = sorted(answers, key=lambda one: (one.time, one.arrival))
        pairs = enumerate(zip(answers, self.answers))
        least = min(len(answers), len(self.answers))
        place = next((place for place, (one, other) in pairs if one != other), least)
        return self._replayed(self._base(place), tuple(answers), {}, oldest)

    def absorbed(self, reply: Reply) -> MeasurementLog:
        """With an expert's reply, whose question is newer than those of all earlier replies."""
        place = self.place_of(reply)
        moments = tuple(
            moment if moment.size < place else self._with_reply(moment, reply, place)
            for moment in self.moments
        )
        return self._replace(moments=moments, replies=(*self.replies, reply))

    def place_of(self, question: Question) -> int:
        """How many answers are older than a question to an expert."""
        return bisect_left(self.answers, question.key, key=lambda one: (one.time, one.arrival))

    def _replayed(
        self, base: Moment, answers: tuple[Answer, ...], due: Mapping[int, Reply], oldest: int
    ) -> MeasurementLog:
        moments = [one for one in self.moments if one.size <= base.size]
        moment, resets = base, []
        for one in answers[base.size :]:
            try:
                moment, reset = self._step(moment, one, due)
            except Exception as error:
                error.add_note(
                    f"Loop: as measurement {moment.size + 1} is replayed, of time {one.time:g}"
                    + (f", the answer to suggestion {one.number}." if one.number > 0 else ".")
                )
                raise
            resets.append(reset)
            moments.append(moment)
            moments = [old for old in moments if is_retained(old.size, moment.size, oldest)]
        return self._replace(
            moments=tuple(moments) or (base,),
            answers=answers,
            resets=(*self.resets[: base.size], *resets),
        )

    def _base(self, place: int) -> Moment:
        """The newest state that contains no answer at or after a place."""
        start = Moment(0, self.start, NEVER)
        return next((one for one in reversed(self.moments) if one.size <= place), start)

    def _replies_after(self, count: int, new: Answer | None = None) -> dict[int, Reply]:
        """Replies that a state does not contain yet, by the number of answers older than each.

        Args:
            count: Number of answers that the state contains.
            new: An answer about to be added.
        """
        due = {}
        for reply in reversed(self.replies):
            place = self.place_of(reply)
            if place <= count:
                break
            late = new is not None and (new.time, new.arrival) < reply.key
            due[place + late] = reply
        return due

    def _step(self, base: Moment, answer: Answer, due: Mapping[int, Reply]) -> tuple[Moment, bool]:
        """The state after another answer, and whether it was a reset."""
        strategy, state, stored = self.strategy, base.state, answer.predicted
        suggestion = answer.suggestion(state)
        stale = stored is not None and answer.known <= base.trigger
        if stale or (stored is None and strategy.compares):
            fresh = strategy.suggestion_at(state, suggestion.X, now=answer.time)
            suggestion = suggestion._replace(mean=fresh.mean, sd=fresh.sd)
            if stored is None:
                suggestion = suggestion._replace(sqrt_beta=fresh.sqrt_beta)
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
        after = Moment(base.size + 1, state, trigger)
        if after.size in due:
            after = self._with_reply(after, due[after.size], after.size)
        return after, reset

    def _with_reply(self, moment: Moment, reply: Reply, place: int) -> Moment:
        y, ok = reply.values(moment.state)
        asked = reply.consultation(moment.state, place)
        state = self.strategy.absorb(moment.state, asked, y, ok=ok, check=False)
        return moment._replace(state=state)

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
                time = max(time, float(state.time)) if state.told else time
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
    answers: Iterable[Answer],
    waiting: Iterable[Planned],
    replies: Iterable[Reply],
    stale: Collection[int],
    oldest: int,
) -> tuple[MeasurementLog, list[Planned]]:
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
    plans: list[Any] = [*sorted(answers, key=lambda one: one.arrival), *waiting]
    arrived = sum(isinstance(one, Answer) for one in plans)
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


def _predicted(log: MeasurementLog, plan: Planned) -> Prediction:
    """The prediction of a measurement, as when it was suggested or, if not, arrived."""
    when, former = plan.planned_for, plan.predicted
    state = log.before(when) if plan.number < 0 else log.state
    if state.told:
        when = max(when, float(state.time))  # which an amended time may have moved past it
    fresh = log.strategy.suggestion_at(state, like(state).new_tensor(plan.point), now=when)
    sqrt_beta = fresh.sqrt_beta if former is None else former.sqrt_beta
    return Prediction(float(fresh.mean), float(fresh.sd), float(sqrt_beta))


def trial_log(strategy: Strategy, space: Space) -> MeasurementLog:
    """A log for trials of some parameters, before any of them."""
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.float64, device="cpu")
    box = Box(bounds.expand(2, space.columns), search=MixedSearch(space))
    return MeasurementLog.begin(strategy, strategy.init(box))


def trial_answer(time: float, number: int, point: tuple[float, ...], y: float) -> Answer:
    """A trial that has ended with a value."""
    return Answer(*(number, point, None, time, 0, None), y=y, time=time, noise=None, arrival=number)


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
    if state.told < PATIENCE:
        return state
    space = domain.search.space
    tried = state.history.choice.tensor().reshape(state.told, -1)[:, : space.columns]
    due = overdue(space, tried)
    if due is None:
        return state
    axis, level = due
    levels = space.axes[axis].levels
    assert levels is not None
    search = replace(domain.search, fixed=(space.places[axis], levels[level]))
    return state._replace(domain=Box(domain.bounds, context_dim=domain.context_dim, search=search))
