"""Readings of many sensors over time, and synthetic ones for tests and examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from botorch_tv.validation import refuse_masked, require, require_integer, require_number

Moment = str | int | float | datetime | np.datetime64
"""A time: a date for panels whose times are dates, else a number."""


@dataclass(frozen=True, eq=False)
class Panel:
    """Readings of many arms, a row per round.

    Args:
        values: Readings in their own unit, `rounds x arms`, float64; NaN where missing.
        arms: A name for each arm.
        times: Time of each row, `rounds`, increasing; None if unknown.
        coordinates: Position of each arm, `arms x d`; None if unknown.

    Raises:
        ValueError: If shapes do not fit each other, a reading is infinite, or times do not
            increase.
        InputDataError: If NumPy masks an entry.
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
                "for each arm.",
            )
        if self.times is not None:
            require(
                self.times.shape == (rounds,),
                f"Panel: times have shape {self.times.shape}, but there are {rounds} rows; give "
                "one time for each.",
            )
            late = np.flatnonzero(~(self.times[1:] > self.times[:-1]))
            if len(late):
                before, after = self.times[late[0]], self.times[late[0] + 1]
                raise ValueError(
                    f"Panel: the time of row {late[0] + 1} is {after}, which is not after that of "
                    f"the row before, {before}; sort the rows by time, with one row per time."
                )

    def select(self, arms: Sequence[str] | Sequence[int] | np.ndarray) -> Panel:
        """Some of the arms, in the order given.

        Args:
            arms: Their names, their numbers, or a bool for each arm of the panel.

        Raises:
            ValueError: If there is no arm of such a name, or no arm is selected.
            IndexError: If there is no arm of such a number.
        """
        for one in arms:
            if isinstance(one, str) and self.arms.count(one) != 1:
                raise ValueError(
                    f"Panel.select: {self.arms.count(one)} arms are called {one!r}; give names of "
                    f"single arms, or numbers from 0 to {len(self.arms) - 1}."
                )
        wanted = [self.arms.index(one) if isinstance(one, str) else one for one in arms]
        columns = np.arange(len(self.arms))[np.array(wanted or [], dtype=None if wanted else int)]
        require(len(columns) > 0, "Panel.select: arms selects none; select at least one.")
        places = None if self.coordinates is None else self.coordinates[columns]
        names = tuple(self.arms[column] for column in columns)
        return replace(self, values=self.values[:, columns], arms=names, coordinates=places)

    def rows(self, start: Moment | None = None, stop: Moment | None = None) -> Panel:
        """The rows with ``start <= time < stop``.

        Args:
            start: A time; by default that of the first row. Dates may be text, such as
                ``"2019-03-16"``. In a panel without times, the number of a row, from 0.
            stop: A time; by default after the last row.

        Raises:
            ValueError: If there are no such rows, or a time is not of the panel's type.
        """
        rounds = len(self.values)
        first = 0 if start is None else self.row_at(start)
        last = rounds if stop is None else self.row_at(stop)
        require(
            first < last,
            f"Panel.rows: start is {start} and stop is {stop}, but none of the {rounds} rows is "
            "between them; give times of the panel.",
        )
        times = None if self.times is None else self.times[first:last]
        return replace(self, values=self.values[first:last], times=times)

    @property
    def skipped(self) -> np.ndarray | None:
        """Missing rounds before each row but the first, in steps, `rounds - 1`.

        A step is the median time between two rows. None if times are unknown.
        """
        if self.times is None or len(self.times) < 2:
            return None
        between = np.diff(self.times)
        # Dates are whole numbers of units, so that the division by a step is exact.
        lengths = between.astype(np.float64)
        return lengths / np.median(lengths) - 1

    def row_at(self, time: Moment) -> int:
        """The number of the first row at or after a time.

        ``PanelWorld(panel, train=panel.row_at("2019-03-16"))`` trains on all rows before that date.

        Args:
            time: As in :meth:`rows`.

        Returns:
            0 to the number of rows.

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
"""Lengthscale of the covariance between sensors."""


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
    and covariance exp(-|x - x'|² / (2 · 0.3²)) between sensors. The cycle is a sine that comes
    earlier in the east, by a quarter of a day over the unit square.

    Args:
        rounds: Rows.
        arms: Sensors, placed uniformly on the unit square.
        epsilon: Rate of change ε of the field per round, in [0, 1].
        noise: Variance of the noise of a reading.
        cycle: Amplitude of the daily cycle; 0 for none.
        day: Rounds per day.
        gaps: Share of readings that are missing, in [0, 1).
        seed: Same seed, same panel.

    Returns:
        A panel with times and coordinates.

    Raises:
        ValueError: If a parameter is out of range.
    """
    rounds = require_integer("make_panel: rounds", rounds, 1, "give the number of rows.")
    arms = require_integer("make_panel: arms", arms, 1, "give the number of sensors.")
    day = require_integer("make_panel: day", day, 1, "give the rounds of a day.")
    epsilon = require_number("make_panel: epsilon", epsilon, "[0, 1]", "0 keeps the field still.")
    gaps = require_number("make_panel: gaps", gaps, "[0, 1)", "0 leaves no reading out.")
    noise = require_number("make_panel: noise", noise, "[0, inf)", "0 adds none.")
    cycle = require_number("make_panel: cycle", cycle, "(-inf, inf)", "0 is no cycle.")
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
