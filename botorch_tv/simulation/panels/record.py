"""A record of many sensors over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from botorch_tv.validation import require

Moment = str | int | float | datetime | np.datetime64
"""A time: a date for panels whose times are dates, else a number."""


@dataclass(frozen=True, eq=False)
class Panel:
    """Readings of many arms, a row per round.

    Args:
        values: Readings in their own unit, `rounds x arms`, float64; NaN where there is none.
        arms: A name for each arm.
        times: When each row was read, `rounds`, increasing; None where that is not known.
        coordinates: Where each arm is, `arms x d`; None where that is not known.

    Raises:
        ValueError: If the parts do not fit each other, a reading is infinite, or times do not
            increase.
    """

    values: np.ndarray
    arms: tuple[str, ...]
    times: np.ndarray | None = None
    coordinates: np.ndarray | None = None

    def __post_init__(self) -> None:
        require(
            self.values.ndim == 2 and self.values.size > 0,
            f"Panel: values have shape {self.values.shape}; give rounds x arms, "
            "at least 1 x 1; values.reshape(len(values), -1) flattens the axes after the first.",
        )
        rounds, arms = self.values.shape
        require(
            len(self.arms) == arms,
            f"Panel: {len(self.arms)} names for {arms} arms; give one for each column.",
        )
        infinite = np.argwhere(np.isinf(self.values))
        if len(infinite):
            row, arm = infinite[0]
            raise ValueError(
                f"Panel: the reading of arm {self.arms[arm]!r} in row {row} is infinite; use NaN "
                "where there is no reading."
            )
        if self.coordinates is not None:
            require(
                self.coordinates.ndim == 2 and len(self.coordinates) == arms,
                f"Panel: coordinates have shape {self.coordinates.shape}; give {arms} x d, a row "
                f"for each of {arms} arms.",
            )
        if self.times is not None:
            require(
                self.times.shape == (rounds,),
                f"Panel: times have shape {self.times.shape}, but there are {rounds} rows.",
            )
            late = np.flatnonzero(~(self.times[1:] > self.times[:-1]))
            if len(late):
                before, after = self.times[late[0]], self.times[late[0] + 1]
                raise ValueError(
                    f"Panel: row {late[0] + 1} is of {after}, which is not after {before} of the "
                    "row before; sort the rows by time, one row each."
                )

    def select(self, arms: Sequence[str] | Sequence[int] | np.ndarray) -> Panel:
        """Some of the arms, in the order given.

        Args:
            arms: Their names, or their numbers, or a bool for each arm of the panel.

        Raises:
            ValueError: If there is no such arm, or none is left.
        """
        columns = self._columns(arms)
        require(len(columns) > 0, "Panel.select: no arm is left; choose one or more.")
        places = None if self.coordinates is None else self.coordinates[columns]
        names = tuple(self.arms[column] for column in columns)
        return replace(self, values=self.values[:, columns], arms=names, coordinates=places)

    def rows(self, start: Moment | None = None, stop: Moment | None = None) -> Panel:
        """The rows from a time on and before another.

        Args:
            start: Time of the first row wanted, if there is one, else the next row's; the first
                row unless given. Dates may be text such as ``"2019-03-16"``. A panel without times
                counts rows, from 0.
            stop: Time that all rows wanted lie before; the end unless given.

        Raises:
            ValueError: If no row is left, or a time is not of the panel's kind.
        """
        rounds = len(self.values)
        first = 0 if start is None else self.row_at(start)
        last = rounds if stop is None else self.row_at(stop)
        require(
            first < last,
            f"Panel.rows: no row lies from {start} to before {stop}; there are {self._span()}.",
        )
        times = None if self.times is None else self.times[first:last]
        return replace(self, values=self.values[first:last], times=times)

    @property
    def skipped(self) -> np.ndarray | None:
        """Rounds without a row before each row but the first, `rounds - 1`, at the usual step.

        The usual step is the median time between two rows. None where times are not known.
        """
        if self.times is None or len(self.times) < 2:
            return None
        between = np.diff(self.times)
        # Dates are counted in whole units, so that a step divides exactly.
        lengths = between.astype(np.float64)
        return lengths / np.median(lengths) - 1

    def regular(self) -> Panel:
        """The panel with a row for every round at the usual step, NaN where there was none.

        Strategies and the rate of change count rounds, all of the same length. A row may be a
        quarter of the usual step early or late.

        Returns:
            A panel with times; those of rows put in lie evenly between their neighbours.

        Raises:
            ValueError: If times are not known, two rows are not a whole number of steps apart, or
                there would be more than a hundred rows for every row that there is.
        """
        skipped = self.skipped
        if skipped is None or self.times is None:
            raise ValueError("Panel.regular: times of two rows or more are needed; give times.")
        steps = np.rint(skipped + 1)
        odd = np.flatnonzero((np.abs(skipped + 1 - steps) > 0.25) | (steps < 1))
        if len(odd):
            before, after = self.times[odd[0]], self.times[odd[0] + 1]
            raise ValueError(
                f"Panel.regular: from {before} to {after} are {skipped[odd[0]] + 1:.3g} steps of "
                "the usual length, which is no whole number; average the readings over spans of "
                "equal length first."
            )
        rounds = int(steps.sum()) + 1
        require(
            rounds <= 100 * len(self.values),
            f"Panel.regular: there would be {rounds:,} rows of {len(self.values):,} readings; take "
            "the rows of a shorter span, or average over longer ones.",
        )
        places = np.concatenate([[0], np.cumsum(steps)]).astype(np.int64)
        values = np.full((rounds, self.values.shape[1]), np.nan)
        values[places] = self.values
        since = (self.times - self.times[0]).astype(np.float64)
        even = np.interp(np.arange(rounds), places, since)
        if self.times.dtype.kind == "M":
            even = np.rint(even).astype(np.int64).astype(np.diff(self.times).dtype)
        times = self.times[0] + even
        times[places] = self.times
        return replace(self, values=values, times=times)

    def row_at(self, time: Moment) -> int:
        """The number of the first row that is not before a time.

        So ``PanelWorld(panel, train=panel.row_at("2019-03-16"))`` trains on all that lies before.

        Args:
            time: As in :meth:`rows`.

        Returns:
            0 to the number of rows.

        Raises:
            ValueError: If the time is not of the panel's kind.
        """
        times = np.arange(len(self.values)) if self.times is None else self.times
        dated = times.dtype.kind == "M"
        try:
            moment = np.datetime64(time) if dated else np.float64(time)  # type: ignore[arg-type]
        except (ValueError, TypeError) as error:
            kind = "dates, such as '2019-03-16'" if dated else "numbers"
            raise ValueError(
                f"Panel: {time!r} is no time of this panel, whose rows are {kind}."
            ) from error
        return int(np.searchsorted(times, moment))

    def _columns(self, arms: Sequence[str] | Sequence[int] | np.ndarray) -> np.ndarray:
        wanted = list(arms)
        if wanted and all(isinstance(one, bool | np.bool_) for one in wanted):
            require(
                len(wanted) == len(self.arms),
                f"Panel.select: {len(wanted)} bools for {len(self.arms)} arms; give one for each.",
            )
            return np.flatnonzero(wanted)
        numbers = {name: column for column, name in enumerate(self.arms)}
        columns = []
        for one in wanted:
            require(
                not isinstance(one, str) or self.arms.count(one) < 2,
                f"Panel.select: {self.arms.count(one)} arms are called {one!r}; give the number of "
                "one, or other names.",
            )
            column = numbers.get(one) if isinstance(one, str) else one
            if not isinstance(column, int | np.integer) or not 0 <= column < len(self.arms):
                raise ValueError(
                    f"Panel.select: there is no arm {one!r}; arms are called {_listed(self.arms)} "
                    f"and numbered 0 to {len(self.arms) - 1}."
                )
            columns.append(column)
        return np.array(columns, dtype=np.int64)

    def _span(self) -> str:
        rounds = len(self.values)
        if self.times is None:
            return f"rows 0 to {rounds - 1}"
        return f"{rounds} rows from {self.times[0]} to {self.times[-1]}"

    def __repr__(self) -> str:
        rounds, arms = self.values.shape
        missing = float(np.isnan(self.values).mean())
        gaps = f", {missing:.1%} missing" if missing else ""
        return f"Panel({rounds} rounds x {arms} arms{gaps})"


def _listed(names: Sequence[str]) -> str:
    """The first few of many names."""
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
