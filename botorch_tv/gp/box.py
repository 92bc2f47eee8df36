"""The prior of a strategy on a box: kernel, noise and decay, learned or given."""

from __future__ import annotations

import copy
import functools
import math
from dataclasses import dataclass, field
from functools import cached_property

import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.even_points import even_points
from botorch_tv.forgetting import Decay
from botorch_tv.gp.basis import Basis
from botorch_tv.gp.cholesky import inverted, pivoted_cholesky
from botorch_tv.gp.covariance import (
    EVALUATED_TOLERANCE,
    describe_kernel,
    evaluated,
    require_semidefinite,
    require_symmetric,
)
from botorch_tv.gp.point_kernel import General, PointKernel, point_kernel
from botorch_tv.gp.tensors import DeviceCopies, Scratch


@dataclass(frozen=True, eq=False)
class BoxPrior:
    """A prior over functions on a box.

    Attributes:
        kernel: The spatial kernel. All trials share a given kernel; a learned kernel is a batch
            with one member per trial.
        variance: Largest prior variance among the centre, two corners and some other points of the
            box, scalar. All computations use the dtype and device of ``variance``.
        decay: Learned decay, which replaces the strategy's decay; None if the decay is given.
        noise_factor: Learned noise variance divided by the strategy's noise variance, `trials`;
            None means 1.
        given: The prior before learning; None if nothing was learned.
        parameters: Learned parameters, from which the next fit starts, `trials x p`.
        scratch: Buffers for intermediate results.
    """

    kernel: Kernel
    variance: Tensor
    decay: Decay | None = None
    noise_factor: Tensor | None = None
    given: BoxPrior | None = None
    parameters: Tensor | None = None
    scratch: Scratch = field(default_factory=Scratch)

    @cached_property
    def scale(self) -> float:
        """Prior standard deviation; the tolerance for ties is a multiple of this number."""
        return math.sqrt(float(self.variance))

    def unlearned(self) -> BoxPrior:
        """The prior before learning."""
        return self if self.given is None else self.given

    @property
    def points(self) -> PointKernel:
        """The kernel, prepared for evaluation at points."""
        return point_kernel(self.kernel)


def box_prior_at(points: Tensor, kernel: Kernel | Tensor) -> BoxPrior:
    """The prior on a box for a given kernel, before anything is learned.

    Args:
        points: Some points of the box with their context, `q x (d + c)`.
        kernel: The kernel of the strategy.

    Raises:
        InputDataError: If the kernel is a matrix, if it has a batch shape, or if it cannot be
            evaluated. If the covariance matrix of the points is not finite, not symmetric or not
            positive semi-definite, or if it has no positive variance. If the values of the kernel
            for a batch of trials, or with ``diag=True``, differ from the covariance matrix of the
            points.
    """
    if isinstance(kernel, Tensor):
        raise InputDataError(
            f"the kernel is a matrix over {len(kernel)} arms, but a box has infinitely many "
            "points; pass a GPyTorch kernel, or use a Grid."
        )
    own = copy.deepcopy(kernel).to(points).requires_grad_(False)
    matrix = evaluated(kernel, points.double())
    require_symmetric(matrix, EVALUATED_TOLERANCE)
    _require_consistent(kernel, points.double(), matrix)
    require_semidefinite(0.5 * (matrix + matrix.T))
    return BoxPrior(own, matrix.diagonal().amax().to(points))


@torch.no_grad()
def _require_consistent(kernel: Kernel, points: Tensor, matrix: Tensor) -> None:
    """Raise unless a kernel gives equal values in a batch, for few points and by ``diag``."""
    asked = point_kernel(copy.deepcopy(kernel).to(points).requires_grad_(False))
    if not isinstance(asked, General):
        return
    trials, first = points.expand(2, -1, -1), points[:1].expand(2, -1, -1)
    limit = EVALUATED_TOLERANCE * float(matrix.abs().max())
    found = asked.variance(trials), asked.covariance(trials, first)
    for values, wanted in zip(found, (matrix.diagonal(), matrix[:, :1])):
        if values.shape != (2, *wanted.shape) or not bool((values - wanted).abs().max() <= limit):
            raise InputDataError(
                f"the kernel {describe_kernel(kernel)} is inconsistent: at the same points, its "
                "covariances for a batch of trials, or its variances with diag=True, differ from "
                "its covariance matrix. Compute elementwise over x1 `... x n x d` and x2 "
                "`... x m x d`, return the diagonal for diag=True, and do not change inputs or "
                "stored tensors."
            )


CANDIDATES = 2048
"""Approximate number of points from which the nodes of a basis are selected, and at which the error
of the basis is measured."""
PASSES = 6
"""Largest number of attempts to find the nodes of a basis. Each attempt adds candidates at points
where the error of the previous attempt exceeds the tolerance."""


