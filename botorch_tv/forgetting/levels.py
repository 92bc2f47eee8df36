"""How many standard deviations a prediction may be off, by the rounds it has had time to be."""

from __future__ import annotations

import math

import torch
from torch import Tensor

FIRST_LEVELS = 64
"""Levels computed at first; later twice as many whenever there are too few."""


def error_level(since: Tensor, delta: float, dtype: torch.dtype) -> Tensor:
    """sqrt(2 L) of [ET] eq. (10)-(11) and Lemma 3, with L = ln(2 π / δ_B) and π = π² t'² / 6.

    Args:
        since: Rounds t' since the last reset.
        delta: δ_B.
        dtype: Of the result.
    """
    # 2 L with the constants apart; 1 / delta may be no number.
    constant = 2 * (math.log(math.pi**2 / 3) - math.log(delta))
    return torch.rsub(since.to(dtype).log(), constant, alpha=-4).sqrt_()


class ErrorLevels:
    """The levels of all rounds there may be, computed once for many: they are asked in every round.

    Args:
        delta: δ_B.
    """

    def __init__(self, delta: float) -> None:
        self._delta = delta
        self._known: dict[tuple[torch.dtype, torch.device], Tensor] = {}

    def at(self, since: Tensor, most: int, like: Tensor) -> Tensor:
        """Levels in the dtype of a tensor.

        Args:
            since: Rounds t' since the last reset, `batch_shape`, int64.
            most: No trial has more of them.
            like: A tensor.
        """
        key = (like.dtype, like.device)
        levels = self._known.get(key)
        if levels is None or len(levels) <= most:
            room = FIRST_LEVELS << max(0, most // FIRST_LEVELS).bit_length()
            rounds = torch.arange(room, device=like.device).clamp_min_(1)
            levels = self._known[key] = error_level(rounds, self._delta, like.dtype)
        return levels[since]

    def __reduce__(self) -> tuple[type[ErrorLevels], tuple[float]]:
        return ErrorLevels, (self._delta,)
