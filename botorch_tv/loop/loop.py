"""An optimisation loop that can be saved to a file and resumed from it."""

from __future__ import annotations

import base64
import functools
import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast, overload

import torch
from botorch.exceptions import InputDataError
from botorch.posteriors import GPyTorchPosterior
from torch import Tensor

from botorch_tv.gp.mixture.posterior import bank_prior
from botorch_tv.hints import hinted
from botorch_tv.identity import Description, describe
from botorch_tv.loop.clock import LoopClock, Time, Units, When
from botorch_tv.loop.file import (
    COPY,
    DTYPES,
    as_domain,
    check_rows,
    domain_data,
    domain_from,
    read_loop,
    refused,
    require_same,
    version_of,
    write_loop,
)
from botorch_tv.loop.input import (
    Condition,
    Numbers,
    Points,
    as_place,
    as_places,
    as_replies,
    context_row,
    in_order,
    parameters_of,
    with_context,
)
from botorch_tv.loop.log import (
    Best,
    Fixed,
    Measurement,
    MeasurementLog,
    OpenBox,
    Place,
    Restraints,
    Values,
    like,
)
from botorch_tv.loop.monitor import Monitored
from botorch_tv.loop.record import MOST_OPEN, SETTINGS, Record, identified
from botorch_tv.loop.table import (
    FAILS_EVERYWHERE,
    UNSUPPORTED,
    LastAnswer,
    NumberedConsultation,
    NumberedSuggestion,
    ParetoSetting,
    SupersededMeasurement,
    Table,
    data_frame,
    limits_text,
    numbered,
    numbered_consultation,
    rows_from,
    summary,
    table,
)
from botorch_tv.loop.words import (
    Texts,
    as_values,
    objective_of,
    outcomes_of,
    problem_data,
    stated,
    strategy_from,
)
from botorch_tv.notebook import page
from botorch_tv.strategies.box import Bounds, Box, holding
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.feasible import Cost
from botorch_tv.strategies.named import Parameters, moved
from botorch_tv.strategies.outcomes import Outcomes
from botorch_tv.strategies.parameters import Choice
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import ExpertWarning, State
from botorch_tv.validation import counted, noted, real, require, require_integer, shown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRADE_OFFS = 5
"""Number of trade-offs in :meth:`Loop.describe`."""
MOST_ADVISED = 50
"""Largest number of past recommendations in a plot."""
NAMED = 3.0
"""Number of standard deviations from its prediction beyond which :meth:`Loop.describe` names a
reading."""
NEAR = 0.1
"""A suggestion is near a reading if no coordinate differs by more than this share of its range."""
Observed = float | Tensor | Mapping[str, float] | None
"""Type of a measurement as users give it."""
Method = TypeVar("Method", bound=Callable[..., Any])

NEWEST = 5
"""Number of measurements that a notebook shows."""


class LoopLock:
    """A reentrant lock for threads that share a loop; copies and pickles of it are unlocked."""

    def __init__(self) -> None:
        self.lock = RLock()

    def __reduce__(self) -> tuple[type[LoopLock], tuple[()]]:
        return LoopLock, ()


def locked(method: Method) -> Method:
    """Wrap a method of a loop: its calls hold the loop's lock, and refuse unknown arguments."""
    return hinted(method, lambda loop: loop._lock.lock)


