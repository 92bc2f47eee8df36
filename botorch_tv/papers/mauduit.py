"""Experiments of [M]: bandits with and without experts, on oscillating functions of 401 arms.

The paper does not give most settings, including the confidence widths and α, which it tunes on
training data. There are therefore four cases. In the first case, all strategies have the confidence
width √β with β = 0.8 ln(4 t), and α maximises the marginal likelihood of training rows. The second
case has α = 2. In the third case ties are broken at random, because the posterior is flat far from
all data. In the fourth case, all strategies have the confidence width of the paper's theory.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from gpytorch.kernels import Kernel, ScaleKernel

from botorch_tv.acquisition import Heteroscedastic, Logarithmic, UpperConfidence, Width
from botorch_tv.acquisition.exploration import Ties
from botorch_tv.forgetting.sparq_windows import window_count
from botorch_tv.papers.claims import (
    Row,
    also,
    beats,
    below,
    compared,
    exceeds,
    judge,
    judge_readings,
)
from botorch_tv.papers.experiment import Drawn, Experiment, Outcome, Recorded, Results
from botorch_tv.papers.recordings import Recordings
from botorch_tv.simulation import PanelWorld, PredictionError, SineWorld, StudyResult
from botorch_tv.simulation.panels import fit_epsilon
from botorch_tv.simulation.panels.temporal import spectrum
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.study_record import Paired
from botorch_tv.strategies import (
    Grid,
    Strategy,
    gp_ucb,
    r_gp_ucb,
    random_search,
    sparq_gp_ucb,
    sw_gp_ucb,
    tv_gp_ucb,
    w_gp_ucb,
    w_sparq_gp_ucb,
)
from botorch_tv.strategies.gp_strategy import GPStrategy
from botorch_tv.theory import reset_period

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 401
NOISE = 0.01
ALPHA_TILDE = 0.25
"""Exponent α~ of W-SparQ-GP-UCB."""
TRAINING = 100
"""Number of rounds from which α is fitted."""
QUERY_SCALE = 6.0
"""Factor c_Q in the number Q_t = ⌈c_Q ln(t + 1)⌉ of side queries."""
EXPERTS = ("SparQ-GP-UCB", "W-SparQ-GP-UCB")


def line_kernel() -> Kernel:
    """The kernel k(x, x') = 0.5 exp(-(x - x')² / 18)."""
    with torch.device("cpu"):
        kernel = ScaleKernel(unit_kernel("se", 3.0)).double()
    kernel.outputscale = torch.tensor(0.5, dtype=torch.float64, device="cpu")
    return kernel


def sine_world(noise: float) -> SineWorld:
    """Functions with 20 evenly spaced centres on [-50, 50]; all trials have the same functions."""
    line = Grid.regular(points=POINTS, dim=1, bounds=[(-50.0, 50.0)])
    return SineWorld(line, kernel=line_kernel(), noise=noise)


def line_up(
    kernel: Kernel,
    noise: float,
    width: Width,
    *,
    alpha: float,
    c_Q: float,
    memory: int,
    gamma: float,
    epsilon: float,
) -> dict[str, Strategy]:
    """The seven methods of the paper; two of them ask an expert.

    Args:
        kernel: Covariance of the arms.
        noise: Variance of the noise.
        width: The confidence width of all strategies.
        alpha: Exponent α of W-SparQ-GP-UCB.
        c_Q: Factor c_Q in the number of side queries.
        memory: Number of rounds, used both as the period of R-GP-UCB and as the window of
            SW-GP-UCB.
        gamma: Discount of WGP-UCB.
        epsilon: Rate of change assumed by TV-GP-UCB.
    """
    # The exact sampler has the limit distribution of the paper's swap chain, and is faster.
    given: dict[str, Any] = {"kernel": kernel, "noise": noise, "width": width}
    asking = given | {"c_Q": c_Q, "steps": "exact"}
    sparq, w_sparq = EXPERTS
    return {
        sparq: sparq_gp_ucb(**asking),
        w_sparq: w_sparq_gp_ucb(alpha=alpha, alpha_tilde=ALPHA_TILDE, **asking),
        "GP-UCB": gp_ucb(**given),
        "R-GP-UCB": r_gp_ucb(period=memory, **given),
        "SW-GP-UCB": sw_gp_ucb(window=memory, **given),
        "WGP-UCB": w_gp_ucb(gamma=gamma, **given),
        "TV-GP-UCB": tv_gp_ucb(epsilon=epsilon, **given),
    }


@cache
def tuned_alpha(noise: float, rounds: int = TRAINING) -> float:
    """The α that :func:`fitted_alpha` finds for noisy values of all arms in the first rounds."""
    world = sine_world(noise)
    f = world.look(rounds, trials=1).values[0]
    rows = f + noise**0.5 * np.random.default_rng(2025).standard_normal(f.shape)
    return fitted_alpha(rows, world.kernel(world.domain.X).to_dense().detach().numpy(), noise)


def _strategies(
    noise: float, *, width: Width, ties: Ties, alpha: float | None
) -> dict[str, Strategy]:
    kernel, alpha = line_kernel(), tuned_alpha(noise) if alpha is None else alpha
    found = line_up(
        kernel, noise, width, alpha=alpha, c_Q=QUERY_SCALE, memory=2, gamma=0.488, epsilon=0.087
    )
    exploration = UpperConfidence(ties=ties)
    players = {
        name: replace(cast(GPStrategy, strategy), exploration=exploration)
        for name, strategy in found.items()
    }
    return {**players, "random": random_search(kernel=kernel, noise=noise)}


def _case(title: str, width: Width, ties: Ties = "first", alpha: float | None = None) -> Drawn:
    players = partial(_strategies, width=width, ties=ties, alpha=alpha)
    return Drawn(title, NOISE, sine_world, players)


_CASES = {
    "logarithmic": _case("width √(0.8 ln 4t)", Logarithmic(c1=0.8, c2=4.0)),
    "alpha-2": _case("width √(0.8 ln 4t), α = 2", Logarithmic(c1=0.8, c2=4.0), alpha=2.0),
    "random-ties": _case("width √(0.8 ln 4t), ties at random", Logarithmic(0.8, 4.0), "random"),
    "theory": _case("width of theory, B = 5", Heteroscedastic(B=5.0, delta=0.1)),
}


def regret_exponents(result: StudyResult, strategy: str) -> np.ndarray:
    """Slope of ln R_t against ln t in the second half of the rounds of each trial, `trials`.

    R_t is the cumulative regret. If the slope is below 1, regret per round falls and cumulative
    regret is sublinear in these rounds.

    Args:
        result: The study.
        strategy: Label of the strategy.
    """
    total = result.regret.sel(strategy=strategy).transpose("round", "trial").values.cumsum(0)
    late = np.arange(len(total) // 2, len(total))
    return np.asarray(np.polyfit(np.log(late + 1), np.log(total[late]), 1)[0])


def _slope_below_1(result: StudyResult, strategy: str) -> np.ndarray:
    return 1 - regret_exponents(result, strategy)


def _fewer_queries(result: StudyResult) -> np.ndarray:
    every, some = _asked(result)
    return np.asarray((every - some).sum(1))


def _asked(result: StudyResult) -> list[np.ndarray]:
    """Side queries of SparQ and of W-SparQ, each `trials x rounds`."""
    return [result.data["side_queries"].sel(strategy=label).values for label in EXPERTS]


_QUERIES = [f"side queries of {label}" for label in EXPERTS]
_OTHERS = ("GP-UCB", "R-GP-UCB", "SW-GP-UCB", "WGP-UCB", "TV-GP-UCB")
_PURE = (*_OTHERS, "random")
_READINGS = {
    "the width √(0.8 ln 4t)": "logarithmic",
    "the same and α = 2": "alpha-2",
    "the first and ties at random": "random-ties",
    "the width of theory": "theory",
}
_CLAIMS = {
    reading: [
        below(case, EXPERTS[0], EXPERTS[1]),
        *(claim for expert in EXPERTS for claim in beats(case, expert, _PURE)),
        *(
            exceeds(case, f"slope of {expert}", "1", partial(_slope_below_1, strategy=expert))
            for expert in EXPERTS
        ),
        exceeds(case, _QUERIES[1], _QUERIES[0], _fewer_queries),
        below(case, "TV-GP-UCB", "random", ours=True),
    ]
    for reading, case in _READINGS.items()
}


def _judge(results: Results) -> Outcome:
    """Judge regrets, slopes of regrets and numbers of side queries; count the windows."""
    rows, texts = list[Row](), list[str]()
    for name, result in results.items():
        (every, some), alpha = _asked(result), _alpha(name)
        share, windows = some.sum() / max(1, every.sum()), (some > 0).sum(1)
        theory = window_count(some.shape[1], alpha, ALPHA_TILDE)
        given = {"case": name, "alpha": alpha, "share": share, "windows": windows.max()}
        rows.append(given | {"windows_of_theory": theory})
        texts.append(
            f"{share:.1%} at {name} (α = {alpha:g}, {windows.max()} windows, theory {theory})"
        )
    queries = f"{EXPERTS[1]} asks, of the side queries of {EXPERTS[0]}, {', '.join(texts)}."
    return also(judge_readings(_CLAIMS, results), rows, queries)


def _alpha(case: str) -> Any:
    """The α of W-SparQ-GP-UCB in a case."""
    return cast(Any, _CASES[case].strategies(NOISE)[EXPERTS[1]]).inflation.alpha


SYNTHETIC = Experiment(
    id="m-synthetic",
    title="Bandits with and without experts, on oscillating coefficients",
    paper='"Both SparQ-GP-UCB and W-SparQ-GP-UCB achieve sublinear cumulative regret and '
    "outperform existing bandit algorithms. Although SparQ-GP-UCB converges slightly faster, it "
    'requires significantly more additional queries".',
    remark="The paper leaves most settings open. Here α maximises the marginal likelihood of "
    f"{TRAINING} noisy rows (20 rows give 2.4, 500 give 0.9), and α = 2 is a second reading; α̃ = "
    f"1/4 as in the paper; c_Q = {QUERY_SCALE:g}, window and period of two rounds, γ = 0.488 and "
    "ε = 0.087 are ours. The lengths of windows alone fix the share of side queries, which are "
    "drawn from the exact k-DPP that the paper's chain approximates. Trials differ in noise alone.",
    horizon=500,
    trials=30,
    cases=_CASES,
    score=_judge,
    quick=(2, 100),
)


# [M] §4.2: a grid of temperatures. The paper uses monthly anomalies of Berkeley Earth over France.
# This study uses hourly anomalies of the reanalysis on every fourth cell: the temperature of a cell
# minus its mean over the training rows. The kernel is a squared exponential on latitude and
# longitude. Its lengthscale, between 0.5 and 8 degrees, and the rate of change maximise the
# marginal likelihood of the training rows. As in the paper, α then maximises the marginal
# likelihood of the training rows for the chosen kernel. The paper does not give c_Q; here it is 1.
# Period, window and discount follow from the rate of change.

TEMPERATURE_HORIZON = 264
CASE = "anomalies"
WIDTH = Logarithmic(c1=0.8, c2=4.0)
ALPHAS = tuple(number / 10 for number in range(1, 31))
LENGTHSCALES = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0)
"""Candidate lengthscales, in degrees."""

WEST = 1 / math.cos(math.radians(54))
"""Ratio of a degree of latitude to a degree of longitude in length, in the grid's middle."""


