"""The factor of what a window holds, from one that grows.

When the oldest of n rows leaves, all rows of a Cholesky factor change. So rows leave a growing
factor a block at a time, and what is asked of it is corrected for the e rows that are still in it
and should not be. With L = [[L₁₁, 0], [L₂₁, L₂₂]] the rows left have

    L₂₁ L₂₁ᵀ + L₂₂ L₂₂ᵀ = L₂₂ (I + P Pᵀ) L₂₂ᵀ = M Mᵀ,  P = L₂₂⁻¹ L₂₁,  M = L₂₂ (I + P Pᵀ)^½,

and (I + P Pᵀ)^-½ = I - G Gᵀ with G = P Q diag(√(1 + s) (1 + √(1 + s)))^-½, where PᵀP, `e x e`, has
the eigenvectors Q and the eigenvalues s. That takes O(n e²) once and O(n e) per column. Nothing is
updated from round to round, so no rounding piles up, and what is found depends on the log alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_tv.inference.growing_factor import Factor
from botorch_tv.inference.tensors import OfTrials


@dataclass(frozen=True)
class RemainingFactor(OfTrials):
    """M with M Mᵀ = I + S (K ∘ D) S of the rows left, `trials x n x n`; it is no triangle.

    Attributes:
        factor: L₂₂ and its inverse.
        known: G, `trials x n x e`.
        log_share: ½ log det (I + P Pᵀ), `trials`.
    """

    factor: Factor
    known: Tensor
    log_share: Tensor

    @classmethod
    def of(cls, whole: Factor, leaving: int) -> RemainingFactor:
        """That of all rows but the first, which are fewer than its whole blocks have.

        Args:
            whole: L and its inverse.
            leaving: e, at least 1.
        """
        base, rows = whole.base, whole.rows
        corner = base[:, :leaving, :leaving]
        below = torch.cat([base[:, leaving:, :leaving], rows[..., :leaving]], -2)
        # Of the inverse they are L₁₁⁻¹ and -L₂₂⁻¹ L₂₁ L₁₁⁻¹.
        lost = torch.linalg.solve_triangular(corner, -below, upper=False, left=False)
        shares, turned = torch.linalg.eigh(lost.mT @ lost)
        shares = shares.clamp_min(0)
        grown = (1 + shares).sqrt()
        return cls(
            factor=Factor(
                base[:, leaving:, leaving:], rows[..., leaving:], whole.diagonal[:, leaving:]
            ),
            known=lost @ (turned / (grown * (1 + grown)).sqrt().unsqueeze(-2)),
            log_share=0.5 * shares.log1p().sum(-1),
        )

    def whitened(self, columns: Tensor) -> Tensor:
        """M⁻¹ times some columns, given and returned as rows, `trials x q x n`."""
        rows = self.factor.whitened(columns)
        return rows - (rows @ self.known) @ self.known.mT

    def returned(self, columns: Tensor) -> Tensor:
        """M⁻ᵀ times some columns, given and returned as rows, `trials x q x n`."""
        return self.factor.returned(columns - (columns @ self.known) @ self.known.mT)

    @property
    def log_diagonal(self) -> Tensor:
        """Logarithm of det M, `trials`."""
        return self.factor.log_diagonal + self.log_share
