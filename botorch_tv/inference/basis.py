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

    def to(self, dtype: torch.dtype, device: torch.device) -> ProductBasis:
        factors = [factor.to(dtype=dtype, device=device) for factor in self.factors]
        return ProductBasis(factors, self.kept.to(device))

    def expand(self, coordinates: Tensor) -> Tensor:
        shape = coordinates.shape[:-1]
        rest = math.prod(factor.shape[-1] for factor in self.factors)
        done = shape.numel()
        tensor = coordinates.new_zeros(done, rest)
        tensor[:, self.kept] = coordinates.reshape(done, -1)
        for factor in self.factors[:-1]:
            points, rank = factor.shape
            rest //= rank
            tensor = factor @ tensor.view(done, rank, rest)
            done *= points
        tensor = tensor.view(done, rest) @ self.factors[-1].T
        return tensor.view(*shape, self.arms)
