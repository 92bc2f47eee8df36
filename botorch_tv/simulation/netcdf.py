"""Labelled datasets in files: written whole or not at all, read whole or refused."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xarray as xr

from botorch_tv.files import replacing


def write_dataset(data: xr.Dataset, path: str | os.PathLike[str]) -> Path:
    """Write a dataset to one compressed netCDF file, all of it or nothing.

    The file appears under its name only once it is complete and on the disk. Folders that do not
    exist are made.

    Args:
        data: The dataset.
        path: The file, `.nc` by custom.

    Returns:
        The path written.

    Raises:
        OSError: If it cannot be written; an older file is then as it was.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    compressed = {"zlib": True, "complevel": 4, "shuffle": True}
    encoding = {str(name): compressed for name, one in data.data_vars.items() if one.ndim > 0}
    engine = _engine()
    with replacing(path.resolve()) as unfinished:
        data.to_netcdf(unfinished, engine=engine, encoding=encoding)
    return path


def read_dataset(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read a file that :func:`write_dataset` wrote, into memory as a whole.

    Args:
        path: The file.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is damaged, or no netCDF file.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}: check the path.")
    engine = _engine()
    try:
        data = xr.load_dataset(path, engine=engine)
    except PermissionError:
        raise
    except Exception as error:  # whatever the HDF5 layers make of damaged bytes
        raise ValueError(
            f"{path} is damaged or no netCDF file ({type(error).__name__}: "
            f"{str(error).splitlines()[0][:120] if str(error) else 'no message'}). "
            "Restore it from a copy, or run the study again."
        ) from error
    data.attrs = {name: _plain(value) for name, value in data.attrs.items()}
    return data


def _engine() -> Literal["h5netcdf"]:
    """The name of the netCDF engine, once it is known to be there."""
    try:
        for module in ("h5netcdf", "h5py"):
            importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"Saving and loading studies need {error.name}, which is not installed: "
            "pip install 'botorch-tv[study]'"
        ) from error
    return "h5netcdf"


def _plain(value: Any) -> Any:
    """An attribute as str, int or float, which the file gives back as a numpy scalar."""
    return value.item() if isinstance(value, np.generic) else value
