"""What observations took away from the prior covariance, in three representations.

All stand for D = prior - posterior and answer which covariance a new observation meets. Rows fit
any decay; arms exploit that observations of one arm of a static objective are observations of one
number, so that what is held grows with the arms played, not with the rounds; a root of the
posterior, of a static objective too, draws samples from it at no more than an observation costs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Size, Tensor

from botorch_tv.inference.basis import Basis, FeatureBasis
from botorch_tv.inference.costs import FEWEST_ROWS, FIRST_SLOTS
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
        """The same in memory of its own."""

    @abstractmethod
    def compact(self, basis: Basis) -> Reduction:
        """The same in the cheaper form, once it has grown."""


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
        """Of no observation."""
        zeros = basis.variance.new_zeros(batch_shape)
        rows = Rows.empty(
            batch_shape,
            (basis.size,),
            dtype=zeros.dtype,
            device=zeros.device,
            capacity=min(most_rows(basis), 128),
        )
        return cls(rows, zeros.new_zeros(*batch_shape, 0), None, zeros)

    @staticmethod
    def numbers(basis: Basis, rounds: int) -> int:
        """Numbers per trial, held and worked on, after so many rows were appended."""
        size, most = basis.size, most_rows(basis)
        first = min(most, 128)
        room = room_for(min(rounds, most), first)
        if rounds < most:
            older = room // 2 if room > first else 0  # while they are copied
            return (room + older) * size
        # Weighted rows beside the rows and their sum; later three matrices beside few rows.
        absorbing = (room + most + size) * size
        fewer = room_for(FEWEST_ROWS, first)
        return max(absorbing, (fewer + FEWEST_ROWS + 3 * size) * size if rounds > most else 0)

    @classmethod
    def of_matrix(cls, basis: Basis, matrix: Tensor) -> RowReduction:
        """A given D in coordinates of the basis, `batch_shape x r x r`."""
        none = cls.none(basis, matrix.shape[:-2])
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
            reduction = torch.addcmul(
                reduction, self.absorbed, self.absorbed_weight[..., None, None]
            )
        return reduction

    def as_root(self) -> RootReduction:
        """The same of a static objective, by the Cholesky factor of I - D."""
        matrix = self.matrix()
        identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
        return RootReduction(torch.linalg.cholesky_ex(identity - matrix).L)

    def _appended(
        self, basis: Basis, coordinates: Tensor, root: Tensor, sign: int, out: Tensor
    ) -> tuple[Tensor, RowReduction]:
        row = coordinates * root.unsqueeze(-1)
        weight = torch.full_like(root, sign).unsqueeze(-1)
        weights = torch.cat([self.weights, weight], dim=-1)
        reduction = replace(self, rows=self.rows.append(row), weights=weights)
        return basis.expand(row, out=out), reduction


@dataclass(frozen=True)
class ArmReduction(Reduction):
    """D = K_·A P K_A· for the arms A played, with P = (K_AA + N_A)⁻¹: any static objective.

    Each trial fills slots with its own arms, in the order in which it first played them. Observing
    the arm in slot j, once more or for the first time, is one and the same step, P + z zᵀ / s with
    z = e_j - P k_A(x) and s = var(x) + noise: Sherman-Morrison, or bordering.

    Args:
        arms: The arm in every slot, `batch_shape x slots`, int64.
        inverse: P, `batch_shape x slots x slots`, zero in slots not used.
        count: Slots used, `batch_shape`, int64.
        width: Slots used by any trial, or a few more; fewer than there are.
    """

    arms: Tensor
    inverse: Tensor
    count: Tensor
    width: int

    @classmethod
    def none(cls, basis: Basis, batch_shape: Size) -> ArmReduction:
        """Of no observation."""
        device = basis.variance.device
        return cls(
            arms=torch.zeros(*batch_shape, FIRST_SLOTS, dtype=torch.int64, device=device),
            inverse=basis.variance.new_zeros(*batch_shape, FIRST_SLOTS, FIRST_SLOTS),
            count=torch.zeros(batch_shape, dtype=torch.int64, device=device),
            width=0,
        )

    @staticmethod
    def numbers(basis: Basis, rounds: int) -> int:
        """Numbers per trial, held and worked on, after so many rounds, each of another arm."""
        width = min(rounds, basis.arms, basis.size + 1)
        slots = room_for(width + 1, FIRST_SLOTS)
        older = slots // 2 if slots > FIRST_SLOTS else 0  # while they are copied
        held = slots**2 + max(older**2, basis.numbers_of_mixture(width))
        if width <= basis.size:
            return held
        return max(
            slots**2 + (2 * width + basis.size) * basis.size,
            RowReduction.numbers(basis, rounds - width),
        )

    def at(self, basis: Basis, index: Tensor) -> Tensor:
        arms, inverse = self._used()
        return (basis.between(index, arms) @ inverse) @ basis.row(arms)

    def meet(self, basis: Basis, index: Tensor, prior_factor: Tensor | None) -> tuple[Tensor, Take]:
        # One slot more than are used, for the arm may be new; slots not used weigh nothing.
        arms = self.arms[..., : self.width + 1]
        slots = torch.arange(self.width + 1, device=arms.device)
        known = (arms == index.unsqueeze(-1)) & (slots < self.count.unsqueeze(-1))
        slot = torch.where(known.any(-1), known.to(torch.uint8).argmax(-1), self.count)
        chosen = slots == slot.unsqueeze(-1)
        used, inverse = self._used()
        between = basis.between(index.unsqueeze(-1), used).squeeze(-2)
        weights = (between.unsqueeze(-2) @ inverse).squeeze(-2)
        variance = basis.variance[index] - (between * weights).sum(-1)
        direction = chosen.to(inverse.dtype)
        direction.narrow(-1, 0, self.width).sub_(weights)
        arms = torch.where(chosen, index.unsqueeze(-1), arms)
        count = torch.maximum(self.count, slot + 1)
        return variance, partial(self._bordered, basis, arms, count, direction)

    def cleared(self, trials: Tensor) -> ArmReduction:
        clear_(self._used()[1], trials)
        return replace(self, count=self.count * ~trials)

    def draw(self, basis: Basis, prior_factor: Tensor | None, normal: Tensor) -> Tensor:
        arms, inverse = self._used()
        rows = basis.row(arms)
        return basis.draw(rows.mT @ inverse @ rows, prior_factor, normal)

    def copied(self) -> ArmReduction:
        return replace(self, inverse=self.inverse.clone())

    def as_rows(self, basis: Basis) -> RowReduction:
        """The same as rows Lᵀ K_A· with P = L Lᵀ, one for every arm that told something."""
        arms, inverse = self._used()
        used = inverse.diagonal(dim1=-2, dim2=-1) > 0  # not so where all readings failed
        root = torch.linalg.cholesky_ex(inverse + torch.diag_embed((~used).to(inverse))).L
        rows = Rows.of(root.mT @ basis.row(arms), batch_dim=self.count.dim())
        return replace(
            RowReduction.none(basis, self.count.shape), rows=rows, weights=used.to(inverse)
        )

    def compact(self, basis: Basis) -> Reduction:
        if self.width <= basis.size:
            return self
        arms, inverse = self._used()
        rows = basis.row(arms)
        return RowReduction.of_matrix(basis, rows.mT @ inverse @ rows)

    def _used(self) -> tuple[Tensor, Tensor]:
        return self.arms[..., : self.width], self.inverse[..., : self.width, : self.width]

    def _bordered(
        self,
        basis: Basis,
        arms: Tensor,
        count: Tensor,
        direction: Tensor,
        root: Tensor,
        sign: int,
        out: Tensor,
    ) -> tuple[Tensor, ArmReduction]:
        width = self.width + 1
        scaled = direction * root.unsqueeze(-1)
        step = basis.mixture(arms, scaled, out=out)
        inverse = self.inverse[..., :width, :width]
        inverse.addcmul_(scaled.unsqueeze(-1), scaled.unsqueeze(-2), value=sign)
        arms = torch.cat([arms, self.arms[..., width:]], dim=-1)
        # Reading the count makes a device wait, so there it is read only now and then.
        if arms.device.type == "cpu" or width % FIRST_SLOTS == 0:
            width = int(count.max()) if count.numel() > 0 else 0
        return step, replace(self, arms=arms, count=count, width=width)._with_room()

    def _with_room(self) -> ArmReduction:
        """The same with a slot to spare."""
        slots = self.arms.shape[-1]
        if self.width < slots:
            return self
        return replace(
            self,
            arms=torch.nn.functional.pad(self.arms, (0, slots)),
            inverse=torch.nn.functional.pad(self.inverse, (0, slots, 0, slots)),
        )


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
        """Of no observation."""
        identity = torch.diag_embed(basis.variance.new_ones(basis.size))
        return cls(identity.repeat(*batch_shape, 1, 1))

    @staticmethod
    def numbers(basis: Basis, rounds: int) -> int:
        """Numbers per trial, held and worked on, after any number of rounds."""
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
