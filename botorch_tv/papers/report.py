"""The outcome of an experiment as text: claims, further numbers and the verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

from botorch_tv.papers.experiment import Outcome
from botorch_tv.simulation.tables import in_columns

if TYPE_CHECKING:
    import pandas as pd

Row = Mapping[str, Any]

ROUNDED_AWAY = 1e-9
"""Numbers below this are due to rounding, and shown as 0."""

_ANSWERS = {True: "yes", False: "no"}


def outcome_text(outcome: Outcome) -> str:
    """The claims and their tests, other numbers, and the verdict.

    Args:
        outcome: The outcome of :meth:`Experiment.run`.
    """
    rows = _rows(outcome.table)
    orders = [row for row in rows if "lower" in row]
    theirs = [row for row in orders if not row.get("ours")]
    ours = [row for row in orders if row.get("ours")]
    parts = [
        _orders("Claims of the paper, the first lower than the second", theirs),
        _orders("Expected besides, not claimed by the paper", ours),
        *_others(row for row in rows if "lower" not in row),
        _verdict(outcome),
    ]
    return "\n\n".join(part for part in parts if part)


def _rows(table: pd.DataFrame) -> list[Row]:
    """The rows without missing values; rows of different kinds fill different columns."""
    return [
        {str(name): value for name, value in row.items() if not _missing(value)}
        for row in table.to_dict("records")
    ]


def _missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _orders(title: str, rows: list[Row]) -> str:
    if not rows:
        return ""
    judged = "holds" in rows[0]
    head = ["case", "claim", *["holds"] * judged, "by", "± s.e.", "in s.e.", "needed"]
    cells = (
        [
            str(row["case"]),
            f"{row['lower']} < {row['higher']}",
            *([_ANSWERS[bool(row["holds"])]] if judged else []),
            *(_number(row.get(name)) for name in ("difference", "standard_error", "t_ratio")),
            f"> {row['required']:g}",
        ]
        for row in rows
    )
    return f"{title}:\n{in_columns([head, *cells], names=2 + judged)}"


def _others(rows: Iterable[Row]) -> list[str]:
    """A table for each kind of row."""
    tables = []
    for filled, kind in groupby(rows, key=tuple):
        alike = list(kind)
        words = [name for name in filled if isinstance(alike[0][name], str)]
        names = [*words, *(name for name in filled if name not in words)]
        head = [name.replace("_", " ") for name in names]
        texts = ([_cell(row[name]) for name in names] for row in alike)
        tables.append(in_columns([head, *texts], names=len(words)))
    return tables


def _cell(value: object) -> str:
    if isinstance(value, str):
        return value
    return _ANSWERS[bool(value)] if type(value).__name__ in ("bool", "bool_") else _number(value)


def _number(value: Any) -> str:
    """A number with three digits, in scientific notation only if it is small."""
    if value is None:
        return ""
    if not math.isfinite(value):
        return "∞" if value > 0 else "-∞"
    if abs(value) < ROUNDED_AWAY:
        return "0"
    if abs(value) < 1e-3:
        return f"{value:.1e}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"


def _verdict(outcome: Outcome) -> str:
    agreed = {True: "Agrees with the paper", False: "Does not agree with the paper"}
    if not outcome.judged:
        return f"Not judged. {outcome.verdict}"
    if outcome.holds is None:
        return f"Nothing to agree or disagree with. {outcome.verdict}"
    return f"{agreed[bool(outcome.holds)]}. {outcome.verdict}"
