"""What a regret study leaves behind: one labelled dataset, its summary, its pictures, its file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

try:
    import numpy as np
    import pandas as pd
    import xarray as xr
except ImportError as error:
    raise ImportError(
        f"Regret studies need {error.name}, which is not installed: pip install 'botorch-tv[study]'"
    ) from error

from botorch_tv.simulation.diagnosis.calibration import calibration, calibration_by_round
from botorch_tv.simulation.diagnosis.triggers import trigger_table
from botorch_tv.simulation.diagnosis.variables import is_diagnosed, require_recorded
from botorch_tv.simulation.merging import merged
from botorch_tv.simulation.netcdf import read_dataset, write_dataset
from botorch_tv.simulation.prediction_error.labelled import prediction_error, squared_error
from botorch_tv.simulation.summary import Paired, Summary, summary_table
from botorch_tv.validation import did_you_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIMENSIONS = ("strategy", "trial", "round")
REQUIRED = ("regret", "resets")


@dataclass(frozen=True, repr=False)
class StudyResult:
    """Every trial of a regret study, labelled.

    All strategies of a study face the same worlds and the same noise, so they are compared trial
    by trial: the standard error of a paired difference is far below that of either mean.

    Args:
        data: Dataset with dimensions `strategy x trial x round` and at least the variables
            `regret` (instantaneous, noiseless: max_x f_t(x) − f_t(x_t)) and `resets` (bool: data
            were forgotten in this round; by a period before its choice, by a trigger after its
            observation). Its attributes say how it came about: seed, noise,
            world, versions, wall time in seconds.

    Raises:
        ValueError: If a variable or a dimension is missing, or there is nothing in it.
    """

    data: xr.Dataset

    def __post_init__(self) -> None:
        missing = [name for name in REQUIRED if name not in self.data]
        if missing:
            raise ValueError(
                f"A study result needs the variables {', '.join(REQUIRED)}; "
                f"{', '.join(missing)} missing. Make one with run_study."
            )
        for name in REQUIRED:
            if set(self.data[name].dims) != set(DIMENSIONS):
                raise ValueError(
                    f"The variable {name} has dimensions {self.data[name].dims}; a study result "
                    f"needs {DIMENSIONS}. Make one with run_study."
                )
        empty = [name for name in DIMENSIONS if self.data.sizes[name] == 0]
        if empty:
            raise ValueError(f"The study result holds no {empty[0]}; it needs at least 1.")

    def __repr__(self) -> str:
        size = self.data.sizes
        return (
            f"StudyResult({size['strategy']} strategies x {size['trial']} trials x "
            f"{size['round']} rounds: {', '.join(self.strategies)})"
        )

    def merge(self, *others: StudyResult) -> StudyResult:
        """This result with the strategies of others, which met the same worlds and noise.

        Args:
            others: Results of the same world, seed, trials and horizon, each of other strategies.

        Raises:
            ValueError: If their trials are not the same ones, or a label is in two of them, naming
                what differs.
        """
        data = self.data
        for other in others:
            data = merged(data, other.data)
        return StudyResult(data)

    @property
    def strategies(self) -> list[str]:
        """Labels of the strategies, in the order of the study."""
        return [str(label) for label in self.data["strategy"].values]

    @property
    def regret(self) -> xr.DataArray:
        """Instantaneous noiseless regret, `strategy x trial x round`."""
        return self.data["regret"].transpose(*DIMENSIONS)

    @property
    def resets(self) -> xr.DataArray:
        """Whether data were forgotten in this round, bool, `strategy x trial x round`.

        A period ends before a round's choice, a trigger is set off by its observation.
        """
        return self.data["resets"].transpose(*DIMENSIONS)

    @property
    def side_queries(self) -> xr.DataArray:
        """Points asked of an expert after each round, int, `strategy x trial x round`.

        They are counted apart: ``regret`` and ``resets`` are of the choices alone. 0 throughout
        where a strategy consults no expert.

        Raises:
            ValueError: If the result is of another origin and does not count them.
        """
        if "side_queries" not in self.data:
            raise ValueError(
                "This study result has no variable side_queries; run_study records it."
            )
        return self.data["side_queries"].transpose(*DIMENSIONS)

    @property
    def diagnosed(self) -> bool:
        """Whether the study was run with ``diagnose=True``."""
        return is_diagnosed(self.data)

    @property
    def simple_regret(self) -> xr.DataArray:
        """Regret of the arm that ``recommend`` named in each round, `strategy x trial x round`.

        Before the round's observation and without exploration. It may lie above the regret of the
        arm played, which had the width besides the mean to choose by.

        Raises:
            ValueError: If the study was not diagnosed.
        """
        require_recorded(self.data, "simple_regret")
        return self.data["simple_regret"].transpose(*DIMENSIONS)

    @property
    def prediction_error(self) -> xr.Dataset:
        """How far posterior means were from the objective, arm by arm, [M] Figure 4.

        (mean_t(x) - f_t(x))², averaged over rounds and trials, where mean_t is what a strategy
        believed when it chose x_t. Every strategy holds a model, random search too: its map shows
        what evenly spread measurements teach.

        Returns:
            Variables `mean` and `standard_error` (over trials, NaN for a single one), each
            `strategy x arm`; the coordinate `position`, `arm x coordinate`, says where arms are.

        Raises:
            ValueError: If the study was not run with ``prediction_error=True``.
        """
        return prediction_error(self.data)

    @property
    def squared_error(self) -> xr.DataArray:
        """The same averaged over the arms alone, `strategy x trial x round`.

        Raises:
            ValueError: If the study was not run with ``prediction_error=True``.
        """
        return squared_error(self.data)

    def total_regret(self, strategy: str) -> np.ndarray:
        """Cumulative regret R_T of one strategy in every trial.

        Args:
            strategy: Its label.

        Returns:
            `trials` numbers.

        Raises:
            ValueError: If the study has no such strategy.
        """
        self.require_strategy(strategy)
        totals: np.ndarray = self.regret.sel(strategy=strategy).sum("round").values
        return totals

    def require_strategy(self, strategy: str) -> None:
        """Refuse a label that no strategy of the study carries.

        Raises:
            ValueError: Naming those it has, and the closest.
        """
        if strategy not in self.strategies:
            hint = did_you_mean(strategy, self.strategies)
            raise ValueError(
                f"The study has no strategy {strategy!r}; it has {', '.join(self.strategies)}."
                f"{hint}"
            )

    def select(self, strategies: Sequence[str]) -> StudyResult:
        """The same study with some of its strategies, for a table or picture of those alone.

        All that was recorded of them stays, diagnosis and prediction errors too, and so do the
        attributes, which tell of the study as it was run. Pictures give out colours anew.

        Args:
            strategies: Their labels, in the order wanted.

        Raises:
            ValueError: If there is none, the study has no such strategy, or one is named twice.
        """
        if isinstance(strategies, str) or len(strategies) == 0:
            raise ValueError(
                f"StudyResult.select: strategies is {strategies!r}; give a list of labels, such as "
                f"{self.strategies[:2]!r}."
            )
        for label in strategies:
            self.require_strategy(label)
        twice = [label for label in self.strategies if list(strategies).count(label) > 1]
        if twice:
            raise ValueError(
                f"StudyResult.select: {', '.join(twice)} named more than once; name each once."
            )
        return StudyResult(self.data.sel(strategy=list(strategies)))

    def paired_difference(self, first: str, second: str) -> Paired:
        """How much more regret the first strategy pays than the second, trial by trial.

        Args:
            first: Label of a strategy.
            second: Label of the one it is compared with.

        Returns:
            Mean and standard error over trials of R_T(first) − R_T(second).

        Raises:
            ValueError: If the study has no such strategy.
        """
        return Paired.of(self.total_regret(first) - self.total_regret(second))

    def summary(self) -> Summary:
        """One row per strategy, lowest regret first; a table of pandas that prints as a whole.

        Returns:
            Columns `total_regret` (mean R_T) and its `standard_error`, `regret_per_round`,
            `resets` (mean per trial), and the paired comparison with the best strategy:
            `difference` (mean of this − best), `difference_error` (its standard error) and
            `t_ratio` (the difference counted in standard errors). The comparison is NaN in the
            best strategy's own row, standard errors are NaN for a single trial.
        """
        return summary_table(self)

    def first_reset(self) -> xr.DataArray:
        """The round of the first reset, NaN where a trial never reset; `strategy x trial`."""
        rounds = self.data["round"].astype(float)
        return rounds.where(self.resets).min("round").transpose("strategy", "trial")

    def triggers(self) -> pd.DataFrame:
        """Why did it reset: one row per reset by a trigger, with prediction, band and cause.

        See :func:`botorch_tv.simulation.diagnosis.triggers.trigger_table` for the columns.

        Raises:
            ValueError: If the study was not diagnosed.
        """
        return trigger_table(self.data)

    def calibration(self, levels: Sequence[float] | None = None) -> xr.Dataset:
        """How often objectives and observations lay inside the predicted bands.

        See :func:`botorch_tv.simulation.diagnosis.calibration.calibration` for the variables.

        Args:
            levels: Nominal levels, each in (0, 1); 0.05, 0.10, ..., 0.95 unless given.

        Raises:
            ValueError: If the study was not diagnosed, or a level lies outside (0, 1).
        """
        return calibration(self.data, levels)

    def calibration_by_round(self, level: float = 0.9, block: int = 1) -> xr.Dataset:
        """The same at one level through time: shares of trials, `strategy x round`.

        Args:
            level: Nominal level of the bands, in (0, 1).
            block: Rounds counted together, at least 1.

        Raises:
            ValueError: If the study was not diagnosed, the level lies outside (0, 1), or the block
                is below 1.
        """
        return calibration_by_round(self.data, level, block)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Regret curves with error bands, resets as ticks below them.

        Args:
            path: Where to write the picture; its ending chooses the format.
        """
        from botorch_tv.simulation.plots import plot_regret

        return plot_regret(self, path)

    def plot_triggers(
        self,
        strategy: str | None = None,
        trial: int | None = None,
        path: str | os.PathLike[str] | None = None,
    ) -> Figure:
        """One trial through time: predictions with the trigger's band, alarms and their causes.

        Args:
            strategy: One that resets by a trigger; the first such unless given.
            trial: Number of the trial; one with the typical number of resets unless given.
            path: Where to write the picture; its ending chooses the format.

        Raises:
            ValueError: If the study was not diagnosed, or has no such strategy or trial.
        """
        from botorch_tv.simulation.diagnosis.trigger_plot import plot_triggers

        return plot_triggers(self, strategy, trial, path)

    def plot_calibration(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Reliability diagrams of objective and observation, and calibration through time.

        Args:
            path: Where to write the picture; its ending chooses the format.

        Raises:
            ValueError: If the study was not diagnosed.
        """
        from botorch_tv.simulation.diagnosis.calibration_plot import plot_calibration

        return plot_calibration(self, path)

    def plot_simple_regret(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Simple regret through time, and beside the regret paid.

        Args:
            path: Where to write the picture; its ending chooses the format.

        Raises:
            ValueError: If the study was not diagnosed.
        """
        from botorch_tv.simulation.diagnosis.simple_regret_plot import plot_simple_regret

        return plot_simple_regret(self, path)

    def plot_prediction_error(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        across: int = 0,
        names: Sequence[str] = ("$x_1$", "$x_2$"),
        aspect: float = 1.0,
    ) -> Figure:
        """Where every strategy knew the objective well, a map for each, the best one first.

        Args:
            path: Where to write the picture; its ending chooses the format.
            across: Which coordinate of the arms runs from left to right.
            names: What the coordinates are called.
            aspect: Length of a unit up, in units across; 1 / cos(latitude) for degrees.

        Raises:
            ValueError: If the study was not run with ``prediction_error=True``, or its arms have
                more than two coordinates.
        """
        from botorch_tv.simulation.prediction_error.plot import plot_prediction_error

        return plot_prediction_error(self, path, across=across, names=names, aspect=aspect)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write everything to one compressed netCDF file, all of it or nothing.

        The file appears under its name only once it is complete, so an interrupted save leaves
        an older file as it was. Folders that do not exist are made.

        Args:
            path: The file, `.nc` by custom.

        Returns:
            The path written.
        """
        return write_dataset(self.data, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> StudyResult:
        """Read a file written by `save`, into memory as a whole.

        Args:
            path: The file.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If the file is damaged, or no study result.
        """
        data = read_dataset(path)
        try:
            return cls(data.assign_coords(strategy=data["strategy"].astype(str)))
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"{path} is a netCDF file, but no study result: {error} "
                "Give a file that StudyResult.save or botorch-tv wrote."
            ) from error
