"""Experiments of [ET]: ET-GP-UCB resets when an observation contradicts the model.

The noise variance is 0.02, as in the paper's appendix. The variance 0.05 of the paper's main text
does not reproduce its Table 2. Every cell of Table 2 is tested: our mean must lie within sampling
error of the paper's mean.

Figures 3 (a) and 8, which show recorded temperatures, have no experiment; Figure 7 has formulas
alone, which :func:`botorch_tv.theory.plots.plot_mismatch` draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.acquisition import Logarithmic
from botorch_tv.drawing import COLORS, canvas, lighten, written
from botorch_tv.papers.claims import REQUIRED, Claim, beats, below, decided, judge, yes
from botorch_tv.papers.experiment import Drawn, Experiment, Outcome, Results, draw_panels
from botorch_tv.papers.worlds import markov_case, spatial_kernel
from botorch_tv.simulation.plots import plot_first_reset
from botorch_tv.strategies import Strategy, et_gp_ucb, gp_ucb, r_gp_ucb, tv_gp_ucb

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Paper = Mapping[str, Mapping[str, tuple[float, float]]]
"""Type of a paper's numbers, by case and label of the strategy: the mean number of resets per run,
and the mean total regret R_T."""


def tolerance(ours: np.ndarray, runs: int) -> float:
    """Largest difference to expect between the paper's mean and ours, 3 sd √(1/runs + 1/n).

    Args:
        ours: Our number of resets or our total regret in each trial, `n`; the paper's standard
            deviation is assumed to equal ours.
        runs: Number of runs averaged in the paper.
    """
    if len(ours) < 2:
        return math.nan
    return float(REQUIRED * ours.std(ddof=1) * math.sqrt(1 / runs + 1 / len(ours)))


def judge_cells(paper: Paper, runs: int, results: Results) -> Outcome:
    """Compare resets and total regret in every cell with the paper's numbers.

    Args:
        paper: The paper's numbers.
        runs: Number of runs averaged in the paper.
        results: Our studies by case.
    """
    rows = []
    for case, cells in paper.items():
        for label, theirs in cells.items():
            fired = results[case].resets.sel(strategy=label).sum("round").values
            measured = {"resets": fired, "regret": results[case].total_regret(label)}
            for (quantity, ours), expected in zip(measured.items(), theirs):
                mean = float(ours.mean())
                numbers = (mean, expected, mean - expected, tolerance(ours, runs))
                rows.append((case, label, quantity, *numbers))
    columns = ["case", "strategy", "quantity", "ours", "paper", "deviation", "tolerance"]
    table = pd.DataFrame(rows, columns=columns)
    within = table["deviation"].abs() <= table["tolerance"]
    table["answer"] = within.map(yes).where(table["tolerance"].notna(), "level")
    agree = int(within.sum())
    verdict = (
        f"{agree} of {len(table)} means lie within {REQUIRED:g} standard errors of the paper's"
    )
    if table["tolerance"].notna().any():
        apart = table["deviation"].abs() / table["tolerance"].clip(lower=1e-12)
        worst = table.loc[int(apart.argmax())]
        verdict += (
            f"; the farthest is {worst['quantity']} of {worst['strategy']} at {worst['case']}: "
            f"{worst['ours']:.2f}, paper {worst['paper']:.2f} ± {worst['tolerance']:.2f}"
        )
    return Outcome(table, verdict + ".", decided(table["answer"]))


NOISE = 0.02
WIDTH = Logarithmic(c1=0.4, c2=4.0)

# Figure 2: regret of four strategies, with the true rate of change (a)-(c) and a wrong rate (d).


def line_up(
    kernel: Kernel | Tensor, noise: float, width: Logarithmic, *, epsilon: float, period: int
) -> dict[str, Strategy]:
    """The four strategies of the paper: GP-UCB, TV-GP-UCB, R-GP-UCB and ET-GP-UCB.

    Args:
        kernel: Covariance of the arms.
        noise: Variance of the noise.
        width: The confidence width of all strategies.
        epsilon: Rate of change assumed by TV-GP-UCB.
        period: Period N of R-GP-UCB.
    """
    return {
        "GP-UCB": gp_ucb(kernel=kernel, noise=noise, width=width),
        "R-GP-UCB": r_gp_ucb(kernel=kernel, noise=noise, period=period, width=width),
        "TV-GP-UCB": tv_gp_ucb(kernel=kernel, noise=noise, epsilon=epsilon, width=width),
        "ET-GP-UCB": et_gp_ucb(kernel=kernel, noise=noise, delta=0.1, width=width),
    }


def _case(title: str, true: float, assumed: float, period: int) -> Drawn:
    def strategies(noise: float) -> dict[str, Strategy]:
        return line_up(spatial_kernel(), noise, WIDTH, epsilon=assumed, period=period)

    return markov_case(title, true, NOISE, strategies)


def _order(case: str) -> list[Claim]:
    return [
        *beats(case, "TV-GP-UCB", ("ET-GP-UCB", "R-GP-UCB", "GP-UCB")),
        below(case, "ET-GP-UCB", "R-GP-UCB"),
        below(case, "R-GP-UCB", "GP-UCB", ours=True),
    ]


_CASES = {
    "epsilon-0.01": _case("(a) ε = 0.01, N = 38", 0.01, 0.01, 38),
    "epsilon-0.03": _case("(b) ε = 0.03, N = 29", 0.03, 0.03, 29),
    "epsilon-0.05": _case("(c) ε = 0.05, N = 26", 0.05, 0.05, 26),
    "misspecified": _case("(d) ε = 0.05, TV assumes 0.001, N = 68", 0.05, 0.001, 68),
}

FIGURE_2 = Experiment(
    id="et-fig2",
    title="Four strategies at three rates of change, and given a wrong rate",
    paper='At ε = 0.01, 0.03 and 0.05 TV-GP-UCB "shows the best performance"; "in all cases, '
    'ET-GP-UCB outperforms R-GP-UCB", and TV-GP-UCB as well where TV-GP-UCB and R-GP-UCB are given '
    "ε = 0.001, but 0.05 is true.",
    horizon=400,
    trials=200,
    cases=_CASES,
    score=partial(
        judge,
        [
            *_order("epsilon-0.01"),
            *_order("epsilon-0.03"),
            *_order("epsilon-0.05"),
            *beats("misspecified", "ET-GP-UCB", ("TV-GP-UCB", "R-GP-UCB")),
            below("misspecified", "ET-GP-UCB", "GP-UCB", ours=True),
        ],
    ),
    picture=partial(draw_panels, _CASES, resets=True),
)

# Table 2: sensitivity to the trigger's parameter; mean resets and total regret of 50 runs.

_DELTAS = (0.005, 0.01, 0.05, 0.1, 0.5)
_PAPER_ROWS = {
    0.01: ((2.66, 191.39), (2.96, 193.05), (3.20, 200.16), (3.38, 200.33), (3.98, 196.03)),
    0.03: ((6.42, 276.84), (6.82, 273.37), (7.72, 269.01), (8.04, 271.59), (10.32, 280.05)),
    0.05: ((9.60, 331.69), (9.96, 328.74), (11.40, 329.47), (11.88, 332.04), (14.44, 334.80)),
}
PAPER_TABLE_2 = {
    f"epsilon-{epsilon}": {f"δ = {delta}": cell for delta, cell in zip(_DELTAS, row)}
    for epsilon, row in _PAPER_ROWS.items()
}


def _sensitivity(noise: float) -> dict[str, Strategy]:
    kernel = spatial_kernel()
    return {
        f"δ = {delta}": et_gp_ucb(kernel=kernel, noise=noise, delta=delta, width=WIDTH)
        for delta in _DELTAS
    }


_score_table_2 = partial(judge_cells, PAPER_TABLE_2, 50)


def _rates(
    rates: Iterable[float], strategies: Callable[[float], dict[str, Strategy]]
) -> dict[str, Drawn]:
    """A case for each rate of change."""
    return {
        f"epsilon-{epsilon}": markov_case(f"ε = {epsilon}", epsilon, NOISE, strategies)
        for epsilon in rates
    }


_SENSITIVITIES = _rates(_PAPER_ROWS, _sensitivity)


def _draw_table_2(results: Results, path: Path) -> Figure:
    """Plot our means, with tolerances as bars, and the paper's means."""
    figure, table = canvas(10, 4.4), _score_table_2(results).table
    panels = {"resets": "Resets per trial", "regret": "Total regret $R_T$"}
    for axes, (quantity, panel) in zip(figure.subplots(1, 2), panels.items()):
        for shift, color, (name, case) in zip((-0.1, 0, 0.1), COLORS, _SENSITIVITIES.items()):
            cells = table[(table["case"] == name) & (table["quantity"] == quantity)]
            places, ours = np.arange(len(cells)) + shift, cells["ours"]
            bars = cells["tolerance"].fillna(0.0)
            axes.errorbar(places, ours, bars, color=color, fmt="o", markersize=4, capsize=3)
            axes.plot(places, cells["paper"], "D", color=color, markersize=8, fillstyle="none")
            at = (len(cells) - 1, ours.iloc[-1])
            beside = {"xytext": (18, 0), "textcoords": "offset points"}
            axes.annotate(case.title, at, color=color, va="center", **beside)
        axes.set_xticks(range(len(_DELTAS)), list(PAPER_TABLE_2["epsilon-0.01"]))
        axes.set(xlim=(-0.4, len(_DELTAS) - 0.3), ylim=(0, None))
        axes.set_title(panel, loc="left")
        lighten(axes)
    caption = "Dots: mean of our trials; bars: tolerance for the paper's mean. Diamonds: the paper."
    return written(figure, path, caption)


