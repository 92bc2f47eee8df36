"""The result of a regret study: a labelled dataset with a summary, plots and a file format."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pandas as pd
import torch

from botorch_tv.memory import free_bytes
from botorch_tv.simulation.datasets import by_trial, read_dataset, write_dataset
from botorch_tv.simulation.diagnosis import CAUSES, with_trigger
from botorch_tv.simulation.plots import (
    plot_calibration,
    plot_prediction_error,
    plot_regret,
    plot_simple_regret,
    plot_triggers,
    plot_weights,
)
from botorch_tv.simulation.settings import MEMORY_SHARE
from botorch_tv.simulation.study_record import StudyRecord, aligned


class StudyResult(StudyRecord):
    """The labelled data of every trial of a regret study.

    In every trial all strategies have the same objectives and the same noise, so they are compared
    trial by trial. The paired difference of two strategies has a much smaller standard error than
    the mean of either strategy.

    Args:
        data: Dataset with dimensions `strategy x trial x round` and at least two variables.
            `regret`: instantaneous noiseless regret, max_x f_t(x) − f_t(x_t). `resets`: whether
            data were dropped in this round, bool; a periodic reset happens before the strategy
            chooses, and a triggered reset after the observation. The attributes of the dataset
            document the study: seed, noise, world, versions, and wall time in seconds.

    Raises:
        ValueError: If a variable or a dimension is missing or empty.
    """

    plot = plot_regret
    plot_calibration = plot_calibration
    plot_prediction_error = plot_prediction_error
    plot_simple_regret = plot_simple_regret
    plot_triggers = plot_triggers
    plot_weights = plot_weights

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the result to a compressed netCDF file, atomically.

        The file appears under its name only when complete, so an interrupted save does not change
        an older file. Missing folders are created.

        Args:
            path: The file; its extension is usually `.nc`.

        Returns:
            The path of the written file.
        """
        return write_dataset(self.data, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, in_memory: bool | None = None) -> StudyResult:
        """Read a file written by `save`.

        Args:
            path: The file.
            in_memory: Whether to read the whole file into memory now. If False, a few trials are
                read whenever they are needed, so the file must stay in place. By default a file is
                read into memory if it takes less than half of the free memory.

        Raises:
            FileNotFoundError: If the file does not exist.
            ValueError: If the file is damaged, or is not a study result.
        """
        most = MEMORY_SHARE * free_bytes(torch.device("cpu"))
        data = read_dataset(path, {None: most, True: math.inf, False: 0}[in_memory])
        try:
            return cls(data)
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"{path} is a netCDF file, but no study result: {error} "
                "Give a file that StudyResult.save or botorch-tv wrote."
            ) from error


# ---------------------------------------------------------------- the verdict

CLEAR = 2.0
"""Smallest paired difference for a clear verdict, in standard errors."""


def verdict(result: StudyResult) -> str:
    """Text that compares the two strategies with the lowest regret."""
    table = result.summary()
    best = str(table.index[0])
    level = f"{table['regret_per_round'].iloc[0]:.3f} a round"
    trials = result.data.sizes["trial"]
    if len(table) == 1:
        return f"Only {best} was run: regret {level}."
    second = str(table.index[1])
    gap = result.paired_difference(second, best)
    apart, over = gap.t_ratio, f"over {trials} paired trials"
    found = f"{best} has the lowest regret, {level}"
    if gap.mean == 0 == gap.standard_error:
        return (
            f"{best} and {second} have the lowest regret, {level}, and equal regret in every trial."
        )
    if math.isnan(apart):
        return f"{found}; run more trials for a standard error."
    if apart < CLEAR:
        behind = f"{second} is only {apart:.1f} standard errors behind {over}"
        return f"{found}, but {behind}: too close to call."
    if math.isinf(apart):
        return f"{found}, {gap.mean:.3g} less in every trial."
    return f"{found}, {apart:.1f} standard errors below {second} {over}."


# ---------------------------------------------------------------- further variables

LEVEL = 0.9

_COLUMNS = {
    "triggers": ("triggers", ".2f"),
    "by_objective": ("f left band", ".0%"),
    "by_noise": ("by noise", ".0%"),
    "by_both": ("both", ".0%"),
    "objective": (f"f in {LEVEL:.0%}", ".0%"),
    "observation": (f"y in {LEVEL:.0%}", ".0%"),
    "played": ("f in played", ".0%"),
    "simple_regret": ("simple regret", ".3f"),
}

_LEGEND = (
    "Triggered resets per trial, and the share of each cause. Shares of rounds: objective f and\n"
    f"observation y, each in its {LEVEL:.0%} band; and f in the band mean ± √β sd."
)


def diagnosis_table(result: StudyRecord) -> pd.DataFrame:
    """One row per strategy, in the order of the study.

    Args:
        result: A diagnosed study.

    Returns:
        The following columns. `triggers`: mean number of triggered resets per trial; NaN for a
        strategy without a trigger. `by_objective`, `by_noise` and `by_both`: share of triggered
        resets with each cause; see :func:`trigger_table`. `objective` and `observation`: share of
        rounds in which the objective and the observation, respectively, lie inside a band of
        nominal level 90 %. `played`: share of rounds with the objective inside the strategy's own
        band. `simple_regret`: mean simple regret per round.

    Raises:
        ValueError: If the study was not diagnosed.
    """
    triggers, shares = result.triggers(), result.calibration([LEVEL]).squeeze("level")
    trials, armed = result.data.sizes["trial"], with_trigger(result.data)
    simple = result.over_trials(by_trial(result.simple_regret, lambda regret: regret.mean("round")))
    rows = []
    for label in result.strategies:
        causes = triggers["cause"][triggers["strategy"] == label]
        row = {"triggers": len(causes) / trials if label in armed else math.nan}
        for cause in CAUSES:
            row[f"by_{cause}"] = float((causes == cause).mean()) if len(causes) else math.nan
        for name in ("objective", "observation", "played"):
            row[name] = float(shares[name].sel(strategy=label))
        row["simple_regret"] = simple[label].mean
        rows.append(row)
    index = pd.Index(result.strategies, name="strategy")
    return pd.DataFrame(rows, index=index, columns=list(_COLUMNS), dtype=float)


def diagnosis_text(table: pd.DataFrame) -> str:
    """The diagnosis as text, a line per strategy.

    Args:
        table: The table of :func:`diagnosis_table`.
    """
    shown = {name: column for name, column in _COLUMNS.items() if table[name].notna().any()}
    return f"{aligned(table, shown)}\n{_LEGEND}"


def errors_text(result: StudyRecord) -> str:
    """The mean squared prediction error of every strategy, best first.

    Raises:
        ValueError: If the study did not record prediction errors.
    """
    errors = ", ".join(f"{label} {mean}" for label, mean in result.mean_squared_error().items())
    return f"Squared prediction error, mean over arms, rounds and trials: {errors}."
