"""Load a panel from an `.npz` file, or from a text table in a `.csv` or `.csv.gz` file."""

from __future__ import annotations

import csv
import gzip
import itertools
import os
import re
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from botorch_tv.files import require_regular
from botorch_tv.simulation.panels.record import Panel
from botorch_tv.validation import as_path, require, require_integer

ENDINGS = (".npz", ".csv", ".csv.gz")
_GAPS = {"", "na", "n/a", "nan", "null", "none"}
_TIME_NAMES = {"date", "datetime", "time", "timestamp"}
_DELIMITERS = (";", "\t", ",")
"""The first that gives all lines the same number of cells is used; commas come last, because in
the other formats they may be decimal commas."""
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")
_DECIMAL_POINT = re.compile(r"\s*[+-]?\d*\.\d+([eE][+-]?\d+)?\s*")
_POINTS_AND_COMMA = re.compile(r"\s*[+-]?\d{1,3}(\.\d{3})+,\d*\s*")
_ONE_MARK = re.compile(r"\s*[+-]?[1-9]\d{0,2}([.,])\d{3}\s*")
_INTEGER = re.compile(r"\s*[+-]?\d+\s*")
# A year and a month, or three parts ending in a number: 2019-03, 1/3/2019, 1 Mar 2019.
_DATE = re.compile(r"\s*(\d{4}-\d\d?\s*$|(\w+[-/., ]+){2}\d+)")
_COMPACT = {8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
"""Formats of dates without separators, by the number of their digits."""
_YEARS = range(1900, 2200)
"""Years of such dates. Seconds since 1970, read so, have earlier years or months above 12."""
_ZONED = re.compile(r".*[T\s:]\d\d([.,]\d+)?\s*(Z|UTC|GMT|[+-]\d\d(:?\d\d)?)\s*", re.IGNORECASE)


def load_panel(
    path: str | os.PathLike[str],
    key: str | None = None,
    *,
    axes: Sequence[str] = (),
    times: str | None = None,
    every: int = 1,
) -> Panel:
    """Load a panel: a row per time, a column per arm.

    In an ``.npz`` file the axes after the first are flattened, the last running fastest; other
    arrays of the file may hold positions along each axis and the times of rows.

    Columns of a ``.csv`` or ``.csv.gz`` file in UTF-8 are separated by commas, semicolons or tabs;
    unless commas separate columns, they may be decimal commas. A column of dates becomes the
    panel's times, and so does a column named date, datetime, time or timestamp, in which 20260301
    and 2026030108 are dates, too. A first column without a name, such as the index of a data frame,
    is skipped. The first line names the arms if it holds text, or if it is the only line of
    distinct whole numbers, as in tables of numbered sensors. Missing readings are empty cells, NA
    or NaN. Thousands, decimals, dates and time zones that can be read in two ways are refused, such
    as dates like 1/2/2026 throughout.

    Args:
        path: The file.
        key: Which array of an ``.npz`` file; by default the largest numeric one of at least two
            dimensions.
        axes: The arrays of an ``.npz`` file that hold positions along the axes after the first,
            such as ``("lat", "lon")``. They become the coordinates of the arms, in this order.
        times: The array of an ``.npz`` file that holds the time of each row, or the column of a
            table, by its name or, without names, its number from 0; ``""`` if no column does.
        every: Stride along each axis after the first of an ``.npz`` file, for a coarser grid.

    Raises:
        ValueError: If the extension is unknown, a named array or column is missing or does not fit,
            the file holds no such table, lines differ in length, a cell is neither a number nor
            empty, or a table can be read in two ways.
        FileNotFoundError: If there is no such file.
    """
    path = as_path("load_panel: path", path, "give the name of a file.")
    require(
        path.name.lower().endswith(ENDINGS),
        f"{path.name} cannot be read as a panel: its name must end in {', '.join(ENDINGS)}.",
    )
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}: check the path.")
    every = require_integer("load_panel: every", every, 1, "1 takes all.")
    if path.name.lower().endswith(".npz"):
        return _read_arrays(path, key, axes, times, every)
    require(
        key is None and not axes and every == 1,
        f"{path.name} is a single table, but key is {key!r}, axes are {tuple(axes)} and every is "
        f"{every}; leave them out, since they are for the arrays of .npz files.",
    )
    return _read_table(path, times)


