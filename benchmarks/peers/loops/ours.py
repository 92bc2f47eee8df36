"""Loops of this library."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from gpytorch.kernels import RBFKernel

from benchmarks.peers.protocol import Peer
from botorch_tv import Box, Loop, tv_gp_ucb
from botorch_tv.forgetting import EventTrigger
from botorch_tv.learning import Refit


class Adaptive(Peer):
    """``Loop(box)``."""

    @staticmethod
    def prepare() -> None:
        torch.set_default_dtype(torch.float64)

    def __init__(self, dim: int, seed: int) -> None:
        super().__init__(dim, seed)
        self.loop = Loop(self.box())

    def box(self) -> Box:
        """The unit cube."""
        return Box(torch.tensor([[0.0] * self.dim, [1.0] * self.dim]))

    def ask(self, now: float) -> np.ndarray:
        self.asked = self.loop.ask(now=now)
        return self.asked.X.numpy()

    def tell(self, x: np.ndarray, now: float, y: float) -> None:
        self.loop.tell(y, suggestion=self.asked)


class Learning(Adaptive):
    """TV-GP-UCB with an event trigger; learns rate, lengthscale, noise, mean and scale."""

    def __init__(self, dim: int, seed: int) -> None:
        Peer.__init__(self, dim, seed)
        kernel = RBFKernel()
        kernel.lengthscale = 0.2 * dim**0.5
        made = tv_gp_ucb(kernel=kernel, noise=0.05, epsilon=0.02, mean="estimated")
        self.loop = Loop(
            replace(made, retention=(EventTrigger(0.01),), learning=Refit(every=5)), self.box()
        )
        # Observations are standardised by the first five, because the prior variance is 1.
        self.first: list[tuple[np.ndarray, float, float]] = []
        self.unit: tuple[float, float] | None = None
        self.generator = np.random.default_rng([seed, 2])

    def ask(self, now: float) -> np.ndarray:
        if self.unit is None:
            return self.generator.random(self.dim)
        return super().ask(now)

    def tell(self, x: np.ndarray, now: float, y: float) -> None:
        if self.unit is not None:
            super().tell(x, now, (y - self.unit[0]) / self.unit[1])
            return
        self.first.append((x, now, y))
        if len(self.first) == 5:
            values = np.array([value for _, _, value in self.first])
            self.unit = float(values.mean()), float(values.std()) or 1.0
            for point, moment, value in self.first:
                scaled = (value - self.unit[0]) / self.unit[1]
                self.loop.observe(torch.as_tensor(point), scaled, time=moment)
