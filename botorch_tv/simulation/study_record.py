"""The records of a study, and the tables and summaries computed from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from botorch_tv.simulation.datasets import by_trial
from botorch_tv.simulation.diagnosis import calibration, calibration_by_round, trigger_table
from botorch_tv.simulation.recorders import (
    MAP,
    MAP_ERROR,
    PLACE,
    SQUARED_ERROR,
    require_recorded,
)
from botorch_tv.simulation.settings import DIMENSIONS
from botorch_tv.validation import require

REQUIRED = ("regret", "resets")


@dataclass(frozen=True, repr=False)
class StudyRecord:
    """The data of a study, for tables and plots; :class:`StudyResult` is a subclass.

    Tables and summaries of all trials are computed from a few trials at a time, so the data may
    stay on disk.

    Args:
        data: The dataset of a study; see :class:`StudyResult`.

    Raises:
        ValueError: If a variable or a dimension is missing or empty.
    """

    data: xr.Dataset

    def __post_init__(self) -> None:
        dims = {name: self.data[name].dims for name in REQUIRED if name in self.data}
        require(
            len(dims) == len(REQUIRED)
            and all(set(names) == set(DIMENSIONS) for names in dims.values())
            and all(self.data.sizes[name] > 0 for name in DIMENSIONS),
            f"A study result needs the variables {' and '.join(REQUIRED)} of dimensions "
            f"{', '.join(DIMENSIONS)}, and no dimension may be empty; here the variables have the "
            f"dimensions {dims}, and the sizes are {dict(self.data.sizes)}. Use the result of "
            "run_study.",
        )

    def __repr__(self) -> str:
        size = self.data.sizes
        return (
            f"{type(self).__name__}({size['strategy']} strategies x {size['trial']} trials x "
            f"{size['round']} rounds: {', '.join(self.strategies)})"
        )

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
        """Whether data were dropped in this round, bool, `strategy x trial x round`.

        A periodic reset happens before the strategy chooses, and a triggered reset after the
        observation.
        """
        return self.data["resets"].transpose(*DIMENSIONS)

    @property
    def side_queries(self) -> xr.DataArray:
        """Number of queries to an expert after each round, int, `strategy x trial x round`.

        Queries to an expert do not count in ``regret`` and ``resets``. The number of queries is 0
        for strategies that consult no expert.
        """
        return self.data["side_queries"].transpose(*DIMENSIONS)

    @property
    def simple_regret(self) -> xr.DataArray:
        """Regret of the arm that ``recommend`` returns in each round, `strategy x trial x round`.

        The recommended arm has the best posterior mean before the observation of the round. The arm
        played also depends on the width of the confidence bounds, and may have less regret than the
        recommended arm.

        Raises:
            ValueError: If the study was not diagnosed.
        """
        require_recorded(self.data, "simple_regret")
        return self.data["simple_regret"].transpose(*DIMENSIONS)

    @property
    def prediction_error(self) -> xr.Dataset:
        """The squared error of the posterior mean at every arm, [M] Figure 4.

        The error at x is (mean_t(x) - f_t(x))², averaged over rounds and trials, where mean_t is
        the posterior mean at the moment when x_t is chosen. Random search also has a posterior
        mean; the error of this posterior mean is what evenly spread measurements achieve.

        Returns:
            Variables `mean` and `standard_error` (over trials, NaN for a single trial), each
            `strategy x arm`; the coordinate `position`, `arm x coordinate`, locates the arms.

        Raises:
            ValueError: If the study did not record prediction errors.
        """
        require_recorded(self.data, MAP, MAP_ERROR, PLACE)
        maps = {"mean": self.data[MAP], "standard_error": self.data[MAP_ERROR]}
        ordered = {name: values.transpose("strategy", "arm") for name, values in maps.items()}
        return xr.Dataset(ordered, coords={PLACE: self.data[PLACE]})

    @property
    def squared_error(self) -> xr.DataArray:
        """The squared prediction error, averaged over the arms, `strategy x trial x round`.

        Raises:
            ValueError: If the study did not record prediction errors.
        """
        require_recorded(self.data, SQUARED_ERROR)
        return self.data[SQUARED_ERROR].transpose(*DIMENSIONS)

    def mean_squared_error(self) -> dict[str, Paired]:
        """The mean squared prediction error of each strategy over arms and rounds, best first.

        Raises:
            ValueError: If the study did not record prediction errors.
        """
        means = self.over_trials(by_trial(self.squared_error, lambda error: error.mean("round")))
        return dict(sorted(means.items(), key=lambda item: item[1].mean))

    def over_trials(self, values: xr.DataArray) -> dict[str, Paired]:
        """For each strategy, the mean over trials, and the standard error of the mean.

        Args:
            values: The values to average, `strategy x trial`.
        """
        own = values.astype(np.float64)
        return {label: Paired.of(own.sel(strategy=label).values) for label in self.strategies}

    def total_regret(self, strategy: str) -> np.ndarray:
        """Cumulative regret R_T of a strategy in every trial.

        Args:
            strategy: Label of the strategy.

        Returns:
            `trials` numbers.

        Raises:
            ValueError: If the study has no strategy with this label.
        """
        self.require_strategy(strategy)
        own = self.regret.sel(strategy=strategy)
        return by_trial(own, lambda regret: regret.sum("round")).values

    def require_strategy(self, strategy: str) -> None:
        """Check that the study has a strategy with this label.

        Args:
            strategy: The label.

        Raises:
            ValueError: If the study has no strategy with this label; the message lists all labels
                of the study.
        """
        require(
            strategy in self.strategies,
            f"The study has no strategy {strategy!r}; it has {', '.join(self.strategies)}.",
        )

    def paired_difference(self, first: str, second: str) -> Paired:
        """The difference in regret between two strategies, trial by trial.

        Args:
            first: Label of a strategy.
            second: Label of the strategy whose regret is subtracted from the regret of ``first``.

        Returns:
            Mean and standard error over trials of R_T(first) − R_T(second).

        Raises:
            ValueError: If the study has no strategy with one of the two labels.
        """
        return Paired.of(self.total_regret(first) - self.total_regret(second))

    def summary(self) -> Summary:
        """One row per strategy, lowest regret first; a DataFrame that prints all its columns.

        Returns:
            Columns `total_regret` (mean R_T) and its `standard_error`, `regret_per_round`, `resets`
            (mean per trial), and the paired comparison with the best strategy: `difference` (mean
            regret of this strategy minus mean regret of the best strategy), `difference_error` (its
            standard error) and `t_ratio` (the difference divided by its standard error). In the row
            of the best strategy, the three columns of the comparison are NaN. If there is a single
            trial, standard errors are NaN.
        """
        totals = {label: self.total_regret(label) for label in self.strategies}
        means = {label: Paired.of(values) for label, values in totals.items()}
        order = sorted(means, key=lambda label: means[label].mean)
        resets, best, rows = self.mean_resets(), totals[order[0]], []
        for label in order:
            mean, error = means[label]
            gap = Paired(math.nan, math.nan)
            if label != order[0]:
                gap = Paired.of(totals[label] - best)
            per_round = mean / self.data.sizes["round"]
            rows.append((mean, error, per_round, resets[label], *gap, gap.t_ratio))
        index = pd.Index(order, name="strategy")
        return Summary(pd.DataFrame(rows, index=index, columns=list(COLUMNS), dtype=float))

    def first_reset(self) -> xr.DataArray:
        """The round of the first reset, `strategy x trial`; NaN for a trial without resets."""
        rounds = self.data["round"].astype(float)
        return by_trial(self.resets, lambda resets: rounds.where(resets).min("round"))

    def mean_resets(self) -> dict[str, float]:
        """Mean number of resets per trial; each key is the label of a strategy."""
        counts = by_trial(self.resets, lambda resets: resets.sum("round"))
        return dict(zip(self.strategies, map(float, counts.mean("trial").values)))

    def triggers(self) -> pd.DataFrame:
        """One row per triggered reset, with prediction, band and cause.

        See :func:`botorch_tv.simulation.diagnosis.trigger_table` for the columns.

        Raises:
            ValueError: If the study was not diagnosed.
        """
        return trigger_table(self.data)

    def calibration(self, levels: Sequence[float] | None = None) -> xr.Dataset:
        """Shares of objectives and observations inside the predicted bands.

        See :func:`botorch_tv.simulation.diagnosis.calibration` for the variables.

        Args:
            levels: Nominal levels, each in (0, 1); 0.05, 0.10, ..., 0.95 by default.

        Raises:
            ValueError: If the study was not diagnosed, or if a level lies outside (0, 1).
        """
        return calibration(self.data, levels)

    def calibration_by_round(self, level: float = 0.9, block: int = 1) -> xr.Dataset:
        """Calibration over time at a nominal level: shares of trials, `strategy x round`.

        Args:
            level: Nominal level of the bands, in (0, 1).
            block: Number of rounds that are averaged together, at least 1.

        Raises:
            ValueError: If the study was not diagnosed, if the level lies outside (0, 1), or if the
                block is below 1.
        """
        return calibration_by_round(self.data, level, block)


# ---------------------------------------------------------------- summaries

COLUMNS = {
    "total_regret": ("regret", ".1f"),
    "standard_error": ("± s.e.", ".1f"),
    "regret_per_round": ("per round", ".3f"),
    "resets": ("resets", ".2f"),
    "difference": ("above best", "+.1f"),
    "difference_error": ("± s.e.", ".1f"),
    "t_ratio": ("in s.e.", ".1f"),
}
"""The columns of a summary, each with its printed title and number format."""

ROUNDING = 1e-12
"""Share of the mean below which a standard error is attributed to rounding."""


class Paired(NamedTuple):
    """The mean of a quantity over trials, and the standard error of the mean.

    Attributes:
        mean: Mean over trials.
        standard_error: Standard error of the mean; NaN for a single trial.
    """

    mean: float
    standard_error: float

    def __str__(self) -> str:
        if not self.standard_error > 0:
            return f"{self.mean:.3g}"
        decimals = max(0, -math.floor(math.log10(self.standard_error)))
        return f"{self.mean:.{decimals}f} ± {self.standard_error:.{decimals}f}"

    @property
    def t_ratio(self) -> float:
        """``mean`` divided by ``standard_error``; NaN if both are 0 or ``standard_error`` is NaN.

        ``t_ratio`` is infinite if the trials differ only by rounding.
        """
        if math.isnan(self.standard_error) or self.mean == 0 == self.standard_error:
            return math.nan
        if self.standard_error <= ROUNDING * abs(self.mean):
            return math.copysign(math.inf, self.mean)
        return self.mean / self.standard_error

    @classmethod
    def of(cls, differences: np.ndarray) -> Paired:
        """The mean over trials, and the standard error of the mean.

        Args:
            differences: A value for each trial, such as a paired difference, shape `trials`.
        """
        trials = len(differences)
        spread = float(differences.std(ddof=1)) if trials > 1 else math.nan
        return cls(float(differences.mean()), spread / math.sqrt(trials))


class Summary(pd.DataFrame):
    """A summary that prints all its columns, because pandas would omit the paired differences."""

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame  # a part of a summary is an ordinary table

    def __repr__(self) -> str:
        formats: Any = [f"{{:{form}}}".format for _, form in COLUMNS.values()]
        titles = [f" {title}" for title, _ in COLUMNS.values()]
        text: str = self.to_string(
            columns=list(COLUMNS), header=titles, formatters=formats, na_rep="", index_names=False
        )
        return text

    def _repr_html_(self) -> str:
        titles = [title for title, _ in COLUMNS.values()]
        formats: Any = [f"{{:{form}}}".format for _, form in COLUMNS.values()]
        table = self[list(COLUMNS)].set_axis(titles, axis="columns")
        text: str = table.to_html(formatters=formats, na_rep="", index_names=False)
        return text
