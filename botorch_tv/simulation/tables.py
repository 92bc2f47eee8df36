"""Tables as text for a terminal, with all columns whatever its width."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd


def aligned(table: pd.DataFrame, shown: Mapping[str, tuple[str, str]]) -> str:
    """Columns of a table as text: names left-aligned, numbers right-aligned, NaN blank.

    Args:
        table: Indexed by name.
        shown: The columns, each with its title and number format.
    """
    columns = [["", *map(str, table.index)]]
    for name, (title, form) in shown.items():
        cells = ["" if math.isnan(value) else f"{value:{form}}" for value in table[name].to_list()]
        columns.append([title, *cells])
    return in_columns(zip(*columns), names=1)


def in_columns(rows: Iterable[Sequence[str]], names: int) -> str:
    """Rows of text in aligned columns.

    Args:
        rows: The rows, all of one length, titles first.
        names: Number of left-aligned columns; the others are right-aligned.
    """
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for row in rows:
        cells = (
            cell.ljust(width) if place < names else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths))
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


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
"""Columns of a summary, each with its printed title and number format."""

ROUNDING = 1e-12
"""A standard error below this share of the mean is due to rounding."""


class Paired(NamedTuple):
    """The mean over trials and its standard error, usually of a paired difference.

    Attributes:
        mean: Mean over trials.
        standard_error: Its standard error; NaN for a single trial.
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
        """The mean in standard errors; NaN if that is 0 / 0 or unknown.

        Infinite if the trials differ only by rounding.
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
    """A summary that prints all its columns; pandas would hide the paired differences."""

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame  # a part of a summary prints as any table does

    def __repr__(self) -> str:
        return aligned(self, COLUMNS)


def summary_table(
    totals: Mapping[str, np.ndarray], resets: Mapping[str, float], rounds: int
) -> Summary:
    """One row per strategy, lowest regret first; see :meth:`StudyResult.summary`.

    Args:
        totals: Cumulative regret R_T of every strategy by label, `trials` numbers each.
        resets: Mean number of resets of a trial.
        rounds: Number T of rounds.
    """
    means = {label: Paired.of(values) for label, values in totals.items()}
    order = sorted(means, key=lambda label: means[label].mean)
    rows = []
    for label in order:
        row: dict[str, float] = {
            "total_regret": means[label].mean,
            "standard_error": means[label].standard_error,
            "regret_per_round": means[label].mean / rounds,
            "resets": float(resets[label]),
        }
        if label != order[0]:
            gap = Paired.of(totals[label] - totals[order[0]])
            row |= {
                "difference": gap.mean,
                "difference_error": gap.standard_error,
                "t_ratio": gap.t_ratio,
            }
        rows.append(row)
    index = pd.Index(order, name="strategy")
    return Summary(pd.DataFrame(rows, index=index, columns=list(COLUMNS), dtype=float))
