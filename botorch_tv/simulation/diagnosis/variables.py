"""What a diagnosed study records in every round besides regret, resets and choices."""

from __future__ import annotations

import numpy as np
import xarray as xr

VARIABLES = {
    "observation": "the observation y_t",
    "objective": "the noiseless objective f_t(x_t)",
    "mean": "mean predicted at x_t before y_t was seen",
    "sd": "standard deviation of that prediction, without observation noise",
    "multiplier": "sqrt(beta_t), half the width of the band played, in units of sd",
    "band": "what |y_t - mean| had to exceed for an alarm; NaN without a trigger",
    "simple_regret": "regret of the arm recommended before y_t was seen",
}
"""Variables of shape `strategy x trial x round`, and what they hold."""

MODEL_NOISE = "model_noise"
"""Variable of shape `strategy`: noise variance σ² of a new observation in the strategy's model."""


def is_diagnosed(data: xr.Dataset) -> bool:
    """Whether everything a diagnosis reads was recorded."""
    return all(name in data for name in (*VARIABLES, MODEL_NOISE))


def require_recorded(data: xr.Dataset, *names: str) -> None:
    """Refuse a study that did not record these variables.

    Raises:
        ValueError: If one is missing, naming it and how to get it.
    """
    missing = [name for name in names if name not in data]
    if missing:
        raise ValueError(
            f"This study did not record {', '.join(missing)}; run it again with "
            "run_study(..., diagnose=True), or botorch-tv compare --diagnose."
        )


def recorded(data: xr.Dataset, name: str, strategy: str) -> np.ndarray:
    """One variable of one strategy in float64, `trials x rounds`."""
    values = data[name].sel(strategy=strategy).transpose("trial", "round").values
    return np.asarray(values, dtype=np.float64)


def model_noise(data: xr.Dataset, strategy: str) -> float:
    """Noise variance σ² in the model of one strategy."""
    return float(data[MODEL_NOISE].sel(strategy=strategy))
