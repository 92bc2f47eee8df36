"""The log of a loop or a study: measurements in any order of arrival, and the state after them.

The file of a loop stores the fields of every :class:`Measurement` and :class:`Question`.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from statistics import median_low
from typing import Any, NamedTuple, Self, cast

import torch
from torch import Tensor

from botorch_tv.forgetting.base import median_gap
from botorch_tv.strategies.adaptive import Adaptive
from botorch_tv.strategies.box import Box, holding
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.expressions import Expression, Limit, Objective
from botorch_tv.strategies.feasible import (
    Asked,
    Cost,
    Feasible,
    MoveCost,
    Success,
    all_of,
    corners_of,
)
from botorch_tv.strategies.mixed_search import MixedSearch
from botorch_tv.strategies.near import Moves, Within, near, within
from botorch_tv.strategies.outcomes import CONFIDENCE, RECOMMENDED, Outcomes
from botorch_tv.strategies.parameters import Space
from botorch_tv.strategies.pending import apart, as_if_measured, due_again, of_model
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import Consultation, State, Suggestion
from botorch_tv.validation import require, require_number

OPEN = -1
"""Value of ``arrival`` in a suggestion without an answer."""
OLDEST = 32
"""Maximum age, in trials, of the earlier states that a log retains."""
RECENT = 16
"""Number of newest running trials that are used."""
LOST = 10
"""Number of median durations of trials after which a running trial counts as lost."""
FAR = 2.5
"""Number of standard deviations from its prediction beyond which a reading is suspect.

Recommendations ignore a reading that is this much better than predicted, until the next reading. On
static, drifting and jumping objectives this did no harm; at 2, it did after jumps."""
CAUTION = 0.5
"""Number of standard deviations between the mean and the lower bound that recommendations use."""
SLACK = 1e-3
"""A search may end this much below the required probability of keeping limits."""
UNSUPPORTED_SHARE = 0.5
"""A point is unsupported if its posterior variance exceeds this share of its prior variance."""
Point = tuple[float, ...]
"""Type of the coordinates of a point, followed by its context."""
Present = float | None
"""Type of the present time; None for one step after the newest measurement."""
Fixed = Mapping[str, Any] | None
"""Type of the values of held parameters, by name."""
Values = float | tuple[float, ...] | None
"""Type of a measurement: a number or, if outcomes have names, a number for each (NaN if missing);
None if the measurement failed."""
Place = tuple[float, Point]
"""Type of a pair: the time and the point of a measurement."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A suggestion and its answer.

    Attributes:
        number: The number of the suggestion; -1, -2, ... if the measurement was not suggested.
        point: The coordinates of the point, followed by the context.
        arm: The index of the arm on a grid; None on a box.
        planned_for: The time for which the point was chosen.
        time: The time of the measurement; equal to ``planned_for`` until the measurement is made.
        known: Number of answers that had arrived when the point was chosen.
        predicted: Three values: the posterior mean and standard deviation of the objective given
            the first ``known`` answers to arrive, and sqrt(beta), the width of the confidence band
            in standard deviations. None if there is no prediction.
        y: The observation: a number or, if outcomes have names, a number for each outcome, NaN if
            it is missing. None before the answer, or if the measurement failed.
        noise: The noise variance or, if outcomes have names, one for each, NaN if it is not given;
            None for the strategy's default.
        arrival: Number of answers that had arrived before this answer; ``OPEN`` while there is no
            answer.
        became: ``"amended"`` or ``"removed"`` if the measurement is superseded, else None.
        keeps: The probability of keeping all limits on outcomes, according to the model that chose
            the point; None without limits. Limits without predictions do not count.
    """

    number: int
    point: Point
    arm: int | None
    planned_for: float
    time: float
    known: int
    predicted: tuple[float, float, float] | None
    y: Values = None
    noise: Any = None
    arrival: int = OPEN
    became: str | None = None
    keeps: float | None = None

    def suggestion(self, state: State) -> Suggestion:
        """The suggestion as the strategy made it."""
        own = like(state)
        arm = None if self.arm is None else torch.tensor(self.arm, device=own.device)
        time = state.time.new_tensor(self.planned_for)
        mean, sd, sqrt_beta = own.new_tensor(self.prediction).unbind()
        return Suggestion(own.new_tensor(self.point), arm, mean, sd, sqrt_beta, time)

    @property
    def prediction(self) -> tuple[float, float, float]:
        """The three values of ``predicted``; NaN without a prediction."""
        return self.predicted or (math.nan, math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class Censored(Measurement):
    """A measurement that ended early; ``y`` is a bound that its value would not have surpassed.

    If outcomes have names, the bound is on the first objective, and the others are missing.
    """


@dataclass(frozen=True, slots=True)
class Question:
    """The points of a consultation, and the expert's reply.

    Attributes:
        number: The number of the consultation, from 1.
        points: The coordinates of the points.
        arms: The indices of the arms on a grid; None on a box.
        time: Time for which the expert's values are asked: the time of the newest answer.
        known: Number of answers that had arrived before the consultation.
        y: The expert's values, with None for points without an answer; None before the reply.
    """

    number: int
    points: tuple[Point, ...]
    arms: tuple[int, ...] | None
    time: float
    known: int
    y: tuple[float | None, ...] | None = None


def recounted(answers: Iterable[Measurement], *others: Iterable[Any]) -> tuple[list[Any], ...]:
    """Renumber rows after answers were removed or added; answers are returned in order of time.

    The arrival numbers of the n answers become 0 to n - 1, in the same order. In every returned
    row, ``known`` states how many of the n answers had arrived before the row was made.
    """
    order = sorted(answers, key=lambda answer: answer.arrival)
    arrivals = [answer.arrival for answer in order]

    def recount(row: Any) -> Any:
        return replace(row, known=bisect_left(arrivals, row.known))

    renumbered = [replace(recount(answer), arrival=arrival) for arrival, answer in enumerate(order)]
    return sorted(renumbered, key=by_time), *([recount(row) for row in rows] for rows in others)


def by_time(answer: Measurement) -> tuple[float, int]:
    """Sort key of answers: the time, then the arrival."""
    return answer.time, answer.arrival


def like(state: State) -> Tensor:
    """A tensor with the dtype and device of all computations."""
    return state.basis.variance


def told(strategy: Strategy, y: Values, own: Tensor) -> Tensor:
    """An observation as the strategy's ``tell`` takes it; any values if the measurement failed."""
    if y is None:
        y = (math.nan,) * len(strategy.names) if isinstance(strategy, Outcomes) else 0.0
    return own.new_tensor(y)


