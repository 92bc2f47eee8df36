"""Orthonormal coordinates in the span of the kernel at the measured points."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.even_points import even_points
from botorch_tv.gp.tensors import DeviceCopies
from botorch_tv.kernels.stationary import profile

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


class Span(NamedTuple):
    """Coordinates φ(x) = B k_x of T trials and L lengthscales, with K⁻¹ = Bᵀ B.

    Each measured point takes a slot, which has a coordinate; other slots are free. Orthonormal
    coordinates remain accurate if points are close to each other, unlike the inverse K⁻¹.
    """

    points: Tensor
    """Measured points of the unit cube, `T x L x n x d`."""
    root: Tensor
    """B, with rows and columns 0 in free slots, `T x L x n x n`."""
    used: Tensor
    """Which slots have a point, `T x L x n`, bool."""

    def at(self, U: Tensor, lengthscale: Tensor) -> Tensor:
        """Coordinates of points, `* x q x d -> * x q x n`.

        Args:
            U: Points of the unit cube.
            lengthscale: Lengthscales, `* x 1 x 1`.
        """
        return gaussian(U, self.points, lengthscale) @ self.root.mT

    def enlarged(self, more: int) -> Span:
        """The same points with further free slots."""
        pad = torch.nn.functional.pad
        root, used = pad(self.root, (0, more, 0, more)), pad(self.used, (0, more))
        return Span(pad(self.points, (0, 0, 0, more)), root, used)

    def added(
        self, u: Tensor, lengthscale: Tensor, tolerance: float, learns: Tensor
    ) -> tuple[Span, Tensor, Tensor]:
        """The span after a measurement.

        Args:
            u: The measured point, `T x d`.
            lengthscale: Lengthscales, `L x 1 x 1`.
            tolerance: Prior variance given the other points up to which they represent a point.
            learns: Which trials learn from the measurement, `T`, bool.

        Returns:
            Three results: the span; the coordinates of the point, `T x L x n`; and 1 / the
            coordinate of a new point in its slot, otherwise 0, `T x L x n`.
        """
        each = u[:, None, None]
        phi = self.at(each, lengthscale).squeeze(-2)
        rest = 1 - phi.square().sum(-1, keepdim=True)
        new = learns[:, None, None] & (rest > tolerance)
        free = torch.zeros_like(self.used).scatter_(
            -1, self.used.view(torch.uint8).argmin(-1, keepdim=True), new
        )
        apart = torch.where(new, rest, 1.0).sqrt()  # without NaN in derivatives
        # The coordinate of a new point is its component orthogonal to the span.
        across = torch.where(free, 1 / apart, 0.0)
        along = across.unsqueeze(-1) * (phi.unsqueeze(-2) @ self.root)
        root = self.root - along + torch.diag_embed(across)
        points = torch.where(free.unsqueeze(-1), each, self.points)
        return Span(points, root, self.used | free), torch.where(free, apart, phi), across

    def without(self, slot: Tensor, where: Tensor) -> tuple[Span, Tensor]:
        """The span without some points, whose coordinates take a common direction first.

        A reflection H = I - w wᵀ of the coordinates turns the only direction that depends on the
        point into the coordinate of its slot, which is then free.

        Args:
            slot: The slots of the points, `T x L`, int64.
            where: Where a point is removed, `T x L`, bool.

        Returns:
            Two results: the span; and w, 0 without a removal, `T x L x n`.
        """
        at = slot.unsqueeze(-1)
        gone = torch.zeros_like(self.used).scatter_(-1, at, where.unsqueeze(-1))
        v = self.root.take_along_dim(at.unsqueeze(-2), -1).squeeze(-1)
        v = v / torch.linalg.vector_norm(v, dim=-1, keepdim=True)
        w = v + gone * torch.where(v < 0, -1.0, 1.0)  # without cancellation
        w = w * (2 / w.square().sum(-1, keepdim=True)).sqrt()
        w = torch.where(where.unsqueeze(-1), w, 0.0)  # NaN in trials without points
        root = self.root - w.unsqueeze(-1) * (w.unsqueeze(-2) @ self.root)
        root = root.masked_fill(gone.unsqueeze(-1) | gone.unsqueeze(-2), 0.0)
        return Span(self.points, root, self.used & ~gone), w
