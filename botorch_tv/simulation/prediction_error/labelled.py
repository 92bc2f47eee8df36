"""Maps of prediction errors with names and places: how a result holds and returns them."""

from __future__ import annotations

import numpy as np
import xarray as xr

from botorch_tv.simulation.records import MAPS, SQUARED_ERROR
from botorch_tv.strategies.domains import Domain, Grid

MAP = MAPS[0]
MAP_ERROR = "prediction_error_standard_error"
PLACE = "position"
"""Coordinates of the arms, `arm x coordinate`."""


def with_maps(data: xr.Dataset, mean: np.ndarray, error: np.ndarray, grid: Domain) -> xr.Dataset:
    """A study with its maps.

    Args:
        data: The study.
        mean: Squared prediction error, `strategies x M`.
        error: Its standard error, `strategies x M`.
        grid: The arms.
    """
    assert isinstance(grid, Grid)
    places = grid.X.detach().cpu().numpy().astype(np.float64)
    maps = {MAP: (("strategy", "arm"), mean), MAP_ERROR: (("strategy", "arm"), error)}
    return data.assign(maps).assign_coords(
        {"arm": np.arange(len(places)), PLACE: (("arm", "coordinate"), places)}
    )


def prediction_error(data: xr.Dataset) -> xr.Dataset:
    """The maps of a study; see :attr:`StudyResult.prediction_error`.

    Raises:
        ValueError: If it did not record them.
    """
    require_maps(data)
    return xr.Dataset(
        {
            "mean": data[MAP].transpose("strategy", "arm"),
            "standard_error": data[MAP_ERROR].transpose("strategy", "arm"),
        },
        coords={PLACE: data[PLACE]},
    )


def squared_error(data: xr.Dataset) -> xr.DataArray:
    """Squared error averaged over the arms; see :attr:`StudyResult.squared_error`.

    Raises:
        ValueError: If the study did not record it.
    """
    require_maps(data)
    return data[SQUARED_ERROR].transpose("strategy", "trial", "round")


def require_maps(data: xr.Dataset) -> None:
    """Refuse a study without maps.

    Raises:
        ValueError: Saying how to get them.
    """
    missing = [name for name in (MAP, MAP_ERROR, PLACE, SQUARED_ERROR) if name not in data]
    if missing:
        raise ValueError(
            f"This study did not record {', '.join(missing)}; run it again with "
            "run_study(..., prediction_error=True), or botorch-tv compare --prediction-error."
        )
