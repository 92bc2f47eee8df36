"""Few functions on a box that make up a kernel, to a tolerance that is measured.

With nodes Z and k(Z, Z) = L Lᵀ the functions φ(x) = L⁻¹ k(Z, x) are those of which no combination
of k(z, ·) leaves more over: k(x, x) - |φ(x)|² is the variance of f(x) once f is known on Z, and by
the Cauchy-Schwarz inequality no covariance is further off than the largest of these. Nodes are
found greedily, each where most is left over (Müller and Schaback, 2009: a Newton basis), so any
kernel will do, and how many it takes says whether it pays.
"""

from __future__ import annotations

import functools
import math

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.even_points import even_points
from botorch_tv.inference.basis import Basis
from botorch_tv.inference.box_prior import BoxPrior
from botorch_tv.inference.linalg import PivotedFactor, pivoted_cholesky
from botorch_tv.inference.point_kernel import PointKernel
from botorch_tv.inference.tensors import DeviceCopies

CANDIDATES = 2048
"""Points, about, among which nodes are sought at a time, and by which the error is measured."""
PASSES = 6
"""How often nodes are added where more than the tolerance is found to be left over."""


class PointBasis(Basis):
    """Functions on a box in coordinates of nodes; an index is the φ of a point, `r`.

    Args:
        box_prior: The kernel as it is.
        X: The nodes Z, `r x d`.
        inverse: L⁻¹, lower triangular, `r x r`.
        error: Largest k(x, x) - |φ(x)|² that was found, as a share of the largest k(x, x).
        least_noise: Smallest noise variance of an observation for which ``error`` is small enough.
    """

    def __init__(
        self, box_prior: BoxPrior, X: Tensor, inverse: Tensor, error: float, least_noise: float
    ) -> None:
        super().__init__(len(X), X.new_ones(len(X)))
        self.box_prior, self.X, self.inverse = box_prior, X, inverse
        self.error, self.least_noise = error, least_noise
        self.points: PointKernel = box_prior.points
        self.scale = box_prior.scale

    def to(self, dtype: torch.dtype, device: torch.device) -> PointBasis:
        raise NotImplementedError("nodes are found in the dtype and on the device of a state")

    @property
    def kernel(self) -> Kernel:
        """The kernel as it is."""
        return self.box_prior.kernel

    def covariance(self, X: Tensor) -> Tensor:
        """k(X, Z), `trials x q x d -> trials x q x r`; differentiable."""
        return self.points.covariance(X, self.X.expand(len(X), -1, -1))

    def at(self, X: Tensor) -> Tensor:
        """φ, `* x d -> * x r`; differentiable."""
        flat = self.covariance(X.reshape(1, -1, X.shape[-1])) @ self.inverse.mT
        return flat.view(*X.shape[:-1], self.size)

    def row(self, index: Tensor) -> Tensor:
        return index

    def value(self, values: Tensor, index: Tensor) -> Tensor:
        return (values * index).sum(-1)

    def alone(self, index: Tensor) -> Tensor:
        return index.unsqueeze(-2)

    def expand(self, coordinates: Tensor, out: Tensor | None = None) -> Tensor:
        return coordinates

    def inner(self, rows: Tensor, index: Tensor) -> Tensor:
        return index @ rows.mT

    def gram(self, index: Tensor) -> Tensor:
        return index @ index.mT

    def draw(self, reduction: Tensor, prior_factor: Tensor | None, normal: Tensor) -> Tensor:
        return (self.root(reduction, prior_factor) @ normal.unsqueeze(-1)).squeeze(-1)

    def root(self, reduction: Tensor, prior_factor: Tensor | None) -> Tensor:
        """R, lower triangular, of a posterior covariance R Rᵀ of the coordinates; see :meth:`draw`.

        Noise keeps the least eigenvalue of the covariance far above rounding.
        """
        left = -reduction
        left.diagonal(dim1=-2, dim2=-1).add_(
            1.0 if prior_factor is None else prior_factor.unsqueeze(-1)
        )
        factor: Tensor = torch.linalg.cholesky_ex(left).L
        return factor


def point_basis(
    box_prior: BoxPrior, corners: Tensor, *, tolerance: float, least_noise: float, most: int
) -> PointBasis | int:
    """As few functions as leave no more than a tolerance of a kernel over.

    Args:
        box_prior: The kernel.
        corners: Of the box, `2 x d`.
        tolerance: As a share of the largest variance.
        least_noise: See :class:`PointBasis`.
        most: Nodes, at most.

    Returns:
        The basis, or, where so many nodes are too few, their number.
    """
    lower, upper = corners
    kernel, dim = box_prior.points, corners.shape[1]
    limit = tolerance * float(box_prior.variance)

    def in_box(U: DeviceCopies) -> Tensor:
        points: Tensor = lower + (upper - lower) * U.on(corners.dtype, corners.device)
        return points

    few = in_box(scattered(dim, PASSES))[: 2 * most]
    if len(_pivoted(kernel, few, most + 1, limit).places) > most:
        return most  # as is found sooner on few points
    some = in_box(regular(dim))
    for number in range(PASSES):
        factor = _pivoted(kernel, some, most + 1, limit)
        nodes = some[factor.places]
        if len(nodes) > most:
            return most
        L = torch.tril(factor.columns[factor.places])
        identity = torch.eye(len(nodes), dtype=L.dtype, device=L.device)
        inverse = torch.linalg.solve_triangular(L, identity, upper=False)
        fresh = in_box(scattered(dim, number))
        basis = PointBasis(box_prior, nodes, inverse, 0.0, least_noise)
        left = kernel.variance(fresh.unsqueeze(0))[0] - basis.at(fresh).square().sum(-1)
        worst = float(left.max())
        if worst <= 2 * limit:
            basis.error = max(worst, limit) / float(box_prior.variance)
            return basis
        some = torch.cat([nodes, fresh[left > limit]])
    return most


@functools.lru_cache(maxsize=16)
def regular(dim: int) -> DeviceCopies:
    """Chebyshev points of the unit cube, ends included, `M x d`; scattered ones where d > 4."""
    per_side = min(512, round(CANDIDATES ** (1 / dim)))
    if per_side < 6:
        return scattered(dim, PASSES)
    line = 0.5 - 0.5 * torch.cos(
        math.pi / (per_side - 1) * torch.arange(per_side, device="cpu").double()
    )
    return DeviceCopies(torch.cartesian_prod(*[line] * dim).view(-1, dim))


@functools.lru_cache(maxsize=16)
def scattered(dim: int, number: int) -> DeviceCopies:
    """Points that fill the unit cube evenly: inside, on sides, on edges and in corners.

    Args:
        dim: Dimension d of the cube.
        number: Other numbers give other points.
    """
    drawn = even_points(CANDIDATES, dim + 1, seed=1 + number)
    points, share = drawn[:, :dim], 2 * drawn[:, dim:]
    # Half of them have coordinates at an end: those nearer to it than a share, from none to all.
    near = (points - 0.5).abs() >= 0.5 * share
    return DeviceCopies(torch.where(near, points.round(), points))


def _pivoted(kernel: PointKernel, X: Tensor, most: int, limit: float) -> PivotedFactor:
    """Pivots among some points, `M x d`; few of the M² covariances are looked at."""
    whole = X.unsqueeze(0)

    def row(place: int) -> Tensor:
        covariance: Tensor = kernel.covariance(whole[:, place : place + 1], whole)[0, 0]
        return covariance

    return pivoted_cholesky(kernel.variance(whole)[0], row, most, limit)
