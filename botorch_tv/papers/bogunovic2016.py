"""[B16] Figure 2 (a), (b): TV-GP-UCB against R-GP-UCB, both with the known rate of change."""

from __future__ import annotations

from functools import partial

from botorch_tv.acquisition import Logarithmic
from botorch_tv.papers.cases import Drawn
from botorch_tv.papers.experiment import Experiment
from botorch_tv.papers.markov import markov_world, spatial_kernel
from botorch_tv.papers.order import Claim, judge
from botorch_tv.strategies import Strategy, r_gp_ucb, tv_gp_ucb
from botorch_tv.theory import reset_period

HORIZON = 200
RATES = (0.001, 0.01, 0.03)
NOISE = 0.01
WIDTH = Logarithmic(c1=0.8, c2=4.0)


def _period(epsilon: float, kernel: str) -> int:
    """The period N of [B16] §5.1."""
    if kernel == "se":
        return reset_period(epsilon, HORIZON)
    return reset_period(epsilon, HORIZON, nu=2.5, dim=2)


def _strategies(noise: float, *, epsilon: float, kernel: str) -> dict[str, Strategy]:
    k, period = spatial_kernel(kernel), _period(epsilon, kernel)
    return {
        "TV-GP-UCB": tv_gp_ucb(kernel=k, noise=noise, epsilon=epsilon, width=WIDTH),
        "R-GP-UCB": r_gp_ucb(kernel=k, noise=noise, period=period, width=WIDTH),
    }


def _cases(kernel: str) -> dict[str, Drawn]:
    return {
        f"epsilon-{epsilon}": Drawn(
            title=f"ε = {epsilon}, N = {_period(epsilon, kernel)}",
            variance=NOISE,
            world=partial(markov_world, epsilon, kernel=kernel),
            strategies=partial(_strategies, epsilon=epsilon, kernel=kernel),
        )
        for epsilon in RATES
    }


def _figure(id: str, kernel: str, name: str) -> Experiment:
    cases = _cases(kernel)
    return Experiment(
        id=id,
        title=f"TV-GP-UCB and R-GP-UCB at three rates of change, {name} kernel",
        paper="TV-GP-UCB lies below R-GP-UCB at ε = 0.001, 0.01 and 0.03; the regret per round of "
        "R-GP-UCB goes up and down with its resets.",
        horizon=HORIZON,
        trials=200,
        cases=cases,
        score=partial(judge, [Claim(one, "TV-GP-UCB", "R-GP-UCB") for one in cases]),
    )


FIGURE_2A = _figure("b16-fig2a", "se", "squared exponential")
FIGURE_2B = _figure("b16-fig2b", "matern52", "Matérn-5/2")