def _read_arrays(
    path: Path, key: str | None, axes: Sequence[str], times: str | None, every: int
) -> Panel:
    # numpy would take any other file for a pickle, and its error would mislead.
    require(
        zipfile.is_zipfile(path), f"{path.name} is damaged or not an .npz file; write it again."
    )
    arrays: dict[str, np.ndarray] = {}
    try:
        with np.load(path, allow_pickle=False) as archive:
            for name in archive.files:
                with suppress(ValueError):  # an array of Python objects
                    arrays[name] = archive[name]
    except (zipfile.BadZipFile, zlib.error, EOFError, MemoryError) as error:
        raise ValueError(f"{path.name} is damaged: {error}; write it again.") from error
    tables = {
        name: array
        for name, array in arrays.items()
        if array.dtype.kind in "iuf" and array.ndim >= 2 and array.size > 0
    }
    chosen = max(tables, key=lambda name: tables[name].size, default="") if key is None else key
    require(
        chosen in tables,
        f"{path.name} has no numeric array {chosen!r} of two or more dimensions, rounds x arms; "
        f"such are: {', '.join(tables) or 'none'}.",
    )
    values = np.asarray(tables[chosen], dtype=np.float64)
    lengths = values.shape[1:]
    require(
        len(axes) in (0, len(lengths)),
        f"axes are {', '.join(axes)}, but {chosen!r} has {len(lengths)} axes after the first; name "
        "an array for each, or none.",
    )

    def vector(name: str, length: int, kinds: str) -> np.ndarray:
        array = arrays.get(name, np.empty(0, dtype=object))
        require(
            array.shape == (length,) and array.dtype.kind in kinds,
            f"{path.name} has no array {name!r} of {length} numbers"
            f"{' or dates' if 'M' in kinds else ''}; it has "
            f"{', '.join(f'{one} {it.dtype} {it.shape}' for one, it in arrays.items())}.",
        )
        return array

    along = [vector(axis, length, "iuf") for axis, length in zip(axes, lengths)]
    rows = None if times is None else vector(times, len(values), "iufmM")
    taken = [np.arange(0, length, every) for length in lengths]
    for number, entries in enumerate(taken, start=1):
        values = values.take(entries, axis=number)
    names = [",".join(map(str, place)) for place in itertools.product(*taken)]
    places = [positions[entries] for positions, entries in zip(along, taken)]
    coordinates = np.array(list(itertools.product(*places)), dtype=np.float64) if along else None
    return Panel(values.reshape(len(values), -1), tuple(names), rows, coordinates)


class Line(NamedTuple):
    """A line of a table, and its number in the file."""

    line: int
    cells: list[str]


