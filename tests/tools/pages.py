"""The measured figures of README and guide, README's picture and its table of presets.

    python -m tests.tools.pages

fills every section between ``<!--tests.tools.pages:NAME-->`` and ``<!--/-->`` from the stored
results. A test fills the pages and compares.
"""

from __future__ import annotations

import base64
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.leaders import AHEAD, DRIFT, gaps_of, verdict
from benchmarks.speed.common import BUSY, RESULTS, ROOT
from benchmarks.statistics.common import ADAPTIVE, REGRET, standard_error
from botorch_tv.papers.claims import REQUIRED
from botorch_tv.strategies.listing import PRESETS

README = ROOT / "README.md"
GUIDE = ROOT / "botorch_tv" / "GUIDE.md"
PICTURE = RESULTS / "machine.png"
NOTEBOOK = ROOT / "notebooks" / "a_machine_over_a_week.ipynb"
SHOWN = "Did it follow?"
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
    return SECTION.sub(lambda found: found[1] + SECTIONS[found[2]]() + found[4], text)


def speed() -> str:
    """The time of a round in a study, alone, and in a loop that rebuilds its model."""
    loops = _read(RESULTS / "speed_botorch_loops.json")
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


def peers() -> str:
    """On how many worlds the default loop is ahead, level and behind."""
    worlds = _read(RESULTS / "peers.json")["worlds"]
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


def bands() -> str:
    """How often bands of 95 % cover the objective where a loop measures."""
    played = [value for _, value in _coverage("coverage where it played of every seed")]
    worlds = _read(RESULTS / "statistics_adaptive.json")["worlds"].values()
    grid = [world["runs"][ADAPTIVE]["coverage of bands of 95 %"] for world in worlds]
    return _percent([*played, *grid])


def lowest() -> str:
    """The lowest coverage of bands of 95 % over all places of a world."""
    return _percent([min(value for _, value in _coverage())])


def everywhere() -> str:
    """How often bands of 95 % cover the objective over all places, by the kind of world."""
    found = _coverage()
    kinds = {"Hartmann": "hartmann", "Levy": "levy", "records": "t"}
    shares = {
        kind: _percent([value for world, value in found if world.startswith(start)])
        for kind, start in kinds.items()
    }
    return ", ".join(f"{share} on {kind}" for kind, share in shares.items())


def expected() -> str:
    """Regret per round of the default strategy and of the best strategy with prior knowledge."""
    rows = ["world | trials | default | best other | ratio", "---|---|---|---|---"]
    for name, titles in (("adaptive_grid", GRID), ("adaptive_wider", WIDER)):
        worlds = _read(RESULTS / f"statistics_{name}.json")["worlds"]
        rows += [_expected_row(title, worlds[world]) for world, title in titles.items()]
    return "\n".join(["", "", *rows, "", ""])


def halved() -> str:
    """How much less regret half of the usual β has, on records whose good places stay good."""
    worlds = _read(RESULTS / "statistics_adaptive_wider.json")["worlds"]
    found = []
    for world, what in (("temperature", "temperatures"), ("traffic", "speeds")):
        runs = worlds[world]["runs"]
        ratio, error = _ratio(runs["adaptive, half of beta"][REGRET], runs[ADAPTIVE][REGRET])
        found.append(f"{100 * (1 - ratio):.0f} ± {100 * error:.0f} % on {what}")
    return " and ".join(found)


def later() -> str:
    """Regret per round of the algorithms after the five papers, and of algorithms before them."""
    worlds = _read(RESULTS / "statistics_later.json")["worlds"]
    rows = [f"strategy | {' | '.join(LATER_WORLDS.values())}", "---|" * len(LATER_WORLDS) + "---"]
    for name, preset in PRESETS.items():
        label = preset.names[0]
        if label != "Random" and all(label in worlds[world] for world in LATER_WORLDS):
            cells = [f"{worlds[world][label]['regret_per_round']:.2f}" for world in LATER_WORLDS]
            rows.append(f"`{name}` | {' | '.join(cells)}")
    return "\n".join(["", "", *rows, "", ""])


def sooner() -> str:
    """The delay of `glr_gp_ucb` as a share of the delay of `et_gp_ucb`, by the size of change."""
    rows = _read(RESULTS / "statistics_detection.json")["compared"]
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


SECTIONS: dict[str, Callable[[], str]] = {
    each.__name__: each
    for each in (
        speed, peers, bands, lowest, everywhere, expected, halved, later, sooner, presets, contrib,
    )
}  # fmt: skip


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


def _coverage(of: str = "coverage of bands of 95 % of every seed") -> list[tuple[str, float]]:
    """The worlds on boxes and on records, and the coverage of the adaptive strategy's bands."""
    worlds = _read(RESULTS / "statistics_adaptive_wider.json")["worlds"]
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


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


if __name__ == "__main__":
    for page in (README, GUIDE):
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
    PICTURE.write_bytes(picture())
