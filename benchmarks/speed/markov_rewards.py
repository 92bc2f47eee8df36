"""Rewards of the Markov world of [B16] on a regular grid of the unit square.

Independent of the library. The covariance of the squared exponential kernel is ``C ⊗ C`` with ``C``
the covariance along an axis, so ``f = A Z Aᵀ`` with ``A Aᵀ = C`` and independent normals ``Z``.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


class MarkovRewards:
    """``f_{t+1} = √(1-ε) f_t + √ε g_t`` with independent draws ``g_t`` ([B16] §2), for some trials.

    Args:
        points: Points along each axis; the grid has M = ``points²`` arms.
        lengthscale: Lengthscale of the squared exponential kernel (outputscale 1).
        epsilon: Rate of change, 0 (static) to 1 (redrawn every round).
        noise: Variance of the observation noise, one number per trial and round.
        trials: Number of independent trials B.
        seed: Seed of all draws.
        device: Device of the draws; device types have different generators.
    """

    def __init__(
        self,
        *,
        points: int,
        lengthscale: float,
        epsilon: float,
        noise: float,
        trials: int,
        seed: int,
        device: torch.device | str = "cpu",
    ) -> None:
        axis = torch.linspace(0, 1, points, dtype=torch.float64, device=device)
        distance = (axis[:, None] - axis[None, :]) / lengthscale
        eigenvalues, eigenvectors = torch.linalg.eigh(torch.exp(-0.5 * distance.square()))
        self._root = eigenvectors * eigenvalues.clamp_min(0).sqrt()  # points x points
        self._epsilon = epsilon
        self._noise = noise
        self._trials = trials
        self._generator = torch.Generator(device).manual_seed(seed)
        self.values = self._draw()  # this round's noiseless rewards, trials x M
        self._disturbance = self._draw_noise()  # trials

    def observe(self, index: Tensor) -> Tensor:
        """Noisy rewards of the arms ``index`` (`trials`) in this round, `trials`.

        Repeated calls in a round return the same.
        """
        return self.values.gather(-1, index[:, None]).squeeze(-1) + self._disturbance

    def advance(self) -> None:
        """Move to the next round."""
        if self._epsilon > 0:
            keep, renew = math.sqrt(1 - self._epsilon), math.sqrt(self._epsilon)
            self.values = keep * self.values + renew * self._draw()
        self._disturbance = self._draw_noise()

    def _draw(self) -> Tensor:
        size = self._root.shape[0]
        normals = self._normals(self._trials, size, size)
        values: Tensor = self._root @ normals @ self._root.mT
        return values.flatten(-2)

    def _draw_noise(self) -> Tensor:
        return math.sqrt(self._noise) * self._normals(self._trials)

    def _normals(self, *shape: int) -> Tensor:
        source = self._generator
        return torch.randn(shape, dtype=torch.float64, generator=source, device=source.device)
