"""Studies that may be larger than memory, looked at some trials at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import xarray as xr

BLOCK_BYTES = 2**26
"""What is read of a study at once; more gains nothing."""

Data = TypeVar("Data", xr.Dataset, xr.DataArray)


def blocks(data: Data) -> Iterator[Data]:
    """Neighbouring trials of a study, one part after the other, in memory."""
    trials = data.sizes["trial"]
    each = max(1, BLOCK_BYTES * trials // max(1, data.nbytes))
    for first in range(0, trials, each):
        yield data.isel(trial=slice(first, first + each)).compute()


def by_trial(data: xr.DataArray, summed_up: Callable[[xr.DataArray], xr.DataArray]) -> xr.DataArray:
    """What is made of every trial for itself.

    Args:
        data: Of all trials.
        summed_up: From some trials to less of each of them.
    """
    return xr.concat([summed_up(block) for block in blocks(data)], dim="trial")


@dataclass(frozen=True)
class BlockMoments:
    """Means over trials of what is known, and how certain they are, each of the same shape."""

    count: np.ndarray
    """How many values there were."""
    mean: np.ndarray
    """NaN where there was none."""
    scatter: np.ndarray
    """Sum of their squared deviations from the mean."""

    @classmethod
    def of(cls, values: np.ndarray) -> BlockMoments:
        """Those over the first dimension of values, of which some may be NaN."""
        known = ~np.isnan(values)
        count = known.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.where(known, values, 0.0).sum(axis=0) / count
        deviations = np.where(known, values - mean, 0.0)
        return cls(count, mean, (deviations**2).sum(axis=0))

    @classmethod
    def together(cls, parts: Iterable[BlockMoments]) -> BlockMoments:
        """Those over all trials from those of some each.

        Scatters add up to what lies within parts; what lies between them is weighted as in the
        analysis of variance.
        """
        every = list(parts)
        counts, means, scatters = (
            np.stack([getattr(one, name) for one in every]) for name in ("count", "mean", "scatter")
        )
        means = np.where(counts > 0, means, 0.0)
        count = counts.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = (counts * means).sum(axis=0) / count
        between = np.where(counts > 0, counts * (means - mean) ** 2, 0.0)
        return cls(count, mean, (scatters + between).sum(axis=0))

    @property
    def error(self) -> np.ndarray:
        """Standard error of the mean; NaN where there are less than two values."""
        with np.errstate(divide="ignore", invalid="ignore"):
            error: np.ndarray = np.sqrt(self.scatter / (self.count - 1) / self.count)
        return error
