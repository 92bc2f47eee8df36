"""The measured figures of README and site, README's picture and presets, the index of results.

    python -m tests.tools.pages

fills every section between ``<!--tests.tools.pages:NAME-->`` and ``<!--/-->`` from the stored
results, and lists in ``benchmarks/results/README.md`` which script wrote each result and which
pages use it. Tests compare.
"""

from __future__ import annotations

import base64
import json
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.leaders import AHEAD, DRIFT, gaps_of, verdict
from benchmarks.peers.page import RECORDS
from benchmarks.records import BUSY, RESULTS, ROOT
from benchmarks.statistics.paired import ADAPTIVE, REGRET, standard_error
from botorch_tv.papers import EXPERIMENTS
from botorch_tv.papers.claims import REQUIRED
from botorch_tv.strategies.listing import PRESETS

Record = dict[str, Any]
PACKAGE = ROOT / "botorch_tv"
README, SITE = ROOT / "README.md", ROOT / ".site" / "pages"
PAGES = (README, *sorted(SITE.rglob("*.md")))
PAPERS, PEERS = ROOT / "benchmarks" / "RESULTS.md", ROOT / "benchmarks" / "PEERS.md"
INDEX = RESULTS / "README.md"
INDEX_HEAD = """\
# Stored results

Written by `python -m tests.tools.pages`. The docstring of a script tells what its result shows.
What no page uses is the record of its script, or a report.
"""
SUFFIXES = (".json", "-verdict.csv", "-summary.csv")
READ = {
    PAPERS: ("studies.json", *(f"{id}{suffix}" for id in EXPERIMENTS for suffix in SUFFIXES)),
    PEERS: RECORDS,
}
"""Results from which other tools write a page."""
WRITERS = {
    "et-fig7.png": "benchmarks.paper.collect",
    "gpu_limits.json": "benchmarks.speed.limits",
    "gpu_rounds_by_size.json": "benchmarks.gpu.captured_rounds",
    "studies.json": "benchmarks.paper.collect",
    "peers.json": "benchmarks.peers",
    "mutation.json": "tests.tools.mutation",
    "machine.png": "tests.tools.pages",
}
"""Scripts of the results that are not named after their script."""
PICTURE = RESULTS / "machine.png"
NOTEBOOK = ROOT / "notebooks" / "a_machine_over_a_week.ipynb"
SHOWN = "The week in one picture"
"""The heading in the notebook after which the picture stands."""
SECTION = re.compile(r"(<!--tests\.tools\.pages:(\w+)-->)(.*?)(<!--/-->)", re.DOTALL)
GRID = {
    "markov 0.1": "2,500 arms, 400 rounds: ε = 0.1",
    "markov 0.03": "ε = 0.03",
    "markov 0.01": "ε = 0.01",
    "markov 0.001": "ε = 0.001",
    "switching": "switching ε",
    "slow": "slow change",
    "abrupt": "two changes",
    "static": "static",
    "sine": "short waves",
}
WIDER = {
    "hartmann": "Hartmann, 6 coordinates",
    "levy": "Levy, 8",
    "levy in twenty": "Levy, 20",
    "temperature": "recorded temperatures",
    "traffic": "recorded speeds",
    "traffic above usual": "speeds above usual",
}
LATER_WORLDS = {"static": "static", "markov": "drift", "redrawn": "one change", "turning": "cycle"}


def filled(text: str) -> str:
    """A page with every section written anew.

    Args:
        text: The page.

    Raises:
        KeyError: If no section has the name in a mark.
    """

    def section(found: re.Match[str]) -> str:
        written, records = SECTIONS[found[2]]
        return found[1] + written(*(_read(RESULTS / name) for name in records)) + found[4]

    return SECTION.sub(section, text)