def anomalies(records: Recordings) -> PanelWorld:
    """Temperatures on a coarse grid.

    The last 264 hours are played, and all earlier hours are for training.
    """
    panel = records.temperature(every=4)
    return PanelWorld(
        panel, train=len(panel.values) - TEMPERATURE_HORIZON, center="arm", first_arm="each"
    )


def fitted(world: PanelWorld) -> tuple[Kernel, float]:
    """The kernel and the rate of change per hour that fit the training rows best."""
    fits = []
    for lengthscale in LENGTHSCALES:
        kernel = unit_kernel("se", lengthscale, lengthscale * WEST)
        covariance = kernel(world.domain.X).to_dense().detach().numpy()
        fits.append((kernel, fit_epsilon(world.training, covariance, world.model_noise)))
    kernel, best = max(fits, key=lambda fit: fit[1].log_likelihood)
    return kernel, best.epsilon


def fitted_alpha(rows: np.ndarray, covariance: np.ndarray, noise: float) -> float:
    """The α that maximises the marginal likelihood of rows of observations.

    Row s is f plus noise of variance n_s = σ² (1 + lag^α), [M] (8), where the lag is counted from
    the last row. The component of the rows along an eigenvector of the kernel with eigenvalue λ has
    covariance λ 11ᵀ + diag(n), a diagonal matrix plus a matrix of rank one.

    Args:
        rows: Observations of all arms in each round, `rounds x M`.
        covariance: Covariance of the arms, `M x M`.
        noise: Variance σ² of the noise.
    """
    lag = np.arange(len(rows))[::-1].astype(np.float64)
    eigenvalues, vectors = spectrum(covariance)
    series = rows @ vectors  # `rows x eigenvectors`

    def deviance(alpha: float) -> float:
        precision = 1 / (noise * (1 + lag**alpha))
        gain, pull = eigenvalues * precision.sum(), precision @ series
        square = (precision @ rows**2).sum() - (eigenvalues * pull**2 / (1 + gain)).sum()
        return float(square + np.log1p(gain).sum() - rows.shape[1] * np.log(precision).sum())

    return min(ALPHAS, key=deviance)


