"""The objectives of one round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

from torch import Tensor

from botorch_tv.inference.basis import ProductBasis


class Objective(ABC):
    """The objective functions of all trials in one round, without noise."""

    @abstractmethod
    def at(self, choice: Tensor) -> Tensor:
        """Values at some choices.

        Args:
            choice: One choice or q choices per trial, as in the log: arms, `trials` or
                `trials x q`, int64; on a box points, `trials x d` or `trials x q x d`.

        Returns:
            `trials` or `trials x q`.
        """

    @abstractmethod
    def best(self, maximize: bool) -> Tensor:
        """The best value over the domain, `trials`.

        Args:
            maximize: Whether the best value is the largest or the smallest.
        """


class OnArms(Objective):
    """Objectives given by their values on all arms of a grid.

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
    """Objectives given by coordinates in features; values on the arms are computed on demand.

    Args:
        basis: The features.
        coordinates: `trials x r`.
        out: Memory for the values, `trials x M`, which the next round reuses.
    """

    def __init__(self, basis: ProductBasis, coordinates: Tensor, out: Tensor) -> None:
        self.basis, self.coordinates, self._out = basis, coordinates, out

    @cached_property
    def values(self) -> Tensor:  # type: ignore[override]
        return self.basis.expand(self.coordinates, out=self._out)
