"""What every peer is: something that is asked for a point and told what came out."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np


class Peer(ABC):
    """A loop of somebody's, made for points of the unit cube; the larger a value the better.

    Args:
        dim: Number of coordinates d.
        seed: Of its random numbers.
    """

    def __init__(self, dim: int, seed: int) -> None:
        self.dim, self.seed = dim, seed

    @staticmethod  # noqa: B027 # most have nothing to do
    def prepare() -> None:
        """What its program does for the whole process, before one is made."""

    @abstractmethod
    def ask(self, now: float) -> np.ndarray:
        """Where to measure at this time, `d`."""

    @abstractmethod
    def tell(self, x: np.ndarray, now: float, y: float) -> None:
        """What was measured there and then."""


class Random(Peer):
    """Points by chance."""

    def __init__(self, dim: int, seed: int) -> None:
        super().__init__(dim, seed)
        self.generator = np.random.default_rng([seed, 1])

    def ask(self, now: float) -> np.ndarray:
        return self.generator.random(self.dim)

    def tell(self, x: np.ndarray, now: float, y: float) -> None:
        pass
