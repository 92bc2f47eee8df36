"""Whether the passes of captured rounds are fused: where Triton is installed, and after a trial."""

from __future__ import annotations

import math
import warnings
from importlib.util import find_spec

import torch
from torch import Tensor

from botorch_tv.simulation.captured.passes import Elapsed, Passes
from botorch_tv.simulation.captured.replayed import ROUNDING

MOST_ARMS = 2**13
"""Arms whose scores the registers of one program hold."""


def fastest(arms: int, dtype: torch.dtype, device: torch.device) -> type[Passes]:
    """The passes for so many arms on a device: fused where that is found to do the same.

    A kernel is compiled when it is first started, which takes a compiler and a card that Triton
    knows; without them, of which is warned, rounds are played as they are without Triton.
    """
    if device.type != "cuda" or arms > MOST_ARMS or find_spec("triton") is None:
        return Passes
    try:
        from botorch_tv.simulation.captured.fused import FusedPasses

        if alike(FusedPasses, arms, dtype, device):
            return FusedPasses
        why = "they did something else"
    except Exception as error:  # whatever a compiler, its cache or a driver may raise
        why = f"{type(error).__name__}: {error}".strip().partition("\n")[0]
    warnings.warn(
        f"run_study: the passes of captured rounds over the arms could not be fused by Triton "
        f"({why}). They are made one operation at a time, with the same choices.",
        stacklevel=2,
    )
    return Passes


def alike(kind: type[Passes], arms: int, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether passes do what one operation at a time does, in three trials made for that."""
    results = zip(_trial(kind, arms, dtype, device), _trial(Passes, arms, dtype, device))
    tolerance = max(ROUNDING, 16 * torch.finfo(dtype).eps)
    return all(torch.allclose(*pair, rtol=tolerance, atol=tolerance) for pair in results)


def _trial(kind: type[Passes], arms: int, dtype: torch.dtype, device: torch.device) -> list[Tensor]:
    """All that some passes return and write."""
    where = torch.arange(arms, dtype=dtype, device=device)
    # Waves of three lengths, whose crests tie; where a mean is high a variance is low.
    waves = torch.stack([(2 * math.pi * where / length).cos() for length in (2, 3, 5)])
    first = (waves[1] + 3) / 2
    found: list[Tensor] = []
    for sign in (1, -1):
        mean, variance = waves.clone(), 1.1 - waves
        passes = kind(mean, variance, first / 2, first, sign=sign, tie=1e-3)
        each = torch.tensor([0.1, 4.0, 0.3], dtype=dtype, device=device)
        found += [passes.choose(each, None), passes.choose(each[:1], None)]
        passes.take_in(waves.roll(1, 0) / 9, each, each < 0.5, sign=sign)
        found.append(passes.choose(each, Elapsed(each, each.square(), 1 - each)))
        passes.take_in(waves.roll(2, 0) / 9, each, None, sign=-sign)
        slot = torch.arange(70, device=device)
        reach = torch.tensor([0, 37, 70], device=device)
        direction = (slot + where[0] + 1).reciprocal() * (slot < reach.unsqueeze(-1))
        inverse = direction.unsqueeze(-1) * direction.unsqueeze(-2)
        passes.absorb(inverse, direction, each, reach, sign=-sign)
        passes.absorb(inverse, direction, None, reach, sign=sign)
        found += [mean, variance, inverse]
    return found
