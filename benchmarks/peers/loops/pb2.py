"""Ray Tune's PB2: its time-varying kernel and the rule that picks the next configuration."""

from __future__ import annotations

import numpy as np
from ray.tune.schedulers.pb2 import _select_config

from benchmarks.peers.protocol import Peer

FIRST = 5
"""Random points before there is a model."""


class Pb2(Peer):
    """PB2 with rows of (time, x) and measurements.

    PB2 models the growth of a reward while a population trains; its rows include the reward so far.
    Here the reward does not depend on the past.
    """

    def __init__(self, dim: int, seed: int) -> None:
        super().__init__(dim, seed)
        np.random.seed(seed)  # noqa: NPY002 # it draws from NumPy's own generator
        self.random = np.random.default_rng([seed, 4])
        self.bounds = {f"x{i}": (0.0, 1.0) for i in range(dim)}
        self.rows: list[np.ndarray] = []
        self.values: list[float] = []

    def ask(self, now: float) -> np.ndarray:
        if len(self.values) < FIRST:
            return self.random.random(self.dim)
        rows, values, new = np.stack(self.rows), np.array(self.values), np.array([now])
        return np.asarray(_select_config(rows, values, None, new, self.bounds, num_f=1))

    def tell(self, x: np.ndarray, now: float, y: float) -> None:
        self.rows.append(np.array([now, *x]))
        self.values.append(y)
