"""The verdict of a study, in one sentence."""

from __future__ import annotations

import math

from botorch_tv.simulation.result import StudyResult

CLEAR = 2.0
"""Smallest paired difference that is called clear, in standard errors."""


def verdict(result: StudyResult) -> str:
    """Which strategy has the lowest regret, and how clearly."""
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
        return f"{best} has the lowest regret, {level}; more trials would show how clearly."
    if apart < CLEAR:
        return (
            f"{best} has the lowest regret, {level}, but {second} is only {apart:.1f} standard "
            f"errors behind over {trials} paired trials: too close to call."
        )
    return (
        f"{best} has the lowest regret, {level}, {apart:.1f} standard errors below {second} over "
        f"{trials} paired trials."
    )