TABLE_2 = Experiment(
    id="et-table2",
    title="Resets and regret of ET-GP-UCB for five values of its parameter δ",
    paper="A table of 15 mean numbers of resets, which grow with δ, and 15 mean regrets, which "
    "hardly depend on it, of 50 runs each.",
    horizon=400,
    trials=300,
    cases=_SENSITIVITIES,
    score=_score_table_2,
    picture=_draw_table_2,
)

# Figure 4: when the trigger first fires. The paper shows a histogram and no numbers.

PERIODS = {0.03: 29, 0.1: 22}  # periods of R-GP-UCB at the same rates of change


def _trigger(noise: float) -> dict[str, Strategy]:
    return {"ET-GP-UCB": et_gp_ucb(kernel=spatial_kernel(), noise=noise, delta=0.1, width=WIDTH)}


def _waiting_times(results: Results) -> Outcome:
    rows, sentences = [], []
    for epsilon, period in PERIODS.items():
        result = results[f"epsilon-{epsilon}"]
        first = result.first_reset().sel(strategy="ET-GP-UCB").values
        fired = ~np.isnan(first)
        mean = float(first[fired].mean()) if fired.any() else math.nan
        median = float(np.median(np.nan_to_num(first, nan=np.inf)))
        never, seconds = 1 - float(fired.mean()), float(result.data.attrs["seconds"])
        rows.append((epsilon, len(first), mean, median, never, period, seconds))
        sentences.append(
            f"ε = {epsilon}: the first reset is in round {mean:.1f} on average (median "
            f"{median:g}); {never:.2%} of trials have none. R-GP-UCB resets after {period} rounds. "
            f"{len(first):,} trials took {seconds:.0f} s."
        )
    columns = ["epsilon", "trials", "mean", "median", "never", "period", "seconds"]
    return Outcome(pd.DataFrame(rows, columns=columns), " ".join(sentences), None)


FIGURE_4 = Experiment(
    id="et-fig4",
    title="Rounds until the first reset of ET-GP-UCB (3 days on a cluster in the paper)",
    paper="A histogram of 30,000 trials for ε = 0.03 and 0.1, with N = 29 and 22 of R-GP-UCB; no "
    "numbers.",
    horizon=200,
    trials=30_000,
    cases=_rates(PERIODS, _trigger),
    score=_waiting_times,
    picture=lambda results, path: plot_first_reset(
        {epsilon: results[f"epsilon-{epsilon}"] for epsilon in PERIODS}, PERIODS, path
    ),
    quick=(100, 200),
)
