"""What all trials play on in one round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

from torch import Tensor

from botorch_tv.inference.product_basis import ProductBasis


class Objective(ABC):
    """The objective functions of all trials in one round, without noise."""

    @abstractmethod
    def at(self, choice: Tensor) -> Tensor:
        """Values at what was chosen.

        Args:
            choice: As a log keeps it, one choice or q of them per trial: arms, `trials` or
                `trials x q`, int64; on a box points, `trials x d` or `trials x q x d`.

        Returns:
            `trials` or `trials x q`.
        """

    @abstractmethod
    def best(self, maximize: bool) -> Tensor:
        """The best value there is, `trials`.

        Args:
            maximize: Whether that is the largest or the smallest.
        """


class OnArms(Objective):
    """Objectives by their values on all arms of a grid.

    Args:
        values: `trials x M`.
    """

    def __init__(self, values: Tensor) -> None:
        self.values = values

    def at(self, choice: Tensor) -> Tensor:
        if choice.dim() == self.values.dim():
            return self.values.gather(-1, choice)
        return self.values.gather(-1, choice.unsqueeze(-1)).squeeze(-1)

    def best(self, maximize: bool) -> Tensor:
        return self.values.amax(-1) if maximize else self.values.amin(-1)


class InFeatures(OnArms):
    """Objectives by their coordinates in features, brought to the arms where somebody looks.

    Args:
        basis: Of the features.
        coordinates: `trials x r`.
        room: Memory for the values, `trials x M`, in which the next round's will be.
    """

    def __init__(self, basis: ProductBasis, coordinates: Tensor, room: Tensor) -> None:
        self.basis, self.coordinates, self._room = basis, coordinates, room

    @cached_property
    def values(self) -> Tensor:  # type: ignore[override]
        return self.basis.expand(self.coordinates, out=self._room)
