"""W-DBO by its authors: Matérn-5/2 in space, Matérn-3/2 in time (their appendix H.1)."""

from __future__ import annotations

import numpy as np
import torch
from gpytorch.kernels import MaternKernel
from wdbo_algo.optimizer import WDBOOptimizer

from benchmarks.peers.protocol import Peer

FIRST = 5
"""Random points before there is a model; 15 by default."""
HORIZON = 100.0
"""Rounds in a unit of its clock; the authors' horizon is [0, 1]."""


class WDbo(Peer):
    """Asked, updated and cleaned in every round."""

    @staticmethod
    def prepare() -> None:
        torch.set_default_dtype(torch.float64)

    def __init__(self, dim: int, seed: int) -> None:
        super().__init__(dim, seed)
        np.random.seed(seed)  # noqa: NPY002 # it draws from NumPy's own generator
        torch.manual_seed(seed)
        self.optimizer = WDBOOptimizer(
            np.array([[0.0, 1.0]] * dim),
            MaternKernel,
            MaternKernel,
            spatial_kernel_args=[2.5],
            temporal_kernel_args=[1.5],
            n_initial_observations=FIRST,
        )

    def ask(self, now: float) -> np.ndarray:
        return np.asarray(self.optimizer.next_query(now / HORIZON))

    def tell(self, x: np.ndarray, now: float, y: float) -> None:
        self.optimizer.tell(x, now / HORIZON, y)
        self.optimizer.clean(now / HORIZON)