def strategies(world: PanelWorld) -> dict[str, Strategy]:
    """The seven methods of the paper."""
    kernel, epsilon = fitted(world)
    memory = reset_period(epsilon, TEMPERATURE_HORIZON)
    covariance = kernel(world.domain.X).to_dense().detach().numpy()
    alpha = fitted_alpha(world.training, covariance, world.model_noise)
    rates = {"gamma": 1 - 1 / memory, "epsilon": epsilon, "alpha": alpha}
    return line_up(kernel, world.model_noise, WIDTH, c_Q=1.0, memory=memory, **rates)


_TEMPERATURE_CASES = {
    CASE: Recorded(
        "hourly anomalies of 117 cells of ERA5",
        anomalies,
        strategies,
        "hourly anomalies of a reanalysis",
    )
}
_TEMPERATURE_CLAIMS = [claim for expert in EXPERTS for claim in beats(CASE, expert, _OTHERS)]


def _judge_temperature(results: Results) -> Outcome:
    """Judge regret, then the prediction error of W-SparQ-GP-UCB over the grid."""
    orders = judge(_TEMPERATURE_CLAIMS, results)
    error = results[CASE].squared_error.mean("round")
    rows = [
        compared(
            "squared error",
            EXPERTS[1],
            other,
            Paired.of(error.sel(strategy=other).values - error.sel(strategy=EXPERTS[1]).values),
        )
        for other in _OTHERS
    ]
    means = error.mean("trial").to_series()
    errors = ", ".join(f"{label} {mean:.3f}" for label, mean in means.items())
    verdict = f"Squared prediction error over the grid: {errors}."
    return also(orders, rows, verdict)


def _draw_temperature(results: Results, path: Path) -> Figure:
    """Draw regret, and prediction errors in a second file."""
    result = results[CASE]
    maps = path.with_name(f"{path.stem}-map{path.suffix}")
    result.plot_prediction_error(maps, across=1, names=("latitude", "longitude"))
    return result.plot(path)


TEMPERATURE = Experiment(
    id="m-temperature",
    title="Experts on a grid of temperatures: regret and prediction error",
    paper="SparQ-GP-UCB and W-SparQ-GP-UCB outperform the others in regret, W-SparQ-GP-UCB in the "
    "squared prediction error over the grid as well.",
    horizon=TEMPERATURE_HORIZON,
    trials=117,
    cases=_TEMPERATURE_CASES,
    score=_judge_temperature,
    picture=_draw_temperature,
    record=(PredictionError(),),
    remark="Hourly anomalies of a reanalysis over the United Kingdom replace monthly anomalies of "
    "Berkeley Earth over France. α, like lengthscale and rate of change, maximises the marginal "
    "likelihood of the training rows.",
    quick=(2, 60),
)
