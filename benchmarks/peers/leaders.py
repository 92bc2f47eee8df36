"""Differences between the peers and the adaptive strategy, and the verdict on each world."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from botorch_tv.papers.claims import REQUIRED

Row = Mapping[str, Any]
Worlds = Mapping[str, Mapping[str, Row]]
ADAPTIVE = "adaptive"
OURS = (ADAPTIVE, "learning")
DRIFT = ("w-dbo", "xopt", "pb2", "ax-time")
"""Packages that model time."""
FEW = 3
"""Seeds from which a difference is judged."""
AHEAD, EVEN, BEHIND = "ahead", "level with", "**behind**"
HELD = "regret_per_unit_of_time"


class Gap(NamedTuple):
    """Difference (peer − ours) of the regret per unit of time."""

    mean: float
    error: float | None
    paired: bool

    def __str__(self) -> str:
        error = "" if self.error is None else f" ± {self.error:.2f}"
        return f"{self.mean:+.2f}{error}{'' if self.paired else ' u'}"


def gap_of(row: Row, ours: Row) -> Gap:
    """The difference of a peer to the adaptive strategy on a world.

    Pairs with an earlier version of the adaptive strategy do not count. The difference is then that
    of the two means, and its error is that of independent means.
    """
    if _paired_with_present(row, ours):
        return Gap(row["above_adaptive"], row["above_adaptive_error"], True)
    errors = (row["standard_error"], ours["standard_error"])
    return Gap(row[HELD] - ours[HELD], None if None in errors else math.hypot(*errors), False)


def _paired_with_present(row: Row, ours: Row) -> bool:
    if "pairs" not in row:
        return False
    if row["played"] == ours["played"]:
        return math.isclose(row["adaptive"], ours[HELD], rel_tol=1e-6)
    return set(row["commits"]) <= set(ours["commits"])


def gaps_of(peers: Mapping[str, Row]) -> dict[str, Gap]:
    """Differences of the peers that played enough seeds of a world."""
    return {
        name: gap_of(row, peers[ADAPTIVE])
        for name, row in peers.items()
        if name not in OURS and ADAPTIVE in peers and row["seeds"] >= FEW
    }


def verdict(gaps: Mapping[str, Gap]) -> str:
    """Whether ours is ahead of all peers, or the peers that are level or ahead."""
    ratios = {name: _ratio(gap) for name, gap in gaps.items()}
    for word, least in ((BEHIND, -REQUIRED), (EVEN, REQUIRED)):
        below = [f"`{name}`" for name, ratio in ratios.items() if ratio < least]
        if below:
            return f"{word} {', '.join(below)}"
    return AHEAD


def _ratio(gap: Gap) -> float:
    return gap.mean / gap.error if gap.error else math.copysign(math.inf, gap.mean)


def leaders(worlds: Worlds, order: list[str]) -> list[str]:
    """A row per world: the best peer, and whether ours is ahead of all peers."""
    lines = [
        "| world | ours | best peer | its regret | difference (peer − ours) | ours is |",
        "|---" * 6 + "|",
    ]
    judged: dict[str, str] = {}
    for world in order:
        gaps = gaps_of(worlds[world])
        if gaps:
            best = min(gaps, key=lambda name: gaps[name].mean)
            judged[world] = verdict(gaps)
            ours, theirs = (worlds[world][name][HELD] for name in (ADAPTIVE, best))
            cells = [world, f"{ours:.2f}", f"`{best}`", f"{theirs:.2f}", gaps[best], judged[world]]
            lines.append(f"| {' | '.join(map(str, cells))} |")
    ahead = [world for world, word in judged.items() if word == AHEAD]
    level = sum(word.startswith(EVEN) for word in judged.values())
    return [
        f"On {len(ahead)} of {len(judged)} worlds ours is ahead of all peers by {REQUIRED:g} "
        f"standard errors or more, on {level} it is level with a peer or several, on "
        f"{len(judged) - len(ahead) - level} it is behind. {_drift(worlds, ahead)}",
        "",
        *lines,
    ]


def _drift(worlds: Worlds, ahead: list[str]) -> str:
    """How many worlds on which ours is ahead were played by packages that model time."""
    packages = ", ".join(f"`{name}`" for name in DRIFT)
    played = [world for world in ahead if set(DRIFT) & set(worlds[world])]
    if not played:
        return (
            f"**No package that models time ({packages}) played any world on which ours is ahead**:"
            " the peers there are random search, Optuna's samplers and `botorch-time`."
        )
    return (
        f"Packages that model time ({packages}) played {len(played)} of the worlds on which ours "
        f"is ahead: {', '.join(played)}."
    )
