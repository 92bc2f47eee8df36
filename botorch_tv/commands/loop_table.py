"""Past measurements from a table in a file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from botorch_tv.simulation.panels.table import read_lines
from botorch_tv.validation import did_you_mean, require

if TYPE_CHECKING:
    from botorch_tv.strategies.loop.clock import Time
    from botorch_tv.strategies.loop.shown import SupersededMeasurement, Table

TIME = "time"
"""Usual name of the column of times."""
OK = "ok"
"""Name of the column that says which measurements succeeded."""
TRUTHS = {"true": True, "1": True, "false": False, "0": False}
"""Its cells, in lower case; an empty one counts as True."""
GAPS = {"", "na", "n/a", "nan", "none", "null"}
"""Cells that stand for a missing value, in lower case."""


class Reading(NamedTuple):
    """A row of the table."""

    line: int
    """Its line in the file."""
    values: list[str]
    """The parameters, as NAME=VALUE."""
    y: str | None
    """None if the measurement failed."""
    time: str | None


class Readings(NamedTuple):
    """The table."""

    rows: list[Reading]
    gaps: int
    """Number of rows without a value, which are left out."""
    others: list[str]
    """Columns that are ignored."""


def readings(
    path: Path, names: Iterable[str], y: str, times: str | None, *, dated: bool
) -> Readings:
    """Read a table whose first line has the names of the columns.

    Args:
        path: A ``.csv`` file, with commas, semicolons or tabs between columns.
        names: Names of the parameters.
        y: Column of the values measured.
        times: Column of times; by default the one called ``time``, if there is one.
        dated: Whether times are required: the loop would date rows without a time to now.

    Raises:
        ValueError: If it is no table, lacks a column, has two columns of one name, or something
            else than True or False in the column ``ok``.
    """
    lines = read_lines(path)
    require(len(lines) > 1, f"{path} has no rows below a line of names.")
    columns = [cell.strip() for cell in lines[0].cells]
    times = TIME if times is None and TIME in columns else times
    require(
        times is not None or not dated,
        f"{path} has no column {TIME!r}, but {', '.join(columns)}; give the one of dates by "
        "--times, or begin a loop that counts in numbers, botorch-tv loop new --unit rounds.",
    )
    wanted = [*names, y, *([] if times is None else [times])]
    told = OK in columns and OK not in wanted
    wanted += [OK] if told else []
    for name in wanted:
        have = "two columns" if columns.count(name) > 1 else "no column"
        require(
            columns.count(name) == 1,
            f"{path} has {have} {name!r}, of {', '.join(columns)}; name columns as parameters are, "
            f"and those of what came out and when by --y and --times.{did_you_mean(name, columns)}",
        )
    rows: list[Reading] = []
    for line, cells in lines[1:]:
        require(
            len(cells) == len(columns),
            f"{path} has {len(cells)} cells in line {line}, but {len(columns)} columns.",
        )
        row = {name: cell.strip() for name, cell in zip(columns, cells)}
        ok = row[OK].lower() if told else ""
        require(
            ok in TRUTHS or ok in GAPS,
            f"{path} has {row.get(OK)!r} in line {line}, column {OK!r}; give True, or False where "
            "the measurement failed.",
        )
        failed = not TRUTHS.get(ok, True)
        if failed or row[y].lower() not in GAPS:
            at = [f"{name}={row[name]}" for name in names]
            when = None if times is None else row[times]
            rows.append(Reading(line, at, None if failed else row[y], when))
    others = [name for name in columns if name not in wanted]
    return Readings(rows, len(lines) - 1 - len(rows), others)


class Known:
    """What a loop has measured, so that a table which has grown can be taken in again.

    Args:
        history: The history of the loop.
        superseded: What was amended or removed, which is not to come back with an old table.
    """

    def __init__(self, history: Table, superseded: Sequence[SupersededMeasurement]) -> None:
        self._of: dict[float | None, list[tuple[float, Any]]] = {}
        rows = [*zip(history.y.tolist(), history.points, history.times)]
        for y, point, time in [*rows, *((one.y, one.point, one.time) for one in superseded)]:
            self._of.setdefault(None if math.isnan(y) else y, []).append((moment(time), point))

    def has(self, point: Any, y: float | None, time: Time | None) -> bool:
        """Whether the same value was measured at the same point and time.

        Args:
            point: In the format of the loop.
            y: The value; None if the measurement failed.
            time: The time; a measurement without one counts as new.
        """
        near = 1e-3 if isinstance(time, datetime) else 0.0  # seconds; dates are rounded in files
        return time is not None and any(
            abs(moment(time) - at) <= near and _same(point, there)
            for at, there in self._of.get(y, [])
        )


def moment(time: Time | None) -> float:
    """A number that sorts times of one kind; 0 without a time."""
    if isinstance(time, datetime):
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    return time or 0.0


def _same(point: Any, other: Any) -> bool:
    """Whether two points agree up to rounding."""
    if isinstance(point, Mapping):
        if set(point) != set(other):
            return False
        point, other = point.values(), [other[name] for name in point]
    return all(
        math.isclose(one, two, rel_tol=1e-9)
        if isinstance(one, float) and isinstance(two, (int, float))
        else one == two
        for one, two in zip(point, other)
    )
