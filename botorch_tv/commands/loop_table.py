"""What was measured before, from a table that people keep."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from botorch_tv.simulation.panels.table import read_lines
from botorch_tv.validation import did_you_mean, require

if TYPE_CHECKING:
    from botorch_tv.strategies.loop.clock import Time
    from botorch_tv.strategies.loop.shown import Table

TIME = "time"
"""Column of times, where there is one."""
GAPS = {"", "na", "n/a", "nan", "none", "null"}
"""Where nothing came out, in small letters."""


class Reading(NamedTuple):
    """A row of it."""

    line: int
    """Of the file."""
    values: list[str]
    """Of the parameters, as NAME=VALUE."""
    y: str
    time: str | None


class Readings(NamedTuple):
    """All rows."""

    rows: list[Reading]
    gaps: int
    """Rows in which nothing came out, and which are left out."""
    others: list[str]
    """Columns that are not looked at."""


def readings(
    path: Path, names: Iterable[str], y: str, times: str | None, *, dated: bool
) -> Readings:
    """The rows of a table whose first line has names.

    Args:
        path: A ``.csv`` file, with commas, semicolons or tabs between columns.
        names: Of the parameters.
        y: Column of what came out.
        times: Column of when; one that is called ``time``, if there is one, unless given.
        dated: Whether there must be one, as the loop would take rows without for measured now.

    Raises:
        ValueError: If it is no table, or lacks a column, or a column has no name of its own.
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
        if row[y].lower() not in GAPS:
            at = [f"{name}={row[name]}" for name in names]
            rows.append(Reading(line, at, row[y], None if times is None else row[times]))
    others = [name for name in columns if name not in wanted]
    return Readings(rows, len(lines) - 1 - len(rows), others)


class Known:
    """What a loop has measured, so that a table which has grown can be taken in again.

    Args:
        history: Of the loop.
    """

    def __init__(self, history: Table) -> None:
        self._of: dict[float, list[tuple[float, Any]]] = {}
        for y, point, time in zip(history.y.tolist(), history.points, history.times):
            self._of.setdefault(y, []).append((moment(time), point))

    def has(self, point: Any, y: float, time: Time | None) -> bool:
        """Whether the same came out at the same place and time.

        Args:
            point: As the loop has it.
            y: What came out.
            time: When; what was measured at no time that is known is new.
        """
        near = 1e-3 if isinstance(time, datetime) else 0.0  # seconds; dates are rounded in files
        return time is not None and any(
            abs(moment(time) - at) <= near and _same(point, there)
            for at, there in self._of.get(y, [])
        )


def moment(time: Time | None) -> float:
    """By which times of one kind are put in order; all alike where there are none."""
    if isinstance(time, datetime):
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    return time or 0.0


def _same(point: Any, other: Any) -> bool:
    """Whether two points are one, but for rounding."""
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
