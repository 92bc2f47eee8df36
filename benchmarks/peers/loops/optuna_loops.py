"""Optuna's samplers, which ignore time."""

from __future__ import annotations

import numpy as np
import optuna
from optuna.samplers import BaseSampler, GPSampler, TPESampler

from benchmarks.peers.protocol import Peer

optuna.logging.set_verbosity(optuna.logging.ERROR)


class Sampled(Peer):
    """An ask-and-tell study."""

    sampler: type[BaseSampler]

    def __init__(self, dim: int, seed: int) -> None:
        super().__init__(dim, seed)
        sampler = self.sampler(seed=seed)  # type: ignore[call-arg]
        self.study = optuna.create_study(direction="maximize", sampler=sampler)

    def ask(self, now: float) -> np.ndarray:
        self.trial = self.study.ask()
        return np.array([self.trial.suggest_float(f"x{i}", 0, 1) for i in range(self.dim)])

    def tell(self, x: np.ndarray, now: float, y: float) -> None:
        self.study.tell(self.trial, y)


class Tpe(Sampled):
    """The default sampler."""

    sampler = TPESampler


class Gp(Sampled):
    """The Gaussian process."""

    sampler = GPSampler
