"""A record of many sensors over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from botorch_tv.validation import require


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
            f"Panel: values have shape {self.values.shape}; give rounds x arms, at least 1 x 1.",
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
                f"Panel: coordinates have shape {self.coordinates.shape}; give {arms} x d.",
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

    def __repr__(self) -> str:
        rounds, arms = self.values.shape
        missing = float(np.isnan(self.values).mean())
        gaps = f", {missing:.1%} missing" if missing else ""
        return f"Panel({rounds} rounds x {arms} arms{gaps})"
