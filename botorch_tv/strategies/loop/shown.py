"""What a loop shows: suggestions for those who measure, consultations for experts, and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from botorch_tv.strategies.loop.clock import Time
from botorch_tv.strategies.loop.log import Answer, Planned, Question, like, short
from botorch_tv.strategies.loop.units import Units, Values, in_digits
from botorch_tv.strategies.spans import counted
from botorch_tv.strategies.state import State

SHOWN = 20
"""Rows of a table that are printed."""


@dataclass(frozen=True, eq=False, repr=False)
class NumberedSuggestion:
    """A loop's suggestion of what to measure.

    Attributes:
        number: By which ``tell`` and ``discard`` know it, counted from 1.
        X: The point, `d`; its place in the unit cube where parameters have names.
        context: What was known before it was chosen, `c`; None where nothing was.
        time: For which it was chosen; a datetime where times are such.
        mean: Mean predicted there, from answers alone; NaN where there is no prediction yet.
        sd: Standard deviation of that prediction, without observation noise; NaN likewise.
        point: The point as plain numbers, or as a dict of named parameters in their own units.
        row: What the loop has written down of it.
        said: The point and the time, in words.
    """

    number: int
    X: Tensor
    context: Tensor | None
    time: Time
    mean: float
    sd: float
    point: Any = field(kw_only=True)
    row: Planned = field(kw_only=True)
    said: str = field(kw_only=True)

    def __getitem__(self, name: str | int) -> Any:
        """One parameter of ``point``: ``suggestion["temperature"]``."""
        return self.point[name]

    def __repr__(self) -> str:
        at = self.said
        given = "" if self.context is None else f", context {short(self.context.tolist())}"
        expects = f"expects {self.mean:.4g} ± {2 * self.sd:.2g} (two standard deviations)"
        if self.row.predicted is None:
            expects = "nothing is expected yet"
        return f"Suggestion {self.number}: {at}{given}; {expects}"


def numbered(row: Planned, state: State, units: Units) -> NumberedSuggestion:
    """A suggestion that is written down, for those who are to measure."""
    said = row.predicted
    X, d = like(state).new_tensor(row.point), state.domain.dim
    return NumberedSuggestion(
        row.number,
        X[:d],
        X[d:] if len(X) > d else None,
        units.clock.shown(row.planned_for),
        math.nan if said is None else said.mean,
        math.nan if said is None else said.sd,
        point=units.point(row.point[:d]),
        row=row,
        said=units.said(row),
    )


@dataclass(frozen=True, eq=False, repr=False)
class NumberedConsultation:
    """A loop's question to an expert: the current values at points measured before.

    Attributes:
        number: By which ``absorb`` knows it, counted from 1.
        X: The points, `Q x d`.
        time: The time that is asked about, that of the newest measurement.
        points: The points as plain numbers, or as dicts of named parameters in their own units.
        row: What the loop has written down of it.
        said: The first points, in words.
    """

    number: int
    X: Tensor
    time: Time
    points: Any = field(kw_only=True)
    row: Question = field(kw_only=True)
    said: str = field(kw_only=True)

    def __len__(self) -> int:
        return len(self.X)

    def __repr__(self) -> str:
        many = counted(len(self), "points")
        return f"Consultation {self.number}: {many} at time {self.said}"


def numbered_consultation(row: Question, state: State, units: Units) -> NumberedConsultation:
    """A consultation that is written down, for those who are to measure."""
    some = "; ".join(units.said_point(point) for point in row.points[:3])
    rest = ", ..." if len(row.points) > 3 else ""
    return NumberedConsultation(
        row.number,
        like(state).new_tensor(row.points),
        units.clock.shown(row.time),
        points=[units.point(point) for point in row.points],
        row=row,
        said=f"{units.clock.said(row.time)}: {some}{rest}",
    )


class Table(NamedTuple):
    """All measurements, n rows in order of time; its repr shows the newest.

    Attributes:
        number: Of the suggestion that was answered; for measurements that were not suggested -1,
            -2, ... in order of arrival; `n`, int64.
        X: Where, `n x d`; places in the unit cube where parameters have names, see ``points``.
        context: What was known beforehand, `n x c`.
        y: What came out, NaN where the measurement failed, `n`.
        time: When, `n`, float64, in units of the clock where ``times`` are datetimes.
        noise: Noise variance, infinite where the measurement failed, `n`.
        reset: Whether everything before was forgotten with it, `n`, bool.
        points: The points as plain numbers, or as dicts of named parameters in their own units, n.
        times: When, as it was told: numbers, or datetimes, n.
    """

    number: Tensor
    X: Tensor
    context: Tensor
    y: Tensor
    time: Tensor
    noise: Tensor
    reset: Tensor
    points: Sequence[Values]
    times: Sequence[Time]

    def __repr__(self) -> str:
        oldest = next(iter(self.points), None)
        plain = [f"x{one}" for one in range(self.X.shape[1])]
        names = ["number", "time", *(oldest if isinstance(oldest, dict) else plain)]
        names += [*(f"context{one}" for one in range(self.context.shape[1])), "y", "noise", "reset"]
        first = max(0, len(self.y) - SHOWN)
        lines = [names, *(self._line(row) for row in range(first, len(self.y)))]
        widths = [max(len(line[column]) for line in lines) for column in range(len(names))]
        text = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines]
        if first:
            text.insert(1, f"... {first} earlier rows")
        return "\n".join(text)

    def _line(self, row: int) -> list[str]:
        number, point, when = int(self.number[row]), self.points[row], self.times[row]
        place = point.values() if isinstance(point, dict) else point
        values = [*self.context[row].tolist(), float(self.y[row]), float(self.noise[row])]
        shown = [in_digits(value) for value in (*place, *values)]
        time = f"{when:.6g}" if isinstance(when, float) else when.isoformat(" ", "seconds")
        return [str(number), time, *shown, "yes" if self.reset[row] else ""]


class SupersededMeasurement(NamedTuple):
    """A measurement that no longer counts, since it was amended or removed.

    Attributes:
        number: As in :class:`Table`.
        point: Where, as plain numbers, or as a dict of named parameters in their own units.
        y: The observation, NaN if the measurement failed.
        time: When it was made.
        became: ``"amended"`` or ``"removed"``.
    """

    number: int
    point: Any
    y: float
    time: Time
    became: str


class LastAnswer(NamedTuple):
    """The answer that a loop took in last.

    Attributes:
        number: As in :class:`Table`.
        reset: Whether it made the strategy forget everything before it.
    """

    number: int
    reset: bool


def table(
    rows: Sequence[Answer], resets: Sequence[bool], state: State, noise: float, units: Units
) -> Table:
    """Measurements side by side; ``noise`` is the strategy's."""
    own, d = like(state), state.domain.dim
    points = own.new_tensor([one.point for one in rows]).view(len(rows), state.domain.columns)
    variances = [noise if one.noise is None else one.noise for one in rows]
    variances = [math.inf if one.y is None else v for one, v in zip(rows, variances)]
    return Table(
        number=torch.tensor([one.number for one in rows], dtype=torch.int64, device="cpu"),
        X=points[:, :d],
        context=points[:, d:],
        y=own.new_tensor([math.nan if one.y is None else one.y for one in rows]),
        time=state.time.new_tensor([one.time for one in rows]),
        noise=own.new_tensor(variances),
        reset=torch.tensor(resets, dtype=torch.bool, device="cpu"),
        points=[units.point(one.point[:d]) for one in rows],
        times=[units.clock.shown(one.time) for one in rows],
    )
