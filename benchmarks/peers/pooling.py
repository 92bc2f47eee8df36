"""Pooled results of two sets of seeds.

The record has means, standard errors and seeds of each peer on a world. Those of more seeds follow
from them exactly, without the runs.
"""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]


def pooled(earlier: Row | None, later: Row) -> Row:
    """The row of the seeds of both rows; raises ValueError if the rows share a seed."""
    if earlier is None:
        return later
    twice = set(earlier["played"]) & set(later["played"])
    if twice:
        raise ValueError(f"seeds {sorted(twice)} are in both rows; drop them from one")
    row = earlier | {
        "seeds": earlier["seeds"] + later["seeds"],
        "played": sorted(earlier["played"] + later["played"]),
        "versions": earlier["versions"] | later["versions"],
        "commits": sorted({*earlier["commits"], *later["commits"]}),
        "devices": sorted({*earlier["devices"], *later["devices"]}),
    }
    for name in later:
        if name not in NOT_MEANS:
            row[name] = _mean(earlier, later, name, "pairs" if name in OF_PAIRS else "seeds")
    row["standard_error"] = _error(
        earlier, later, "regret_per_unit_of_time", "standard_error", "seeds"
    )
    if "pairs" in earlier or "pairs" in later:
        row["pairs"] = earlier.get("pairs", 0) + later.get("pairs", 0)
        row["above_adaptive_error"] = _error(
            earlier, later, "above_adaptive", "above_adaptive_error", "pairs"
        )
    return row


OF_PAIRS = ("adaptive", "above_adaptive", "processor_times_ours")
ERRORS = ("standard_error", "above_adaptive_error")
NOT_MEANS = ("seeds", "played", "versions", "commits", "devices", "pairs", *ERRORS)


def _mean(earlier: Row, later: Row, name: str, counted: str) -> float | None:
    """Mean of both rows, or of the row that has the figure."""
    rows = [(row[counted], row[name]) for row in (earlier, later) if row.get(name) is not None]
    total = sum(count for count, _ in rows)
    return sum(count * mean for count, mean in rows) / total if rows else None


def _error(earlier: Row, later: Row, mean: str, error: str, counted: str) -> float | None:
    """Standard error of a mean of both rows: squares within each row, and between the two."""
    rows = [row for row in (earlier, later) if row.get(counted)]
    total = sum(row[counted] for row in rows)
    if total < 2:
        return None
    middle = sum(row[counted] * row[mean] for row in rows) / total
    squares = sum(
        row[counted] * ((row[counted] - 1) * (row[error] or 0.0) ** 2 + (row[mean] - middle) ** 2)
        for row in rows
    )
    return float((squares / (total - 1) / total) ** 0.5)
