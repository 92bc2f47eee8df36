"""A stateful optimisation loop, for people who run a machine overnight."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.loop.clock import Time, earliest
from botorch_tv.loop.input import (
    OBSERVE_FAILED,
    SAYS_FAILED,
    Numbers,
    Points,
    as_known,
    as_number,
    as_place,
    as_replies,
    as_table,
    as_truth,
    check_labels,
    in_order,
    measurements,
)
from botorch_tv.loop.log import (
    Answer,
    Planned,
    Reply,
    Superseded,
    extended,
    planned,
    question,
    recounted,
    replayed,
    unpredicted,
)
from botorch_tv.loop.record import Record, locked
from botorch_tv.loop.table import (
    NumberedConsultation,
    NumberedSuggestion,
    columns_from,
    listed,
    meant,
    numbered,
    numbered_consultation,
)
from botorch_tv.strategies.adaptive import Adaptive
from botorch_tv.strategies.box import Bounds
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import ExpertWarning
from botorch_tv.validation import shown

MOST_OPEN = 16
"""Older consultations are given up, so that an expert who never answers costs no memory."""


class Loop(Record):
    """A running optimisation: asks where to measure, takes in the results, and remembers them.

    It makes the same choices as ``strategy.ask`` and ``strategy.tell``, for one trial. In addition,
    several suggestions may be open at once; answers may arrive in any order, late, or never; and
    the loop is saved to a file from which it resumes exactly where it stopped.

    **Several suggestions at once.** While suggestions are open, the next is chosen as if each had
    been answered with its predicted mean (GP-BUCB, Desautels et al., 2014), so that it goes
    elsewhere. Predictions reported with a suggestion use real answers only.

    **Failures.** A failure, ``tell(ok=False)``, says nothing about the value of the objective. It
    lowers the probability that measurements near it succeed, which is learned from successes and
    failures and multiplies what a point promises, see :mod:`botorch_tv.strategies.outcomes`. Points
    less than half as likely to succeed as the likeliest are not suggested, and points that are
    likelier to fail than to succeed are not recommended.

    **Late answers.** An answer measured before the newest known one is inserted at its time, and
    those after it are replayed. This is cheap while they are fewer than 2 ``pending``; with many
    more it takes as long as replaying everything.

    **Triggers.** An event trigger compares an answer with the prediction made with its suggestion
    or, for a measurement that was not suggested, with the prediction at its arrival. Replayed
    answers are compared with the same predictions; only the rounds since the last reset are
    recounted. If the trigger fired after a suggestion was made, that prediction belongs to a
    forgotten model, and one from the remaining data replaces it. Otherwise every suggestion open at
    a change would fire again, and discard the first measurements made after it.

    **Corrections.** :meth:`amend` and :meth:`remove` take a measurement by its number: that of the
    suggestion, or -1, -2, ... in order of arrival for those that were not suggested. From then on
    the loop makes the choices of one that never had the wrong reading. A file that was changed by
    hand is loaded with a warning, as if its rows had been amended.

    **Times** are numbers or datetimes, with or without a time zone, but of one kind within a loop.
    Files show them as they were given.

    **Experts.** After ``tell``, :meth:`consult` returns what an expert should measure again now,
    and :meth:`absorb` takes the answers: some or all of them, rounds later, or never. An expert is
    asked about the time of the newest measurement. Once it answers, all earlier measurements are
    set aside, even those that arrive late; later ones are kept beside its answers.

    Args:
        strategy: Any strategy; one of :mod:`botorch_tv.experts` makes the loop consult. By default,
            ``Loop(domain)``, it is :func:`~botorch_tv.strategies.adaptive_gp_ucb`, which needs no
            prior knowledge.
        domain: A :class:`Box` or :class:`Grid`, or the bounds of a box. With named parameters,
            points are dicts in their own units.
        pending: Maximum number of open suggestions; may be changed later.
        seed: For strategies that draw random numbers, or that sample the points to ask about.
        unit: Of the clock, ``"seconds"``, ``"minutes"``, ``"hours"``, ``"days"`` or ``"weeks"``,
            when times are datetimes; rates of forgetting are per unit. By default the first time
            decides: if it is a datetime, time is counted in hours from it.
        maximize: False to minimise with the default strategy; any other strategy has a setting of
            its own.
        dtype: Of all computations, float64 or float32.
        device: Of all computations; the domain's by default.

    Raises:
        ValueError: If ``pending`` is below 1, there is no such ``unit``, ``maximize`` contradicts
            the strategy, or the strategy does not fit the domain.
        InputDataError: As :meth:`Strategy.init`.

    Example:
        >>> loop = Loop({"temperature": (20, 80)}, unit="hours")  # by the wall clock
        >>> for _ in range(100):
        ...     suggestion = loop.ask()
        ...     loop.tell(measure(suggestion.point))
        ...     loop.save("loop.json")
        >>> loop.recommend()
        {'temperature': 56.3}
        >>> loop = Loop.load("loop.json")  # after a power failure; pass the strategy, if any
        >>> suggestion = loop.open[0] if loop.open else loop.ask()
    """

    @classmethod
    def from_table(
        cls,
        *given: Any,
        strategy: Strategy | None = None,
        domain: Domain | Bounds | None = None,
        X: Points = None,
        y: Numbers | None = None,
        time: Numbers | Sequence[Time] | None = None,
        noise: Numbers | None = None,
        context: Numbers | None = None,
        ok: Sequence[bool] | Tensor | None = None,
        pending: int = 1,
        seed: int = 0,
        unit: str | None = None,
        maximize: bool | None = None,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> Loop:
        """A loop that starts from earlier measurements.

        Args:
            given: Strategy, domain, X and y in this order, as far as they are not passed by name;
                the strategy may be left out, ``Loop.from_table(domain, X, y)``.
            strategy: As for the class.
            domain: As for the class.
            X: Measured points, `n x d`; with named parameters a list of dicts, or a DataFrame. Or,
                alone, a DataFrame as :meth:`table` returns it: point, context, y, time, ok and
                noise are its columns, of which all but point and y may be missing, and a noise of
                NaN is the strategy's.
            y: Observations, `n`; ignored where ``ok`` is False.
            time: Their times, `n`, in any order, numbers or datetimes; 1, 2, ..., n by default.
            noise: Variance of each measurement, `n`; the strategy's by default.
            context: Context of each measurement, `n x c`, for a domain with a context.
            ok: False where a measurement failed, `n`; all succeeded by default.
            pending: As for the class.
            seed: As for the class.
            unit: As for the class.
            maximize: As for the class.
            dtype: As for the class.
            device: As for the class.

        Raises:
            InputDataError: If the columns do not match each other or the domain, a value is not
                finite (leave out rows without a measurement, or say ok=False), or pandas columns
                have different row labels.
            ValueError: If there is no domain, X or y.
        """
        strategy, domain, X, y = in_order(
            "Loop.from_table", given, strategy=strategy, domain=domain, X=X, y=y
        )
        loop = cls(
            strategy=strategy,
            domain=domain,
            pending=pending,
            seed=seed,
            unit=unit,
            maximize=maximize,
            dtype=dtype,
            device=device,
        )
        columns = {"X": X, "y": y, "time": time, "noise": noise, "context": context, "ok": ok}
        if y is None:
            columns = columns_from(columns, loop.domain, loop.parameters)
        X, y, time, noise, context, ok = columns.values()
        check_labels(columns)
        points = as_table(X, y, loop.state)
        times = None
        if time is not None:
            times = loop._begun(earliest(time)).numbers(time, len(points))
        for point, value, when, variance, known in measurements(
            loop.state, points, y, times, noise, context, ok
        ):
            loop._observed(loop._columns(point, known), value, when, variance)
        return loop

    # ---------------------------------------------------------------- asking and telling

    @locked
    def ask(self, *, now: Time | None = None, context: Numbers | None = None) -> NumberedSuggestion:
        """Choose where to measure next.

        Args:
            now: Time of the measurement, no earlier than the newest one. By default it is one after
                the newest time, or the typical time between measurements after it for the adaptive
                strategy; if times are datetimes, it is this computer's clock.
            context: Coordinates known before this round and not chosen, `c` numbers, for a box with
                ``context_dim`` c.

        Returns:
            The suggestion, open until :meth:`tell` or :meth:`discard`.

        Raises:
            InputDataError: If ``pending`` suggestions are open, ``now`` lies before the newest
                measurement, or the context does not fit. The loop is not changed.
        """
        if len(self._open) >= self.pending:
            oldest = next(iter(self._open))
            raise InputDataError(
                f"pending is {self.pending}, and open are {listed(self._open, self._units)}. "
                f"tell(y, suggestion={oldest}) says what came "
                f"out, discard({oldest}) that it will never come, and "
                f"loop.pending = {self.pending + 1} allows one more."
            )
        present, log = self._present(now), self._log
        known = as_known(self.state, context)
        chance = self._success(present)
        waiting = [(one.planned_for, one.point) for one in self._open.values()]
        self._strategy.warn_of_absence(self.state, stacklevel=4)
        try:
            choice = log.choice(
                log.as_if_answered(waiting, present),
                present,
                chance,
                retry=isinstance(self._strategy, Adaptive),
                context=known,
                generator=self._generator,
            )
        except Exception as error:
            error.add_note(f"Loop: as suggestion {self._asked + 1} is chosen.")
            raise
        if waiting:
            honest = log.quiet.suggestion_at(self.state, choice.X, now=choice.time)
            choice = choice._replace(mean=honest.mean, sd=honest.sd)
        choice = choice._replace(X=self._units.settled(choice.X))
        predicts = bool(self._strategy.predicts(self.state))
        plan = planned(choice, self._asked + 1, len(log.answers), predicts=predicts)
        self._asked += 1
        self._open[plan.number] = plan
        return numbered(plan, self.state, self._units)

    @locked
    def tell(
        self,
        y: float | Tensor | None = None,
        *,
        suggestion: int | NumberedSuggestion | None = None,
        time: Time | None = None,
        noise: float | None = None,
        ok: bool = True,
    ) -> None:
        """Add the answer to a suggestion.

        Whether it made the strategy forget everything before it is ``loop.last.reset``.

        Args:
            y: The observation; ignored if ``ok`` is False.
            suggestion: The suggestion it answers, or its number; the only open one by default.
            time: When it was actually measured; the suggestion's time by default. It may lie before
                that of other answers.
            noise: Variance of this measurement; the strategy's by default. The adaptive strategy
                estimates the noise itself and refuses this argument.
            ok: False if the measurement failed: the round counts, but nothing is learned.

        Raises:
            InputDataError: If the suggestion is not open, ``y``, ``time`` or ``noise`` is not a
                finite number, or ``ok`` neither True nor False. The loop is not changed.
        """
        plan = self._meant(suggestion)
        value = as_number("y", y, SAYS_FAILED) if as_truth("ok", ok) else None
        when = plan.planned_for if time is None else self._number("time", time)
        self._take(plan, value, when, noise)
        del self._open[plan.number]

    @locked
    def observe(
        self,
        X: Points,
        y: float | Tensor | None = None,
        *,
        time: Time | None = None,
        noise: float | None = None,
        context: Numbers | None = None,
        ok: bool = True,
    ) -> None:
        """Add a measurement that was not suggested; it gets the next of the numbers -1, -2, ...

        Args:
            X: The point, `d` numbers, or a dict of named parameters; with named parameters a tensor
                is a point of the unit cube, like ``suggestion.X``.
            y: The observation; ignored if ``ok`` is False.
            time: When it was made; the default is that of :meth:`ask`. It may lie before the newest
                measurement.
            noise: Variance of this measurement; the strategy's by default. The adaptive strategy
                estimates the noise itself and refuses this argument.
            context: The context, `c` numbers.
            ok: False if the measurement failed.

        Raises:
            InputDataError: If the point lies outside the domain or a number is not finite. The loop
                is not changed.
        """
        point = self._columns(as_place(X, self.state), context)
        value = as_number("y", y, OBSERVE_FAILED) if as_truth("ok", ok) else None
        clock = self._begun(time)
        time = clock.now() if time is None else time
        when = (
            float(self.state.time + self._strategy.step(self.state))
            if time is None
            else self._number("time", time)
        )
        self._observed(point, value, when, noise)

    def _observed(
        self, point: Tensor, value: float | None, when: float, noise: float | None
    ) -> None:
        point = self._units.settled(point)
        known, number = len(self._log.answers), -self._unsuggested - 1
        if self._strategy.compares:
            state = self._log.before(when)
            predicted = self._strategy.suggestion_at(state, point, now=when)
            plan = planned(predicted, number, known, predicts=True)
        else:
            plan = unpredicted(self.state, point, number, when, known)
        self._take(plan, value, when, noise)
        self._unsuggested += 1

    @locked
    def discard(self, suggestion: int | NumberedSuggestion | None = None) -> None:
        """Drop a suggestion that will never be answered.

        Args:
            suggestion: The suggestion or its number; the only open one by default.

        Raises:
            InputDataError: If it is not open.
        """
        del self._open[self._meant(suggestion).number]

    @locked
    def amend(
        self,
        number: int,
        y: float | Tensor | None = None,
        *,
        ok: bool | None = None,
        time: Time | None = None,
    ) -> None:
        """Correct a measurement.

        From then on the loop makes the choices of one that never had the wrong reading: later
        answers are replayed, and event triggers compare them with predictions from the corrected
        data. Other strategies keep the predictions made with suggestions, for the table. The wrong
        reading stays in the file and in ``superseded``.

        Args:
            number: Of the suggestion that was answered, or -1, -2, ... for a measurement that was
                not suggested; see :meth:`table`.
            y: The right observation; as before by default. With it a failure becomes a success.
            ok: False if the measurement failed.
            time: When it was really made; as before by default.

        Raises:
            InputDataError: If there is no measurement of this number, nothing changes, ``y`` is
                missing though ``ok`` is True, or a number is not finite. The loop is not changed.
        """
        wrong = self._answered(number)
        value = wrong.y
        if ok is not None and not as_truth("ok", ok):
            value = None
        elif ok is not None or y is not None:
            value = as_number("y", y, f"amend({number}, ok=False) says that it failed.")
        when = wrong.time if time is None else self._number("time", time)
        planned_for = when if wrong.number < 0 else wrong.planned_for
        right = replace(wrong, y=value, time=when, planned_for=planned_for)
        if right == wrong:
            raise InputDataError(
                f"measurement {number}, which {wrong.outcome}, would stay as it is: nothing to "
                f"amend; amend({number}, y=...) corrects it, and remove({number}) takes it out."
            )
        self._change(wrong, right)

    @locked
    def remove(self, number: int) -> None:
        """Take out a measurement, as if it had never been made; see :meth:`amend`.

        Its number is not used again.

        Args:
            number: As for :meth:`amend`.

        Raises:
            InputDataError: If there is no measurement of this number.
        """
        self._change(self._answered(number), None)

    # ---------------------------------------------------------------- asking an expert

    @locked
    def consult(self) -> NumberedConsultation | None:
        """What an expert should measure again now; call it after :meth:`tell`.

        The schedule counts measurements as they arrive, late ones included. Those from a table, or
        that were not suggested, count too, but nothing is asked about earlier times.

        Returns:
            The points and the time. A consultation is open until :meth:`absorb` takes answers to it
            or to a newer one, and at most 16 are open at once; repeated calls return the same one
            until there is a newer measurement. None if no consultation is due or it has been
            answered, and for strategies without an expert.
        """
        log, state = self._log, self.state
        newest = next(reversed(self._consultations.values()), None)
        if newest is None or log.place_of(newest) < state.told:
            if state.expert is not None and state.expert.told == state.told:
                return None
            asked = self._strategy.consult(state, generator=self._generator)
            if asked is None:
                return None
            asked = asked._replace(X=self._units.settled(asked.X))
            newest = question(asked, self._consulted + 1, len(log.answers))
            if newest is None:
                return None
            self._consulted = newest.number
            self._consultations[newest.number] = newest
            for number in list(self._consultations)[:-MOST_OPEN]:
                del self._consultations[number]
        return numbered_consultation(newest, state, self._units)

    @locked
    def absorb(
        self,
        consultation: int | NumberedConsultation,
        y: Numbers | Sequence[float | None] | None = None,
        *,
        ok: bool | Sequence[bool] | Tensor | None = None,
    ) -> int:
        """Add an expert's answers, which replace earlier answers and older measurements.

        Args:
            consultation: The consultation, or its number.
            y: The answers, `Q`; ignored where ``ok`` is False.
            ok: Which points were answered, `Q`, or one bool for all; all by default.

        Returns:
            The number of points without an answer. If that is all of them, an ``ExpertWarning`` is
            issued and the strategy continues with the data it has.

        Raises:
            InputDataError: If the number of answers differs from the number of points, an answer
                is NaN or infinite, or the consultation is not open because it was absorbed or
                superseded by a newer one. The loop is not changed.
        """
        if not self._strategy.consults:
            raise InputDataError(
                f"{self._strategy!r} consults no expert, so it has no use for answers; observe(X, "
                "y) takes in what was measured besides."
            )
        number = getattr(consultation, "number", consultation)
        asked = self._consultations.get(number) if type(number) is int else None
        if asked is None or getattr(consultation, "row", asked) != asked:
            raise InputDataError(
                f"consultation {shown(number)} is not open here; open: "
                f"{listed(self._consultations, self._units) or 'none'}. Answers count once, those "
                f"after newer answers do not, and at most {MOST_OPEN} consultations wait."
            )
        reply = extended(Reply, asked, y=as_replies(y, ok, len(asked.points)))
        self._log = self._log.absorbed(reply)
        self._consultations = {n: one for n, one in self._consultations.items() if n > asked.number}
        if reply.unanswered == len(reply.y):
            warnings.warn(
                f"the expert gave no answer at all to consultation {asked.number}; the loop goes "
                "on with the data it has.",
                ExpertWarning,
                stacklevel=3,
            )
        return reply.unanswered

    # ---------------------------------------------------------------- within

    def _meant(self, suggestion: int | NumberedSuggestion | None) -> Planned:
        answered = [one.number for one in (*self._log.answers, *self._superseded)]
        return meant(suggestion, self._open, self._asked, answered, self._units)

    def _take(self, plan: Planned, y: float | None, time: float, noise: float | None) -> None:
        variance = "give the variance of this measurement."
        answer = extended(
            Answer,
            plan,
            y=y,
            time=time,
            noise=None if noise is None else as_number("noise", noise, variance),
            arrival=len(self._log.answers),
        )
        self._log = self._log.added(answer, self._oldest)

    def _answered(self, number: int) -> Answer:
        """The measurement with a number.

        Raises:
            InputDataError: If there is none.
        """
        for one in self._log.answers:
            if one.number == number and not isinstance(number, bool):
                return one
        raise InputDataError(
            f"there is no measurement {shown(number)}: give the number of a suggestion that was "
            "answered or, for a measurement that was not suggested, -1, -2, ..., as in table()."
        )

    def _change(self, wrong: Answer, right: Answer | None) -> None:
        """Replace or remove an answer, and compute everything since as if it had never been."""
        old = self._log
        answers = [one for one in old.answers if one is not wrong]
        answers, waiting, asked, replies = recounted(
            answers if right is None else [*answers, right],
            self._open.values(),
            self._consultations.values(),
            old.replies,
        )
        if self._strategy.compares or replies:
            rows = (*old.answers, *self._open.values())
            stale = {one.number for one in rows if one.known > wrong.arrival}
            # What was not suggested is predicted for the time at which it was measured.
            stale |= {wrong.number} if wrong.number < 0 else set()
            self._log, waiting = replayed(old, answers, waiting, replies, stale, self._oldest)
        else:
            self._log = old.changed(answers, self._oldest)
        self._open = {one.number: one for one in waiting}
        self._consultations = {one.number: one for one in asked}
        became = "removed" if right is None else "amended"
        self._superseded.append(extended(Superseded, wrong, became=became))
