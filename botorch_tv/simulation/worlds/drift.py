"""Objectives that change gradually from one function to the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds.drawn import DrawnWorld, of_functions
from botorch_tv.simulation.worlds.functions import FunctionDistribution
from botorch_tv.strategies.domains import Grid
from botorch_tv.validation import require_integer


class DriftWorld(DrawnWorld):
    """f_t = f1 + (f2 - f1) t / T, [W22] §7, or such legs one after the other, [W22] §E.

    With L legs and p = L t / T the objective interpolates linearly between function ⌊p⌋ and the
    next, at the fraction p - ⌊p⌋, so f_T is the last function and f_1 is not quite the first.

    Args:
        domain: The arms.
        functions: Distribution of the functions: one for all, or one for each.
        horizon: Total rounds T, at least 1, after which the world ends; 500 in the paper.
        legs: Number L of linear segments, between L + 1 functions; 1 in the paper, 2 in its
            appendix.
        noise: Variance of the observation noise.

    Attributes:
        horizon: Number of rounds T.

    Raises:
        ValueError: If ``horizon`` or ``legs`` is no integer of at least 1, ``noise`` is negative or
            not finite, or the functions are not one more than the legs.
        InputDataError: If a given function does not fit the domain.
    """

    horizon: int

    @of_functions
    def __init__(
        self,
        domain: Grid,
        *,
        functions: FunctionDistribution | Sequence[FunctionDistribution],
        horizon: int,
        legs: int = 1,
        noise: float,
    ) -> None:
        horizon = require_integer(
            "DriftWorld: horizon", horizon, 1, "give the rounds of the whole way."
        )
        legs = require_integer("DriftWorld: legs", legs, 1, "one leg joins two functions.")
        super().__init__(domain, functions, legs + 1, noise)
        self.horizon = horizon
        self.legs = legs

    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        ends = [drawn.values for drawn in self.draw(stream)]
        values = torch.empty_like(ends[0], memory_format=torch.contiguous_format)
        for t in range(1, self.horizon + 1):
            # In whole numbers, so that a leg ends at its function whatever the rounding.
            leg, rest = divmod(self.legs * t, self.horizon)
            if rest == 0:
                values.copy_(ends[leg])
            else:
                torch.lerp(ends[leg], ends[leg + 1], rest / self.horizon, out=values)
            yield values

    def _parameters(self) -> dict[str, str]:
        return {"horizon": repr(self.horizon), "legs": repr(self.legs)}
