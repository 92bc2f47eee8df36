"""The page of peers, written from the result files.

    python -m benchmarks.peers.page

writes ``benchmarks/PEERS.md``; a test compares them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.peers.leaders import ADAPTIVE, HELD, Row, gap_of, leaders
from benchmarks.peers.slices import SLICES
from benchmarks.peers.worlds import GMPB_SETTINGS, WORLDS
from benchmarks.records import RESULTS

PAGE = RESULTS.parent / "PEERS.md"
RECORDS = ("peers.json", "statistics_regret_of_optuna_samplers.json")
"""Results that the page shows."""
SEEDS = 10
COLUMNS = (ADAPTIVE, "optuna-tpe", "optuna-gp", "botorch-time", "random")
"""Peers of the worlds that share a table."""
HEAD = """# Comparison with other optimisers

`Loop(box)` of this library, without prior knowledge, against other optimisers as their
documentation recommends them, on the same worlds, noise and seeds. Regret is the mean of
f\\*(t) − f(x, t) over a run; less is better. A difference (peer − ours) is paired over seeds, with
its standard error; positive means that ours is better. "u" marks an unpaired difference: the peer
was paired with an earlier version of ours, so the difference is of two means, and its error that of
independent means.
"""
HOW = """- Every peer runs in an environment of its own and starts with five random points where it
  lets us choose. There are 10 seeds unless a row says otherwise; differences are judged from 3
  seeds on.
- The best peer of a world is chosen after the fact, which favours it.
- Usually a unit of time passes per query. On *turning, 0.02 s* a unit is 0.02 s of processor time,
  so slower optimisers make fewer queries; regret counts the last point until the next.
- GMPB is noiseless. Its landscape changes every 50, 25, 10 or 5 queries here; the competition has
  100 times as many evaluations between changes.
- `slice-` worlds are the ten functions of the W-DBO paper, over 100 rounds in place of 600 seconds;
  `sliced_suite` documents their boxes. Seeds change the noise and the first points.
- Seconds are per query with one thread, on machines shared with other work; memory is the peak of
  the process.
- `python -m benchmarks.peers --out FOLDER` runs the comparison; `python -m benchmarks.peers.page`
  writes this page.
