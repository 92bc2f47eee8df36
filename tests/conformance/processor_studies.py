"""Writes the regret of studies of one seed to a file; it runs as a process.

Its kernels have eigenvectors that are not unique, or a rank that rounding decides; its strategies
use every way to draw from a posterior.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import torch
from gpytorch.kernels import Kernel, MaternKernel, PeriodicKernel, RBFKernel
from torch import Tensor

from botorch_tv.acquisition import Thompson
from botorch_tv.acquisition.widths import Constant
from botorch_tv.experts import sparq_gp_ucb
from botorch_tv.forgetting import ExponentialWeights, Markov, SlidingWindow
from botorch_tv.simulation import MarkovWorld, SmoothedDraw, StaticWorld, run_study
from botorch_tv.strategies import GPStrategy, Grid

NOISE = 0.02
SEED = 5


def _covariance(kernel: Kernel, X: Tensor, lengthscale: float) -> Tensor:
    kernel = kernel.double()
    kernel.lengthscale = lengthscale
    return kernel(X).to_dense().detach()


def kernels(points: int) -> Iterator[tuple[str, Grid, Tensor]]:
    """Name, arms and covariance, on squares with ``points`` per axis and on a line."""
    square, line = Grid.regular(points, 2), Grid.regular(points, 1)
    product = _covariance(RBFKernel(), square.X, 0.5)
    yield "product", square, product
    # Without its last point a circle turns into itself: its eigenvalues come in pairs.
    circle = Grid(torch.arange(4 * points).double().unsqueeze(-1) / (4 * points))
    yield "circle", circle, _covariance(PeriodicKernel(), circle.X, 1.0)
    around = _covariance(PeriodicKernel(), line.X * (points - 1) / points, 1.0)
    yield "torus", square, torch.kron(around, around)
    yield "sum", square, product + _covariance(MaternKernel(1.5), square.X[:, :1], 0.7)


def studies(points: int, horizon: int, swaps: int | None) -> dict[str, Tensor]:
    """Regret of strategies for each way to draw from a posterior, or points for an expert."""
    found = {}
    for name, grid, covariance in kernels(points):
        given = {"kernel": covariance, "noise": NOISE}
        sampling = {**given, "exploration": Thompson(), "width": Constant(1.0)}
        static = {
            "static": GPStrategy(**sampling),
            "window": GPStrategy(**sampling, retention=SlidingWindow(10)),
            "aged": GPStrategy(**sampling, inflation=ExponentialWeights(0.98)),
        }
        moving = {
            "moving": GPStrategy(**sampling, decay=Markov(0.05)),
            "exact": GPStrategy(**sampling, decay=Markov(0.05), inference="exact"),
            "swaps": sparq_gp_ucb(**given, steps=swaps),
            "exact subsets": sparq_gp_ucb(**given, steps="exact"),
        }
        smooth = StaticWorld(grid, functions=SmoothedDraw(covariance, NOISE), noise=NOISE)
        drifting = MarkovWorld(grid, kernel=covariance, epsilon=0.1, noise=NOISE)
        for world, players in ((smooth, static), (drifting, moving)):
            result = run_study(world, players, trials=3, horizon=horizon, seed=SEED, progress=False)
            for label in players:
                regret = result.regret.sel(strategy=label).values
                found[f"{label} {name}"] = torch.as_tensor(regret.copy())
    return found


if __name__ == "__main__":
    file, points, horizon = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    # Different rounding shows in any swap: a few suffice.
    swaps = 100 if points < 10 else None
    torch.save(studies(points, horizon, swaps), file)
