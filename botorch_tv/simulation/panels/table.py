"""Read a panel from text: comma-separated, perhaps compressed."""

from __future__ import annotations

import csv
import gzip
import re
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

from botorch_tv.simulation.panels.record import Panel
from botorch_tv.validation import require

_GAPS = {"", "na", "n/a", "nan", "null", "none"}
_TIME_NAMES = {"date", "datetime", "time", "timestamp"}
_WHOLE = re.compile(r"\d+")
# A year and a month, or three parts of which the last is a number: 2019-03, 1/3/2019, 1 Mar 2019.
_DATE = re.compile(r"\s*(\d{4}-\d\d?\s*$|(\w+[-/., ]+){2}\d+)")


class _Row(NamedTuple):
    line: int
    cells: list[str]


def read_table(path: Path) -> Panel:
    """Read comma-separated readings, a line per time.

    A column of dates becomes the panel's times, wherever it stands; so does one that is called
    date, datetime, time or timestamp. A first column without a name, which data frames write,
    numbers the rows and is left out. The first line names the arms if it holds text, or if it alone
    holds nothing but different whole numbers, as tables of numbered sensors do. Missing readings
    are empty cells, NA or NaN.

    Args:
        path: A file that ends in ``.csv`` or ``.csv.gz``, in UTF-8.

    Raises:
        ValueError: If lines differ in length, a cell is neither a number nor empty, or there are
            two columns of dates.
    """
    rows = _rows(path)
    require(len(rows) > 0, f"{path.name} is empty; give a line per time and a column per arm.")
    require(
        any(len(row.cells) > 1 or ";" not in row.cells[0] for row in rows),
        f"{path.name} line {rows[0].line}: no line has a comma, but semicolons; write columns with "
        "commas between them, and decimals with points.",
    )
    _require_equal_lengths(path.name, rows)
    first, later = rows[0], rows[1:]
    if _is_header(first, later):
        names = [cell.strip() for cell in first.cells]
        require(len(later) > 0, f"{path.name} has a line of names and no readings below it.")
        rows = later
    else:
        names = [""] * len(first.cells)
    table = np.array([row.cells for row in rows], dtype=np.str_)
    times, columns = None, []
    for place, name in enumerate(names):
        cells = table[:, place]
        if place == 0 and name == "" and rows is later and _are_numbers(cells):
            continue
        dates = _dates(path.name, rows, cells, name)
        if dates is None:
            columns.append(place)
            continue
        require(times is None, f"{path.name} has two columns of dates; leave one out.")
        times = dates
    require(len(columns) > 0, f"{path.name} has no column of readings, only dates.")
    labels = [names[place] or str(number) for number, place in enumerate(columns)]
    values = np.stack(
        [
            _numbers(path.name, rows, place, label, table[:, place])
            for place, label in zip(columns, labels)
        ],
        axis=1,
    )
    return Panel(values, tuple(labels), times)


def _rows(path: Path) -> list[_Row]:
    """The lines that are not blank, with their numbers in the file."""
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            return [_Row(reader.line_num, cells) for cells in reader if cells]
    except (gzip.BadGzipFile, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path.name} cannot be read as a table: {error}") from error


def _require_equal_lengths(file: str, rows: list[_Row]) -> None:
    expected = len(rows[0].cells)
    for row in rows:
        require(
            len(row.cells) == expected,
            f"{file} is ragged: line {row.line} has {len(row.cells)} cells, line {rows[0].line} "
            f"has {expected}; every line needs the same number, an empty cell where a reading is "
            "missing.",
        )


def _is_header(first: _Row, later: list[_Row]) -> bool:
    if any(not _is_number(cell) and not _is_date(cell) for cell in first.cells):
        return True
    if len(set(first.cells)) < len(first.cells) or not later:
        return False
    return _are_whole(first) and not any(_are_whole(row) for row in later)


def _are_whole(row: _Row) -> bool:
    return all(_WHOLE.fullmatch(cell.strip()) for cell in row.cells)


def _is_number(cell: str) -> bool:
    if cell.strip().lower() in _GAPS:
        return True
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _are_numbers(cells: np.ndarray) -> bool:
    return all(_is_number(cell) for cell in cells)


def _is_date(cell: str) -> bool:
    return bool(_DATE.match(cell)) and _as_times([cell]) is not None


def _dates(file: str, rows: list[_Row], cells: np.ndarray, name: str) -> np.ndarray | None:
    """A column as times, or None where it holds readings; its first cell decides."""
    if name.lower() in _TIME_NAMES and _are_numbers(cells):
        return np.array([_value(cell) for cell in cells])
    if not _is_date(str(cells[0])):
        return None
    times = _as_times(cells.tolist())
    if times is None:
        wrong = next((number for number, cell in enumerate(cells) if not _is_date(str(cell))), None)
        raise ValueError(
            f"{file}: its dates are not all written like {str(cells[0])!r}; write them alike."
            if wrong is None
            else f"{file} line {rows[wrong].line}: {str(cells[wrong])!r} is no date, but the "
            f"column starts with {str(cells[0])!r}."
        )
    return times


def _as_times(cells: list[str]) -> np.ndarray | None:
    """Dates in ISO form, else as pandas guesses them, else with the day before the month."""
    import pandas as pd

    for options in ({"format": "ISO8601"}, {}, {"dayfirst": True}):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # it guesses the format aloud
                times = pd.to_datetime(cells, utc=True, **options)
        except (ValueError, OverflowError):
            continue
        return np.asarray(times.tz_convert(None).to_numpy())
    return None


def _numbers(file: str, rows: list[_Row], place: int, label: str, cells: np.ndarray) -> np.ndarray:
    try:
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


def _number(file: str, row: _Row, label: str, cell: str) -> float:
    require(
        _is_number(cell),
        f"{file} line {row.line}, column {label!r}: {cell!r} is no number; leave the cell empty "
        "where a reading is missing.",
    )
    return _value(cell)


def _value(cell: str) -> float:
    return float("nan") if cell.strip().lower() in _GAPS else float(cell)
