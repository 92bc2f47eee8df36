"""Whether what was computed from a model's parameters still holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class ParameterSnapshot:
    """What a factor was computed from.

    Parameters are few and change in place, by an optimiser's step or a setter, which leave no
    trace but the values; tensors of the size of the data are known by identity and version.

    Args:
        values: Copies of parameters and buffers.
        held: Other tensors, with their versions.
    """

    values: list[Tensor]
    held: list[tuple[Tensor, int]]

    @classmethod
    def take(cls, values: Iterable[Tensor], held: Iterable[Tensor]) -> Self:
        """Remember some tensors as they are."""
        return cls(
            [one.detach().clone() for one in values],
            [(one, one._version) for one in held],
        )

    def holds(self, values: Iterable[Tensor], held: Iterable[Tensor]) -> bool:
        """Whether they are still the same."""
        values, held = list(values), list(held)
        if len(values) != len(self.values) or len(held) != len(self.held):
            return False
        if any(new is not old or new._version != v for new, (old, v) in zip(held, self.held)):
            return False
        return all(map(_same, values, self.values))


def _same(new: Tensor, old: Tensor) -> bool:
    alike = new.dtype == old.dtype and new.device == old.device and new.shape == old.shape
    return alike and torch.equal(new, old)
