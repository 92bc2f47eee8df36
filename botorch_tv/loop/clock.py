"""Times and points of a loop: numbers, and the names and units in which the user gives them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import numpy as np
import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.loop.input import Points, as_number, as_place
from botorch_tv.loop.log import Measurement, Point, like
from botorch_tv.strategies.domains import Grid
from botorch_tv.strategies.named import Parameters
from botorch_tv.strategies.state import State
from botorch_tv.validation import refuse_masked, require, shown

UNITS = ("seconds", "minutes", "hours", "days", "weeks")
SPANS = {unit: timedelta(**{unit: 1}) for unit in UNITS}
DEFAULT = "hours"
"""Unit of time if times are datetimes, unless the user gives a unit."""
Time = float | datetime
"""Type of a time: a number or a datetime."""
When = Time | None
"""Type of a time that has a default."""


class LoopClock:
    """Converts datetimes to numbers and back; numbers stay unchanged.

    The first time of a loop decides whether all its times are numbers or datetimes. A datetime
    becomes the time since the first datetime, in the unit of the loop. Changes to and from summer
    time are taken into account only if datetimes have a time zone.

    Args:
        unit: ``"seconds"``, ``"minutes"``, ``"hours"``, ``"days"`` or ``"weeks"``, if times are
            datetimes. If None, the first time of the loop decides: times are numbers, or datetimes
            counted in hours.

    Raises:
        ValueError: If ``unit`` is neither None nor among the five units above.
    """

    def __init__(self, unit: str | None) -> None:
        fix = f"the units are {', '.join(SPANS)}; give one of them, or None if times are numbers."
        require(unit is None or unit in SPANS, f"Loop: unit is {unit!r}, but {fix}")
        self.unit = self._declared = unit
        self.start: datetime | None = None

    @classmethod
    def of(cls, data: Mapping[str, Any] | None) -> LoopClock:
        """The clock that a file describes.

        Raises:
            KeyError, TypeError, ValueError: If the data are damaged.
        """
        clock = cls(None if data is None else data["unit"])
        if data is not None and data["start"] is not None:
            clock.start = datetime.fromisoformat(data["start"])
        return clock

    @property
    def data(self) -> dict[str, str | None] | None:
        """The datetime of time 0 and the unit, for a file; None if times are numbers."""
        start = None if self.start is None else self.start.isoformat()
        return None if self.unit is None else {"start": start, "unit": self.unit}

    def begin(self, first: object) -> LoopClock:
        """A clock that starts at the first time of a loop."""
        clock, when = LoopClock(self._declared), as_datetime("time", first)
        if when is not None:
            clock.start, clock.unit = when, self._declared or DEFAULT
        return clock

    def number(self, name: str, value: object, fix: str) -> float:
        """A time as a number.

        Raises:
            InputDataError: If the value is not a time, or is not of the same kind (number, datetime
                with or without a zone) as the loop's times.
        """
        refuse_masked(name, value)
        when = as_datetime(name, value)
        if self.start is None and self.unit is None and when is None:
            return as_number(name, value, fix)
        start = self.start
        if when is None or start is None or (when.tzinfo is None) != (start.tzinfo is None):
            kind = "numbers" if self.unit is None else "datetimes"
            if start is not None:
                kind = f"datetimes with{'out' if start.tzinfo is None else ''} a zone"
            raise InputDataError(
                f"{name} is {when or shown(value)}, but the times of this loop are {kind}; give a "
                "time of this kind, such as 2026-03-01T08:30+01:00, or start a loop with another "
                "unit."
            )
        # Differences are taken in UTC, because Python ignores summer time when it subtracts local
        # times of the same zone.
        return (_universal(when) - _universal(start)) / SPANS[self.unit or DEFAULT]

    def shown(self, number: float) -> Time:
        """Convert a number to the kind of time that the user gave, a number or a datetime."""
        if self.start is None:
            return number
        when = _universal(self.start) + number * SPANS[self.unit or DEFAULT]
        return when if self.start.tzinfo is None else when.astimezone(self.start.tzinfo)

    def now(self) -> datetime | None:
        """The present time of this computer; None if times are numbers."""
        zone = UTC if self.start is None else self.start.tzinfo
        return None if self.unit is None else datetime.now(zone)


def as_datetime(name: str, value: object) -> datetime | None:
    """Convert a datetime of Python, NumPy or pandas to a datetime of Python; None for other types.

    Raises:
        InputDataError: If the value is NaT, the missing time of NumPy and pandas, or if its year is
            1 or 9999, which has times that some zones cannot represent.
    """
    if isinstance(value, (datetime, np.datetime64)) and value != value:
        raise InputDataError(f"{name} is {value}, which is not a time; drop rows without a time.")
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if not isinstance(value, datetime):
        return None
    plain = getattr(value, "to_pydatetime", None)
    whole: datetime = value if plain is None else plain(warn=False)
    if not 1 < whole.year < 9999:
        fix = "its year must lie from 2 to 9998; drop rows without a time."
        raise InputDataError(f"{name} is {whole}, but {fix}")
    return whole


def earliest(column: object) -> datetime | None:
    """The earliest datetime in a column; None if the column has no datetimes.

    Raises:
        InputDataError: If some datetimes have a zone and others have none.
    """
    rows = column if isinstance(column, Iterable) and not isinstance(column, Tensor) else ()
    times = [when for entry in rows if (when := as_datetime("time", entry)) is not None]
    if len({time.tzinfo is None for time in times}) > 1:
        raise InputDataError("time has rows with a zone and rows without; give every row a zone.")
    return min(times, default=None)


def _universal(when: datetime) -> datetime:
    return when if when.tzinfo is None else when.astimezone(UTC)


CONTEXT = "(context)"
"""Key under which a file stores the context, beside the named parameters of a point."""
TIME_FIELDS = ("time", "planned_for")
Values = list[float] | dict[str, Any]
"""Type of a point: coordinates, or named parameters in their units."""


class Units:
    """The names and units in which a loop shows and stores its points and times.

    Args:
        parameters: The named parameters; None if coordinates have no names.
        clock: The clock that converts times to numbers and back.
        dtype: The dtype of points in the unit cube.
        outcomes: The names of the outcomes; empty for a single outcome without a name.
        outside: Whether measurements may lie outside the ranges of the parameters.

    Raises:
        ValueError: If a parameter is named "(context)", because files use this name for the
            context.
    """

    def __init__(
        self,
        parameters: Parameters | None,
        clock: LoopClock,
        dtype: torch.dtype,
        outcomes: Sequence[str] = (),
        outside: bool = False,
    ) -> None:
        problem = f"Loop: a parameter is called {CONTEXT!r}, the name of the context in files"
        require(not parameters or CONTEXT not in parameters, f"{problem}; give another name.")
        self.parameters, self.clock, self.dtype = parameters, clock, dtype
        self.outcomes, self.outside = tuple(outcomes), outside
        self._by_name = ("y", "noise") if outcomes else ()
        self.contexts = parameters.given.by_name if parameters else {}

    def point(self, point: Sequence[float]) -> Values:
        """A point in the units of the parameters; the context is omitted unless it has names."""
        if self.parameters is None:
            return [float(value) for value in point]
        named, place = self.parameters, torch.tensor(point, dtype=self.dtype, device="cpu")
        place = place[: named.columns + named.context_columns]
        return named.named(place, outside=self.outside)

    def rounded(self, X: Tensor) -> Tensor:
        """Points `* x (d + c)`, rounded to the values that a file stores."""
        if self.parameters is None:
            return X
        d, rows = self.parameters.columns, X.reshape(-1, X.shape[-1])
        named = [self.parameters.named(row[:d], outside=self.outside) for row in rows]
        places = [self.parameters.place(values, X, outside=self.outside) for values in named]
        return torch.cat([torch.stack(places), rows[:, d:]], -1).view_as(X)

    def located(self, X: Tensor, state: State) -> tuple[Point, int | None]:
        """A point of the domain, `d + c`, as rows store it, and the index of its arm, if any.

        Raises:
            InputDataError: If the point lies outside the domain.
        """
        domain = state.domain
        choice = domain.locate(self.rounded(X))
        point = tuple(domain.points(choice, like(state)).tolist())
        return point, int(choice) if isinstance(domain, Grid) else None

    def moved(
        self, point: Point, at: Points, state: State, context: Tensor | None = None
    ) -> tuple[Point, int | None]:
        """As :meth:`located`, for a point `d + c` at which parameters had other values.

        Args:
            point: The point.
            at: The parameters that were set to other values, or a whole point; None for none.
            state: The state.
            context: The context, `c`, if it was another.
        """
        X, d = like(state).new_tensor(point), state.domain.dim
        if self.parameters is not None and isinstance(at, Mapping):
            at = {**self.parameters.named(X[:d]), **at}
        place = X[:d] if at is None else as_place(at, state)
        return self.located(torch.cat([place, X[d:] if context is None else context]), state)

    def time_text(self, number: float) -> str:
        """The text of a time that is given as a number."""
        return time_text(self.clock.shown(number))

    def point_text(self, point: Sequence[float]) -> str:
        """The text of a point in the units of the parameters."""
        return point_text(self.point(point))

    def listed(self, rows: Mapping[int, Measurement]) -> str:
        """Open suggestions as text."""
        return "; ".join(
            f"{number} at {self.point_text(row.point)}, time {self.time_text(row.time)}"
            for number, row in rows.items()
        )

    def written(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row as a file stores it: parameters by name in their units, and datetimes as text."""

        def named(point: Sequence[float]) -> dict[str, Any]:
            assert self.parameters is not None
            context = [] if self.contexts else point[self.parameters.columns :]
            values = cast(dict[str, Any], self.point(point))
            return values | ({CONTEXT: context} if context else {})

        given = [key for key in self._by_name if isinstance(row.get(key), tuple)]
        row = row | {key: self.measured(row[key]) for key in given}
        shown = self.clock.shown
        return self._converted(row, lambda time: cast(datetime, shown(time)).isoformat(), named)

    def measured(self, y: Sequence[float]) -> dict[str, float]:
        """The outcomes that a measurement has, by name."""
        return {name: value for name, value in zip(self.outcomes, y) if value == value}

    def read(self, row: Any) -> dict[str, Any]:
        """Convert a row from its form in a file; the inverse of :meth:`written`.

        Raises:
            KeyError, TypeError, ValueError, InputDataError: If the row is damaged.
        """

        def place(values: Any) -> list[float]:
            assert self.parameters is not None
            own = dict(values)
            context = own.pop(CONTEXT, [])
            like = torch.empty(0, dtype=self.dtype, device="cpu")
            place = self.parameters.place(own, like, outside=self.outside)
            return [*place.tolist(), *context]

        for key in [key for key in self._by_name if row.get(key) is not None]:
            y = dict(row[key])
            require(y.keys() <= {*self.outcomes}, f"outcomes are {', '.join(self.outcomes)}")
            row = row | {key: [y.get(name, math.nan) for name in self.outcomes]}
        number, read = self.clock.number, datetime.fromisoformat
        return self._converted(row, lambda text: number("time", read(text), ""), place)

    def _converted(
        self, row: dict[str, Any], time: Callable[[Any], Any], point: Callable[[Any], Any]
    ) -> dict[str, Any]:
        own = dict(row)
        if self.clock.start is not None:
            own |= {name: time(own[name]) for name in TIME_FIELDS if name in own}
        if self.parameters is not None and "point" in own:
            own["point"] = point(own["point"])
        if self.parameters is not None and "points" in own:
            own["points"] = [point(row) for row in own["points"]]
        return own


def point_text(values: Values) -> str:
    """The text of a point: named parameters to six digits, coordinates to four."""
    if not isinstance(values, dict):
        return f"[{', '.join(f'{value:.4g}' for value in values)}]"
    digits = {name: ".6g" if type(value) in (int, float) else "" for name, value in values.items()}
    return ", ".join(f"{name} {value:{digits[name]}}" for name, value in values.items())


def time_text(when: Time) -> str:
    """The text of a time: a number, or a datetime without fractions of a second."""
    return when.isoformat(" ", "seconds") if isinstance(when, datetime) else f"{when:g}"
