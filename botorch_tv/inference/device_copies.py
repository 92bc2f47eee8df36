"""Numbers that never change, wherever they are wanted."""

from __future__ import annotations

import functools

import torch
from torch import Size, Tensor


class DeviceCopies:
    """A tensor that is copied once to every dtype and device it is asked for.

    Copying to a GPU makes the host wait for what it has started there; constants of a domain, such
    as its arms, are wanted in every round.

    Args:
        value: The tensor; not to be changed afterwards.
    """

    def __init__(self, value: Tensor) -> None:
        self._value = value
        self._copies: dict[tuple[torch.dtype, torch.device], Tensor] = {}

    def like(self, other: Tensor) -> Tensor:
        """The tensor in the dtype and on the device of another."""
        return self.on(other.dtype, other.device)

    def on(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """The tensor in a dtype, on a device."""
        key = (dtype, device)
        if key not in self._copies:
            self._copies[key] = self._value.to(dtype=dtype, device=device)
        return self._copies[key]

    def __reduce__(self) -> tuple[type[DeviceCopies], tuple[Tensor]]:
        return DeviceCopies, (self._value,)


def repeated(value: float, shape: Size, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A tensor of one number that is to be read alone; made anew only where it has one entry.

    Several entries are one place in memory, to which PyTorch refuses to write, so that all who ask
    for the number can have the same.
    """
    if shape.numel() <= 1:
        return torch.full(shape, value, dtype=dtype, device=device)
    return _number(value, dtype, device).expand(shape)


@functools.lru_cache(maxsize=256)
def _number(value: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    # Who asks first may want no gradients, and the next one may.
    with torch.inference_mode(False):
        return torch.full((), value, dtype=dtype, device=device)
