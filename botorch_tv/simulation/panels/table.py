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
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from botorch_tv.files import require_regular
from botorch_tv.memory import free_bytes
from botorch_tv.simulation.panels.record import Panel
from botorch_tv.validation import as_path, require, require_integer

ENDINGS = (".npz", ".csv", ".csv.gz")


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
    arrays of the file may hold positions along each axis and the times of rows. In a ``.csv`` or
    ``.csv.gz`` file a column of dates is recognised, empty cells are missing readings and the first
    line may name the arms; see :func:`botorch_tv.simulation.panels.table.read_table`.

    Args:
        path: The file.
        key: Which array of an ``.npz`` file; by default the largest numeric one of at least two
            dimensions.
        axes: The arrays of an ``.npz`` file that hold positions along the axes after the first,
            such as ``("lat", "lon")``. They become the coordinates of the arms, in this order.
        times: The array of an ``.npz`` file that holds the time of each row, or the column of a
            table; ``""`` if no column of a table does.
        every: Stride along each axis after the first of an ``.npz`` file, for a coarser grid.

    Raises:
        ValueError: If the extension is unknown, a named array is missing or does not fit, or the
            file holds no such table.
        FileNotFoundError: If there is no such file.
    """
    path = as_path("load_panel: path", path, "give the name of a file.")
    ending = next((one for one in sorted(ENDINGS, key=len) if path.name.lower().endswith(one)), "")
    require(
        ending != "",
        f"{path.name} cannot be read as a panel: its name must end in {', '.join(ENDINGS)}.",
    )
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}: check the path.")
    if ending == ".npz":
        every = require_integer("load_panel: every", every, 1, "1 takes all.")
        return _read_arrays(path, key, axes, times, every)
    for name, given, usual in (
        ("key", key, None),
        ("axes", tuple(axes), ()),
        ("every", every, 1),
    ):
        require(
            given == usual,
            f"{name} is {given!r}, but {path.name} is a single table; leave {name} out, which is "
            "for the arrays of .npz files.",
        )
    return read_table(path, times)


def _read_arrays(
    path: Path, key: str | None, axes: Sequence[str], times: str | None, every: int
) -> Panel:
    # numpy would take any other file for a pickle, and its error would mislead.
    require(
        zipfile.is_zipfile(path), f"{path.name} is damaged or not an .npz file; write it again."
    )
    try:
        with zipfile.ZipFile(path) as packed:  # file_size is the unpacked size
            require_room(path.name, 3 * sum(one.file_size for one in packed.infolist()))
        with np.load(path, allow_pickle=False) as archive:
            shapes = _numeric_shapes(archive)
            name = _chosen(path.name, list(archive.files), shapes, key)
            values = np.asarray(archive[name], dtype=np.float64)
            lengths = values.shape[1:]
            require(
                len(axes) in (0, len(lengths)),
                f"axes are {', '.join(axes)}, but {name!r} has {len(lengths)} axes after the "
                "first; name an array for each, or none.",
            )
            along = [_vector(path.name, archive, axis, n) for axis, n in zip(axes, lengths)]
            rows = None if times is None else _vector(path.name, archive, times, len(values), "mM")
    except (zipfile.BadZipFile, zlib.error, EOFError, MemoryError) as error:
        raise ValueError(f"{path.name} is damaged: {error}; write it again.") from error
    kept = [np.arange(0, length, every) for length in lengths]
    for number, entries in enumerate(kept, start=1):
        values = values.take(entries, axis=number)
    names = [",".join(map(str, place)) for place in itertools.product(*kept)]
    coordinates = None
    if along:
        places = [positions[entries] for positions, entries in zip(along, kept)]
        coordinates = np.array(list(itertools.product(*places)), dtype=np.float64)
    return Panel(values.reshape(len(values), -1), tuple(names), rows, coordinates)


def _vector(
    file: str, archive: np.lib.npyio.NpzFile, name: str, length: int, dates: str = ""
) -> np.ndarray:
    """An array of ``length`` numbers, or of the ``dates`` kinds."""
    require(
        name in archive.files,
        f"{file} has no array {name!r}; give one of {', '.join(archive.files)}.",
    )
    try:
        array = np.asarray(archive[name])
    except ValueError as error:
        raise ValueError(
            f"array {name!r} of {file} holds Python objects; save numbers instead."
        ) from error
    require(
        array.shape == (length,) and array.dtype.kind in "iuf" + dates,
        f"array {name!r} of {file} is {array.dtype} of shape {array.shape}; it must hold {length} "
        f"numbers{' or dates' if dates else ''}.",
    )
    return array


def _numeric_shapes(archive: np.lib.npyio.NpzFile) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays that could be panels; arrays of Python objects are skipped."""
    shapes = {}
    for name in archive.files:
        try:
            array = archive[name]
        except ValueError:
            continue
        if array.dtype.kind in "iuf" and array.ndim >= 2 and array.size > 0:
            shapes[name] = array.shape
    return shapes


