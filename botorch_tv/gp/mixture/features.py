"""Whitened features of the squared exponential kernel: g(x) = φ(x)ᵀθ with θ standard normal."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from botorch_tv.even_points import even_points
from botorch_tv.gp.cholesky import inverted, pivoted_cholesky
from botorch_tv.gp.tensors import without_gradients
from botorch_tv.kernels.stationary import profile

WELL_APPROXIMATED = 3
"""Largest number of coordinates for which features represent almost all of the prior variance."""
WALLS = 0.25
"""Share of the weight of an axis that is placed at its two ends, because maxima are frequent
there."""
LEAST = 1e-13
"""Smallest variance with which a feature of one coordinate is retained; smaller variances are
rounding errors."""
MOST_NODES = 1024
"""Largest number of quadrature nodes of an axis."""
POINTS = 4096
"""Number of points of the cube at which the error of the features is measured; half of the points
are on faces of the cube."""
BETWEEN = 0.25
"""Share of the tolerance that the unrepresented variance may reach at the measured points, because
the unrepresented variance is slightly larger between these points."""
MANY = 8
"""Largest number of coordinates for which all corners of a cube are used."""
JITTER = 2.0**-20
"""Variance added to the diagonal of a covariance of points before it is factored."""


class Products:
    """φ_j(u) = ∏_i ψ_n(u_i) with n = number_ji: products of features of one coordinate.

    The kernel is a product over coordinates, and so are its Karhunen-Loève functions over a cube.
    For one axis, ψ_n(x) = Σ_m A_nm exp(-(x - z_m)² / 2ℓ²) comes from quadrature (Nyström). The
    features are a projection, so the kernel minus φ(u)ᵀφ(u') is also a covariance.

    Args:
        number: Indices n of every feature, counted from 0, `r x d`, int64.
        nodes: Nodes z, `M`.
        inverse: Weights A, `N x M`.
        lengthscale: Lengthscale ℓ.

    Attributes:
        size: Number r of features.
    """

    def __init__(self, number: Tensor, nodes: Tensor, inverse: Tensor, lengthscale: float) -> None:
        self.number, self.nodes, self.inverse = number, nodes, inverse
        self.lengthscale, self.size = lengthscale, len(number)

    def at(self, U: Tensor) -> Tensor:
        """Features of points of the unit cube, `* x d -> * x r`."""
        points = U.reshape(-1, U.shape[-1])
        away = (points.T.unsqueeze(-2) - self.nodes.unsqueeze(-1)) / self.lengthscale
        axes = self.inverse @ profile(away.square(), math.inf)  # d x N x points
        # A feature is a row, because rows are copied several times faster than columns.
        features = axes[0].index_select(0, self.number[:, 0])
        for axis, number in zip(axes[1:], self.number.T[1:]):
            features = features * axis.index_select(0, number)
        return features.T.reshape(*U.shape[:-1], self.size)


class Inducing:
    """φ(u) = A k(Z, u) with A k(Z, Z) Aᵀ = I, the projection on inducing points Z.

    Args:
        points: Inducing points Z, `n x d`.
        inverse: Weights A, `r x n`.
        lengthscale: Lengthscale ℓ.

    Attributes:
        size: Number r of features.
    """

    def __init__(self, points: Tensor, inverse: Tensor, lengthscale: float) -> None:
        self.points, self.inverse = points, inverse
        self.lengthscale, self.size = lengthscale, len(inverse)

    def at(self, U: Tensor) -> Tensor:
        """Features of points, `* x d -> * x r`."""
        return gaussian(U, self.points, self.lengthscale) @ self.inverse.T


CubeFeatures = Products | Inducing


@without_gradients
def features(
    lengthscale: float, columns: int, tolerance: float, most: int, like: Tensor
) -> Products:
    """Features of a unit squared exponential kernel on the unit cube.

    Among all sets of equally many features, Karhunen-Loève features leave the least variance
    unexplained on average over points of the cube. In each coordinate, the average over points
    gives a quarter of the weight to the values 0 and 1 together, and spreads the other three
    quarters evenly over [0, 1]. In one or two coordinates, with the default lengthscales of a bank,
    at most 200 features suffice for an error of 0.001. For more coordinates,
    benchmarks/results/ablations.md lists the errors with 320 features.

    Args:
        lengthscale: Lengthscale ℓ.
        columns: Dimension d of the cube.
        tolerance: Largest allowed error of the kernel; exceeded if ``most`` features do not
            suffice.
        most: Largest number of features.
        like: A tensor of the dtype and device of the features.
    """
    found = _found(lengthscale, columns, tolerance, most)
    number = found.number.to(like.device)
    return Products(number, found.nodes.to(like), found.inverse.to(like), lengthscale)


@functools.lru_cache(maxsize=16)  # shared by all loops with the same number of parameters
def _found(lengthscale: float, columns: int, tolerance: float, most: int) -> Products:
    nodes, inverse, variance = axis_features(lengthscale)
    every = Products(_largest(variance, columns, most), nodes, inverse, lengthscale)
    U = torch.cat([_filling(columns, POINTS), _corners(columns)])
    lost = 1 - every.at(U).square().cumsum(-1).amin(0)
    enough = min(int((lost > BETWEEN * tolerance).sum()) + 1, every.size)
    return Products(every.number[:enough], nodes, inverse, lengthscale)


def axis_features(lengthscale: float) -> tuple[Tensor, Tensor, Tensor]:
    """Three tensors: nodes z of an axis, `M`; weights A, `N x M`; and variances, `N`.

    The variances of the N features are in descending order. Points are weighted uniformly along the
    axis, except that the share :data:`WALLS` of the weight is at the two ends.
    """
    inner, weight = _legendre(min(MOST_NODES, 16 + math.ceil(4 / lengthscale)))
    ends = torch.tensor([0.0, 1.0], dtype=torch.float64, device="cpu")
    nodes = torch.cat([inner, ends])
    root = torch.cat([(1 - WALLS) * weight, torch.full_like(ends, WALLS / 2)]).sqrt()
    away = (nodes.unsqueeze(-1) - nodes) / lengthscale
    covariance = profile(away.square(), math.inf)
    variance, vectors = torch.linalg.eigh(root.unsqueeze(-1) * covariance * root)
    good = variance > LEAST
    variance, vectors = variance[good].flip(0), vectors[:, good].flip(-1)
    # The sign is arbitrary; features are made positive at the upper end.
    vectors = vectors * torch.where(vectors[-1] < 0, -1.0, 1.0)
    return nodes, (vectors * root.unsqueeze(-1) / variance.sqrt()).T.contiguous(), variance


def _legendre(number: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights of Gauss-Legendre quadrature on [0, 1] (Golub and Welsch, 1969)."""
    k = torch.arange(1, number, dtype=torch.float64, device="cpu")
    beside = torch.diag(k / (4 * k.square() - 1).sqrt(), 1)
    nodes, vectors = torch.linalg.eigh(beside + beside.T)
    return 0.5 * (nodes + 1), vectors[0].square()


def _largest(variance: Tensor, columns: int, most: int) -> Tensor:
    """The r largest products of d variances, as the indices of their factors, `r x d`, int64."""
    logs = variance.log()
    total, number = logs.new_zeros(1), torch.zeros(1, 0, dtype=torch.int64, device="cpu")
    for _ in range(columns):
        sums = (total.unsqueeze(-1) + logs).flatten()
        # Index tuples that are permutations of each other tie. Coarse sums make the order of the
        # tuples independent of rounding errors.
        order = (sums * 1e6).round().argsort(descending=True, stable=True)[:most]
        number = torch.cat([number[order // len(logs)], (order % len(logs)).unsqueeze(-1)], -1)
        total = sums[order]
    return number


def features_among(
    U: Tensor, lengthscale: float, tolerance: float, most: int, like: Tensor
) -> Inducing:
    """Features of the squared exponential kernel on a feasible subset of the cube.

    The next inducing point is always the point at which the present features represent the least
    prior variance. For coordinates with few values, far fewer points suffice than in a cube.

    Args:
        U: Feasible points of the unit cube, `n x d`, float64.
        lengthscale: Lengthscale ℓ.
        tolerance: Largest prior variance that the features may fail to represent at any point of
            ``U``.
        most: Largest number of features.
        like: A tensor of the dtype and device of the features.
    """
    U = U.cpu()

    def row(place: int) -> Tensor:
        return gaussian(U[place : place + 1], U, lengthscale)[0]

    *_, places = pivoted_cholesky(U.new_ones(len(U)), row, most, tolerance)
    Z = U[places]
    covariance = gaussian(Z, Z, lengthscale)
    covariance.diagonal().add_(JITTER)
    inverse = inverted(torch.linalg.cholesky(covariance))
    return Inducing(Z.to(like), inverse.to(like), lengthscale)


def directions(table: Tensor, tolerance: float) -> Tensor:
    """The fewest Karhunen-Loève combinations of features that suffice for finitely many points.

    Args:
        table: Features of every point, `M x r`.
        tolerance: Largest variance that the combinations may fail to represent at any point.

    Returns:
        Orthonormal columns in descending order of variance, `r x s`.
    """
    _, vectors = torch.linalg.eigh(table.T @ table)
    # Columns are in ascending order of variance. Drop the first columns as long as the lost
    # variance stays within the tolerance.
    needed = (table @ vectors).square().cumsum(-1).amax(0) > tolerance
    worthy: Tensor = vectors[:, needed].flip(-1).contiguous()
    return worthy


def _corners(columns: int) -> Tensor:
    """Corners of the unit cube, `* x columns`: all corners, or a sample if ``columns`` is large."""
    if columns > MANY:
        return even_points(2**MANY, columns).round()
    ends = torch.tensor([0.0, 1.0], dtype=torch.float64, device="cpu")
    return torch.cartesian_prod(*[ends] * columns).view(-1, columns)


def _filling(columns: int, number: int) -> Tensor:
    """Points, `number x columns`: half fill the unit cube, half its faces."""
    points = even_points(number, columns)
    row = torch.arange(number // 2, device="cpu")
    points[row, row % columns] = (row // columns % 2).to(points)
    return points


def gaussian(U: Tensor, Z: Tensor, lengthscale: float) -> Tensor:
    """Squared exponential covariances, `* x q x n`, of points `* x q x d` with points `n x d`."""
    square = U.square().sum(-1, keepdim=True) + Z.square().sum(-1) - 2 * U @ Z.T
    return profile(square.clamp_min(0) / lengthscale**2, math.inf)


FeaturePull = Callable[[Tensor], Tensor]
"""Maps derivatives with respect to features, `* x r`, to derivatives with respect to points,
`* x d`."""


class StackedProducts:
    """Products of features of one coordinate, concatenated over several lengthscales."""

    def __init__(self, parts: Sequence[Products]) -> None:
        places, before = [], 0
        for part in parts:
            places.append(part.number.T + before)
            before += len(part.inverse)
        # For each product: the index of each coordinate's feature, `1 x d x r`.
        self._place = torch.cat(places, -1).unsqueeze(0)
        self._nodes = torch.cat([part.nodes for part in parts])
        sharpness = [torch.full_like(part.nodes, part.lengthscale**-2) for part in parts]
        self._sharpness = torch.cat(sharpness)
        # Maps kernels at the nodes to features of a coordinate.
        self._inverse = torch.block_diag(*[part.inverse.T for part in parts])  # type: ignore[no-untyped-call]

    def at(self, U: Tensor) -> tuple[Tensor, FeaturePull]:
        """Features of points of the unit cube, `* x d -> * x r`, and a function for derivatives."""
        away = self._nodes - U.reshape(-1, U.shape[-1], 1)
        steep = away * self._sharpness
        kernel = profile(away * steep, math.inf)
        place = self._place.expand(len(away), -1, -1)
        axes = (kernel @ self._inverse).gather(-1, place)

        def pull(by: Tensor) -> Tensor:
            slopes = ((steep * kernel) @ self._inverse).gather(-1, place)
            axis, products = axes.unbind(-2), [by.reshape(len(away), -1)]
            # For each axis: the derivative times the features of all later axes, then times the
            # features of all earlier axes.
            for factor in axis[:0:-1]:
                products.append(products[-1] * factor)
            before = axis[0]
            for number, factor in enumerate(axis[1:], 1):
                products[-1 - number] = products[-1 - number] * before
                before = before * factor
            total: Tensor = (slopes * torch.stack(products[::-1], -2)).sum(-1).view_as(U)
            return total

        return axes.prod(-2).view(*U.shape[:-1], -1), pull


class StackedInducing:
    """Features of several lengthscales, concatenated; each lengthscale has its inducing points."""

    def __init__(self, parts: Sequence[Inducing]) -> None:
        self._parts = parts

    def at(self, U: Tensor) -> tuple[Tensor, FeaturePull]:
        """Features of points, and a function for derivatives, as in :class:`StackedProducts`."""
        covariances = [gaussian(U, part.points, part.lengthscale) for part in self._parts]

        def pull(by: Tensor) -> Tensor:
            total = torch.zeros_like(U)
            own = torch.split(by, [part.size for part in self._parts], -1)
            for part, own_by, covariance in zip(self._parts, own, covariances):
                slopes = (own_by @ part.inverse) * covariance
                away = slopes @ part.points - slopes.sum(-1, keepdim=True) * U
                total.add_(away, alpha=part.lengthscale**-2)
            return total

        features = [own @ part.inverse.T for own, part in zip(covariances, self._parts)]
        return torch.cat(features, -1), pull


def stacked(parts: Sequence[CubeFeatures]) -> StackedProducts | StackedInducing:
    """Concatenate the features of several lengthscales; all features must have the same class."""
    products = [part for part in parts if isinstance(part, Products)]
    inducing = [part for part in parts if isinstance(part, Inducing)]
    return StackedProducts(products) if products else StackedInducing(inducing)
