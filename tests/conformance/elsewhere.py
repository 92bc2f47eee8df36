"""Writes worlds, subsets and studies of one seed to a file; it runs as a process.

Its kernels have eigenvectors that are not unique, or a rank that rounding decides; its strategies
use every way to draw from a posterior.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import torch
from gpytorch.kernels import Kernel, MaternKernel, PeriodicKernel, RBFKernel
from torch import Tensor

from botorch_tv.acquisition import Thompson
from botorch_tv.acquisition.widths import Constant
from botorch_tv.experts.dpp import k_dpp
from botorch_tv.forgetting import ExponentialWeights, Markov, SlidingWindow
from botorch_tv.simulation import MarkovWorld, SmoothedDraw, StaticWorld, run_study
from botorch_tv.simulation.streams import Stream
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
    for lengthscale in (0.2, 0.5):
        product = _covariance(RBFKernel(), square.X, lengthscale)
        yield f"product {lengthscale}", square, product
    yield "isotropic", square, _covariance(MaternKernel(2.5), square.X, 1.0)
    # Without its last point a circle turns into itself: its eigenvalues come in pairs.
    circle = Grid(torch.arange(4 * points).double().unsqueeze(-1) / (4 * points))
    yield "circle", circle, _covariance(PeriodicKernel(), circle.X, 1.0)
    around = _covariance(PeriodicKernel(), line.X * (points - 1) / points, 1.0)
    yield "torus", square, torch.kron(around, around)
    yield "sum", square, product + _covariance(MaternKernel(1.5), square.X[:, :1], 0.7)


def worlds(points: int) -> dict[str, Tensor]:
    """A few rounds of a few trials, and functions of finite norm."""
    found = {}
    place = {"dtype": torch.float64, "device": torch.device("cpu")}
    for name, grid, covariance in kernels(points):
        world = MarkovWorld(grid, kernel=covariance, epsilon=0.1, noise=NOISE)
        rounds = itertools.islice(world.rounds(Stream(SEED, "world", 0, 3, **place)), 5)
        found[f"world {name}"] = torch.stack([values.clone() for values in rounds])
        smooth = SmoothedDraw(covariance, NOISE).draw(grid, Stream(SEED, "world", 0, 3, **place))
        found[f"smooth {name}"] = smooth.values
    return found


def subsets(points: int, steps: int | None) -> dict[str, Tensor]:
    """Points for an expert, by a chain of ``steps`` swaps and by the exact sampler."""
    found = {}
    for name, _, covariance in kernels(points):
        trials = covariance.expand(8, *covariance.shape)
        for sampler in (steps, "exact"):
            generator = torch.Generator().manual_seed(SEED)
            drawn = k_dpp(trials, 5, generator, steps=sampler, clip=True)
            found[f"subset {sampler} {name}"] = drawn[0]
    return found


def studies(points: int, horizon: int) -> dict[str, Tensor]:
    """Regret of strategies that play samples, one strategy for each way to draw them."""
    found = {}
    for name, grid, covariance in kernels(points):
        known = {"kernel": covariance, "noise": NOISE}
        sampling = {**known, "exploration": Thompson(), "width": Constant(1.0)}
        players = {
            "static": GPStrategy(**sampling),
            "moving": GPStrategy(**sampling, decay=Markov(0.05)),
            "window": GPStrategy(**sampling, retention=SlidingWindow(10)),
            "aged": GPStrategy(**sampling, inflation=ExponentialWeights(0.98)),
            "exact": GPStrategy(**sampling, decay=Markov(0.05), inference="exact"),
        }
        world = StaticWorld(grid, functions=SmoothedDraw(covariance, NOISE), noise=NOISE)
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
    torch.save({**worlds(points), **subsets(points, swaps), **studies(points, horizon)}, file)
