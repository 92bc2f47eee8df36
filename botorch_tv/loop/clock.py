"""Times of a loop: numbers, or dates with a time of day."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, cast

import numpy as np
import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.loop.input import as_number, as_series
from botorch_tv.loop.log import Planned, Question, short
from botorch_tv.strategies.box import Box, Parameters
from botorch_tv.strategies.domains import Domain
from botorch_tv.validation import counted, refuse_masked, require, shown

SPANS = {
    "seconds": timedelta(seconds=1),
    "minutes": timedelta(minutes=1),
    "hours": timedelta(hours=1),
    "days": timedelta(days=1),
    "weeks": timedelta(weeks=1),
}
Time = float | datetime
"""A number, or a date with a time of day."""


@dataclass(frozen=True, slots=True)
class ClockData:
    """A clock in a file.

    Attributes:
        start: The date of time 0 by ISO 8601; None if no time is known yet.
        unit: Unit of the numbers used in computations.
    """

    start: str | None
    unit: str


class LoopClock:
    """Converts datetimes to numbers and back; numbers stay as they are.

    The first time decides which of the two a loop has. Datetimes are counted from the first, in a
    unit. With a time zone, changes to and from summer time are accounted for; without one they
    cannot be.

    Args:
        unit: ``"seconds"``, ``"minutes"``, ``"hours"``, ``"days"`` or ``"weeks"``, for loops whose
            times are datetimes; None if the first time decides, and datetimes are counted in hours.

    Raises:
        ValueError: If there is no such unit.
    """

    def __init__(self, unit: str | None) -> None:
        require(
            unit is None or unit in SPANS,
            f"Loop: unit is {unit!r}, but datetimes are counted in {', '.join(SPANS)}; give one, "
            "or None where times are numbers.",
        )
        self.unit = self._declared = unit
        self.start: datetime | None = None

    @classmethod
    def of(cls, data: ClockData | None) -> LoopClock:
        """The clock of a file.

        Raises:
            ValueError: If the data are damaged.
        """
        clock = cls(None if data is None else data.unit)
        if data is not None and data.start is not None:
            clock.start = datetime.fromisoformat(data.start)
        return clock

    @property
    def data(self) -> ClockData | None:
        """The clock for a file; None if times are numbers."""
        if self.unit is None:
            return None
        return ClockData(None if self.start is None else self.start.isoformat(), self.unit)

    def begin(self, first: object) -> LoopClock:
        """A clock for a loop whose first time this is."""
        clock, when = LoopClock(self._declared), as_datetime("time", first)
        if when is not None:
            clock.start, clock.unit = when, self._declared or "hours"
        return clock

    def number(self, name: str, value: object, fix: str) -> float:
        """A time as a number.

        Raises:
            InputDataError: If it is not a time, or not of the kind of the loop's times.
        """
        refuse_masked(name, value)
        when = as_datetime(name, value)
        if self.start is None and self.unit is None:
            if when is not None or isinstance(value, (str, date)):
                raise InputDataError(
                    f"{name} is {shown(value)}, but the times of this loop are numbers; give a "
                    "number. Loops count from a datetime that begin with one, such as "
                    "datetime.now(UTC), or as Loop(..., unit='hours')."
                )
            return as_number(name, value, fix)
        if when is None:
            raise InputDataError(
                f"{name} is {shown(value)}, but the times of this loop are datetimes; give one "
                "such as datetime.now(UTC), or begin a loop that counts in numbers, Loop(...) "
                "without unit."
            )
        assert self.start is not None
        if (when.tzinfo is None) != (self.start.tzinfo is None):
            has, fix = "a zone", "have none; leave it out"
            if when.tzinfo is None:
                has, fix = "no zone", "have one; give one such as datetime.now(UTC)"
            raise InputDataError(f"{name} is {when}, with {has}, but the times of this loop {fix}.")
        # Python subtracts times of one zone as clocks show them, an hour off in summer.
        return (_universal(when) - _universal(self.start)) / SPANS[self._unit]

    def numbers(self, value: object, rows: int) -> list[float]:
        """The times of a table as numbers, counted from the earliest; see :meth:`number`."""
        texts = any(isinstance(one, str) for one in _rows(value))
        if earliest(value) is None and self.start is None and not texts:
            return as_series("time", value, rows)
        whole = list(_rows(value))
        if len(whole) != rows:
            raise InputDataError(
                f"time has {counted(len(whole), 'times')}, but X has {counted(rows, 'rows')}; "
                "give one per row."
            )
        fix = "give the time of the measurement."
        return [self.number("time", one, fix) for one in whole]

    def shown(self, number: float) -> Time:
        """A time in the user's form."""
        if self.start is None:
            return number
        when = _universal(self.start) + number * SPANS[self._unit]
        return when if self.start.tzinfo is None else when.astimezone(self.start.tzinfo)

    def said(self, number: float) -> str:
        """A time in words."""
        when = self.shown(number)
        return f"{when:g}" if isinstance(when, float) else when.isoformat(" ", "seconds")

    def now(self) -> datetime | None:
        """The present by this computer's clock; None if times are numbers."""
        if self.unit is None:
            return None
        zone = UTC if self.start is None else self.start.tzinfo
        return datetime.now(zone)

    @property
    def _unit(self) -> str:
        return self.unit or "hours"


