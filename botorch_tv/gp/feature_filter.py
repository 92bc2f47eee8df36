"""A filter in features of the kernel computes posteriors over arms and on a box.

The filter supports the operations of :mod:`botorch_tv.gp.arm_engine`. The filter replaces the
inverse over the played arms in five cases: in single precision; if noise is so small that the
inverse amplifies rounding; if more arms are played than there are features; on a box; and for
samples.
"""

from __future__ import annotations

import torch
from torch import Size, Tensor

from botorch_tv.gp.arm_engine import PlayedArms, RunningPosterior
from botorch_tv.gp.basis import Basis, FeatureBasis
from botorch_tv.gp.linalg import clear_, scaled
from botorch_tv.gp.regression import Observations, regress
from botorch_tv.gp.tensors import Rows, room_for

FEWEST_ROWS = 32
"""Smallest number of rows that are absorbed together. Few rows are not worth an absorption, which
reads the whole matrix B."""
FIRST_ROWS = 128
"""Number of rows for which memory is allocated at first; fewer if rows are absorbed earlier."""


class Filter(RunningPosterior):
    """A posterior as D = Σᵢ wᵢ hᵢ hᵢᵀ + w B, with steps hᵢ and a matrix B of older steps.

    D is the prior minus the posterior covariance, in coordinates of the basis. B absorbs the steps
    only when reading B costs less than reading the steps, so a few observations in many coordinates
    stay cheap.

    Attributes:
        rows: Steps hᵢ, `batch_shape x n x r`.
        weights: Weights wᵢ of the steps, `batch_shape x n`.
        absorbed: B, `batch_shape x r x r`; None before the first absorption.
        absorbed_weight: Weight w of B, `batch_shape`.
    """

    def __init__(self, basis: Basis, shape: Size, variance: Tensor, *, trend: bool) -> None:
        super().__init__(basis, shape, variance, trend=trend)
        self._begin(basis, min(most_rows(basis), FIRST_ROWS), None)

    def _begin(self, basis: Basis, capacity: int, absorbed: Tensor | None) -> None:
        """Start without rows, with memory for ``capacity`` rows, and with a matrix B."""
        shape, like = self.information_gain.shape, self.variance
        self.rows = Rows.empty(
            shape, (basis.size,), dtype=like.dtype, device=like.device, capacity=capacity
        )
        self.weights, self.absorbed = like.new_zeros(*shape, 0), absorbed
        self.absorbed_weight = like.new_zeros(shape) if absorbed is None else like.new_ones(shape)

    @classmethod
    def of_observations(cls, basis: Basis, observations: Observations) -> Filter:
        """Compute the posterior by one regression, so that rounding errors do not accumulate."""
        posterior, root, prior = regress(basis, observations), observations.precision_root, None
        made = cls(basis, root.shape[:-1], basis.variance, trend=False)
        if posterior.is_posterior:
            identity = torch.eye(basis.size, dtype=root.dtype, device=root.device)
            made._begin(basis, FEWEST_ROWS, identity - posterior.rows.mT @ posterior.rows)
        else:
            made.rows = Rows.of(posterior.rows, batch_dim=root.dim() - 1)
            made.weights, prior = torch.ones_like(root), observations.prior_factor
        made._regressed(posterior, basis.expand)
        made.variance = scaled(basis.variance, prior) - posterior.variance_reduction(basis)
        made._compact(basis)
        return made

    @classmethod
    def of_arms(cls, basis: Basis, of: PlayedArms) -> Filter:
        """Convert a :class:`PlayedArms` with more played arms than coordinates to a filter."""
        made = cls(basis, of.count.shape, basis.variance, trend=False).taken(of)
        made._begin(basis, FEWEST_ROWS, of.matrix(basis))
        return made

    @staticmethod
    def numbers(basis: Basis, rounds: int) -> int:
        most = most_rows(basis)
        if rounds >= most:  # two matrices, each with few rows
            return 2 * (FEWEST_ROWS + basis.size) * basis.size
        capacity = room_for(rounds, min(most, FIRST_ROWS))
        older = capacity // 2 if rounds > FIRST_ROWS else 0  # the old rows while they are copied
        return (capacity + older) * basis.size

    def at(self, basis: Basis, index: Tensor) -> Tensor:
        rows = self.rows.tensor()
        reduction = (basis.inner(rows, index) * self.weights.unsqueeze(-2)) @ rows
        if self.absorbed is not None:
            absorbed = basis.inner(self.absorbed, index)  # symmetric: its rows are its columns
            reduction = reduction + self.absorbed_weight[..., None, None] * absorbed
        return reduction

    def matrix(self, basis: Basis) -> Tensor:
        rows = self.rows.tensor()
        reduction = rows.mT @ (self.weights.unsqueeze(-1) * rows)
        if self.absorbed is not None:
            # In place, because the operating system zeroes every page of new memory.
            reduction.addcmul_(self.absorbed, self.absorbed_weight[..., None, None])
        return reduction

    def as_root(self, basis: Basis) -> RootFilter:
        """The posterior of a static objective, represented by the Cholesky factor of I - D."""
        matrix = self.matrix(basis)
        identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
        root = torch.linalg.cholesky_ex(identity - matrix).L
        made = RootFilter(basis, root.shape[:-2], basis.variance, trend=False).taken(self)
        made.root = root
        return made

    def _shrink(self, square: Tensor) -> None:
        self.weights = self.weights * square.unsqueeze(-1)
        self.absorbed_weight = self.absorbed_weight * square

    def _clear(self, trials: Tensor) -> None:
        self._shrink((~trials).to(self.weights.dtype))

    def _step(
        self, basis: Basis, index: Tensor, noise: Tensor, prior: Tensor | None, sign: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        row, alone = basis.row(index), basis.alone(index)
        if prior is not None:
            row = row * prior.unsqueeze(-1)
        row = row - self.at(basis, alone).squeeze(-2)
        signed = sign * basis.inner(row.unsqueeze(-2), alone)[..., 0, 0]
        root = (signed + noise).rsqrt_()
        row.mul_(root.unsqueeze(-1))
        self.rows = self.rows.append(row)
        self.weights = torch.nn.functional.pad(self.weights, (0, 1), value=sign)
        self._compact(basis)
        return signed, root, row

    def _compact(self, basis: Basis) -> None:
        # Absorption depends only on the number of rows, so it happens in all trials together.
        if len(self.rows) < (most_rows(basis) if self.absorbed is None else FEWEST_ROWS):
            return
        self._begin(basis, FEWEST_ROWS, self.matrix(basis))


class RootFilter(RunningPosterior):
    """A posterior as D = I - L Lᵀ in features, for any static objective: Potter's square root.

    With v = Lᵀ φ(x) and s = |v|² + n, an observation at x with noise variance n changes L to
    L (I - v vᵀ / s)^(1/2). The square root (I - v vᵀ / s)^(1/2) is
    I - v vᵀ / (s (1 + √(1 - |v|² / s))), so L changes by a rank-one step. Even with rounding
    errors, L Lᵀ is a covariance. A sample of the objective is L times a sample of the prior.

    Attributes:
        root: L, `batch_shape x r x r`.
    """

    def __init__(self, basis: Basis, shape: Size, variance: Tensor, *, trend: bool) -> None:
        super().__init__(basis, shape, variance, trend=trend)
        self.root = torch.diag_embed(variance.new_ones(basis.size)).repeat(*shape, 1, 1)

    @staticmethod
    def numbers(basis: Basis, rounds: int) -> int:
        return basis.size**2

    def at(self, basis: Basis, index: Tensor) -> Tensor:
        prior = basis.row(index)
        return prior - (prior @ self.root) @ self.root.mT

    def matrix(self, basis: Basis) -> Tensor:
        identity = torch.eye(basis.size, dtype=self.root.dtype, device=self.root.device)
        return identity - self.root @ self.root.mT

    def draw(self, basis: Basis, square: Tensor | None, prior: Tensor | None, n: Tensor) -> Tensor:
        assert isinstance(basis, FeatureBasis)
        return (self.root @ basis.draw_from_prior(n).unsqueeze(-1)).squeeze(-1)

    def _shrink(self, square: Tensor) -> None:
        raise NotImplementedError("a root filter requires a static objective")

    def _clear(self, trials: Tensor) -> None:
        identity = torch.eye(self.root.shape[-1], dtype=self.root.dtype, device=self.root.device)
        clear_(self.root, trials, identity)

    def _step(
        self, basis: Basis, index: Tensor, noise: Tensor, prior: Tensor | None, sign: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        direction = (basis.row(index).unsqueeze(-2) @ self.root).squeeze(-2)
        signed = sign * direction.square().sum(-1)
        root = (signed + noise).rsqrt_()
        direction.mul_(root.unsqueeze(-1))
        coordinates = (self.root @ direction.unsqueeze(-1)).squeeze(-1)
        # ``share`` is noise / (variance + noise); it exceeds 1 for a removal.
        share = torch.rsub(direction.square().sum(-1, keepdim=True), 1, alpha=sign)
        shortened = direction / share.sqrt_().add_(1)
        self.root.addcmul_(coordinates.unsqueeze(-1), shortened.unsqueeze(-2), value=-sign)
        return signed, root, coordinates


def most_rows(basis: Basis) -> int:
    """Number n of rows that are absorbed into the matrix B in its first absorption.

    A step reads either all n rows twice (2 n r numbers) or the matrix B once (r² numbers). If n is
    at least r / 2, reading the matrix B takes no longer than reading all n rows twice.
    """
    return max(FEWEST_ROWS, basis.size // 2)
