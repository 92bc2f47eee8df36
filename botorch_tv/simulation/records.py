"""What a study writes down about every strategy, trial and round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from botorch_tv.simulation.diagnosis.variables import VARIABLES as DIAGNOSIS
from botorch_tv.strategies.state import Suggestion

Arrays = Mapping[str, np.ndarray]
"""Variables of a study by name, each `strategies x trials x horizon`; maps `strategies x M`."""

VARIABLES = ("regret", "resets", "side_queries")
"""What every study records, beside what was chosen."""
SQUARED_ERROR = "squared_error"
"""Squared error of the posterior mean, averaged over the arms; recorded if it is asked for."""
MAPS = ("prediction_error", "prediction_error_scatter")
"""What comes with it of a chunk as a whole, summed over its rounds and trials."""
_DTYPES = {"resets": "bool", "side_queries": "int32", "index": "int32"}


def variable_names(
    diagnose: bool, columns: int = 0, prediction_error: bool = False
) -> tuple[str, ...]:
    """Names of the variables that a study records of every trial and round.

    Args:
        diagnose: Whether predictions, bands and observations are among them.
        columns: Coordinates of a choice on a box; 0 on a grid, where choices have numbers.
        prediction_error: Whether squared prediction errors are among them.
    """
    names = VARIABLES + choice_names(columns) + (tuple(DIAGNOSIS) if diagnose else ())
    return (*names, SQUARED_ERROR) if prediction_error else names


def choice_names(columns: int) -> tuple[str, ...]:
    """Names of the variables that hold choices: one number on a grid, coordinates on a box."""
    return tuple(f"x{i + 1}" for i in range(columns)) or ("index",)


def chosen(suggestion: Suggestion) -> dict[str, Tensor]:
    """The variables that hold a choice, each `trials`."""
    if suggestion.index is not None:
        return {"index": suggestion.index}
    coordinates = suggestion.X.unbind(-1)
    return dict(zip(choice_names(len(coordinates)), coordinates))


def dtype_of(variable: str, dtype: str) -> np.dtype[Any]:
    """The type of a variable in a study that computes in ``dtype``."""
    return np.dtype(_DTYPES.get(variable, dtype))


def blank_records(
    shape: tuple[int, int, int],
    *,
    dtype: torch.dtype,
    device: torch.device,
    diagnose: bool,
    columns: int,
    prediction_error: bool,
) -> dict[str, Tensor]:
    """Room for the variables of a chunk.

    Args:
        shape: `horizon x strategies x trials`, so that a round is written in one piece.
        dtype: Of the real numbers.
        device: Where the chunk runs.
        diagnose: Whether to record predictions, bands and observations.
        columns: Coordinates of a choice on a box; 0 on a grid.
        prediction_error: Whether to record squared prediction errors.

    Returns:
        Variables by name, each of that shape.
    """
    types = {name: getattr(torch, own) for name, own in _DTYPES.items()}
    return {
        name: torch.empty(shape, dtype=types.get(name, dtype), device=device)
        for name in variable_names(diagnose, columns, prediction_error)
    }


def on_host(records: Mapping[str, Tensor]) -> Arrays:
    """The variables of a finished chunk as `strategies x trials x horizon`."""
    return {
        name: whole.permute(1, 2, 0).contiguous().cpu().numpy() for name, whole in records.items()
    }


def joined(parts: Sequence[Arrays]) -> Arrays:
    """The variables of several chunks, one after the other, without their maps."""
    return {
        name: np.concatenate([part[name] for part in parts], axis=1)
        for name in parts[0]
        if name not in MAPS
    }
