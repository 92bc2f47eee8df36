"""Random numbers of a study, remembered, so that a test can repeat a formula on them."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from torch import Tensor

from botorch_tv.simulation import World
from botorch_tv.simulation.streams import Stream

CPU = torch.device("cpu")


class RecordedStream(Stream):
    """A stream that keeps all it has drawn, in order."""

    def __init__(
        self, trials: int, first: int = 0, seed: int = 0, dtype: torch.dtype = torch.float64
    ) -> None:
        super().__init__(seed, "world", first, trials, dtype=dtype, device=CPU)
        self.drawn: list[np.ndarray] = []

    def normal(self, *event_shape: int) -> Tensor:
        self.drawn.append(super().normal(*event_shape).numpy())
        return torch.from_numpy(self.drawn[-1])

    def uniform(self, *event_shape: int) -> Tensor:
        self.drawn.append(super().uniform(*event_shape).numpy())
        return torch.from_numpy(self.drawn[-1])


def rounds(world: World, stream: Stream, count: int) -> np.ndarray:
    """The first rounds of a world, copied out of the memory they share, `count x trials x M`."""
    return np.stack([f.numpy().copy() for f in itertools.islice(world.rounds(stream), count)])
