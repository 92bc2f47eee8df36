"""What tells why a strategy reset, and whether its bands are right."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from botorch_tv.simulation.recorders.recorder import Recorder, Seen, Variable, require_recorded
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.domains import Domain

VARIABLES = {
    "observation": "the observation y_t",
    "objective": "the noiseless objective f_t(x_t)",
    "mean": "mean predicted at x_t before y_t was seen",
    "sd": "standard deviation of that prediction, without observation noise",
    "sqrt_beta": "sqrt(beta_t), half the width of the band played, in units of sd",
    "band": "what |y_t - mean| had to exceed for an alarm; NaN without a trigger",
    "simple_regret": "regret of the arm recommended before y_t was seen",
}
"""Variables of shape `strategy x trial x round`, and what they hold."""

MODEL_NOISE = "model_noise"
"""Variable of shape `strategy`: noise variance σ² of a new observation in the strategy's model."""


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
        band = player.band(state, suggestion)
        return {
            "observation": seen.observation,
            "objective": seen.value,
            "mean": suggestion.mean,
            "sd": suggestion.sd,
            "sqrt_beta": suggestion.sqrt_beta,
            "band": torch.full_like(suggestion.sd, math.nan) if band is None else band,
            "simple_regret": seen.regret(seen.objective.at(player.recommended_arm(state))),
        }

    def labels(self, domain: Domain, strategies: Mapping[str, Strategy]) -> xr.Dataset:
        noise = [float(one.noise) for one in strategies.values()]
        return xr.Dataset({MODEL_NOISE: ("strategy", np.array(noise, dtype=np.float64))})


def is_diagnosed(data: xr.Dataset) -> bool:
    """Whether everything a diagnosis reads was recorded."""
    return all(name in data for name in (*VARIABLES, MODEL_NOISE))


def with_present_names(data: xr.Dataset) -> xr.Dataset:
    """What was read from a file, in older ones of which ``sqrt_beta`` is called ``multiplier``."""
    if MODEL_NOISE in data and "multiplier" in data and "sqrt_beta" not in data:
        return data.rename(multiplier="sqrt_beta")
    return data


def require_diagnosed(data: xr.Dataset, *names: str) -> None:
    """Refuse a study that did not record these variables of a diagnosis.

    Raises:
        ValueError: If one is missing, naming it and how to get it.
    """
    require_recorded(data, names, "Diagnosis", "--diagnose")


def recorded(data: xr.Dataset, name: str, strategy: str) -> np.ndarray:
    """One variable of one strategy in float64, `trials x rounds`."""
    values = data[name].sel(strategy=strategy).transpose("trial", "round").values
    return np.asarray(values, dtype=np.float64)


def model_noise(data: xr.Dataset, strategy: str) -> float:
    """Noise variance σ² in the model of one strategy."""
    return float(data[MODEL_NOISE].sel(strategy=strategy))
