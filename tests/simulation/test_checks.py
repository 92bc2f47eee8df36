from collections.abc import Iterator
from typing import Any

import pytest
import torch

from botorch_tv.simulation import GridWorld, MarkovWorld, run_study
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.streams import Stream
from botorch_tv.strategies import Grid, gp_ucb

GRID = Grid.regular(3, 1)
KERNEL = unit_kernel("se", 0.3)
WORLD = MarkovWorld(GRID, kernel=KERNEL, epsilon=0.1, noise=0.1)
PLAYER = gp_ucb(kernel=KERNEL, noise=0.1)


class Yields(GridWorld):
    """A world that yields the same thing in every round."""

    def __init__(self, values: object) -> None:
        super().__init__(GRID, 0.1)
        self.values = values

    def rounds(self, stream: Stream) -> Iterator[torch.Tensor]:
        while True:
            yield self.values  # type: ignore[misc]


@pytest.mark.parametrize(
    ("strategies", "message"),
    [
        ([PLAYER], r"strategies is \[.*\]; give a dict of labels"),
        (PLAYER, "strategies is GPStrategy.*; give a dict"),
        (None, "strategies is None; give"),
        ({}, r"strategies is \{\}; give"),
        ({3: PLAYER}, "the label 3 cannot be printed or stored in a file; give text"),
    ],
)
def test_strategies(strategies: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^run_study: {message}"):
        run_study(WORLD, strategies, trials=1, horizon=1)


@pytest.mark.parametrize(
    ("values", "given"),
    [
        (torch.zeros(2, 5), r"\(2, 5\)"),
        (torch.zeros(1, 3), r"\(1, 3\)"),
        (torch.zeros(3), r"\(3,\)"),
        ([[0.0] * 3] * 2, "list"),
    ],
)
def test_worlds_with_wrong_shapes(values: object, given: str) -> None:
    message = (
        rf"^Yields.rounds yields {given} in round 1, but Grid\(3 arms .* and 2 trials need a "
        r"tensor of shape \(2, 3\), trials x arms"
    )
    with pytest.raises(ValueError, match=message):
        run_study(Yields(values), {"GP": PLAYER}, trials=2, horizon=3, chunk=2, progress=False)
    with pytest.raises(ValueError, match=message):
        Yields(values).look(rounds=1, trials=2)
