"""Who leads: what the page of peers says first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Row = Mapping[str, Any]
Worlds = Mapping[str, Mapping[str, Row]]
OURS = ("nothing", "learning")
INSTANT = ("random", "optuna-tpe")
"""Who fits no Gaussian process."""
LEVEL = 2.0
"""Standard errors within which two are level."""
CLEAR = 3.0
"""Standard errors from which nobody need doubt."""
FEW = 3
"""Fewer seeds than this, and no difference is judged."""
SURELY, AHEAD = f"ahead (≥ {CLEAR:g})", f"ahead (≥ {LEVEL:g})"
EVEN, BEHIND = "level with", "**behind**"
UNJUDGED = "not judged"
PROCESSOR = "processor_seconds_per_round"


def leaders(worlds: Worlds, order: list[str]) -> list[str]:
    """A line per world on which both are: the best peer, and whether ours is ahead of all.

    Args:
        worlds: What every peer reached on every world.
        order: Names of worlds.
    """
    lines = [
        "| world | ours | best peer | theirs | less ours | seeds | peers | told nothing is |",
        "|---" * 8 + "|",
    ]
    found = []
    for world in order:
        name = best_peer(worlds[world])
        if name is None:
            continue
        row, ours = worlds[world][name], worlds[world][name]["nothing"]
        judged = verdict(worlds[world])
        found.append(judged)
        cells = [world, f"{ours:.2f}", f"`{name}`", f"{ours + row['above_nothing']:.2f}"]
        cells += [gap(row), str(row["pairs"]), str(len(rivals(worlds[world], FEW))), judged]
        lines.append(f"| {' | '.join(cells)} |")
    return [_counted(found), "", *lines, "", _lower(worlds, order), "", thinking(worlds)]


def best_peer(peers: Mapping[str, Row]) -> str | None:
    """The lowest of those that played enough seeds with ours, or else of all that did."""
    known = rivals(peers, FEW) or rivals(peers, 1)
    return min(known, key=lambda name: float(known[name]["above_nothing"]), default=None)


def verdict(peers: Mapping[str, Row]) -> str:
    """Whether ours is ahead of all that played enough seeds, or level with or behind whom.

    The lowest in the mean may have been played so often that ours is surely ahead of it, and
    another so seldom that it is not.
    """
    known = rivals(peers, FEW)
    if not known:
        return UNJUDGED
    ratios = {name: _ratio(row) for name, row in known.items()}
    for word, least in ((BEHIND, -LEVEL), (EVEN, LEVEL), (AHEAD, CLEAR)):
        below = [f"`{name}`" for name, ratio in ratios.items() if ratio < least]
        if below:
            return word if word == AHEAD else f"{word} {', '.join(below)}"
    return SURELY


def rivals(peers: Mapping[str, Row], seeds: int) -> dict[str, Row]:
    """Other people's that played at least so many seeds that ours played, too."""
    return {
        name: row
        for name, row in peers.items()
        if name not in OURS and row.get("pairs", 0) >= seeds
    }


def _ratio(row: Row) -> float:
    """By how many standard errors ours is better."""
    difference, error = float(row["above_nothing"]), float(row["above_nothing_error"])
    return difference / error if error else math.copysign(math.inf, difference)


def _counted(found: list[str]) -> str:
    """On how many worlds ours is what."""
    played = len(found) - found.count(UNJUDGED)
    clear, ahead = found.count(SURELY), found.count(AHEAD)
    level = sum(one.startswith(EVEN) for one in found)
    return (
        f"Of {played} worlds that a peer played on {FEW} seeds or more, ours told nothing is "
        f"ahead of all those peers by {LEVEL:g} standard errors or more on {clear + ahead} (by "
        f"{CLEAR:g} or more on {clear}), level with one or more of them on {level} and behind one "
        f"on {played - clear - ahead - level}. Level is what these seeds do not tell apart."
    )


def _lower(worlds: Worlds, order: list[str]) -> str:
    """Who did better than ours where it played too seldom to be judged."""
    lower = [
        f"`{name}` on {world} ({gap(row)})"
        for world in order
        for name, row in worlds[world].items()
        if name not in OURS and 0 < row.get("pairs", 0) < FEW and row["above_nothing"] < 0
    ]
    return f"Lower than ours on fewer seeds than {FEW}: {', '.join(lower) or 'nobody'}."


def thinking(worlds: Worlds) -> str:
    """What a query costs, as a multiple of ours on the same world, seeds and machine."""
    times: dict[str, list[float]] = {}
    for peers in worlds.values():
        for name, row in peers.items():
            if name not in (*OURS, *INSTANT) and row.get("processor_times_ours") is not None:
                times.setdefault(name, []).append(row["processor_times_ours"])
    told = [
        f"`{name}` {min(each):.1f} to {max(each):.1f}"
        if len(each) > 1
        else f"`{name}` {each[0]:.1f}"
        for name, each in sorted(times.items(), key=lambda one: min(one[1]))
    ]
    return (
        "Processor time of a query as a multiple of ours on the same world, for those that fit a "
        f"Gaussian process: {', '.join(told)}."
    )


def gap(row: Row) -> str:
    """The paired difference to ours, and its standard error."""
    if "above_nothing" not in row:
        return ""
    error = row["above_nothing_error"]
    return f"{row['above_nothing']:+.2f}" + ("" if error is None else f" ± {error:.2f}")
