"""Rounds in which W-SparQ-GP-UCB asks its expert."""

import math


def window_starts(horizon: int, alpha: float, alpha_tilde: float) -> list[int]:
    """t_1 = 1, t_{j+1} = t_j + floor(t_j^(alpha_tilde / alpha)) + 1."""
    starts = [1]
    while starts[-1] <= horizon:
        starts.append(starts[-1] + math.floor(starts[-1] ** (alpha_tilde / alpha) + 1e-9) + 1)
    return starts[:-1]
