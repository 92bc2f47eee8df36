"""Calibration of the bands, and causes of resets, from the variables of the recorder Diagnosis.

The posterior is conditional on all data that determined the choice x_t. If the model is correct,
f_t(x_t) therefore lies within mean ± z sd with exactly the nominal probability, whatever rule
chooses x_t from the posterior. Rounds of a trial are dependent and trials are independent, so all
standard errors are computed over trials. A round is ignored if its measurement failed. A round is
also ignored if the strategy cannot predict yet, because the strategy must first estimate the units
of the observations. The objective of a replayed panel contains the noise of the readings. To judge
the model of a panel, therefore use the calibration of the observations and not that of the
objective.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np
import pandas as pd
import torch
import xarray as xr

from botorch_tv.simulation.datasets import BlockMoments, blocks, by_trial
from botorch_tv.simulation.recorders import MODEL_NOISE, recorded, require_recorded
from botorch_tv.validation import require, require_integer, require_number

LEVELS = tuple(percent / 100 for percent in range(5, 100, 5))
NEEDED = ("observation", "objective", "mean", "sd", "sqrt_beta", MODEL_NOISE)


def _deviations(data: xr.Dataset, strategy: str) -> tuple[np.ndarray, ...]:
    """Standardised deviations from one strategy's predictions, each `trials x rounds`.

    Args:
        data: A diagnosed study.
        strategy: Label of the strategy.

    Returns:
        Three arrays. First, |f_t(x_t) − mean| in units of sd. Second, |y_t − mean| in units of
        sqrt(sd² + σ²), where σ² is the model's noise variance. Third, √beta: half the width of the
        confidence band of the strategy, in units of sd.
    """
    y, f, mean, sd, sqrt_beta, noise = (recorded(data, name, strategy) for name in NEEDED)
    with np.errstate(divide="ignore", invalid="ignore"):  # sd may be 0
        objective = np.where(f == mean, 0.0, np.abs(f - mean) / sd)
    return objective, np.abs(y - mean) / np.sqrt(sd**2 + noise), sqrt_beta


def calibration(data: xr.Dataset, levels: Sequence[float] | None = None) -> xr.Dataset:
    """For the objective and for the observation, the share of rounds inside the predicted bands.

    Args:
        data: A diagnosed study.
        levels: Nominal levels, each in (0, 1); 0.05, 0.10, ..., 0.95 by default.

    Returns:
        The following variables. The standard error of each variable over trials is in a variable
        with the suffix `_error`; it is NaN for a single trial. `objective` (`strategy x level`):
        share of rounds with |f_t(x_t) − mean| <= z sd, where z is the normal quantile of the level.
        `observation` (`strategy x level`): share of rounds with |y_t − mean| <= z sqrt(sd² + σ²).
        `played` (`strategy`): share of rounds with f_t(x_t) in the strategy's own band, mean ±
        √beta · sd. `played_level` (`strategy`): nominal level of the strategy's own band, averaged
        over rounds. `throughout` (`strategy`): share of trials in which f_t(x_t) lies in the
        strategy's own band in every round; theorems guarantee that the probability of such a trial
        is at least 1 − δ. If a strategy explores without a band, as GP-EI does, √beta comes from
        the strategy's ``width``.

    Raises:
        ValueError: If the study was not diagnosed, or if a level lies outside (0, 1).
    """
    require_recorded(data, *NEEDED)
    chosen = LEVELS if levels is None else tuple(levels)
    require(len(chosen) > 0, "calibration: levels is empty; give at least one level, such as 0.9.")
    limits = [_quantile(level) for level in chosen]

    def shares(*deviations: np.ndarray) -> dict[str, np.ndarray]:
        objective, observation, sqrt_beta = deviations
        inside = _inside(objective, sqrt_beta)
        present = ~np.isnan(inside)
        throughout = np.where(present, inside, 1.0).all(axis=-1)
        level = torch.erf(torch.from_numpy(sqrt_beta) / math.sqrt(2)).numpy()
        by_level = {
            name: np.stack([_of_trials(_inside(distance, limit)) for limit in limits], axis=-1)
            for name, distance in (("objective", objective), ("observation", observation))
        }
        return by_level | {
            "played": _of_trials(inside),
            "throughout": np.where(present.any(axis=-1), throughout, np.nan),
            "played_level": _of_trials(level),
        }

    rows = _over_trials(data, shares)
    del rows["played_level_error"]
    return xr.Dataset(
        {
            name: (("strategy", "level") if name.startswith("ob") else ("strategy",), np.array(row))
            for name, row in rows.items()
        },
        coords={"strategy": data["strategy"].values, "level": list(chosen)},
    )


def calibration_by_round(data: xr.Dataset, level: float = 0.9, block: int = 1) -> xr.Dataset:
    """Calibration over time at a nominal level.

    Args:
        data: A diagnosed study.
        level: Nominal level of the bands, in (0, 1).
        block: Number of consecutive rounds that are averaged together, at least 1. With few trials,
            shares of single rounds are noisy.

    Returns:
        The variables `objective`, `observation` and `played` of :func:`calibration`, each of shape
        `strategy x round`. The standard errors of these variables over trials are
        `objective_error`, `observation_error` and `played_error`. The coordinate `round` is the
        middle of each block of rounds; the last block may be shorter.

    Raises:
        ValueError: If the study was not diagnosed, if the level lies outside (0, 1), or if the
            block is below 1.
    """
    require_recorded(data, *NEEDED)
    block = require_integer("calibration_by_round: block", block, 1, "it is a number of rounds.")
    limit = _quantile(level)

    def shares(*deviations: np.ndarray) -> dict[str, np.ndarray]:
        objective, observation, sqrt_beta = deviations
        inside = {
            "objective": _inside(objective, limit),
            "observation": _inside(observation, limit),
            "played": _inside(objective, sqrt_beta),
        }
        return {name: _in_blocks(share, block) for name, share in inside.items()}

    rows = _over_trials(data, shares)
    rounds = data["round"].values
    middles = rounds if block == 1 else _in_blocks(rounds[None].astype(float), block)[0]
    return xr.Dataset(
        {name: (("strategy", "round"), np.array(row)) for name, row in rows.items()},
        coords={"strategy": data["strategy"].values, "round": middles},
        attrs={"level": level},
    )


def _in_blocks(values: np.ndarray, block: int) -> np.ndarray:
    """Mean over every block of consecutive rounds, ignoring NaN, `trials x blocks`."""
    trials, rounds = values.shape
    padding = np.full((trials, -rounds % block), np.nan)
    padded = np.concatenate([values, padding], axis=-1).reshape(trials, -1, block)
    return BlockMoments.of(np.moveaxis(padded, -1, 0)).mean


def _quantile(level: float) -> float:
    """Number z such that a standard normal variate lies within ± z with probability ``level``."""
    require_number("calibration: level", level, "(0, 1)", "give a share such as 0.9.")
    return NormalDist().inv_cdf((1 + level) / 2)


def _inside(distance: np.ndarray, limit: float | np.ndarray) -> np.ndarray:
    """1 if the distance is at most the limit, otherwise 0; NaN if distance or limit is NaN."""
    return np.where(np.isnan(distance) | np.isnan(limit), np.nan, distance <= limit)


def _of_trials(values: np.ndarray) -> np.ndarray:
    """Mean over the rounds of each trial, ignoring NaN, `trials`."""
    return BlockMoments.of(values.T).mean


def _over_trials(
    data: xr.Dataset, shares: Callable[..., dict[str, np.ndarray]]
) -> dict[str, list[np.ndarray]]:
    """For each share, two lists with an item per strategy: mean over trials, standard error.

    Args:
        data: A diagnosed study.
        shares: A function of the standardised deviations of some trials. The function returns
            arrays by name, such as shares of rounds inside a band; the first dimension of each
            array is `trials`.
    """
    rows: dict[str, list[np.ndarray]] = {}
    for label in map(str, data["strategy"].values):
        parts: dict[str, list[BlockMoments]] = {}
        for block in blocks(data[list(NEEDED)].sel(strategy=[label])):
            for name, values in shares(*_deviations(block, label)).items():
                parts.setdefault(name, []).append(BlockMoments.of(values))
        for name, of_blocks in parts.items():
            whole = BlockMoments.together(of_blocks)
            rows.setdefault(name, []).append(whole.mean)
            rows.setdefault(f"{name}_error", []).append(whole.error)
    return rows


TRIGGERED = ("observation", "objective", "mean", "sd", "band", MODEL_NOISE)
CAUSES = ("objective", "noise", "both")


def with_trigger(data: xr.Dataset) -> list[str]:
    """Labels of the strategies that reset when an observation lies outside a band."""
    require_recorded(data, "band")
    armed = by_trial(data["band"], lambda band: band.notnull().any("round")).any("trial")
    return [str(label) for label in data["strategy"].values[armed.values]]


def trigger_table(data: xr.Dataset) -> pd.DataFrame:
    """One row per triggered reset, in the order of strategies, trials and rounds.

    The deviation y − mean is the sum of the model's error f_t(x_t) − mean and the noise y −
    f_t(x_t). The band of [ET] Lemma 3 is the sum of an error part, sqrt(2L) sd for the model's
    error (Lemma 1), and a noise part, sqrt(2L) σ for the noise (Lemma 2). The model's error and the
    noise are signed: positive in the direction of the deviation. If only the model's error exceeds
    the error part of the band, as after a change of the objective, the cause of the reset is
    "objective". If only the noise exceeds the noise part of the band, the cause of the reset is
    "noise"; if the objective is static, such a trigger is false. If the model's error exceeds the
    error part of the band and the noise exceeds the noise part, the cause of the reset is "both".
    If a trigger's band differs from the band of [ET], the trigger's band is divided into an error
    part and a noise part in the ratio of sd to σ.

    Args:
        data: A diagnosed study.

    Returns:
        The following columns. `strategy`, `trial` and `round`: where the reset occurred.
        `rounds_since_reset`: the t' of [ET], which is 1 in the round after a reset; before the
        first reset, t' is the number of the round. `mean` and `sd`: posterior mean and standard
        deviation of f_t(x_t) before y was observed. `observation`: y. `objective`: f_t(x_t).
        `band`: largest |y − mean| that triggers no reset. `error`: |y − mean|. `error_of_model` and
        `error_of_noise`: the model's error and the noise; they are signed, and their sum is
        `error`. `cause`:
        "objective", "noise" or "both". Predictions, deviations and bands are in the units of y.

    Raises:
        ValueError: If the study was not diagnosed.
    """
    require_recorded(data, *TRIGGERED)
    needed = data[["resets", *TRIGGERED]]
    tables = [
        _table_of(block, label)
        for label in map(str, data["strategy"].values)
        for block in blocks(needed.sel(strategy=[label]))
    ]
    return pd.concat(tables, ignore_index=True)


def typical_trial(data: xr.Dataset, strategy: str) -> int:
    """Index of the first trial whose number of resets is closest to the median over trials.

    Trials without resets are excluded, unless no trial has a reset.
    """
    resets = data["resets"].sel(strategy=strategy)
    counts = by_trial(resets, lambda flags: flags.sum("round")).values
    middle = np.median(counts[counts > 0]) if counts.any() else 0
    return int(np.abs(np.where(counts > 0, counts, np.inf) - middle).argmin())


def rounds_since_reset(resets: np.ndarray, rounds: np.ndarray) -> np.ndarray:
    """The t' of [ET] in each round: the number of rounds since the last reset, or since the start.

    Args:
        resets: Whether a round ended in a reset, bool, `trials x rounds`.
        rounds: Number of each round, counted from 1.
    """
    last = np.maximum.accumulate(np.where(resets, rounds, 0), axis=-1)
    before = np.concatenate([np.zeros_like(last[:, :1]), last[:, :-1]], axis=-1)
    return rounds - before


def _table_of(data: xr.Dataset, label: str) -> pd.DataFrame:
    """The rows of the trigger table for one strategy."""
    resets = data["resets"].sel(strategy=label).transpose("trial", "round").values.astype(bool)
    band = recorded(data, "band", label)
    trial, step = np.nonzero(resets & np.isfinite(band))
    mean, sd, observation, objective = (
        recorded(data, name, label)[trial, step]
        for name in ("mean", "sd", "observation", "objective")
    )
    direction = np.sign(observation - mean)
    of_model = direction * (objective - mean)
    of_noise = direction * (observation - objective)
    band, noise_sd = band[trial, step], recorded(data, MODEL_NOISE, label)[trial, step] ** 0.5
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
            "cause": pd.Series(_causes(of_model, of_noise, band, sd, noise_sd), dtype=object),
        }
    )


def _causes(
    of_model: np.ndarray,
    of_noise: np.ndarray,
    band: np.ndarray,
    sd: np.ndarray,
    noise_sd: np.ndarray,
) -> list[str]:
    """The cause of each triggered reset: the error that is larger than its part of the band."""
    factor = band / (sd + noise_sd)
    # The excess of an error over its part of the band is signed, because noise in the direction of
    # the prediction cannot cause a reset.
    model, noise = of_model - factor * sd, of_noise - factor * noise_sd
    # Because of rounding, both excesses may be negative. The cause is then the error with the
    # larger excess: the model's error or the noise.
    by_model, by_noise = (model > 0) | (model >= noise), (noise > 0) | (noise > model)
    return [CAUSES[2 if both else int(other)] for both, other in zip(by_model & by_noise, by_noise)]