class Best(NamedTuple):
    """The setting to recommend.

    Attributes:
        X: The point with its context, `d + c`.
        mean: Posterior mean of the objective; meaningless until the strategy makes predictions.
        sd: Posterior standard deviation of the objective.
        fails: Whether every point of the domain is more likely to fail than to succeed.
        supported: Whether measurements support the point: its posterior variance is at most half
            the prior variance. True until the strategy makes predictions.
        keeps: The probability that the point keeps each limit on outcomes, NaN if not predicted.
        breaks: Whether the point keeps all limits with less than the required probability.
    """

    X: Tensor
    mean: float
    sd: float
    fails: bool
    supported: bool
    keeps: tuple[float, ...] = ()
    breaks: bool = False


class MeasurementLog(NamedTuple):
    """A loop's measurements in order of time, and the states after some measurements; immutable.

    The loop, the sampler for Optuna and the node for Ax use this class. Methods return a new log.

    The log's state is the state after all answers in order of time, whatever their order of
    arrival. A late answer is inserted at its time: the log returns to a retained state before that
    time and replays all later answers. If no retained state precedes the late answer, all answers
    are replayed.

    A trigger compares an answer with the prediction stored with this answer, also in a replay. A
    new prediction is made from the state before the answer in two cases: no prediction is stored,
    or the model that made the prediction has been reset by an answer that arrived later.

    A consultation at time t refers to all answers with times before t, and to the answers at time t
    that arrived before the consultation. The expert's reply replaces all answers to which the
    consultation refers. Answers that arrive after the reply but have times before the consultation
    are replaced as well.

    Attributes:
        strategy: The strategy.
        quiet: The strategy that processes fantasies (assumed answers); see
            :meth:`Strategy.undisturbed`.
        start: The state before any answer.
        states: Retained states, in order of time. Retained states take the expert's replies into
            account. The last state is the state after all answers.
        answers: The answers, in order of time.
        resets: Whether each answer triggered a reset.
        replies: The expert's replies, oldest first.
    """

    strategy: Strategy
    quiet: Strategy
    start: State
    states: tuple[State, ...]
    answers: tuple[Measurement, ...] = ()
    resets: tuple[bool, ...] = ()
    replies: tuple[Question, ...] = ()

    @classmethod
    def begin(cls, strategy: Strategy, start: State) -> Self:
        """A log without answers."""
        return cls(strategy, strategy.undisturbed(), start, (start,))

    @property
    def state(self) -> State:
        """The state after all answers."""
        return self.states[-1]

    @property
    def trusted(self) -> State:
        """The state for recommendations: without the newest reading if it is suspiciously good.

        The reading is used as soon as there is a newer reading, which confirms or refutes it.
        """
        found = self.suspect()
        return self.state if found is None or found[1] < 0 else found[2]

    def suspect(self) -> tuple[Measurement, float, State] | None:
        """The newest reading if it is far from its prediction, with the adaptive strategy only.

        Returns:
            Three values, or None if the newest reading is not suspect: the reading; by how many
                standard deviations it is better than predicted, negative if it is worse; and the
                state before the reading.
        """
        answer = self.answers[-1] if self.answers else None
        if answer is None or answer.y is None or isinstance(answer, Censored):
            return None
        if not isinstance(self.strategy, Adaptive) or isinstance(answer.y, tuple):
            return None
        before = self._after(len(self.answers) - 1)
        if not bool(self.strategy.predicts(before)):
            return None
        X = like(before).new_tensor(answer.point)
        mean, sd = of_model(self.strategy, before, answer.time, X.unsqueeze(0))
        sd = (sd.square() + self.strategy.model_noise(before)).sqrt()
        better = float((answer.y - mean) / sd) * (1 if self.strategy.maximize else -1)
        return (answer, better, before) if abs(better) > FAR else None

    def _after(self, place: int) -> State:
        """The state after the first answers, ``place`` in number."""
        state = self._base(place)
        for after, _ in islice(self._steps(state, self.answers), place - state.rounds):
            state = after
        return state

    def added(self, answer: Measurement, oldest: int) -> Self:
        """The log with one more answer, inserted after all answers of the same time.

        Args:
            answer: The answer.
            oldest: Maximum age, in answers, of the earlier states that the log retains.

        Raises:
            InputDataError: If the strategy refuses the answer.
        """
        place = bisect_right(self.answers, answer.time, key=lambda answer: answer.time)
        answers = (*self.answers[:place], answer, *self.answers[place:])
        return self._replayed(place, answers, oldest)

    def changed(
        self, answers: Iterable[Measurement], oldest: int, replies: Iterable[Question] = ()
    ) -> Self:
        """A log with the given answers and replies instead of those of ``self``.

        The new log replays all answers from the first answer that differs, or all answers if
        ``self`` has replies.

        Args:
            answers: All answers, in any order.
            oldest: As in :meth:`added`.
            replies: The expert's replies, oldest first.

        Raises:
            InputDataError: As in :meth:`added`.
        """
        log = self.begin(self.strategy, self.start) if self.replies else self
        answers = tuple(sorted(answers, key=by_time))
        pairs = enumerate(zip(answers, log.answers))
        least = min(len(answers), len(log.answers))
        place = next((place for place, (new, old) in pairs if new != old), least)
        log = log._replayed(place, answers, oldest)
        for reply in replies:
            log = log.absorbed(reply)
        return log

    def absorbed(self, reply: Question) -> Self:
        """The log with one more expert reply, to a question newer than all answered questions."""
        place, old = self.place_of(reply), self.states
        states = (s if s.rounds < place else self._with_reply(s, reply, place) for s in old)
        return self._replace(states=tuple(states), replies=(*self.replies, reply))

    def place_of(self, question: Question, answers: Sequence[Measurement] | None = None) -> int:
        """Number of answers that precede a question to an expert."""
        answers = self.answers if answers is None else answers
        return bisect_left(answers, (question.time, question.known), key=by_time)

    def _replayed(self, place: int, answers: tuple[Measurement, ...], oldest: int) -> Self:
        """The log with ``answers`` as its answers; the first ``place`` answers do not change."""
        base = self._base(place)
        states, resets = [old for old in self.states if old.rounds <= base.rounds], []
        try:
            for state, reset in self._steps(base, answers):
                resets.append(reset)
                newest, states = state.rounds, [*states, state]
                states = [old for old in states if is_retained(old.rounds, newest, oldest)]
        except Exception as error:
            failed = base.rounds + len(resets)
            when = f"{answers[failed].time:g}"
            error.add_note(f"Loop: while replaying measurement {failed + 1}, time {when}.")
            raise
        whole = (*self.resets[: base.rounds], *resets)
        return self._replace(states=tuple(states) or (base,), answers=answers, resets=whole)

    def _base(self, place: int) -> State:
        """The newest retained state that includes at most ``place`` answers."""
        return next((state for state in reversed(self.states) if state.rounds <= place), self.start)

    def _steps(self, state: State, answers: Sequence[Measurement]) -> Iterator[tuple[State, bool]]:
        """For each answer after ``state``: the next state, and whether it triggered a reset."""
        strategy, own, begun = self.strategy, like(state), state.rounds
        # The expert's replies, by the number of answers that precede each reply.
        due = {self.place_of(reply, answers): reply for reply in self.replies}
        fired = zip(self.answers[:begun], self.resets)
        trigger = max((answer.arrival for answer, reset in fired if reset), default=-1)
        for answer in answers[begun:]:
            if isinstance(answer, Censored):
                X = own.new_tensor(answer.point)
                assert not isinstance(answer.y, tuple)
                state = as_if_measured(self.quiet, state, X, answer.time, answer.y)
                yield state, False
                continue
            suggestion, stored = answer.suggestion(state), answer.predicted
            # Stale: the model that made the prediction was reset before this answer arrived.
            stale = stored is not None and strategy.reacts and answer.known <= trigger
            if stale or (stored is None and strategy.compares):
                fresh = strategy.suggestion_at(state, suggestion.X, now=answer.time)
                suggestion = suggestion._replace(mean=fresh.mean, sd=fresh.sd)
                if stored is None:
                    suggestion = suggestion._replace(sqrt_beta=fresh.sqrt_beta)
            y, noise = told(strategy, answer.y, own), answer.noise
            ok = None if answer.y is not None else torch.tensor(False, device=own.device)
            state, info = strategy.tell(state, suggestion, y, time=answer.time, ok=ok, noise=noise)
            reset = bool(info.reset)
            trigger = max(answer.arrival, trigger) if reset else trigger
            if state.rounds in due:
                state = self._with_reply(state, due[state.rounds], state.rounds)
            yield state, reset

    def _with_reply(self, state: State, reply: Question, place: int) -> State:
        """The state after an expert's reply to a question that follows ``place`` answers."""
        own = like(state)
        assert reply.y is not None
        X, time = own.new_tensor(reply.points), state.time.new_tensor(reply.time)
        choice = X if reply.arms is None else torch.tensor(reply.arms, device=X.device)
        mask = torch.ones(len(X), dtype=torch.bool, device=X.device)
        asked = Consultation(X, choice, mask, time, round=place, limit=len(X))
        y = own.new_tensor([0.0 if value is None else value for value in reply.y])
        ok = torch.tensor([value is not None for value in reply.y], device=own.device)
        return self.strategy.absorb(state, asked, y, ok=ok, check=False)

    def recommendations(self, context: Tensor | None, most: int) -> Iterator[Place]:
        """Replay the log, and recommend a point after every k-th answer, at its time.

        Args:
            context: The context, `c`.
            most: Largest number of recommendations, which determines k.
        """
        every = -(-len(self.answers) // most)
        for count, (state, _) in enumerate(self._steps(self.start, self.answers), 1):
            if count % every == 0 and bool(self.strategy.predicts(state)):
                time, then = float(state.time), self._replace(states=(state,))
                chance = then._replace(answers=self.answers[:count]).success(time)
                yield time, tuple(self.recommended(state, Asked(time, context, chance)).tolist())

    # ---------------------------------------------------------------- choosing

    def later(self, state: State) -> Present:
        """The usual time of the measurement after ``state``; None for that of the strategy.

        Failed measurements take time, too. Without them, each failure would lengthen later steps.

        Args:
            state: The state after all answers, and after fantasies if any.
        """
        step, log = self.strategy.step(state), self.state.history
        if not isinstance(step, Tensor) or bool(log.noise.tensor().isfinite().all()):
            return None
        return float(state.time) + min(float(step), float(median_gap(log.time.tensor())))

    def success(self, now: Present) -> Success | None:
        """The probability of success at each point; None if no measurement has failed.

        Args:
            now: The present time, no earlier than the newest answer; a step later by default.
        """
        good, state = [answer.y is not None for answer in self.answers], self.state
        if all(good):
            return None
        now = float(state.time + self.strategy.step(state)) if now is None else now
        own, domain = like(state), state.domain
        X = own.new_tensor([[answer.point[: domain.dim] for answer in self.answers]])
        time = state.time.new_tensor([[answer.time for answer in self.answers]])
        ok = torch.tensor([good], device=own.device)
        return Success(X, ok, time, corners_of(domain), state.time.new_tensor([now]))

    def recommended(self, state: State, asked: Asked) -> Tensor:
        """The point with the best lower bound, `d + c`, among points where success is likely.

        Args:
            state: The state that predicts.
            asked: The time, the context, the probability of success, and the cost of each point.
        """
        strict = None if asked.feasible is None else asked.feasible.strict()
        given = asked._replace(feasible=strict)._asdict()
        return self.strategy.recommend(state, **given, caution=CAUTION)

    def best(
        self, now: Present, context: Tensor | None, fixed: Fixed = None, moves: Moves | None = None
    ) -> Best:
        """The setting to recommend.

        Args:
            now: As in :meth:`success`.
            context: The context, `c`.
            fixed: Values of named parameters that are held.
            moves: What moves cost, if anything; their steps are not limited.
        """
        strategy, state, chance = self.strategy, self.state, self.success(now)
        asked = Asked(now, context, chance, None if moves is None else moves.price(state))
        X = self.recommended(holding(self.trusted, fixed), asked)
        predicted = strategy.suggestion_at(state, X, now=now)
        mean, sd = float(predicted.mean), float(predicted.sd)
        share = state.time.new_tensor(UNSUPPORTED_SHARE * strategy.prior_variance(state))
        most = float(share.sqrt() * strategy.band_factor(state, share))
        predicts = bool(self.answers) and bool(strategy.predicts(state))
        fails = chance is not None and bool(chance.fails)
        best = Best(X, mean, sd, fails=fails, supported=not predicts or sd <= most)
        if predicted.keeps is None or not predicts:
            return best
        assert isinstance(strategy, Outcomes)
        each = predicted.keeps.tolist()
        breaks = math.prod(p for p in each if p == p) < strategy.recommended - SLACK
        return best._replace(keeps=tuple(each), breaks=breaks)

    def pareto(
        self, now: Present, context: Tensor | None, points: int
    ) -> list[tuple[Tensor, dict[str, float], dict[str, float], float | None]]:
        """Settings that no other is predicted to dominate; see :meth:`Outcomes.pareto`.

        Args:
            now: As in :meth:`success`.
            context: The context, `c`.
            points: Number of trade-offs.

        Returns:
            For each setting: the point, `d + c`; the posterior mean and standard deviation of each
            objective, by its formula without a leading minus; and the probability of keeping all
            limits on outcomes, None without limits.
        """
        strategy, state, chance = self.strategy, self.state, self.success(now)
        assert isinstance(strategy, Outcomes)
        X = strategy.pareto(state, now=now, context=context, points=points, feasible=chance)
        found = strategy.predictions(state, now)
        texts = [objective.expression.text for objective in strategy.objectives]
        moments = [found[text].at(X.unsqueeze(0)) for text in texts]
        means, sds = (torch.stack(parts)[:, 0].T.tolist() for parts in zip(*moments))
        kept, keeps = strategy.kept(state, now), list[float | None]([None]) * len(X)
        if kept is not None:
            keeps = kept.probability(X.unsqueeze(0))[0].tolist()
        rows = zip(X, means, sds, keeps)
        return [(x, dict(zip(texts, mean)), dict(zip(texts, sd)), p) for x, mean, sd, p in rows]

    def as_if_answered(self, waiting: Iterable[Place], now: Present) -> State:
        """The strategy's state after fantasies: assumed answers for points without an answer.

        Fantasies at open suggestions leave the mean unchanged and reduce the variance, as in
        GP-BUCB (Desautels, Krause and Burdick, JMLR 15, 2014, Algorithm 1). Fantasies do not
        trigger resets, do not change hyperparameters, and do not determine the units of y and time.

        Args:
            waiting: Open suggestions. The fantasy of each suggestion is the predicted mean.
            now: The present time, which is an upper limit on the times of the points; None for no
                limit.
        """
        state = self.state
        for time, point in waiting:
            time = max(time, float(state.time)) if state.rounds else time
            time = time if now is None else min(time, now)
            state = as_if_measured(self.quiet, state, like(state).new_tensor(point), time)
        return state

    def choice(
        self,
        now: Present,
        waiting: Iterable[Place],
        fixed: Fixed,
        *,
        retry: bool,
        context: Tensor | None = None,
        moves: Moves | None = None,
        generator: torch.Generator | None = None,
    ) -> Suggestion:
        """The next point to measure, among points likely enough to succeed.

        Args:
            now: As in :meth:`success`.
            waiting: Open suggestions; see :meth:`as_if_answered`.
            fixed: Values of named parameters that are held.
            retry: Whether to restrict the search to a category that must be tried again, if any,
                unless the strategy is safe; see
                :func:`~botorch_tv.strategies.pending.due_again`.
            context: The context, `c`.
            moves: The largest steps from a setting, and what moves from it cost; None for any
                steps at no cost.
            generator: Source of random numbers.
        """
        strategy: Any = self.strategy
        safe = isinstance(strategy, Outcomes) and strategy.safe and bool(strategy.limits)
        chance, state = self.success(now), self.as_if_answered(waiting, now)
        now = self.later(state) if now is None else now
        feasible: Feasible | None = chance
        cost = None if moves is None else moves.price(state)
        if moves is not None and moves.max_step is not None:
            if isinstance(state.domain, Box):
                state = near(state, moves.at, moves.max_step)
            else:
                feasible = all_of(chance, Within(state.domain, moves.at, moves.max_step))
        state = holding(state, fixed)
        among = holding(state, due_again(state)) if retry and not safe else state
        choice = self.quiet.ask(
            among, now=now, context=context, feasible=feasible, cost=cost, generator=generator
        )
        assumed = state.history.choice.tensor()[self.state.rounds :]
        pending = state.domain.points(assumed, choice.X)[..., : state.domain.dim]
        if len(pending):
            before = self.state._replace(domain=state.domain)
            choice = apart(self.quiet, before, float(choice.time), choice, pending, feasible, cost)
        if safe:
            made: Any = self.quiet.suggestion_at(self.state, choice.X, now=choice.time)
            if bool(made.keeps.prod() < strategy.confidence):
                text = "no setting is safe enough now; this is the likeliest to keep the limits"
                warnings.warn(f"{text}. Measure it, or return to a safe setting.", stacklevel=6)
        return choice


def replayed(
    start: MeasurementLog, rows: Sequence[Any], stale: Collection[int], oldest: int
) -> tuple[MeasurementLog, list[Measurement]]:
    """Replay all answers in order of arrival, and recompute some predictions.

    Args:
        start: A log with the strategy and the start state; the answers of this log are not used.
        rows: Three lists: all answers, the open suggestions, and the expert's replies. A reply with
            ``known`` = k is added after the k answers that arrived first.
        stale: The ``number`` of each answer and open suggestion whose prediction is recomputed,
            because the old prediction used answers that were changed.
        oldest: As in :meth:`MeasurementLog.added`.

    Returns:
        The log with all answers, and the open suggestions with their predictions.

    Raises:
        InputDataError: If the strategy refuses an answer.
    """
    answers, waiting, replies = rows
    log, due = start.begin(start.strategy, start.start), list(replies)
    plans = [*sorted(answers, key=lambda answer: answer.arrival), *waiting]
    arrived = sum(plan.arrival != OPEN for plan in plans)
    begun = defaultdict(list)
    for place, plan in enumerate(plans):
        if plan.number in stale and plan.predicted is not None:
            begun[plan.known].append(place)
    for count in range(arrived + 1):
        while due and due[0].known <= count:
            log = log.absorbed(due.pop(0))
        for place in begun[count]:
            plans[place] = replace(plans[place], predicted=_predicted(log, plans[place]))
        if count < arrived:
            log = log.added(plans[count], oldest)
    return log, plans[arrived:]


def _predicted(log: MeasurementLog, plan: Measurement) -> tuple[float, float, float]:
    """Predicted mean, sd and sqrt(beta) at a row's point and planned time."""
    state, when = log.state, plan.planned_for
    if state.rounds:
        when = max(when, float(state.time))  # an amended answer may have a later time
    fresh = log.strategy.suggestion_at(state, like(state).new_tensor(plan.point), now=when)
    return float(fresh.mean), float(fresh.sd), plan.prediction[2]


class OpenBox(Box):
    """A box that holds suggestions, but not measurements: the kernel extends beyond the box."""

    def locate(self, X: Tensor) -> Tensor:
        return X


class Restraints(NamedTuple):
    """What restrains the choices of trials, in the words of :class:`~botorch_tv.Loop`.

    Attributes:
        safe: The probability with which every measurement must keep the limits on outcomes.
        max_step: The largest steps from the newest setting, by name.
        move_cost: The cost of a move from the newest setting.
    """

    safe: float | None = None
    max_step: Any = None
    move_cost: Cost | None = None

    def checked(self, domain: Domain | None = None, objectives: int = 1) -> Self:
        """The restraints, if all numbers and names are right.

        Args:
            domain: The domain; None if it is not given yet, for any names.
            objectives: The number of objectives.

        Raises:
            InputDataError: If a name is unknown, or if a parameter has no order.
            ValueError: If a number is out of range, or if a move costs something but there are
                several objectives.
        """
        if self.safe is not None:
            require_number("safe", self.safe, "(0, 1)", "0.99 is usual.")
        box = Box(dict.fromkeys(self.names or ["x"], (0.0, 1.0))) if domain is None else domain
        corner = corners_of(box)[0]
        if self.max_step is not None:
            within(box, corner, corner, self.max_step)
        if self.move_cost is not None:
            MoveCost(box, corner, self.move_cost)
            require(objectives == 1, "move_cost has the unit of one objective; give max_step=.")
        return self

    @property
    def from_the_first(self) -> bool:
        """Whether they hold for the first trials, too, so that these do not fill the space."""
        return bool(self.safe or self.max_step)

    @property
    def names(self) -> set[str]:
        """The parameters that have a largest step, or a cost of their own."""
        return {name for part in self[1:] if isinstance(part, Mapping) for name in part}

    def moves(self, at: Point, free: Collection[str]) -> Moves:
        """The steps and costs of moves from a setting.

        Args:
            at: The setting.
            free: Names of parameters that may move to anywhere at no cost of their own.
        """

        def of_others(part: Any) -> Any:
            named = isinstance(part, Mapping)
            return {n: each for n, each in part.items() if n not in free} if named else part

        return Moves(at, *map(of_others, self[1:]))


class Problem(NamedTuple):
    """What trials optimise.

    Attributes:
        objectives: The objectives, at least one.
        limits: The limits on outcomes.
    """

    objectives: tuple[Objective, ...]
    limits: tuple[Limit, ...]

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The distinct formulas of objectives and limits, objectives first."""
        every = [own.expression for own in self.objectives]
        return tuple(dict.fromkeys(every + [own.expression for own in self.limits]))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the outcomes."""
        return tuple(dict.fromkeys(name for own in self.expressions for name in own.names or ()))

    def strategy(self, model: Strategy, restraints: Restraints) -> Strategy:
        """The strategy for trials: the model alone if a single outcome is the only objective.

        Args:
            model: The strategy that predicts each outcome; its ``maximize`` is replaced.
            restraints: What restrains its choices.

        Raises:
            ValueError: If the restraints need limits, or a single objective.
        """
        restraints.checked(objectives=len(self.objectives))
        fix = "in Ax give outcome_constraints, in Optuna enqueue a safe trial with constraints."
        problem = "safe is the probability of keeping limits on outcomes, but there are none yet"
        require(restraints.safe is None or bool(self.limits), f"{problem}; {fix}")
        if not self.limits and self.expressions == (Expression(self.names[0], self.names),):
            return replace(cast(Any, model), maximize=self.objectives[0].maximize)
        return self.outcomes(model, restraints)

    def outcomes(
        self, model: Any, restraints: Restraints, confidence: float | None = None
    ) -> Outcomes:
        """The strategy for named outcomes; a log computes where measurements succeed.

        Args:
            model: The strategy that predicts each outcome; its ``maximize`` is replaced.
            restraints: What restrains its choices.
            confidence: As for :class:`~botorch_tv.Loop`.
        """
        # With small steps nothing is measured far away, and all choices are near the limits.
        usual = CONFIDENCE if restraints.max_step is None else RECOMMENDED
        parts: Any = {**self._asdict(), "names": self.names, "model": model}
        least, safe = confidence or restraints.safe or usual, restraints.safe is not None
        return Outcomes(**parts, confidence=least, safe=safe, avoids_failures=False)


def trial_log(strategy: Strategy, space: Space, context_dim: int = 0) -> MeasurementLog:
    """An empty log for trials with the given parameters."""
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.float64, device="cpu")
    bounds, search = bounds.expand(2, space.columns), MixedSearch(space)
    box = OpenBox(bounds, context_dim=context_dim, search=search)
    return MeasurementLog.begin(strategy, strategy.init(box))


