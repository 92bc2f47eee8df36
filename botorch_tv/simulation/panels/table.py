"""Read a panel from text: columns with commas, semicolons or tabs between, perhaps compressed."""

from __future__ import annotations

import csv
import gzip
import re
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from botorch_tv.simulation.panels.doubts import (
    compact_dates,
    refuse_hidden_header,
    refuse_hidden_thousands,
    refuse_hidden_times,
    refuse_mixed_zones,
)
from botorch_tv.simulation.panels.record import Panel
from botorch_tv.simulation.panels.room import require_room
from botorch_tv.validation import require

_GAPS = {"", "na", "n/a", "nan", "null", "none"}
_TIME_NAMES = {"date", "datetime", "time", "timestamp"}
_DELIMITERS = (";", "\t", ",")
"""The first that cuts all lines into as many cells; commas come last, for with the others they may
stand in numbers."""
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")
_DECIMAL_POINT = re.compile(r"\s*[+-]?\d*\.\d+([eE][+-]?\d+)?\s*")
_THOUSANDS = re.compile(r"\s*[+-]?\d{1,3}(\.\d{3})+,\d*\s*")
_WHOLE = re.compile(r"\d+")
# A year and a month, or three parts of which the last is a number: 2019-03, 1/3/2019, 1 Mar 2019.
_DATE = re.compile(r"\s*(\d{4}-\d\d?\s*$|(\w+[-/., ]+){2}\d+)")


class Line(NamedTuple):
    """A line of a table, and its number in the file."""

    line: int
    cells: list[str]


def read_table(path: Path, times: str | None = None) -> Panel:
    """Read readings, a line per time.

    Between the columns are commas, semicolons or tabs; where there are no commas between columns,
    they may stand for the points of decimals. A column of dates becomes the panel's times, wherever
    it stands; so does one that is called date, datetime, time or timestamp. A first column without
    a name, which data frames write, numbers the rows and is left out. The first line names the arms
    if it holds text, or if it alone holds nothing but different whole numbers, as tables of
    numbered sensors do. Missing readings are empty cells, NA or NaN. Times such as 20260301 or
    2026030108 are dates. Dates such as 1/2/2026, whose month may come first or second in all rows,
    are refused, and so is what else may be read in two ways; see
    :mod:`botorch_tv.simulation.panels.doubts`.

    Args:
        path: A file that ends in ``.csv`` or ``.csv.gz``, in UTF-8.
        times: The name of the column of times, or its place counted from 0 where columns have no
            names; ``""`` says that there is none. It is looked for unless given.

    Raises:
        ValueError: If lines differ in length, a cell is neither a number nor empty, dates or
            thousands may be read in two ways, some dates alone have a zone, there are two columns
            of dates, no column of the name, one that may be times or an arm, or a first line of
            names or readings.
    """
    rows = read_lines(path)
    require(len(rows) > 0, f"{path.name} is empty; give a line per time and a column per arm.")
    _require_equal_lengths(path.name, rows)
    names = [""] * len(rows[0].cells)
    headed = _is_header(rows[0], rows[1:])
    if headed:
        names = [cell.strip() for cell in rows[0].cells]
        rows = rows[1:]
        require(len(rows) > 0, f"{path.name} has a line of names and no readings below it.")
    table = np.array([row.cells for row in rows], dtype=np.str_)
    called = [name or str(place) for place, name in enumerate(names)]
    require(
        times is None or times == "" or called.count(times) == 1,
        f"{path.name} has no column {times!r} alone to take times from; it has "
        f"{', '.join(called[:8])}{', ...' if len(called) > 8 else ''}.",
    )
    dates: dict[int, np.ndarray] = {}
    columns: list[int] = []
    for place, name in enumerate(names):
        cells = table[:, place]
        found: np.ndarray | None = None
        if times is not None and called[place] == times:
            found = _named_times(path.name, rows, cells, times)
        elif place == 0 and name == "" and headed and _are_numbers(cells):
            continue  # the numbers of rows
        elif times is None:
            found = _dates(path.name, rows, cells, name)
        if found is None:
            columns.append(place)
        else:
            dates[place] = found
            require(len(dates) < 2, f"{path.name} has two columns of dates; leave one out.")
    require(len(columns) > 0, f"{path.name} has no column of readings, only dates.")
    labels = [names[place] or str(number) for number, place in enumerate(columns)]
    readings = [
        _numbers(path.name, rows, place, label, table[:, place])
        for place, label in zip(columns, labels)
    ]
    values = np.stack(readings, axis=1)
    if not dates and times is None:
        refuse_hidden_times(path.name, [called[place] for place in columns], values)
    if not headed and not dates:
        refuse_hidden_header(path.name, values)
    return Panel(values, tuple(labels), next(iter(dates.values()), None))


