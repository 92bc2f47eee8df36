"""Objectives that change abruptly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, pairwise

from torch import Tensor

from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds.drawn import DrawnWorld, of_functions
from botorch_tv.simulation.worlds.functions import FunctionDistribution
from botorch_tv.strategies.domains import Grid
from botorch_tv.validation import require, require_integer


class AbruptWorld(DrawnWorld):
    """f_t = f1 for t < changes[0], f2 for changes[0] <= t < changes[1], and so on, [W22] §7.

    Args:
        domain: The arms.
        functions: Distribution of the functions: one for all, or one for each.
        changes: The first round of every function except f1, counted from 1, so 2 or more and
            increasing; (100, 200) in the paper.
        noise: Variance of the observation noise.

    Raises:
        ValueError: If ``changes`` do not increase from 2 on, ``noise`` is negative or not finite,
            or the functions are not one more than the changes.
        InputDataError: If a given function does not fit the domain.
    """

    @of_functions
    def __init__(
        self,
        domain: Grid,
        *,
        functions: FunctionDistribution | Sequence[FunctionDistribution],
        changes: Sequence[int],
        noise: float,
    ) -> None:
        for change in changes:
            require_integer(
                "AbruptWorld: changes", change, 2, "a change names the first round of a function."
            )
        require(
            all(earlier < later for earlier, later in pairwise(changes)),
            f"AbruptWorld: changes is {tuple(changes)}, but each must come after the one before.",
        )
        super().__init__(domain, functions, len(changes) + 1, noise)
        self.changes = tuple(int(change) for change in changes)

    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        drawn = self.draw(stream)
        piece = 0
        for t in count(1):
            piece += t in self.changes
            yield drawn[piece].values

    def _parameters(self) -> dict[str, str]:
        return {"changes": repr(self.changes)}
