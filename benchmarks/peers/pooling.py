"""Results of some seeds and of others, as one.

Runs are long and machines come and go. What is kept of each peer on a world are means, standard
errors and the seeds they are of, from which those of more seeds follow exactly, without the runs.
"""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]


def pooled(earlier: Row | None, later: Row) -> Row:
    """One row of two, whose seeds are others.

    Raises:
        ValueError: If both hold a seed.
    """
    if earlier is None:
        return later
    twice = set(earlier["played"]) & set(later["played"])
    if twice:
        raise ValueError(f"seeds {sorted(twice)} are in both rows; leave them out of one")
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
        row["above_nothing_error"] = _error(
            earlier, later, "above_nothing", "above_nothing_error", "pairs"
        )
    return row


OF_PAIRS = ("nothing", "above_nothing", "processor_times_ours")
ERRORS = ("standard_error", "above_nothing_error")
NOT_MEANS = ("seeds", "played", "versions", "commits", "devices", "pairs", *ERRORS)


def _mean(earlier: Row, later: Row, name: str, counted: str) -> float | None:
    """Of both rows, or of the one that knows it."""
    known = [(one[counted], one[name]) for one in (earlier, later) if one.get(name) is not None]
    total = sum(count for count, _ in known)
    return sum(count * mean for count, mean in known) / total if known else None


def _error(earlier: Row, later: Row, mean: str, error: str, counted: str) -> float | None:
    """Standard error of a mean of both rows: squares within each, and between the two."""
    known = [one for one in (earlier, later) if one.get(counted)]
    total = sum(one[counted] for one in known)
    if total < 2:
        return None
    middle = sum(one[counted] * one[mean] for one in known) / total
    squares = sum(
        one[counted] * ((one[counted] - 1) * (one[error] or 0.0) ** 2 + (one[mean] - middle) ** 2)
        for one in known
    )
    return float((squares / (total - 1) / total) ** 0.5)
