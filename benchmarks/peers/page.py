"""The page that says who came out where, written from the result file and from nothing else.

    python -m benchmarks.peers.page

writes ``benchmarks/PEERS.md`` again; a test compares them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.peers.leaders import PROCESSOR, gap, leaders
from benchmarks.peers.mixed import mixed
from benchmarks.peers.slices import SLICES
from benchmarks.peers.worlds import GMPB_SETTINGS, WORLDS, World
from benchmarks.speed.common import RESULTS

Row = Mapping[str, Any]
PAGE = RESULTS.parent / "PEERS.md"
HEAD = """# Beside living peers

`Loop(box)` of this library, told nothing of a world but its bounds and the time, beside other
people's optimisers, each as its documentation has it, on the same worlds with the same noise, seed
by seed. Regret is the mean of f\\*(t) - f(x, t) over a run: less is better. "Less ours" is theirs
less ours on the seeds that both played, and its standard error: positive where ours is better.
"""
HOW = """Each peer runs in an environment of its own, and has five random points first where that is
ours to say. Regret per unit of time holds the last point until the next. Where time stands still
while a peer thinks, a measurement a unit, it is regret per query as well; where thinking counts,
the seconds of a processor that make a unit of time stand beside the world's name, and who thinks
for longer measures more seldom; seconds are those measured, or, where it says so, given.

Ours is ahead on a world, by two standard errors or three, where it is ahead of every peer that
shares three seeds with it or more; "peers" says how many these are. The best is the lowest of them,
or of those that played fewer where nobody did, and was chosen after the fact: the best of many by
chance looks better than it is. On three seeds a standard error is itself a guess.

Worlds whose names begin with `slice-` are the ten functions of W-DBO's paper, in 100 rounds instead
of 600 seconds, with boxes and dimensions as far as others quote them (`sliced_suite` says which);
their seeds change the noise and the first points, not the function. GMPB is noiseless. Seconds and
processor seconds are per query with one thread, memory is the peak of the process. This page is
written by `python -m benchmarks.peers.page` from what `python -m benchmarks.peers --out FOLDER`
ran, and what `benchmarks.statistics.optuna_drift` did.
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
    lines = [HEAD, "## Who leads", "", *leaders(worlds, order)]
    lines += ["", "## Who they are", ""]
    lines += [f"- `{name}`: {_whole(what)}" for name, what in record["peers"].items()]
    lines += ["", "## How they were played", "", HOW, *_machine(record)]
    if optuna is not None:
        lines += ["", "## Optuna's samplers, parameters of mixed kinds", "", *mixed(optuna)]
    lines += ["", "## Seeds played", "", *played(record, order)]
    for world in order:
        lines += ["", f"## {world}", "", _what(world), "", *_table(worlds[world])]
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def played(record: Mapping[str, Any], order: list[str]) -> list[str]:
    """How many seeds there are of whom, and what failed."""
    peers = list(record["peers"])
    lines = [f"| world | {' | '.join(f'`{name}`' for name in peers)} |"]
    lines += ["|---" * (1 + len(peers)) + "|"]
    for world in order:
        rows = record["worlds"][world]
        seeds = [str(rows[name]["seeds"]) if name in rows else "" for name in peers]
        lines.append(f"| {' | '.join([world, *seeds])} |")
    never = [name for name in WORLDS if not any(_name(world) == name for world in order)]
    told = [f"- Not run: {', '.join(never)}."] if never else []
    told += [f"- Failed: {run}: {_whole(_cut(why))}" for run, why in record["failed"].items()]
    return [*lines, "", *told] if told else lines


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
        cells = [f"`{name}`", row["seeds"], regret, gap(row), f"{row['regret']:.2f}"]
        cells += [f"{row['queries']:.0f}", *(_short(row[which]) for which in SECONDS)]
        lines.append(f"| {' | '.join(map(str, cells))} | {row['peak_memory_MiB']:.0f} |")
    return lines


SECONDS = ("seconds_per_round", PROCESSOR)


def _short(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.2g}" if seconds >= 1e-3 else "< 0.001"


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


def _cut(words: str, most: int = 200) -> str:
    """Its beginning and its end, where it is long."""
    return words if len(words) <= most else f"{words[: most // 2]} ... {words[-most // 2 :]}"


def _machine(record: Mapping[str, Any]) -> list[str]:
    """Where, and at which commits."""
    rows = [row for peers in record["worlds"].values() for row in peers.values()]
    commits = sorted({one for row in rows for one in row["commits"]})
    versions: dict[str, str] = {}
    for row in rows:
        versions |= row["versions"]
    told = ", ".join(f"{name} {number}" for name, number in sorted(versions.items()))
    devices = " and ".join(sorted({one for row in rows for one in row["devices"]}))
    return [f"{devices}, shared with other work; commits {', '.join(commits)}; {told}."]


def stored(name: str) -> Any:
    """What a result file says."""
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


if __name__ == "__main__":
    write_page(stored("peers.json"), stored("statistics_optuna_drift.json"))
