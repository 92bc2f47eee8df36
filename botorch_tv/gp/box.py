"""What a strategy on a box holds its objective to be: kernel, noise and decay, learned or given."""

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
        kernel: The spatial covariance, one for all trials or, where it is learned, with a batch of
            one member per trial.
        variance: Largest prior variance in the middle of the box, in two corners and at some
            points between, a 0-dimensional tensor; its dtype and device are those of all that is
            computed.
        decay: Learned decay, which takes the strategy's place; None where it is given.
        noise_factor: Learned noise variance as a multiple of the strategy's, `trials`; None for 1.
        given: The prior before anything was learned; None where this is it.
        parameters: What was learned, for starting from it the next time, `trials x p`.
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
        """Prior standard deviation, the unit of the tie rule."""
        return math.sqrt(float(self.variance))

    def unlearned(self) -> BoxPrior:
        """The prior before anything was learned."""
        return self if self.given is None else self.given

    @property
    def points(self) -> PointKernel:
        """The kernel, ready for evaluation."""
        return point_kernel(self.kernel)


def box_prior_at(points: Tensor, kernel: Kernel | Tensor) -> BoxPrior:
    """The prior before anything is learned.

    Args:
        points: Some points of the box with their context, `q x (d + c)`.
        kernel: Of the strategy.

    Raises:
        InputDataError: If the kernel is a matrix, has a batch shape, cannot be evaluated, is not
            finite and symmetric, has no positive variance or a negative eigenvalue, or answers
            otherwise when it is asked for trials together or for variances alone.
    """
    if isinstance(kernel, Tensor):
        raise InputDataError(
            f"the kernel is a matrix over {len(kernel)} arms, but a box has more points than that; "
            "pass a GPyTorch kernel, or use a Grid."
        )
    own = copy.deepcopy(kernel).to(points).requires_grad_(False)
    matrix = evaluated(kernel, points.double())
    require_symmetric(matrix, EVALUATED_TOLERANCE)
    _require_consistent(kernel, points.double(), matrix)
    require_semidefinite(0.5 * (matrix + matrix.T))
    return BoxPrior(own, matrix.diagonal().amax().to(points))


@torch.no_grad()
def _require_consistent(kernel: Kernel, points: Tensor, matrix: Tensor) -> None:
    """Raise where a kernel of one's own says another thing when it is asked in another way.

    A round asks it for trials together, for rectangles, and for variances alone.
    """
    asked = point_kernel(copy.deepcopy(kernel).to(points).requires_grad_(False))
    if not isinstance(asked, General):
        return
    trials, first = points.expand(2, -1, -1), points[:1].expand(2, -1, -1)
    limit = EVALUATED_TOLERANCE * float(matrix.abs().max())
    found = asked.variance(trials), asked.covariance(trials, first)
    for values, wanted in zip(found, (matrix.diagonal(), matrix[:, :1])):
        if values.shape != (2, *wanted.shape) or not bool((values - wanted).abs().max() <= limit):
            raise InputDataError(
                f"the kernel {describe_kernel(kernel)} gives covariances of trials together, or "
                "variances with diag=True, that are not those of its matrix of the same points; "
                "compute elementwise over x1 `... x n x d` and x2 `... x m x d`, the diagonal "
                "where diag=True, and change nothing that is given or kept."
            )


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
        posterior = -reduction
        posterior.diagonal(dim1=-2, dim2=-1).add_(
            1.0 if prior_factor is None else prior_factor.unsqueeze(-1)
        )
        factor: Tensor = torch.linalg.cholesky_ex(posterior).L
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
    if len(_pivoted(kernel, few, most + 1, limit)[1]) > most:
        return most  # as is found sooner on few points
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
    """Chebyshev points of the unit cube, ends included, `M x d`; scattered ones where d > 4."""
    per_axis = min(512, round(CANDIDATES ** (1 / dim)))
    if per_axis < 6:
        return scattered(dim, PASSES)
    line = 0.5 - 0.5 * torch.cos(
        math.pi / (per_axis - 1) * torch.arange(per_axis, device="cpu").double()
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


def _pivoted(kernel: PointKernel, X: Tensor, most: int, limit: float) -> tuple[Tensor, list[int]]:
    """Columns and places of pivots among points `M x d`; few of M² covariances are looked at."""
    whole = X.unsqueeze(0)

    def row(place: int) -> Tensor:
        covariance: Tensor = kernel.covariance(whole[:, place : place + 1], whole)[0, 0]
        return covariance

    columns, _, _, places = pivoted_cholesky(kernel.variance(whole)[0], row, most, limit)
    return columns, places
