"""Time-varying objectives in Xopt, libEnsemble and Optimas: a generator of gest-api."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch

try:
    from gest_api import Generator
    from gest_api.vocs import (
        VOCS,
        BaseConstraint,
        BaseVariable,
        BoundsConstraint,
        ContextualVariable,
        DiscreteVariable,
        ExploreObjective,
        GreaterThanConstraint,
        MinimizeObjective,
    )
except ImportError as error:
    raise ImportError(
        "botorch_tv.gest needs gest-api, which is not installed or cannot be imported; run "
        "pip install 'botorch-tv[gest]'."
    ) from error

from botorch_tv.loop import Loop
from botorch_tv.loop.input import Points
from botorch_tv.loop.log import OpenBox
from botorch_tv.loop.words import Texts, outcomes_of
from botorch_tv.strategies.expressions import Expression
from botorch_tv.strategies.feasible import Cost
from botorch_tv.strategies.parameters import Choice, Context, Integer
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.validation import plain, real, require

__all__ = ["AdaptiveGenerator"]

CLOCK, ROUNDS = "clock", "rounds"
BEYOND = 0.25
"""How far the range of a context without a domain extends beyond its values, as a share of them."""
RECENT = 20
"""Number of newest contexts that decide how the next context is forecast."""


class AdaptiveGenerator(Generator):  # type: ignore[misc]
    """A generator of the gest-api standard for problems that change with time.

    It runs where the standard is accepted: ``Xopt(generator=...)``, libEnsemble's
    ``GenSpecs(generator=...)``, Optimas' ``ExternalGenerator(ext_gen=...)``. The points are those
    of a :class:`~botorch_tv.Loop`, the attribute ``loop``, which recommends, predicts, plots and
    saves.

    **Points** may be ingested in any order, late, or without having been suggested. A point answers
    the open suggestion with its ``_id`` or, without an ``_id``, with its variables. Values that are
    missing or not finite, as after an error in Xopt or Optimas, were not measured. A point without
    any value failed.

    **VOCS.** A variable of an integer ``dtype`` is an integer. The values of a discrete variable
    are ordered if they are numbers. A contextual variable is a condition that is measured and not
    chosen; suggestions are for its newest value or, if that would have been better so far, for the
    value on a line through its two newest. If its domain is infinite, its range is that of its
    values. Suggestions contain the constants. Observables are not modelled, except those in
    ``constraints``.

    Args:
        vocs: The problem.
        time: Where times come from: ``"clock"``, the clock of this computer when a point is
            ingested; ``"rounds"``, which counts; or the name of the field of the points with their
            times, numbers or datetimes.
        unit: Unit of the clock or of datetimes, as for :class:`~botorch_tv.Loop`, hours by default.
            It must be given for a field of datetimes, which then have a time zone, if points are
            suggested before any is ingested.
        strategy: The strategy that models each outcome, by default
            :func:`~botorch_tv.strategies.adaptive_gp_ucb`.
        constraints: Limits beside those of ``vocs``, such as ``"x1 + x2 <= 1"``, as for
            :class:`~botorch_tv.Loop`.
        confidence: As for :class:`~botorch_tv.Loop`.
        safe: As for :class:`~botorch_tv.Loop`.
        start: As for :class:`~botorch_tv.Loop`.
        max_step: As for :class:`~botorch_tv.Loop`.
        move_cost: As for :class:`~botorch_tv.Loop`.
        seed: As for :class:`~botorch_tv.Loop`.
        device: As for :class:`~botorch_tv.Loop`.

    Raises:
        ValueError: If there is no variable or no objective, if an objective is ``"EXPLORE"``, if a
            variable is an array, or as for :class:`~botorch_tv.Loop`.

    Example:
        >>> vocs = VOCS(variables={"x": [0, 1]}, objectives={"f": "MINIMIZE"})
        >>> generator = AdaptiveGenerator(vocs)
        >>> for _ in range(100):
        ...     (point,) = generator.suggest(1)
        ...     generator.ingest([point | {"f": measure(point["x"])}])
        >>> generator.loop.recommend()
        {'x': 0.31}
    """

    returns_id = True

    def __init__(
        self,
        vocs: VOCS,
        *,
        time: str = CLOCK,
        unit: str | None = None,
        strategy: Strategy | None = None,
        constraints: Texts = None,
        confidence: float | None = None,
        safe: float | None = None,
        start: Points = None,
        max_step: Mapping[str, float] | None = None,
        move_cost: Cost | None = None,
        seed: int = 0,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(vocs)
        require(
            time != ROUNDS or unit is None,
            f"AdaptiveGenerator: unit is {unit!r}, but rounds have no unit; omit it.",
        )
        axes = {name: _axis(name, variable) for name, variable in vocs.variables.items()}
        single = {
            n: a.choices for n, a in axes.items() if isinstance(a, Choice) and not a.choices[1:]
        }
        self.vocs, self._time = vocs, time
        self._fixed = {name: each.value for name, each in vocs.constants.items()}
        self._fixed |= {name: value for name, (value,) in single.items()}
        self._space = {name: axis for name, axis in axes.items() if name not in single}
        self._contexts = {
            name: (math.inf, -math.inf)
            for name, each in vocs.variables.items()
            if isinstance(each, ContextualVariable) and not np.isfinite(each.domain).all()
        }
        own = (constraints,) if isinstance(constraints, str) else constraints or ()
        self.loop = Loop(
            OpenBox(self._space),
            unit=unit or "hours" if time == CLOCK else unit,
            strategy=strategy,
            objective=[
                "-" * isinstance(each, MinimizeObjective) + _marked(name)
                for name, each in vocs.objectives.items()
            ],
            constraints=[*(_limit(name, each) for name, each in vocs.constraints.items()), *own],
            confidence=confidence,
            safe=safe,
            start=start,
            max_step=max_step,
            move_cost=move_cost,
            seed=seed,
            device=device,
        )

    def _validate_vocs(self, vocs: VOCS) -> None:
        for kind in ("variable", "objective"):
            require(bool(getattr(vocs, f"{kind}s")), f"VOCS must have at least one {kind}.")
        explored = [n for n, each in vocs.objectives.items() if isinstance(each, ExploreObjective)]
        fix = 'give "MAXIMIZE" or "MINIMIZE".'
        require(not explored, f"VOCS has the objective 'EXPLORE' for {explored}; {fix}")

    def suggest(self, num_points: int | None = None) -> list[dict[str, Any]]:
        """The next points to measure, with the constants and an ``_id``.

        Args:
            num_points: Number of points; 1 by default.

        Raises:
            ValueError: If the number is negative.
        """
        count = 1 if num_points is None else num_points
        if count == 0:
            return []
        loop = self.loop
        loop.pending = len(loop._record.waiting) + count
        return [
            {name: made.point[name] for name in loop.parameters or ()}
            | self._fixed
            | {"_id": made.number}
            for made in loop.ask(n=count, context=self._forecast())
        ]

    def ingest(self, results: list[dict[str, Any]]) -> None:
        """Add measured points; if one is refused, none is added.

        Args:
            results: The points, with values of the variables, the outcomes, and the field of times.

        Raises:
            ValueError: If no suggestion had the ``_id`` of a point, or if a point has no time.
            InputDataError: If a variable is missing or has no such value.
        """
        self._widen(results)
        before, now = self.loop._record, datetime.now(UTC)
        for row, point in enumerate(results):
            try:
                self._add(point, now)
            except Exception as error:
                self.loop._record = before
                error.add_note(f"In results[{row}], {point}.")
                raise

    def _add(self, point: Mapping[str, Any], now: datetime) -> None:
        """Add a measured point, whose time is ``now`` by the clock."""
        loop, names = self.loop, self.loop.parameters
        assert names is not None
        time: Any = now if self._time == CLOCK else None
        if self._time not in (CLOCK, ROUNDS):
            time = point.get(self._time)
            require(
                time is not None, f"The point has no {self._time!r}, which is its time; add it."
            )
        at = {name: point[name] for name in names if name in point}
        context: Any = {name: point[name] for name in names.contexts if _measured(point.get(name))}
        if len(context) < len(names.contexts) or not context:
            context = self._forecast()
        y = {name: point[name] for name in outcomes_of(loop.strategy) if _measured(point.get(name))}
        waiting = {row.number: {name: row.point[name] for name in names} for row in loop.open}
        number = point.get("_id")
        if number is None or number != number:  # in a DataFrame, rows without it have NaN
            number = next((number for number, place in waiting.items() if place == at), None)
        else:
            made = 1 <= number <= loop._record.asked
            require(made, f"No suggestion had the _id {number}; omit it for a point of your own.")
        if number in waiting:
            loop.tell(y, suggestion=int(number), at=at, time=time, context=context, ok=bool(y))
        else:
            loop.observe(at, y, time=time, context=context, ok=bool(y))

    def _forecast(self) -> dict[str, float] | None:
        """The next contexts, each on a line through its two newest if that was better so far."""
        loop, names = self.loop, self.loop.parameters.contexts  # type: ignore[union-attr]
        answers = loop._record.log.answers[-RECENT:]
        newest: list[Any] = [loop._units.point(row.point) for row in answers]
        rows = np.array([[point[name] for name in names] for point in newest])
        if not rows.size:
            return None
        moved, bent = np.diff(rows, axis=0), np.diff(rows, 2, axis=0)
        lines = (bent**2).sum(0) < (moved[1:] ** 2).sum(0)
        return dict(zip(names, (rows[-1] + lines * moved[-1:].sum(0)).tolist()))

    def _widen(self, points: Sequence[Mapping[str, Any]]) -> None:
        """Widen the ranges of contexts with an infinite domain to new values."""
        wider: dict[str, Context] = {}
        for name, ends in self._contexts.items():
            values = [float(each[name]) for each in points if _measured(each.get(name))]
            low, high = min([ends[0], *values]), max([ends[1], *values])
            if (low, high) != ends:
                reach = BEYOND * (high - low) or 1e-3 * abs(high) or 1e-9
                self._contexts[name] = low - reach, high + reach
                wider[name] = Context(low - reach, high + reach)
        if wider:
            self._space |= wider
            with warnings.catch_warnings():  # open suggestions are dropped, but may be answered
                warnings.simplefilter("ignore")
                self.loop = self.loop.with_space(self._space)


def _axis(name: str, variable: BaseVariable) -> Any:
    """The parameter or context of a loop for a variable.

    Raises:
        ValueError: If the variable is an array.
    """
    if isinstance(variable, DiscreteVariable):
        values: list[Any] = [plain(value) for value in variable.values]
        numeric = all(type(value) in (int, float) for value in values)
        return Choice(*sorted(values, key=None if numeric else str), ordered=numeric)
    kind, (low, high) = np.dtype(variable.dtype or float), variable.domain
    require(kind.shape == (), f"{name} is an array; make each of its numbers a variable.")
    if isinstance(variable, ContextualVariable):
        return Context(low, high) if np.isfinite(variable.domain).all() else Context(0, 1)
    return Integer(math.ceil(low), math.floor(high)) if kind.kind in "iu" else (low, high)


def _limit(name: str, constraint: BaseConstraint) -> str:
    """A constraint as text."""
    if isinstance(constraint, BoundsConstraint):
        low, high = constraint.range
        return f"{low} <= {_marked(name)} <= {high}"
    sign = ">=" if isinstance(constraint, GreaterThanConstraint) else "<="
    return f"{_marked(name)} {sign} {constraint.value}"


def _marked(name: str) -> str:
    """A name as a formula, in marks if needed."""
    return Expression(name, (name,)).text


def _measured(value: object) -> bool:
    number = real(value)
    return number is not None and math.isfinite(number)
