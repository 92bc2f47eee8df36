"""Features of the squared exponential kernel, whitened: g(x) = φ(x)ᵀθ with θ standard normal."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_tv.inference.hilbert import BoxFeatures, box_features
from botorch_tv.inference.linalg import pivoted_cholesky

WAVE_COLUMNS = 3
"""Up to so many coordinates products of waves represent a kernel; beyond there would be too many,
and the kernel's own values at points that fill the cube take their place."""
JITTER = 2.0**-20
"""Variance added at these points, so that their covariance can be factored."""


@dataclass(frozen=True, eq=False)
class Waves:
    """√S(ω_j) φ_j, waves with fixed ends whose prior variance is 1.

    Attributes:
        waves: φ.
        roots: √S(ω_j), `r`.
    """

    waves: BoxFeatures
    roots: Tensor

    @property
    def size(self) -> int:
        """Features r."""
        return len(self.roots)

    def at(self, U: Tensor) -> Tensor:
        """Features of points of the unit cube, `* x d -> * x r`."""
        return self.waves.at(U) * self.roots


@dataclass(frozen=True, eq=False)
class Inducing:
    """φ(u) = R⁻¹ k(Z, u) with R Rᵀ = k(Z, Z), the projection on some points Z.

    Attributes:
        points: Z, `r x d`.
        inverse: R⁻¹, `r x r`.
        lengthscale: ℓ.
    """

    points: Tensor
    inverse: Tensor
    lengthscale: float

    @property
    def size(self) -> int:
        """Features r."""
        return len(self.points)

    def at(self, U: Tensor) -> Tensor:
        """Features of points, `* x d -> * x r`."""
        return _gaussian(U, self.points, self.lengthscale) @ self.inverse.T


Features = Waves | Inducing


def features(
    lengthscale: float, columns: int, tolerance: float, most: int, like: Tensor
) -> Features:
    """Features of a unit squared exponential kernel on the unit cube.

    Args:
        lengthscale: ℓ.
        columns: Dimension d of the cube.
        tolerance: Error of the kernel where ``most`` are enough.
        most: Most features; of more those of the largest prior variances.
        like: Gives dtype and device.
    """
    if columns <= WAVE_COLUMNS:
        waves = box_features(lengthscale, columns, tolerance)
        variance = waves.density(lengthscale)
        largest = variance.argsort(descending=True, stable=True)[:most]
        some = BoxFeatures(waves.number[largest].to(like.device), waves.side)
        return Waves(some, variance[largest].sqrt().to(like))
    engine = torch.quasirandom.SobolEngine(columns, scramble=True, seed=0)  # type: ignore[no-untyped-call]
    Z = engine.draw(most, dtype=torch.float64)
    return _projection(Z, lengthscale, like)


def features_among(
    U: Tensor, lengthscale: float, tolerance: float, most: int, like: Tensor
) -> Inducing:
    """Features of the same kernel where not all of the cube may be chosen.

    Of points that fill what may be, the next is the one whose variance those before tell least of.
    Where coordinates take few values that is far fewer, and they tell far more, than in a cube.

    Args:
        U: Points of the unit cube, `n x d`, float64.
        lengthscale: ℓ.
        tolerance: Variance that may be left untold at any of them.
        most: Most features.
        like: Gives dtype and device.
    """
    U = U.cpu()

    def row(place: int) -> Tensor:
        return _gaussian(U[place : place + 1], U, lengthscale)[0]

    found = pivoted_cholesky(U.new_ones(len(U)), row, most, tolerance)
    return _projection(U[found.places], lengthscale, like)


def compressed(table: Tensor, tolerance: float) -> Tensor:
    """As few features of finitely many points as do, `M x r -> M x s`.

    Args:
        table: Features of every point.
        tolerance: Variance that may be lost at any point.
    """
    _, vectors = torch.linalg.eigh(table.T @ table)
    rotated: Tensor = table @ vectors  # the least first
    lost = rotated.square().cumsum(-1).amax(0)
    return rotated[:, lost > tolerance].flip(-1).contiguous()


def _projection(Z: Tensor, lengthscale: float, like: Tensor) -> Inducing:
    covariance = _gaussian(Z, Z, lengthscale)
    covariance.diagonal().add_(JITTER)
    root = torch.linalg.cholesky(covariance)
    identity = torch.eye(len(Z), dtype=torch.float64)
    inverse = torch.linalg.solve_triangular(root, identity, upper=False)
    return Inducing(Z.to(like), inverse.to(like), lengthscale)


def _gaussian(U: Tensor, Z: Tensor, lengthscale: float) -> Tensor:
    square = U.square().sum(-1, keepdim=True) + Z.square().sum(-1) - 2 * U @ Z.T
    return torch.exp(-0.5 * square.clamp_min(0) / lengthscale**2)