"""
MIXED = """A rate on a logarithmic scale, an integer and a category; each category has a minimum of
its own. *wander*: places and depths of the minima have periods of 150 and 200 trials. *jumps*:
abruptly changing, with new places and depths after every third of the run. *static*: no change.
{trials} trials by {workers} workers that share a study on SQLite. Regret is without noise, summed
over all trials. The other samplers seek the best value ever observed and continue to explore.
Milliseconds are of suggestions at the end of a run on a shared machine. Commit {commits};
`python -m benchmarks.statistics.regret_of_optuna_samplers` runs it.
"""
GROUPS = {
    "gmpb-": "## GMPB\n\n100 queries; regret, and in brackets the difference (peer − ours).",
    "slice-": "## Sliced functions\n\nNegated functions, last coordinate time, 100 queries; "
    "regret, and in brackets the difference (peer − ours).",
}
SAMPLERS = {"drift": "DriftSampler", "tpe": "TPESampler", "gp": "GPSampler"}


def write_page(record: Mapping[str, Any], optuna: Mapping[str, Any], page: Path = PAGE) -> None:
    """Write the page.

    Args:
        record: Content of ``peers.json``.
        optuna: Content of ``statistics_regret_of_optuna_samplers.json``.
        page: The file.
    """
    worlds: Mapping[str, Mapping[str, Row]] = record["worlds"]
    order = sorted(worlds, key=lambda world: (list(WORLDS).index(_name(world)), world))
    lines = [HEAD, "## Summary", "", *leaders(worlds, order), "", "## Setup", "", HOW]
    lines += ["## Peers and their costs", "", *_costs(record), "", *_versions(record)]
    lines += ["", "## Optuna's samplers on mixed parameters", "", *mixed(optuna)]
    for world in order:
        if "-" not in world:
            lines += ["", f"## {world}", "", _about(world), "", *_table(worlds[world])]
    for kind, about in GROUPS.items():
        group = [world for world in order if world.startswith(kind)]
        lines += ["", about, "", *_wide({world: worlds[world] for world in group})]
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _costs(record: Mapping[str, Any]) -> list[str]:
    """A row per peer: description, and ranges of time and memory over the worlds."""
    columns = {"seconds_per_round": "s", "processor_seconds_per_round": "processor s"}
    lines = [f"| peer | description | {' | '.join(columns.values())} | MiB |", "|---" * 5 + "|"]
    for name, about in record["peers"].items():
        rows = [peers[name] for peers in record["worlds"].values() if name in peers]
        cells = [_range([row[key] for row in rows if row[key] is not None]) for key in columns]
        memory = [row["peak_memory_MiB"] for row in rows]
        cells.append(f"{min(memory):.0f}–{max(memory):.0f}")
        lines.append(f"| `{name}` | {about} | {' | '.join(cells)} |")
    return lines


def _range(seconds: list[float]) -> str:
    least, most = (f"{each:.2g}" if each >= 1e-3 else "< 0.001" for each in _ends(seconds))
    return least if least == most else f"{least}–{most}"


def _ends(values: list[float]) -> tuple[float, float]:
    return min(values), max(values)


def _table(peers: Mapping[str, Row]) -> list[str]:
    """A row per peer, the least regret first."""
    counts = {round(row["queries"]) for row in peers.values()}
    extra = " queries | regret per query |" if len(counts) > 1 else ""
    lines = [f"| peer | regret | difference | processor s |{extra}"]
    lines.append("|---" * lines[0].count(" |") + "|")
    for name, row in sorted(peers.items(), key=lambda item: item[1][HELD]):
        error = row["standard_error"]
        seeds = "" if row["seeds"] == SEEDS else f" ({row['seeds']} seeds)"
        regret = f"{row[HELD]:.2f}" + ("" if error is None else f" ± {error:.2f}")
        gap = "" if name == ADAPTIVE else str(gap_of(row, peers[ADAPTIVE]))
        cells = [f"`{name}`{seeds}", regret, gap, _range([row["processor_seconds_per_round"]])]
        cells += [f"{row['queries']:.0f}", f"{row['regret']:.2f}"] if extra else []
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _wide(worlds: Mapping[str, Mapping[str, Row]]) -> list[str]:
    """A row per world and a column per peer, for worlds that the same peers played."""
    names = [name for name in COLUMNS if any(name in peers for peers in worlds.values())]
    lines = [f"| world | {' | '.join(f'`{name}`' for name in names)} |"]
    lines.append("|---" * (1 + len(names)) + "|")
    for world, peers in worlds.items():
        cells = [f"{world}: {_about(world)}"]
        for name in names:
            row, seeds = peers[name], peers[name]["seeds"]
            cell = f"{row[HELD]:.2f} ± {row['standard_error']:.2f}"
            if name != ADAPTIVE:
                cell += f" ({gap_of(row, peers[ADAPTIVE])})"
            cells.append(cell if seeds == SEEDS else f"{cell}, {seeds} seeds")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def mixed(record: Mapping[str, Any]) -> list[str]:
    """The section on Optuna's samplers, from the record of ``regret_of_optuna_samplers``."""
    commits = ", ".join(sorted({run["commit"] for run in record["environments"]}))
    lines = [
        MIXED.format(**record["parameters"], commits=commits),
        "| world | sampler | seeds | regret | difference | ms | processor ms |",
        "|---" * 7 + "|",
    ]
    for world in ("wander", "jumps", "static"):
        figures = record["worlds"][world]
        for name, label in SAMPLERS.items():
            row, gap = figures[name], figures.get(f"{name} minus drift")
            cells = [world, f"`{label}`", figures["seeds"]]
            cells.append(f"{row['regret']:.1f} ± {row['standard error']:.1f}")
            cells.append(f"{gap['mean']:+.1f} ± {gap['standard error']:.1f}" if gap else "")
            cells += [f"{row[key]:.0f}" for key in ("milliseconds", "milliseconds of processor")]
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def _name(world: str) -> str:
    return world.partition(",")[0]


def _about(world: str) -> str:
    """A short description of a world."""
    name = _name(world)
    played = WORLDS[name](0)
    if name.startswith("gmpb-"):
        settings = GMPB_SETTINGS[name.removeprefix("gmpb-")]
        every = settings.get("change_frequency", 50)
        return f"{settings['m']} peaks, d = {played.dim}, a change every {every} queries"
    elif name.startswith("slice-"):
        sliced = SLICES[name.removeprefix("slice-")]
        box = f"[{sliced.lower:g}, {sliced.upper:g}]"
        return f"d = {played.dim} + time, {box}, noise {played.noise:.3g}"
    about = str(WORLDS[name].__doc__).partition("\n")[0]
    noise = f"noise {played.noise:.3g}" if played.noise else "no noise"
    return f"{about} {played.dim} parameters, {played.rounds} units of time, {noise}."


def _versions(record: Mapping[str, Any]) -> list[str]:
    """Devices, commits and versions of the runs."""
    rows = [row for peers in record["worlds"].values() for row in peers.values()]
    commits = sorted({commit[:8] for row in rows for commit in row["commits"]})
    versions: dict[str, str] = {}
    for row in rows:
        versions |= row["versions"]
    packages = ", ".join(f"{name} {number}" for name, number in sorted(versions.items()))
    devices = " and ".join(sorted({device for row in rows for device in row["devices"]}))
    failed = [f"- Failed: {run}: {why[:200]}" for run, why in record["failed"].items()]
    return [f"{devices}; commits {', '.join(commits)}; {packages}.", *failed]


def stored(name: str) -> Any:
    """Content of a result file."""
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


if __name__ == "__main__":
    write_page(*map(stored, RECORDS))