def as_datetime(name: str, value: object) -> datetime | None:
    """A datetime of Python, NumPy or pandas as one of Python; None for other types.

    Raises:
        InputDataError: If it is not a time, such as NaT of pandas.
    """
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if not isinstance(value, datetime):
        return None
    if value != value:
        raise InputDataError(f"{name} is {value}, which is no time; leave out rows without one.")
    plain = getattr(value, "to_pydatetime", None)
    whole: datetime = value if plain is None else plain(warn=False)
    return whole


def earliest(column: object) -> datetime | None:
    """The earliest datetime in a column; None if there is none.

    Raises:
        InputDataError: If some have a zone and others have none.
    """
    found = [as_datetime("time", one) for one in _rows(column)]
    times = [one for one in found if one is not None]
    if len({one.tzinfo is None for one in times}) > 1:
        raise InputDataError("time has rows with a zone and others without; give all a zone.")
    return min(times, default=None)


def _rows(column: object) -> Iterable[object]:
    """The entries of a column; none for a tensor, which holds only numbers."""
    return () if isinstance(column, Tensor) or not isinstance(column, Iterable) else column


def _universal(when: datetime) -> datetime:
    return when if when.tzinfo is None else when.astimezone(UTC)


CONTEXT = "(context)"
"""Key of the context beside named parameters in a file."""
TIME_FIELDS = ("time", "planned_for")
Values = list[float] | dict[str, Any]
"""A point: coordinates, or named parameters in their own units."""


class Units:
    """The names and units of a loop.

    Args:
        parameters: The named parameters; None if coordinates have no names.
        clock: Converts times.
        dtype: The dtype of points in the unit cube.

    Raises:
        ValueError: If a parameter is named as the context is in a file.
    """

    def __init__(self, parameters: Parameters | None, clock: LoopClock, dtype: torch.dtype) -> None:
        require(
            parameters is None or CONTEXT not in parameters,
            f"Loop: a parameter is called {CONTEXT!r}, as the context is in a file; give another "
            "name.",
        )
        self.parameters, self.clock, self.dtype = parameters, clock, dtype

    def point(self, point: Sequence[float]) -> Values:
        """A point in its own units; with named parameters, without the context."""
        if self.parameters is None:
            return [float(one) for one in point]
        return self.parameters.named(self._tensor(point)[: self.parameters.columns])

    def settled(self, X: Tensor) -> Tensor:
        """Points `* x (d + c)`, rounded as values are stored, so that a file restores them."""
        if self.parameters is None:
            return X
        d, rows = self.parameters.columns, X.reshape(-1, X.shape[-1])
        places = [self.parameters.place(self.parameters.named(row[:d]), X) for row in rows]
        return torch.cat([torch.stack(places), rows[:, d:]], -1).view_as(X)

    def said(self, row: Planned | Question) -> str:
        """A suggestion or a consultation in words."""
        if isinstance(row, Question):
            return f"about time {self.clock.said(row.time)}"
        return f"at {self.said_point(row.point)} for time {self.clock.said(row.planned_for)}"

    def said_point(self, point: Sequence[float]) -> str:
        """A point in words."""
        if self.parameters is None:
            return short(point)
        return point_in_words(self.point(point))

    def written(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A row of a file, with names and in the user's units."""

        def text(number: float) -> str:
            return cast(datetime, self.clock.shown(number)).isoformat()

        return self._converted(row, text, self._named)

    def read(self, row: Any) -> dict[str, Any]:
        """Inverse of :meth:`written`.

        Raises:
            KeyError, TypeError, ValueError, InputDataError: If the row is damaged.
        """

        def number(text: str) -> float:
            return self.clock.number("time", datetime.fromisoformat(text), "")

        return self._converted(row, number, self._place)

    def _converted(
        self, row: Mapping[str, Any], time: Callable[[Any], Any], point: Callable[[Any], Any]
    ) -> dict[str, Any]:
        own = dict(row)
        if self.clock.start is not None:
            own |= {name: time(own[name]) for name in TIME_FIELDS if name in own}
        if self.parameters is not None and "point" in own:
            own["point"] = point(own["point"])
        if self.parameters is not None and "points" in own:
            own["points"] = [point(one) for one in own["points"]]
        return own

    def _named(self, point: Sequence[float]) -> dict[str, Any]:
        assert self.parameters is not None
        values = self.point(point)
        assert isinstance(values, dict)
        context = list(point[self.parameters.columns :])
        return {**values, CONTEXT: context} if context else {**values}

    def _place(self, values: Any) -> list[float]:
        assert self.parameters is not None
        require(isinstance(values, dict), f"{values!r} is no point")
        own = dict(values)
        context = own.pop(CONTEXT, [])
        place: list[float] = self.parameters.place(own, self._tensor([])).tolist()
        return place + list(context)

    def _tensor(self, point: Sequence[float]) -> Tensor:
        return torch.tensor(point, dtype=self.dtype, device="cpu")


def point_in_words(values: Values) -> str:
    """A point, to six digits."""
    if isinstance(values, dict):
        return ", ".join(f"{name} {in_digits(value)}" for name, value in values.items())
    return short(values)


def in_digits(value: object) -> str:
    """A value of a point, numbers to six digits."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return f"{value:.6g}" if number else str(value)


def parameters_of(domain: Domain) -> Parameters | None:
    """The named parameters of a domain; None where it has none."""
    return domain.parameters if isinstance(domain, Box) else None
