"""[MK] Mandl and Kekkonen (2026), Figure 1: TV-GP-UCB with the same β in every round.

Objectives follow the Markov model on 20 x 20 arms. The confidence width is √β posterior standard
deviations. Over 10,000 rounds of a changing objective, many constant values of β have less regret
than a β that grows with the logarithm of the round. The paper was not available, so the figures
ascribed to it could not be checked, and the experiment has no verdict.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from botorch_tv.acquisition import Constant, Logarithmic
from botorch_tv.papers.claims import Claim, below, judge, within
from botorch_tv.papers.experiment import Drawn, Experiment, Outcome, Results, draw_totals
from botorch_tv.simulation import MarkovWorld, StudyResult
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Grid, Strategy, tv_gp_ucb

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS, LENGTHSCALE, NOISE = 20, 0.1, 0.01
BETAS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0)
GROWING = "β = 0.8 ln 4t"
BEST = {0.001: 6.36, 0.01: 4.34, 0.1: 2.12}
"""The β with the lowest regret in the paper, by rate of change."""


def _label(beta: float) -> str:
    return f"β = {beta:g}"


def _world(epsilon: float, noise: float) -> MarkovWorld:
    grid, kernel = Grid.regular(points=POINTS, dim=2), unit_kernel("se", LENGTHSCALE)
    return MarkovWorld(grid, kernel=kernel, epsilon=epsilon, noise=noise)


def _strategies(epsilon: float, noise: float) -> dict[str, Strategy]:
    widths = {_label(beta): Constant(beta) for beta in BETAS}
    kernel = unit_kernel("se", LENGTHSCALE)
    return {
        label: tv_gp_ucb(kernel=kernel, noise=noise, epsilon=epsilon, width=width)
        for label, width in {**widths, GROWING: Logarithmic(c1=0.8, c2=4.0)}.items()
    }


_CASES = {
    f"epsilon-{epsilon}": Drawn(
        f"ε = {epsilon}", NOISE, partial(_world, epsilon), partial(_strategies, epsilon)
    )
    for epsilon in BEST
}


def best_beta(result: StudyResult) -> float:
    """The tried value of β with the lowest mean regret."""
    return min(BETAS, key=lambda beta: float(result.total_regret(_label(beta)).mean()))


def better_betas(result: StudyResult) -> float:
    """Number of tried constant values of β that have lower mean regret than the growing β."""
    growing = float(result.total_regret(GROWING).mean())
    return float(sum(result.total_regret(_label(beta)).mean() < growing for beta in BETAS))


def _claims(epsilon: float, best: float) -> list[Claim]:
    case, near = f"epsilon-{epsilon}", min(BETAS, key=lambda beta: abs(beta - best))
    # Regret is flat around its minimum, so the best β is uncertain.
    meaning = f"β of least regret (the paper: {best})"
    broad = "number of constant β that pay less than the growing one"
    return [
        below(case, _label(near), GROWING),
        within(case, meaning, best_beta, least=best / 2, most=2 * best),
        within(case, broad, better_betas, least=3),
    ]


UNSEEN = "The paper was not available, so its figures are not judged."


def _compare(results: Results) -> Outcome:
    """Compare with figures that could not be checked against the paper, without a verdict."""
    claims = [claim for rate, best in BEST.items() for claim in _claims(rate, best)]
    outcome = judge(claims, results)
    return outcome._replace(verdict=f"{UNSEEN} {outcome.verdict}", holds=None, judged=False)


def _draw(results: Results, path: Path) -> Figure:
    """Draw total regret against β, one panel per rate of change."""
    from botorch_tv.drawing import COLORS, canvas, written

    figure = canvas(10, 3.6)
    places = {_label(beta): beta for beta in BETAS}
    for axes, best, (case, result) in zip(
        figure.subplots(1, len(BEST)), BEST.values(), results.items()
    ):
        draw_totals(axes, result, places, best, "the paper's best", COLORS[0])
        growing = result.total_regret(GROWING).mean()
        axes.axhline(growing, color=COLORS[1], linewidth=1.2, label=GROWING)
        axes.set_xlabel("β")
        axes.set_title(_CASES[case].title, loc="left")
    figure.axes[0].legend(frameon=False)
    trials = result.data.sizes["trial"]
    return written(figure, path, f"Mean of {trials:,} trials with its standard error.")


FIGURE_1 = Experiment(
    id="mk-fig1",
    title="TV-GP-UCB with a constant β and with a growing β",
    paper="As reported elsewhere: regret is least at β = 6.36, 4.34 and 2.12 where ε = 0.001, 0.01 "
    "and 0.1, and a broad range of constants has less regret than β = 0.8 ln(4t) (48 hours on "
    "eight cores).",
    horizon=10_000,
    trials=100,
    cases=_CASES,
    score=_compare,
    picture=_draw,
    quick=(2, 200),
)