def _chosen(
    file: str, names: list[str], shapes: dict[str, tuple[int, ...]], key: str | None
) -> str:
    if key is None:
        require(
            len(shapes) > 0,
            f"{file} has no numeric array of two or more dimensions, rounds x arms; it holds only "
            f"{', '.join(names) or 'nothing'}. Save the readings as such an array.",
        )
        return max(shapes, key=lambda name: int(np.prod(shapes[name])))
    require(key in names, f"{file} has no key {key!r}; give one of {', '.join(names)}.")
    require(
        key in shapes,
        f"key {key!r} of {file} is not a numeric array of two or more dimensions, rounds x arms"
        + (f"; choose one of {', '.join(shapes)}." if shapes else "."),
    )
    return key


# Text tables.

_GAPS = {"", "na", "n/a", "nan", "null", "none"}
_TIME_NAMES = {"date", "datetime", "time", "timestamp"}
_DELIMITERS = (";", "\t", ",")
"""The first that gives all lines the same number of cells is used; commas come last, because in
the other formats they may be decimal commas."""
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")
_DECIMAL_POINT = re.compile(r"\s*[+-]?\d*\.\d+([eE][+-]?\d+)?\s*")
_THOUSANDS = re.compile(r"\s*[+-]?\d{1,3}(\.\d{3})+,\d*\s*")
_WHOLE = re.compile(r"\d+")
# A year and a month, or three parts ending in a number: 2019-03, 1/3/2019, 1 Mar 2019.
_DATE = re.compile(r"\s*(\d{4}-\d\d?\s*$|(\w+[-/., ]+){2}\d+)")


class Line(NamedTuple):
    """A line of a table, and its number in the file."""

    line: int
    cells: list[str]


