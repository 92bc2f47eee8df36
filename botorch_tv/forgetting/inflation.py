"""Inflation: the noise of a measurement grows with the age of the measurement."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from gpytorch.priors import HalfNormalPrior
from torch import Tensor

from botorch_tv.forgetting.base import Inflation, Parameter, Values
from botorch_tv.validation import settle_number

SMALLEST_GAMMA = 1e-6
"""Lower bound of γ during learning. Below this bound, older rows have practically no weight."""


@dataclass(frozen=True)
class ExponentialWeights(Inflation):
    """Noise variance λ γ^(-lag): an observation's weight falls by a factor γ per unit of time.

    This noise has the same effect as the weights that [W22] eq. (2)-(3) applies to the kernel and
    to y, but the noise does not overflow.

    Args:
        gamma: Discount γ per unit of time, in (0, 1]; with γ = 1 nothing is forgotten.

    Raises:
        ValueError: If ``gamma`` lies outside (0, 1].
    """

    gamma: float

    parameters: ClassVar[Mapping[str, Parameter]] = {
        "gamma": Parameter(
            lower=SMALLEST_GAMMA,
            upper=1.0,
            power=-1,
            share="retained",
            prior=HalfNormalPrior(0.1),
            uncorrelated_beyond=0.1,
            fast_start=0.9,
        )
    }

    def __post_init__(self) -> None:
        settle_number(
            self, "gamma", "(0, 1]", "1 forgets nothing, 0.97 halves a weight in 23 units of time."
        )

    def log_factor(self, lag: Tensor) -> Tensor:
        if isinstance(self.gamma, Tensor):
            return -torch.log(self.gamma) * lag
        return -math.log(self.gamma) * lag


def _minus_alpha(values: Values) -> Tensor:
    return -values["alpha"]


@dataclass(frozen=True)
class UncertaintyInjection(Inflation):
    """Noise variance σ² (1 + κ lag^α), with 0^0 := 0, [M] eq. (8)-(10).

    Args:
        alpha: Exponent α of the growth of noise with age, at least 0.
        kappa: Factor κ of the growth of noise with age, in units of time^(-α), at least 0.

    Raises:
        ValueError: If ``alpha`` or ``kappa`` is negative or not finite.
    """

    alpha: float
    kappa: float = 1.0

    parameters: ClassVar[Mapping[str, Parameter]] = {
        "alpha": Parameter(prior=HalfNormalPrior(2.0)),
        "kappa": Parameter(power=_minus_alpha, prior=HalfNormalPrior(2.0)),
    }

    def __post_init__(self) -> None:
        for name in ("alpha", "kappa"):
            settle_number(self, name, "[0, inf)", "alpha = kappa = 1 is usual.")

    def log_factor(self, lag: Tensor) -> Tensor:
        if not isinstance(self.kappa, Tensor) and self.kappa == 0:
            return torch.zeros_like(lag)  # computed without lag^α, which could overflow
        aged = lag > 0
        # The power is only evaluated at positive lags: at 0 its gradient is infinite for alpha < 1.
        power = torch.where(aged, lag, 1.0) ** self.alpha
        return torch.where(aged, torch.log1p(self.kappa * power), 0.0)
