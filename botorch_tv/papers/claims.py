"""Tests of a paper's claims, and the outcome of these tests as text.

A claim is that one strategy has less regret than another, or that a number lies between limits.
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

REQUIRED = 3.0
"""Number of standard errors; regrets that differ by no more than this count as level."""
RULE = (
    f"An order holds if the regrets differ by more than {REQUIRED:g} standard errors, is wrong if "
    "they differ as much the other way, and is level otherwise. A figure agrees if all orders and "
    "numbers of the paper hold, does not if one is wrong, and is level otherwise."
)
SIMILAR = 1.1
"""Largest ratio of two regrets that count as similar."""

Row = dict[str, Any]
Claim = Callable[[Results], Row]
"""Type of a claim: a function from the results to a row of the table of :func:`judge`. The row has
an ``answer``: yes, no or level."""


def below(
    case: str, lower: str, higher: str, required: float = REQUIRED, *, ours: bool = False
) -> Claim:
    """The claim that `lower` has less total regret than `higher` in a case.

    Args:
        case: Name of the study.
        lower: Label of the better strategy.
        higher: Label of the worse strategy.
        required: Number of standard errors that the paired difference must exceed, by default
            :data:`REQUIRED`. With -:data:`REQUIRED` the claim is only
            that the regret of `lower` is not higher.
        ours: Whether the claim is ours and not the paper's. Our claims are reported, but do not
            affect the verdict.
    """

    def test(results: Results) -> Row:
        gap = results[case].paired_difference(higher, lower)
        return compared(case, lower, higher, gap, required, ours)

    return test


def exceeds(case: str, lower: str, higher: str, gap: Callable[[StudyResult], np.ndarray]) -> Claim:
    """The claim that one quantity exceeds another, in the mean over the trials of a case.

    Args:
        case: Name of the study.
        lower: Description of the smaller quantity.
        higher: Description of the larger quantity.
        gap: Function that computes, from the study, `higher` minus `lower` in each trial.
    """
    return lambda results: compared(case, lower, higher, Paired.of(gap(results[case])))


def compared(
    case: str,
    lower: str,
    higher: str,
    gap: Paired,
    required: float = REQUIRED,
    ours: bool = False,
) -> Row:
    """The row of :func:`below`; ``gap`` is the regret of `higher` minus the regret of `lower`."""
    identical = gap.mean == 0 and gap.standard_error == 0
    t_ratio = 0.0 if identical else gap.t_ratio
    return {
        "case": case,
        "lower": lower,
        "higher": higher,
        "required": required,
        "ours": ours,
        "difference": gap.mean,
        "standard_error": gap.standard_error,
        "t_ratio": t_ratio,
        "answer": order_answer(t_ratio, required),
    }


def order_answer(t_ratio: float, required: float = REQUIRED) -> str:
    """Whether one regret is lower than another: "yes", "no", or "level" if trials do not decide.

    A single trial has no standard error, so the answer is "level".

    Args:
        t_ratio: The difference of the regrets divided by its standard error.
        required: As for :func:`below`.
    """
    if t_ratio > required:
        return "yes"
    return "no" if t_ratio <= -REQUIRED else "level"


def share_of_trials(result: StudyResult, orders: Iterable[tuple[str, str]]) -> Paired:
    """The share of trials that satisfy all given orders of total regret.

    Args:
        result: The study.
        orders: Pairs of labels: the strategy with lower regret, then the strategy with higher
            regret.
    """
    hold = [result.total_regret(low) < result.total_regret(high) for low, high in orders]
    return Paired.of(np.all(hold, axis=0).astype(float))


def decided(answers: Iterable[str]) -> bool | None:
    """True if all answers are "yes", False if an answer is "no", and None otherwise."""
    given = set(answers)
    return False if "no" in given else None if "level" in given else True


def beats(case: str, lower: str, rivals: Iterable[str], *, ours: bool = False) -> list[Claim]:
    """Claims that `lower` has less regret than each of several rivals; see :func:`below`."""
    return [below(case, lower, rival, ours=ours) for rival in rivals]


def across(
    cases: Sequence[str], lower: str, higher: str, *, name: str = "all cases", ours: bool = False
) -> Claim:
    """The claim that `lower` has less total regret than `higher` in the mean over several cases.

    The standard error is computed over cases, for example over days, instead of over trials.

    Args:
        cases: Names of the studies.
        lower: As for :func:`below`.
        higher: As for :func:`below`.
        name: Name of the group of cases.
        ours: As for :func:`below`.
    """

    def test(results: Results) -> Row:
        gaps = [results[case].paired_difference(higher, lower).mean for case in cases]
        return compared(name, lower, higher, Paired.of(np.array(gaps)), ours=ours)

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
        measure: Function that computes the number from the study.
        least: The smallest value that agrees with the paper.
        most: The largest value that agrees with the paper.
    """

    def test(results: Results) -> Row:
        found, upper = measure(results[case]), None if most == math.inf else most
        own = {"case": case, "figure": meaning, "found": found, "least": least, "most": upper}
        return own | {"answer": yes(least <= found <= most)}

    return test


def yes(holds: bool) -> str:
    """The answer to a claim, "yes" or "no", if the answer "level" is not possible."""
    return "yes" if holds else "no"


