"""Quadrature Fourier features of the squared exponential kernel."""

from __future__ import annotations

import math

import numpy as np
import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.validation import require, require_integer, require_number

__all__ = ["QuadratureFourierKernel", "quadrature_fourier_features"]


def quadrature_fourier_features(
    X: Tensor, *, points: int, lengthscale: float, dropped: float = 0.0
) -> Tensor:
    """Quadrature Fourier features φ of the squared exponential kernel, [W22] §5.

    Let ρ be the nodes and v the weights of the product of Gauss-Hermite rules, where the weights
    add up to 1. Then φ(x)ᵀφ(x') = Σ v cos(√2 ρᵀ(x - x') / l) approximates exp(-|x - x'|² / (2 l²)).
    A node and its negative have the same cosine, so half of the nodes suffice. The weights v
    printed in [W22] are m̄ times too large in one dimension: their denominator must contain m̄².

    Args:
        X: Points, `batch_shape x d`.
        points: Number m̄ of nodes per dimension, at least 1.
        lengthscale: l, positive, in the units of ``X``.
        dropped: Largest total weight of nodes to omit, in [0, 1); this weight bounds the additional
            error of the kernel. In two or more dimensions most weights are tiny, so most nodes can
            be omitted.

    Returns:
        The features φ of X, `batch_shape x m`, with m = ``points`` to the power d unless nodes are
        omitted. For X in [0, 1]^d, :func:`botorch_tv.theory.quadrature_error` bounds the error of
        the approximated kernel.

    Raises:
        ValueError: If an argument is out of range.
    """
    name = "quadrature_fourier_features"
    require_integer(f"{name}: points", points, 1, "the error falls with their number.")
    require_number(f"{name}: lengthscale", lengthscale, "(0, inf)", "it has the units of X.")
    require(0 <= dropped < 1, f"{name}: dropped is {dropped}, but must be in [0, 1).")
    dim = X.shape[-1]
    rule, share = np.polynomial.hermite.hermgauss(points)
    nodes = np.stack(np.meshgrid(*[rule] * dim, indexing="ij"), -1).reshape(-1, dim)
    shares = np.stack(np.meshgrid(*[share] * dim, indexing="ij"), -1).reshape(-1, dim)
    weights = shares.prod(-1) / math.pi ** (dim / 2)
    half, odd = divmod(len(nodes), 2)  # node i and node -1 - i are opposite
    nodes, weights = nodes[: half + odd], 2 * weights[: half + odd]
    if odd:
        weights[-1] /= 2  # the node at the origin has no opposite node
    ascending = np.argsort(weights)
    retained = ascending[np.cumsum(weights[ascending]) > dropped]
    frequency = torch.as_tensor(nodes[retained], dtype=X.dtype, device=X.device)
    frequency = math.sqrt(2) / lengthscale * frequency
    root = torch.as_tensor(np.sqrt(weights[retained]), dtype=X.dtype, device=X.device)
    phase = X @ frequency.mT
    turning = frequency.abs().amax(-1) > 0  # the sine feature of a node at the origin is 0
    return torch.cat([root * phase.cos(), (root * phase.sin())[..., turning]], -1)


class QuadratureFourierKernel(Kernel):  # type: ignore[misc]
    """φ(x)ᵀφ(x') with quadrature Fourier features φ, the kernel that [W22] §5 analyses.

    With this kernel a preset plays the model of :func:`quadrature_fourier_features`, for example
    ``w_gp_ucb(kernel=QuadratureFourierKernel(26, 0.2), ...)``. The lengthscale is fixed. A round
    costs as much as with other kernels; the cost per round of the recursion
    :class:`botorch_tv.strategies.weighted_features.WeightedFeatures` does not depend on the number
    of observations.

    Args:
        points: Number m̄ of nodes per dimension, at least 1.
        lengthscale: Lengthscale l, positive, in the units of the points.
        dropped: Largest total weight of nodes to omit, in [0, 1).

    Raises:
        ValueError: If an argument is out of range.
    """

    is_stationary = True

    def __init__(self, points: int, lengthscale: float, dropped: float = 0.0) -> None:
        super().__init__()
        self.points, self.scale, self.dropped = points, lengthscale, dropped
        self._features(torch.zeros(1, 1, device="cpu"))  # checks the arguments

    def _features(self, X: Tensor) -> Tensor:
        return quadrature_fourier_features(
            X, points=self.points, lengthscale=self.scale, dropped=self.dropped
        )

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: object) -> Tensor:
        """The covariance.

        Args:
            x1: Points, `batch_shape x n x d`.
            x2: Points, `batch_shape x m x d`.
            diag: Whether to return only the diagonal; it requires n = m.
            **params: Not used.

        Returns:
            The covariances, `batch_shape x n x m`, or their diagonal, `batch_shape x n`.
        """
        first, second = self._features(x1), self._features(x2)
        return (first * second).sum(-1) if diag else first @ second.mT