@hinted
class Loop(Monitored):
    """An optimisation in progress, which suggests where to measure and stores the results.

    A loop makes the same choices as ``strategy.ask`` and ``strategy.tell`` for one trial. In
    addition, several suggestions may be open at once, and answers may arrive in any order, late, or
    never. :meth:`save` and :meth:`load` resume a loop exactly where it stopped.

    **Several suggestions at once.** While suggestions are open, the next suggestion is chosen as if
    each open suggestion had been answered with its predicted mean (GP-BUCB, Desautels et al.,
    2014). The prediction that is printed with a suggestion uses only real answers.

    **Failures.** ``tell(ok=False)`` reports no value of the objective, but lowers the probability
    that measurements nearby succeed; see :mod:`botorch_tv.strategies.feasible`. A point is not
    suggested if its probability of success is less than half of the highest probability of success
    in the domain. A point that is more likely to fail than to succeed is not recommended.

    **Late answers.** If the time of an answer is earlier than the time of the newest answer, the
    loop inserts the answer at its time, and replays all answers with later times. A replay of
    fewer than 2 x ``pending`` answers is fast.

    **Triggers.** An event trigger compares an answer with the prediction that was made for the
    suggestion. A measurement at a point that was not suggested is compared with the prediction from
    all measurements with earlier times. If the model is reset after a prediction was made, the
    prediction is replaced by a prediction from the data that remain after the reset.

    **Corrections.** :meth:`amend` and :meth:`remove` take the number of a measurement. A suggested
    measurement has the number of its suggestion. Measurements that were not suggested have the
    numbers -1, -2, ... in order of arrival. After a correction, the loop continues as if the wrong
    reading had never been made. A file that was changed by hand is loaded with a warning, as if its
    rows had been amended.

    **Times** are all numbers, all datetimes with a time zone, or all datetimes without one.

    **Experts.** After ``tell``, :meth:`consult` returns the points that an expert should measure
    again now, and :meth:`absorb` takes some or all of the answers. The expert's answers describe
    the objective at the time of the newest measurement before the consultation. The expert's
    answers replace all earlier measurements, including earlier measurements that arrive late.

    Args:
        first: The domain, or the strategy if ``second`` is the domain.
        second: The domain, if ``first`` is the strategy.
        strategy: Any strategy, by default :func:`~botorch_tv.strategies.adaptive_gp_ucb`. With a
            strategy of :mod:`botorch_tv.experts` the loop consults an expert.
        domain: A :class:`Box` or :class:`Grid`, or the bounds of a box. With named parameters,
            points are dicts in the units of the parameters.
        pending: Maximum number of open suggestions; may be changed later.
        seed: Seed of strategies that draw random numbers, or that sample points for an expert.
        unit: Unit of time if times are datetimes: ``"seconds"``, ``"minutes"``, ``"hours"``,
            ``"days"`` or ``"weeks"``; rates of forgetting refer to this unit. The default is hours.
        maximize: False to minimise with the default strategy; any other strategy has its own
            ``maximize``.
        objective: What to maximise, as text, if outcomes have names: ``"yield"``, ``"-cost"`` to
            minimise, ``"yield - 0.2 * energy"``, or several objectives, ``["yield", "-energy"]``.
            :meth:`tell` then takes a dict, ``{"yield": 81.0, "energy": 4.7}``.
        constraints: Limits on outcomes or on named parameters, as text: ``"pressure <= 5"``,
            ``["pressure <= 5", "temperature + 300 * flow <= 1000"]``. Limits on parameters are kept
            exactly. Limits on outcomes are kept with a probability of at least ``confidence`` if
            there is such a setting; see :class:`~botorch_tv.strategies.Outcomes`.
        confidence: Probability of keeping all limits on outcomes above which a setting may be
            suggested; 0.5 by default, where it is far higher at most suggestions, and 0.9 with
            ``max_step``. For a recommendation it is at least 0.9, if any setting has that.
        safe: Probability with which every measurement must keep the limits on outcomes, such as
            0.99; it replaces ``confidence``. Needs ``start``, or measurements that kept them. If no
            setting is safe enough, the likeliest is suggested, with a warning, and the
            suggestion's ``safe`` is False.
        start: The first setting to suggest, as for :meth:`enqueue`.
        max_step: The largest difference between a suggestion and the newest setting, such as
            ``{"temperature": 20}``, in the units of the parameters; without names, a number for
            each coordinate. Points of :meth:`enqueue` are not restricted.
        move_cost: The cost of a move from the newest setting, in the units of y: a number per range
            moved, ``{"temperature": 3}``, or a number for all parameters, or a function of two
            settings, from and to. It is subtracted from the bounds that choices and recommendations
            maximise; see :class:`~botorch_tv.strategies.feasible.MoveCost`. Points of
            :meth:`enqueue`, and first points without predictions, ignore it.
        lost_after: A suggestion is lost if it is still open when more than this number of answers
            have arrived since. A lost suggestion may still be answered, but no longer counts: not
            for ``pending``, and not in later choices. The default is twice the larger of
            ``pending`` and, among the 50 newest measurements, the largest number of answers that
            arrived between a suggestion and its own answer.
        dtype: Dtype of all computations, float64 or float32.
        device: Device of all computations; the device of the domain by default.

    Raises:
        ValueError: If ``pending`` or ``lost_after`` is below 1, if ``unit`` is unknown, if
            ``maximize`` contradicts the strategy, or if the strategy does not fit the domain.
        InputDataError: As for :meth:`Strategy.init`.

    Example:
        >>> loop = Loop({"temperature": (20, 80)}, unit="hours")  # by the wall clock
        >>> for _ in range(100):
        ...     suggestion = loop.open[0] if loop.open else loop.ask()
        ...     loop.save("loop.json")  # before the measurement: a stop loses no suggestion
        ...     loop.tell(measure(suggestion.point))
        ...     loop.save("loop.json")
        >>> loop.recommend()
        {'temperature': 56.3}
        >>> loop = Loop.load("loop.json")  # after a power failure; pass a strategy if you chose it
    """

    def __init__(
        self,
        first: Strategy | Domain | Bounds | None = None,
        second: Domain | Bounds | None = None,
        /,
        *,
        strategy: Strategy | None = None,
        domain: Domain | Bounds | None = None,
        pending: int = 1,
        seed: int = 0,
        unit: str | None = None,
        maximize: bool | None = None,
        objective: Texts = None,
        constraints: Texts = None,
        confidence: float | None = None,
        safe: float | None = None,
        start: Points = None,
        max_step: Mapping[str, float] | Sequence[float] | None = None,
        move_cost: Cost | None = None,
        lost_after: int | None = None,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> None:
        seed = require_integer("Loop: seed", seed, 0, "give a whole number.")
        strategy, domain = in_order("Loop", (first, second), strategy=strategy, domain=domain)
        if domain is None:
            raise ValueError("Loop: no domain; give ranges, Loop({'temperature': (20, 80)}).")
        words = maximize, objective, constraints, confidence
        restraints = Restraints(safe, max_step, move_cost)
        strategy, domain = stated(strategy, as_domain(domain), *words, restraints)
        require(
            maximize in (None, strategy.maximize),
            f"Loop: maximize is {shown(maximize)}, but the strategy has maximize="
            f"{strategy.maximize}; pass maximize to the strategy alone.",
        )
        require(
            strategy.remakes_suggestions,
            f"Loop: {strategy!r} needs the member that made each suggestion, but a loop does "
            "not store it; use ask() and tell() of the strategy, or a Loop of a single member.",
        )
        if lost_after is not None:
            lost_after = require_integer("Loop: lost_after", lost_after, 1, "give a whole number.")
        begun = strategy.init(domain, dtype=dtype, device=device)
        names = outcomes_of(strategy)
        self._lock = LoopLock()
        outside = isinstance(begun.domain, OpenBox)
        self._units = Units(parameters_of(begun.domain), LoopClock(unit), dtype, names, outside)
        self._strategy = strategy
        log = MeasurementLog.begin(strategy, begun)
        self._record = Record(log, 1, lost_after, max_step, move_cost)
        self.pending = pending
        self._saved: tuple[object, ...] | None = None  # version of the file last read or written
        # A generator on the CPU gives the same numbers for any device.
        self._generator = torch.Generator().manual_seed(seed)
        several = len(strategy.objectives) if isinstance(strategy, Outcomes) else 1
        restraints.checked(begun.domain, several)
        if start is not None:
            self.enqueue(start)

    @classmethod
    @hinted
    def from_table(
        cls,
        *given: Any,
        strategy: Strategy | None = None,
        domain: Domain | Bounds | None = None,
        X: Points = None,
        y: Numbers | None = None,
        time: Numbers | Sequence[Time] | None = None,
        noise: Numbers | None = None,
        context: Any = None,
        ok: Sequence[bool] | Tensor | None = None,
        pending: int = 1,
        seed: int = 0,
        unit: str | None = None,
        maximize: bool | None = None,
        objective: Texts = None,
        constraints: Texts = None,
        confidence: float | None = None,
        safe: float | None = None,
        start: Points = None,
        max_step: Mapping[str, float] | Sequence[float] | None = None,
        move_cost: Cost | None = None,
        lost_after: int | None = None,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> Loop:
        """Make a loop that starts from earlier measurements.

        Args:
            given: Strategy, domain, X and y in this order, unless passed by name. The strategy is
                optional, as in ``Loop.from_table(domain, X, y)``.
            strategy: As for :class:`Loop`.
            domain: As for :class:`Loop`.
            X: Measured points, `n x d`; a list of dicts or a DataFrame if parameters are named. If
                y is not given, a DataFrame in the format of :meth:`table`: columns for the point,
                for the context, and for y or each outcome (NaN if it is missing), and optional
                columns time, ok and noise. Where noise is NaN, the noise variance of the strategy
                applies.
            y: Observations, `n`, or a list of dicts or a DataFrame of named outcomes; ignored where
                ``ok`` is False.
            time: Times of the observations, `n`, in any order, numbers or datetimes; 1, 2, ..., n
                by default.
            noise: Noise variance of each measurement, `n`, or a list of dicts for named outcomes;
                by default the noise variance of the strategy.
            context: Context of each measurement, `n x c`, or a list of dicts or a DataFrame for
                named contexts.
            ok: False where a measurement failed, `n`; by default, all measurements succeeded.
            pending: As for :class:`Loop`, and so are all arguments that follow.
            seed: As for :class:`Loop`.
            unit: As for :class:`Loop`.
            maximize: As for :class:`Loop`.
            objective: As for :class:`Loop`.
            constraints: As for :class:`Loop`.
            confidence: As for :class:`Loop`.
            safe: As for :class:`Loop`.
            start: As for :class:`Loop`.
            max_step: As for :class:`Loop`.
            move_cost: As for :class:`Loop`.
            lost_after: As for :class:`Loop`.
            dtype: As for :class:`Loop`.
            device: As for :class:`Loop`.

        Raises:
            InputDataError: If the columns do not match each other or the domain, if a value is not
                finite (drop rows without a measurement, or pass ok=False), or if pandas columns
                have different row labels.
            TypeError: If there is no argument of a given name.
            ValueError: If the domain, X or y is missing, or as for :class:`Loop`.
        """
        strategy, domain, X, y = in_order(
            "Loop.from_table", given, strategy=strategy, domain=domain, X=X, y=y
        )
        words = inspect.signature(Loop).parameters
        loop = cls(**{name: value for name, value in locals().items() if name in words})
        columns = {"X": X, "y": y, "time": time, "noise": noise, "context": context, "ok": ok}
        for row, arguments in rows_from(columns, loop.state, loop._begun, loop._units.outcomes):
            with noted(f"In row {row} of the table."):
                loop.observe(**arguments)
        return loop

    # ---------------------------------------------------------------- asking and telling

    @overload
    def ask(
        self, *, now: When = ..., context: Condition = ..., fixed: Fixed = ...
    ) -> NumberedSuggestion: ...

    @overload
    def ask(
        self, *, n: int, now: When = ..., context: Condition = ..., fixed: Fixed = ...
    ) -> list[NumberedSuggestion]: ...

    @locked
    def ask(
        self,
        *,
        now: When = None,
        context: Condition = None,
        fixed: Fixed = None,
        n: int | None = None,
    ) -> NumberedSuggestion | list[NumberedSuggestion]:
        """Choose where to measure next.

        Args:
            now: Time of the measurement, no earlier than the newest measurement. If times are
                datetimes, the default is the present time of this computer. If times are numbers,
                the default is the newest time plus 1 or, with the adaptive strategy, the newest
                time plus the typical time between measurements.
            context: What the environment gives: a value for each :class:`Context`,
                ``{"outside": 12.5}``, or `c` numbers for a box with ``context_dim`` c. By default
                the newest measured context; before any, the middle of the ranges of named contexts.
                If it is measured only later, pass it to :meth:`tell`.
            fixed: Values of named parameters that are held for this choice, such as
                ``{"rate": 0.2}``. Points of :meth:`enqueue` that differ from ``fixed`` stay in the
                queue.
            n: Number of suggestions to make at once; if ``pending`` is below n, it becomes n.

        Returns:
            The suggestion, or a list of n suggestions if n is given. A suggestion stays open until
            :meth:`tell` or :meth:`discard`.

        Raises:
            InputDataError: If the number of open suggestions would exceed ``pending``, if ``now``
                lies before the newest measurement, or if the context or ``fixed`` does not match
                the domain. The loop is not changed.
            ValueError: If n is below 1.
        """
        count = 1 if n is None else require_integer("ask: n", n, 1, "give a number of suggestions.")
        record = self._record
        pending, waiting = max(record.pending, count), record.waiting
        if len(waiting) + count > pending:
            raise InputDataError(
                f"pending is {record.pending}, and these suggestions are open: "
                f"{self._units.listed(waiting)}; tell or discard a suggestion by its number, or "
                f"set pending to {len(waiting) + count}."
            )
        present, row = self._present(now), self._context(context)
        holding(self.state, fixed)  # raises for wrong names and values, before anything changes
        self._strategy.warn_of_absence(self.state, stacklevel=4)
        for _ in range(count):
            record = record.asking(present, row, fixed, self._units, self._generator)
        self._record = record._replace(pending=pending)
        made = self.open[-count:]
        return made[0] if n is None else made

    @locked
    def tell(
        self,
        y: Observed = None,
        *,
        suggestion: int | NumberedSuggestion | None = None,
        at: Points = None,
        time: When = None,
        noise: Observed = None,
        context: Condition = None,
        ok: bool = True,
    ) -> None:
        """Add the answer to a suggestion.

        Afterwards, ``loop.last.reset`` states whether the answer triggered a reset of the model.

        Args:
            y: The observation, a scalar; with named outcomes a dict, from which outcomes that were
                not measured are omitted. Ignored if ``ok`` is False.
            suggestion: The answered suggestion or its number; may be omitted if only one suggestion
                is open and not lost.
            at: Where the measurement was made, if not at the suggested point: the parameters that
                were set to other values, such as ``{"temperature": 61.3}``, or a whole point. Such
                a measurement has no prediction in :meth:`table`.
            time: Time of the measurement; the suggestion's time by default. The time may be earlier
                than the times of previous answers.
            noise: Noise variance of this measurement, with named outcomes a dict; by default the
                noise variance of the strategy, which the adaptive strategy estimates.
            context: The measured context, or the named contexts that differ from the suggestion's.
            ok: False if the measurement failed.

        Raises:
            InputDataError: If the suggestion is not open, if ``at`` lies outside the domain, if a
                number is not finite, or if ``ok`` is neither True nor False. The loop is not
                changed.
        """
        row = self._meant(suggestion)
        if at is not None or context is not None:
            if isinstance(context, Mapping) and self._units.contexts:
                values = cast(dict[str, Any], self._units.point(row.point))
                context = {name: values[name] for name in self._units.contexts} | dict(context)
            other = None if context is None else context_row(self.state, context)
            point, arm = self._units.moved(row.point, at, self.state, other)
            if point != row.point:
                row = replace(row, point=point, arm=arm, predicted=None)
        value = as_values(self._strategy, y, ok)
        when = row.planned_for if time is None else self._number("time", time)
        self._add(row, value, when, noise)

    @locked
    def observe(
        self,
        X: Points,
        y: Observed = None,
        *,
        time: When = None,
        noise: Observed = None,
        context: Condition = None,
        ok: bool = True,
    ) -> None:
        """Add a measurement that was not suggested; its number is the next of -1, -2, ...

        Args:
            X: The point: `d` numbers, or a dict of named parameters. If parameters are named, a
                tensor is a point of the unit cube, like ``suggestion.X``.
            y: The observation, a scalar; ignored if ``ok`` is False.
            time: Time of the measurement; the default is chosen as for ``now`` in :meth:`ask`. A
                time before the newest measurement is allowed.
            noise: Noise variance of this measurement, with named outcomes a dict; by default the
                noise variance of the strategy, which the adaptive strategy estimates.
            context: The measured context, as in :meth:`ask`.
            ok: False if the measurement failed.

        Raises:
            InputDataError: If the point lies outside the domain or a number is not finite. The loop
                is not changed.
        """
        state = self.state
        X = with_context(as_place(X, state), context_row(state, context))
        place = self._units.located(X, state)
        value = as_values(self._strategy, y, ok)
        time = self._begun(None).now() if time is None else time
        time = self._record.log.later(state) if time is None else time
        when = float(state.time + self._strategy.step(state))
        when = when if time is None else self._number("time", time)
        self._add(self._record.unsuggested(*place, when), value, when, noise)

    @locked
    def enqueue(self, point: Points) -> None:
        """Make :meth:`ask` return a point of your own next, with its prediction.

        Several points are returned in order. The queue is saved with the loop.

        Args:
            point: The point, as in :meth:`observe`.

        Raises:
            InputDataError: If the point lies outside the domain, or violates a limit on parameters.
        """
        X = as_place(point, self.state)
        place, _ = self._units.located(X, self.state)
        if isinstance(self.domain, Box):
            self.domain.require_allowed(X)
        self._record = self._record._replace(queue=(*self._record.queue, place))

    @locked
    def discard(self, suggestion: int | NumberedSuggestion | None = None) -> None:
        """Drop a suggestion that will never be answered.

        Args:
            suggestion: The suggestion or its number; may be omitted if only one suggestion is open.

        Raises:
            InputDataError: If the suggestion is not open.
        """
        self._record = self._record.discarded(self._meant(suggestion).number)

    @locked
    def amend(
        self, number: int, y: Observed = None, *, ok: bool | None = None, time: When = None
    ) -> None:
        """Correct a measurement.

        The loop continues as if the wrong reading had never been made: later answers are replayed,
        and event triggers compare them with predictions from the corrected data. The wrong reading
        stays in the file and in ``superseded``.

        Args:
            number: Number of the answered suggestion, or -1, -2, ... for a measurement that was not
                suggested; see :meth:`table`.
            y: The corrected observation, a scalar, or a dict of the outcomes to correct; by default
                the observation stays as it is. A failed measurement that is given a value counts as
                a success.
            ok: False if the measurement failed.
            time: The corrected time; by default the time stays as it is.

        Raises:
            InputDataError: If no measurement has this number, if the arguments change nothing, if
                ``y`` is missing although ``ok`` is True, or if a number is not finite. The loop is
                not changed.
        """
        wrong = self._answered(number)
        if isinstance(y, Mapping) and isinstance(wrong.y, tuple):
            y = self._units.measured(wrong.y) | dict(y)
        unchanged = ok is None and y is None
        value = wrong.y if unchanged else as_values(self._strategy, y, True if ok is None else ok)
        when = wrong.time if time is None else self._number("time", time)
        right = replace(wrong, y=value, time=when)
        if right == wrong:
            raise InputDataError(
                f"measurement {number} is {'failed' if wrong.y is None else wrong.y} already; give "
                "another y or time to amend it, or remove it."
            )
        self._record = self._record.corrected(wrong, right)

    @locked
    def remove(self, number: int) -> None:
        """Remove a measurement, as if it had never been made; see :meth:`amend`.

        The number of a removed measurement is not used again.

        Args:
            number: As for :meth:`amend`.

        Raises:
            InputDataError: If there is no measurement with this number.
        """
        self._record = self._record.corrected(self._answered(number), None)

    # ---------------------------------------------------------------- asking an expert

    @locked
    def consult(self) -> NumberedConsultation | None:
        """The points that an expert should measure again now; call this method after :meth:`tell`.

        The strategy schedules consultations by the number of measurements that have arrived,
        including late measurements and measurements that were not suggested. The expert should
        measure all points at the newest time.

        Returns:
            The consultation; until there is a newer measurement, repeated calls return the same
            object. None if no consultation is due, if it has been answered, or if the strategy has
            no expert. A consultation stays open until :meth:`absorb` takes answers to this
            consultation or to a newer consultation. At most 16 consultations are open.
        """
        record, state = self._record, self.state
        newest = record.consultations.get(record.consulted)
        if newest is None or record.log.place_of(newest) < state.rounds:
            if state.expert is not None and state.expert.round == state.rounds:
                return None
            asked = self._strategy.consult(state, generator=self._generator)
            if asked is None or not bool(asked.mask.any()):
                return None
            asked = asked._replace(X=self._units.rounded(asked.X))
            self._record = record = record.consulting(asked)
        return numbered_consultation(record.consultations[record.consulted], state, self._units)

    @locked
    def absorb(
        self,
        consultation: int | NumberedConsultation,
        y: Numbers | Sequence[float | None] | None = None,
        *,
        ok: bool | Sequence[bool] | Tensor | None = None,
    ) -> int:
        """Add an expert's answers, which replace all earlier measurements.

        Args:
            consultation: The consultation, or its number.
            y: The answers, `Q`; ignored where ``ok`` is False.
            ok: For each point, whether it was answered, `Q`; or a scalar for all points. True by
                default.

        Returns:
            The number of points without an answer. If no point has an answer, an ``ExpertWarning``
            is issued and the strategy continues with the present data.

        Raises:
            InputDataError: If the number of answers differs from the number of points, if an answer
                is NaN or infinite, or if the consultation is not open; see :meth:`consult`. The
                loop is not changed.
        """
        asked = identified(self._record.consultations, consultation, "points")
        if asked is None:
            number = getattr(consultation, "number", consultation)
            raise InputDataError(
                f"consultation {shown(number)} is not open; open consultations: "
                f"{list(self._record.consultations)}. Absorb the answers to each consultation "
                f"once, in order of time; at most {MOST_OPEN} consultations stay open."
            )
        answers = as_replies(y, ok, len(asked.points))
        self._record = self._record.absorbed(replace(asked, y=answers))
        if answers.count(None) == len(answers):
            warnings.warn(
                f"the expert answered no point of consultation {asked.number}; the loop continues "
                "with the present data.",
                ExpertWarning,
                stacklevel=3,
            )
        return answers.count(None)

    # ---------------------------------------------------------------- inspection

    @locked
    def recommend(self, *, now: When = None, context: Condition = None, fixed: Fixed = None) -> Any:
        """The point at which the lower bound, mean - sd / 2, is highest.

        If the objective is minimised, the result is the point at which the upper bound, mean + sd /
        2, is lowest. Points more likely to fail than to succeed are excluded. Until the adaptive
        strategy makes predictions, the result is the best point measured. The adaptive strategy
        ignores the newest measurement while this measurement is more than 2.5 standard deviations
        better than predicted. A warning is issued if the posterior variance at the point exceeds
        half the prior variance.

        With limits on outcomes, the result is the best point among those that keep all limits now
        with a probability of at least ``confidence`` and 0.9; if there are none, it is the point
        that most probably keeps them, and a warning is issued. With several objectives, the result
        is a balanced trade-off; see :meth:`pareto`.

        Args:
            now: As in :meth:`ask`.
            context: As in :meth:`ask`.
            fixed: Values of named parameters that are held, as in :meth:`ask`.

        Returns:
            The point as a list of numbers, or as a dict of named parameters in the parameters'
            units.

        Raises:
            InputDataError: If every point is more likely to fail than to succeed.
        """
        best = self._best(now, context, fixed)
        if best.fails:
            raise InputDataError(f"{FAILS_EVERYWHERE} Measure more before you rely on a setting.")
        if best.breaks or any(map(math.isnan, best.keeps)):
            warnings.warn(limits_text(best, self._strategy), stacklevel=3)
        if not best.supported:
            warnings.warn(UNSUPPORTED, stacklevel=3)
        return self._units.point(best.X.tolist()[: self.domain.dim])

    @locked
    def pareto(
        self, *, now: When = None, context: Condition = None, points: int = 10
    ) -> list[ParetoSetting]:
        """Settings that trade several objectives off: none is predicted to be worse in all of them.

        With limits on outcomes, each setting keeps them now with a probability of at least
        ``confidence``, if any setting does; :meth:`recommend` is more careful.

        Args:
            now: As in :meth:`ask`.
            context: As in :meth:`ask`.
            points: Largest number of trade-offs.

        Returns:
            The settings, with the posterior mean and standard deviation of each objective, and the
            probability of keeping the limits.

        Raises:
            InputDataError: If the loop does not have several objectives.
        """
        strategy, present = self._strategy, self._present(now)
        if not isinstance(strategy, Outcomes) or len(strategy.objectives) < 2:
            raise InputDataError(
                "pareto() needs several objectives, Loop(..., objective=['yield', '-energy']); "
                "recommend() returns the best setting of one."
            )
        found = self._record.log.pareto(present, self._context(context), points)
        point, d = self._units.point, self.domain.dim
        return [ParetoSetting(point(X[:d].tolist()), mean, sd, p) for X, mean, sd, p in found]

    @locked
    def limit(self, name: str, bound: float) -> None:
        """Move the bound of a limit on outcomes; all measurements stay in use.

        Open suggestions, which were chosen for the old bound, lose their probability of keeping it.

        Args:
            name: The outcome or the formula that is limited, as in ``constraints``.
            bound: The new bound.

        Raises:
            ValueError: If not exactly one limit has this name. The loop is not changed.
        """
        if not isinstance(self._strategy, Outcomes):
            raise ValueError(
                "limit() moves a limit on outcomes, but this loop has none; give constraints=."
            )
        self._strategy = made = self._strategy.with_bound(name, bound)
        log = self._record.log._replace(strategy=made, quiet=made.undisturbed())
        opened = {key: replace(row, keeps=None) for key, row in self._record.open.items()}
        self._record = self._record._replace(log=log, open=opened)
        self.__dict__.pop("_description", None)

    @locked
    def with_space(self, space: Mapping[str, Any], *, had: Mapping[str, Any] | None = None) -> Self:
        """A loop with other parameters or contexts, and with all measurements of this loop.

        Ranges may be widened or narrowed, values added to a :class:`Choice`, parameters added, and
        parameters removed that never varied. Measurements outside the new ranges stay in use.
        Limits on parameters stay. Open suggestions and queued points are dropped with a warning.

        Args:
            space: The new parameters and contexts by name, as for :class:`Loop`.
            had: The value that each new parameter had in all measurements, ``{"stirring": 0}``.

        Returns:
            The new loop; this loop is not changed.

        Raises:
            InputDataError: If parameters have no names, if a measurement has no place in the new
                space, or if ``had`` does not name the new parameters.
            ValueError: If a limit, ``max_step`` or ``move_cost`` names a removed parameter.
        """
        old, record, domain = self.parameters, self._record, self.domain
        named = old is not None and domain.columns - domain.dim == old.context_columns
        if old is None or not named or self._strategy.consults or not isinstance(domain, Box):
            raise InputDataError(
                "with_space() needs named parameters and contexts, and a strategy without an "
                "expert; make a new loop by Loop.from_table."
            )
        settings: dict[str, Any] = {name: getattr(record, name) for name in SETTINGS}
        settings |= {"dtype": like(self.state).dtype, "device": self.state.time.device}
        box = OpenBox(space, constraints=domain.constraints)
        made = type(self)(self._strategy, box, **settings)
        made._units.clock = self._units.clock
        made._generator.set_state(self._generator.get_state())
        rows = [row.point for row in (*record.log.answers, *record.superseded)]
        places = list[list[float]]()
        if rows:
            X = torch.tensor(rows, dtype=torch.float64, device="cpu")
            places = moved(X, old, Parameters(space), had).tolist()
        made._record = record.with_points(made._record.log, dict(zip(rows, map(tuple, places))))
        if dropped := len(record.open) + len(record.queue):
            warnings.warn(
                f"the space has changed, so open suggestions and queued points, {dropped} in all, "
                "were dropped; ask again.",
                stacklevel=3,
            )
        return made

    @locked
    def posterior(
        self, X: Points, *, now: When = None, context: Condition = None, outcome: str | None = None
    ) -> GPyTorchPosterior:
        """The posterior of the objective at given points, without observation noise.

        Open suggestions do not affect the posterior.

        Args:
            X: The points, `q x d`. If parameters are named, the points may be a dict, a list of
                dicts, a DataFrame, or a tensor of points in the unit cube.
            now: As in :meth:`ask`.
            context: The context of all points, `c`.
            outcome: With named outcomes, the objective or the limited formula to predict; by
                default the first objective.

        Returns:
            A joint posterior over the q points.

        Raises:
            ValueError: If no model predicts ``outcome``.
        """
        strategy, state = self._strategy, self.state
        points = with_context(as_places("X", X, state), self._context(context))
        if outcome is not None:
            if not isinstance(strategy, Outcomes):
                raise ValueError(f"outcome is {outcome!r}, but outcomes have no names; omit it.")
            strategy, state = strategy.member(state, outcome)
        return strategy.posterior(state, points, now=self._present(now))

    predict = posterior

    @locked
    def table(self) -> pd.DataFrame:
        """All measurements in order of time, as a DataFrame with values in the user's units.

        Returns:
            A DataFrame with a row per measurement. The column ``number`` contains the number of the
            suggestion, or -1, -2, ... in order of arrival if the measurement was not suggested.
            Each parameter has a column, called ``x0, x1, ...`` if parameters have no names. If a
            parameter has the name of another column, such as ``time``, the column of the parameter
            is called ``time (parameter)``. The columns of the context have the names of the
            contexts, or ``context0, ...``; ``time`` contains the time. The column ``y`` contains
            the observation, NaN if the measurement failed; ``ok`` is False if it failed. The column
            ``noise`` contains the noise variance, or a dict of variances if outcomes have names,
            NaN if the strategy estimates the noise. The
            columns ``mean`` and ``sd`` contain the prediction made with the suggestion, NaN if the
            measurement was not suggested. The column ``reset`` states whether the measurement
            triggered a reset. If outcomes have names, the column ``objective`` takes the place of
            ``y``, and each outcome has a column.

        Raises:
            ImportError: If pandas is not installed.
        """
        return data_frame(self._record.log, self._units)

    @locked
    def describe(self, *, now: When = None, context: Condition = None) -> str:
        """A summary as text: the model, the measurements and the best setting.

        With the adaptive strategy, the summary names the newest measurement if this measurement is
        more than 3 standard deviations from its prediction. The posterior of the best setting
        excludes observation noise. With limits, it states how probably the best setting keeps each
        of them now; with several objectives, it lists some trade-offs.

        Args:
            now: As in :meth:`ask`.
            context: As in :meth:`ask`.

        Returns:
            Some lines.

        Raises:
            InputDataError: If ``now`` or ``context`` is invalid; see :meth:`ask`.
        """
        suspect, best = self._suspect_text(now, context), None
        if self._record.log.answers and bool(self._strategy.predicts(self.state)):
            best = self._best(now, context)
        lines = [summary(self._record, self._units, suspect, best)]
        if best and isinstance(self._strategy, Outcomes) and len(self._strategy.objectives) > 1:
            lines += map(repr, self.pareto(now=now, context=context, points=TRADE_OFFS))
        return "\n".join(lines)

    @locked
    def plot(
        self,
        path: str | PathLike[str] | None = None,
        *,
        ax: Axes | None = None,
        now: When = None,
        context: Condition = None,
        ylabel: str = "y",
        replay: bool = False,
    ) -> Figure:
        """Plot observations and choices over time, and slices of the posterior at the present time.

        The upper panel shows each observation, and the mean predicted for it with a band of two
        standard deviations to each side. Below the upper panel, each parameter has one panel, or
        two panels if there are predictions. The first panel shows the chosen values over time. The
        second panel shows a slice of the posterior through the current best point, which is dotted
        in both panels. Open suggestions are circles. Each limit on outcomes has a panel, with its
        bound and the measurements that violate it.

        Args:
            path: Where to write the figure; its extension selects the format.
            ax: Axes for the upper panel. If axes are given, only the upper panel is drawn.
            now: As in :meth:`ask`.
            context: As in :meth:`ask`.
            ylabel: Name of the observations; if outcomes have names, that of the first objective.
            replay: Whether to replay all answers, and to draw what was recommended after them; this
                takes as long as to load the loop.

        Raises:
            ImportError: If matplotlib is not installed.
            InputDataError: If there is no measurement yet.
        """
        log, units = self._record.log, self._units
        if not log.answers:
            raise InputDataError("there are no measurements to draw; observe a measurement first.")
        from botorch_tv.loop.plots import draw_loop

        best, predict, advised = None, None, list[Place]()
        if ax is None and bool(self._strategy.predicts(self.state)):
            present, row = self._present(now), self._context(context)
            best = log.best(present, row, None, self._record.moves).X
            predict = functools.partial(self._strategy.posterior, self.state, now=present)
            if replay:
                advised += log.recommendations(row, MOST_ADVISED)
        waiting = data_frame(log, units, list(self._record.open.values()))
        frames = self.table(), waiting
        own = self._strategy
        limits = own.limits if isinstance(own, Outcomes) else ()
        if isinstance(own, Outcomes) and ylabel == "y":
            ylabel = own.objectives[0].expression.text
        slices = best, predict, advised
        return draw_loop(frames, self.domain, units, *slices, path, ax, ylabel, limits)

    @property
    @locked
    def history(self) -> Table:
        """All measurements in order of time."""
        return table(self._record.log, self._units)

    @property
    @locked
    def superseded(self) -> list[SupersededMeasurement]:
        """Wrong readings, in the order in which they were amended or removed."""
        return [
            SupersededMeasurement(
                row.number,
                self._units.point(row.point[: self.domain.dim]),
                objective_of(self._strategy, row.y),
                self._units.clock.shown(row.time),
                str(row.became),
            )
            for row in self._record.superseded
        ]

    @property
    @locked
    def last(self) -> LastAnswer | None:
        """The newest answer to arrive, and whether it triggered a reset; None before any answer."""
        log = self._record.log
        pairs = zip(log.answers, log.resets)
        newest = max(pairs, key=lambda pair: pair[0].arrival, default=None)
        return None if newest is None else LastAnswer(newest[0].number, newest[1])

    @property
    @locked
    def open(self) -> list[NumberedSuggestion]:
        """Suggestions without an answer, oldest first, including those that are lost."""
        own = self.state, self._units, self._strategy
        return [numbered(row, *own) for row in self._record.open.values()]

    @property
    def pending(self) -> int:
        """Maximum number of open suggestions."""
        return self._record.pending

    @pending.setter
    def pending(self, most: int) -> None:
        fix = "give the number of parallel measurements."
        most = require_integer("Loop: pending", most, 1, fix)
        self._record = self._record._replace(pending=most)

    @property
    def state(self) -> State:
        """The state of the strategy after all answers."""
        return self._record.log.state

    @property
    def strategy(self) -> Strategy:
        """The strategy."""
        return self._strategy

    @property
    def domain(self) -> Domain:
        """The domain."""
        return self.state.domain

    @property
    def parameters(self) -> Parameters | None:
        """The named parameters; None if coordinates have no names."""
        return self._units.parameters

    def __repr__(self) -> str:
        record, units = self._record, self._units
        count = len(record.log.answers)
        when = units.time_text(float(self.state.time))
        newest = f", the newest at time {when}" if count else ""
        waiting = f"; open: {units.listed(record.open)}" if record.open else ""
        if record.consultations:
            waiting += f"; open consultations: {', '.join(map(str, record.consultations))}"
        return f"Loop on {self.domain!r} with {counted(count, 'measurements')}{newest}{waiting}"

    def _repr_html_(self) -> str:
        """For notebooks: the summary and the plot at the time of the newest measurement."""
        if not self._record.log.answers:
            return page(repr(self))
        now = self._units.clock.shown(float(self.state.time))
        return page(
            self.describe(now=now), lambda: self.table().tail(NEWEST), lambda: self.plot(now=now)
        )

    # ---------------------------------------------------------------- files

    @locked
    def save(self, path: str | PathLike[str]) -> None:
        """Write the loop to a JSON file with a line per measurement.

        The file is replaced atomically. The file describes the strategy but does not contain it:
        :meth:`load` needs the strategy again.

        Args:
            path: The file; an existing file is overwritten.

        Raises:
            OSError: If the file cannot be written; an existing file is then unchanged.
            ValueError: If the file cannot describe a part of the strategy or of the domain, if
                ``move_cost`` is a function, or if another process has written the file since this
                loop last loaded or saved it.
        """
        path, record = Path(path), self._record
        require(not callable(record.move_cost), "a file has no functions; give move_cost numbers.")
        saved, present = self._saved, version_of(path)
        require(
            saved is None or present is None or saved[0] != present[0] or saved == present,
            f"{path} has been written since this loop last loaded or saved it, and the new rows "
            "would be lost; load the file and add the missing answers there, or save this "
            "loop under another name.",
        )
        drawn = bytes(self._generator.get_state().tolist())
        content = {
            "strategy": self._description,
            "domain": domain_data(self.domain),
            "dtype": str(like(self.state).dtype).removeprefix("torch."),
            "device": str(self.state.time.device),
            "clock": self._units.clock.data,
            "problem": problem_data(self._strategy),
            **{name: getattr(record, name) for name in SETTINGS},
            "queue": [self._units.point(point) for point in record.queue],
            "asked": record.asked,
            "consulted": record.consulted,
            "generator": base64.b64encode(drawn).decode() if self._draws else None,
            "open": record.open.values(),
            "answers": record.log.answers,
            "consultations": record.consultations.values(),
            "replies": record.log.replies,
            "superseded": record.superseded,
        }
        write_loop(path, content, self._units)
        self._saved = version_of(path)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        strategy: Strategy | None = None,
        domain: Domain | Bounds | None = None,
        *,
        device: torch.device | str | None = None,
        snapshot: bool = False,
    ) -> Self:
        """Load a loop from a file and continue where it stopped.

        All answers are replayed. The loaded loop makes the same choices and consultations as the
        saved loop, up to rounding, which depends on processor and threads. If rows of the file were
        changed, added or deleted by hand, a warning names them, and the loop continues from the
        changed rows.

        With ``snapshot``, loading takes the same time for any number of answers. Loading stores a
        new snapshot of 10 to 100 MB beside the file if the new snapshot covers at least 32 more
        answers than the previous snapshot. A snapshot contains the state after all answers except
        the newest eight. A snapshot is ignored if it is damaged, or if it belongs to other answers,
        another strategy or other versions of libraries.

        Args:
            path: The file.
            strategy: The strategy with which the saved loop was made;
                :func:`~botorch_tv.strategies.adaptive_gp_ucb` by default.
            domain: The domain of the saved loop. By default, the domain is restored from the file
                if it is a :class:`Grid`, or a :class:`Box` with a search of this package; any other
                domain must be given.
            device: Device of all computations; by default the device of the saved loop.
            snapshot: Whether to use and store a snapshot; only with :func:`adaptive_gp_ucb`.

        Raises:
            ValueError: If the file is damaged, if it has another format, or if it was saved with
                another strategy or domain. The error lists every difference.
            OSError: If the file cannot be read.
        """
        path = Path(path)
        version = version_of(path)
        content, stale = read_loop(path)
        with refused(f"{path}: the device cannot be used", "load it with device='cpu'."):
            place = torch.device(content["device"] if device is None else device)
            torch.empty(0, device=place)
        with refused(f"{path}: its strategy or domain is damaged or not supported", COPY):
            strategy = strategy_from(content, strategy)
            made = domain_from(content["domain"], place) if domain is None else as_domain(domain)
        require_same(content["strategy"], describe(strategy, "strategy"), "strategy", path)
        require_same(content["domain"], domain_data(made), "domain", path)
        with refused(f"{path} is damaged, or does not fit its domain", COPY):
            check_rows(content, made)
            settings: dict[str, Any] = {name: content.get(name) for name in SETTINGS}
            loop = cls(strategy, made, **settings, dtype=DTYPES[content["dtype"]], device=place)
            loop._units.clock = LoopClock.of(content["clock"])
            loop._record = loop._record.restored(content, stale, path if snapshot else None)
            for point in content.get("queue", ()):
                loop.enqueue(point)
            drawn = content["generator"]
            require((drawn is not None) == loop._draws, "its random numbers are missing")
            if drawn is not None:
                drawn = bytearray(base64.b64decode(drawn, validate=True))
                loop._generator.set_state(torch.frombuffer(drawn, dtype=torch.uint8))
        loop._saved = version
        return loop

    # ---------------------------------------------------------------- internals

    def _begun(self, first: object) -> LoopClock:
        """The loop's clock; if the loop has no rows yet, the clock starts at the time ``first``."""
        if not self._record.begun:
            clock = self._units.clock
            self._units.clock = clock.begin(clock.now() if first is None else first)
        return self._units.clock

    def _number(self, name: str, time: object) -> float:
        return self._begun(time).number(name, time, "give the time of the measurement.")

    def _present(self, now: When) -> float | None:
        here, newest = self._begun(now).now(), float(self.state.time)
        if now is None:
            return None if here is None else max(self._number("now", here), newest)
        present = self._number("now", now)
        if self._record.log.answers and present < newest:
            when = self._units.time_text
            raise InputDataError(
                f"now is {when(present)}, but the newest measurement was made at {when(newest)}; "
                "give that time or a later time, or observe an old measurement with its time."
            )
        return present

    @property
    def _draws(self) -> bool:
        """Whether the strategy draws random numbers."""
        return self._strategy.draws or self._strategy.consults

    @functools.cached_property
    def _description(self) -> Description:
        """The description of the strategy in files."""
        return describe(self._strategy, "strategy")

    def _context(self, context: Condition) -> Tensor | None:
        """The context of a round, `c`; by default the newest measured context.

        Before the first measurement, it is the middle of the ranges of named contexts.

        Raises:
            InputDataError: As in :func:`context_row`.
        """
        state, d, answers = self.state, self.domain.dim, self._record.log.answers
        if context is None and answers and self.domain.columns > d:
            return like(state).new_tensor(answers[-1].point[d:])
        if context is None and self._units.contexts:
            context = {
                name: axis.choices[0] if isinstance(axis, Choice) else axis.value([0.5])
                for name, axis in self._units.contexts.items()
            }
        return context_row(state, context)

    def _best(self, now: When, context: Condition, fixed: Fixed = None) -> Best:
        row, moves = self._context(context), self._record.moves
        return self._record.log.best(self._present(now), row, fixed, moves)

    def _suspect_text(self, now: When, context: Condition) -> str:
        """A sentence on the newest reading if it is far from its prediction, otherwise empty."""
        record = self._record
        found = record.log.suspect()
        if found is None or abs(found[1]) < NAMED:
            return ""
        answer, better, _ = found
        following = [row.point for row in record.open.values() if row.known > answer.arrival]
        following = following or list(record.queue[:1])
        if not following and not self._draws:
            present, row = self._present(now), self._context(context)
            choice = record.choice(present, row, None, self._generator)
            following = [tuple(choice.X.tolist())]
        prior, at = bank_prior(self.state.data), answer.point
        reach = (NEAR * (prior.upper - prior.lower)).tolist()
        again = any(all(abs(x - y) <= r for x, y, r in zip(p, at, reach)) for p in following)
        return (
            f"Reading {answer.number} lies {abs(better):.2g} sd from its prediction; "
            + "the next suggestion measures near it again; " * again
            + f"if it is wrong: amend {answer.number}."
        )

    def _meant(self, suggestion: int | NumberedSuggestion | None) -> Measurement:
        """The open suggestion with a given number; with None, the only one that is not lost.

        Raises:
            InputDataError: If the suggestion is not open, or if None is given and not exactly 1
                suggestion is open.
        """
        if suggestion is None and len(waiting := self._record.waiting or self._record.open) == 1:
            return next(iter(waiting.values()))
        row = identified(self._record.open, suggestion, "point")
        if row is None:
            raise InputDataError(
                f"suggestion is {'not given' if suggestion is None else shown(suggestion)}, but "
                "the open suggestions are: "
                f"{self._units.listed(self._record.open) or 'none'}; give the number of an open "
                "suggestion, ask for a new one, amend an answer, or observe a point that was not "
                "suggested."
            )
        return row

    def _add(self, row: Measurement, y: Values, time: float, noise: Observed) -> None:
        given = None if noise is None else as_values(self._strategy, noise, what="noise")
        self._record = self._record.answered(row, y, time, given)

    def _answered(self, number: int) -> Measurement:
        """The measurement with a given number.

        Raises:
            InputDataError: If no measurement has this number.
        """
        for answer in self._record.log.answers:
            if answer.number == real(number):
                return answer
        raise InputDataError(
            f"there is no measurement {shown(number)}; give a number from the table: a "
            "suggestion's number or, for a measurement that was not suggested, -1, -2, ..."
        )