def similar(case: str, first: str, second: str) -> Claim:
    """The claim that two strategies have similar regret, within a factor of :data:`SIMILAR`.

    Args:
        case: Name of the study.
        first: Label of the first strategy.
        second: Label of the second strategy.
    """

    def measure(result: StudyResult) -> float:
        return float(result.total_regret(first).mean() / result.total_regret(second).mean())

    meaning = f"regret of {first} as a multiple of {second}'s"
    return within(case, meaning, measure, 1 / SIMILAR, SIMILAR)


def judge(claims: Sequence[Claim], results: Results) -> Outcome:
    """Test every claim, on paired trials.

    Returns:
        The verdict, and a table with a row per claim. If a claim orders two strategies, its row
        contains the mean of R_T(higher) − R_T(lower), the standard error of the mean, and the ratio
        of mean and standard error. If a claim is about a number, its row contains the limits of the
        number.
    """
    rows = [claim(results) for claim in claims]
    orders = [row for row in rows if "lower" in row]
    figures = [row for row in rows if "figure" in row]
    theirs = [row for row in orders if not row["ours"]]
    ours = [row for row in orders if row["ours"]]
    verdicts = [_summed(theirs, "orders of the paper")] if theirs else []
    verdicts += [_summed(ours, "orders that we expected besides")] if ours else []
    verdicts += [_figure_verdict(row) for row in figures]
    holds = decided(row["answer"] for row in [*theirs, *figures])
    return Outcome(pd.DataFrame([*orders, *figures]), " ".join(verdicts), holds)


def judge_readings(readings: Mapping[str, Sequence[Claim]], results: Results) -> Outcome:
    """Test the claims of a paper under several interpretations of its unclear settings.

    The paper is confirmed if all claims hold under at least one interpretation. The paper is
    refuted if, under every interpretation, at least one claim is wrong. The text of the verdict
    lists the verdicts under all interpretations.

    Args:
        readings: A dict from the name of each interpretation, such as "B = 1", to the claims under
            this interpretation.
        results: The studies of all interpretations.
    """
    outcomes = {name: judge(claims, results) for name, claims in readings.items()}
    tables = [outcome.table.assign(reading=name) for name, outcome in outcomes.items()]
    verdict = " ".join(f"With {name}: {outcome.verdict}" for name, outcome in outcomes.items())
    found = {outcome.holds for outcome in outcomes.values()}
    holds = True if True in found else None if None in found else False
    return Outcome(pd.concat(tables, ignore_index=True), verdict, holds)


def also(orders: Outcome, rows: Sequence[Row], verdict: str = "") -> Outcome:
    """Add rows and their verdict to an outcome; each row that has an ``answer`` is a claim."""
    table = pd.concat([orders.table, pd.DataFrame(rows)], ignore_index=True)
    holds = decided(row["answer"] for row in rows if "answer" in row)
    if holds is not False:
        holds = orders.holds and holds
    return Outcome(table, f"{orders.verdict} {verdict}".rstrip(), holds)


def _figure_verdict(row: Row) -> str:
    limits = [f"at {name} {row[name]:.3g}" for name in ("least", "most") if row[name] is not None]
    wrong = "" if row["answer"] == "yes" else ", which is not what the paper says"
    return (
        f"At {row['case']} the {row['figure']} is {row['found']:.3g} ({' and '.join(limits)} "
        f"agrees){wrong}."
    )


def _summed(rows: Sequence[Row], name: str) -> str:
    """The verdict on several claims, as a sentence."""
    wrong, level = ([row for row in rows if row["answer"] == kind] for kind in ("no", "level"))
    if wrong or level:
        parts = [f"{len(rows) - len(wrong) - len(level)} of {len(rows)} {name} hold"]
        parts += [f"wrong: {', '.join(map(_text, wrong))}"] * bool(wrong)
        parts += [f"level: {', '.join(map(_text, level))}"] * bool(level)
        return "; ".join(parts) + "."
    closest = min(rows, key=lambda row: row["t_ratio"] - row["required"])
    if len(rows) == 1:
        return f"1 of 1 {name} holds: {_text(closest)}."
    return f"All {len(rows)} {name} hold; the closest is {_text(closest)}."


def _text(row: Row) -> str:
    by = f"{row['t_ratio']:.1f} standard errors"
    if math.isinf(row["t_ratio"]):
        by = f"{row['difference']:.3g} in every trial"
    sign = "<" if row["required"] > 0 else "≤"
    return f"{row['lower']} {sign} {row['higher']} at {row['case']} by {by}"


def outcome_text(outcome: Outcome) -> str:
    """The outcome of an experiment as text: its tables and its verdict.

    Args:
        outcome: The outcome of :meth:`Experiment.run`.
    """
    judged, table = "Agrees with the paper", outcome.table
    if outcome.holds is False:
        judged = "Does not agree with the paper"
    if outcome.holds is None:
        judged = "Level" if "answer" in table else "Nothing to agree or disagree with"
        judged = judged if outcome.judged else "Not judged"
    # A table for each kind of rows, because rows of different kinds have different columns.
    kinds = table.groupby(table.notna().apply(tuple, axis=1), sort=False)
    shown = [
        rows.dropna(axis=1).to_string(index=False, float_format="{:.5g}".format)
        for _, rows in kinds
    ]
    rule = [RULE] if "required" in table and "answer" in table else []
    return "\n\n".join([*shown, *rule, f"{judged}. {outcome.verdict}"])
