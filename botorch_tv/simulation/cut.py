"""How a study is divided into chunks of trials that run together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from botorch_tv.simulation.memory import BUSY_NUMBERS, breadth, chunk_size
from botorch_tv.simulation.parallel import torch_threads
from botorch_tv.simulation.settings import StudySettings


class Chunk(NamedTuple):
    """Consecutive trials."""

    first: int
    """Number of the first trial."""
    trials: int
    """Number of trials."""

    def __str__(self) -> str:
        return f"trials {self.first} to {self.first + self.trials - 1}"


@dataclass(frozen=True)
class Cut:
    """The settings of a computation that affect rounding.

    Args:
        chunk: Trials that run together.
        threads: PyTorch threads per chunk.
    """

    chunk: int
    threads: int

    def chunks(self, trials: int) -> list[Chunk]:
        """All chunks of a study; only the last may be shorter."""
        starts = range(0, trials, self.chunk)
        return [Chunk(first, min(self.chunk, trials - first)) for first in starts]


def choose_cut(
    settings: StudySettings, *, trials: int, chunk: int | None, workers: int, lasting: bool
) -> Cut:
    """The cut of a new study.

    Args:
        settings: The study.
        trials: Number of trials.
        chunk: Trials that run together; chosen by free memory if None.
        workers: Chunks that run in parallel.
        lasting: Whether the study may be extended. The number of threads, which affects rounding,
            then must not depend on the number of trials.
    """
    threads = torch.get_num_threads()
    if chunk is None:
        with torch_threads(max(1, threads // workers)):
            chunk = chunk_size(settings, trials=trials, workers=workers)
    if chunk * breadth(settings.world.domain) < BUSY_NUMBERS:
        return Cut(chunk, threads=1)  # small operations cost more to share than to compute
    abreast = workers if lasting else min(workers, -(-trials // chunk))
    return Cut(chunk, max(1, threads // abreast))
