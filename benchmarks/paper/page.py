"""The page that says of every figure and table of the papers what came out here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from botorch_tv.papers import EXPERIMENTS

PAPERS = {
    "b16": "[B16] Bogunovic, Scarlett, Cevher: Time-Varying Gaussian Process Bandit Optimization",
    "et": "[ET] Brunzema, von Rohr, Solowjow, Trimpe: Event-Triggered Time-Varying Bayesian "
    "Optimization",
    "c17": "[C17] Chowdhury, Gopalan: On Kernelized Multi-armed Bandits",
    "w22": "[W22] Deng, Zhou, Kim, Tewari, Gupta, Shroff: Weighted Gaussian Process Bandits for "
    "Non-stationary Environments",
    "m": "[M] Mauduit, Berthier, Simonetto: No-Regret Gaussian Process Optimization of "
    "Time-Varying Functions",
    "mk": "[MK] Mandl, Kekkonen (2026): TV-GP-UCB with the same β in every round",
}
ANSWERS = {True: "yes", False: "no", None: "nothing to test"}
HEAD = """# Figures and tables of the papers, rerun

Every line is one command, `botorch-tv paper ID`, on the machine and at the commit named below it.
"Agrees" is strict: every order or number that the paper claims holds with the standard errors
required of it, or the answer is no and the text says what failed. Orders that we expected besides
are told, but do not decide. Where a record of the papers is
not to be had another stands in (`--data FOLDER`, see `botorch_tv/papers/recordings.py`).
This page is written by `python -m benchmarks.paper.collect`.
"""


def write_page(results: Path, studies: Mapping[str, Mapping[str, Any]], page: Path) -> None:
    """Write the page from what has been collected.

    Args:
        results: The folder of pictures, tables and verdicts.
        studies: What every study says of itself, by experiment and case.
        page: The file.
    """
    told = {id: _verdict(results / f"{id}.json") for id in EXPERIMENTS}
    known = {id: one for id, one in told.items() if one is not None}
    lines = [HEAD, "| figure | agrees | what the paper reports |", "|---|---|---|"]
    for id, one in known.items():
        lines.append(f"| [{id}](#{id}) | {ANSWERS[one['holds']]} | {one['paper']} |")
    missing = [id for id in EXPERIMENTS if id not in known]
    if missing:
        lines += ["", f"Not run at full size yet: {', '.join(missing)}."]
    paper = ""
    for id, one in known.items():
        if id.split("-")[0] != paper:
            paper = id.split("-")[0]
            lines += ["", f"## {PAPERS[paper]}"]
        lines += ["", *_section(id, one, results, studies)]
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _verdict(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return told


def _section(
    id: str,
    told: Mapping[str, Any],
    results: Path,
    studies: Mapping[str, Mapping[str, Any]],
) -> list[str]:
    lines = [f"### {id}", "", f"{told['title']}.", ""]
    lines += [f"- **The paper.** {told['paper']}", f"- **Here.** {told['verdict']}"]
    lines += [f"- **Agrees**: {ANSWERS[told['holds']]}."]
    if told["remark"]:
        lines.append(f"- **Remark.** {told['remark']}")
    of_this = {case: studies.get(f"{id}-{case}") for case in EXPERIMENTS[id].cases}
    made = [one for one in of_this.values() if one is not None]
    if made:
        seconds = sum(float(one["seconds"]) for one in made)
        sizes = dict.fromkeys(
            f"{one['trials']:,} trials x {one['horizon']:,} rounds" for one in made
        )
        first = made[0]
        lines.append(
            f"- {', '.join(sizes)}, seed {first['seed']}, {first['dtype']}, {seconds:,.0f} s on "
            f"{first['machine']}, torch {first['torch']}, commit {first['commit']}."
        )
    lines += ["", *_totals(results / f"{id}-summary.csv")]
    for picture in sorted(results.glob(f"{id}.png")) + sorted(results.glob(f"{id}-map.png")):
        lines += ["", f"![{told['title']}](results/{picture.name})"]
    return lines


def _totals(path: Path) -> list[str]:
    """Total regret with its standard error, a line per strategy and a column per case."""
    if not path.exists():
        return []
    table = pd.read_csv(path)
    cases = list(dict.fromkeys(table["case"]))
    lines = [f"| total regret | {' | '.join(cases)} |", "|---" * (len(cases) + 1) + "|"]
    cells = {
        (row.strategy, row.case): f"{row.total_regret:,.1f} ± {row.standard_error:.1f}"
        for row in table.itertuples()
    }
    for strategy in dict.fromkeys(table["strategy"]):
        row = " | ".join(cells.get((strategy, case), "") for case in cases)
        lines.append(f"| {strategy} | {row} |")
    return lines
