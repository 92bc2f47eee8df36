"""The page on the papers' figures and tables, written from the stored results."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from botorch_tv.papers import EXPERIMENTS
from botorch_tv.papers.claims import RULE

PAPERS = {
    "b16": "[B16] Bogunovic, Scarlett, Cevher: Time-Varying Gaussian Process Bandit Optimization",
    "et": "[ET] Brunzema, von Rohr, Solowjow, Trimpe: Event-Triggered Time-Varying Bayesian "
    "Optimization",
    "c17": "[C17] Chowdhury, Gopalan: On Kernelized Multi-armed Bandits",
    "w22": "[W22] Deng, Zhou, Kim, Tewari, Gupta, Shroff: Weighted Gaussian Process Bandits for "
    "Non-stationary Environments",
    "m": "[M] Mauduit, Berthier, Simonetto: No-Regret Gaussian Process Optimization of "
    "Time-Varying Functions",
}
NOTES = {
    "b16": "No experiment: Figure 1 shows two draws from the Markov model, as does "
    "`MarkovWorld.look`. Figure 4 (Appendix G) has further days of the traffic record, which "
    "cannot be had; [b16-fig3-traffic](#b16-fig3-traffic) is on another record. The factors 12 "
    "and 24 in the period N are taken over: the paper chose them by cross-validation.",
    "et": "No experiment: Figure 1 is an illustration; Figures 3 (a) and 8 show the temperature "
    "record, which cannot be had. The preprint is implemented; the bound of the journal's version, "
    "φ_T(ε, N̄) with an admissible window N̄, is not. Figure 7 is drawn from formulas, by "
    "`botorch_tv.theory.plots.plot_mismatch`:\n\n![et-fig7](results/et-fig7.png)",
    "m": "No experiment: Figures 1 and 5 are illustrations.",
}
"""What of a paper has no experiment."""
ANSWERS = ("yes", "no", "level", "nothing to test", "not judged (other data)")
HEAD = """# Figures and tables of the papers, rerun

`botorch-tv paper ID` reruns a figure. {rule}
One reading of the settings that the paper does not give is enough. Tables list the claims that are
wrong or level, with their standard errors (s.e.), and total regret with its standard error over
trials. Seed 0, float64 and {machine} unless a line says otherwise.