def speed(loops: Record) -> str:
    """The time of a round in a study, alone, and in a loop that rebuilds its model."""
    ms = {row["contender"]: row["ms"] for row in loops["contenders"]}
    many, alone, *rebuilt = list(ms)[:5]
    parameters = loops["parameters"]
    loop = ", ".join(f"{ms[name]:.1f}" for name in rebuilt)
    return _paragraph(
        f"A round of `gp_ucb` on {parameters['arms']:,} arms takes {ms[many]:.3f} ms per trial "
        f"when {parameters['trials']} trials run together, and {ms[alone]:.1f} ms alone; three "
        f"loops with `SingleTaskGP` take {loop} ms ([benchmarks/results](benchmarks/results), "
        f"{loops['device']}).{_doubt(loops)}"
    )


def peers(record: Record) -> str:
    """On how many worlds the default loop is ahead, level and behind."""
    worlds = record["worlds"]
    words = [verdict(gaps) for row in worlds.values() if (gaps := gaps_of(row))]
    ahead, level = (sum(word.startswith(start) for word in words) for start in ("ahead", "level"))
    played = ", ".join(f"{name} {sum(name in row for row in worlds.values())}" for name in DRIFT)
    timed = sum(
        bool(set(DRIFT) & set(row))
        for row in worlds.values()
        if (gaps := gaps_of(row)) and verdict(gaps) == AHEAD
    )
    return _paragraph(
        f"On {ahead} of [{len(words)} worlds](benchmarks/PEERS.md), the default loop is ahead of "
        f"all others by {REQUIRED:g} standard errors, and packages that model time played "
        f"{timed or 'none'} of these (of all: {played}); on {level} it is level with some, on "
        f"{len(words) - ahead - level} behind."
    )


def bands(boxes: Record, square: Record) -> str:
    """How often bands of 95 % cover the objective where a loop measures."""
    played = [value for _, value in _coverage(boxes, "coverage where it played of every seed")]
    worlds = square["worlds"].values()
    grid = [world["runs"][ADAPTIVE]["coverage of bands of 95 %"] for world in worlds]
    return _percent([*played, *grid])


def lowest(boxes: Record) -> str:
    """The lowest coverage of bands of 95 % over all places of a world."""
    return _percent([min(value for _, value in _coverage(boxes))])


def everywhere(boxes: Record) -> str:
    """How often bands of 95 % cover the objective over all places, by the kind of world."""
    found = _coverage(boxes)
    kinds = {"Hartmann": "hartmann", "Levy": "levy", "records": "t"}
    shares = {
        kind: _percent([value for world, value in found if world.startswith(start)])
        for kind, start in kinds.items()
    }
    return ", ".join(f"{share} on {kind}" for kind, share in shares.items())


def expected(grid: Record, boxes: Record) -> str:
    """Regret per round of the default strategy and of the best strategy with prior knowledge."""
    rows = ["world | trials | default | best other | ratio", "---|---|---|---|---"]
    for record, titles in ((grid, GRID), (boxes, WIDER)):
        rows += [_expected_row(title, record["worlds"][world]) for world, title in titles.items()]
    return "\n".join(["", "", *rows, "", ""])


def halved(boxes: Record) -> str:
    """How much less regret half of the usual β has, on records whose good places stay good."""
    found = []
    for world, what in (("temperature", "temperatures"), ("traffic", "speeds")):
        runs = boxes["worlds"][world]["runs"]
        ratio, error = _ratio(runs["adaptive, half of beta"][REGRET], runs[ADAPTIVE][REGRET])
        found.append(f"{100 * (1 - ratio):.0f} ± {100 * error:.0f} % on {what}")
    return " and ".join(found)


def later(record: Record) -> str:
    """Regret per round of the algorithms after the five papers, and of algorithms before them."""
    worlds = record["worlds"]
    rows = [f"strategy | {' | '.join(LATER_WORLDS.values())}", "---|" * len(LATER_WORLDS) + "---"]
    for name, preset in PRESETS.items():
        label = preset.names[0]
        if label != "Random" and all(label in worlds[world] for world in LATER_WORLDS):
            cells = [f"{worlds[world][label]['regret_per_round']:.2f}" for world in LATER_WORLDS]
            rows.append(f"`{name}` | {' | '.join(cells)}")
    return "\n".join(["", "", *rows, "", ""])


