"""A stateful optimisation loop, for people who run a machine overnight."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Never

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.strategies.adaptive import Adaptive
from botorch_tv.strategies.box import Bounds
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.loop.clock import Time, earliest
from botorch_tv.strategies.loop.cures import Act, Cure, RefusedInput, Words
from botorch_tv.strategies.loop.input import (
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
    as_whole,
    check_labels,
    check_names,
    in_order,
    measurements,
)
from botorch_tv.strategies.loop.inspection import Inspection
from botorch_tv.strategies.loop.locking import locked
from botorch_tv.strategies.loop.log import (
    Answer,
    Planned,
    Reply,
    Superseded,
    extended,
    planned,
    question,
    recounted,
    unpredicted,
)
from botorch_tv.strategies.loop.replay import fantasized, told_anew
from botorch_tv.strategies.loop.shown import (
    NumberedConsultation,
    NumberedSuggestion,
    numbered,
    numbered_consultation,
)
from botorch_tv.strategies.outcomes import avoiding, elsewhere
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import ExpertWarning
from botorch_tv.strategies.trial_history import retried
from botorch_tv.validation import require, shown

CALLED = {
    **dict.fromkeys(("best", "best_point", "best_params", "optimum"), "recommend(now=...)"),
    **dict.fromkeys(("suggest", "next", "propose", "get_next_trials"), "ask(now=...)"),
    **dict.fromkeys(("report", "update", "register", "complete_trial"), "tell(y)"),
    **dict.fromkeys(("predict", "mean", "model"), "posterior(X, now=...)"),
    **dict.fromkeys(("data", "results", "trials", "measurements"), "table()"),
}
"""Methods by the names that they have elsewhere."""


class Loop(Inspection):
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
        unknown: Rejected, with the likely name if misspelt.

    Raises:
        TypeError: If there is no such argument.
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

    if not TYPE_CHECKING:  # for which there are the names below, and no other

        def __getattr__(self, name: str) -> Never:
            meant = f". Did you mean {CALLED[name]}?" if name in CALLED else ""
            words = f"{type(self).__name__!r} object has no attribute {name!r}{meant}"
            raise AttributeError(words, name=name, obj=self)

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
        **unknown: Never,
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
            unknown: Rejected, with the likely name if misspelt.

        Raises:
            InputDataError: If the columns do not match each other or the domain, a value is not
                finite (leave out rows without a measurement, or say ok=False), or pandas columns
                have different row labels.
            TypeError: If there is no such argument.
            ValueError: If there is no domain, X or y.
        """
        check_names("Loop.from_table", unknown, cls.from_table)
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
            columns = loop._columns_from(columns)
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
        self._open.require_room()
        present = self._present(now)
        known = as_known(self.state, context)
        state, strategy = self.state, self._for_fantasies
        chance = self._success(present)
        waiting = list(self._open.rows.values())
        self._strategy.warn_of_absence(state, stacklevel=4)
        if waiting:
            state = fantasized(strategy, state, waiting, present)
        among = avoiding(retried(state) if isinstance(strategy, Adaptive) else state, chance)
        chosen = partial(strategy.ask, among, now=present, context=known, generator=self._generator)
        try:
            choice = elsewhere(strategy, state, present, chosen, chance)
        except Exception as error:
            error.add_note(f"Loop: as suggestion {self._open.asked + 1} is chosen.")
            raise
        if waiting:
            honest = strategy.suggestion_at(self.state, choice.X, now=choice.time)
            choice = choice._replace(mean=honest.mean, sd=honest.sd)
        choice = choice._replace(X=self._units.settled(choice.X))
        predicts = bool(self._strategy.predicts(self.state))
        known_answers = len(self._replay.answers)
        plan = planned(choice, self._open.asked + 1, known_answers, predicts=predicts)
        self._open.add(plan)
        return numbered(plan, state, self._units)

    @locked
    def tell(
        self,
        y: float | Tensor | None = None,
        *more: Never,
        suggestion: int | NumberedSuggestion | None = None,
        time: Time | None = None,
        noise: float | None = None,
        ok: bool = True,
    ) -> None:
        """Add the answer to a suggestion.

        Whether it made the strategy forget everything before it is ``loop.last.reset``.

        Args:
            y: The observation; ignored if ``ok`` is False.
            more: Rejected; all other arguments are passed by name.
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
        if more or isinstance(y, NumberedSuggestion):
            given = ", ".join(shown(one) for one in (y, *more))
            raise InputDataError(
                f"tell({given}): y alone goes without its name; give tell(y, suggestion=...), or "
                "observe(X, y) for a point that nobody suggested."
            )
        plan = self._meant(suggestion)
        value = as_number("y", y, SAYS_FAILED) if as_truth("ok", ok) else None
        when = plan.planned_for if time is None else self._number(Cure(Act.TIME), time)
        self._take(plan, value, when, noise)
        del self._open.rows[plan.number]

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
            else self._number(Cure(Act.TIME), time)
        )
        self._observed(point, value, when, noise)

    def _observed(
        self, point: Tensor, value: float | None, when: float, noise: float | None
    ) -> None:
        point = self._units.settled(point)
        known, number = len(self._replay.answers), -self._unsuggested - 1
        if self._strategy.compares:
            state = self._replay.before(when)
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
        del self._open.rows[self._meant(suggestion).number]

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
            value = as_number("y", y, (Cure(Act.AMEND_FAILED, number), " says that it failed."))
        when = wrong.time if time is None else self._number(Cure(Act.TIME), time)
        right = replace(wrong, y=value, time=when)
        if wrong.number < 0:
            right = replace(right, planned_for=when)
        if right == wrong:
            raise RefusedInput(
                f"measurement {number}, which {wrong.outcome}, would stay as it is: nothing to ",
                ("amend; ", Cure(Act.AMEND, number), " corrects it, and "),
                (Cure(Act.REMOVE, number), " takes it out."),
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
        replay, state, newest = self._replay, self.state, self._consultations.newest
        if newest is None or replay.place_of(newest) < state.told:
            if state.expert is not None and state.expert.told == state.told:
                return None
            asked = self._strategy.consult(state, generator=self._generator)
            number, known = self._consultations.asked + 1, len(replay.answers)
            if asked is not None:
                asked = asked._replace(X=self._units.settled(asked.X))
            newest = None if asked is None else question(asked, number, known)
            if newest is None:
                return None
            self._consultations.add(newest)
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
        asked = self._consultations.find(consultation, self._replay.replies)
        reply = extended(Reply, asked, y=as_replies(y, ok, len(asked.points)))
        self._replay.absorb(reply)
        self._consultations.answered(asked)
        if reply.unanswered == len(reply.y):
            warnings.warn(
                f"the expert gave no answer at all to consultation {asked.number}; the loop goes "
                "on with the data it has.",
                ExpertWarning,
                stacklevel=3,
            )
        return reply.unanswered

    # ---------------------------------------------------------------- within

    def _columns_from(self, given: dict[str, Any]) -> dict[str, Any]:
        """The columns of a DataFrame as :meth:`table` returns it.

        Raises:
            ValueError: If a column is missing, or came besides.
        """
        frame, others = given["X"], [one for one, value in given.items() if value is not None]
        require(
            others == ["X"],
            "Loop.from_table: without y, X is a table that has all columns, but "
            f"{', '.join(others)} came; give X alone, or y with the others.",
        )
        _, *names = self._columns_of_table
        names = names[: names.index("time")]
        missing = [one for one in (*names, "y") if one not in frame.columns]
        require(
            not missing,
            f"Loop.from_table: X has no column {', '.join(missing)}; give y, or a DataFrame as "
            "loop.table() returns it.",
        )
        points, known = frame[names[: len(self._names)]], frame[names[len(self._names) :]]
        if self.parameters is None:
            points = points.to_numpy()
        points = points.set_axis(list(self.parameters), axis=1) if self.parameters else points
        there = {name: frame[name] for name in ("time", "noise", "ok") if name in frame.columns}
        if "noise" in there:
            usual = there["noise"].isna()
            there["noise"] = [None if own else one for one, own in zip(there["noise"], usual)]
        context = known.to_numpy() if len(known.columns) else None
        return given | {"X": points, "y": frame["y"], "context": context} | there

    def _meant(self, suggestion: int | NumberedSuggestion | None) -> Planned:
        if suggestion is None:
            return self._open.only()
        return self._open.find(suggestion, [*self._replay.answers, *self._superseded])

    def _take(self, plan: Planned, y: float | None, time: float, noise: float | None) -> None:
        variance = "give the variance of this measurement."
        answer = extended(
            Answer,
            plan,
            y=y,
            time=time,
            noise=None if noise is None else as_number("noise", noise, variance),
            arrival=len(self._replay.answers),
        )
        self._replay.add(answer, late=2 * self.pending - 1)

    def _answered(self, number: int) -> Answer:
        """The measurement with a number.

        Raises:
            InputDataError: If there is none.
        """
        whole = as_whole(number)
        for one in self._replay.answers:
            if one.number == whole:
                return one
        if whole in self._open.rows:
            words: Words = ("its suggestion is open; ", Cure(Act.TELL, whole), " answers it.")
        elif any(one.number == whole for one in self._superseded):
            words = ("it was removed; ", Cure(Act.OBSERVE_AT), " takes in another.")
        else:
            words = (
                "give the number of a suggestion that was answered or, for a measurement that was ",
                ("not suggested, -1, -2, ..., as in ", Cure(Act.SHOW_TABLE), "."),
            )
        raise RefusedInput(f"there is no measurement {shown(number)}: ", words)

    def _change(self, wrong: Answer, right: Answer | None) -> None:
        """Replace or remove an answer, and compute everything since as if it had never been."""
        old, late = self._replay, 2 * self.pending - 1
        answers = [one for one in old.answers if one is not wrong]
        answers, waiting, asked, replies = recounted(
            answers if right is None else [*answers, right],
            self._open.rows.values(),
            self._consultations.rows.values(),
            old.replies,
        )
        if self._strategy.compares or replies:
            rows = (*old.answers, *self._open.rows.values())
            stale = {one.number for one in rows if one.known > wrong.arrival}
            # What was not suggested is predicted for the time at which it was measured.
            stale |= {wrong.number} if wrong.number < 0 else set()
            self._replay, waiting = told_anew(
                self._strategy, old.start, answers, waiting, replies, stale, late
            )
        else:
            old.change(answers, late)
        self._open.rows = {one.number: one for one in waiting}
        self._consultations.rows = {one.number: one for one in asked}
        became = "removed" if right is None else "amended"
        self._superseded.append(extended(Superseded, wrong, became=became))
