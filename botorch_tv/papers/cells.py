"""Compare a table of a paper cell by cell: is our mean within sampling error of the paper's?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from botorch_tv.papers.experiment import Outcome, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Cell(NamedTuple):
    """The numbers of a paper for one strategy in one case.

    Attributes:
        resets: Mean resets per run.
        regret: Mean total regret R_T.
    """

    resets: float
    regret: float


Paper = Mapping[str, Mapping[str, Cell]]  # case -> label of the strategy -> cell


def tolerance(ours: np.ndarray, runs: int) -> float:
    """Largest expected difference between two means of a quantity, 3 sd √(1/runs + 1/n).

    Args:
        ours: One number per trial, `n`; the paper's standard deviation is taken to be the same.
        runs: Number of runs averaged in the paper.
    """
    if len(ours) < 2:
        return math.nan
    return float(3 * ours.std(ddof=1) * math.sqrt(1 / runs + 1 / len(ours)))


def judge(paper: Paper, runs: int, results: Results) -> Outcome:
    """Compare resets and total regret in every cell with the paper's.

    Args:
        paper: The paper's numbers.
        runs: Number of runs averaged in the paper.
        results: Our studies by case.
    """
    rows: list[dict[str, Any]] = []
    for case, cells in paper.items():
        for label, cell in cells.items():
            fired = results[case].resets.sel(strategy=label).sum("round").values
            totals = results[case].total_regret(label)
            for quantity, ours, theirs in (
                ("resets", fired, cell.resets),
                ("regret", totals, cell.regret),
            ):
                allowed = tolerance(ours, runs)
                rows.append(
                    {
                        "case": case,
                        "strategy": label,
                        "quantity": quantity,
                        "ours": float(ours.mean()),
                        "paper": theirs,
                        "deviation": float(ours.mean()) - theirs,
                        "tolerance": allowed,
                        "holds": abs(float(ours.mean()) - theirs) <= allowed,
                    }
                )
    table = pd.DataFrame(rows)
    kept = int(table["holds"].sum())
    verdict = f"{kept} of {len(table)} cells lie within 3 standard errors of the paper's"
    sized = [row for row in rows if not math.isnan(row["tolerance"])]
    if sized:
        worst = max(sized, key=lambda row: abs(row["deviation"]) / max(row["tolerance"], 1e-12))
        verdict += (
            f"; the farthest is {worst['quantity']} of {worst['strategy']} at {worst['case']}: "
            f"{worst['ours']:.2f}, paper {worst['paper']:.2f} ± {worst['tolerance']:.2f}"
        )
    return Outcome(table, verdict + ".", kept == len(table))


def plot_cells(table: pd.DataFrame, titles: Mapping[str, str], path: Path | None = None) -> Figure:
    """Plot our means, with tolerances as bars, and the paper's.

    Args:
        table: The table of :func:`judge`.
        titles: Captions by case.
        path: Where to write the figure.
    """
    from botorch_tv.drawing import COLORS, canvas, lighten, written

    figure = canvas(10, 4.4)
    labels = list(dict.fromkeys(table["strategy"]))
    panels = {"resets": "Resets per trial", "regret": "Total regret $R_T$"}
    for axes, (quantity, panel) in zip(figure.subplots(1, 2), panels.items()):
        for number, ((case, title), color) in enumerate(zip(titles.items(), COLORS)):
            cells = table[(table["case"] == case) & (table["quantity"] == quantity)]
            places = np.arange(len(cells)) + 0.1 * (number - (len(titles) - 1) / 2)
            bars = cells["tolerance"].fillna(0.0)
            axes.errorbar(
                places, cells["ours"], bars, color=color, fmt="o", markersize=4, capsize=3
            )
            axes.plot(places, cells["paper"], "D", color=color, markersize=8, fillstyle="none")
            axes.annotate(
                title,
                (len(cells) - 1, cells["ours"].iloc[-1]),
                xytext=(18, 0),
                textcoords="offset points",
                color=color,
                va="center",
            )
        axes.set_xticks(range(len(labels)), labels)
        axes.set(xlim=(-0.4, len(labels) - 0.3), ylim=(0, None))
        axes.set_title(panel, loc="left")
        lighten(axes)
    caption = "Dots: mean of our trials, bars: where the paper's may lie. Diamonds: the paper."
    return written(figure, path, caption)
