"""Studies in words: the summary as a table for the terminal, and a sentence of verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from botorch_tv.simulation.result import StudyResult

CLEAR = 2.0
"""Standard errors beyond which a paired difference is called clear."""

_COLUMNS = {
    "total_regret": ("regret", ".1f"),
    "standard_error": ("± s.e.", ".1f"),
    "regret_per_round": ("per round", ".3f"),
    "resets": ("resets", ".2f"),
    "difference": ("above best", "+.1f"),
    "difference_error": ("± s.e.", ".1f"),
    "t_ratio": ("in s.e.", ".1f"),
}


def summary_text(table: pd.DataFrame) -> str:
    """The summary of a study for people to read, one line per strategy.

    Args:
        table: As `StudyResult.summary` returns it.
    """
    return aligned(table, _COLUMNS)


def aligned(table: pd.DataFrame, shown: Mapping[str, tuple[str, str]]) -> str:
    """Some columns of a table in text, names to the left and numbers to the right, NaN left blank.

    Args:
        table: Indexed by name.
        shown: Column of the table to its title and the format of its numbers.
    """
    columns = [["", *map(str, table.index)]]
    for name, (title, form) in shown.items():
        cells = ["" if math.isnan(value) else f"{value:{form}}" for value in table[name].to_list()]
        columns.append([title, *cells])
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for row in zip(*columns):
        first = row[0].ljust(widths[0])
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))
        lines.append("  ".join([first, *rest]).rstrip())
    return "\n".join(lines)


def verdict(result: StudyResult) -> str:
    """Who pays least regret, and how surely, in one sentence."""
    table = result.summary()
    best = str(table.index[0])
    level = f"{table['regret_per_round'].iloc[0]:.3f} a round"
    trials = result.data.sizes["trial"]
    if len(table) == 1:
        return f"{best} alone was run: regret {level}."
    second = str(table.index[1])
    gap = result.paired_difference(second, best)
    apart = gap.t_ratio
    if gap.mean == 0 == gap.standard_error:
        return f"{best} and {second} have the lowest regret, {level}, the same in every trial."
    if math.isinf(apart):
        return f"{best} has the lowest regret, {level}, {gap.mean:.3g} less in every trial."
    if math.isnan(apart):
        return f"{best} has the lowest regret, {level}; more trials would say how surely."
    if apart < CLEAR:
        return (
            f"{best} has the lowest regret, {level}, but {second} is only {apart:.1f} standard "
            f"errors behind over {trials} paired trials: too close to call."
        )
    return (
        f"{best} has the lowest regret, {level}, {apart:.1f} standard errors below {second} over "
        f"{trials} paired trials."
    )
