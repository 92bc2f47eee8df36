"""A loop with a memory of its own, for people who run a machine overnight."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Never

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.strategies.adaptive import Adaptive
from botorch_tv.strategies.box import Bounds
from botorch_tv.strategies.consultation import ExpertWarning
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.loop.clock import Time, earliest
from botorch_tv.strategies.loop.cures import Act, Cure
from botorch_tv.strategies.loop.input import (
    SAYS_FAILED,
    Numbers,
    Points,
    as_known,
    as_number,
    as_place,
    as_replies,
    as_table,
    check_labels,
    check_names,
    measurements,
)
from botorch_tv.strategies.loop.log import (
    Answer,
    Planned,
    Reply,
    extended,
    planned,
    question,
    unpredicted,
)
from botorch_tv.strategies.loop.looking import Looking
from botorch_tv.strategies.loop.replay import pretended
from botorch_tv.strategies.loop.resting import elsewhere, resting
from botorch_tv.strategies.loop.shown import (
    NumberedConsultation,
    NumberedSuggestion,
    numbered,
    numbered_consultation,
)
from botorch_tv.strategies.loop.turn import in_turn
from botorch_tv.strategies.mixed.retrial import retried
from botorch_tv.validation import shown

CALLED = {
    **dict.fromkeys(("best", "best_point", "best_params", "optimum"), "recommend(now=...)"),
    **dict.fromkeys(("suggest", "next", "propose", "get_next_trials"), "ask(now=...)"),
    **dict.fromkeys(("report", "update", "register", "complete_trial"), "tell(y)"),
    **dict.fromkeys(("predict", "mean", "model"), "posterior(X, now=...)"),
    **dict.fromkeys(("data", "results", "trials", "measurements"), "table()"),
}
"""Methods by the names that they have elsewhere."""


class Loop(Looking):
    """A strategy at work: it asks where to measure, is told what came out, and remembers.

    The same choices as ``strategy.ask`` and ``strategy.tell`` make by hand, for one trial. Besides,
    several suggestions may be open at once; answers come in any order, late, or never; and
    everything is saved in a file from which the loop goes on as if never stopped.

    **Several at once.** While suggestions are open, the next is chosen as if each of them had been
    answered with the mean predicted for it (GP-BUCB, Desautels et al., 2014), so that it goes
    somewhere else. What a suggestion itself predicts rests on real answers alone.

    **Failures.** A point that failed rests, ``tell(ok=False)``: it is not asked for again before
    one other answer, after two failures in a row before three, then seven, and so on; on a box that
    holds for its surroundings, a twentieth of every side at first, twice as far after each failure,
    up to a quarter. A success there ends it. A strategy that would choose
    what rests draws again, or gets the best of the rest by its own confidence bound.

    **Late answers.** An answer that was measured before the newest one known is taken in at its
    place: what came after it is told anew. That is cheap where those are fewer than 2
    ``pending``, and takes as long as telling everything where they are many more.

    **Triggers.** An event trigger compares an answer with the prediction its suggestion was made
    with, or, where nobody suggested it, with the one made when it came in. Told anew, it is
    compared with the same prediction; only rounds since the last reset are counted anew. If an
    answer that came after the suggestion has fired the trigger, the prediction is of a model that
    is forgotten, and one from what is left takes its place: otherwise every suggestion open at a
    change would fire again, and forget the first measurements made after it.

    **Times** are numbers, or datetimes, with a zone or without, one kind for a loop. A file shows
    them as they were given.

    **Experts.** After ``tell``, :meth:`consult` says what an expert is to measure again now, and
    :meth:`absorb` takes the answers: some, all, rounds later, or never. An expert is asked about
    the time of the newest measurement; whatever was measured before is set aside once it answers,
    also what is told late. What was measured since is kept beside its answers.

    Args:
        strategy: Any; with one of :mod:`botorch_tv.experts` the loop consults. Left out,
            ``Loop(domain)``, it is :func:`~botorch_tv.strategies.adaptive_gp_ucb`, which needs to
            be told nothing.
        domain: Where to choose: a :class:`Box` or :class:`Grid`, or the bounds of a box. With named
            parameters points are dicts, in their own units.
        pending: Most suggestions open at once; may be changed later.
        seed: For strategies that draw random numbers, or the points they ask an expert about.
        unit: Of the clock, ``"seconds"``, ``"minutes"``, ``"hours"``, ``"days"`` or ``"weeks"``,
            where times are datetimes; rates of forgetting are then meant per unit. Unless given,
            the first time decides: with a datetime, hours are counted from it.
        maximize: Whether the largest value is wanted, where the strategy is left out, True unless
            given; a strategy that is given says it itself.
        dtype: Of all that is computed, float64 or float32.
        device: Where it is computed; the domain's unless given.
        unknown: Nothing; refused with the name that was meant.

    Raises:
        TypeError: If there is no such argument.
        ValueError: If ``pending`` is below 1, there is no such ``unit``, ``maximize`` is not what
            the strategy has, or the strategy does not fit the domain.
        InputDataError: As :meth:`Strategy.init`.

    Example:
        >>> loop = Loop({"temperature": (20, 80)}, unit="hours")  # by the clock on the wall
        >>> for _ in range(100):
        ...     suggestion = loop.ask()
        ...     loop.tell(measure(suggestion.point))
        ...     loop.save("loop.json")
        >>> loop.recommend()
        {'temperature': 56.3}
        >>> loop = Loop.load("loop.json")  # after a power failure; with its strategy, if it has one
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
        strategy: Strategy | Domain | Bounds,
        domain: Domain | Bounds | Points = None,
        X: Points = None,
        y: Numbers | None = None,
        *,
        time: Numbers | Sequence[Time] | None = None,
        noise: Numbers | None = None,
        context: Numbers | None = None,
        pending: int = 1,
        seed: int = 0,
        unit: str | None = None,
        maximize: bool | None = None,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
        **unknown: Never,
    ) -> Loop:
        """A loop that begins with what has been measured before.

        Args:
            strategy: As for the class; it may be left out, ``Loop.from_table(domain, X, y)``.
            domain: As for the class.
            X: Where was measured, `n x d`; with named parameters a list of dicts, or a DataFrame.
            y: What came out, `n`.
            time: When, `n`, in any order, numbers or datetimes; 1, 2, ..., n unless given.
            noise: Variance of each measurement, `n`; the strategy's unless given.
            context: What was known beforehand, `n x c`, for a domain with a context.
            pending: As for the class.
            seed: As for the class.
            unit: As for the class.
            maximize: As for the class.
            dtype: As for the class.
            device: As for the class.
            unknown: Nothing; refused with the name that was meant.

        Raises:
            InputDataError: If the columns do not fit each other or the domain, or a value is not
                finite; rows without a measurement are to be left out. If columns of pandas have
                different row labels.
            TypeError: If there is no such argument.
            ValueError: If there is no domain, X or y.
        """
        check_names("Loop.from_table", unknown, inspect.signature(cls.from_table).parameters)
        *who, X, y = _in_order(strategy, domain, X, y)
        loop = cls(
            *who,
            pending=pending,
            seed=seed,
            unit=unit,
            maximize=maximize,
            dtype=dtype,
            device=device,
        )
        columns = {"X": X, "y": y, "time": time, "noise": noise, "context": context}
        check_labels(columns)
        points = as_table(X, y, loop.state)
        times = None
        if time is not None:
            times = loop._begun(earliest(time)).numbers(time, len(points))
        for point, value, when, variance, known in measurements(
            loop.state, points, y, times, noise, context
        ):
            loop._observed(loop._columns(point, known), value, when, variance)
        return loop

    # ---------------------------------------------------------------- asking and telling

    @in_turn
    def ask(self, *, now: Time | None = None, context: Numbers | None = None) -> NumberedSuggestion:
        """Choose where to measure next.

        Args:
            now: Time of the measurement. Unless given it is one more than the newest time told; a
                strategy that is told nothing takes the usual time between measurements, and where
                times are datetimes it is the time by the clock of this computer. It may not lie
                before the newest measurement.
            context: What is known before this round and not chosen, `c` numbers, on a box with
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
        state, strategy = self.state, self._credulous
        rest = resting(self._replay.answers, self.domain)
        waiting = list(self._open.rows.values())
        self._strategy.warn_of_absence(state, stacklevel=4)
        if waiting:
            state = pretended(strategy, state, waiting, present)
        among = retried(state) if isinstance(strategy, Adaptive) else state
        chosen = partial(strategy.ask, among, now=present, context=known, generator=self._generator)
        try:
            choice = elsewhere(strategy, state, present, chosen(), rest, chosen)
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

    @in_turn
    def tell(
        self,
        y: float | Tensor | None = None,
        *more: Never,
        suggestion: int | NumberedSuggestion | None = None,
        time: Time | None = None,
        noise: float | None = None,
        ok: bool = True,
    ) -> bool:
        """Take in the answer to a suggestion.

        Args:
            y: What came out; not looked at where ``ok`` is False.
            more: Nothing; all else goes by name.
            suggestion: Which suggestion it answers, or its number; the only open one unless given.
            time: When it was really measured; the suggestion's time unless given. It may lie before
                that of other answers.
            noise: Variance of this measurement; the strategy's unless given. A strategy that is
                told nothing finds the noise itself and refuses it.
            ok: False where the measurement failed: the round counts, but nothing is learned.

        Returns:
            Whether the answer made the strategy forget everything before it.

        Raises:
            InputDataError: If the suggestion is not open, or ``y``, ``time`` or ``noise`` is no
                finite number. The loop is not changed.
        """
        if more or isinstance(y, NumberedSuggestion):
            given = ", ".join(shown(one) for one in (y, *more))
            raise InputDataError(
                f"tell({given}): y alone goes without its name; give tell(y, suggestion=...), or "
                "observe(X, y) for a point that nobody suggested."
            )
        plan = self._meant(suggestion)
        value = as_number("y", y, SAYS_FAILED) if ok else None
        when = plan.planned_for if time is None else self._number(Cure(Act.TIME), time)
        reset = self._take(plan, value, when, noise)
        del self._open.rows[plan.number]
        return reset

    @in_turn
    def observe(
        self,
        X: Points,
        y: float | Tensor,
        *,
        time: Time | None = None,
        noise: float | None = None,
        context: Numbers | None = None,
    ) -> bool:
        """Take in a measurement that nobody suggested.

        Args:
            X: Where, `d` numbers, or a dict of named parameters; a tensor is a place in the unit
                cube there, as ``suggestion.X``.
            y: What came out.
            time: When; as in :meth:`ask` unless given. It may lie before the newest time told.
            noise: Variance of this measurement; the strategy's unless given. A strategy that is
                told nothing finds the noise itself and refuses it.
            context: What was known beforehand, `c` numbers.

        Returns:
            Whether it made the strategy forget everything before it.

        Raises:
            InputDataError: If the point lies outside the domain or a number is not finite. The loop
                is not changed.
        """
        point = self._columns(as_place("X", X, self.state), context)
        value = as_number("y", y, "leave out measurements that failed.")
        clock = self._begun(time)
        time = clock.now() if time is None else time
        when = (
            float(self.state.time + self._strategy.step(self.state))
            if time is None
            else self._number(Cure(Act.TIME), time)
        )
        return self._observed(point, value, when, noise)

    def _observed(self, point: Tensor, value: float, when: float, noise: float | None) -> bool:
        point = self._units.settled(point)
        known = len(self._replay.answers)
        if self._strategy.compares:
            state = self._replay.before(when)
            predicted = self._strategy.suggestion_at(state, point, now=when)
            plan = planned(predicted, 0, known, predicts=True)
        else:
            plan = unpredicted(self.state, point, when, known)
        return self._take(plan, value, when, noise)

    @in_turn
    def discard(self, suggestion: int | NumberedSuggestion | None = None) -> None:
        """Give up a suggestion whose answer will never come.

        Args:
            suggestion: It or its number; the only open one unless given.

        Raises:
            InputDataError: If it is not open.
        """
        del self._open.rows[self._meant(suggestion).number]

    # ---------------------------------------------------------------- asking an expert

    @in_turn
    def consult(self) -> NumberedConsultation | None:
        """What an expert is to measure again now; to be called after :meth:`tell`.

        The schedule counts measurements as they are told, late ones when they come in. Those of a
        table, or that nobody suggested, count as well, but nothing is asked about the time before.

        Returns:
            The points and the time, open until :meth:`absorb` takes answers to it or to a newer
            one, and at most 16 of them; the same again until there is a newer measurement. None
            where no consultation is due, or its answers are in already, and for strategies that
            consult no expert.
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

    @in_turn
    def absorb(
        self,
        consultation: int | NumberedConsultation,
        y: Numbers | Sequence[float | None] | None = None,
        *,
        ok: bool | Sequence[bool] | Tensor | None = None,
    ) -> int:
        """Take in an expert's answers, which replace those before and older measurements.

        Args:
            consultation: What was asked, or its number.
            y: The answers, `Q`; where ``ok`` is False not looked at.
            ok: Which points were answered, `Q`, or one bool for all; all unless given.

        Returns:
            How many points were left without answer. Where that is all of them an
            ``ExpertWarning`` says so, and the strategy goes on with the data it has.

        Raises:
            InputDataError: If there are not as many answers as points, an answer is NaN or
                infinite, or the consultation is not open: absorbed, or overtaken by a newer one.
                The loop is not changed.
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

    def _meant(self, suggestion: int | NumberedSuggestion | None) -> Planned:
        if suggestion is None:
            return self._open.only()
        return self._open.find(suggestion, self._replay.answers)

    def _take(self, plan: Planned, y: float | None, time: float, noise: float | None) -> bool:
        variance = "give the variance of this measurement."
        answer = extended(
            Answer,
            plan,
            y=y,
            time=time,
            noise=None if noise is None else as_number("noise", noise, variance),
            arrival=len(self._replay.answers),
        )
        return self._replay.add(answer, late=2 * self.pending - 1)


def _in_order(*given: Any) -> list[Any]:
    """What was given of strategy, domain, X and y, of which the strategy may have been left out.

    Raises:
        ValueError: If another is missing, or the strategy is not the first.
    """
    there = [one for one in given if one is not None]
    wanted = len(given) if there and isinstance(there[0], Strategy) else len(given) - 1
    if len(there) == wanted and not any(isinstance(one, Strategy) for one in there[1:]):
        return there
    came = ", ".join(type(one).__name__ for one in given if one is not None)
    raise ValueError(
        f"Loop.from_table: {came} came, but it takes a strategy, a domain, X and y, in this order; "
        "or a domain, X and y, for adaptive_gp_ucb()."
    )
