"""Inflation of noise: how much less a measurement says once it is old."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_tv.validation import settle_number


class Inflation(ABC):
    """How the noise variance of an observation grows with its lag.

    The lag is the reference time less the time of the observation, at least 0; the newest
    observation told has lag 0 and plain noise.
    """

    @abstractmethod
    def log_factor(self, lag: Tensor) -> Tensor:
        """Logarithm of the factor on the noise variance, any shape; 0 at lag 0.

        A logarithm because weights such as γ^(-lag) leave every floating-point range.
        """


@dataclass(frozen=True)
class ExponentialWeights(Inflation):
    """Noise λ γ^(-lag): an observation counts γ times less with every unit of time.

    [W22] eq. (2)-(3), in the form that does not overflow: weights on the kernel and on y multiply
    out to this noise.

    Args:
        gamma: Discount γ per unit of time, in (0, 1]; 1 forgets nothing.

    Raises:
        ValueError: If ``gamma`` lies outside (0, 1].
    """

    gamma: float

    def __post_init__(self) -> None:
        settle_number(
            self,
            "gamma",
            "(0, 1]",
            "a discount lies in (0, 1]; "
            "1 forgets nothing, 0.97 halves a weight in 23 units of time.",
        )

    def log_factor(self, lag: Tensor) -> Tensor:
        return -math.log(self.gamma) * lag


@dataclass(frozen=True)
class UncertaintyInjection(Inflation):
    """Noise σ² (1 + κ lag^α), with 0^0 := 0, [M] eq. (8)-(10).

    Args:
        alpha: Exponent α of the growth, at least 0.
        kappa: Rate κ of the growth in time^(-α), at least 0.

    Raises:
        ValueError: If ``alpha`` or ``kappa`` is negative or not finite.
    """

    alpha: float
    kappa: float = 1.0

    def __post_init__(self) -> None:
        for name in ("alpha", "kappa"):
            limit = "it must be finite and at least 0; alpha = kappa = 1 is usual."
            settle_number(self, name, "[0, inf)", limit)

    def log_factor(self, lag: Tensor) -> Tensor:
        if self.kappa == 0:
            return torch.zeros_like(lag)  # also where lag^α overflows
        return torch.where(lag > 0, torch.log1p(self.kappa * lag**self.alpha), 0.0)
