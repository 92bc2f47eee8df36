"""Random numbers that belong to a trial, whatever the batch it runs in."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

BLOCK = 64
"""Trials that share a generator. Changing this number changes every study."""


class Stream:
    """Normal variates for a range of trials, drawn in fixed blocks keyed by (seed, purpose, block).

    A trial's numbers depend on its block alone, so a study split into other chunks, cut short or
    extended sees the same ones. They are drawn in float64 whatever the run's dtype, so that float32
    and float64 runs are paired.

    Args:
        seed: Seed of the study.
        purpose: What the numbers are for; different purposes are independent.
        first: Number of the first trial.
        trials: Number of trials.
        dtype: Of the numbers returned.
        device: Where they are drawn; device types have different generators.
    """

    def __init__(
        self,
        seed: int,
        purpose: str,
        first: int,
        trials: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.trials = trials
        self.dtype = dtype
        self.device = device
        blocks = range(first // BLOCK, (first + trials - 1) // BLOCK + 1)
        self._offset = first - blocks.start * BLOCK
        self._generators = [
            torch.Generator(device).manual_seed(_key(seed, purpose, block)) for block in blocks
        ]

    def normal(self, *event_shape: int) -> Tensor:
        """The next standard normal variates, `trials x event_shape`."""
        draws = [
            torch.randn(
                BLOCK, *event_shape, generator=generator, dtype=torch.float64, device=self.device
            )
            for generator in self._generators
        ]
        whole = draws[0] if len(draws) == 1 else torch.cat(draws)
        return whole[self._offset : self._offset + self.trials].to(self.dtype)


def _key(seed: int, purpose: str, block: int) -> int:
    words = [seed, block, *purpose.encode()]
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> np.uint64(1))
