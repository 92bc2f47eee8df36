"""Readings of many sensors over time: loaded from files, or synthetic."""

from __future__ import annotations

import itertools
import math
import os
import re
import zipfile
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd

from botorch_tv.files import GAPS, dates_in, read_cells, refuse_cells
from botorch_tv.validation import refuse_masked, require, require_integer, require_number

Moment = str | int | float | datetime | np.datetime64
"""A time: a date if the times of the panel are dates, otherwise a number."""


@dataclass(frozen=True, eq=False)
class Panel:
    """Readings of many arms over time, with a row for each round and a column for each arm.

    Args:
        values: Readings in their own unit, `rounds x arms`, float64; NaN for missing readings.
        arms: A name for each arm.
        times: Time of each row, `rounds`, increasing; None if unknown.
        coordinates: Position of each arm, `arms x d`; None if unknown.

    Raises:
        ValueError: If shapes do not fit each other, if a reading is infinite, or if times do not
            increase.
        InputDataError: If an entry of a NumPy masked array is masked.
    """

    values: np.ndarray
    arms: tuple[str, ...]
    times: np.ndarray | None = None
    coordinates: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name in ("values", "times", "coordinates"):
            fix = "NaN for a missing reading, and every time and coordinate"
            refuse_masked(f"Panel: {name}", getattr(self, name), fix)
        require(
            self.values.ndim == 2 and self.values.size > 0,
            f"Panel: values have shape {self.values.shape}; give rounds x arms, "
            "at least 1 x 1; values.reshape(len(values), -1) flattens the axes after the first.",
        )
        for name, axis in (("times", 0), ("arms", 1), ("coordinates", 1)):
            part, length = getattr(self, name), self.values.shape[axis]
            require(
                part is None or len(part) == length,
                f"Panel: {name} does not fit values of shape {self.values.shape}; give {length} "
                "entries.",
            )
        infinite = np.argwhere(np.isinf(self.values))
        require(
            not len(infinite),
            f"Panel: the readings at [row, arm] {infinite[:3].tolist()} are infinite; use NaN "
            "for missing readings.",
        )
        if self.times is not None:
            late = 1 + np.flatnonzero(~(self.times[1:] > self.times[:-1]))
            require(
                not len(late),
                f"Panel: the times of rows {late[:3].tolist()} are not after the preceding times; "
                "sort the rows by time, with one row per time.",
            )

    def select(self, arms: Sequence[str] | Sequence[int] | np.ndarray) -> Panel:
        """A panel of some of the arms, in the order given.

        Args:
            arms: Names of arms, numbers of arms, or a bool for each arm of the panel.

        Raises:
            ValueError: If no arm or several arms have a given name, or if no arm is selected.
            IndexError: If a number in ``arms`` is not the number of an arm.
        """
        for arm in arms:
            if isinstance(arm, str) and self.arms.count(arm) != 1:
                raise ValueError(
                    f"Panel.select: {self.arms.count(arm)} arms are called {arm!r}; give names of "
                    f"single arms, or numbers from 0 to {len(self.arms) - 1}."
                )
        wanted = [self.arms.index(arm) if isinstance(arm, str) else arm for arm in arms]
        columns = np.arange(len(self.arms))[np.array(wanted or [], dtype=None if wanted else int)]
        places = None if self.coordinates is None else self.coordinates[columns]
        names = tuple(self.arms[column] for column in columns)
        return replace(self, values=self.values[:, columns], arms=names, coordinates=places)

    def rows(self, start: Moment | None = None, stop: Moment | None = None) -> Panel:
        """A panel of the rows with ``start <= time < stop``.

        Args:
            start: A time; by default the time of the first row. Dates may be text, such as
                ``"2019-03-16"``. In a panel without times, ``start`` is the number of a row,
                counted from 0.
            stop: A time, in the same format as ``start``; by default a time after the last row.

        Raises:
            ValueError: If no row satisfies ``start <= time < stop``, or if a time is not of the
                panel's type.
        """
        first = 0 if start is None else self.row_at(start)
        last = None if stop is None else self.row_at(stop)
        times = None if self.times is None else self.times[first:last]
        return replace(self, values=self.values[first:last], times=times)

    def row_at(self, time: Moment) -> int:
        """The number of the first row whose time is the given time or later.

        ``PanelWorld(panel, train=panel.row_at("2019-03-16"))`` trains on all rows before that date.

        Args:
            time: A time; for its types see ``start`` in :meth:`rows`.

        Returns:
            The number of the row, counted from 0; if all rows are earlier, the number of rows.

        Raises:
            ValueError: If the time is not of the panel's type.
        """
        times = np.arange(len(self.values)) if self.times is None else self.times
        moment = np.datetime64(time) if times.dtype.kind == "M" else np.float64(time)  # type: ignore[arg-type]
        return int(np.searchsorted(times, moment))

    def __repr__(self) -> str:
        rounds, arms = self.values.shape
        missing = float(np.isnan(self.values).mean())
        gaps = f", {missing:.1%} missing" if missing else ""
        return f"Panel({rounds} rounds x {arms} arms{gaps})"


