"""Static objectives."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds.drawn import DrawnWorld, of_functions
from botorch_tv.simulation.worlds.functions import FunctionDistribution
from botorch_tv.strategies.domains import Grid


class StaticWorld(DrawnWorld):
    """One function for all rounds of a trial, [C17] §6.

    Args:
        domain: The arms.
        functions: Distribution of the function.
        noise: Variance of the observation noise.

    Raises:
        ValueError: If ``noise`` is negative or not finite, or ``functions`` is not a distribution.
        InputDataError: If a given function does not fit the domain.
    """

    @of_functions
    def __init__(self, domain: Grid, *, functions: FunctionDistribution, noise: float) -> None:
        super().__init__(domain, functions, 1, noise)

    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        [drawn] = self.draw(stream)
        while True:
            yield drawn.values
