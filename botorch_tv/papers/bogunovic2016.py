"""[B16] Figure 2: TV-GP-UCB against R-GP-UCB, with the true and with wrong rates and periods."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from botorch_tv.acquisition import Logarithmic
from botorch_tv.papers.claims import Claim, judge
from botorch_tv.papers.experiment import Drawn, Experiment, Outcome, Results
from botorch_tv.papers.worlds import markov_world, spatial_kernel
from botorch_tv.simulation.study_record import Paired
from botorch_tv.strategies import Strategy, gp_ucb, r_gp_ucb, tv_gp_ucb
from botorch_tv.theory import reset_period

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HORIZON = 200
TRUE_RATES = (0.001, 0.01, 0.03)
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
        for epsilon in TRUE_RATES
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


# Figure 2 (c), (d): the cost of a wrong rate of change, or a wrong period.

TRUTH = 0.01
CASE = "epsilon-0.01"
RATES = (0.0, 0.001, 0.003, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1)
PERIODS = (5, 10, 15, 20, 30, 40, 50, 75, 100, 150, 200)
GP_UCB = "GP-UCB"


def _rate_label(epsilon: float) -> str:
    return f"ε = {epsilon:g}"


def _period_label(period: int) -> str:
    return f"N = {period}"


def _rates(noise: float) -> dict[str, Strategy]:
    kernel = spatial_kernel()
    return {
        _rate_label(epsilon): tv_gp_ucb(kernel=kernel, noise=noise, epsilon=epsilon, width=WIDTH)
        for epsilon in RATES
    }


def _periods(noise: float) -> dict[str, Strategy]:
    kernel = spatial_kernel()
    resetting: dict[str, Strategy] = {
        _period_label(period): r_gp_ucb(kernel=kernel, noise=noise, period=period, width=WIDTH)
        for period in PERIODS
    }
    return {**resetting, GP_UCB: gp_ucb(kernel=kernel, noise=noise, width=WIDTH)}


# The paper: regret is worst at 0, and rises rapidly towards it; a slightly smaller rate does no
# harm.
_RATE_CLAIMS = [
    *(Claim(CASE, _rate_label(epsilon), _rate_label(0.0), 3.0) for epsilon in RATES[1:]),
    Claim(CASE, _rate_label(0.005), _rate_label(TRUTH), -2.0),
]


# The paper: a short period costs regret; the mean is robust to a longer one.
_PERIOD_CLAIMS = [
    *(Claim(CASE, _period_label(period), _period_label(5)) for period in PERIODS[1:]),
    *(
        Claim(CASE, _period_label(period), _period_label(40), -2.0)
        for period in PERIODS
        if period > 40
    ),
]


def _judge_periods(results: Results) -> Outcome:
    """Short periods cost regret, long ones increase its spread, and N = T is GP-UCB."""
    result = results[CASE]
    orders = judge(_PERIOD_CLAIMS, results)
    short, long = (
        result.total_regret(_period_label(period)).std(ddof=1) for period in (40, HORIZON)
    )
    # The relative standard error of a standard deviation from n normal numbers is about 1/√(2n).
    t_ratio = math.log(long / short) * math.sqrt(result.data.sizes["trial"] - 1)
    same = bool(
        (result.total_regret(_period_label(HORIZON)) == result.total_regret(GP_UCB)).all()
        or result.data.sizes["round"] < HORIZON
    )
    rows = [
        {"claim": "sd at N = 200 over sd at N = 40", "difference": long / short},
        {"claim": "N = 200 is GP-UCB", "holds": same},
    ]
    rows[0] |= {"t_ratio": t_ratio, "holds": t_ratio > 3}
    table = pd.concat([orders.table, pd.DataFrame(rows)], ignore_index=True)
    verdict = (
        f"{orders.verdict} The standard deviation between trials is {long / short:.2f} times as "
        f"large at N = 200 as at N = 40 ({t_ratio:.1f} standard errors); N = 200 "
        f"{'is' if same else 'differs from'} GP-UCB."
    )
    return Outcome(table, verdict, bool(orders.holds) and t_ratio > 3 and same)


def _draw(
    values: Mapping[str, float], label: str, truth: float | None, results: Results, path: Path
) -> Figure:
    """Draw total regret over the assumed rate or period."""
    from botorch_tv.drawing import COLORS, GRAY, canvas, lighten, written

    result = results[CASE]
    figure = canvas(6.4, 4.2)
    axes = figure.subplots()
    trials = result.data.sizes["trial"]
    summaries = [Paired.of(result.total_regret(name)) for name in values]
    means = np.array([one.mean for one in summaries])
    errors = np.array([one.standard_error for one in summaries])
    spread = errors * math.sqrt(trials)
    places = list(values.values())
    low, high = means - spread, means + spread
    axes.fill_between(places, low, high, color=COLORS[0], alpha=0.15, linewidth=0)
    axes.errorbar(places, means, errors, color=COLORS[0], fmt="o-", markersize=4, capsize=3)
    if truth is not None:
        axes.axvline(truth, color=GRAY, linestyle="dashed", linewidth=1.2)
        axes.annotate(" the truth", (truth, 0.98), xycoords=("data", "axes fraction"), va="top")
    axes.set(xlabel=label, ylabel="total regret $R_T$", ylim=(0, None))
    lighten(axes)
    caption = f"Mean of {trials:,} trials with its standard error; band: standard deviation."
    return written(figure, path, caption)


def _case(strategies: Callable[[float], dict[str, Strategy]]) -> dict[str, Drawn]:
    return {CASE: Drawn("ε = 0.01", NOISE, partial(markov_world, TRUTH), strategies)}


FIGURE_2C = Experiment(
    id="b16-fig2c",
    title="TV-GP-UCB told a wrong rate of change",
    paper="With ε = 0.01 true, regret rises slowly where TV-GP-UCB is told more; a little less "
    "does no harm, but beyond a certain point regret rises rapidly, and is worst at 0, which is "
    "GP-UCB.",
    horizon=HORIZON,
    trials=200,
    cases=_case(_rates),
    score=partial(judge, _RATE_CLAIMS),
    picture=partial(_draw, {_rate_label(e): e for e in RATES}, "rate told to TV-GP-UCB", TRUTH),
    remark="Least regret is paid when told half the truth.",
)

FIGURE_2D = Experiment(
    id="b16-fig2d",
    title="R-GP-UCB with periods from 5 to 200",
    paper="Too small an N resets too often; the mean of regret is robust to a larger N, but its "
    "standard deviation increases steadily, up to GP-UCB at N = T.",
    horizon=HORIZON,
    trials=200,
    cases=_case(_periods),
    score=_judge_periods,
    picture=partial(
        _draw, {_period_label(n): float(n) for n in PERIODS}, "period N of R-GP-UCB", None
    ),
)
