"""Record predictions and bands, to see why a strategy resets and whether its bands hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from botorch_tv.simulation.recorders.recorder import Recorder, Seen, Variable, require_recorded
from botorch_tv.strategies.domains import Domain

VARIABLES = {
    "observation": "the observation y_t",
    "objective": "the noiseless objective f_t(x_t)",
    "mean": "mean predicted at x_t before y_t was seen",
    "sd": "standard deviation of that prediction, without observation noise",
    "sqrt_beta": "sqrt(beta_t), half the width of the band played, in units of sd",
    "band": "what |y_t - mean| had to exceed for an alarm; NaN without a trigger",
    "simple_regret": "regret of the arm recommended before y_t was seen",
    "model_noise": "noise variance σ² of an observation, as the strategy believes before y_t",
}
"""Variables of shape `strategy x trial x round`, and their meaning. Predictions are NaN in rounds
without one, as in the first rounds of a strategy that estimates its units."""

MODEL_NOISE = "model_noise"
"""One of these, because the adaptive strategy's σ² changes from round to round. In older files it
has the shape `strategy`."""


@dataclass(frozen=True)
class Diagnosis(Recorder):
    """Records predictions, bands and observations; a study takes about twice the time.

    The result has then :meth:`~StudyResult.triggers`, :meth:`~StudyResult.calibration` and
    :attr:`~StudyResult.simple_regret`, and the variables of ``VARIABLES``.
    """

    def variables(self, domain: Domain) -> Mapping[str, Variable]:
        return dict.fromkeys(VARIABLES, Variable())

    def before(self, seen: Seen) -> Mapping[str, Tensor]:
        player, state, suggestion = seen.strategy, seen.state, seen.suggestion
        band, unknown = player.band(state, suggestion), suggestion.sd.new_tensor(math.nan)
        predicted = {
            "mean": suggestion.mean,
            "sd": suggestion.sd,
            "sqrt_beta": suggestion.sqrt_beta,
            "band": unknown if band is None else band,
            MODEL_NOISE: player.believed_noise(state),
        }
        # Placeholders before the first prediction must not count in the calibration.
        predicts = player.predicts(state)
        return {
            "observation": seen.observation,
            "objective": seen.value,
            "simple_regret": seen.regret(seen.objective.at(player.recommended_arm(state))),
            **{name: torch.where(predicts, one, unknown) for name, one in predicted.items()},
        }


def is_diagnosed(data: xr.Dataset) -> bool:
    """Whether all variables of a diagnosis were recorded."""
    return all(name in data for name in VARIABLES)


def with_present_names(data: xr.Dataset) -> xr.Dataset:
    """Rename ``multiplier``, the name of ``sqrt_beta`` in older files."""
    if MODEL_NOISE in data and "multiplier" in data and "sqrt_beta" not in data:
        return data.rename(multiplier="sqrt_beta")
    return data


def require_diagnosed(data: xr.Dataset, *names: str) -> None:
    """Check that a study recorded these variables of a diagnosis.

    Raises:
        ValueError: If one is missing, with its name and how to record it.
    """
    require_recorded(data, names, "Diagnosis", "--diagnose")


def recorded(data: xr.Dataset, name: str, strategy: str) -> np.ndarray:
    """One variable of one strategy in float64, `trials x rounds`."""
    values = data[name].sel(strategy=strategy).transpose("trial", "round").values
    return np.asarray(values, dtype=np.float64)


def model_noise(data: xr.Dataset, strategy: str) -> np.ndarray:
    """Noise variance σ² in the model of one strategy, `trials x rounds`."""
    if "round" in data[MODEL_NOISE].dims:
        return recorded(data, MODEL_NOISE, strategy)
    one = float(data[MODEL_NOISE].sel(strategy=strategy))
    return np.full((data.sizes["trial"], data.sizes["round"]), one)