LENGTHSCALE = 0.3
"""Lengthscale of the covariance between synthetic sensors on the unit square."""


def make_panel(
    rounds: int = 300,
    arms: int = 20,
    *,
    epsilon: float = 0.03,
    noise: float = 0.05,
    cycle: float = 0.5,
    day: int = 48,
    gaps: float = 0.02,
    seed: int = 0,
) -> Panel:
    """Synthetic sensors on a plane: a daily cycle, a drifting field, and noise.

    The field is Markov: f_1 = g_1, f_{t+1} = √(1-ε) f_t + √ε g_{t+1}, with draws g of variance 1
    and covariance exp(-|x - x'|² / (2 · 0.3²)) between sensors. The cycle is a sine wave; its phase
    in the east is a quarter of a day ahead of its phase in the west.

    Args:
        rounds: Number of rows.
        arms: Number of sensors, which are placed uniformly on the unit square.
        epsilon: Rate of change ε of the field per round, in [0, 1].
        noise: Variance of the noise of a reading.
        cycle: Amplitude of the daily cycle; 0 for no cycle.
        day: Number of rounds in a day.
        gaps: Share of missing readings, in [0, 1).
        seed: Seed; the same seed gives the same panel.

    Returns:
        A panel with times and coordinates.

    Raises:
        ValueError: If a parameter is out of range.
    """
    epsilon = require_number("make_panel: epsilon", epsilon, "[0, 1]", "0 is a static field.")
    gaps = require_number("make_panel: gaps", gaps, "[0, 1)", "0 removes no reading.")
    noise = require_number("make_panel: noise", noise, "[0, inf)", "0 is no noise.")
    random = np.random.default_rng(seed)
    places = random.random((arms, 2))
    apart = ((places[:, None] - places[None]) ** 2).sum(-1)
    eigenvalues, vectors = np.linalg.eigh(np.exp(-apart / (2 * LENGTHSCALE**2)))
    features = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    draws = random.standard_normal((rounds, arms)) @ features.T
    field = np.empty((rounds, arms))
    field[0] = draws[0]
    for t in range(1, rounds):
        field[t] = math.sqrt(1 - epsilon) * field[t - 1] + math.sqrt(epsilon) * draws[t]
    phase = np.arange(rounds)[:, None] / day + 0.25 * places[:, 0]
    values = field + cycle * np.sin(2 * np.pi * phase)
    values += math.sqrt(noise) * random.standard_normal((rounds, arms))
    values[random.random((rounds, arms)) < gaps] = np.nan
    minutes = (np.arange(rounds) * (1440 / day)).round().astype("timedelta64[m]")
    return Panel(
        values=values,
        arms=tuple(f"sensor {number}" for number in range(arms)),
        times=np.datetime64("2000-01-01T00:00") + minutes if day <= 1440 else None,
        coordinates=places,
    )


# ---------------------------------------------------------------- loading

