"""What observations took away from the prior covariance, in three representations.

All stand for D = prior - posterior and answer which covariance a new observation meets. Rows fit
any decay; arms, see :mod:`botorch_tv.inference.arm_reduction`, exploit that observations of one arm
of a static objective are observations of one number, so that what is held grows with the arms
played, not with the rounds; a root of the posterior, of a static objective too, draws samples from
it at no more than an observation costs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Size, Tensor

from botorch_tv.inference.basis import Basis, FeatureBasis
from botorch_tv.inference.costs import FEWEST_ROWS
from botorch_tv.inference.linalg import clear_
from botorch_tv.inference.rows import Rows, room_for

Take = Callable[[Tensor, int, Tensor], tuple[Tensor, "Reduction"]]
"""Takes an observation in. Its arguments are s^(-½), `batch_shape`, where ± s is the posterior
variance of the arm plus the noise; that sign; and memory for the first result. It returns the step
c s^(-½), `batch_shape x M`, c being the posterior covariance of the arm with all arms; and the
reduction that has ± the outer product of the step besides, in the memory of the one before."""


def most_rows(basis: Basis) -> int:
    """Number of rows at which they are absorbed for the first time.

    A step reads the rows twice, 2 n r numbers, or B once, r² numbers: from n = r / 2 on the matrix
    is the cheaper of the two.
    """
    return max(FEWEST_ROWS, basis.size // 2)


class Reduction(ABC):
    """The covariance D that observations took away, one per trial."""

    @classmethod
    @abstractmethod
    def none(cls, basis: Basis, batch_shape: Size) -> Reduction:
        """The reduction before any observation."""

    @staticmethod
    @abstractmethod
    def numbers(basis: Basis, rounds: int) -> int:
        """Numbers per trial, held and worked on, after so many observations, of as many arms."""

    @abstractmethod
    def at(self, basis: Basis, index: Tensor) -> Tensor:
        """Coordinates of the reduction of the covariance between some arms and all arms.

        Args:
            basis: Coordinates of the kernel.
            index: Arms, `batch_shape x q`.

        Returns:
            `batch_shape x q x r`.
        """

    @abstractmethod
    def meet(self, basis: Basis, index: Tensor, prior_factor: Tensor | None) -> tuple[Tensor, Take]:
        """What an observation of one arm per trial meets, and how to take it in.

        Args:
            basis: Coordinates of the kernel.
            index: Arm observed, `batch_shape`.
            prior_factor: Factor on the prior covariance, `batch_shape`; None for 1.

        Returns:
            The posterior variance of the arm, `batch_shape`, and how to go on once it is known.
        """

    def decayed(self, square: Tensor) -> Reduction:
        """D times a factor per trial, `batch_shape`, as time passes over a moving objective."""
        raise NotImplementedError(f"{type(self).__name__} holds static objectives only")

    @abstractmethod
    def cleared(self, trials: Tensor) -> Reduction:
        """Zero in some trials, `batch_shape`, in the memory of this one."""

    @abstractmethod
    def draw(self, basis: Basis, prior_factor: Tensor | None, normal: Tensor) -> Tensor:
        """Coordinates of a draw from the posterior covariance.

        Args:
            basis: Coordinates of the kernel.
            prior_factor: Factor on the prior covariance, `batch_shape`; None for 1.
            normal: Standard normal variates, `batch_shape x p`.

        Returns:
            `batch_shape x r`.
        """

    @abstractmethod
    def copied(self) -> Reduction:
        """A copy in its own memory."""

    @abstractmethod
    def compact(self, basis: Basis) -> Reduction:
        """The cheaper form of the same reduction, once it has grown."""


@dataclass(frozen=True)
class RowReduction(Reduction):
    """D = Σᵢ wᵢ hᵢ hᵢᵀ + w_b B: rows in coordinates of the basis, and a matrix of older ones.

    Args:
        rows: h, `batch_shape x n x r`.
        weights: w, `batch_shape x n`.
        absorbed: B, `batch_shape x r x r`; None while nothing has been absorbed.
        absorbed_weight: w_b, `batch_shape`.
    """

    rows: Rows
    weights: Tensor
    absorbed: Tensor | None
    absorbed_weight: Tensor

    @classmethod
    def none(cls, basis: Basis, batch_shape: Size) -> RowReduction:
        return cls._with_room(basis, batch_shape, min(most_rows(basis), 128))

    @classmethod
    def _with_room(cls, basis: Basis, batch_shape: Size, capacity: int) -> RowReduction:
        """No reduction yet, with room for so many rows."""
        zeros = basis.variance.new_zeros(batch_shape)
        rows = Rows.empty(
            batch_shape,
            (basis.size,),
            dtype=zeros.dtype,
            device=zeros.device,
            capacity=capacity,
        )
        return cls(rows, zeros.new_zeros(*batch_shape, 0), None, zeros)

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

    @classmethod
    def of_matrix(cls, basis: Basis, matrix: Tensor) -> RowReduction:
        """A given D in coordinates of the basis, `batch_shape x r x r`."""
        none = cls._with_room(basis, matrix.shape[:-2], FEWEST_ROWS)
        return replace(none, absorbed=matrix, absorbed_weight=none.absorbed_weight + 1)

    def draw(self, basis: Basis, prior_factor: Tensor | None, normal: Tensor) -> Tensor:
        return basis.draw(self.matrix(), prior_factor, normal)

    def at(self, basis: Basis, index: Tensor) -> Tensor:
        rows = self.rows.tensor()
        reduction = (basis.inner(rows, index) * self.weights.unsqueeze(-2)) @ rows
        if self.absorbed is not None:
            absorbed = basis.inner(self.absorbed, index)  # symmetric: its rows are its columns
            reduction = reduction + self.absorbed_weight[..., None, None] * absorbed
        return reduction

    def meet(self, basis: Basis, index: Tensor, prior_factor: Tensor | None) -> tuple[Tensor, Take]:
        prior = basis.row(index)
        if prior_factor is not None:
            prior = prior * prior_factor.unsqueeze(-1)
        alone = basis.alone(index)
        coordinates = prior - self.at(basis, alone).squeeze(-2)
        variance = basis.inner(coordinates.unsqueeze(-2), alone)[..., 0, 0]
        return variance, partial(self._appended, basis, coordinates)

    def decayed(self, square: Tensor) -> RowReduction:
        return replace(
            self,
            weights=self.weights * square.unsqueeze(-1),
            absorbed_weight=self.absorbed_weight * square,
        )

    def cleared(self, trials: Tensor) -> RowReduction:
        return self.decayed((~trials).to(self.weights.dtype))

    def copied(self) -> RowReduction:
        return self

    def compact(self, basis: Basis) -> RowReduction:
        # Which form is kept depends on the number of rows alone, so all trials share it.
        if len(self.rows) < (most_rows(basis) if self.absorbed is None else FEWEST_ROWS):
            return self
        return RowReduction.of_matrix(basis, self.matrix())

    def matrix(self) -> Tensor:
        """D in coordinates of the basis, `batch_shape x r x r`."""
        rows = self.rows.tensor()
        reduction = rows.mT @ (self.weights.unsqueeze(-1) * rows)
        if self.absorbed is not None:
            # In place: of fresh memory the system has to zero every page.
            reduction.addcmul_(self.absorbed, self.absorbed_weight[..., None, None])
        return reduction

    def as_root(self) -> RootReduction:
        """The reduction of a static objective, by the Cholesky factor of I - D."""
        matrix = self.matrix()
        identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
        return RootReduction(torch.linalg.cholesky_ex(identity - matrix).L)

    def _appended(
        self, basis: Basis, coordinates: Tensor, root: Tensor, sign: int, out: Tensor
    ) -> tuple[Tensor, RowReduction]:
        row = coordinates * root.unsqueeze(-1)
        weights = torch.nn.functional.pad(self.weights, (0, 1), value=sign)
        reduction = replace(self, rows=self.rows.append(row), weights=weights)
        return basis.expand(row, out=out), reduction


@dataclass(frozen=True)
class RootReduction(Reduction):
    """D = I - L Lᵀ in features of the kernel, for any static objective: Potter's square root.

    With v = Lᵀ φ(x) and s = |v|² + n an observation of noise n takes L to L (I - v vᵀ / s)^(1/2),
    and that root is I - v vᵀ / (s (1 + √(1 - |v|² / s))): a rank-one step, after which L Lᵀ is a
    covariance whatever was rounded. A sample of the objective is L times one of the prior.

    Args:
        root: L, `batch_shape x r x r`.
    """

    root: Tensor

    @classmethod
    def none(cls, basis: Basis, batch_shape: Size) -> RootReduction:
        identity = torch.diag_embed(basis.variance.new_ones(basis.size))
        return cls(identity.repeat(*batch_shape, 1, 1))

    @staticmethod
    def numbers(basis: Basis, rounds: int) -> int:
        return basis.size**2

    def at(self, basis: Basis, index: Tensor) -> Tensor:
        prior = basis.row(index)
        return prior - (prior @ self.root) @ self.root.mT

    def meet(self, basis: Basis, index: Tensor, prior_factor: Tensor | None) -> tuple[Tensor, Take]:
        direction = (basis.row(index).unsqueeze(-2) @ self.root).squeeze(-2)
        return direction.square().sum(-1), partial(self._stepped, basis, direction)

    def cleared(self, trials: Tensor) -> RootReduction:
        identity = torch.eye(self.root.shape[-1], dtype=self.root.dtype, device=self.root.device)
        return RootReduction(clear_(self.root, trials, identity))

    def copied(self) -> RootReduction:
        return RootReduction(self.root.clone())

    def compact(self, basis: Basis) -> RootReduction:
        return self

    def draw(self, basis: Basis, prior_factor: Tensor | None, normal: Tensor) -> Tensor:
        assert isinstance(basis, FeatureBasis)
        return (self.root @ basis.draw_from_prior(normal).unsqueeze(-1)).squeeze(-1)

    def _stepped(
        self, basis: Basis, direction: Tensor, root: Tensor, sign: int, out: Tensor
    ) -> tuple[Tensor, RootReduction]:
        scaled = direction * root.unsqueeze(-1)
        coordinates = (self.root @ scaled.unsqueeze(-1)).squeeze(-1)
        # Noise as a share of variance and noise; more than 1 where an observation is left out.
        share = torch.rsub(scaled.square().sum(-1, keepdim=True), 1, alpha=sign)
        shortened = scaled / share.sqrt_().add_(1)
        self.root.addcmul_(coordinates.unsqueeze(-1), shortened.unsqueeze(-2), value=-sign)
        return basis.expand(coordinates, out=out), self
