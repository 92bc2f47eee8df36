"""Study results made by hand, for tests that need no strategy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr

from botorch_tv.simulation.recorders import VARIABLES
from botorch_tv.simulation.result import StudyResult


def make_result(
    regret: Mapping[str, np.ndarray],
    resets: Mapping[str, np.ndarray] | None = None,
    **attributes: str | int | float,
) -> StudyResult:
    """A result from a `trials x rounds` array of regret (and of resets) per strategy."""
    stacked = np.stack([np.asarray(values, dtype=float) for values in regret.values()])
    fired = np.zeros(stacked.shape, dtype=bool)
    for position, label in enumerate(regret):
        if resets and label in resets:
            fired[position] = resets[label]
    dimensions = ("strategy", "trial", "round")
    data = xr.Dataset(
        {
            "regret": (dimensions, stacked),
            "resets": (dimensions, fired),
            "side_queries": (dimensions, np.zeros(stacked.shape, dtype=np.int32)),
            "index": (dimensions, np.zeros(stacked.shape, dtype=np.int32)),
        },
        coords={
            "strategy": list(regret),
            "trial": np.arange(stacked.shape[1]),
            "round": np.arange(1, stacked.shape[2] + 1),
        },
        attrs={"seed": 0, "noise": 0.02, "seconds": 1.5, "world": "MarkovWorld()"} | attributes,
    )
    return StudyResult(data)


def random_result(
    levels: Mapping[str, float], trials: int, rounds: int, seed: int = 0, resets_of: str = ""
) -> StudyResult:
    """Regret around a level per strategy with noise shared by the strategies of a trial."""
    generator = np.random.default_rng(seed)
    shared = generator.gamma(2.0, 0.25, size=(trials, rounds))
    regret = {
        label: level * shared * generator.uniform(0.8, 1.2, size=(trials, rounds))
        for label, level in levels.items()
    }
    fired = {resets_of: generator.random((trials, rounds)) < 0.02} if resets_of else None
    return make_result(regret, fired)


def make_diagnosed(
    recorded: Mapping[str, Mapping[str, np.ndarray]],
    resets: Mapping[str, np.ndarray] | None = None,
    model_noise: float = 0.25,
) -> StudyResult:
    """A diagnosed result from `trials x rounds` arrays per strategy and variable.

    Variables that are not given: sd and sqrt_beta 1, no band, all else 0.
    """
    defaults = {name: 0.0 for name in VARIABLES} | {"sd": 1.0, "sqrt_beta": 1.0, "band": np.nan}
    shape = next(np.shape(item) for given in recorded.values() for item in given.values())
    plain = make_result({label: np.zeros(shape) for label in recorded}, resets)
    stacked = {
        name: np.stack(
            [np.broadcast_to(given.get(name, default), shape) for given in recorded.values()]
        ).astype(float)
        for name, default in defaults.items()
    }
    variables = {name: (("strategy", "trial", "round"), item) for name, item in stacked.items()}
    noises = xr.full_like(plain.data["regret"], model_noise)
    return StudyResult(plain.data.assign(variables).assign(model_noise=noises))


def drawn_diagnosis(
    widths: Mapping[str, float],
    trials: int,
    rounds: int,
    *,
    noise: float = 0.25,
    sqrt_beta: float = 1.5,
    seed: int = 0,
    trigger_of: str = "",
) -> StudyResult:
    """Predictions whose errors are normal, with a spread of each width times the predicted sd.

    The objective lies in mean ± z sd with probability 2Φ(z / width) - 1. The noise is the model's.
    The strategy named last has a trigger with a band of 2.5 (sd + σ), which resets for its record
    alone.
    """
    generator = np.random.default_rng(seed)
    recorded, resets = {}, {}
    for label, width in widths.items():
        mean = generator.normal(size=(trials, rounds))
        sd = generator.uniform(0.1, 1.0, size=(trials, rounds))
        objective = mean + width * sd * generator.normal(size=(trials, rounds))
        observation = objective + noise**0.5 * generator.normal(size=(trials, rounds))
        recorded[label] = {
            "mean": mean,
            "sd": sd,
            "objective": objective,
            "observation": observation,
            "sqrt_beta": np.full((trials, rounds), sqrt_beta),
            "simple_regret": width * generator.gamma(2.0, 0.25, size=(trials, rounds)),
        }
        if label == trigger_of:
            band = 2.5 * (sd + noise**0.5)
            recorded[label]["band"] = band
            resets[label] = np.abs(observation - mean) > band
    return make_diagnosed(recorded, resets, noise)
