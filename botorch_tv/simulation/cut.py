"""How a study is cut into chunks of trials that run together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from botorch_tv.simulation.memory import BUSY_NUMBERS, breadth, chunk_size
from botorch_tv.simulation.parallel import torch_threads
from botorch_tv.simulation.settings import StudySettings


class Chunk(NamedTuple):
    """Some neighbouring trials."""

    first: int
    """Number of the first."""
    trials: int
    """How many."""

    def __str__(self) -> str:
        return f"trials {self.first} to {self.first + self.trials - 1}"


@dataclass(frozen=True)
class Cut:
    """How a study is computed, which decides the last bits of its numbers.

    Args:
        chunk: Trials that run together.
        threads: Threads of PyTorch for each chunk.
    """

    chunk: int
    threads: int

    def chunks(self, trials: int) -> list[Chunk]:
        """All chunks of a study; only the last may be shorter than the others."""
        starts = range(0, trials, self.chunk)
        return [Chunk(first, min(self.chunk, trials - first)) for first in starts]


def choose_cut(
    settings: StudySettings, *, trials: int, chunk: int | None, workers: int, lasting: bool
) -> Cut:
    """A cut for a new study.

    Args:
        settings: The study.
        trials: Its trials.
        chunk: Trials that run together; from free memory if None.
        workers: Chunks that run side by side.
        lasting: Whether more trials may follow. The number of threads, and with it the last bits
            of every number, must not depend on how many there are then.
    """
    threads = torch.get_num_threads()
    if chunk is None:
        with torch_threads(max(1, threads // workers)):
            chunk = chunk_size(settings, trials=trials, workers=workers)
    if chunk * breadth(settings.world.domain) < BUSY_NUMBERS:
        return Cut(chunk, threads=1)  # more would wait for each other at every operation
    abreast = workers if lasting else min(workers, -(-trials // chunk))
    return Cut(chunk, max(1, threads // abreast))
