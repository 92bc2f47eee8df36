"""Scoring what a paper claims: that a strategy pays less than another, or that a number is so."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from botorch_tv.papers.experiment import Outcome, Results
from botorch_tv.simulation.summary import Paired

if TYPE_CHECKING:
    from botorch_tv.simulation import StudyResult


SIMILAR = 1.1
"""Regrets that differ by less than this factor are similar."""


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


class Quantity(NamedTuple):
    """In this case, a number lies between two others.

    Attributes:
        case: Name of the study.
        meaning: What it is, in words.
        measure: From the study to the number.
        least: The smallest that agrees with the paper.
        most: The largest.
    """

    case: str
    meaning: str
    measure: Callable[[StudyResult], float]
    least: float = -math.inf
    most: float = math.inf


def judge(claims: Sequence[Claim | Quantity], results: Results) -> Outcome:
    """Test every claim, orders on paired trials.

    Returns:
        A table of one row per claim: of an order the mean of R_T(higher) − R_T(lower), its standard
        error and their ratio, of a figure the number and its limits.
    """
    rows = [
        tested(claim, results[claim.case].paired_difference(claim.higher, claim.lower))
        for claim in claims
        if isinstance(claim, Claim)
    ]
    figures = [_measured(one, results) for one in claims if isinstance(one, Quantity)]
    theirs = [row for row in rows if not row["ours"]]
    ours = [row for row in rows if row["ours"]]
    told = [_summed(theirs, "orders of the paper")] if theirs or not figures else []
    told += [_summed(ours, "orders that we expected besides")] if ours else []
    told += [_figure_told(row) for row in figures]
    decisive = [*theirs, *figures]
    holds = all(row["holds"] for row in decisive) if decisive else None
    return Outcome(pd.DataFrame([*rows, *figures]), " ".join(told), holds)


def judge_readings(readings: Mapping[str, Sequence[Claim | Quantity]], results: Results) -> Outcome:
    """Test the claims of a paper in each of several readings of what it leaves open.

    The paper is agreed with where all hold in one reading; which, and what fails in the others, is
    said.

    Args:
        readings: The claims by the name of the reading, as in "B = 1".
        results: The studies of all of them.
    """
    outcomes = {name: judge(claims, results) for name, claims in readings.items()}
    tables = [one.table.assign(reading=name) for name, one in outcomes.items()]
    told = " ".join(f"With {name}: {one.verdict}" for name, one in outcomes.items())
    return Outcome(
        pd.concat(tables, ignore_index=True), told, any(one.holds for one in outcomes.values())
    )


def similar(case: str, first: str, second: str) -> Quantity:
    """That one strategy pays about as much as another, within a factor of :data:`SIMILAR`.

    Args:
        case: Name of the study.
        first: Label of a strategy.
        second: Label of what it is compared with.
    """

    def measure(result: StudyResult) -> float:
        return float(result.total_regret(first).mean() / result.total_regret(second).mean())

    meaning = f"regret of {first} as a multiple of {second}'s"
    return Quantity(case, meaning, measure, 1 / SIMILAR, SIMILAR)


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


def _measured(figure: Quantity, results: Results) -> dict[str, Any]:
    """A figure beside what was found, a row of :func:`judge`'s table."""
    found = figure.measure(results[figure.case])
    return {
        "case": figure.case,
        "figure": figure.meaning,
        "found": found,
        "least": None if figure.least == -math.inf else figure.least,
        "most": None if figure.most == math.inf else figure.most,
        "holds": figure.least <= found <= figure.most,
    }


def _figure_told(row: dict[str, Any]) -> str:
    limits = [f"at {name} {row[name]:.3g}" for name in ("least", "most") if row[name] is not None]
    wrong = "" if row["holds"] else ", which is not what the paper says"
    return (
        f"At {row['case']} the {row['figure']} is {row['found']:.3g} ({' and '.join(limits)} "
        f"agrees){wrong}."
    )


def _summed(rows: Sequence[dict[str, Any]], name: str) -> str:
    """What became of some claims."""
    if not rows:
        return f"There are no {name}."
    failed = [row for row in rows if not row["holds"]]
    if failed:
        told = "; ".join(map(_told, failed))
        verb = "does" if len(failed) == 1 else "do"
        return f"{len(failed)} of {len(rows)} {name} {verb} not hold: {told}."
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
