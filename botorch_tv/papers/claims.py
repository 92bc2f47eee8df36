"""Test a paper's claims, that a strategy has less regret than another or that a number holds, and
write the outcome as text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from botorch_tv.papers.experiment import Outcome, Results
from botorch_tv.simulation import StudyResult
from botorch_tv.simulation.study_record import Paired

SIMILAR = 1.1
"""Largest ratio of two similar regrets."""

Row = dict[str, Any]
Claim = Callable[[Results], Row]
"""Maps the results to a row of the table of :func:`judge`, with whether the claim ``holds``."""


def below(
    case: str, lower: str, higher: str, required: float = 5.0, *, ours: bool = False
) -> Claim:
    """The claim that `lower` has less total regret than `higher` in a case, one study.

    Args:
        case: Name of the study.
        lower: Label of the better strategy.
        higher: Label of the worse strategy.
        required: Standard errors that the paired difference must exceed; -2 only requires that
            `lower` is not significantly worse.
        ours: Whether the claim is ours; it is then reported, but does not affect the verdict.
    """

    def test(results: Results) -> Row:
        gap = results[case].paired_difference(higher, lower)
        return compared(case, lower, higher, gap, required, ours)

    return test


def compared(case: str, lower: str, higher: str, gap: Paired, required: float, ours: bool) -> Row:
    """The row of :func:`below`, for a paired difference of `higher` minus `lower`."""
    identical = gap.mean == 0 and gap.standard_error == 0
    return {
        "case": case,
        "lower": lower,
        "higher": higher,
        "required": required,
        "ours": ours,
        "difference": gap.mean,
        "standard_error": gap.standard_error,
        "t_ratio": 0.0 if identical else gap.t_ratio,
        "holds": (identical and required < 0) or gap.t_ratio > required,
    }


def beats(
    case: str, lower: str, rivals: Iterable[str], required: float = 5.0, *, ours: bool = False
) -> list[Claim]:
    """A claim against each of several rivals; see :func:`below`."""
    return [below(case, lower, rival, required, ours=ours) for rival in rivals]


def across(
    cases: Sequence[str], lower: str, higher: str, required: float = 3.0, *, ours: bool = False
) -> Claim:
    """The claim that `lower` has less total regret than `higher` in the mean over several cases.

    The standard error is between the cases, which may be different days of a record.

    Args:
        cases: Names of the studies.
        lower: As for :func:`below`.
        higher: As for :func:`below`.
        required: As for :func:`below`.
        ours: As for :func:`below`.
    """

    def test(results: Results) -> Row:
        gaps = [results[case].paired_difference(higher, lower).mean for case in cases]
        return compared("all cases", lower, higher, Paired.of(np.array(gaps)), required, ours)

    return test


def within(
    case: str,
    meaning: str,
    measure: Callable[[StudyResult], float],
    least: float,
    most: float = math.inf,
) -> Claim:
    """The claim that a number lies between two limits in a case.

    Args:
        case: Name of the study.
        meaning: Description of the number.
        measure: Computes the number from the study.
        least: The smallest value that agrees with the paper.
        most: The largest value that agrees with the paper.
    """

    def test(results: Results) -> Row:
        found, upper = measure(results[case]), None if most == math.inf else most
        own = {"case": case, "figure": meaning, "found": found, "least": least, "most": upper}
        return own | {"holds": least <= found <= most}

    return test


def similar(case: str, first: str, second: str) -> Claim:
    """The claim that two strategies have similar regret, within a factor of :data:`SIMILAR`.

    Args:
        case: Name of the study.
        first: Label of a strategy.
        second: Label of the strategy that is compared with it.
    """

    def measure(result: StudyResult) -> float:
        return float(result.total_regret(first).mean() / result.total_regret(second).mean())

    meaning = f"regret of {first} as a multiple of {second}'s"
    return within(case, meaning, measure, 1 / SIMILAR, SIMILAR)


def judge(claims: Sequence[Claim], results: Results) -> Outcome:
    """Test every claim, on paired trials.

    Returns:
        A table with one row per claim: for an order the mean of R_T(higher) − R_T(lower), its
        standard error and their ratio; then for every number its limits.
    """
    rows = [claim(results) for claim in claims]
    orders = [row for row in rows if "lower" in row]
    figures = [row for row in rows if "figure" in row]
    theirs = [row for row in orders if not row["ours"]]
    ours = [row for row in orders if row["ours"]]
    verdicts = [_summed(theirs, "orders of the paper")] if theirs else []
    verdicts += [_summed(ours, "orders that we expected besides")] if ours else []
    verdicts += [_figure_verdict(row) for row in figures]
    holds = all(row["holds"] for row in [*theirs, *figures])
    return Outcome(pd.DataFrame([*orders, *figures]), " ".join(verdicts), holds)


def judge_readings(readings: Mapping[str, Sequence[Claim]], results: Results) -> Outcome:
    """Test the claims of a paper under several readings of its open settings.

    The paper is confirmed if all claims hold under at least one reading. The verdict covers every
    reading.

    Args:
        readings: The claims by the name of the reading, such as "B = 1".
        results: The studies of all readings.
    """
    outcomes = {name: judge(claims, results) for name, claims in readings.items()}
    tables = [outcome.table.assign(reading=name) for name, outcome in outcomes.items()]
    verdict = " ".join(f"With {name}: {outcome.verdict}" for name, outcome in outcomes.items())
    return Outcome(
        pd.concat(tables, ignore_index=True),
        verdict,
        any(outcome.holds for outcome in outcomes.values()),
    )


def also(
    orders: Outcome, rows: Sequence[Row] | pd.DataFrame, verdict: str = "", holds: bool = True
) -> Outcome:
    """The outcome of some claims, extended by rows, their verdict, and whether they hold."""
    table = pd.concat([orders.table, pd.DataFrame(rows)], ignore_index=True)
    return Outcome(table, f"{orders.verdict} {verdict}".rstrip(), bool(orders.holds) and holds)


def _figure_verdict(row: Row) -> str:
    limits = [f"at {name} {row[name]:.3g}" for name in ("least", "most") if row[name] is not None]
    wrong = "" if row["holds"] else ", which is not what the paper says"
    return (
        f"At {row['case']} the {row['figure']} is {row['found']:.3g} ({' and '.join(limits)} "
        f"agrees){wrong}."
    )


def _summed(rows: Sequence[Row], name: str) -> str:
    """The verdict on several claims, as a sentence."""
    failed = [row for row in rows if not row["holds"]]
    if failed:
        failures = "; ".join(map(_text, failed))
        verb = "does" if len(failed) == 1 else "do"
        return f"{len(failed)} of {len(rows)} {name} {verb} not hold: {failures}."
    closest = min(rows, key=lambda row: row["t_ratio"] - row["required"])
    if len(rows) == 1:
        return f"The one of the {name} holds: {_text(closest)}."
    return f"All {len(rows)} {name} hold; the closest is {_text(closest)}."


def _text(row: Row) -> str:
    by = f"{row['t_ratio']:.1f} standard errors"
    if math.isinf(row["t_ratio"]):
        by = f"{row['difference']:.3g} in every trial"
    return (
        f"{row['lower']} < {row['higher']} at {row['case']} by {by} (required: "
        f"{row['required']:g} standard errors)"
    )


def outcome_text(outcome: Outcome) -> str:
    """The claims and their tests, other numbers, and the verdict.

    Args:
        outcome: The outcome of :meth:`Experiment.run`.
    """
    judged = "Agrees with the paper" if outcome.holds else "Does not agree with the paper"
    if outcome.holds is None:
        judged = "Nothing to agree or disagree with" if outcome.judged else "Not judged"
    table = outcome.table
    # Rows of different kinds fill different columns.
    kinds = table.groupby(table.notna().apply(tuple, axis=1), sort=False)
    shown = [
        rows.dropna(axis=1).to_string(index=False, float_format="{:.5g}".format)
        for _, rows in kinds
    ]
    return "\n\n".join([*shown, f"{judged}. {outcome.verdict}"])
