"""[M] §4.2: bandits with and without an expert on a grid of temperatures.

The paper uses monthly anomalies of Berkeley Earth over France. Here they are hourly anomalies of
the reanalysis on every fourth cell: the temperature of a cell minus its own mean over the training
rows. The kernel is a squared exponential on latitude and longitude. Its lengthscale, among half a
degree to eight, and the rate of change maximise the marginal likelihood of the training rows. The
paper tunes α on training data and does not give c_Q; here both are 1. The memories of R-, SW- and
WGP-UCB follow from the rate of change.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd
import torch
from gpytorch.kernels import Kernel, RBFKernel

from botorch_tv.acquisition import Logarithmic
from botorch_tv.papers.cases import Recorded
from botorch_tv.papers.experiment import Experiment, Outcome, Quick, Results
from botorch_tv.papers.mauduit import EXPERTS, line_up
from botorch_tv.papers.order import Claim, judge, tested
from botorch_tv.papers.recordings import Recordings
from botorch_tv.simulation import PanelWorld, PredictionError
from botorch_tv.simulation.panels import fit_epsilon
from botorch_tv.simulation.tables import Paired
from botorch_tv.strategies import Strategy
from botorch_tv.theory import reset_period

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HORIZON = 264
CASE = "anomalies"
WIDTH = Logarithmic(c1=0.8, c2=4.0)
ALPHA = 1.0
LENGTHSCALES = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0)
"""In degrees."""

WEST = 1 / math.cos(math.radians(54))
"""A degree of longitude is shorter than one of latitude, by this factor in the middle."""

_OTHERS = ("GP-UCB", "R-GP-UCB", "SW-GP-UCB", "WGP-UCB", "TV-GP-UCB")


def anomalies(records: Recordings) -> PanelWorld:
    """The last 264 hours of a coarse grid; those before are for training."""
    panel = records.temperature(every=4)
    return PanelWorld(panel, train=len(panel.values) - HORIZON, center="arm", first_arm="each")


class Fitted(NamedTuple):
    """A model of the training rows.

    Attributes:
        kernel: Squared exponential on latitude and longitude.
        epsilon: Rate of change per hour.
    """

    kernel: Kernel
    epsilon: float


def fitted(world: PanelWorld) -> Fitted:
    """Fit lengthscale and rate of change by marginal likelihood."""
    candidates = [_kernel(lengthscale) for lengthscale in LENGTHSCALES]
    fits = []
    for kernel in candidates:
        covariance = kernel(world.domain.X).to_dense().detach().numpy()
        fits.append(fit_epsilon(world.training, covariance, world.model_noise))
    best = max(range(len(fits)), key=lambda number: fits[number].log_likelihood)
    return Fitted(candidates[best], fits[best].epsilon)


def _kernel(lengthscale: float) -> Kernel:
    with torch.device("cpu"):
        kernel = RBFKernel(ard_num_dims=2).double()
    both = [[lengthscale, lengthscale * WEST]]
    kernel.lengthscale = torch.tensor(both, dtype=torch.float64, device="cpu")
    return kernel


def strategies(world: PanelWorld) -> dict[str, Strategy]:
    """The seven methods of the paper."""
    kernel, epsilon = fitted(world)
    memory = reset_period(epsilon, HORIZON)
    return line_up(
        kernel,
        world.model_noise,
        WIDTH,
        alpha=ALPHA,
        c_Q=1.0,
        memory=memory,
        gamma=1 - 1 / memory,
        epsilon=epsilon,
    )


_CASES = {CASE: Recorded("hourly anomalies of 117 cells of ERA5", anomalies, strategies)}
_CLAIMS = [Claim(CASE, expert, other, 3.0) for expert in EXPERTS for other in _OTHERS]


def _judge(results: Results) -> Outcome:
    """Judge regret, then the prediction error of W-SparQ-GP-UCB over the grid."""
    orders = judge(_CLAIMS, results)
    error = results[CASE].squared_error.mean("round")
    rows = [
        tested(
            Claim("squared error", EXPERTS[1], other, 3.0),
            Paired.of(error.sel(strategy=other).values - error.sel(strategy=EXPERTS[1]).values),
        )
        for other in _OTHERS
    ]
    table = pd.concat([orders.table, pd.DataFrame(rows)], ignore_index=True)
    errors = ", ".join(
        f"{label} {float(error.sel(strategy=label).mean()):.3f}"
        for label in error["strategy"].values
    )
    holds = all(row["holds"] for row in rows)
    verdict = f"{orders.verdict} Squared prediction error over the grid: {errors}."
    return Outcome(table, verdict, bool(orders.holds) and holds)


def _draw(results: Results, path: Path) -> Figure:
    """Draw regret, and prediction errors in a second file."""
    result = results[CASE]
    maps = path.with_name(f"{path.stem}-map{path.suffix}")
    result.plot_prediction_error(maps, across=1, names=("latitude", "longitude"))
    return result.plot(path)


TEMPERATURE = Experiment(
    id="m-temperature",
    title="Experts on a grid of temperatures: regret, and knowledge of the whole",
    paper="SparQ-GP-UCB and W-SparQ-GP-UCB outperform the others in regret, W-SparQ-GP-UCB in the "
    "squared prediction error over the grid as well.",
    horizon=HORIZON,
    trials=117,
    cases=_CASES,
    score=_judge,
    picture=_draw,
    record=(PredictionError(),),
    remark="Hourly anomalies of a reanalysis over the United Kingdom in place of monthly ones of "
    "Berkeley Earth over France; α = 1, which the paper tunes.",
    quick=Quick(trials=2, horizon=60),
)
