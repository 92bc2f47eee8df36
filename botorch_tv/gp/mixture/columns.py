"""The measured points whose kernel columns represent a posterior."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.even_points import even_points
from botorch_tv.gp.tensors import DeviceCopies
from botorch_tv.kernels.stationary import profile

JITTER = 1e-10
"""Number added to the diagonal of a correlation matrix before a factorisation."""
GROWTH = 8
"""Smallest number of free slots that are added together."""
FREQUENCIES = 512
"""Number of frequencies of a sampled function."""


def gaussian(U: Tensor, Z: Tensor, lengthscale: float | Tensor) -> Tensor:
    """Squared exponential covariances of points `* x q x d` and `* x n x d`, `* x q x n`.

    Args:
        U: Points.
        Z: Other points.
        lengthscale: A number, or a tensor of shape `* x 1 x 1`.
    """
    square = U.square().sum(-1, keepdim=True) + Z.square().sum(-1).unsqueeze(-2)
    square = square.sub(U @ Z.mT, alpha=2).clamp_min_(0)
    return profile(square / lengthscale**2, math.inf)


def waves(U: Tensor, lengthscale: float | Tensor) -> Tensor:
    """Random Fourier features of the squared exponential kernel, `* x q x d -> * x q x 2 F`.

    The F frequencies fill their distribution evenly; they are the same for all trials.
    """
    angle = U @ (_frequencies(U.shape[-1]).like(U).mT / lengthscale)
    return torch.cat([angle.cos(), angle.sin()], -1) / math.sqrt(FREQUENCIES)


@functools.lru_cache(maxsize=32)
def _frequencies(dim: int) -> DeviceCopies:
    """Frequencies for the lengthscale 1, `F x dim`."""
    return DeviceCopies(torch.special.ndtri(even_points(FREQUENCIES, dim).clamp(1e-6, 1 - 1e-6)))


class Columns(NamedTuple):
    """Points of T trials and L lengthscales in n slots; slots without a point are free."""

    points: Tensor
    """Points of the unit cube, `T x L x n x d`."""
    inverse: Tensor
    """Q = K⁻¹ of the points, with rows and columns 0 in free slots, `T x L x n x n`."""

    @property
    def used(self) -> Tensor:
        """Which slots have a point, `T x L x n`, bool."""
        return self.inverse.diagonal(dim1=-2, dim2=-1) > 0

    def enlarged(self, more: int) -> Columns:
        """The same points with further free slots."""
        return Columns(
            torch.nn.functional.pad(self.points, (0, 0, 0, more)),
            torch.nn.functional.pad(self.inverse, (0, more, 0, more)),
        )

    def added(
        self, u: Tensor, lengthscale: Tensor, tolerance: float, learns: Tensor
    ) -> tuple[Columns, Tensor, Tensor, Tensor]:
        """The columns after a measurement, with its coordinates.

        Args:
            u: The measured point, `T x d`.
            lengthscale: Lengthscales, `L x 1 x 1`.
            tolerance: Prior variance given the other points up to which they represent a point.
            learns: Which trials learn from the measurement, `T`, bool.

        Returns:
            Four results: the columns; the coordinates of the point, `T x L x n`; the slot that a
            new point takes, `T x L`, int64; and whether the point is new, `T x L`, bool.
        """
        each = u[:, None, None]
        k = gaussian(each, self.points, lengthscale)
        own = (k @ self.inverse).squeeze(-2)
        rest = 1 - (k.squeeze(-2) * own).sum(-1)
        new = learns.unsqueeze(-1) & (rest > tolerance)
        slot = self.used.view(torch.uint8).argmin(-1)
        at = slot.unsqueeze(-1)
        # With w = 1_slot - own, the inverse of the enlarged matrix is Q + w wᵀ / rest.
        w = (-own).scatter_(-1, at, 1.0)
        scaled = w * torch.where(new, 1 / rest, 0.0).unsqueeze(-1)
        inverse = torch.addcmul(self.inverse, scaled.unsqueeze(-1), w.unsqueeze(-2))
        place = at.unsqueeze(-1).expand(-1, -1, -1, u.shape[-1])
        point = torch.where(new[..., None, None], each, self.points.gather(-2, place))
        own = torch.where(new.unsqueeze(-1), w + own, own)
        return Columns(self.points.scatter(-2, place, point), inverse), own, slot, new

    def removed(self, slot: Tensor, where: Tensor) -> tuple[Columns, Tensor]:
        """The columns without the points in some slots (Csató and Opper, 2002).

        Column i is replaced by its projection on the others, Σ_j p_j times column j, with p_j =
        -Q_ji / Q_ii.

        Args:
            slot: The slots, `T x L`, int64.
            where: Where a point is removed, `T x L`, bool.

        Returns:
            Two results: the columns; and p, with -1 in the slot itself and 0 without a removal,
            `T x L x n`.
        """
        at = slot.unsqueeze(-1)
        row = self.inverse.take_along_dim(at.unsqueeze(-1), -2).squeeze(-2)
        own = torch.where(where.unsqueeze(-1), row.gather(-1, at), torch.inf)
        moved = -row / own
        inverse = torch.addcmul(self.inverse, row.unsqueeze(-1), moved.unsqueeze(-2))
        left = torch.zeros_like(self.used).scatter_(-1, at, where.unsqueeze(-1))
        return Columns(
            self.points, inverse.masked_fill(left.unsqueeze(-1) | left.unsqueeze(-2), 0.0)
        ), moved

    def root(self, M: Tensor) -> Tensor:
        """A root R of the covariance R Rᵀ = diag(1, Q) - M of the coordinates.

        Args:
            M: Matrix M of a history, whose first index is the constant,
                `* x (n + 1) x (n + 1)`; ``self`` has the same leading dimensions.
        """
        prior = torch.nn.functional.pad(self.inverse, (1, 0, 1, 0))
        prior[..., 0, 0] = 1.0
        size = prior.diagonal(dim1=-2, dim2=-1).sqrt()
        each = torch.where(size > 0, 1 / size, 0.0)
        C = (prior - M) * each.unsqueeze(-1) * each.unsqueeze(-2)
        # Raise the diagonal: many measurements make the covariance singular up to rounding.
        C.diagonal(dim1=-2, dim2=-1).add_(torch.where(size > 0, JITTER, 1.0))
        return torch.linalg.cholesky_ex(C).L * size.unsqueeze(-1)
