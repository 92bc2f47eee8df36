"""Process studies that may exceed memory, a few trials at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import xarray as xr

BLOCK_BYTES = 2**26
"""Bytes of a study read at once; larger blocks are no faster."""

Data = TypeVar("Data", xr.Dataset, xr.DataArray)


def blocks(data: Data) -> Iterator[Data]:
    """Consecutive blocks of trials, each loaded into memory."""
    trials = data.sizes["trial"]
    each = max(1, BLOCK_BYTES * trials // max(1, data.nbytes))
    for first in range(0, trials, each):
        yield data.isel(trial=slice(first, first + each)).compute()


def by_trial(data: xr.DataArray, summed_up: Callable[[xr.DataArray], xr.DataArray]) -> xr.DataArray:
    """Reduce every trial separately, block by block.

    Args:
        data: All trials.
        summed_up: Reduces a block of trials, each independently of the others.
    """
    return xr.concat([summed_up(block) for block in blocks(data)], dim="trial")


@dataclass(frozen=True)
class BlockMoments:
    """Count, mean and scatter over trials, ignoring NaN; all of the same shape."""

    count: np.ndarray
    """Number of values."""
    mean: np.ndarray
    """NaN where there is no value."""
    scatter: np.ndarray
    """Sum of squared deviations from the mean."""

    @classmethod
    def of(cls, values: np.ndarray) -> BlockMoments:
        """The moments over the first dimension of values, some of which may be NaN."""
        known = ~np.isnan(values)
        count = known.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.where(known, values, 0.0).sum(axis=0) / count
        deviations = np.where(known, values - mean, 0.0)
        return cls(count, mean, (deviations**2).sum(axis=0))

    @classmethod
    def together(cls, parts: Iterable[BlockMoments]) -> BlockMoments:
        """The moments of all trials from those of disjoint parts.

        As in the analysis of variance, the total scatter is the scatter within the parts plus the
        scatter between their means, weighted by their counts.
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
        """Standard error of the mean; NaN for fewer than two values."""
        with np.errstate(divide="ignore", invalid="ignore"):
            error: np.ndarray = np.sqrt(self.scatter / (self.count - 1) / self.count)
        return error
