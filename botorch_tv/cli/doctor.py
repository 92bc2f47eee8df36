"""`botorch-tv doctor`: installed versions, speed, and whether results are exact."""

from __future__ import annotations

import math
import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version

import torch
from gpytorch.kernels import RBFKernel
from torch import Tensor

from botorch_tv.identity import libraries
from botorch_tv.memory import free_bytes
from botorch_tv.strategies import Grid, tv_gp_ucb

EXTRAS = {
    "study": ("xarray", "h5netcdf", "h5py", "pandas", "matplotlib", "tqdm"),
    "fast": ("numba",),
    "optuna": ("optuna",),
    "ax": ("ax-platform",),
    "gest": ("gest-api",),
    "worlds": ("gmpb", "deap"),
    "wind": ("floris",),
}
"""Optional packages, by the extra that installs them; extras for developers are omitted."""
POINTS, ROUNDS, EPSILON, NOISE, LENGTHSCALE = 30, 100, 0.03, 0.02, 0.2
TOLERANCE = 1e-8
"""Largest error at which posterior means and standard deviations count as exact, for a prior
standard deviation of 1."""


def examine() -> tuple[str, bool]:
    """The text for a bug report, and whether all results are exact."""
    lines = [f"python {platform.python_version()} on {platform.system()} {platform.machine()}"]
    lines += [f"{name} {version}" for name, version in libraries().items()]
    lines += [extra_text(extra) for extra in EXTRAS]
    lines += [
        f"{os.cpu_count()} processors, {torch.get_num_threads()} threads, "
        f"{free_bytes(torch.device('cpu')) / 2**30:.1f} GiB of memory free"
    ]
    devices = [torch.device("cuda", number) for number in range(torch.cuda.device_count())]
    for device in devices:
        name, free = torch.cuda.get_device_name(device), free_bytes(device) / 2**30
        lines.append(f"{device} {name}, {free:.1f} GiB free")
    good = True
    for device in (torch.device("cpu"), *devices):
        apart, seconds = check(device)
        exact = apart <= TOLERANCE
        good &= exact
        lines.append(
            f"{device}: {'exact' if exact else 'NOT EXACT'}: {apart:.1e} from dense regression "
            f"after {ROUNDS} rounds on {POINTS**2} arms, {1e3 * seconds / ROUNDS:.2f} ms a round"
        )
    return "\n".join(lines), good


def extra_text(extra: str) -> str:
    """Versions of the packages of an extra, and the command that installs missing packages."""
    present, missing = [], []
    for name in EXTRAS[extra]:
        try:
            present.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    parts = [", ".join(present)] if present else []
    if missing:
        parts.append(f"without {', '.join(missing)}: pip install 'botorch-tv[{extra}]'")
    return f"[{extra}] {'; '.join(parts)}"


def check(device: torch.device) -> tuple[float, float]:
    """The largest error of a strategy's posterior, and the strategy's run time in seconds.

    The errors are differences from dense regression, computed without :mod:`botorch_tv`. The
    posterior mean of dense regression is k~ᵀ (K ∘ D + σ²I)⁻¹ y, where D = (1 - ε)^(|s - t| / 2).
    """
    grid = Grid.regular(POINTS, 2)
    with torch.device("cpu"):
        kernel = RBFKernel().double()
    kernel.lengthscale = torch.tensor(LENGTHSCALE, dtype=torch.float64, device="cpu")
    strategy = tv_gp_ucb(kernel=kernel, noise=NOISE, epsilon=EPSILON)
    state = strategy.init(grid, device=device)
    arms, values = [], []
    begun = time.perf_counter()
    for t in range(ROUNDS):
        suggestion = strategy.ask(state)
        assert suggestion.index is not None
        arms.append(int(suggestion.index))
        first, second = grid.X[arms[-1]].tolist()
        values.append(math.sin(6 * first + 0.05 * t) * math.cos(5 * second))
        state, _ = strategy.tell(state, suggestion, values[-1])
    seconds = time.perf_counter() - begun
    test_points = grid.X[:: POINTS + 1]
    posterior = strategy.posterior(state, test_points.to(device))
    mean, deviation = posterior.mean.squeeze(-1), posterior.variance.squeeze(-1).sqrt()
    X, y = grid.X[arms], torch.tensor(values, dtype=torch.float64, device="cpu")
    times = torch.arange(1, ROUNDS + 1, dtype=torch.float64, device="cpu")
    retained = (1 - EPSILON) ** ((times.unsqueeze(-1) - times).abs() / 2)
    A = _kernel(X, X) * retained + NOISE * torch.eye(ROUNDS, dtype=torch.float64, device="cpu")
    k = _kernel(test_points, X) * (1 - EPSILON) ** ((ROUNDS + 1 - times) / 2)
    weights = torch.linalg.solve(A, k.mT).mT
    own_deviation = (1 - (weights * k).sum(-1)).sqrt()
    apart = torch.stack([mean.cpu() - weights @ y, deviation.cpu() - own_deviation])
    return float(apart.abs().max()), seconds


def _kernel(first: Tensor, second: Tensor) -> Tensor:
    squares = (first.unsqueeze(-2) - second.unsqueeze(-3)).square().sum(-1)
    return torch.exp(-squares / (2 * LENGTHSCALE**2))
