"""The result of a regret study: a labelled dataset with a summary, plots and a file format."""

from __future__ import annotations

import math
import os
from pathlib import Path

import torch

from botorch_tv.memory import free_bytes
from botorch_tv.notebook import page
from botorch_tv.simulation.datasets import read_dataset, write_dataset
from botorch_tv.simulation.plots import (
    plot_calibration,
    plot_prediction_error,
    plot_regret,
    plot_simple_regret,
    plot_triggers,
    plot_weights,
)
from botorch_tv.simulation.settings import MEMORY_SHARE
from botorch_tv.simulation.study_record import StudyRecord


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

    def _repr_html_(self) -> str:
        """For notebooks: the verdict, the summary and the regret."""
        return page(verdict(self), self.summary, self.plot)

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
