"""Who pays how much regret: totals of every strategy, compared trial by trial."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from botorch_tv.simulation.tables import aligned

if TYPE_CHECKING:
    from botorch_tv.simulation.result import StudyResult

COLUMNS = {
    "total_regret": ("regret", ".1f"),
    "standard_error": ("± s.e.", ".1f"),
    "regret_per_round": ("per round", ".3f"),
    "resets": ("resets", ".2f"),
    "difference": ("above best", "+.1f"),
    "difference_error": ("± s.e.", ".1f"),
    "t_ratio": ("in s.e.", ".1f"),
}
"""Columns of a summary, each with its title in print and the format of its numbers."""

ROUNDING = 1e-12
"""A standard error below this share of the mean is of numbers that differ by rounding only."""


class Paired(NamedTuple):
    """A mean over paired trials and how certain it is.

    Attributes:
        mean: Mean over trials of the difference in total regret R_T.
        standard_error: Its standard error; NaN for a single trial.
    """

    mean: float
    standard_error: float

    @property
    def t_ratio(self) -> float:
        """The mean counted in standard errors; NaN where that is 0 / 0 or unknown.

        A spread that is only rounding counts as none, so that the ratio is infinite.
        """
        if math.isnan(self.standard_error) or self.mean == 0 == self.standard_error:
            return math.nan
        if self.standard_error <= ROUNDING * abs(self.mean):
            return math.copysign(math.inf, self.mean)
        return self.mean / self.standard_error

    @classmethod
    def of(cls, differences: np.ndarray) -> Paired:
        """Mean and standard error of one number per trial.

        Args:
            differences: `trials` numbers.
        """
        trials = len(differences)
        spread = float(differences.std(ddof=1)) if trials > 1 else math.nan
        return cls(float(differences.mean()), spread / math.sqrt(trials))


class Summary(pd.DataFrame):
    """A summary that prints as a whole: pandas cuts columns, the paired differences first."""

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame  # a part of a summary prints as any table does

    def __repr__(self) -> str:
        return aligned(self, COLUMNS)


def summary_table(result: StudyResult) -> Summary:
    """One row per strategy, lowest regret first; see :meth:`StudyResult.summary`."""
    resets = result.resets.sum("round").mean("trial")
    totals = {label: Paired.of(result.total_regret(label)) for label in result.strategies}
    order = sorted(totals, key=lambda label: totals[label].mean)
    rows = []
    for label in order:
        row: dict[str, float] = {
            "total_regret": totals[label].mean,
            "standard_error": totals[label].standard_error,
            "regret_per_round": totals[label].mean / result.data.sizes["round"],
            "resets": float(resets.sel(strategy=label)),
        }
        if label != order[0]:
            gap = result.paired_difference(label, order[0])
            row |= {
                "difference": gap.mean,
                "difference_error": gap.standard_error,
                "t_ratio": gap.t_ratio,
            }
        rows.append(row)
    index = pd.Index(order, name="strategy")
    return Summary(pd.DataFrame(rows, index=index, columns=list(COLUMNS), dtype=float))
