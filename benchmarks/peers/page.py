"""The page that says who came out where, written from the result file and from nothing else.

    python -m benchmarks.peers.page

writes ``benchmarks/PEERS.md`` again; a test compares them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.peers.mixed import mixed
from benchmarks.peers.slices import SLICES
from benchmarks.peers.worlds import GMPB_SETTINGS, WORLDS, World
from benchmarks.speed.common import RESULTS

Row = Mapping[str, Any]
PAGE = RESULTS.parent / "PEERS.md"
OURS = ("nothing", "learning")
INSTANT = ("random", "optuna-tpe")
"""Who fits no Gaussian process."""
LEVEL = 2.0
"""Standard errors within which two are level."""
FEW = 3
"""Fewer seeds than this, and no difference is judged."""
UNJUDGED = "not judged"
PROCESSOR = "processor_seconds_per_round"
HEAD = """# Beside living peers

Other people's optimisers and this library's, on the same worlds with the same noise, seed by seed:
each as its documentation has it, in an environment of its own, told nothing of the world but its
bounds and the time, five random points first where that is ours to say. Regret per unit of time is
the mean of f\\*(t) - f(x, t) over a run, the last point held until the next. Where time stands
still while a peer thinks, a measurement a unit, it is regret per query as well; where thinking
counts, the seconds of a processor that make a unit of time stand beside the world's name, and who
thinks for longer measures more seldom; seconds are those measured, or, where it says so, given.
"Less ours" is the mean difference to `nothing`, this library's `Loop(box)`, on the seeds that both
played, and its standard error; positive where ours is better. Worlds whose names begin with
`slice-` are the ten functions of W-DBO's paper, in 100 rounds instead of 600 seconds, with boxes
and dimensions as far as others quote them (`sliced_suite` says which). `nothing` is not among the
peers of GMPB's F9 and F10, as it refuses boxes of more than 8 coordinates. Seconds and processor
seconds are per query with one thread, memory is the peak of the process. This page is written by
`python -m benchmarks.peers.page` from what `python -m benchmarks.peers --out FOLDER` ran, and what
`benchmarks.statistics.optuna_drift` did.
"""


def write_page(
    record: Mapping[str, Any], optuna: Mapping[str, Any] | None = None, page: Path = PAGE
) -> None:
    """Write the page.

    Args:
        record: What is stored in ``peers.json``.
        optuna: What is stored in ``statistics_optuna_drift.json``.
        page: The file.
    """
    worlds: Mapping[str, Mapping[str, Row]] = record["worlds"]
    order = sorted(worlds, key=_place)
    lines = [HEAD, *_machine(record), "", "## Who leads", "", *leaders(worlds, order)]
    for world in order:
        lines += ["", f"## {world}", "", _what(world), "", *_table(worlds[world])]
    if optuna is not None:
        lines += ["", "## Optuna's samplers, parameters of mixed kinds", "", *mixed(optuna)]
    lines += ["", "## Who they are", ""]
    lines += [f"- `{name}`: {_whole(what)}" for name, what in record["peers"].items()]
    lines += ["", "## What is missing", "", *missing(record, order)]
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def leaders(worlds: Mapping[str, Mapping[str, Row]], order: list[str]) -> list[str]:
    """A line per world on which both are: the best peer, and whether ours is ahead of it."""
    lines = ["| world | best peer | less ours | ours told nothing is |", "|---|---|---|---|"]
    counts = dict.fromkeys(("ahead", "level", "behind", UNJUDGED), 0)
    lower = []
    for world in order:
        rivals = {name: row for name, row in worlds[world].items() if name not in OURS}
        lower += [
            f"`{name}` on {world} ({_gap(row)})"
            for name, row in rivals.items()
            if 0 < row.get("pairs", 0) < FEW and row["above_nothing"] < 0
        ]
        most = {name: row for name, row in rivals.items() if row.get("pairs", 0) >= FEW}
        known = most or {name: row for name, row in rivals.items() if row.get("pairs")}
        if not known:
            continue
        name = min(known, key=lambda name: known[name]["above_nothing"])
        row = known[name]
        found = standing(row)
        counts[found] += 1
        lines.append(f"| {world} | `{name}` | {_gap(row)}, seeds: {row['pairs']} | {found} |")
    played = sum(counts.values()) - counts[UNJUDGED]
    said = (
        f"Of {played} worlds that a peer played on {FEW} seeds or more, ours told nothing is "
        f"ahead of all those peers by {LEVEL:g} standard errors or more on {counts['ahead']}, "
        f"level with the best on {counts['level']} and behind it on {counts['behind']}. "
        "Few seeds tell little: level is what they do not tell apart. Lower than ours on fewer "
        f"seeds than {FEW}: {', '.join(lower) or 'nobody'}."
    )
    return [said, "", *lines, "", thinking(worlds)]


def thinking(worlds: Mapping[str, Mapping[str, Row]]) -> str:
    """What a query costs, as a multiple of ours on the same world."""
    times: dict[str, list[float]] = {}
    for peers in worlds.values():
        if peers.get("nothing", {}).get(PROCESSOR) is None:
            continue
        ours = peers["nothing"][PROCESSOR]
        for name, row in peers.items():
            if name not in (*OURS, *INSTANT) and row[PROCESSOR] is not None:
                times.setdefault(name, []).append(row[PROCESSOR] / ours)
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


def standing(row: Row) -> str:
    """Whether ours is ahead of, level with or behind a peer."""
    if row["pairs"] < FEW:
        return UNJUDGED
    gap, error = row["above_nothing"], row["above_nothing_error"]
    if abs(gap) < LEVEL * error:
        return "level"
    return "ahead" if gap > 0 else "behind"


def missing(record: Mapping[str, Any], order: list[str]) -> list[str]:
    """Who was not run, or on fewer seeds than ours, and what failed."""
    worlds = record["worlds"]
    lines = []
    for world in order:
        most = max(row["seeds"] for row in worlds[world].values())
        rows = {name: worlds[world].get(name, {"seeds": 0}) for name in record["peers"]}
        few = [f"`{name}` {row['seeds']}" for name, row in rows.items() if row["seeds"] < most]
        if few:
            lines.append(f"- {world}, {most} seeds, but fewer of {', '.join(few)}.")
    never = [name for name in WORLDS if not any(_name(world) == name for world in order)]
    if never:
        lines.append(f"- Not run: {', '.join(never)}.")
    lines += [f"- Failed: {run}: {_whole(why)}" for run, why in record["failed"].items()]
    return lines or ["Nothing."]


def _table(peers: Mapping[str, Row]) -> list[str]:
    """A line per peer, best first."""
    lines = [
        "| peer | seeds | regret per unit of time | less ours | regret per query | queries | "
        "s | processor s | MiB |",
        "|---" * 9 + "|",
    ]
    for name, row in sorted(peers.items(), key=lambda one: one[1]["regret_per_unit_of_time"]):
        error = row["standard_error"]
        regret = f"{row['regret_per_unit_of_time']:.2f}" + (
            "" if error is None else f" ± {error:.2f}"
        )
        cells = [f"`{name}`", row["seeds"], regret, _gap(row), f"{row['regret']:.2f}"]
        cells += [f"{row['queries']:.0f}", *(_short(row[which]) for which in SECONDS)]
        lines.append(f"| {' | '.join(map(str, cells))} | {row['peak_memory_MiB']:.0f} |")
    return lines


SECONDS = ("seconds_per_round", PROCESSOR)


def _short(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.2g}" if seconds >= 1e-3 else "< 0.001"


def _gap(row: Row) -> str:
    if "above_nothing" not in row:
        return ""
    error = row["above_nothing_error"]
    return f"{row['above_nothing']:+.2f}" + ("" if error is None else f" ± {error:.2f}")


def _name(world: str) -> str:
    return world.partition(",")[0]


def _place(world: str) -> tuple[int, str]:
    return list(WORLDS).index(_name(world)), world


def _what(world: str) -> str:
    name = _name(world)
    played = WORLDS[name](0)
    if name.startswith("gmpb-"):
        settings = GMPB_SETTINGS[name.removeprefix("gmpb-")]
        told = f"GMPB's {name[5:].upper()}: {settings['m']} peaks, a change every "
        told += f"{settings.get('change_frequency', 50)} rounds."
    elif name.startswith("slice-"):
        slices = SLICES[name.removeprefix("slice-")]
        told = f"{slices.formula.__doc__}, negated, of {slices.coordinates} coordinates from "
        told += f"{slices.lower:g} to {slices.upper:g}, of which the last is time."
    else:
        told = str(WORLDS[name].__doc__).partition("\n")[0]
    return (
        f"{told} {played.dim} coordinates, {played.rounds} units of time, noise {_noise(played)}."
    )


def _noise(played: World) -> str:
    return f"{played.noise:.3g}" if played.noise else "0.0"


def _whole(what: str) -> str:
    return what if what.endswith(".") else what + "."


def _machine(record: Mapping[str, Any]) -> list[str]:
    """Where, and at which commits."""
    rows = [row for peers in record["worlds"].values() for row in peers.values()]
    commits = sorted({one for row in rows for one in row["commits"]})
    versions: dict[str, str] = {}
    for row in rows:
        versions |= row["versions"]
    told = ", ".join(f"{name} {number}" for name, number in sorted(versions.items()))
    return [f"{record['device']}, shared with other work; commits {', '.join(commits)}; {told}."]


def stored(name: str) -> Any:
    """What a result file says."""
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


if __name__ == "__main__":
    write_page(stored("peers.json"), stored("statistics_optuna_drift.json"))