CELL_BYTES = 20
"""Bytes of memory for a character of a table, as its cells take them while it is read."""


def read_lines(path: Path) -> list[Line]:
    """The lines that are not blank, with their numbers in the file and points in decimals.

    Raises:
        ValueError: If it is no table, or decimals or thousands may be read in two ways.
    """
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            lines, length = [], 0
            for line in file:
                lines.append(line)
                length += len(line)
                require_room(path.name, CELL_BYTES * length)
        for delimiter in _DELIMITERS:
            reader = csv.reader(lines, delimiter=delimiter)
            rows = [Line(reader.line_num, cells) for cells in reader if cells]
            if len({len(row.cells) for row in rows}) == 1 and len(rows[0].cells) > 1:
                break
        else:  # whatever separates most cells of the first line; the lines differ, or have one
            delimiter = max(reversed(_DELIMITERS), key="".join(lines[:1]).count)
            reader = csv.reader(lines, delimiter=delimiter)
            rows = [Line(reader.line_num, cells) for cells in reader if cells]
    except (gzip.BadGzipFile, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path.name} cannot be read as a table: {error}") from error
    return rows if delimiter == "," else _with_points(path.name, rows)


def _with_points(file: str, rows: list[Line]) -> list[Line]:
    """Decimals written with points, where they may be written with commas."""
    if len({len(row.cells) for row in rows}) == 1:
        for place, label in enumerate(rows[0].cells):
            lines, cells = [row.line for row in rows[1:]], [row.cells[place] for row in rows[1:]]
            refuse_hidden_thousands(file, label, lines, cells)
    for row in rows:
        thousands = [cell for cell in row.cells if _THOUSANDS.fullmatch(cell)]
        require(
            not thousands,
            f"{file} line {row.line}: {''.join(thousands[:1])!r} has points between thousands; "
            "write it without them.",
        )
    commas = [row for row in rows if any(_DECIMAL_COMMA.fullmatch(cell) for cell in row.cells)]
    if not commas:
        return rows
    for row in rows:
        pointed = [cell for cell in row.cells if _DECIMAL_POINT.fullmatch(cell)]
        require(
            not pointed,
            f"{file} has decimals with commas, as in line {commas[0].line}, and numbers with "
            f"points, as {''.join(pointed[:1])!r} in line {row.line}, which may be decimals or "
            "thousands; write them alike.",
        )
    return [
        Line(line, [c.replace(",", ".") if _DECIMAL_COMMA.fullmatch(c) else c for c in cells])
        for line, cells in rows
    ]


def _named_times(file: str, rows: list[Line], cells: np.ndarray, name: str) -> np.ndarray:
    if _are_numbers(cells):
        return _counted(cells)
    times = _dates(file, rows, cells, name)
    if times is None:
        raise ValueError(
            f"{file}, column {name!r}: {str(cells[0])!r} is neither a number nor a date."
        )
    return times


def _require_equal_lengths(file: str, rows: list[Line]) -> None:
    expected = len(rows[0].cells)
    for row in rows:
        require(
            len(row.cells) == expected,
            f"{file} is ragged: line {row.line} has {len(row.cells)} cells, line {rows[0].line} "
            f"has {expected}; every line needs the same number, an empty cell where a reading is "
            "missing.",
        )