class PointBasis(Basis):
    """A basis of functions φ on a box, one function per node.

    Methods with an argument ``index`` expect the values φ(x) of a point x, `r`, instead of the
    number of an arm.

    Args:
        box_prior: The prior with the exact kernel.
        X: The nodes Z, `r x d`.
        inverse: L⁻¹, lower triangular, `r x r`, where L Lᵀ = k(Z, Z) and φ(x) = L⁻¹ k(Z, x).
        error: Largest measured k(x, x) - |φ(x)|², as a share of the largest k(x, x).
        least_noise: Smallest noise variance that the basis supports; for smaller noise variances,
            ``error`` is too large.
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
        raise NotImplementedError("nodes are selected in the dtype and on the device of a state")

    @property
    def kernel(self) -> Kernel:
        """The exact kernel."""
        return self.box_prior.kernel

    def covariance(self, X: Tensor) -> Tensor:
        """Covariances k(X, Z), `trials x q x d -> trials x q x r`; differentiable."""
        return self.points.covariance(X, self.X.expand(len(X), -1, -1))

    def at(self, X: Tensor) -> Tensor:
        """Values of φ at points, `* x d -> * x r`; differentiable."""
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


def point_basis(
    box_prior: BoxPrior, corners: Tensor, *, tolerance: float, least_noise: float, most: int
) -> PointBasis | int:
    """The smallest basis whose error is within a tolerance.

    Args:
        box_prior: The prior with the exact kernel.
        corners: Corners of the box, `2 x d`.
        tolerance: Largest allowed error, as a share of the largest variance.
        least_noise: Smallest noise variance that the basis must support.
        most: Largest number of nodes.

    Returns:
        The basis, or the number ``most`` if the tolerance requires more than ``most`` nodes.
    """
    lower, upper = corners
    kernel, dim = box_prior.points, corners.shape[1]
    limit = tolerance * float(box_prior.variance)

    def in_box(U: DeviceCopies) -> Tensor:
        return lower + (upper - lower) * U.on(corners.dtype, corners.device)

    few = in_box(scattered(dim, PASSES))[: 2 * most]
    if len(_pivoted(kernel, few, most + 1, limit)[1]) > most:
        return most  # a few points suffice to show that the tolerance requires more nodes
    some = in_box(regular(dim))
    for number in range(PASSES):
        columns, places = _pivoted(kernel, some, most + 1, limit)
        nodes = some[places]
        if len(nodes) > most:
            return most
        L = torch.tril(columns[places])
        inverse = inverted(L)
        fresh = in_box(scattered(dim, number))
        basis = PointBasis(box_prior, nodes, inverse, 0.0, least_noise)
        residual = kernel.variance(fresh.unsqueeze(0))[0] - basis.at(fresh).square().sum(-1)
        worst = float(residual.max())
        if worst <= 2 * limit:
            basis.error = max(worst, limit) / float(box_prior.variance)
            return basis
        some = torch.cat([nodes, fresh[residual > limit]])
    return most


@functools.lru_cache(maxsize=16)
def regular(dim: int) -> DeviceCopies:
    """Chebyshev points of the unit cube and its boundary, `M x d`; scattered points if d > 4."""
    per_axis = min(512, round(CANDIDATES ** (1 / dim)))
    if per_axis < 6:
        return scattered(dim, PASSES)
    angle = math.pi / (per_axis - 1) * torch.arange(per_axis, device="cpu").double()
    line = 0.5 - 0.5 * torch.cos(angle)
    return DeviceCopies(torch.cartesian_prod(*[line] * dim).view(-1, dim))


@functools.lru_cache(maxsize=16)
def scattered(dim: int, number: int) -> DeviceCopies:
    """Points that fill the unit cube evenly: inside, on faces, on edges and in corners.

    Args:
        dim: Dimension d of the cube.
        number: Seed of the sequence of points; different seeds give different points.
    """
    drawn = even_points(CANDIDATES, dim + 1, seed=1 + number)
    points, share = drawn[:, :dim], 2 * drawn[:, dim:]
    # Each point has its own threshold. A coordinate whose distance from 0 or 1 is below the
    # threshold of its point is rounded to 0 or 1.
    near = (points - 0.5).abs() >= 0.5 * share
    return DeviceCopies(torch.where(near, points.round(), points))


def _pivoted(kernel: PointKernel, X: Tensor, most: int, limit: float) -> tuple[Tensor, list[int]]:
    """Pivoted Cholesky columns and pivots' indices for points `M x d`, without M x M matrices."""
    whole = X.unsqueeze(0)

    def row(place: int) -> Tensor:
        return kernel.covariance(whole[:, place : place + 1], whole)[0, 0]

    columns, _, _, places = pivoted_cholesky(kernel.variance(whole)[0], row, most, limit)
    return columns, places
