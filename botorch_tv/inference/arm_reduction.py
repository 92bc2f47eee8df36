"""What observations took away from the covariance of a static objective, by the arms played."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Size, Tensor

from botorch_tv.inference.basis import Basis
from botorch_tv.inference.costs import FIRST_SLOTS
from botorch_tv.inference.linalg import clear_
from botorch_tv.inference.reductions import Reduction, RowReduction, Take
from botorch_tv.inference.rows import Rows, room_for


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
        device = basis.variance.device
        return cls(
            arms=torch.zeros(*batch_shape, FIRST_SLOTS, dtype=torch.int64, device=device),
            inverse=basis.variance.new_zeros(*batch_shape, FIRST_SLOTS, FIRST_SLOTS),
            count=torch.zeros(batch_shape, dtype=torch.int64, device=device),
            width=0,
        )

    @staticmethod
    def numbers(basis: Basis, rounds: int) -> int:
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
        arms, inverse = self._used(self.width)
        return (basis.between(index, arms) @ inverse) @ basis.row(arms)

    def meet(self, basis: Basis, index: Tensor, prior_factor: Tensor | None) -> tuple[Tensor, Take]:
        # The arm is put in the first slot not used, which it needs unless it has one already.
        place = index.unsqueeze(-1)
        self.arms.scatter_(-1, self.count.unsqueeze(-1), place)
        arms, inverse = self._used(self.width + 1)  # slots not used weigh nothing
        slot = (arms == place).view(torch.uint8).argmax(-1)
        trials, width = self.count.numel(), self.width + 1
        between = basis.between(place, arms).reshape(trials, 1, width)
        inverse = inverse.reshape(trials, width, width)
        lost = torch.baddbmm(between, between, inverse, beta=0, alpha=-1)
        direction = lost.view_as(arms).scatter_(-1, slot.unsqueeze(-1), 1.0, reduce="add")
        # Of what is in its slot, k(x, x), no more is left than the direction says.
        variance = torch.bmm(between, direction.view(trials, width, 1)).view_as(index)
        count = torch.maximum(self.count, slot + 1)
        return variance, partial(self._bordered, basis, count, direction)

    def cleared(self, trials: Tensor) -> ArmReduction:
        clear_(self._used(self.width)[1], trials)
        return replace(self, count=self.count.masked_fill(trials, 0))

    def draw(self, basis: Basis, prior_factor: Tensor | None, normal: Tensor) -> Tensor:
        arms, inverse = self._used(self.width)
        rows = basis.row(arms)
        return basis.draw(rows.mT @ inverse @ rows, prior_factor, normal)

    def copied(self) -> ArmReduction:
        return replace(self, arms=self.arms.clone(), inverse=self.inverse.clone())

    def as_rows(self, basis: Basis) -> RowReduction:
        """As rows Lᵀ K_A· with P = L Lᵀ, one for every arm that was measured."""
        arms, inverse = self._used(self.width)
        used = inverse.diagonal(dim1=-2, dim2=-1) > 0  # not so where all readings failed
        root = torch.linalg.cholesky_ex(inverse + torch.diag_embed((~used).to(inverse))).L
        rows = Rows.of(root.mT @ basis.row(arms), batch_dim=self.count.dim())
        return replace(
            RowReduction.none(basis, self.count.shape), rows=rows, weights=used.to(inverse)
        )

    def compact(self, basis: Basis) -> Reduction:
        if self.width <= basis.size:
            return self
        arms, inverse = self._used(self.width)
        rows = basis.row(arms)
        return RowReduction.of_matrix(basis, rows.mT @ inverse @ rows)

    def _used(self, width: int) -> tuple[Tensor, Tensor]:
        return self.arms[..., :width], self.inverse[..., :width, :width]

    def _bordered(
        self,
        basis: Basis,
        count: Tensor,
        direction: Tensor,
        root: Tensor,
        sign: int,
        out: Tensor,
    ) -> tuple[Tensor, ArmReduction]:
        width = self.width + 1
        arms, inverse = self._used(width)
        scaled = direction * root.unsqueeze(-1)
        step = basis.mixture(arms, scaled, out=out)
        inverse.addcmul_(scaled.unsqueeze(-1), scaled.unsqueeze(-2), value=sign)
        # Reading the count makes a device wait, so there it is read only now and then.
        if arms.device.type == "cpu" or width % FIRST_SLOTS == 0:
            width = int(count.max()) if count.numel() > 0 else 0
        return step, replace(self, count=count, width=width)._with_room()

    def _with_room(self) -> ArmReduction:
        """A copy with a free slot."""
        slots = self.arms.shape[-1]
        if self.width < slots:
            return self
        return replace(
            self,
            arms=torch.nn.functional.pad(self.arms, (0, slots)),
            inverse=torch.nn.functional.pad(self.inverse, (0, slots, 0, slots)),
        )