ENDINGS = (".npz", ".csv", ".csv.gz")
_TIME_NAMES = {"date", "datetime", "time", "timestamp"}
# A date consists of a year and a month, as in 2019-03, or of three parts of which the last is a
# number, as in 1/3/2019 and 1 Mar 2019.
_DATE = re.compile(r"\d{4}-\d\d?$|(\w+[-/., ]+){2}\d+")
_COMPACT = {8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
"""Formats of dates without separators, by the number of digits of the date."""
_ZONE = r"(?i).*[T\s:]\d\d(?:[.,]\d+)?\s*(?:Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)"


def load_panel(
    path: str | os.PathLike[str],
    key: str | None = None,
    *,
    axes: Sequence[str] = (),
    times: str | None = None,
    every: int = 1,
) -> Panel:
    """Load a panel, with a row for each time and a column for each arm.

    In an ``.npz`` file the axes after the first are flattened, and the index of the last axis
    varies fastest. The same file may contain arrays of the positions along each axis and of the
    times of the rows.

    Columns of a ``.csv`` or ``.csv.gz`` file in UTF-8 are separated by commas, semicolons or tabs.
    If semicolons or tabs separate the columns, a comma may be a decimal comma. A column of dates
    becomes the panel's times. The times may also be in a column named date, datetime, time or
    timestamp; numbers in this column such as 20260301 and 2026030108 are dates. A first column
    without a name, such as the index of a data frame, is skipped. The first line names the arms if
    it has text, or if it alone consists of whole numbers, which are distinct. Empty cells, NA, NaN,
    and missing cells at the end of a line are missing readings. Ambiguous numbers, dates and time
    zones raise an error; an example is a column of dates like 1/2/2026, which may be in January or
    February.

    Args:
        path: The file.
        key: Name of the array in an ``.npz`` file; by default the largest numeric array with at
            least two dimensions.
        axes: For an ``.npz`` file, the names of the arrays that contain the positions along the
            axes after the first, such as ``("lat", "lon")``. The positions become the coordinates
            of the arms, in the order of ``axes``.
        times: For an ``.npz`` file, the name of the array that contains the time of each row. For a
            table, the name of the column of times, or, if columns have no names, the number of the
            column, counted from 0. ``""`` means that there are no times.
        every: For an ``.npz`` file, the stride along each axis after the first: a larger stride
            gives a coarser grid.

    Raises:
        ValueError: If the extension is unknown; if a named array or column is missing or does not
            fit; if the file contains no table; if a line is longer than the first; if a cell is
            neither a number nor empty; if a table can be read in two ways.
        FileNotFoundError: If the file does not exist.
    """
    path = Path(path)
    require(
        path.name.lower().endswith(ENDINGS),
        f"{path.name} cannot be read as a panel: its name must end in {', '.join(ENDINGS)}.",
    )
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}: check the path.")
    every = require_integer("load_panel: every", every, 1, "1 takes every position.")
    if path.name.lower().endswith(".npz"):
        return _read_arrays(path, key, axes, times, every)
    require(
        key is None and not axes and every == 1,
        f"{path.name} is a single table, but key={key!r}, axes={tuple(axes)} and "
        f"every={every} select arrays of .npz files; omit them.",
    )
    return _read_table(path, times)


def _read_arrays(
    path: Path, key: str | None, axes: Sequence[str], times: str | None, every: int
) -> Panel:
    # If a file is not a zip file, numpy tries to read a pickle and raises a misleading error.
    require(zipfile.is_zipfile(path), f"{path.name} is damaged or no .npz file; write it again.")
    arrays: dict[str, np.ndarray] = {}
    try:
        with np.load(path, allow_pickle=False) as archive:
            for name in archive.files:
                with suppress(ValueError):  # arrays of Python objects are skipped
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
        f"suitable arrays: {', '.join(tables) or 'none'}.",
    )
    values = np.asarray(tables[chosen], dtype=np.float64)
    lengths = values.shape[1:]
    require(
        len(axes) in (0, len(lengths)),
        f"axes are {', '.join(axes)}, but {chosen!r} has {len(lengths)} axes after the first; "
        "name one array of coordinates for each axis, or omit axes.",
    )

    def vector(name: str, length: int, kinds: str) -> np.ndarray:
        array = arrays.get(name, np.empty(0, dtype=object))
        require(
            array.shape == (length,) and array.dtype.kind in kinds,
            f"{path.name} has no array {name!r} of {length} numbers"
            f"{' or dates' if 'M' in kinds else ''}; it has "
            f"{', '.join(f'{key} {array.dtype} {array.shape}' for key, array in arrays.items())}.",
        )
        return array

    along = [vector(axis, length, "iuf") for axis, length in zip(axes, lengths)]
    rows = None if times is None else vector(times, len(values), "iufmM")
    stride = slice(None, None, every)
    values = values[(slice(None), *[stride] * len(lengths))].reshape(len(values), -1)
    numbers = itertools.product(*(range(0, length, every) for length in lengths))
    names = tuple(",".join(map(str, place)) for place in numbers)
    places = list(itertools.product(*(positions[stride] for positions in along)))
    coordinates = np.array(places, dtype=np.float64) if along else None
    return Panel(values, names, rows, coordinates)


