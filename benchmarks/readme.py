"""What README says of speed and of presets, written from result files and the list of presets.

    python -m benchmarks.readme

puts both sections between their marks again; tests compare them.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.speed.common import BUSY, RESULTS, ROOT
from botorch_tv.strategies.presets import PRESETS, Preset

README = ROOT / "README.md"
BEGIN = "<!-- Written by `python -m benchmarks.readme` from benchmarks/results; do not edit. -->\n"
END = "<!-- End of what it writes. -->\n"
PRESETS_BEGIN = "<!-- Written by `python -m benchmarks.readme` from the list of presets. -->\n"
PRESETS_END = "<!-- End of the list of presets. -->\n"


def section(results: Path = RESULTS) -> str:
    """The words and the table, with every figure from a file.

    Args:
        results: The folder of the files.
    """
    loops, limits = (_read(results / f"speed_{name}.json") for name in ("botorch_loops", "limits"))
    studies = _read(results / "studies.json")["studies"]
    ms = {row["contender"]: row["ms"] for row in loops["contenders"]}
    ratio = {row["contender"]: row["ratio"] for row in loops["contenders"]}
    _, one, joint, single = list(ms)[:4]
    rows = [*_of_studies(studies, loops["device"]), *_of_rounds(ms, loops["parameters"]["trials"])]
    rounds, studied = loops["parameters"]["horizon"], _studied(ms)
    faster = ""
    if studied is not None:
        faster = (
            f"; a compiled study, all included, {_about(ms[joint] / ms[studied])} and "
            f"{_about(ms[single] / ms[studied])} times"
        )
    strategies = limits["devices"]["cpu"]["strategies"].values()
    table = ["| what | time |", "|---|---|", *(f"| {what} | {time} |" for what, time in rows)]
    shares = [one["bandwidth_reached"] * 100 for one in strategies]
    return "\n".join(
        [
            _paragraph(
                f"{_machine(loops)}, float64, {loops['parameters']['arms']:,} arms, {rounds} "
                "rounds, where nothing else is said; commit, seed and versions of every figure "
                f"stand in its file in [benchmarks/results](benchmarks/results).{_doubt(loops)}"
            ),
            "",
            *table,
            "",
            _paragraph(
                f"Together, trials run {_about(ratio[joint])} times faster than the first loop and "
                f"{_about(ratio[single])} times faster than the second, with the same choices in "
                f"all {loops['verified_rounds']} rounds; one trial alone, "
                f"{ms[joint] / ms[one]:.0f} and {ms[single] / ms[one]:.0f} times{faster}. A "
                f"round of all trials moves {_range(shares)} % of what the memory can carry "
                f"(`gp_ucb`, `tv_gp_ucb`, `et_gp_ucb`{_cached(shares)}).{_doubt(limits)} "
                "`python -m benchmarks.speed.botorch_loops` and "
                "`python -m benchmarks.speed.limits` measure this on your machine."
            ),
            "",
        ]
    )


def _of_studies(studies: dict[str, Any], machine: str) -> list[tuple[str, str]]:
    """What studies take; ``machine`` is that of all other figures."""
    return [
        (
            f"`botorch-tv compare`: {_players(studies, 'compare')} strategies, 64 trials"
            f"{_elsewhere(studies['compare'], machine)}{_doubt(studies['compare'])}",
            _seconds(studies, "compare"),
        ),
        (
            'stopping times of `et_gp_ucb`, 30,000 trials, world included ("3 days on a cluster" '
            "in [ET])",
            _seconds(studies, "et-fig4-"),
        ),
        (
            f"{_players(studies, 'c17-se-gp')} strategies on 100 arms, 25 trials, 30,000 rounds "
            "each ([C17] §6), by kernel and world",
            _seconds(studies, "c17-se-", "c17-matern52-"),
        ),
    ]


def _of_rounds(ms: dict[str, float], trials: int) -> list[tuple[str, str]]:
    """What rounds take, of those who were timed."""
    (many, one, joint, single), studied = list(ms)[:4], _studied(ms)
    rows = [(f"one round of `gp_ucb`, per trial, {trials} trials together", f"{ms[many]:.3f} ms")]
    if studied is not None:
        what = "… in a compiled study, its world, draws and results included"
        rows.append((what, f"{ms[studied]:.3f} ms"))
    return [
        *rows,
        (
            "… of a loop that rebuilds a `SingleTaskGP` and takes its joint posterior",
            f"{ms[joint]:.0f} ms",
        ),
        ("… of one that takes `posterior(X.unsqueeze(-2))`", f"{ms[single]:.0f} ms"),
        ("one round of one trial alone", f"{ms[one]:.1f} ms"),
    ]


def _studied(ms: dict[str, float]) -> str | None:
    """The compiled study among those timed, if there is one."""
    return next((label for label in ms if label.startswith("compiled study")), None)


def presets(listed: Mapping[str, Preset] = PRESETS) -> str:
    """The table of presets.

    Args:
        listed: The presets by name.
    """
    rows = [f"| `{name}` | {one.row} |" for name, one in listed.items()]
    head = "| preset | decay | noise of an observation | keeps | explores by | paper |"
    return "\n".join([head, "|---|---|---|---|---|---|", *rows, ""])


def replaced(text: str, within: str, begin: str = BEGIN, end: str = END) -> str:
    """The README with a section between its marks.

    Args:
        text: The section.
        within: The README.
        begin: The first mark.
        end: The second.
    """
    before, rest = within.split(begin)
    return f"{before}{begin}{text}{end}{rest.split(end)[1]}"


def _paragraph(text: str) -> str:
    return textwrap.fill(text, width=100, break_long_words=False, break_on_hyphens=False)


def _cached(shares: Sequence[float]) -> str:
    """How more than all that the memory can carry can be moved, where it is."""
    found = max(shares) > 100
    return "; more than all where a cache still has what the last pass wrote" if found else ""


def _elsewhere(facts: dict[str, Any], machine: str) -> str:
    """Words for what was timed on another machine than the rest."""
    return "" if facts["machine"] == machine else f", on {facts['machine']}"


def _doubt(facts: dict[str, Any]) -> str:
    """Words for a machine that was busy when it was timed; none for a quiet one."""
    if facts.get("load_before", 0) <= BUSY * facts.get("threads", 1):
        return ""
    return f" (Timed while the machine had other work: load {facts['load_before']:.1f}.)"


def _machine(facts: dict[str, Any]) -> str:
    return f"{facts['device']}, torch {facts['versions']['torch'].partition('+')[0]}"


def _players(studies: dict[str, Any], name: str) -> int:
    """How many strategies a study played."""
    return len(json.loads(studies[name]["strategies"]))


def _seconds(studies: dict[str, Any], *beginnings: str) -> str:
    """How long the studies of these names took, from the shortest to the longest."""
    found = [one["seconds"] for name, one in studies.items() if name.startswith(beginnings)]
    return f"{_range(found)} s"


def _range(numbers: list[float]) -> str:
    least, most = (f"{one:,.0f}" for one in (min(numbers), max(numbers)))
    return least if least == most else f"{least}–{most}"


def _about(number: float) -> str:
    """Two digits of a ratio that shifts from run to run."""
    return f"{float(f'{number:.2g}'):,.0f}"


def _read(path: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return told


if __name__ == "__main__":
    whole = replaced(section(), README.read_text(encoding="utf-8"))
    README.write_text(replaced(presets(), whole, PRESETS_BEGIN, PRESETS_END), encoding="utf-8")
