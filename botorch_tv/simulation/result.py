"""What a regret study leaves behind: one labelled dataset, its summary, its pictures, its file."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from botorch_tv.memory import free_bytes
from botorch_tv.simulation.memory import MEMORY_SHARE
from botorch_tv.simulation.merging import merged
from botorch_tv.simulation.netcdf import read_dataset, write_dataset
from botorch_tv.simulation.recorders.diagnosis import with_present_names
from botorch_tv.simulation.study_record import StudyRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class StudyResult(StudyRecord):
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

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        ax: Axes | None = None,
        normalized: bool = True,
    ) -> Figure:
        """Regret curves with error bands, resets as ticks below them.

        Args:
            path: Where to write the picture; its ending chooses the format.
            ax: Axes of yours to draw one kind of regret on, without resets.
            normalized: Which kind that is: normalised, or cumulative where False.
        """
        from botorch_tv.simulation.plots import plot_regret

        return plot_regret(self, path, ax=ax, normalized=normalized)

    def plot_triggers(
        self,
        strategy: str | None = None,
        trial: int | None = None,
        path: str | os.PathLike[str] | None = None,
        *,
        ax: Axes | None = None,
    ) -> Figure:
        """One trial through time: predictions with the trigger's band, alarms and their causes.

        Args:
            strategy: One that resets by a trigger; the first such unless given.
            trial: Number of the trial; one with the typical number of resets unless given.
            path: Where to write the picture; its ending chooses the format.
            ax: Axes of yours to draw the upper part on.

        Raises:
            ValueError: If the study was not diagnosed, or has no such strategy or trial.
        """
        from botorch_tv.simulation.plots import plot_triggers

        return plot_triggers(self, strategy, trial, path, ax=ax)

    def plot_calibration(
        self, path: str | os.PathLike[str] | None = None, *, ax: Axes | None = None
    ) -> Figure:
        """Reliability diagrams of objective and observation, and calibration through time.

        Args:
            path: Where to write the picture; its ending chooses the format.
            ax: Axes of yours to draw the diagram of the objective on.

        Raises:
            ValueError: If the study was not diagnosed.
        """
        from botorch_tv.simulation.plots import plot_calibration

        return plot_calibration(self, path, ax=ax)

    def plot_simple_regret(
        self, path: str | os.PathLike[str] | None = None, *, ax: Axes | None = None
    ) -> Figure:
        """Simple regret through time, and beside the regret paid.

        Args:
            path: Where to write the picture; its ending chooses the format.
            ax: Axes of yours to draw simple regret through time on.

        Raises:
            ValueError: If the study was not diagnosed.
        """
        from botorch_tv.simulation.plots import plot_simple_regret

        return plot_simple_regret(self, path, ax=ax)

    def plot_weights(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        strategy: str | None = None,
        trial: int | None = None,
        ax: Axes | None = None,
    ) -> Figure:
        """What a strategy that is told nothing came to believe, round by round.

        Args:
            path: Where to write the picture; its ending chooses the format.
            strategy: Its label; the first such unless given.
            trial: Number of the trial; means over all, and the middle half of them, unless given.
            ax: Axes of yours to draw the weights of rates on.

        Raises:
            ValueError: If weights were not recorded, or there is no such strategy or trial.
        """
        from botorch_tv.simulation.plots import plot_weights

        return plot_weights(self, strategy, trial, path, ax=ax)

    def plot_prediction_error(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        across: int = 0,
        names: Sequence[str] = ("$x_1$", "$x_2$"),
        aspect: float = 1.0,
        ax: Axes | None = None,
        strategy: str | None = None,
    ) -> Figure:
        """Where every strategy knew the objective well, a map for each, the best one first.

        Args:
            path: Where to write the picture; its ending chooses the format.
            across: Which coordinate of the arms runs from left to right.
            names: What the coordinates are called.
            aspect: Length of a unit up, in units across; 1 / cos(latitude) for degrees.
            ax: Axes of yours to draw the map of one strategy on, or the curves of all.
            strategy: Whose map that is; that of the smallest mean error unless given.

        Raises:
            ValueError: If the study did not record it, or its arms have more than two coordinates.
        """
        from botorch_tv.simulation.plots import plot_prediction_error

        return plot_prediction_error(
            self, path, across=across, names=names, aspect=aspect, ax=ax, strategy=strategy
        )

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
    def load(cls, path: str | os.PathLike[str], *, in_memory: bool | None = None) -> StudyResult:
        """Read a file written by `save`.

        Args:
            path: The file.
            in_memory: Whether to read all of it now. Otherwise what is asked for is read from the
                file, which must stay where it is, some trials at a time. Unless given, all that
                takes less than half of the free memory is.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If the file is damaged, or no study result.
        """
        most = MEMORY_SHARE * free_bytes(torch.device("cpu"))
        data = read_dataset(path, {None: most, True: math.inf, False: 0}[in_memory])
        try:
            return cls(with_present_names(data))
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"{path} is a netCDF file, but no study result: {error} "
                "Give a file that StudyResult.save or botorch-tv wrote."
            ) from error