def _is_header(first: Line, later: list[Line]) -> bool:
    if any(not _is_number(cell) and not _is_date(cell) for cell in first.cells):
        return True
    if len(set(first.cells)) < len(first.cells) or not later:
        return False
    return _are_whole(first) and not any(_are_whole(row) for row in later)


def _are_whole(row: Line) -> bool:
    return all(_WHOLE.fullmatch(cell.strip()) for cell in row.cells)


def _is_number(cell: str) -> bool:
    if cell.strip().lower() in _GAPS:
        return True
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # 1_000 is one in Python alone


def _are_numbers(cells: np.ndarray) -> bool:
    return all(_is_number(cell) for cell in cells)


def _is_date(cell: str) -> bool:
    return bool(_DATE.match(cell)) and len(_readings([cell])) > 0


def _dates(file: str, rows: list[Line], cells: np.ndarray, name: str) -> np.ndarray | None:
    """A column as times, or None where it holds readings; its first cell decides."""
    if name.lower() in _TIME_NAMES and _are_numbers(cells):
        return _counted(cells)
    if not _is_date(str(cells[0])):
        return None
    readings = _readings(cells.tolist())
    if not readings:
        wrong = next((number for number, cell in enumerate(cells) if not _is_date(str(cell))), None)
        raise ValueError(
            f"{file}: its dates are not all written like {str(cells[0])!r}; write them alike."
            if wrong is None
            else f"{file} line {rows[wrong].line}: {str(cells[wrong])!r} is no date, but the "
            f"column starts with {str(cells[0])!r}."
        )
    if len(readings) > 1:
        row = int(np.flatnonzero(readings[0] != readings[1])[0])
        days = " or ".join(str(one[row].astype("datetime64[D]")) for one in readings)
        raise ValueError(
            f"{file} line {rows[row].line}: {str(cells[row])!r} may be {days}, and no row tells "
            "which; write the year first, as in 2026-03-01."
        )
    refuse_mixed_zones(file, [row.line for row in rows], cells.tolist())
    return readings[0]


def _counted(cells: np.ndarray) -> np.ndarray:
    """Times told by numbers, or by dates that look like one."""
    dates = compact_dates(cells)
    return np.array([_value(cell) for cell in cells]) if dates is None else dates


def _readings(cells: list[str]) -> list[np.ndarray]:
    """What times dates may mean: in ISO form one, else with the month before the day, or behind."""
    iso = _as_times(cells, format="ISO8601")
    if iso is not None:
        return [iso]
    both = [_as_times(cells), _as_times(cells, dayfirst=True)]
    found = [one for one in both if one is not None]
    return found[:1] if all(np.array_equal(found[0], one) for one in found) else found


def _as_times(cells: list[str], **options: Any) -> np.ndarray | None:
    """Dates as pandas reads them; None if it does not."""
    import pandas as pd

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # it guesses the format aloud
            times = pd.to_datetime(cells, utc=True, **options)
    except (ValueError, OverflowError):
        return None
    return np.asarray(times.tz_convert(None).to_numpy())


def _numbers(file: str, rows: list[Line], place: int, label: str, cells: np.ndarray) -> np.ndarray:
    try:
        require(not (np.char.find(cells, "_") >= 0).any(), "numbers as Python writes them")
        values = cells.astype(np.float64)
    except ValueError:
        values = np.array([_number(file, row, label, row.cells[place]) for row in rows])
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        row = rows[infinite[0]]
        raise ValueError(
            f"{file} line {row.line}, column {label!r}: {row.cells[place]!r} is infinite; leave "
            "the cell empty where a reading is missing."
        )
    return np.asarray(values)


def _number(file: str, row: Line, label: str, cell: str) -> float:
    require(
        _is_number(cell),
        f"{file} line {row.line}, column {label!r}: {cell!r} is no number; leave the cell empty "
        "where a reading is missing.",
    )
    return _value(cell)


def _value(cell: str) -> float:
    return float("nan") if cell.strip().lower() in _GAPS else float(cell)
