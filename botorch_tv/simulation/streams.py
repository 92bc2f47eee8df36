"""Random numbers that belong to a trial, whatever the batch it runs in."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor

BLOCK = 64
"""Trials that share a generator. Changing this number changes every study."""


class Stream:
    """Random variates for a range of trials, drawn in fixed blocks keyed by (seed, purpose, block).

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
        self.first = first
        self.trials = trials
        self.dtype = dtype
        self.device = device
        blocks = range(first // BLOCK, (first + trials - 1) // BLOCK + 1)
        self._offset = first - blocks.start * BLOCK
        self._sources = [_source(seed, purpose, block, device) for block in blocks]

    def normal(self, *event_shape: int) -> Tensor:
        """The next standard normal variates, `trials x event_shape`."""
        return self._gathered([source.normal(BLOCK, *event_shape) for source in self._sources])

    def uniform(self, *event_shape: int) -> Tensor:
        """The next variates uniform on [0, 1), `trials x event_shape`."""
        return self._gathered([source.uniform(BLOCK, *event_shape) for source in self._sources])

    def _gathered(self, draws: list[Tensor]) -> Tensor:
        whole = draws[0] if len(draws) == 1 else torch.cat(draws)
        return whole[self._offset : self._offset + self.trials].to(self.dtype)


class _Source(ABC):
    """A generator of float64 variates on one device."""

    @abstractmethod
    def normal(self, *shape: int) -> Tensor:
        """Standard normal variates."""

    @abstractmethod
    def uniform(self, *shape: int) -> Tensor:
        """Variates uniform on [0, 1)."""


class _HostSource(_Source):
    """NumPy's generator, on a CPU three times as fast as PyTorch's."""

    def __init__(self, key: np.random.SeedSequence) -> None:
        self._numbers = np.random.Generator(np.random.SFC64(key))

    def normal(self, *shape: int) -> Tensor:
        return torch.from_numpy(self._numbers.standard_normal(shape))

    def uniform(self, *shape: int) -> Tensor:
        return torch.from_numpy(self._numbers.random(shape))


class _DeviceSource(_Source):
    """PyTorch's generator, which draws where the numbers are needed."""

    def __init__(self, key: np.random.SeedSequence, device: torch.device) -> None:
        word = int(key.generate_state(1, np.uint64)[0] >> np.uint64(1))
        self._generator = torch.Generator(device).manual_seed(word)
        self._device = device

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(
            shape, generator=self._generator, dtype=torch.float64, device=self._device
        )

    def uniform(self, *shape: int) -> Tensor:
        return torch.rand(
            shape, generator=self._generator, dtype=torch.float64, device=self._device
        )


def _source(seed: int, purpose: str, block: int, device: torch.device) -> _Source:
    key = np.random.SeedSequence([seed, block, *purpose.encode()])
    return _HostSource(key) if device.type == "cpu" else _DeviceSource(key, device)
