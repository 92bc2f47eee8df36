"""Scoring claims of the form "this strategy pays less regret than that one"."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from botorch_tv.papers.experiment import Outcome, Results
from botorch_tv.simulation.summary import Paired


class Claim(NamedTuple):
    """In this case, `lower` pays less total regret than `higher`.

    Attributes:
        case: Name of the study.
        lower: Label of the better strategy.
        higher: Label of the worse one.
        required: Standard errors the paired difference must exceed; with -2, `lower` need only be
            no worse than chance explains.
        ours: Whether the paper says nothing of the kind; such a claim is reported, but does not
            decide whether we agree with it.
    """

    case: str
    lower: str
    higher: str
    required: float = 5.0
    ours: bool = False


def judge(claims: Sequence[Claim], results: Results) -> Outcome:
    """Test every claim on paired trials.

    Returns:
        A table of one row per claim with the mean of R_T(higher) − R_T(lower), its standard
        error and their ratio.
    """
    rows = [
        tested(claim, results[claim.case].paired_difference(claim.higher, claim.lower))
        for claim in claims
    ]
    theirs = [row for row in rows if not row["ours"]]
    ours = [row for row in rows if row["ours"]]
    told = _summed(theirs, "orders of the paper")
    if ours:
        told += f" {_summed(ours, 'orders that we expected besides')}"
    holds = all(row["holds"] for row in theirs) if theirs else None
    return Outcome(pd.DataFrame(rows), told, holds)


def tested(claim: Claim, gap: Paired) -> dict[str, Any]:
    """A claim beside what was found, a row of :func:`judge`'s table.

    Args:
        claim: Its ``higher`` should exceed its ``lower``.
        gap: By how much it does.
    """
    identical = gap.mean == 0 and gap.standard_error == 0
    return {
        **claim._asdict(),
        "difference": gap.mean,
        "standard_error": gap.standard_error,
        "t_ratio": 0.0 if identical else gap.t_ratio,
        "holds": (identical and claim.required < 0) or gap.t_ratio > claim.required,
    }


def _summed(rows: Sequence[dict[str, Any]], name: str) -> str:
    """What became of some claims."""
    if not rows:
        return f"There are no {name}."
    failed = [row for row in rows if not row["holds"]]
    if failed:
        told = "; ".join(map(_told, failed))
        return f"{len(failed)} of {len(rows)} {name} do not hold: {told}."
    closest = min(rows, key=lambda row: row["t_ratio"] - row["required"])
    if len(rows) == 1:
        return f"The one of the {name} holds: {_told(closest)}."
    return f"All {len(rows)} {name} hold; the closest is {_told(closest)}."


def _told(row: dict[str, Any]) -> str:
    by = f"{row['t_ratio']:.1f} standard errors"
    if math.isinf(row["t_ratio"]):
        by = f"{row['difference']:.3g} in every trial"
    return (
        f"{row['lower']} < {row['higher']} at {row['case']} by {by} (required: "
        f"{row['required']:g} standard errors)"
    )