def _read_table(path: Path, times: str | None) -> Panel:
    file, cells = path.name, read_cells(path)
    names = _names(cells)
    cells = cells.iloc[1 if any(names) else 0 :]
    require(len(cells) > 0, f"{file} has a line of names but no readings; add readings below it.")
    readings = {place: [_number(cell) for cell in cells[place]] for place in range(len(names))}
    timed = _places_of_times(file, cells, names, times)
    moments = [_times(file, cells[place], readings.pop(place)) for place in timed]
    if any(names) and names[0] == "" and None not in readings.get(0, [None]):
        del readings[0]  # the index of a data frame
    for place, column in readings.items():
        wrong = cells[place][[number is None for number in column]]
        refuse_cells(file, wrong, "is not a number; a missing reading is an empty cell.")
    labels = tuple(names[place] or str(number) for number, place in enumerate(readings))
    values = np.array(list(readings.values()), dtype=np.float64).T
    return Panel(np.ascontiguousarray(values), labels, moments[0] if moments else None)


def _names(cells: pd.DataFrame) -> list[str]:
    """The names in the first line of a table; empty texts if the first line has no names."""
    first = cells.iloc[0]
    # Names of arms may be the numbers of sensors. If they are, only the first line consists of
    # distinct whole numbers.
    whole = cells.apply(lambda column: column.str.fullmatch(r"\d+")).all(axis=1)
    numbered = len(cells) > 1 and first.is_unique and bool(whole.iloc[0] and not whole[1:].any())
    headed = numbered or any(_number(cell) is None and not _is_date(cell) for cell in first)
    return [cell if headed else "" for cell in first]


def _places_of_times(
    file: str, cells: pd.DataFrame, names: list[str], times: str | None
) -> list[int]:
    """The place of the column of times, in a list; an empty list if there is none."""
    called = [name or str(place) for place, name in enumerate(names)]
    if times is not None:
        timed = [place for place, name in enumerate(called) if name == times]
        require(
            not times or len(timed) == 1,
            f"{file} has no single column {times!r} for times; its columns are "
            f"{', '.join(called[:8])}{', ...' if len(called) > 8 else ''}.",
        )
        return timed
    timed = [
        place
        for place, name in enumerate(names)
        if name.lower() in _TIME_NAMES or _is_date(cells[place].iloc[0])
    ]
    require(len(timed) < 2, f"{file} has two columns of dates; remove one of them.")
    return timed


def _number(cell: str) -> float | None:
    """The number in a cell, NaN for a missing reading; None for other text."""
    if cell.lower() in GAPS:
        return float("nan")
    try:
        return None if "_" in cell else float(cell)  # only Python reads 1_000 as a number
    except ValueError:
        return None


def _is_date(cell: str) -> bool:
    return _number(cell) is None and bool(_DATE.match(cell)) and len(dates_in([cell])) > 0


def _times(file: str, cells: pd.Series, numbers: list[float | None]) -> np.ndarray:
    """The times in a column of a table, given its cells as text and as numbers.

    Raises:
        ValueError: If the cells are not times, or can be read in two ways.
    """
    if None not in numbers:
        digits = len(cells.iloc[0])
        if digits in _COMPACT and cells.str.fullmatch(rf"\d{{{digits}}}").all():
            dates = pd.to_datetime(cells, format=_COMPACT[digits], errors="coerce")
            # A number of seconds since 1970 is not read as a date: in the formats of _COMPACT it
            # has no valid year or month.
            if dates.dt.year.between(1900, 2199).all():
                return dates.to_numpy("datetime64[us]")
        return np.array(numbers, dtype=np.float64)
    readings = dates_in(list(cells))
    if not readings:
        wrong = cells[[not _is_date(cell) for cell in cells]]
        like = f"or its format differs from {cells.iloc[0]!r}; write all dates as 2026-03-01."
        refuse_cells(file, wrong if len(wrong) else cells[-1:], f"is not a date, {like}")
    if len(readings) > 1:
        unclear = cells[readings[0] != readings[1]]
        refuse_cells(file, unclear, "may begin with the month or the day; write 2026-03-01.")
    zoned = cells.str.fullmatch(_ZONE)
    if zoned.any():  # pandas would assume UTC for dates without a time zone
        refuse_cells(
            file, cells[~zoned], "has no time zone, but other dates have one; add time zones."
        )
    return readings[0]