def sooner(record: Record) -> str:
    """The delay of `glr_gp_ucb` as a share of the delay of `et_gp_ucb`, by the size of change."""
    rows = record["compared"]
    smallest = min(row["size"] for row in rows)
    small, large = list[float](), list[float]()
    for row in rows:
        shares = small if row["size"] == smallest else large
        shares.append(row["delay"]["GLR"] / row["delay"]["ET"])
    return f"{_percent(large)} ({_percent(small)} for the smallest change)"


def presets() -> str:
    """The table of presets, one row for each way of forgetting; † marks those in ``contrib``."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, preset in PRESETS.items():
        decay, noise, rows, _, paper = (cell.strip() for cell in preset.row.split("|"))
        parts = {decay: "none", f"noise {noise}": "noise σ²", f"retains {rows}": "retains all"}
        forgetting = "; ".join(part for part, none in parts.items() if part != none) or "nothing"
        groups.setdefault(forgetting, []).append(
            (f"`{name}`{'†' if preset.contrib else ''}", paper)
        )
    table = ["presets | forgetting | papers", "---|---|---"]
    for forgetting, group in groups.items():
        names = ", ".join(name for name, _ in group)
        papers = "; ".join(dict.fromkeys(paper for _, paper in group if paper))
        table.append(f"{names} | {forgetting} | {papers}".strip())
    return "\n".join(["", "", *table, "", ""])


def contrib() -> str:
    """The presets whose papers were not available in full."""
    return ", ".join(f"`{name}`" for name, preset in PRESETS.items() if preset.contrib)


def picture(notebook: Path = NOTEBOOK) -> bytes:
    """The first picture after a heading of a stored notebook.

    Args:
        notebook: Its file.
    """
    cells = _read(notebook)["cells"]
    (start,) = (n for n, cell in enumerate(cells) if SHOWN in "".join(cell["source"]))
    outputs = [output for cell in cells[start:] for output in cell.get("outputs", [])]
    return base64.b64decode(next(o["data"]["image/png"] for o in outputs if "data" in o))


BOXES = "statistics_regret_on_boxes.json"
SECTIONS: dict[str, tuple[Callable[..., str], tuple[str, ...]]] = {
    "speed": (speed, ("speed_against_botorch.json",)),
    "peers": (peers, ("peers.json",)),
    "bands": (bands, (BOXES, "statistics_regret_on_square.json")),
    "lowest": (lowest, (BOXES,)),
    "everywhere": (everywhere, (BOXES,)),
    "expected": (expected, ("statistics_regret_on_grid.json", BOXES)),
    "halved": (halved, (BOXES,)),
    "later": (later, ("statistics_regret_of_later_algorithms.json",)),
    "sooner": (sooner, ("statistics_delay_of_detection.json",)),
    "presets": (presets, ()),
    "contrib": (contrib, ()),
}
"""The function that writes a section, and the records that it is given."""


def index() -> str:
    """The page of all stored results: the script that wrote each, and the pages that use it.

    Raises:
        ValueError: If no script is known for a result, or if a page uses a result that is missing.
    """
    used: dict[str, list[str]] = {}
    for page in (*PAGES, PAPERS, PEERS):
        text = page.read_text(encoding="utf-8")
        names = {*re.findall(r"results/([\w-]+\.\w+)\)", text)}
        names.update(*(SECTIONS[found[2]][1] for found in SECTION.finditer(text)))
        names.update(READ.get(page, ()))
        for name in names:
            used.setdefault(name, []).append(_link(page, page.stem))
    for source in sorted(PACKAGE.rglob("*.py")):
        for name in {*re.findall(r"benchmarks/results/([\w-]+\.\w+)", source.read_text("utf-8"))}:
            used.setdefault(name, []).append(_link(source, source.name))
    rows = ["| result | written by | used by |", "|---|---|---|"]
    for path in sorted(path for path in RESULTS.iterdir() if path != INDEX):
        users = ", ".join(used.pop(path.name, []))
        rows.append(f"| [{path.name}]({path.name}) | {_writer(path.name)} | {users} |")
    if used:
        raise ValueError(f"missing: {used}; run their scripts.")
    return "\n".join([INDEX_HEAD, *rows, ""])


def _writer(name: str) -> str:
    """A link to the script that writes a result."""
    stem = name.partition(".")[0]
    if name.endswith(".md"):
        return "by hand"
    if any(stem == id or stem.startswith(f"{id}-") for id in EXPERIMENTS):
        module = "benchmarks.paper.collect"
    else:
        module = WRITERS.get(name, "benchmarks." + stem.replace("_", ".", 1))
    file = ROOT.joinpath(*module.split("."))
    file = file / "__main__.py" if file.is_dir() else file.with_suffix(".py")
    if not file.is_file():
        raise ValueError(f"no script writes {name}; remove it, or name its script in WRITERS.")
    return _link(file, f"`{module}`")


def _link(path: Path, text: str) -> str:
    return f"[{text}]({Path(os.path.relpath(path, RESULTS)).as_posix()})"


def _expected_row(title: str, world: Mapping[str, Any]) -> str:
    """A world: the best of the strategies that were given kernel and noise."""
    runs, regret = world["runs"], world["regret per round"]
    # Strategies with too few trials for a difference do not compete.
    given = [
        label
        for label, run in runs.items()
        if label.endswith("GP-UCB") or (" given " in label and "learning" not in label)
        if len(run[REGRET]) > 2
    ]
    best = min(sorted(given, key=len), key=lambda label: regret[label]["mean"])
    trials = min(len(runs[ADAPTIVE][REGRET]), len(runs[best][REGRET]))
    horizon = np.mean(runs[best][REGRET]) / regret[best]["mean"]
    ours, theirs = (np.mean(runs[label][REGRET][:trials]) / horizon for label in (ADAPTIVE, best))
    ratio, error = _ratio(runs[ADAPTIVE][REGRET][:trials], runs[best][REGRET][:trials])
    behind = np.subtract(*(runs[label][REGRET][:trials] for label in (ADAPTIVE, best)))
    lost = behind.mean() > REQUIRED * (standard_error(behind) or 0.0)
    digits = 1 if theirs > 10 else 2
    shown, short = f"**{title}**" if lost else title, best.split(" given ")[0]
    numbers = f"{ours:.{digits}f} | {short} {theirs:.{digits}f} | {ratio:.2f} ± {error:.2f}"
    return f"{shown} | {trials} | {numbers}"


def _ratio(first: Iterable[float], second: Iterable[float]) -> tuple[float, float]:
    """The ratio of the means of paired values and its standard error, by the delta method."""
    ours, theirs = np.asarray(first), np.asarray(second)
    ratio = float(ours.mean() / theirs.mean())
    return ratio, (standard_error(ours - ratio * theirs) or 0.0) / float(theirs.mean())


def _coverage(
    boxes: Record, of: str = "coverage of bands of 95 % of every seed"
) -> list[tuple[str, float]]:
    """The worlds on boxes and on records, and the coverage of the adaptive strategy's bands."""
    worlds = boxes["worlds"]
    return [(name, float(np.mean(world["runs"][ADAPTIVE][of]))) for name, world in worlds.items()]


def _percent(shares: Iterable[float]) -> str:
    low, high = (f"{100 * share:.0f}" for share in (min(shares), max(shares)))
    return f"{low} %" if low == high else f"{low} to {high} %"


def _paragraph(text: str) -> str:
    return f"\n{textwrap.fill(text, width=104, break_long_words=False, break_on_hyphens=False)}\n"


def _doubt(facts: dict[str, Any]) -> str:
    """A sentence for a machine that was busy when it was timed; none for a quiet machine."""
    if facts.get("load_before", 0) <= BUSY * facts.get("threads", 1):
        return ""
    return f" (Timed while the machine had other work: load {facts['load_before']:.1f}.)"


def _read(path: Path) -> Record:
    content: Record = json.loads(path.read_text(encoding="utf-8"))
    return content


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
    PICTURE.write_bytes(picture())
    INDEX.write_text(index(), encoding="utf-8")
