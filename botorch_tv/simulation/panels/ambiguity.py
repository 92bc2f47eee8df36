"""Refuse tables that can be read in two ways, because the wrong one would give wrong numbers."""

from __future__ import annotations

import re
from datetime import datetime

import numpy as np

FEWEST_RISES = 8
"""A column that rises this often in a row probably holds times: by chance, one in 40,000 does."""
NUMBERED = 3
"""A first line of at least this many numbers 1, 2, 3, ... or 0, 1, 2, ... probably numbers the
columns; one more number is needed if it starts elsewhere."""
TIME_PARTS = {"year", "month", "day", "weekday", "hour", "minute", "second"}
COMPACT = {8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
"""Formats of dates without separators, by the number of their digits."""
YEARS = (1900, 2199)
"""Years of such dates. Seconds since 1970, read so, have earlier years or months above 12."""
_THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2}([.,])\d{3}\s*")
_WHOLE = re.compile(r"\s*[+-]?\d+\s*")
_ZONED = re.compile(r".*[T\s:]\d\d([.,]\d+)?\s*(Z|UTC|GMT|[+-]\d\d(:?\d\d)?)\s*", re.IGNORECASE)


def refuse_hidden_times(file: str, names: list[str], values: np.ndarray) -> None:
    """Refuse numeric columns that are probably times, which would be played as the best arm.

    Raises:
        ValueError: If a column seems to hold times, or a part of them.
    """
    for place, name in enumerate(names):
        column = values[:, place]
        known = column[~np.isnan(column)]
        if name.strip().lower() in TIME_PARTS and (known == np.rint(known)).all():
            raise ValueError(
                f"{file}: column {name!r} holds whole numbers and is named like a part of a date, "
                "but times must be one column; write them as 2026-03-01T08:30, or, if the column "
                "is an arm, give times='' (--times '')."
            )
    rising = (np.diff(values, axis=0) > 0).all(0)
    if len(values) <= FEWEST_RISES or rising.all() or not rising.any():
        return
    name = names[int(np.flatnonzero(rising)[0])]
    raise ValueError(
        f"{file}: column {name!r} rises from every row to the next, as times do, but is not named "
        f"time. If it holds times, give times={name!r} (--times on the command line) or name it "
        "time; if it is an arm, give times=''."
    )


def refuse_hidden_header(file: str, values: np.ndarray) -> None:
    """Refuse a first row that probably numbers the columns, but would be read as readings.

    Args:
        file: Name of the file.
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
        return  # other rows rise, too, so the arms are ordered
    raise ValueError(
        f"{file}: the first line, {first[0]:.0f}, {first[1]:.0f}, {first[2]:.0f}, ..., rises from "
        "column to column, as numbers of sensors do, while other lines do not. If it names "
        "columns, use names with letters, such as s1; if it holds readings, put a line of names "
        "above it."
    )


def refuse_hidden_thousands(file: str, label: str, lines: list[int], cells: list[str]) -> None:
    """Refuse numbers such as 1.250 beside 980, which may be 1250 or 1.25.

    Args:
        file: Name of the file.
        label: Name of the column.
        lines: Line number of each cell.
        cells: The text of the cells of one column.

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
        f"{file} line {lines[first]}, column {label!r}: {cells[first].strip()!r} may have a "
        "thousands separator, because other cells are whole numbers, or be a decimal; write "
        "thousands without a separator, or all decimals with the same number of digits."
    )


def refuse_mixed_zones(file: str, lines: list[int], cells: list[str]) -> None:
    """Refuse dates without a time zone beside dates with one; they would be read as UTC.

    Args:
        file: Name of the file.
        lines: Line number of each cell.
        cells: The text of the dates in one column.

    Raises:
        ValueError: If some have a time zone and others have none.
    """
    zoned = [bool(_ZONED.fullmatch(cell)) for cell in cells]
    if all(zoned) or not any(zoned):
        return
    having, lacking = zoned.index(True), zoned.index(False)
    raise ValueError(
        f"{file} line {lines[lacking]}: {cells[lacking].strip()!r} has no time zone, but "
        f"{cells[having].strip()!r} in line {lines[having]} has one; give all dates one, or none."
    )


def compact_dates(cells: np.ndarray) -> np.ndarray | None:
    """Times from cells such as 20260301 or 2026030108; None unless all cells are such dates."""
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
