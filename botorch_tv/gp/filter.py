"""The posterior over all arms, or in functions on a box, by a filter in features of the kernel.

It has the verbs of :mod:`botorch_tv.gp.arm_engine` and serves where the inverse over the
arms played does not: in single precision, with noise so small that the inverse amplifies rounding,
with more arms played than features, on a box, and where samples are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Size, Tensor

from botorch_tv.gp.arm_engine import PlayedArms, RunningPosterior
from botorch_tv.gp.basis import Basis, FeatureBasis
from botorch_tv.gp.linalg import clear_
from botorch_tv.gp.regression import Observations, regress
from botorch_tv.gp.tensors import Rows, room_for

FEWEST_ROWS = 32
"""Rows are not absorbed before there are this many, so that touching all of B stays rare."""


@dataclass(eq=False)
class Filter(RunningPosterior):
    """D = Σᵢ wᵢ hᵢ hᵢᵀ + w B: steps in coordinates of the basis, and a matrix of older ones.

    Steps are absorbed by the matrix once reading it costs less than reading them, so that few
    observations over many coordinates stay cheap.

    Args:
        rows: h, `batch_shape x n x r`.
        weights: w, `batch_shape x n`.
        absorbed: B, `batch_shape x r x r`; None while nothing has been absorbed.
        absorbed_weight: `batch_shape`.
    """

    rows: Rows
    weights: Tensor
    absorbed: Tensor | None
    absorbed_weight: Tensor

    @staticmethod
    def _nothing(basis: Basis, shape: Size) -> tuple[Rows, Tensor, Tensor | None, Tensor]:
        return _no_steps(basis, shape, min(most_rows(basis), 128))

    @classmethod
    def of_observations(cls, basis: Basis, observations: Observations) -> Filter:
        """The posterior by one regression, free of accumulated rounding."""
        posterior, prior = regress(basis, observations), basis.variance
        root, trend = observations.precision_root, posterior.trend
        batch_shape = root.shape[:-1]
        steps = _no_steps(basis, batch_shape, FEWEST_ROWS)
        if posterior.is_posterior:
            identity = torch.eye(basis.size, dtype=root.dtype, device=root.device)
            absorbed = identity - posterior.rows.mT @ posterior.rows
            steps = steps[0], steps[1], absorbed, steps[3] + 1
        else:
            rows = Rows.of(posterior.rows, batch_dim=len(batch_shape))
            steps = rows, torch.ones_like(root), None, steps[3]
            if observations.prior_factor is not None:
                prior = prior * observations.prior_factor.unsqueeze(-1)
        mean = basis.expand(posterior.coordinates)
        if trend is not None:
            trend = trend._replace(response=basis.expand(trend.response))
            mean = mean + trend.constant.unsqueeze(-1) * trend.response
        variance = prior - posterior.variance_reduction(basis)
        made = cls(mean, variance, posterior.information_gain, trend, *steps)
        made._compact(basis)
        return made

    @classmethod
    def of_arms(cls, basis: Basis, of: PlayedArms) -> Filter:
        """The same posterior once more arms are held than there are coordinates."""
        rows, weights, _, weight = _no_steps(basis, of.count.shape, FEWEST_ROWS)
        moments = of.mean, of.variance, of.information_gain, of.trend
        return cls(*moments, rows, weights, of.matrix(basis), weight + 1)

    @staticmethod
    def numbers(basis: Basis, rounds: int) -> int:
        size, most = basis.size, most_rows(basis)
        first = min(most, 128)
        room = room_for(min(rounds, most), first)
        if rounds < most:
            older = room // 2 if room > first else 0  # while they are copied
            return (room + older) * size
        # Weighted rows beside the rows and their sum; later two matrices beside few rows.
        absorbing = (room + most + size) * size
        return max(absorbing, 2 * (FEWEST_ROWS + size) * size if rounds > most else 0)

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
            # In place: of fresh memory the system has to zero every page.
            reduction.addcmul_(self.absorbed, self.absorbed_weight[..., None, None])
        return reduction

    def as_root(self, basis: Basis) -> RootFilter:
        """The same posterior, of a static objective, by the Cholesky factor of I - D."""
        matrix = self.matrix(basis)
        identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
        root = torch.linalg.cholesky_ex(identity - matrix).L
        return RootFilter(self.mean, self.variance, self.information_gain, self.trend, root)

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
        variance = basis.inner(row.unsqueeze(-2), alone)[..., 0, 0]
        total = variance + noise  # negative where an observation is removed
        root = (total.abs_() if sign < 0 else total).rsqrt_()
        row.mul_(root.unsqueeze(-1))
        self.rows = self.rows.append(row)
        self.weights = torch.nn.functional.pad(self.weights, (0, 1), value=sign)
        out = basis.scratch.take("arms", self.mean.shape, self.mean)
        step = basis.expand(row, out=out)
        self._compact(basis)
        return variance, root, step

    def _compact(self, basis: Basis) -> None:
        # Which form is held depends on the number of rows alone, so all trials share it.
        if len(self.rows) < (most_rows(basis) if self.absorbed is None else FEWEST_ROWS):
            return
        self.absorbed = self.matrix(basis)
        shape = self.absorbed.shape[:-2]
        self.rows, self.weights, _, weight = _no_steps(basis, shape, FEWEST_ROWS)
        self.absorbed_weight = weight + 1


@dataclass(eq=False)
class RootFilter(RunningPosterior):
    """D = I - L Lᵀ in features of the kernel, for any static objective: Potter's square root.

    With v = Lᵀ φ(x) and s = |v|² + n an observation of noise n takes L to L (I - v vᵀ / s)^(1/2),
    and that root is I - v vᵀ / (s (1 + √(1 - |v|² / s))): a rank-one step, after which L Lᵀ is a
    covariance whatever was rounded. A sample of the objective is L times one of the prior.

    Args:
        root: L, `batch_shape x r x r`.
    """

    root: Tensor

    @staticmethod
    def _nothing(basis: Basis, shape: Size) -> tuple[Tensor]:
        identity = torch.diag_embed(basis.variance.new_ones(basis.size))
        return (identity.repeat(*shape, 1, 1),)

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
        raise NotImplementedError("a root is held of static objectives only")

    def _clear(self, trials: Tensor) -> None:
        identity = torch.eye(self.root.shape[-1], dtype=self.root.dtype, device=self.root.device)
        clear_(self.root, trials, identity)

    def _step(
        self, basis: Basis, index: Tensor, noise: Tensor, prior: Tensor | None, sign: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        direction = (basis.row(index).unsqueeze(-2) @ self.root).squeeze(-2)
        variance = direction.square().sum(-1)
        total = variance + noise  # negative where an observation is removed
        root = (total.abs_() if sign < 0 else total).rsqrt_()
        direction.mul_(root.unsqueeze(-1))
        coordinates = (self.root @ direction.unsqueeze(-1)).squeeze(-1)
        # Noise as a share of variance and noise; more than 1 where an observation is removed.
        share = torch.rsub(direction.square().sum(-1, keepdim=True), 1, alpha=sign)
        shortened = direction / share.sqrt_().add_(1)
        self.root.addcmul_(coordinates.unsqueeze(-1), shortened.unsqueeze(-2), value=-sign)
        out = basis.scratch.take("arms", self.mean.shape, self.mean)
        return variance, root, basis.expand(coordinates, out=out)


def most_rows(basis: Basis) -> int:
    """Number of rows at which they are absorbed for the first time.

    A step reads the rows twice, 2 n r numbers, or B once, r² numbers: from n = r / 2 on the matrix
    is the cheaper of the two.
    """
    return max(FEWEST_ROWS, basis.size // 2)


def _no_steps(
    basis: Basis, batch_shape: Size, capacity: int
) -> tuple[Rows, Tensor, Tensor | None, Tensor]:
    """Rows with room for so many, their weights, and a matrix and its weight, all of no step."""
    zeros = basis.variance.new_zeros(batch_shape)
    rows = Rows.empty(
        batch_shape, (basis.size,), dtype=zeros.dtype, device=zeros.device, capacity=capacity
    )
    return rows, zeros.new_zeros(*batch_shape, 0), None, zeros
