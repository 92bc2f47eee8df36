"""W-DBO as its authors have it: squared exponential in space, Matérn-3/2 in time."""

from __future__ import annotations

import numpy as np
import torch
from gpytorch.kernels import MaternKernel, RBFKernel
from wdbo_algo.optimizer import WDBOOptimizer

from benchmarks.peers.protocol import Peer

torch.set_default_dtype(torch.float64)
HORIZON = 100.0
"""Rounds that its clock counts as one unit, as in its examples."""


class WDbo(Peer):
    """Asked, told and cleaned in every round."""

    def __init__(self, dim: int, seed: int) -> None:
        super().__init__(dim, seed)
        np.random.seed(seed)  # noqa: NPY002 # it draws from NumPy's own generator
        torch.manual_seed(seed)
        self.optimizer = WDBOOptimizer(
            np.array([[0.0, 1.0]] * dim),
            RBFKernel,
            MaternKernel,
            temporal_kernel_args=[1.5],
            n_initial_observations=5,
        )

    def ask(self, now: float) -> np.ndarray:
        return np.asarray(self.optimizer.next_query(now / HORIZON))

    def tell(self, x: np.ndarray, now: float, y: float) -> None:
        self.optimizer.tell(x, now / HORIZON, y)
        self.optimizer.clean(now / HORIZON)
