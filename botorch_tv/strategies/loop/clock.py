"""Times of a loop: numbers, or dates with a time of day."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import numpy as np
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.strategies.loop.cures import Act, Cure, RefusedInput, Words
from botorch_tv.strategies.loop.input import as_number, as_series
from botorch_tv.strategies.spans import counted
from botorch_tv.validation import refuse_masked, require, shown

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

    def number(self, name: Words, value: object, fix: Words) -> float:
        """A time as a number.

        Raises:
            InputDataError: If it is not a time, or not of the kind of the loop's times.
        """
        refuse_masked(name, value)
        when = as_datetime(name, value)
        if self.start is None and self.unit is None:
            if when is not None:
                raise RefusedInput(
                    (name, f" is {when}, but the times of this loop are numbers; give a number. "),
                    ("Loops count from a datetime that begin with one, or as "),
                    (Cure(Act.UNIT), "."),
                )
            if isinstance(value, (str, date)):
                limit = f" is {shown(value)}, but times are numbers or datetimes; give one such as "
                raise RefusedInput(name, limit, Cure(Act.DATE), ".")
            return as_number(name, value, fix)
        if when is None:
            raise RefusedInput(
                (name, f" is {shown(value)}, but the times of this loop are datetimes; "),
                ("give one such as ", Cure(Act.DATE), ", or begin a loop that counts in numbers, "),
                (Cure(Act.NUMBERS), "."),
            )
        assert self.start is not None
        if (when.tzinfo is None) != (self.start.tzinfo is None):
            has: str = "no zone"
            cure: Words = ("have one; give one such as ", Cure(Act.DATE))
            if when.tzinfo is not None:
                has, cure = "a zone", "have none; leave it out"
            raise RefusedInput(name, f" is {when}, with {has}, but those of this loop ", cure, ".")
        # Python subtracts times of one zone as clocks show them, an hour off in summer.
        return (_universal(when) - _universal(self.start)) / SPANS[self._unit]

    def numbers(self, value: object, rows: int) -> list[float]:
        """The times of a table as numbers, counted from the earliest; see :meth:`number`."""
        if earliest(value) is None and self.start is None:
            text = next((one for one in _rows(value) if isinstance(one, str)), None)
            if text is not None:
                cure = "pandas.to_datetime(time), or datetime.fromisoformat of each."
                if re.match(r"\s*\d{1,2}\D\d{1,2}\D\d", text):
                    cure = (
                        "pandas.to_datetime(time, dayfirst=True) where the day is written first, "
                        "dayfirst=False where the month is."
                    )
                raise InputDataError(
                    f"time has {text!r}, but times are numbers or datetimes; give {cure}"
                )
            return as_series("time", value, rows)
        whole = list(value)  # type: ignore[call-overload]
        if len(whole) != rows:
            raise InputDataError(
                f"time has {counted(len(whole), 'times')}, but X has {counted(rows, 'rows')}; "
                "give one per row."
            )
        return [self.number("time", one, "give the time of the measurement.") for one in whole]

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


def as_datetime(name: Words, value: object) -> datetime | None:
    """A datetime of Python, NumPy or pandas as one of Python; None for other types.

    Raises:
        InputDataError: If it is not a time, such as NaT of pandas.
    """
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if not isinstance(value, datetime):
        return None
    if value != value:
        raise RefusedInput(name, f" is {value}, which is no time; leave out rows without one.")
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