def read_table(path: Path, times: str | None = None) -> Panel:
    """Read a table with a line per time.

    Columns are separated by commas, semicolons or tabs; unless commas separate columns, they may be
    decimal commas. A column of dates becomes the panel's times, and so does a column named date,
    datetime, time or timestamp. A first column without a name, such as the index of a data frame,
    is skipped. The first line names the arms if it holds text, or if it is the only one of distinct
    whole numbers, as in tables of numbered sensors. Missing readings are empty cells, NA or NaN.
    Times such as 20260301 or 2026030108 are dates. Whatever can be read in two ways is refused,
    such as dates like 1/2/2026 throughout; see :mod:`botorch_tv.simulation.panels.table`.

    Args:
        path: A file that ends in ``.csv`` or ``.csv.gz``, in UTF-8.
        times: The name of the column of times, or its number from 0 if columns have no names;
            ``""`` if there is none. By default it is detected.

    Raises:
        ValueError: If lines differ in length, a cell is neither a number nor empty, only some dates
            have a time zone, there are two columns of dates or none of the given name, or dates,
            thousands, times or names can be read in two ways.
    """
    rows = read_lines(path)
    require(len(rows) > 0, f"{path.name} is empty; it needs a line per time and a column per arm.")
    _require_equal_lengths(path.name, rows)
    names = [""] * len(rows[0].cells)
    headed = _is_header(rows[0], rows[1:])
    if headed:
        names = [cell.strip() for cell in rows[0].cells]
        rows = rows[1:]
        require(len(rows) > 0, f"{path.name} has a line of names but no readings; add some below.")
    table = np.array([row.cells for row in rows], dtype=np.str_)
    called = [name or str(place) for place, name in enumerate(names)]
    require(
        times is None or times == "" or called.count(times) == 1,
        f"{path.name} does not have exactly one column {times!r} for times; its columns are "
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
            continue  # the index of a data frame
        elif times is None:
            found = _dates(path.name, rows, cells, name)
        if found is None:
            columns.append(place)
        else:
            dates[place] = found
            require(len(dates) < 2, f"{path.name} has two columns of dates; leave one out.")
    require(len(columns) > 0, f"{path.name} has only dates; add a column of readings.")
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
"""Memory per character of a table while it is read."""
UNCHECKED_BYTES = 2**26
"""Files that need at most this much memory are read without asking how much is free."""


def require_room(file: str, needed: int) -> None:
    """Raise a ``ValueError`` if reading a file needs more memory than is free.

    Args:
        file: Name of the file.
        needed: Bytes.
    """
    if needed <= UNCHECKED_BYTES:
        return
    free = free_bytes(torch.device("cpu"))
    require(
        needed <= free,
        f"{file} needs at least {needed / 1e9:.3g} GB of memory to read, but only {free / 1e9:.3g} "
        "GB are free; check that it is a panel, or keep fewer rows or columns in it.",
    )


def read_lines(path: Path) -> list[Line]:
    """The non-blank lines, with their numbers in the file and decimal points.

    Raises:
        ValueError: If it is no regular file or no table, or decimals or thousands can be read in
            two ways.
    """
    require_regular(path)
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
        else:  # lines differ in length, or have one cell: take what separates most in the first
            delimiter = max(reversed(_DELIMITERS), key="".join(lines[:1]).count)
            reader = csv.reader(lines, delimiter=delimiter)
            rows = [Line(reader.line_num, cells) for cells in reader if cells]
    except (gzip.BadGzipFile, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(
            f"{path.name} cannot be read as a table ({error}); give a CSV file in UTF-8."
        ) from error
    return rows if delimiter == "," else _with_points(path.name, rows)


def _with_points(file: str, rows: list[Line]) -> list[Line]:
    """Replace decimal commas by points."""
    if len({len(row.cells) for row in rows}) == 1:
        for place, label in enumerate(rows[0].cells):
            lines, cells = [row.line for row in rows[1:]], [row.cells[place] for row in rows[1:]]
            refuse_hidden_thousands(file, label, lines, cells)
    for row in rows:
        thousands = [cell for cell in row.cells if _THOUSANDS.fullmatch(cell)]
        require(
            not thousands,
            f"{file} line {row.line}: {''.join(thousands[:1])!r} has points as thousands "
            "separators; write it without them.",
        )
    commas = [row for row in rows if any(_DECIMAL_COMMA.fullmatch(cell) for cell in row.cells)]
    if not commas:
        return rows
    for row in rows:
        pointed = [cell for cell in row.cells if _DECIMAL_POINT.fullmatch(cell)]
        require(
            not pointed,
            f"{file} has decimal commas, as in line {commas[0].line}, and numbers with points, as "
            f"{''.join(pointed[:1])!r} in line {row.line}, which may be decimals or thousands; "
            "write all of them alike.",
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
            f"{file}, column {name!r}: {str(cells[0])!r} is neither a number nor a date; give "
            "times as numbers, or as dates such as 2026-03-01."
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
    return "_" not in cell  # Python alone reads 1_000 as a number


def _are_numbers(cells: np.ndarray) -> bool:
    return all(_is_number(cell) for cell in cells)


def _is_date(cell: str) -> bool:
    return bool(_DATE.match(cell)) and len(_readings([cell])) > 0


def _dates(file: str, rows: list[Line], cells: np.ndarray, name: str) -> np.ndarray | None:
    """A column as times, or None if it holds readings; its first cell decides."""
    if name.lower() in _TIME_NAMES and _are_numbers(cells):
        return _counted(cells)
    if not _is_date(str(cells[0])):
        return None
    readings = _readings(cells.tolist())
    if not readings:
        wrong = next((number for number, cell in enumerate(cells) if not _is_date(str(cell))), None)
        raise ValueError(
            f"{file}: not all dates are written like {str(cells[0])!r}; write them alike."
            if wrong is None
            else f"{file} line {rows[wrong].line}: {str(cells[wrong])!r} is not a date, but the "
            f"column starts with {str(cells[0])!r}; write a date."
        )
    if len(readings) > 1:
        row = int(np.flatnonzero(readings[0] != readings[1])[0])
        days = " or ".join(str(one[row].astype("datetime64[D]")) for one in readings)
        raise ValueError(
            f"{file} line {rows[row].line}: {str(cells[row])!r} may be {days}, and no row decides "
            "which; write the year first, as in 2026-03-01."
        )
    refuse_mixed_zones(file, [row.line for row in rows], cells.tolist())
    return readings[0]


def _counted(cells: np.ndarray) -> np.ndarray:
    """Times given as numbers, or as dates without separators."""
    dates = compact_dates(cells)
    return np.array([_value(cell) for cell in cells]) if dates is None else dates


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
        f"{file} line {row.line}, column {label!r}: {cell!r} is not a number; leave the cell empty "
        "where a reading is missing.",
    )
    return _value(cell)


def _value(cell: str) -> float:
    return float("nan") if cell.strip().lower() in _GAPS else float(cell)


# Tables that can be read in two ways are refused: the wrong one would give wrong numbers.

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
_ONE_MARK = re.compile(r"\s*[+-]?[1-9]\d{0,2}([.,])\d{3}\s*")
_INTEGER = re.compile(r"\s*[+-]?\d+\s*")
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
    if not marked or not all(_ONE_MARK.fullmatch(cells[place]) for place in marked):
        return
    if not any(_INTEGER.fullmatch(cell) for cell in cells):
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
