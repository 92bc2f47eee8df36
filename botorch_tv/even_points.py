"""Points that fill a cube evenly."""

from __future__ import annotations

import torch
from torch import Tensor


def even_points(number: int, dim: int, *, seed: int = 0, first: int = 0) -> Tensor:
    """Points of a scrambled Sobol sequence in the unit cube, `number x dim`, float64.

    Args:
        number: Number of points.
        dim: Dimension of the cube.
        seed: Seed of the scrambling; the function does not use torch's global generator.
        first: Number of points at the start of the sequence that are skipped.
    """
    engine = torch.quasirandom.SobolEngine(dim, scramble=True, seed=seed)  # type: ignore[no-untyped-call]
    engine.fast_forward(first)  # type: ignore[no-untyped-call]
    return engine.draw(number, dtype=torch.float64)
