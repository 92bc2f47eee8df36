"""Xopt's time-dependent upper confidence bound, whose clock is set to the world's."""

from __future__ import annotations

import types

import numpy as np
import pandas as pd
import torch
from xopt.generators.bayesian import time_dependent
from xopt.generators.bayesian.upper_confidence_bound import TDUpperConfidenceBoundGenerator
from xopt.vocs import VOCS

from benchmarks.peers.protocol import Peer

FIRST = 5
"""Random points before there is a model."""


class TimeDependent(Peer):
    """Asked for a candidate at a time."""

    def __init__(self, dim: int, seed: int) -> None:
        super().__init__(dim, seed)
        torch.manual_seed(seed)
        self.names = [f"x{i}" for i in range(dim)]
        vocs = VOCS(
            variables={name: [0.0, 1.0] for name in self.names}, objectives={"y": "MAXIMIZE"}
        )
        self.generator = TDUpperConfidenceBoundGenerator(vocs=vocs, added_time=1e-6)
        self.clock = 0.0
        clock = types.SimpleNamespace(time=lambda: self.clock, sleep=self._sleep)
        time_dependent.time = clock
        self.random, self.count = np.random.default_rng([seed, 3]), 0

    def _sleep(self, seconds: float) -> None:
        self.clock += seconds

    def ask(self, now: float) -> np.ndarray:
        self.clock = now
        if self.count < FIRST:
            return self.random.random(self.dim)
        (candidate,) = self.generator.generate(1)
        return np.array([candidate[name] for name in self.names])

    def tell(self, x: np.ndarray, now: float, y: float) -> None:
        row = dict(zip(self.names, x)) | {"y": y, "time": now}
        self.generator.add_data(pd.DataFrame([row]))
        self.count += 1
