"""Features of the squared exponential kernel, whitened: g(x) = φ(x)ᵀθ with θ standard normal."""

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
"""Up to so many coordinates the features of a bank leave out next to nothing."""
WALLS = 0.25
"""Share of the points of a side that lie at its two ends, where a maximum often does."""
LEAST = 1e-13
"""Variance of a feature of one coordinate below which it is rounding."""
MOST_NODES = 1024
"""Nodes on a side, at most."""
POINTS = 4096
"""Points of the cube, half of them on its walls, at which it is looked at what features tell."""
BETWEEN = 0.25
"""Share of a tolerance that may be lost at these; between them little more is, and on average over
the cube a tenth of the tolerance."""
MANY = 8
"""Coordinates up to which all corners of a cube are looked at."""
JITTER = 2.0**-20
"""Variance added at points, so that their covariance can be factored."""


class Products:
    """φ_j(u) = ∏_i ψ_n(u_i) with n = number_ji: products of features of one coordinate.

    The kernel is a product over coordinates, and so are its Karhunen-Loève functions over a cube;
    those of a side, ψ_n(x) = Σ_m A_nm exp(-(x - z_m)² / 2ℓ²), are found by quadrature (Nyström).
    What they leave out is a covariance itself, as it is of any projection.

    Args:
        number: n of every feature, from 0 on, `r x d`, int64.
        nodes: z, `M`.
        inverse: A, `N x M`.
        lengthscale: ℓ.

    Attributes:
        size: Features r.
    """

    def __init__(self, number: Tensor, nodes: Tensor, inverse: Tensor, lengthscale: float) -> None:
        self.number, self.nodes, self.inverse = number, nodes, inverse
        self.lengthscale, self.size = lengthscale, len(number)

    def at(self, U: Tensor) -> Tensor:
        """Features of points of the unit cube, `* x d -> * x r`."""
        points = U.reshape(-1, U.shape[-1])
        away = (points.T.unsqueeze(-2) - self.nodes.unsqueeze(-1)) / self.lengthscale
        axes = self.inverse @ profile(away.square(), math.inf)  # d x N x points
        # A feature is a row: whole rows are copied several times as fast as columns are.
        features = axes[0].index_select(0, self.number[:, 0])
        for axis, number in zip(axes[1:], self.number.T[1:]):
            features = features * axis.index_select(0, number)
        return features.T.reshape(*U.shape[:-1], self.size)


class Inducing:
    """φ(u) = A k(Z, u) with A k(Z, Z) Aᵀ = I, a projection on what is known of some points Z.

    Args:
        points: Z, `n x d`.
        inverse: A, `r x n`.
        lengthscale: ℓ.

    Attributes:
        size: Features r.
    """

    def __init__(self, points: Tensor, inverse: Tensor, lengthscale: float) -> None:
        self.points, self.inverse = points, inverse
        self.lengthscale, self.size = lengthscale, len(inverse)

    def at(self, U: Tensor) -> Tensor:
        """Features of points, `* x d -> * x r`."""
        return gaussian(U, self.points, self.lengthscale) @ self.inverse.T


Features = Products | Inducing


@without_gradients
def features(
    lengthscale: float, columns: int, tolerance: float, most: int, like: Tensor
) -> Products:
    """Features of a unit squared exponential kernel on the unit cube.

    Of all as many, those of Karhunen and Loève leave the least variance on average over points
    whose coordinates lie evenly on their sides, a quarter of them at the ends. At the lengthscales
    that a bank has there, an error of 0.001 takes no more than 200 in up to two coordinates; what
    320 leave of more is in benchmarks/results/ablations.md.

    Args:
        lengthscale: ℓ.
        columns: Dimension d of the cube.
        tolerance: Error of the kernel where ``most`` are enough.
        most: Most features.
        like: Gives dtype and device.
    """
    found = _found(lengthscale, columns, tolerance, most)
    number = found.number.to(like.device)
    return Products(number, found.nodes.to(like), found.inverse.to(like), lengthscale)


@functools.lru_cache(maxsize=16)  # every loop on as many parameters asks
def _found(lengthscale: float, columns: int, tolerance: float, most: int) -> Products:
    nodes, inverse, variance = axis_features(lengthscale)
    every = Products(_largest(variance, columns, most), nodes, inverse, lengthscale)
    U = torch.cat([_filling(columns, POINTS), _corners(columns)])
    lost = 1 - every.at(U).square().cumsum(-1).amin(0)
    enough = min(int((lost > BETWEEN * tolerance).sum()) + 1, every.size)
    return Products(every.number[:enough], nodes, inverse, lengthscale)


def axis_features(lengthscale: float) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes z of a side, `M`, A, `N x M`, and the variances of its N features, the largest first.

    Points are thought to lie evenly, but for a share at the ends.
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
    # The sign, which is nobody's, so that a feature is positive at the upper end.
    vectors = vectors * torch.where(vectors[-1] < 0, -1.0, 1.0)
    return nodes, (vectors * root.unsqueeze(-1) / variance.sqrt()).T.contiguous(), variance


