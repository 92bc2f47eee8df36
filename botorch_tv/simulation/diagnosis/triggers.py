"""Why a strategy reset: the prediction, the band and the observation at every alarm."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from botorch_tv.simulation.datasets import blocks, by_trial
from botorch_tv.simulation.recorders import (
    MODEL_NOISE,
    model_noise,
    recorded,
    require_diagnosed,
)

NEEDED = ("observation", "objective", "mean", "sd", "band", MODEL_NOISE)
CAUSES = ("objective", "noise", "both")


def with_trigger(data: xr.Dataset) -> list[str]:
    """Labels of the strategies that reset by a trigger with a band."""
    require_diagnosed(data, "band")
    armed = by_trial(data["band"], lambda one: one.notnull().any("round")).any("trial")
    return [str(label) for label in data["strategy"].values[armed.values]]


def trigger_table(data: xr.Dataset) -> pd.DataFrame:
    """One row per reset by a trigger, in the order of strategies, trials and rounds.

    The deviation splits exactly into the model's error and the noise: y − mean =
    (f_t(x_t) − mean) + (y − f_t(x_t)). The band of [ET] Lemma 3 has a part for each: sqrt(2L) sd
    for the model's error (Lemma 1) and sqrt(2L) σ for the noise (Lemma 2). At an alarm at least one
    of the two exceeds its part, in the direction of the deviation. That is the cause: "objective"
    (f_t(x_t) left the model's band around it, as it does when the world has changed), "noise" (the
    objective was inside its band; in a static world this is a false alarm), or "both". Other bands
    are divided in the same proportion, sd to σ.

    Args:
        data: A diagnosed study.

    Returns:
        Columns `strategy`, `trial`, `round`, `rounds_since_reset` (t', which is 1 in the round
        after a reset; the number of the round if there was none), `mean` and `sd` (of the
        prediction before y, without noise), `observation`, `objective`, `band`, `error` =
        |y − mean|, its two signed parts `error_of_model` and `error_of_noise`, which sum to
        `error`, and `cause`. All in the units of y.

    Raises:
        ValueError: If the study was not diagnosed.
    """
    require_diagnosed(data, *NEEDED)
    needed = data[["resets", *NEEDED]]
    tables = [
        _table_of(block, label)
        for label in with_trigger(data)
        for block in blocks(needed.sel(strategy=[label]))
    ]
    tables = tables or [_table_of(needed.isel(trial=slice(1)), None)]
    return pd.concat(tables, ignore_index=True)


def typical_trial(data: xr.Dataset, strategy: str) -> int:
    """Index of the first trial whose number of resets is closest to the median.

    Trials without resets are excluded, unless all are.
    """
    resets = data["resets"].sel(strategy=strategy)
    counts = by_trial(resets, lambda one: one.sum("round")).values
    middle = np.median(counts[counts > 0]) if counts.any() else 0
    return int(np.abs(np.where(counts > 0, counts, np.inf) - middle).argmin())


def rounds_since_reset(resets: np.ndarray, rounds: np.ndarray) -> np.ndarray:
    """The rounds t' of [ET] since the last reset before each round, or since the start.

    Args:
        resets: Whether a round ended in a reset, bool, `trials x rounds`.
        rounds: Number of each round, from 1.
    """
    last = np.maximum.accumulate(np.where(resets, rounds, 0), axis=-1)
    before = np.concatenate([np.zeros_like(last[:, :1]), last[:, :-1]], axis=-1)
    since: np.ndarray = rounds - before
    return since


def _table_of(data: xr.Dataset, strategy: str | None) -> pd.DataFrame:
    """The rows of one strategy; for None an empty table with the same columns."""
    label = str(data["strategy"].values[0]) if strategy is None else strategy
    resets = data["resets"].sel(strategy=label).transpose("trial", "round").values.astype(bool)
    band = recorded(data, "band", label)
    trial, step = np.nonzero(resets & np.isfinite(band) & (strategy is not None))
    mean, sd, observation, objective = (
        recorded(data, name, label)[trial, step]
        for name in ("mean", "sd", "observation", "objective")
    )
    direction = np.sign(observation - mean)
    of_model = direction * (objective - mean)
    of_noise = direction * (observation - objective)
    band = band[trial, step]
    return pd.DataFrame(
        {
            "strategy": pd.Series([label] * len(trial), dtype=object),
            "trial": data["trial"].values[trial],
            "round": data["round"].values[step],
            "rounds_since_reset": rounds_since_reset(resets, data["round"].values)[trial, step],
            "mean": mean,
            "sd": sd,
            "observation": observation,
            "objective": objective,
            "band": band,
            "error": np.abs(observation - mean),
            "error_of_model": of_model,
            "error_of_noise": of_noise,
            "cause": pd.Series(
                _causes(of_model, of_noise, band, sd, model_noise(data, label)[trial, step] ** 0.5),
                dtype=object,
            ),
        }
    )


def _causes(
    of_model: np.ndarray,
    of_noise: np.ndarray,
    band: np.ndarray,
    sd: np.ndarray,
    noise_sd: np.ndarray,
) -> list[str]:
    """The part of the band that was exceeded, per alarm."""
    factor = band / (sd + noise_sd)
    # Signed, because noise towards the prediction cannot cause an alarm.
    model, noise = of_model - factor * sd, of_noise - factor * noise_sd
    # By rounding, neither may exceed its part: then the larger excess counts.
    by_model, by_noise = (model > 0) | (model >= noise), (noise > 0) | (noise > model)
    return [CAUSES[2 if both else int(other)] for both, other in zip(by_model & by_noise, by_noise)]
