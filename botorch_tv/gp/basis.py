"""Represent a kernel over finitely many arms without M x M matrices in inference.

A posterior covariance over the arms is the prior covariance minus a few rank-one terms. A basis
defines how the rank-one terms of a posterior covariance are stored. With features, K ≈ Φ Φᵀ, every
rank-one term is stored as r coordinates, which a product with Φ maps to the arms. If K itself is
the basis, every rank-one term is stored as M values, one value per arm, and no product is needed.
Inference calls the same methods for every basis.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Size, Tensor

from botorch_tv.gp.linalg import ramp, scaled
from botorch_tv.gp.tensors import Scratch

DENSE_SHARE = 1 / 12
"""Largest share of the rows of a covariance that a weighted sum fetches one by one. With
more rows, a product with the whole matrix is cheaper, because fetching a number costs as much as
ten multiplications of such a product."""
CACHED_NUMBERS = 2**17
"""Target number of entries of an intermediate result: one megabyte in float64."""


Frame = tuple[Tensor, Tensor]
"""The coordinates in which samples are drawn: a matrix T, `r x p`, and a weight in [0, 1] for each
normal variate, `p`.

Draws must be the same on every processor, but eigenvectors differ between processors: if
eigenvalues are equal, their eigenvectors are arbitrary, and rounding decides how many eigenvalues
are retained. Draws therefore use the columns C = Φ T of a pivoted Cholesky factor. The kernel
matrix determines these columns. The weight of a column fades to 0 if its pivot is hardly larger
than rounding errors."""


class Basis(ABC):
    """Represents the covariances of a point with all arms by r coordinates.

    Attributes:
        arms: Number M of arms.
        scale: Largest prior standard deviation; the tolerance for ties is a multiple of this
            number.
        size: Number r of coordinates.
        normals: Number p of normal variates that a draw takes, at most M.
        variance: Prior variance of every arm, `M`.
        scratch: Buffers for intermediate results over the arms.
    """

    arms: int
    scale: float
    size: int
    normals: int
    variance: Tensor
    scratch: Scratch

    @abstractmethod
    def to(self, dtype: torch.dtype, device: torch.device) -> Basis:
        """A copy in another dtype or on another device."""

    def __init__(self, size: int, variance: Tensor) -> None:
        self.arms, self.size, self.normals = len(variance), size, size
        self.variance = variance
        self.scratch = Scratch()
        self.scale = math.sqrt(float(variance.max()))

    def unlearned(self) -> Basis:
        """The prior before learning: this object, because a grid learns no hyperparameters."""
        return self

    @abstractmethod
    def row(self, index: Tensor) -> Tensor:
        """Coordinates of the prior covariances of some arms with all arms, `* -> * x r`."""

    @abstractmethod
    def expand(self, coordinates: Tensor, out: Tensor | None = None) -> Tensor:
        """Convert coordinates to covariances with all arms, `* x r -> * x M`.

        Args:
            coordinates: The coordinates, `* x r`.
            out: Contiguous memory that the result may use.
        """

    def inner(self, rows: Tensor, index: Tensor) -> Tensor:
        """Evaluate n covariance functions, given by their coordinates, at q arms.

        Args:
            rows: The rows of coordinates, `batch_shape x n x r`.
            index: Arms, `batch_shape x q`.

        Returns:
            The covariances, `batch_shape x q x n`.
        """
        return self.row(index) @ rows.mT

    def gram(self, index: Tensor) -> Tensor:
        """Prior covariance among arms, `batch_shape x n -> batch_shape x n x n`."""
        row = self.row(index)
        return row @ row.mT

    def draw(self, reduction: Tensor, prior_factor: Tensor | None, normal: Tensor) -> Tensor:
        """Coordinates of a sample with mean 0 and a given posterior covariance.

        Args:
            reduction: Prior minus posterior covariance, `batch_shape x r x r`.
            prior_factor: Factor on the prior covariance, `batch_shape`; None means 1.
            normal: Standard normal variates, `batch_shape x p`.

        Returns:
            The coordinates, `batch_shape x r`; mapped to the arms, they are a sample with mean 0.
        """
        return (self.root(reduction, prior_factor) @ normal.unsqueeze(-1)).squeeze(-1)

    def root(self, reduction: Tensor, prior_factor: Tensor | None) -> Tensor:
        """Lower triangular root R of the posterior covariance R Rᵀ of orthonormal coordinates.

        The arguments are those of :meth:`draw`.
        """
        posterior, prior = -reduction, 1.0 if prior_factor is None else prior_factor.unsqueeze(-1)
        posterior.diagonal(dim1=-2, dim2=-1).add_(prior)
        return torch.linalg.cholesky_ex(posterior).L

    def value(self, values: Tensor, index: Tensor) -> Tensor:
        """The value of a function over the arms at one arm per trial, `batch_shape`.

        The argument ``values``, `batch_shape x M`, contains the function; the argument ``index``,
        `batch_shape`, selects the arms.
        """
        return values.gather(-1, index.unsqueeze(-1)).squeeze(-1)

    def alone(self, index: Tensor) -> Tensor:
        """One arm per trial, `batch_shape`, as a list of length 1, `batch_shape x 1`."""
        return index.unsqueeze(-1)

    def between(self, index: Tensor, arms: Tensor) -> Tensor:
        """Prior covariances between the arms of two lists.

        Args:
            index: The first list of arms, `batch_shape x q`.
            arms: The second list of arms, `batch_shape x n`.

        Returns:
            The covariances, `batch_shape x q x n`.
        """
        return self.inner(self.row(arms), index)

    def mixture(self, arms: Tensor, weights: Tensor, out: Tensor | None = None) -> Tensor:
        """A weighted sum of prior covariances with some arms, Σ_a w_a K(a, ·).

        Args:
            arms: The arms a, `batch_shape x n`.
            weights: The weights w_a, `batch_shape x n`.
            out: Contiguous memory that the result may use.

        Returns:
            The weighted sum at every arm, `batch_shape x M`.
        """
        return self.expand((weights.unsqueeze(-2) @ self.row(arms)).squeeze(-2), out=out)

    def numbers_of_mixture(self, arms: int) -> int:
        """Number of values per trial that :meth:`mixture` and :meth:`between` hold in memory."""
        return arms * self.size

    def sum_of_squares(self, rows: Tensor) -> Tensor:
        """Sum over n rows of their squared values on each arm, `... x n x r` to `... x M`."""
        batch_shape, (count, size) = rows.shape[:-2], rows.shape[-2:]
        flat = rows.reshape(batch_shape.numel(), count, size)
        # Computed in blocks of trials, because all rows on all arms may exceed the memory.
        together = max(1, CACHED_NUMBERS // max(1, count * self.arms))
        sums = [self.expand(block).square().sum(-2) for block in torch.split(flat, together)]
        return torch.cat(sums).view(*batch_shape, self.arms)

    def numbers_of_squares(self, rows: int, trials: int) -> int:
        """Number of values that :meth:`sum_of_squares` holds in memory for n = ``rows``."""
        whole = rows * self.arms
        return 2 * min(trials * whole, max(whole, CACHED_NUMBERS))


class ArmBasis(Basis):
    """A basis with one coordinate for each of the M arms; it is exact for any kernel."""

    def __init__(self, covariance: Tensor) -> None:
        super().__init__(len(covariance), covariance.diagonal().contiguous())
        self.covariance = covariance

    def to(self, dtype: torch.dtype, device: torch.device) -> ArmBasis:
        return ArmBasis(self.covariance.to(device, dtype))

    def row(self, index: Tensor) -> Tensor:
        return self.covariance[index]

    def expand(self, coordinates: Tensor, out: Tensor | None = None) -> Tensor:
        return coordinates

    def inner(self, rows: Tensor, index: Tensor) -> Tensor:
        at = index.unsqueeze(-2).expand(*rows.shape[:-1], index.shape[-1])
        return rows.gather(-1, at).mT

    def between(self, index: Tensor, arms: Tensor) -> Tensor:
        return self.covariance[index.unsqueeze(-1), arms.unsqueeze(-2)]

    def mixture(self, arms: Tensor, weights: Tensor, out: Tensor | None = None) -> Tensor:
        if DENSE_SHARE * self.arms > arms.shape[-1] or arms.numel() < self.arms:
            return (weights.unsqueeze(-2) @ self.covariance[arms]).squeeze(-2)
        # For many arms in many trials, one product with K is cheaper than fetching rows.
        sparse = self.scratch.take("sparse", (*weights.shape[:-1], self.arms), weights).zero_()
        sparse.scatter_add_(-1, arms, weights)
        if out is None:
            return sparse @ self.covariance
        torch.mm(sparse.view(-1, self.arms), self.covariance, out=out.view(-1, self.arms))
        return out

    def gram(self, index: Tensor) -> Tensor:
        return self.between(index, index)

    def draw(self, reduction: Tensor, prior_factor: Tensor | None, normal: Tensor) -> Tensor:
        # The posterior covariance is singular up to rounding. The symmetric root of a covariance is
        # continuous in the covariance, so rounding changes the sample only slightly.
        values, vectors = torch.linalg.eigh(scaled(self.covariance, prior_factor) - reduction)
        # If an eigenvalue is as small as rounding errors, its root is much larger than rounding
        # errors. The weight of a root falls to 0 gradually as its eigenvalue does; with a
        # threshold, rounding would decide which roots count.
        rounding = self.arms * torch.finfo(values.dtype).eps * values[..., -1:]
        root = values.clamp_min(0).sqrt() * ramp(values, rounding, 10 * rounding)
        rotated = vectors.mT @ normal.unsqueeze(-1)
        drawn: Tensor = vectors @ (root.unsqueeze(-1) * rotated)
        return drawn.squeeze(-1)


class FeatureBasis(Basis):
    """A basis of features Φ, `M x r`, with K = Φ Φᵀ up to rounding.

    A product with Φ maps coordinates to the arms.

    Args:
        features: The features Φ of all arms, `M x r`.
        frame: Coordinates in which samples are drawn; None for the coordinates of the features.
    """

    def __init__(self, features: Tensor, frame: Frame | None = None) -> None:
        super().__init__(features.shape[-1], features.square().sum(-1))
        self.features = features
        self._transposed = features.T.contiguous()
        self.frame = frame
        if frame is not None:
            self.normals = len(frame[1])

    def to(self, dtype: torch.dtype, device: torch.device) -> FeatureBasis:
        return FeatureBasis(self.features.to(device, dtype), self._frame_to(dtype, device))

    def _frame_to(self, dtype: torch.dtype, device: torch.device) -> Frame | None:
        frame = self.frame
        return None if frame is None else (frame[0].to(device, dtype), frame[1].to(device, dtype))

    def row(self, index: Tensor) -> Tensor:
        return self.features[index]

    def expand(self, coordinates: Tensor, out: Tensor | None = None) -> Tensor:
        if out is None:
            return coordinates @ self._transposed
        flat = coordinates.reshape(-1, self.size)
        torch.mm(flat, self._transposed, out=out.view(-1, self.arms))
        return out

    def draw(self, reduction: Tensor, prior_factor: Tensor | None, normal: Tensor) -> Tensor:
        # A Cholesky factor depends on the coordinates; here it is computed in the coordinates of
        # ``frame``.
        drawn = super().draw(self._into_frame(reduction), prior_factor, self._drawn(normal))
        return self._out_of_frame(drawn)

    def draw_from_prior(self, normal: Tensor) -> Tensor:
        """Coordinates of a draw from the prior; for ``normal``, see :meth:`draw`."""
        return self._out_of_frame(self._drawn(normal))

    def draw_from_root(self, root: Tensor, normal: Tensor) -> Tensor:
        """Coordinates of a sample with mean 0 and posterior covariance Φ RᵀR Φᵀ.

        Args:
            root: R, `batch_shape x r x r`, the inverse of a lower triangular matrix.
            normal: Standard normal variates, `batch_shape x p`.

        Returns:
            The coordinates, `batch_shape x r`, equal to the result of :meth:`draw` with
            ``reduction`` = I - RᵀR.
        """
        identity = torch.eye(self.size, dtype=root.dtype, device=root.device)
        inverse = torch.linalg.solve_triangular(root, identity.expand_as(root), upper=False)
        # If T spans the observed directions, (I - Tᵀ D T)⁻¹ = I + Tᵀ (R⁻¹ R⁻ᵀ - I) T. The
        # factorisation U Uᵀ of this inverse, with U upper triangular, gives the lower triangular
        # root U⁻ᵀ of the covariance.
        precision = self._into_frame(inverse @ inverse.mT - identity)
        precision.diagonal(dim1=-2, dim2=-1).add_(1)
        factor = torch.linalg.cholesky_ex(precision.flip((-2, -1))).L
        turned = self._drawn(normal).flip(-1).unsqueeze(-1)
        drawn = torch.linalg.solve_triangular(factor.mT, turned, upper=True)
        return self._out_of_frame(drawn.squeeze(-1).flip(-1))

    def _into_frame(self, matrix: Tensor) -> Tensor:
        """Tᵀ A T for a matrix A, where T is the matrix of the :data:`Frame` of samples."""
        return matrix if self.frame is None else self.frame[0].T @ matrix @ self.frame[0]

    def _out_of_frame(self, coordinates: Tensor) -> Tensor:
        return coordinates if self.frame is None else coordinates @ self.frame[0].T

    def _drawn(self, normal: Tensor) -> Tensor:
        return normal if self.frame is None else self.frame[1] * normal


class ProductBasis(FeatureBasis):
    """Features of a kernel that is a product over the dimensions of a regular grid.

    Φ is a selection of columns of Φ_1 ⊗ ... ⊗ Φ_d. Coordinates are mapped to the arms by one small
    product per dimension, instead of a product with Φ.

    Args:
        factors: Φ_i, one `n_i x r_i` per dimension.
        retained: Indices of the retained columns among the r_1 · ... · r_d columns of the product,
            `r`, int64.
        frame: Coordinates in which samples are drawn; None for the coordinates of the features.
    """

    def __init__(self, factors: list[Tensor], retained: Tensor, frame: Frame | None = None) -> None:
        product = factors[0]
        for factor in factors[1:]:
            product = torch.kron(product, factor)
        super().__init__(product[:, retained].contiguous(), frame)
        self.factors, self.retained = factors, retained
        self._ranks = [factor.shape[-1] for factor in factors]
        self._kernels = [factor @ factor.T for factor in factors]
        # Per dimension: the index of every arm, and the row of the kernel at that index.
        lengths = [len(factor) for factor in factors]
        places = torch.cartesian_prod(*(torch.arange(n, device=retained.device) for n in lengths))
        self._places = [column.contiguous() for column in places.view(-1, len(factors)).T]
        self._arm_factors = [table[place] for table, place in zip(self.factors, self._places)]
        self._kernel_rows = [table[place] for table, place in zip(self._kernels, self._places)]

    def to(self, dtype: torch.dtype, device: torch.device) -> ProductBasis:
        factors = [factor.to(device, dtype) for factor in self.factors]
        return ProductBasis(factors, self.retained.to(device), self._frame_to(dtype, device))

    def expand(self, coordinates: Tensor, out: Tensor | None = None) -> Tensor:
        return self._along(self._wide(coordinates), self.factors, coordinates.shape[:-1], out)

    def between(self, index: Tensor, arms: Tensor) -> Tensor:
        shape = (*index.shape, arms.shape[-1])
        covariance = None
        for rows, place in zip(self._kernel_rows, self._places):
            at = place[arms].unsqueeze(-2).expand(shape)
            along = rows[index].gather(-1, at)
            covariance = along if covariance is None else covariance.mul_(along)
        assert covariance is not None
        return covariance

    def mixture(self, arms: Tensor, weights: Tensor, out: Tensor | None = None) -> Tensor:
        shape, count = weights.shape[:-1], weights.shape[-1]
        if len(self.factors) == 2:  # the sum is Σ_a w_a φ₁(a) φ₂(a)ᵀ
            rows = []
            for dim, table in enumerate(self._arm_factors):
                rows_out = self.scratch.take(f"row {dim}", (arms.numel(), table.shape[-1]), weights)
                rows.append(torch.index_select(table, 0, arms.reshape(-1), out=rows_out))
            first, second = (row.view(shape.numel(), count, -1) for row in rows)
            core = first.mul_(weights.reshape(-1, count, 1)).mT @ second
            return self._along(core.view(shape.numel(), -1), self.factors, shape, out)
        sparse = self.scratch.take("sparse", (*shape, self.arms), weights).zero_()
        sparse.scatter_add_(-1, arms, weights)
        # K_d = Φ_d Φ_dᵀ. A product with the narrow Φ_d first makes the other products cheap.
        last = self.factors[-1]
        narrow = (sparse.view(-1, len(last)) @ last).view(shape.numel(), -1)
        return self._along(narrow, [*self._kernels[:-1], last], shape, out)

    def numbers_of_mixture(self, arms: int) -> int:
        along = sum(len(factor) for factor in self.factors) + sum(self._ranks)
        return arms * along + 2 * self.arms

    def sum_of_squares(self, rows: Tensor) -> Tensor:
        """Σᵢ (Φ₁ Hᵢ Φ₂ᵀ)² in two dimensions, with the coordinates of row i as the matrix Hᵢ.

        The matrix Hᵢ is `r_1 x r_2`. At arm (l, m), the sum of squares is φ T_mᵀ T_m φᵀ, where φ =
        Φ₁[l] and T_m = Σ_b Φ₂[m, b] H[:, :, b], `n x r_1`. The product T_mᵀ T_m, a sum over the n
        rows, is computed before the product with Φ₁.
        """
        if len(self.factors) != 2:
            return super().sum_of_squares(rows)
        first, second = self.factors
        batch_shape, count = rows.shape[:-2], rows.shape[-2]
        trials = batch_shape.numel()
        wide = self._wide(rows).view(trials, count * self._ranks[0], self._ranks[1])
        half = (second @ wide.mT).view(trials, len(second), count, self._ranks[0])
        squared = (half.mT @ half).view(trials, len(second), self._ranks[0] ** 2)
        pairs = torch.einsum("na,nb->nab", first, first).flatten(1)
        return (pairs @ squared.mT).reshape(*batch_shape, self.arms)

    def numbers_of_squares(self, rows: int, trials: int) -> int:
        if len(self.factors) != 2:
            return super().numbers_of_squares(rows, trials)
        (first, second), points = self._ranks, len(self.factors[1])
        half = rows * first * (second + 2 * points)
        return trials * (half + points * first**2 + self.arms)

    def _along(
        self, tensor: Tensor, factors: list[Tensor], shape: Size, out: Tensor | None
    ) -> Tensor:
        """Multiply each dimension i by its matrix, `n_i x m_i`: `N x m_1 ... m_d -> shape x M`."""
        if out is None:
            out = tensor.new_empty(*shape, self.arms)
        done, rest = tensor.shape
        for dim, factor in enumerate(factors[:-1]):
            points, rank = factor.shape
            rest //= rank
            product = self.scratch.take(f"product {dim}", (done, points, rest), tensor)
            # ``matmul`` is not used, because it would copy its result into ``out``.
            wide = factor.expand(done, points, rank)
            tensor = torch.bmm(wide, tensor.view(done, rank, rest), out=product)
            done *= points
        last = factors[-1]
        torch.mm(tensor.view(done, rest), last.T, out=out.view(done, len(last)))
        return out

    def _wide(self, coordinates: Tensor) -> Tensor:
        """Place coordinates among all columns of the product, `* x r -> N x r_1 ... r_d`."""
        count = coordinates.shape[:-1].numel()
        wide = self.scratch.take("wide", (count, math.prod(self._ranks)), coordinates).zero_()
        return wide.index_copy_(-1, self.retained, coordinates.reshape(count, self.size))
