"""WGP-UCB in quadrature Fourier features against exact WGP-UCB: regret and time, [W22] §5.

    python -m benchmarks.speed.weighted_features

writes ``benchmarks/results/speed_weighted_features.json``. Regret is paired: both kernels play the
same functions and noise in one study. Time is that of one trial: of the recursion in features, of a
Cholesky factor of all observations in every round, and of this package's exact engine.
"""

from __future__ import annotations

import time
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from benchmarks.records import RESULTS, begin, write
from botorch_tv.acquisition.widths import WGPUCB, WidthContext
from botorch_tv.kernels.features import quadrature_fourier_features
from botorch_tv.simulation import AbruptWorld, RKHSFunctions, run_study
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.streams import Stream
from botorch_tv.strategies import Grid, w_gp_ucb
from botorch_tv.strategies.weighted_features import WeightedFeatures
from botorch_tv.theory import quadrature_error

TRIALS, ROUNDS, SEED = 20, 1000, 0
LENGTHSCALE, NOISE, GAMMA, B, DELTA = 0.2, 0.1, 0.98, 1.0, 0.1
POINTS, DROPPED = 26, 1e-4
SIDE = {1: 100, 2: 30}
"""Arms per dimension."""
WIDTH = WGPUCB(B=B, R=NOISE**0.5, noise=NOISE, delta=DELTA)


class Dense:
    """The formula of [W22] (2)-(3) and (5): all observations, factorised anew in every round."""

    def __init__(self, K: Tensor) -> None:
        self.K, self.arms, self.y = K, torch.empty(0, dtype=torch.int64), K.new_empty(0)

    def observe(self, arm: Tensor, y: Tensor) -> None:
        self.arms, self.y = torch.cat([self.arms, arm.view(1)]), torch.cat([self.y, y.view(1)])
        self.age = torch.arange(len(self.y) - 1, -1, -1, dtype=self.K.dtype)

    def posterior(self, arms: Tensor) -> tuple[Tensor, Tensor]:
        K = self.K[self.arms]
        root = torch.linalg.cholesky(K[:, self.arms] + torch.diag(NOISE * GAMMA**-self.age))
        spread = torch.linalg.solve_triangular(root, K, upper=False)
        data = torch.linalg.solve_triangular(root, self.y.unsqueeze(-1), upper=False)
        return (data.mT @ spread).squeeze(0), self.K.diagonal() - spread.square().sum(0)

    def double_gain(self) -> Tensor:
        weighted = torch.outer(GAMMA**self.age, GAMMA**self.age) * self.K[self.arms][:, self.arms]
        root = torch.linalg.cholesky(weighted / NOISE + torch.eye(len(self.y), dtype=self.y.dtype))
        gain: Tensor = root.diagonal().log().sum()
        return gain


def play(model: Any, rows: Tensor, values: Tensor, noise: Tensor) -> tuple[float, float]:
    """Regret and seconds of one trial; ``rows`` describe the arms to the model."""
    begun, regret, arm = time.perf_counter(), 0.0, 0
    for t, (f, error) in enumerate(zip(values, noise), 1):
        if t > 1:
            mean, variance = model.posterior(rows)
            context = WidthContext(t=t, dim=1, weighted_information_gain=model.double_gain())
            arm = int((mean + WIDTH.sqrt_beta(context) * variance.clamp_min(0).sqrt()).argmax())
        model.observe(rows[arm], f[arm] + error)
        regret += float(f.max() - f[arm])
    return regret, time.perf_counter() - begun


def measure(dim: int) -> dict[str, Any]:
    """All numbers in dimension ``dim``."""
    grid, kernel = Grid.regular(points=SIDE[dim], dim=dim), unit_kernel("se", LENGTHSCALE)
    K: Tensor = kernel(grid.X).to_dense().detach()
    size: dict[str, Any] = {"points": POINTS, "lengthscale": LENGTHSCALE}
    features = quadrature_fourier_features(grid.X, **size, dropped=DROPPED)
    functions = RKHSFunctions(kernel, terms=20)
    world = AbruptWorld(grid, functions=functions, changes=(300, 600), noise=NOISE)
    common: dict[str, Any] = {"noise": NOISE, "gamma": GAMMA, "B": B, "delta": DELTA}
    exact, near = (w_gp_ucb(kernel=each, **common) for each in (kernel, features @ features.mT))
    both = {"exact": exact, "features": near}
    study = run_study(world, both, trials=TRIALS, horizon=ROUNDS, seed=SEED, progress=False)
    gap = study.paired_difference("features", "exact")
    begun = time.perf_counter()
    run_study(world, {"exact": exact}, trials=1, horizon=ROUNDS, seed=SEED, progress=False)
    package = time.perf_counter() - begun
    stream = Stream(SEED, "world", 0, 1, dtype=torch.float64, device=torch.device("cpu"))
    values = torch.stack([f[0].clone() for f in islice(world.rounds(stream), ROUNDS)])
    generator = torch.Generator().manual_seed(SEED)
    noise = NOISE**0.5 * torch.randn(ROUNDS, dtype=torch.float64, generator=generator)
    model = WeightedFeatures(features.shape[-1], gamma=GAMMA, noise=NOISE)
    recursion = play(model, features, values, noise)
    dense = play(Dense(K), torch.arange(len(K)), values, noise)
    return {
        "arms": len(K),
        "features": features.shape[-1],
        "kernel_error": float((features @ features.mT - K).abs().max()),
        "bound": quadrature_error(**size, dim=dim) + DROPPED,
        "regret_exact": float(study.total_regret("exact").mean()),
        "regret_features": float(study.total_regret("features").mean()),
        "difference": gap.mean,
        "standard_error": gap.standard_error,
        "one_trial_regret": {"features": recursion[0], "dense": dense[0]},
        "one_trial_seconds": {"features": recursion[1], "dense": dense[1], "package": package},
        "dense_over_features": dense[1] / recursion[1],
        "package_over_features": package / recursion[1],
    }


if __name__ == "__main__":
    facts = begin(1, seed=SEED)
    settings = {"trials": TRIALS, "rounds": ROUNDS, "points": POINTS, "gamma": GAMMA}
    found: dict[str, Any] = {}
    for dim in SIDE:
        found[f"dim-{dim}"] = measure(dim)
        write({**facts, **settings, "measured": found}, RESULTS / "speed_weighted_features.json")
