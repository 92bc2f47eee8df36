"""The interface of every peer."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np


class Peer(ABC):
    """An optimiser that maximises over the unit cube.

    Args:
        dim: Number of parameters d.
        seed: Seed of its random numbers.
    """

    def __init__(self, dim: int, seed: int) -> None:
        self.dim, self.seed = dim, seed

    @staticmethod  # noqa: B027 # most need none
    def prepare() -> None:
        """Set up the process before an instance is created."""

    @abstractmethod
    def ask(self, now: float) -> np.ndarray:
        """Where to measure at this time, `d`."""

    @abstractmethod
    def tell(self, x: np.ndarray, now: float, y: float) -> None:
        """Record the measurement at this point and time."""


class Random(Peer):
    """Random search."""

    def __init__(self, dim: int, seed: int) -> None:
        super().__init__(dim, seed)
        self.generator = np.random.default_rng([seed, 1])

    def ask(self, now: float) -> np.ndarray:
        return self.generator.random(self.dim)

    def tell(self, x: np.ndarray, now: float, y: float) -> None:
        pass