def _legendre(number: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights of Gauss and Legendre on the unit interval (Golub and Welsch, 1969)."""
    k = torch.arange(1, number, dtype=torch.float64, device="cpu")
    beside = torch.diag(k / (4 * k.square() - 1).sqrt(), 1)
    nodes, vectors = torch.linalg.eigh(beside + beside.T)
    return 0.5 * (nodes + 1), vectors[0].square()


def _largest(variance: Tensor, columns: int, most: int) -> Tensor:
    """The products of as many variances as there are columns that are largest, `r x d`, int64."""
    logs = variance.log()
    total, number = logs.new_zeros(1), torch.zeros(1, 0, dtype=torch.int64, device="cpu")
    for _ in range(columns):
        sums = (total.unsqueeze(-1) + logs).flatten()
        # Mirror images tie; rounding is not to decide which comes first.
        order = (sums * 1e6).round().argsort(descending=True, stable=True)[:most]
        number = torch.cat([number[order // len(logs)], (order % len(logs)).unsqueeze(-1)], -1)
        total = sums[order]
    return number


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

    *_, places = pivoted_cholesky(U.new_ones(len(U)), row, most, tolerance)
    Z = U[places]
    covariance = gaussian(Z, Z, lengthscale)
    covariance.diagonal().add_(JITTER)
    inverse = inverted(torch.linalg.cholesky(covariance))
    return Inducing(Z.to(like), inverse.to(like), lengthscale)


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
    # The least worthy first: those that no point can do without, and all behind them.
    needed = (table @ vectors).square().cumsum(-1).amax(0) > tolerance
    worthy: Tensor = vectors[:, needed].flip(-1).contiguous()
    return worthy


def _corners(columns: int) -> Tensor:
    """The corners of the unit cube, `* x columns`; of many some that are spread evenly."""
    if columns > MANY:
        return even_points(2**MANY, columns).round()
    ends = torch.tensor([0.0, 1.0], dtype=torch.float64, device="cpu")
    return torch.cartesian_prod(*[ends] * columns).view(-1, columns)


def _filling(columns: int, number: int) -> Tensor:
    """Points that fill the unit cube, and as many that fill its walls, `number x columns`."""
    points = even_points(number, columns)
    row = torch.arange(number // 2, device="cpu")
    points[row, row % columns] = (row // columns % 2).to(points)
    return points


def gaussian(U: Tensor, Z: Tensor, lengthscale: float) -> Tensor:
    """Squared exponential covariances of points, `* x q x d` and `n x d` to `* x q x n`."""
    square = U.square().sum(-1, keepdim=True) + Z.square().sum(-1) - 2 * U @ Z.T
    return profile(square.clamp_min(0) / lengthscale**2, math.inf)


Pull = Callable[[Tensor], Tensor]
"""From derivatives by features, `* x r`, to those by points, `* x d`."""


class StackedProducts:
    """Products of features of one coordinate, those of several lengthscales concatenated."""

    def __init__(self, parts: Sequence[Products]) -> None:
        places, before = [], 0
        for part in parts:
            places.append(part.number.T + before)
            before += len(part.inverse)
        # Which feature of each coordinate a product takes, `1 x d x r`.
        self._place = torch.cat(places, -1).unsqueeze(0)
        self._nodes = torch.cat([part.nodes for part in parts])
        sharpness = [torch.full_like(part.nodes, part.lengthscale**-2) for part in parts]
        self._sharpness = torch.cat(sharpness)
        # From kernels at the nodes to features of a coordinate.
        self._inverse = torch.block_diag(*[part.inverse.T for part in parts])  # type: ignore[no-untyped-call]

    def at(self, U: Tensor) -> tuple[Tensor, Pull]:
        """Features of points of the unit cube, `* x d -> * x r`, and their derivatives."""
        away = self._nodes - U.reshape(-1, U.shape[-1], 1)
        steep = away * self._sharpness
        kernel = profile(away * steep, math.inf)
        place = self._place.expand(len(away), -1, -1)
        axes = (kernel @ self._inverse).gather(-1, place)

        def pull(by: Tensor) -> Tensor:
            slopes = ((steep * kernel) @ self._inverse).gather(-1, place)
            axis, products = axes.unbind(-2), [by.reshape(len(away), -1)]
            # By the product of all sides after each first, then times that of all before it.
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
    """Projections of several lengthscales, each on its own inducing points, concatenated."""

    def __init__(self, parts: Sequence[Inducing]) -> None:
        self._parts = parts

    def at(self, U: Tensor) -> tuple[Tensor, Pull]:
        """As of :class:`StackedProducts`."""
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


def stacked(parts: Sequence[Features]) -> StackedProducts | StackedInducing:
    """Features of some lengthscales, all of them products or none."""
    products = [part for part in parts if isinstance(part, Products)]
    inducing = [part for part in parts if isinstance(part, Inducing)]
    return StackedProducts(products) if products else StackedInducing(inducing)
