"""How fast a process forgets, in words."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from botorch_tv.forgetting import Decay, Inflation
from botorch_tv.forgetting.base import is_static
from botorch_tv.strategies.spans import span_in_words

SHORTEST, LONGEST = 2.0**-30, 2.0**40
"""Ages between which halves are looked for."""
DIGITS = 40
"""Halvings of an interval."""


def forgetting_in_words(decay: Decay, inflation: Inflation, unit: str) -> str:
    """After how long a measurement counts less; empty where it always counts in full.

    Args:
        decay: How covariance falls.
        inflation: How noise grows.
        unit: Of time, "hours"; empty where times are numbers.
    """

    def correlation(age: Tensor) -> Tensor:
        start = torch.zeros_like(age)
        variances = decay.covariance(start, start) * decay.covariance(age, age)
        return decay.covariance(start, age) / variances.sqrt()

    def weight(age: Tensor) -> Tensor:
        return torch.exp(-inflation.log_factor(age))

    words = []
    if not is_static(decay):
        after = _after(age_of_half(correlation), unit)
        words.append(f"its correlation with the objective falls to 1/2 {after}")
    if not is_static(inflation):
        words.append(f"its noise doubles {_after(age_of_half(weight), unit)}")
    return f"As a measurement ages, {' and '.join(words)}." if words else ""


def _after(age: float, unit: str) -> str:
    return (
        "never, as far as can be told" if math.isinf(age) else f"after {span_in_words(age, unit)}"
    )


def age_of_half(kept: Callable[[Tensor], Tensor]) -> float:
    """The age at which what is kept first is 1/2 or less; infinite where it never is.

    Args:
        kept: From 1 at age 0; where it rises again, what happens within a factor of two of age is
            not seen.
    """

    def falls(age: float) -> bool:
        return bool((kept(torch.tensor(age, dtype=torch.float64, device="cpu")) <= 0.5).all())

    high = SHORTEST
    while not falls(high):
        high *= 2
        if high > LONGEST:
            return float("inf")
    low = high / 2 if high > SHORTEST else 0.0
    for _ in range(DIGITS):
        middle = (low + high) / 2
        low, high = (low, middle) if falls(middle) else (middle, high)
    return high
