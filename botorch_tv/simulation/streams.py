"""Random numbers that belong to a trial, whatever the batch it runs in."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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
        self._sources = [_source(seed, purpose, block, device) for block in blocks]

    def normal(self, *event_shape: int) -> Tensor:
        """The next standard normal variates, `trials x event_shape`."""
        draws = [source(BLOCK, *event_shape) for source in self._sources]
        whole = draws[0] if len(draws) == 1 else torch.cat(draws)
        return whole[self._offset : self._offset + self.trials].to(self.dtype)


def _source(seed: int, purpose: str, block: int, device: torch.device) -> Callable[..., Tensor]:
    """A function from a shape to normal variates: NumPy's on a CPU, three times faster there."""
    key = np.random.SeedSequence([seed, block, *purpose.encode()])
    if device.type == "cpu":
        numbers = np.random.Generator(np.random.SFC64(key))
        return lambda *shape: torch.from_numpy(numbers.standard_normal(shape))
    word = int(key.generate_state(1, np.uint64)[0] >> np.uint64(1))
    generator = torch.Generator(device).manual_seed(word)
    return partial(torch.randn, generator=generator, dtype=torch.float64, device=device)