def trial_answer(
    time: float, number: int, point: Point, y: Values, kind: type[Measurement] = Measurement
) -> Measurement:
    """The row of a trial that has ended: with values, with a bound, or failed."""
    return kind(number, point, None, time, time, 0, None, y, arrival=number)


def patience(took: Collection[timedelta], lost_after: timedelta | None) -> timedelta:
    """Duration after which a running trial counts as lost.

    Args:
        took: Durations of trials that have ended.
        lost_after: The duration that the user gave; by default ``LOST`` times the median of
            ``took``, at least a minute, or the longest possible duration if ``took`` is empty.
    """
    usual = max(LOST * median_low(took), timedelta(minutes=1)) if took else timedelta.max
    return lost_after or usual


def is_retained(count: int, newest: int, oldest: int) -> bool:
    """Whether a log of ``newest`` answers retains the state after the first ``count`` answers.

    States may be large, so few old states are retained. The state after ``count`` answers is
    dropped when it is more than 2^(j + 1) answers old, where 2^j is the largest power of two that
    divides ``count``. If L answers have later times than a new answer, the newest retained state
    before the new answer is at most L - 1 + 2^i < 3 L answers old, where 2^i is the smallest power
    of two with 2^i ≥ L - 1.

    Args:
        count: Number of answers that the state includes.
        newest: Number of all answers of the log.
        oldest: Maximum age, in answers, of the earlier states that the log retains.
    """
    lasts = 2 * (count & -count) if count else oldest
    return newest - count <= min(lasts, oldest)


def oldest_for(late: int) -> int:
    """The ``oldest`` that a log needs if a new answer precedes at most ``late`` answers in time."""
    before = max(late - 1, 1)
    return late - 1 + (1 << (before - 1).bit_length())
