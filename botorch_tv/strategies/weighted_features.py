"""Exponentially weighted regression in finitely many features, for WGP-UCB of [W22] §5.

Time per round and memory do not depend on the number of observations.
"""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_tv.validation import require_integer, require_number

__all__ = ["WeightedFeatures"]


class WeightedFeatures:
    """Recursive weighted regression on φ(x), the model of WGP-UCB in m features, [W22] §5.

    An observation y with features φ changes the matrix A to γ A + φφᵀ, the vector b to γ b + φ y,
    and the doubly weighted matrix D to γ² D + φφᵀ. The posterior equals that of a regression in
    which an observation of age s has the noise variance λ γ^(-s).

    Args:
        size: Number m of features, at least 1.
        gamma: Discount γ per observation, in (0, 1].
        noise: Noise variance λ of a new observation, positive.
        batch_shape: Batch shape of independent regressions, such as trials.
        like: A tensor of any shape, with the dtype and device to use; by default float64 on the
            CPU.

    Raises:
        ValueError: If ``size``, ``gamma`` or ``noise`` is out of range.
    """

    def __init__(
        self,
        size: int,
        *,
        gamma: float,
        noise: float,
        batch_shape: tuple[int, ...] = (),
        like: Tensor | None = None,
    ) -> None:
        name = "WeightedFeatures"
        require_integer(f"{name}: size", size, 1, "give the number of features.")
        require_number(f"{name}: gamma", gamma, "(0, 1]", "1 forgets nothing.")
        require_number(f"{name}: noise", noise, "(0, inf)", "give the variance λ.")
        like = torch.zeros((), dtype=torch.float64, device="cpu") if like is None else like
        self.gamma, self.noise = gamma, noise
        self._gram = like.new_zeros(*batch_shape, size, size)
        self._double = self._gram.clone()
        self._target = like.new_zeros(*batch_shape, size)
        self._identity = torch.eye(size, dtype=like.dtype, device=like.device)

    def observe(self, row: Tensor, y: Tensor) -> None:
        """Weight earlier observations by γ and add an observation.

        Args:
            row: φ(x) of the observed point, `batch_shape x m`.
            y: The observation, `batch_shape`.
        """
        square = row.unsqueeze(-1) * row.unsqueeze(-2)
        self._gram.mul_(self.gamma).add_(square)
        self._double.mul_(self.gamma**2).add_(square)
        self._target.mul_(self.gamma).add_(row * y.unsqueeze(-1))

    def posterior(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Mean φᵀ(A + λI)⁻¹ b and variance λ φᵀ(A + λI)⁻¹ φ of f; [W22] (2)-(3) in features.

        Args:
            features: φ of the points to predict, `n x m`.

        Returns:
            Mean and variance of f, without noise, each `batch_shape x n`.
        """
        root = torch.linalg.cholesky(self._gram + self.noise * self._identity)
        coefficients = torch.cholesky_solve(self._target.unsqueeze(-1), root).squeeze(-1)
        spread = torch.linalg.solve_triangular(root, features.mT, upper=False)
        variance: Tensor = self.noise * spread.square().sum(-2)
        return coefficients @ features.mT, variance

    def double_gain(self) -> Tensor:
        """Information gain ½ ln det(I + D / λ) in nats, `batch_shape`, [W22] (5).

        In the information gain, an observation of age s has the noise variance λ γ^(-2s).
        """
        root = torch.linalg.cholesky(self._identity + self._double / self.noise)
        return root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
