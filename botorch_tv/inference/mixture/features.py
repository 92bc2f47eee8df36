"""Features of the squared exponential kernel, whitened: g(x) = φ(x)ᵀθ with θ standard normal."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_tv.even_points import even_points
from botorch_tv.inference.hilbert import BoxFeatures, box_features
from botorch_tv.inference.linalg import pivoted_cholesky
from botorch_tv.inference.modes import without_gradients

WAVE_COLUMNS = 3
"""Up to so many coordinates products of waves represent a kernel; beyond there would be too many,
and the kernel's own values at points that fill the cube take their place."""
WAVES = 4
"""Waves that are looked at for every feature, at most, those of the largest prior variances."""
POINTS = 4096
"""Points of the cube, half of them on its walls, at which waves are compared."""
BETWEEN = 0.3
"""Share of a tolerance that may be lost at these; half of it is that of the waves, and between
points up to twice as much is lost as at them."""
OWN_POINTS = 1024
OWN_BETWEEN = 0.1
"""The same where the kernel's own values there take the place of waves."""
JITTER = 2.0**-20
"""Variance added at these points, so that their covariance can be factored."""


@dataclass(frozen=True, eq=False)
class Waves:
    """Combinations of waves with fixed ends, orthonormal once these have prior variances of 1.

    Waves know nothing of the walls behind which nobody looks; a rotation by what they are worth
    between them leaves about half as many.

    Attributes:
        waves: φ.
        directions: Columns of a rotation, each row times √S(ω_j), `w x r`.
    """

    waves: BoxFeatures
    directions: Tensor

    @property
    def size(self) -> int:
        """Features r."""
        return self.directions.shape[-1]

    def at(self, U: Tensor) -> Tensor:
        """Features of points of the unit cube, `* x d -> * x r`."""
        flat: Tensor = self.waves.at(U.reshape(-1, U.shape[-1])) @ self.directions
        return flat.view(*U.shape[:-1], self.size)


@dataclass(frozen=True, eq=False)
class Inducing:
    """φ(u) = A k(Z, u) with A k(Z, Z) Aᵀ = I, a projection on what is known of some points Z.

    Attributes:
        points: Z, `n x d`.
        inverse: A, `r x n`.
        lengthscale: ℓ.
    """

    points: Tensor
    inverse: Tensor
    lengthscale: float

    @property
    def size(self) -> int:
        """Features r."""
        return len(self.inverse)

    def at(self, U: Tensor) -> Tensor:
        """Features of points, `* x d -> * x r`."""
        return gaussian(U, self.points, self.lengthscale) @ self.inverse.T


Features = Waves | Inducing


def features(
    lengthscale: float, columns: int, tolerance: float, most: int, like: Tensor
) -> Features:
    """Features of a unit squared exponential kernel on the unit cube.

    Of all as many, those of Karhunen and Loève leave the least variance on average over points, of
    which half lie on the walls. Up to three coordinates 320 are enough for an error of 0.001 at
    lengthscales from 0.1, 0.1 and 0.4. Of four, six and eight 320 leave, on average over the cube,
    5, 32 and 57 % of the variance at the least lengthscale that a bank has there, 0.1, 1 and 4 % at
    the next, and no more than 0.1 % at the largest.

    Args:
        lengthscale: ℓ.
        columns: Dimension d of the cube.
        tolerance: Error of the kernel where ``most`` are enough.
        most: Most features; of more those that tell most over all of the cube.
        like: Gives dtype and device.
    """
    return _found(lengthscale, columns, tolerance, most, like.dtype, like.device)


@functools.lru_cache(maxsize=16)  # a second to find, and every loop on as many parameters asks
@without_gradients
def _found(
    lengthscale: float,
    columns: int,
    tolerance: float,
    most: int,
    dtype: torch.dtype,
    device: torch.device,
) -> Features:
    if columns <= WAVE_COLUMNS:
        waves = box_features(lengthscale, columns, tolerance / 2)
        variance, largest = waves.density(lengthscale).sort(descending=True, stable=True)
        waves = BoxFeatures(waves.number[largest[: WAVES * most]], waves.side)
        roots = variance[: WAVES * most].sqrt().unsqueeze(-1)
        corners = torch.cartesian_prod(
            *[torch.tensor([0.0, 1.0], device="cpu").to(roots)] * columns
        )
        U = torch.cat([_filling(columns, POINTS), corners.view(-1, columns)])
        some = directions(waves.at(U) * roots.T, BETWEEN * tolerance)[:, :most]
        own = BoxFeatures(waves.number.to(device), waves.side)
        return Waves(own, (roots * some).contiguous().to(device, dtype))
    Z = _filling(columns, OWN_POINTS)
    values, vectors = torch.linalg.eigh(gaussian(Z, Z, lengthscale))
    worth = values.clamp_min(JITTER).sqrt()
    needed = _needed(vectors * worth, OWN_BETWEEN * tolerance) & (values > JITTER)
    inverse = (vectors / worth)[:, needed].flip(-1)[:, :most].T.contiguous()
    return Inducing(Z.to(device, dtype), inverse.to(device, dtype), lengthscale)


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
        return gaussian(U[place : place + 1], U, lengthscale)[0]

    found = pivoted_cholesky(U.new_ones(len(U)), row, most, tolerance)
    return _projection(U[found.places], lengthscale, like)


def directions(table: Tensor, tolerance: float) -> Tensor:
    """As few combinations of features as do at finitely many points, `M x r -> r x s`.

    Those of Karhunen and Loève: of all as many they leave the least variance over the points.

    Args:
        table: Features of every point.
        tolerance: Variance that may be lost at any point.

    Returns:
        Orthonormal columns, the worthiest first.
    """
    _, vectors = torch.linalg.eigh(table.T @ table)
    worthy: Tensor = vectors[:, _needed(table @ vectors, tolerance)].flip(-1).contiguous()
    return worthy


def _needed(table: Tensor, tolerance: float) -> Tensor:
    """Which features, the least worthy first, cannot be lost, `M x r -> r`."""
    needed: Tensor = table.square().cumsum(-1).amax(0) > tolerance
    return needed


def _filling(columns: int, number: int) -> Tensor:
    """Points that fill the unit cube, and as many that fill its walls, `number x columns`."""
    points = even_points(number, columns)
    row = torch.arange(number // 2, device="cpu")
    points[row, row % columns] = (row // columns % 2).to(points)
    return points


def _projection(Z: Tensor, lengthscale: float, like: Tensor) -> Inducing:
    covariance = gaussian(Z, Z, lengthscale)
    covariance.diagonal().add_(JITTER)
    root = torch.linalg.cholesky(covariance)
    identity = torch.eye(len(Z), dtype=torch.float64, device=Z.device)
    inverse = torch.linalg.solve_triangular(root, identity, upper=False)
    return Inducing(Z.to(like), inverse.to(like), lengthscale)


def gaussian(U: Tensor, Z: Tensor, lengthscale: float) -> Tensor:
    """Squared exponential covariances of points, `* x q x d` and `n x d` to `* x q x n`."""
    square = U.square().sum(-1, keepdim=True) + Z.square().sum(-1) - 2 * U @ Z.T
    return torch.exp(-0.5 * square.clamp_min(0) / lengthscale**2)
