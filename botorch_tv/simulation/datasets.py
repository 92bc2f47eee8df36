"""Datasets of studies that may exceed memory: reading a few trials at a time, and netCDF files."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import xarray as xr

from botorch_tv.files import replacing

BLOCK_BYTES = 2**26
"""Number of bytes that are read from a dataset at once; reading more at once is no faster."""

Data = TypeVar("Data", xr.Dataset, xr.DataArray)


def blocks(data: Data) -> Iterator[Data]:
    """Yield consecutive blocks of trials of a dataset, each loaded into memory."""
    trials = data.sizes["trial"]
    each = max(1, BLOCK_BYTES * trials // max(1, data.nbytes))
    for first in range(0, trials, each):
        yield data.isel(trial=slice(first, first + each)).compute()


def by_trial(data: xr.DataArray, summed_up: Callable[[xr.DataArray], xr.DataArray]) -> xr.DataArray:
    """Compute statistics of every trial, while only one block of trials is in memory.

    Args:
        data: A dataset with all trials.
        summed_up: A function that computes the statistics of all trials in a block; the statistics
            of a trial must not depend on other trials.
    """
    return xr.concat([summed_up(block) for block in blocks(data)], dim="trial")


@dataclass(frozen=True)
class BlockMoments:
    """Moments over trials: the number, the mean and the scatter of the values; NaN is ignored."""

    count: np.ndarray
    """Number of trials whose value is not NaN."""
    mean: np.ndarray
    """Mean of the values that are not NaN; NaN if all values are NaN."""
    scatter: np.ndarray
    """Sum of squared deviations of the values from ``mean``; NaN is ignored."""

    @classmethod
    def of(cls, values: np.ndarray) -> BlockMoments:
        """The moments of an array over its first dimension; NaN is ignored."""
        present = ~np.isnan(values)
        count = present.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.where(present, values, 0.0).sum(axis=0) / count
        deviations = np.where(present, values - mean, 0.0)
        return cls(count, mean, (deviations**2).sum(axis=0))

    @classmethod
    def together(cls, parts: Iterable[BlockMoments]) -> BlockMoments:
        """Combine the moments of disjoint sets of trials into the moments of all trials.

        As in the analysis of variance, the total scatter is a sum of two terms: the scatters within
        the sets, and the scatter of the means of the sets, where each mean is weighted by the
        number of trials in its set.
        """
        every = list(parts)
        counts, means, scatters = (
            np.stack([getattr(part, name) for part in every])
            for name in ("count", "mean", "scatter")
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


# ---------------------------------------------------------------- netCDF files

PIECE_BYTES = 2**20
"""Approximate size of a netCDF chunk in bytes; every chunk has a checksum."""
LONGEST = 2**16
"""Largest number of values in a netCDF chunk along any dimension."""


def write_dataset(data: xr.Dataset, path: str | os.PathLike[str]) -> Path:
    """Write a dataset to one compressed netCDF file, atomically.

    Missing folders are created. A dataset larger than memory is read and written in parts.

    Args:
        data: The dataset.
        path: The file; its extension is usually `.nc`.

    Returns:
        The path of the written file.

    Raises:
        OSError: If the file cannot be written; an older file is then unchanged.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    along = {
        str(name): variable for name, variable in data.variables.items() if "trial" in variable.dims
    }
    numbers = all(variable.dtype.kind in "biuf" for variable in along.values())
    trials = data.sizes.get("trial", 0)
    encoding: dict[Any, dict[str, object]] = {
        name: {"zlib": True, "complevel": 4, "shuffle": True}
        | (_chunking(variable, trials) if name in along and numbers else {})
        for name, variable in data.variables.items()
        if name in along or (name in data.data_vars and variable.ndim > 0)
    }
    with replacing(path.resolve()) as unfinished:
        write: dict[str, Any] = {"engine": _engine(), "encoding": encoding}
        if data.nbytes <= BLOCK_BYTES or not numbers:
            data.drop_encoding().to_netcdf(unfinished, **write)
            return path
        # Files with a dimension that can grow are slow to read, so only datasets written in parts
        # have such a dimension.
        empty = data.isel(trial=slice(0)).drop_encoding()
        empty.to_netcdf(unfinished, unlimited_dims=["trial"], **write)
        with importlib.import_module(_engine()).File(unfinished, "a") as file:
            file.resize_dimension("trial", trials)
            for name, variable in along.items():
                first = 0
                for block in blocks(data[name]):
                    until = first + block.sizes["trial"]
                    rows = {"trial": slice(first, until)}
                    index = tuple(rows.get(str(dim), slice(None)) for dim in variable.dims)
                    stored = file.variables[name]
                    stored[index] = block.values.astype(stored.dtype, copy=False)
                    first = until
    return path


def read_dataset(path: str | os.PathLike[str], most: float = math.inf) -> xr.Dataset:
    """Read a file written by :func:`write_dataset`.

    Args:
        path: The file.
        most: Largest number of bytes to read into memory. A larger dataset is read from the file
            when it is needed, so the file must stay in place.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is damaged, or is not a netCDF file.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no file {path}: check the path. The folder of a study is read by "
            "run_study(..., save_to=FOLDER)."
        )
    try:
        data = xr.open_dataset(path, engine=_engine(), cache=False)
        if data.nbytes <= most:
            with data:
                data = data.load()
    except PermissionError:
        raise
    except Exception as error:  # HDF5 raises many types of errors on damaged bytes
        raise ValueError(
            f"{path} is damaged or not a netCDF file ({type(error).__name__}: "
            f"{str(error).splitlines()[0][:120] if str(error) else 'no message'}). "
            "Restore the file from a copy, or run the study again."
        ) from error
    data.attrs = {  # attributes read from a file are NumPy scalars
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in data.attrs.items()
    }
    return data.assign_coords(strategy=data["strategy"].astype(str)) if "strategy" in data else data


def _chunking(variable: xr.Variable, trials: int) -> dict[str, object]:
    """Checksum and chunk sizes of a netCDF variable; a chunk has one strategy and at most 1 MiB."""
    sizes = {str(name): size for name, size in variable.sizes.items()} | {"strategy": 1}
    sizes = {
        name: max(1, min(size, LONGEST)) for name, size in sizes.items() if name in variable.dims
    }
    numbers = math.prod(size for name, size in sizes.items() if name != "trial")
    most = PIECE_BYTES // max(1, numbers * variable.dtype.itemsize)
    sizes["trial"] = max(1, min(trials, most))
    return {"fletcher32": True, "chunksizes": tuple(sizes.values())}


def _engine() -> Literal["h5netcdf"]:
    """The name of the netCDF engine, after checking that it is installed."""
    try:
        importlib.import_module("h5py"), importlib.import_module("h5netcdf")
    except ImportError as error:
        raise ImportError(
            f"{error.name} is not installed: pip install 'botorch-tv[study]'"
        ) from error
    return "h5netcdf"