def read_lines(path: Path) -> list[Line]:
    """The non-blank lines of a text table, with their numbers in the file and decimal points.

    Raises:
        ValueError: If it is no regular file or no table, or decimals or thousands can be read in
            two ways.
    """
    require_regular(path)
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    tables: dict[str, list[Line]] = {}
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            lines = list(file)
        for delimiter in _DELIMITERS:
            reader = csv.reader(lines, delimiter=delimiter)
            rows = tables[delimiter] = [Line(reader.line_num, cells) for cells in reader if cells]
            if len({len(row.cells) for row in rows}) == 1 and len(rows[0].cells) > 1:
                break
        else:  # lines differ in length, or have one cell: take what separates most in the first
            delimiter = max(reversed(_DELIMITERS), key="".join(lines[:1]).count)
    except (gzip.BadGzipFile, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(
            f"{path.name} cannot be read as a table ({error}); give a CSV file in UTF-8."
        ) from error
    return tables[","] if delimiter == "," else _with_points(path.name, tables[delimiter])


def _with_points(file: str, rows: list[Line]) -> list[Line]:
    """Replace decimal commas by points; refuse what may be decimals or thousands."""
    if len({len(row.cells) for row in rows}) == 1:
        for place, label in enumerate(rows[0].cells):
            column = {row.line: row.cells[place] for row in rows[1:]}
            marked = [line for line, cell in column.items() if "," in cell or "." in cell]
            require(
                not marked
                or not all(_ONE_MARK.fullmatch(column[line]) for line in marked)
                or not any(_INTEGER.fullmatch(cell) for cell in column.values()),
                f"{file} line {min(marked, default=0)}, column {label!r}: "
                f"{column.get(min(marked, default=0), '').strip()!r} may have a thousands "
                "separator, because other cells are whole numbers, or be a decimal; write "
                "thousands without a separator, or all decimals with the same number of digits.",
            )
    found: dict[re.Pattern[str], list[tuple[int, str]]] = {}
    for line, cells in rows:
        for pattern in (_POINTS_AND_COMMA, _DECIMAL_COMMA, _DECIMAL_POINT):
            found.setdefault(pattern, []).extend((line, c) for c in cells if pattern.fullmatch(c))
    for line, cell in found.get(_POINTS_AND_COMMA, []):
        raise ValueError(
            f"{file} line {line}: {cell!r} has points as thousands separators; write it without "
            "them."
        )
    commas, points = found.get(_DECIMAL_COMMA), found.get(_DECIMAL_POINT)
    if commas and points:
        raise ValueError(
            f"{file} has decimal commas, as in line {commas[0][0]}, and numbers with points, as "
            f"{points[0][1]!r} in line {points[0][0]}, which may be decimals or thousands; write "
            "all of them alike."
        )
    return [
        Line(line, [c.replace(",", ".") if _DECIMAL_COMMA.fullmatch(c) else c for c in cells])
        for line, cells in rows
    ]


def _read_table(path: Path, times: str | None) -> Panel:
    file, rows = path.name, read_lines(path)
    require(len(rows) > 0, f"{file} is empty; it needs a line per time and a column per arm.")
    width = len(rows[0].cells)
    for row in rows:
        require(
            len(row.cells) == width,
            f"{file} is ragged: line {row.line} has {len(row.cells)} cells, line {rows[0].line} "
            f"has {width}; every line needs the same number, an empty cell where a reading is "
            "missing.",
        )
    headed = _is_header(rows[0], rows[1:])
    names = [cell.strip() if headed else "" for cell in rows[0].cells]
    rows = rows[1:] if headed else rows
    require(len(rows) > 0, f"{file} has a line of names but no readings; add some below.")
    called = [name or str(place) for place, name in enumerate(names)]
    require(
        not times or called.count(times) == 1,
        f"{file} does not have exactly one column {times!r} for times; its columns are "
        f"{', '.join(called[:8])}{', ...' if len(called) > 8 else ''}.",
    )
    moments: list[np.ndarray] = []
    readings: dict[int, list[str]] = {}
    for place, name in enumerate(names):
        cells = [row.cells[place] for row in rows]
        index = place == 0 and headed and name == "" and _are_numbers(cells)  # of a data frame
        if called[place] == times or (times is None and not index):
            found = _times(file, rows, cells, called[place] == times or name.lower() in _TIME_NAMES)
            if found is not None:
                moments.append(found)
                continue
            require(
                called[place] != times,
                f"{file}, column {times!r}: {cells[0]!r} is neither a number nor a date; give "
                "times as numbers, or as dates such as 2026-03-01.",
            )
        if not index:
            readings[place] = cells
    require(len(moments) < 2, f"{file} has two columns of dates; leave one out.")
    require(len(readings) > 0, f"{file} has only dates; add a column of readings.")
    labels = tuple(names[place] or str(number) for number, place in enumerate(readings))
    values = np.empty((len(rows), len(readings)))
    for number, (label, cells) in enumerate(zip(labels, readings.values())):
        for place, cell in enumerate(cells):
            reading = _number(cell)
            if reading is None:
                raise ValueError(
                    f"{file} line {rows[place].line}, column {label!r}: {cell!r} is not a number; "
                    "leave the cell empty where a reading is missing."
                )
            values[place, number] = reading
    return Panel(values, labels, moments[0] if moments else None)


def _is_header(first: Line, later: list[Line]) -> bool:
    """Whether a line has a name, or is the only one of distinct whole numbers."""
    if any(_number(cell) is None and not _is_date(cell) for cell in first.cells):
        return True
    if len(set(first.cells)) < len(first.cells) or not later:
        return False
    whole = [all(cell.strip().isdigit() for cell in row.cells) for row in (first, *later)]
    return whole[0] and not any(whole[1:])


def _number(cell: str) -> float | None:
    """A reading, NaN where it is missing; None if the cell is neither."""
    if cell.strip().lower() in _GAPS:
        return float("nan")
    try:
        return None if "_" in cell else float(cell)  # Python alone reads 1_000 as a number
    except ValueError:
        return None


def _are_numbers(cells: list[str]) -> bool:
    return all(_number(cell) is not None for cell in cells)


def _is_date(cell: str) -> bool:
    return bool(_DATE.match(cell)) and len(_readings([cell])) > 0


def _times(file: str, rows: list[Line], cells: list[str], named: bool) -> np.ndarray | None:
    """A column as times, or None if it holds readings; unless it is named, its first cell decides.

    Args:
        file: Name of the file.
        rows: Its rows, for their numbers.
        cells: The column.
        named: Whether numbers are times.
    """
    if named and _are_numbers(cells):
        dates = _compact_dates(cells)
        return np.array([_number(cell) for cell in cells], dtype=float) if dates is None else dates
    if not _is_date(cells[0]):
        return None
    readings = _readings(cells)
    if not readings:
        wrong = next((number for number, cell in enumerate(cells) if not _is_date(cell)), None)
        raise ValueError(
            f"{file}: not all dates are written like {cells[0]!r}; write them alike."
            if wrong is None
            else f"{file} line {rows[wrong].line}: {cells[wrong]!r} is not a date, but the column "
            f"starts with {cells[0]!r}; write a date."
        )
    if len(readings) > 1:
        row = int(np.flatnonzero(readings[0] != readings[1])[0])
        days = " or ".join(str(one[row].astype("datetime64[D]")) for one in readings)
        raise ValueError(
            f"{file} line {rows[row].line}: {cells[row]!r} may be {days}, and no row decides "
            "which; write the year first, as in 2026-03-01."
        )
    zoned = [bool(_ZONED.fullmatch(cell)) for cell in cells]
    if any(zoned) and not all(zoned):  # those without one would be read as UTC
        having, lacking = zoned.index(True), zoned.index(False)
        raise ValueError(
            f"{file} line {rows[lacking].line}: {cells[lacking].strip()!r} has no time zone, but "
            f"{cells[having].strip()!r} in line {rows[having].line} has one; give all dates one, "
            "or none."
        )
    return readings[0]


def _readings(cells: list[str]) -> list[np.ndarray]:
    """The possible meanings of dates: one for ISO dates, else month first and day first."""
    iso = _as_times(cells, format="ISO8601")
    if iso is not None:
        return [iso]
    both = [_as_times(cells), _as_times(cells, dayfirst=True)]
    found = [one for one in both if one is not None]
    return found[:1] if all(np.array_equal(found[0], one) for one in found) else found


def _as_times(cells: list[str], **options: Any) -> np.ndarray | None:
    """Dates as pandas reads them; None if it cannot."""
    import pandas as pd

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # pandas warns when it guesses a format
            times = pd.to_datetime(cells, utc=True, **options)
    except (ValueError, OverflowError):
        return None
    return np.asarray(times.tz_convert(None).to_numpy())


def _compact_dates(cells: list[str]) -> np.ndarray | None:
    """Times from cells such as 20260301 or 2026030108; None unless all cells are such dates."""
    digits = [cell.strip() for cell in cells]
    format = _COMPACT.get(len(digits[0]))
    if format is None or any(len(one) != len(digits[0]) or not one.isdigit() for one in digits):
        return None
    try:
        found = [datetime.strptime(one, format) for one in digits]
    except ValueError:
        return None
    if not all(one.year in _YEARS for one in found):
        return None
    return np.array(found, dtype="datetime64[us]")
