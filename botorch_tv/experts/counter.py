"""Counter-based random numbers: as many as a sampler needs, from a fixed number of draws.

How long a Markov chain runs depends on the trial. If each trial took its numbers from the study's
streams, trials in one batch would change what later rounds see. So a trial draws one key per use,
and its numbers are a hash of the key and of how many were made before (SplitMix64 of Steele, Lea
and Flood 2014), made where they are needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from botorch_tv.inference.random import GOLDEN, mixed, shifted

if TYPE_CHECKING:
    from botorch_tv.strategies.draws import Draws


KEY_PARTS = 4
"""Numbers drawn per key. 16 bits are taken of each, which float32 holds with room to spare."""
_BITS = 16
_MANTISSA = 52


def draw_keys(draws: Draws) -> Tensor:
    """One key per trial, `batch_shape`, int64."""
    parts = (draws.uniform(KEY_PARTS).double() * 2**_BITS).long()
    key = torch.zeros_like(parts[..., 0])
    for part in parts.unbind(-1):
        key = (key << _BITS) ^ part
    return mixed(key)


def uniforms(key: Tensor, number: Tensor) -> Tensor:
    """The numbers of some keys, uniform on the open interval (0, 1).

    Args:
        key: From :func:`draw_keys`, of a shape that ``number`` broadcasts with, int64.
        number: Which of a key's numbers are wanted, counted from 0, int64.

    Returns:
        float64, of the shape that both broadcast to.
    """
    word = mixed(key + (number + 1) * GOLDEN)
    # Half a step off the ends, so that logarithms are finite.
    numbers: Tensor = (shifted(word, 64 - _MANTISSA).double() + 0.5) * 2.0**-_MANTISSA
    return numbers
