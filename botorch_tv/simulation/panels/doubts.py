"""What a table may mean in two ways, of which the wrong one would give numbers without a word."""

from __future__ import annotations

import re
from datetime import datetime

import numpy as np

FEWEST_RISES = 8
"""What rises so often, one after the other, is likely to count something: by chance one column in
40,000 does."""
NUMBERED = 3
"""So many columns with the numbers 1, 2, 3, ... or 0, 1, 2, ... are numbered, not read; one more if
the first has another number."""
TIME_PARTS = {"year", "month", "day", "weekday", "hour", "minute", "second"}
COMPACT = {8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
"""Dates without anything between their parts, by the number of their digits."""
YEARS = (1900, 2199)
"""Of such dates; counts of seconds since 1970 begin with earlier ones, or have months above 12."""
_THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2}([.,])\d{3}\s*")
_WHOLE = re.compile(r"\s*[+-]?\d+\s*")
_ZONED = re.compile(r".*[T\s:]\d\d([.,]\d+)?\s*(Z|UTC|GMT|[+-]\d\d(:?\d\d)?)\s*", re.IGNORECASE)


def refuse_hidden_times(file: str, names: list[str], values: np.ndarray) -> None:
    """Times told in numbers would be played as an arm, and win.

    Raises:
        ValueError: If a column seems to hold times, or a part of them.
    """
    for place, name in enumerate(names):
        column = values[:, place]
        known = column[~np.isnan(column)]
        if name.strip().lower() in TIME_PARTS and (known == np.rint(known)).all():
            raise ValueError(
                f"{file}: column {name!r} holds whole numbers and is called like a part of a date, "
                "but times are one column; write them into one, as 2026-03-01T08:30, or, if it is "
                "an arm, give times='' (--times '')."
            )
    rising = (np.diff(values, axis=0) > 0).all(0)
    if len(values) <= FEWEST_RISES or rising.all() or not rising.any():
        return
    name = names[int(np.flatnonzero(rising)[0])]
    raise ValueError(
        f"{file}: column {name!r} rises from every row to the next, as times do, but is not called "
        f"time. If it tells times, give times={name!r} (--times on the command line) or call it "
        "time; if it is an arm, give times=''."
    )


def refuse_hidden_header(file: str, values: np.ndarray) -> None:
    """The numbers of sensors above whole readings would be the readings of the first row.

    Args:
        file: Its name.
        values: A table without a line of names, `rows x columns`.

    Raises:
        ValueError: If the first row seems to number the columns.
    """
    first, later = values[0], values[1:]
    steps = np.diff(first)
    few = NUMBERED if first[0] in (0, 1) else NUMBERED + 1
    counts = len(first) >= few and bool((steps == 1).all())
    rises = len(steps) >= FEWEST_RISES and bool((steps > 0).all())
    if not (counts or rises) or (first != np.rint(first)).any() or not len(later):
        return
    if (np.diff(later, axis=1) > 0).all(1).mean() > 0.5:
        return  # as arms in an order do
    raise ValueError(
        f"{file}: the first line, {first[0]:.0f}, {first[1]:.0f}, {first[2]:.0f}, ..., rises from "
        "column to column, as numbers of sensors do, and others do not. If it names columns, "
        "write names with letters, such as s1; if it holds readings, put a line of names above it."
    )


def refuse_hidden_thousands(file: str, label: str, lines: list[int], cells: list[str]) -> None:
    """1.250 beside 980 is more than it by 270, or less by 979.

    Args:
        file: Its name.
        label: Of the column.
        lines: Of the file, one for each cell.
        cells: Numbers of one column as they were written.

    Raises:
        ValueError: If all cells with a comma or point could be thousands, and others are whole.
    """
    marked = [place for place, cell in enumerate(cells) if "," in cell or "." in cell]
    if not marked or not all(_THOUSANDS.fullmatch(cells[place]) for place in marked):
        return
    if not any(_WHOLE.fullmatch(cell) for cell in cells):
        return
    first = marked[0]
    raise ValueError(
        f"{file} line {lines[first]}, column {label!r}: {cells[first].strip()!r} may be a number "
        "of thousands, as others in the column are whole, or a decimal; write thousands without a "
        "mark, or all decimals with as many digits."
    )


def refuse_mixed_zones(file: str, lines: list[int], cells: list[str]) -> None:
    """Dates without a zone would be taken for those of Greenwich where others have one.

    Args:
        file: Its name.
        lines: Of the file, one for each cell.
        cells: Dates of one column as they were written.

    Raises:
        ValueError: If some have a zone and others have none.
    """
    zoned = [bool(_ZONED.fullmatch(cell)) for cell in cells]
    if all(zoned) or not any(zoned):
        return
    having, lacking = zoned.index(True), zoned.index(False)
    raise ValueError(
        f"{file} line {lines[lacking]}: {cells[lacking].strip()!r} has no zone, but "
        f"{cells[having].strip()!r} in line {lines[having]} has one; give all dates one, or none."
    )


def compact_dates(cells: np.ndarray) -> np.ndarray | None:
    """Times from cells such as 20260301 or 2026030108; None where they are not all such dates."""
    digits = [str(cell).strip() for cell in cells]
    format = COMPACT.get(len(digits[0]))
    if format is None or any(len(one) != len(digits[0]) or not one.isdigit() for one in digits):
        return None
    try:
        found = [datetime.strptime(one, format) for one in digits]
    except ValueError:
        return None
    if not all(YEARS[0] <= one.year <= YEARS[1] for one in found):
        return None
    return np.array(found, dtype="datetime64[us]")
