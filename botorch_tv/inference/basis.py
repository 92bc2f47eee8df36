"""How a kernel over finitely many arms is represented, so that inference never touches M x M.

A posterior covariance over the arms is the prior's less a few rank-one terms. A basis says in
which coordinates those terms are kept. In coordinates of features K ≈ Φ Φᵀ a term costs r numbers
and one product with Φ brings it to the arms; with K itself as the basis it costs M numbers and
nothing more. Inference is written once, against the methods below.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor

_CACHED_NUMBERS = 2**17
"""Intermediate results are kept to this size where they can be: one megabyte in float64."""


class Basis(ABC):
    """Coordinates for covariances between one point and all arms.

    Attributes:
        size: Number r of coordinates.
        variance: Prior variance of every arm, `M`.
    """

    size: int
    variance: Tensor

    @property
    def arms(self) -> int:
        """Number M of arms."""
        return len(self.variance)

    @property
    def scale(self) -> float:
        """Largest prior standard deviation, the unit of the tie rule."""
        return self._scale

    @abstractmethod
    def to(self, dtype: torch.dtype, device: torch.device) -> Basis:
        """The same basis in another dtype or on another device."""

    def __init__(self, size: int, variance: Tensor) -> None:
        self.size = size
        self.variance = variance
        self._scale = math.sqrt(float(variance.max()))

    @abstractmethod
    def row(self, index: Tensor) -> Tensor:
        """Coordinates of the prior covariance with some arms, `* -> * x r`."""

    @abstractmethod
    def expand(self, coordinates: Tensor) -> Tensor:
        """Covariances with all arms, `* x r -> * x M`."""

    @abstractmethod
    def inner(self, rows: Tensor, index: Tensor) -> Tensor:
        """Covariances that rows of coordinates assign to some arms.

        Args:
            rows: `batch_shape x n x r`.
            index: Arms, `batch_shape x q`.

        Returns:
            `batch_shape x q x n`.
        """

    @abstractmethod
    def gram(self, index: Tensor) -> Tensor:
        """Prior covariance among arms, `batch_shape x n -> batch_shape x n x n`."""

    def sum_of_squares(self, rows: Tensor) -> Tensor:
        """Σᵢ of the squares of some rows on all arms, `batch_shape x n x r -> batch_shape x M`."""
        batch_shape, (count, size) = rows.shape[:-2], rows.shape[-2:]
        flat = rows.reshape(batch_shape.numel(), count, size)
        # A few trials at a time: all rows on all arms would not fit any cache, or any memory.
        together = max(1, _CACHED_NUMBERS // max(1, count * self.arms))
        sums = [self.expand(block).square().sum(-2) for block in torch.split(flat, together)]
        return torch.cat(sums).view(*batch_shape, self.arms)


class ArmBasis(Basis):
    """The arms themselves as coordinates: exact for any kernel, M numbers a term."""

    def __init__(self, covariance: Tensor) -> None:
        super().__init__(len(covariance), covariance.diagonal().contiguous())
        self.covariance = covariance

    def to(self, dtype: torch.dtype, device: torch.device) -> ArmBasis:
        return ArmBasis(self.covariance.to(dtype=dtype, device=device))

    def row(self, index: Tensor) -> Tensor:
        return self.covariance[index]

    def expand(self, coordinates: Tensor) -> Tensor:
        return coordinates

    def inner(self, rows: Tensor, index: Tensor) -> Tensor:
        at = index.unsqueeze(-2).expand(*rows.shape[:-1], index.shape[-1])
        return rows.gather(-1, at).mT

    def gram(self, index: Tensor) -> Tensor:
        return self.covariance[index.unsqueeze(-1), index.unsqueeze(-2)]


class FeatureBasis(Basis):
    """Features Φ (`M x r`) with K = Φ Φᵀ to rounding; one matrix product brings terms to the arms.

    Args:
        features: Φ, `M x r`.
    """

    def __init__(self, features: Tensor) -> None:
        super().__init__(features.shape[-1], features.square().sum(-1))
        self.features = features
        self._transposed = features.T.contiguous()

    def to(self, dtype: torch.dtype, device: torch.device) -> FeatureBasis:
        return FeatureBasis(self.features.to(dtype=dtype, device=device))

    def row(self, index: Tensor) -> Tensor:
        return self.features[index]

    def expand(self, coordinates: Tensor) -> Tensor:
        return coordinates @ self._transposed

    def inner(self, rows: Tensor, index: Tensor) -> Tensor:
        return self.row(index) @ rows.mT

    def gram(self, index: Tensor) -> Tensor:
        row = self.row(index)
        return row @ row.mT


PAIRS_PAY = 64
"""From this many rows on, sums of squares in two dimensions go through pairs of features."""


class ProductBasis(FeatureBasis):
    """Features of a kernel that is a product over the dimensions of a regular grid.

    Φ is a selection of columns of Φ_1 ⊗ ... ⊗ Φ_d, so bringing a term to the arms takes one small
    product per dimension instead of one with all of Φ: ten times fewer operations on 50 x 50.

    Args:
        factors: Φ_i, one `n_i x r_i` per dimension.
        kept: Which of the r_1 ... r_d columns of the product are kept, `r`, int64.
    """

    def __init__(self, factors: list[Tensor], kept: Tensor) -> None:
        product = factors[0]
        for factor in factors[1:]:
            product = torch.kron(product, factor)
        super().__init__(product[:, kept].contiguous())
        self.factors = factors
        self.kept = kept
        self._ranks = [factor.shape[-1] for factor in factors]
        if len(factors) == 2:
            self._pairs = [torch.einsum("na,nb->nab", f, f).flatten(1) for f in factors]
            self._pair_positions = self._positions_of_pairs()

    def to(self, dtype: torch.dtype, device: torch.device) -> ProductBasis:
        factors = [factor.to(dtype=dtype, device=device) for factor in self.factors]
        return ProductBasis(factors, self.kept.to(device))

    def expand(self, coordinates: Tensor) -> Tensor:
        shape = coordinates.shape[:-1]
        done, rest = shape.numel(), math.prod(self._ranks)
        tensor = coordinates.new_zeros(done, rest)
        tensor.index_copy_(-1, self.kept, coordinates.reshape(done, self.size))
        for factor in self.factors[:-1]:
            points, rank = factor.shape
            rest //= rank
            tensor = factor @ tensor.view(done, rank, rest)
            done *= points
        tensor = tensor.view(done, rest) @ self.factors[-1].T
        return tensor.view(*shape, self.arms)

    def sum_of_squares(self, rows: Tensor) -> Tensor:
        """Σᵢ (Φ hᵢ)² = diag(Φ G Φᵀ) with G = HᵀH, contracted one dimension at a time.

        At arm (n, m) it is Σ Φ₁[n,a] Φ₁[n,a'] G[ab, a'b'] Φ₂[m,b] Φ₂[m,b'], two products with the
        pairs Φ₁[n,a] Φ₁[n,a'] and Φ₂[m,b] Φ₂[m,b'], whatever the number of rows.
        """
        if rows.shape[-2] < PAIRS_PAY or len(self.factors) != 2:
            return super().sum_of_squares(rows)
        first, second = self._pairs
        squared = torch.nn.functional.pad(rows.mT @ rows, (0, 1, 0, 1)).flatten(-2)
        paired = squared[..., self._pair_positions]
        return (first @ paired @ second.T).flatten(-2)

    def _positions_of_pairs(self) -> Tensor:
        """Where G[ab, a'b'] stands in a padded G, ordered as (a, a') x (b, b')."""
        padding = self.size
        position = self.kept.new_full((math.prod(self._ranks),), padding)
        position[self.kept] = torch.arange(self.size, device=self.kept.device)
        entry = position[:, None] * (padding + 1) + position
        first, second = self._ranks
        return entry.view(first, second, first, second).transpose(1, 2).reshape(first**2, second**2)
