"""Exact regression kept as one triangle, which new observations extend by rows.

With noise N and S = N^(-1/2) the matrix factored is I + S K S. Its eigenvalues are at least 1,
however small the noise and however close the points, so no jitter is needed; an observation too
old to count has S = 0 and leaves everything exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from botorch_tv.inference.cholesky import cholesky, correlation, further_rows, solved
from botorch_tv.likelihoods.rows import stacked
from botorch_tv.models.snapshot import ParameterSnapshot


@dataclass(frozen=True, eq=False)
class GrowingRegression:
    """A Gaussian-process posterior given observations, ready to predict and to be extended.

    Args:
        inputs: Inputs as the kernel sees them, `batch_shape x n x d`.
        scale: S, `batch_shape x n`.
        triangle: Lower Cholesky factor L of I + S K S, `batch_shape x n x n`.
        whitened: L⁻¹ S (y - m), `target_batch_shape x n`.
        attached: Whether gradients flow through to whatever the parts were computed from.
        made_from: The parameters that it was computed from; None where nobody asks.
    """

    inputs: Tensor
    scale: Tensor
    triangle: Tensor
    whitened: Tensor
    attached: bool
    made_from: ParameterSnapshot | None = None

    @classmethod
    def fit(
        cls, inputs: Tensor, covariance: Tensor, noise: Tensor, residual: Tensor, attached: bool
    ) -> GrowingRegression:
        """Regression on all observations at once, O(n³).

        Args:
            inputs: Inputs, `batch_shape x n x d`.
            covariance: Prior covariance K among them, `batch_shape x n x n`.
            noise: Noise variances, `batch_shape x n`.
            residual: Observations less their prior mean, `target_batch_shape x n`.
            attached: See the class.
        """
        scale = noise.rsqrt()
        triangle = cholesky(covariance, scale, checked=True)
        whitened = solved(triangle, (scale * residual).unsqueeze(-1)).squeeze(-1)
        return cls(inputs, scale, triangle, whitened, attached)

    def extend(
        self,
        inputs: Tensor,
        across: Tensor,
        among: Tensor,
        noise: Tensor,
        residual: Tensor,
        attached: bool,
    ) -> GrowingRegression:
        """Regression on q more observations, O(n² q).

        Args:
            inputs: The new inputs, `batch_shape' x q x d`; the batch shapes broadcast.
            across: Prior covariance between old and new, `batch_shape' x n x q`.
            among: Prior covariance among the new, `batch_shape' x q x q`.
            noise: Noise variances of the new, `batch_shape' x q`.
            residual: New observations less their prior mean, `target_batch_shape' x q`.
            attached: See the class.
        """
        scale = noise.rsqrt()
        beside = (self.scale.unsqueeze(-1) * across * scale.unsqueeze(-2)).mT
        own = correlation(among, scale)
        below, last = further_rows(self.triangle, beside, own, checked=True)
        right = scale * residual - (below @ self.whitened.unsqueeze(-1)).squeeze(-1)
        whitened = solved(last, right.unsqueeze(-1)).squeeze(-1)
        return GrowingRegression(
            inputs=stacked(self.inputs, inputs, -2),
            scale=stacked(self.scale, scale, -1),
            triangle=_bordered(self.triangle, below, last),
            whitened=stacked(self.whitened, whitened, -1),
            attached=attached,
        )

    def explained(self, across: Tensor) -> Tensor:
        """L⁻¹ S k, the part of the prior at test points that the data explains: `... x n x q`.

        Args:
            across: Prior covariance between observations and test points, `... x n x q`.
        """
        return solved(self.triangle, self.scale.unsqueeze(-1) * across)

    @property
    def mean_cache(self) -> Tensor:
        """(K + N)⁻¹ (y - m), `target_batch_shape x n`."""
        weights: Tensor = torch.linalg.solve_triangular(
            self.triangle.mT, self.whitened.unsqueeze(-1), upper=True
        )
        return self.scale * weights.squeeze(-1)

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        """Nothing: the copy of a model computes its own, as GPyTorch's caches have it."""


def _bordered(triangle: Tensor, below: Tensor, corner: Tensor) -> Tensor:
    """[[L, 0], [below, corner]]."""
    n, q = triangle.shape[-1], corner.shape[-1]
    batch = torch.broadcast_shapes(triangle.shape[:-2], below.shape[:-2], corner.shape[:-2])  # type: ignore[no-untyped-call]
    whole: Tensor = triangle.new_zeros(*batch, n + q, n + q)
    whole[..., :n, :n] = triangle
    whole[..., n:, :n] = below
    whole[..., n:, n:] = corner
    return whole
