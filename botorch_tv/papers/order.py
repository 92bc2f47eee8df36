"""Scoring claims of the form "this strategy pays less regret than that one"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from botorch_tv.papers.experiment import Outcome, Results


class Claim(NamedTuple):
    """In this case, `lower` pays less total regret than `higher`.

    Attributes:
        case: Name of the study.
        lower: Label of the better strategy.
        higher: Label of the worse one.
        required: Standard errors the paired difference must exceed; with -2, `lower` need only be
            no worse than chance explains.
    """

    case: str
    lower: str
    higher: str
    required: float = 5.0


def judge(claims: Sequence[Claim], results: Results) -> Outcome:
    """Test every claim on paired trials.

    Returns:
        A table of one row per claim with the mean of R_T(higher) − R_T(lower), its standard
        error and their ratio.
    """
    rows: list[dict[str, Any]] = []
    for claim in claims:
        gap = results[claim.case].paired_difference(claim.higher, claim.lower)
        identical = gap.mean == 0 and gap.standard_error == 0
        rows.append(
            {
                **claim._asdict(),
                "difference": gap.mean,
                "standard_error": gap.standard_error,
                "t_ratio": 0.0 if identical else gap.t_ratio,
                "holds": (identical and claim.required < 0) or gap.t_ratio > claim.required,
            }
        )
    table = pd.DataFrame(rows)
    failed = [row for row in rows if not row["holds"]]
    if not failed:
        closest = min(rows, key=lambda row: row["t_ratio"] - row["required"])
        return Outcome(
            table, f"All {len(rows)} orders hold; the closest is {_told(closest)}.", True
        )
    told = "; ".join(map(_told, failed))
    return Outcome(table, f"{len(failed)} of {len(rows)} orders do not hold: {told}.", False)


def _told(row: dict[str, Any]) -> str:
    return (
        f"{row['lower']} < {row['higher']} at {row['case']} by {row['t_ratio']:.1f} standard "
        f"errors (required: {row['required']:g})"
    )
