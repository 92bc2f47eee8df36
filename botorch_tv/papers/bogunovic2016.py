"""[B16]: TV-GP-UCB against R-GP-UCB on objectives of a known rate of change."""

from __future__ import annotations

from functools import partial

from botorch_tv.acquisition import Logarithmic
from botorch_tv.papers.experiment import Case, Experiment, draw_panels
from botorch_tv.papers.markov import markov_world, spatial_kernel
from botorch_tv.papers.order import Claim, judge
from botorch_tv.strategies import Strategy, r_gp_ucb, tv_gp_ucb
from botorch_tv.theory import reset_period

HORIZON = 200
RATES = (0.001, 0.01, 0.03)


def _strategies(noise: float, *, epsilon: float) -> dict[str, Strategy]:
    kernel, width = spatial_kernel(), Logarithmic(c1=0.8, c2=4.0)
    period = reset_period(epsilon, HORIZON)
    return {
        "TV-GP-UCB": tv_gp_ucb(kernel=kernel, noise=noise, epsilon=epsilon, width=width),
        "R-GP-UCB": r_gp_ucb(kernel=kernel, noise=noise, period=period, width=width),
    }


def _case(epsilon: float) -> Case:
    return Case(
        title=f"ε = {epsilon}, N = {reset_period(epsilon, HORIZON)}",
        world=partial(markov_world, epsilon),
        strategies=partial(_strategies, epsilon=epsilon),
    )


_CASES = {f"epsilon-{epsilon}": _case(epsilon) for epsilon in RATES}

FIGURE_2A = Experiment(
    id="b16-fig2a",
    title="TV-GP-UCB pays less regret than R-GP-UCB at every rate of change",
    horizon=HORIZON,
    trials=200,
    noise=0.01,
    cases=_CASES,
    score=partial(judge, [Claim(name, "TV-GP-UCB", "R-GP-UCB") for name in _CASES]),
    picture=partial(draw_panels, _CASES),
)