Some records of the papers are replaced by others; `botorch_tv/papers/recordings.py` describes them,
and `--data FOLDER` reads them. The papers print addresses of theirs:
[sayakrc/Bayesian-Optimization-under-Heavy-tailed-Payoffs](https://github.com/sayakrc/Bayesian-Optimization-under-Heavy-tailed-Payoffs)
has 29 stocks over 823 days and light sensors of CMU, without a licence, so this library does not
ship them. `python -m benchmarks.paper.collect` writes this page.
"""
Study = Mapping[str, Any]


def write_page(results: Path, studies: Mapping[str, Study], page: Path) -> None:
    """Write the page from the collected results.

    Args:
        results: The folder of pictures, tables and verdicts.
        studies: Attributes of every study, by experiment and case.
        page: The file.
    """
    found = {id: _read(results / f"{id}.json") for id in EXPERIMENTS}
    stored = {id: verdict for id, verdict in found.items() if verdict is not None}
    for id, verdict in stored.items():
        verdict["answer"] = _answer(id, verdict, results)
    usual = next((_machine(study) for study in studies.values()), "")
    lines = [HEAD.format(machine=usual, rule=RULE), "| agrees | figures |", "|---|---|"]
    for answer in ANSWERS:
        links = [f"[{id}](#{id})" for id, verdict in stored.items() if verdict["answer"] == answer]
        lines.append(f"| {answer} ({len(links)}) | {', '.join(links)} |")
    missing = [id for id in EXPERIMENTS if id not in stored]
    if missing:
        lines += ["", f"Not run at full size yet: {', '.join(missing)}."]
    paper, remarks = "", dict[str, str]()
    for id, verdict in stored.items():
        if id.split("-")[0] != paper:
            paper = id.split("-")[0]
            lines += ["", f"## {PAPERS[paper]}"]
            lines += ["", NOTES[paper]] if paper in NOTES else []
        own = [
            studies[name] for case in EXPERIMENTS[id].cases if (name := f"{id}-{case}") in studies
        ]
        first = remarks.setdefault(verdict["remark"] or id, id)
        remark = verdict["remark"] if first == id else f"The remark on [{first}](#{first}) applies."
        lines += ["", *_section(id, verdict | {"remark": remark}, results), *_origin(own, usual)]
        lines += ["", *_totals(results / f"{id}-summary.csv")]
        for picture in sorted(results.glob(f"{id}.png")) + sorted(results.glob(f"{id}-map.png")):
            lines += ["", f"![{picture.stem}](results/{picture.name})"]
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _read(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    verdict: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    experiment = EXPERIMENTS[path.stem]
    return verdict | {
        "title": experiment.title,
        "paper": experiment.paper,
        "remark": experiment.remark,
    }


def _answer(id: str, verdict: Mapping[str, Any], results: Path) -> str:
    """Whether a figure agrees, one of :data:`ANSWERS`."""
    if not verdict["judged"]:
        return ANSWERS[4]
    if verdict["holds"] is None:
        return ANSWERS[2 if "answer" in pd.read_csv(results / f"{id}-verdict.csv") else 3]
    return ANSWERS[not verdict["holds"]]


def _section(id: str, verdict: Mapping[str, Any], results: Path) -> list[str]:
    """Title, claim, verdict and failed claims of a figure."""
    claims = pd.read_csv(results / f"{id}-verdict.csv")
    if "lower" in claims and "ours" in claims:  # expectations of ours do not decide
        claims = claims[claims["ours"].ne(True)]
    here = [*_counts(claims), *_further(verdict["verdict"])]
    lines = [f"### {id}", "", f"{verdict['title']}. **Agrees: {verdict['answer']}.**", ""]
    lines += [f"- Paper: {verdict['paper']}", f"- Here: {' '.join(here)}"]
    notes = (verdict["remark"], EXPERIMENTS[id].errors)
    lines += [f"- {note}" for note in notes if note]
    failed = _failed(claims)
    return [*lines, "", *failed] if failed else lines


def _counts(claims: pd.DataFrame) -> list[str]:
    """How many claims hold, per reading, and the closest order where all hold."""
    if "t_ratio" not in claims:
        return []
    readings = claims.groupby("reading", sort=False) if "reading" in claims else [("", claims)]
    sentences = []
    for name, rows in readings:
        rows = rows[rows["answer"].notna()]
        holds, level = rows["answer"] == "yes", (rows["answer"] == "level").sum()
        sentence = f"{f'With {name!s}: ' if name else ''}{holds.sum()} of {len(rows)} claims hold"
        sentence += f", {level} level" if level else ""
        orders = rows[rows["t_ratio"].notna() & rows["lower"].notna()]
        if holds.all() and len(orders):
            spare = (orders["t_ratio"] - orders["required"]).to_numpy()
            closest = orders.iloc[int(spare.argmin())]
            sentence += (
                f", the closest {closest['lower']} < {closest['higher']} at {closest['case']} by "
                f"{closest['t_ratio']:.1f} standard errors"
            )
        sentences.append(f"{sentence}.")
    return sentences


def _further(verdict: str) -> list[str]:
    """Sentences of a verdict on other numbers than the claims, which the tables have."""
    sentences = re.split(r"(?<=\.) (?=[A-Zε])", verdict)
    return [each for each in sentences if not re.search(r"orders (of|that)|agrees\)", each)]


def _failed(claims: pd.DataFrame) -> list[str]:
    """A row per claim that is wrong or level."""
    failed = claims[claims["answer"].isin(["no", "level"])] if "t_ratio" in claims else claims[:0]
    if failed.empty:
        return []
    lines = ["| claim | case | found | holds |", "|---|---|---|---|"]
    for _, row in failed.iterrows():
        claim, found = row.get("claim"), ""
        if pd.notna(row["t_ratio"]):
            claim = claim if isinstance(claim, str) else f"{row['lower']} < {row['higher']}"
            found = f"{row['t_ratio']:.1f} s.e."
            if abs(row["t_ratio"]) == float("inf"):
                found = f"{row['difference']:.3g} in every trial"
        elif not isinstance(claim, str):
            claim, found = row["figure"], f"{row['found']:.3g}; required ≥ {row['least']:.3g}"
            found += f", ≤ {row['most']:.3g}" if pd.notna(row["most"]) else ""
        case = row["case"] if isinstance(row["case"], str) else "all cases"
        lines.append(f"| {claim} | {case} | {found} | {row['answer']} |")
    return list(dict.fromkeys(lines))


def _machine(study: Study) -> str:
    return f"{study['machine']}, torch {study['torch']}"


def _origin(studies: list[Study], usual: str) -> list[str]:
    """Sizes and commit of the studies of a figure."""
    if not studies:
        return []
    sizes = dict.fromkeys(
        f"{study['trials']:,} trials x {study['horizon']:,} rounds" for study in studies
    )
    first = studies[0]
    other = "" if _machine(first) == usual else f", {_machine(first)}"
    seed = "" if first["seed"] in (0, "0") else f", seed {first['seed']}"
    return ["", f"{', '.join(sizes)}{seed}{other}, commit {first['commit']}."]


def _totals(path: Path) -> list[str]:
    """Total regret with its standard error, a row per strategy and a column per case."""
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
