"""[B16] Figure 2: TV-GP-UCB and R-GP-UCB compared, with right and with wrong parameters.

Figure 1, two draws from the Markov model, and Appendix G, further days of the traffic record, have
no experiment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from botorch_tv.acquisition import Logarithmic
from botorch_tv.drawing import GRAY, canvas, lighten, written
from botorch_tv.papers.claims import REQUIRED, Claim, also, below, exceeds, judge, order_answer, yes
from botorch_tv.papers.event_triggered import line_up
from botorch_tv.papers.experiment import Drawn, Experiment, Outcome, Results
from botorch_tv.papers.worlds import markov_case, spatial_kernel
from botorch_tv.simulation import StudyResult
from botorch_tv.simulation.plots.curves import line_styles
from botorch_tv.strategies import Strategy, gp_ucb, r_gp_ucb, tv_gp_ucb
from botorch_tv.theory import reset_period

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HORIZON = 200
TRUE_RATES = (0.001, 0.01, 0.03)
NOISE = 0.01
WIDTH = Logarithmic(c1=0.8, c2=4.0)


def _strategies(noise: float, *, epsilon: float, period: int, kernel: str) -> dict[str, Strategy]:
    strategies = line_up(spatial_kernel(kernel), noise, WIDTH, epsilon=epsilon, period=period)
    return {label: strategies[label] for label in ("TV-GP-UCB", "R-GP-UCB")}


def _period(epsilon: float, kernel: str) -> int:
    """The period N, which follows from the rate of change as in [B16] §5.1."""
    return reset_period(epsilon, HORIZON, nu=None if kernel == "se" else 2.5, dim=2)


def _case(epsilon: float, kernel: str) -> Drawn:
    period = _period(epsilon, kernel)
    strategies = partial(_strategies, epsilon=epsilon, period=period, kernel=kernel)
    return markov_case(f"ε = {epsilon}, N = {period}", epsilon, NOISE, strategies, kernel)


def rise_after_resets(result: StudyResult, label: str, period: int) -> np.ndarray:
    """Regret per round just after resets, minus regret per round just before them, `trials`.

    Just before and just after are an eighth of a period each.

    Args:
        result: The study.
        label: Label of the strategy.
        period: Number N of rounds between resets.
    """
    regret = result.regret.sel(strategy=label).transpose("round", "trial").values
    width = max(1, period // 8)
    rises = [
        regret[start : start + width].mean(0) - regret[start - width : start].mean(0)
        for start in range(period, len(regret) - width + 1, period)
    ]
    return np.asarray(np.mean(rises or [np.zeros(regret.shape[1])], axis=0))


def _oscillates(case: str, period: int) -> list[Claim]:
    """Claims that regret of R-GP-UCB rises at its resets, by more than that of TV-GP-UCB."""

    def rise(result: StudyResult) -> np.ndarray:
        return rise_after_resets(result, "R-GP-UCB", period)

    def steadier(result: StudyResult) -> np.ndarray:
        return np.asarray(rise(result) - rise_after_resets(result, "TV-GP-UCB", period))

    return [
        exceeds(case, "R-GP-UCB before a reset", "R-GP-UCB after it", rise),
        exceeds(case, "rise of TV-GP-UCB", "rise of R-GP-UCB", steadier),
    ]


def _figure(id: str, kernel: str, name: str) -> Experiment:
    cases = {f"epsilon-{epsilon}": _case(epsilon, kernel) for epsilon in TRUE_RATES}
    claims = [below(case, "TV-GP-UCB", "R-GP-UCB") for case in cases]
    for case, epsilon in zip(cases, TRUE_RATES):
        claims += _oscillates(case, _period(epsilon, kernel))
    return Experiment(
        id=id,
        title=f"TV-GP-UCB and R-GP-UCB at three rates of change, {name} kernel",
        paper='TV-GP-UCB "outperforms" R-GP-UCB at ε = 0.001, 0.01 and 0.03; curves of R-GP-UCB '
        '"have an oscillatory behavior", since "one tends to incur more regret just after a reset '
        'is done"; those of TV-GP-UCB "are more steady".',
        horizon=HORIZON,
        trials=200,
        cases=cases,
        score=partial(judge, claims),
    )


FIGURE_2A = _figure("b16-fig2a", "se", "squared exponential")
FIGURE_2B = _figure("b16-fig2b", "matern52", "Matérn-5/2")


# Figure 2 (c), (d): how much a wrong rate of change or a wrong period costs.

TRUTH = 0.01
CASE = "epsilon-0.01"
RATES = (0.0, 0.001, 0.003, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1)
PERIODS = (5, 10, 15, 20, 30, 40, 50, 75, 100, 150, 200)
GP_UCB = "GP-UCB"


_RATES = {f"ε = {epsilon:g}": epsilon for epsilon in RATES}
_PERIODS = {f"N = {period}": float(period) for period in PERIODS}


def _rates(noise: float) -> dict[str, Strategy]:
    kernel = spatial_kernel()
    return {
        label: tv_gp_ucb(kernel=kernel, noise=noise, epsilon=epsilon, width=WIDTH)
        for label, epsilon in _RATES.items()
    }


def _periods(noise: float) -> dict[str, Strategy]:
    kernel = spatial_kernel()
    resetting: dict[str, Strategy] = {
        label: r_gp_ucb(kernel=kernel, noise=noise, period=int(period), width=WIDTH)
        for label, period in _PERIODS.items()
    }
    return {**resetting, GP_UCB: gp_ucb(kernel=kernel, noise=noise, width=WIDTH)}


# The claims of the paper: regret is highest at an assumed rate of 0, and rises steeply as the rate
# approaches 0. A rate slightly below the true rate does not increase regret.
_RATE_CLAIMS = [
    *(below(CASE, label, "ε = 0") for label in list(_RATES)[1:]),
    below(CASE, "ε = 0.005", f"ε = {TRUTH}", -REQUIRED),
]


# The claims of the paper: a short period increases regret; the mean is robust to a longer period.
_PERIOD_CLAIMS = [
    *(below(CASE, label, "N = 5") for label in list(_PERIODS)[1:]),
    *(below(CASE, label, "N = 40", -REQUIRED) for label, period in _PERIODS.items() if period > 40),
]


def _judge_periods(results: Results) -> Outcome:
    """Judge the paper's claims about the period N of R-GP-UCB.

    There are three claims: a short period increases regret; a long period increases the standard
    deviation of regret; and with N = T, R-GP-UCB equals GP-UCB.
    """
    result = results[CASE]
    orders = judge(_PERIOD_CLAIMS, results)
    long = result.total_regret(f"N = {HORIZON}")
    share = long.std(ddof=1) / result.total_regret("N = 40").std(ddof=1)
    # The relative standard error of a standard deviation from n normal numbers is about 1/√(2n).
    t_ratio = math.log(share) * math.sqrt(result.data.sizes["trial"] - 1)
    same = bool((long == result.total_regret(GP_UCB)).all()) or len(result.data["round"]) < HORIZON
    rows = [
        {
            "claim": "sd at N = 200 over sd at N = 40",
            "required": REQUIRED,
            "difference": share,
            "t_ratio": t_ratio,
            "answer": order_answer(t_ratio),
        },
        {"claim": "N = 200 is GP-UCB", "answer": yes(same)},
    ]
    verdict = (
        f"The standard deviation between trials is {share:.2f} times as large at N = 200 as at "
        f"N = 40 ({t_ratio:.1f} standard errors); N = 200 "
        f"{'is' if same else 'differs from'} GP-UCB."
    )
    return also(orders, rows, verdict)


def _draw(
    strategy: str,
    places: Mapping[str, float],
    label: str,
    truth: float | None,
    results: Results,
    path: Path,
) -> Figure:
    """Draw total regret and its standard deviation over the assumed rate or the assumed period."""
    figure = canvas(6.4, 4.2)
    axes, result = figure.subplots(), results[CASE]
    totals = np.array([result.total_regret(name) for name in places])
    mean, spread, at = totals.mean(1), totals.std(1, ddof=1), list(places.values())
    error = spread / math.sqrt(totals.shape[1])
    color, _ = line_styles([strategy])[strategy]
    axes.fill_between(at, mean - spread, mean + spread, color=color, alpha=0.15, linewidth=0)
    axes.errorbar(at, mean, error, color=color, fmt="o-", markersize=4, capsize=3)
    if truth is not None:
        axes.axvline(truth, color=GRAY, linestyle="dashed", linewidth=1.2)
        axes.text(truth, 0.98, " the truth", transform=axes.get_xaxis_transform(), va="top")
    axes.set(xlabel=label, ylabel="total regret $R_T$", ylim=(0, None))
    lighten(axes)
    caption = "Mean of {:,} trials with its standard error; band: standard deviation."
    return written(figure, path, caption.format(totals.shape[1]))


FIGURE_2C = Experiment(
    id="b16-fig2c",
    title="TV-GP-UCB given a wrong rate of change",
    paper="With ε = 0.01 true, regret rises slowly where TV-GP-UCB is given more; a little less "
    "does no harm, but beyond a certain point regret rises rapidly, and is worst at 0, which is "
    "GP-UCB.",
    horizon=HORIZON,
    trials=200,
    cases={CASE: markov_case("ε = 0.01", TRUTH, NOISE, _rates)},
    score=partial(judge, _RATE_CLAIMS),
    picture=partial(_draw, "TV-GP-UCB", _RATES, "rate assumed by TV-GP-UCB", TRUTH),
)

FIGURE_2D = Experiment(
    id="b16-fig2d",
    title="R-GP-UCB with periods from 5 to 200",
    paper="Too small an N resets too often; the mean of regret is robust to a larger N, but its "
    "standard deviation increases steadily, up to GP-UCB at N = T.",
    horizon=HORIZON,
    trials=200,
    cases={CASE: markov_case("ε = 0.01", TRUTH, NOISE, _periods)},
    score=_judge_periods,
    picture=partial(_draw, "R-GP-UCB", _PERIODS, "period N of R-GP-UCB", None),
)
