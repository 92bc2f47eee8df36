"""Decay of covariance: how far the objective has moved since a measurement was taken.

Every decay here is a Gauss-Markov process in time, whose covariance splits into two factors,

    cov(f_s(x), f_t(x')) = v(min(s, t)) * a(|t - s|) * k(x, x'),

the prior variance ``v`` reached by the earlier of the two times and the attenuation ``a`` since.
Two factors are all that the batch regression and the Kalman recursion need to know.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_tv.validation import settle_number


class Decay(ABC):
    """How the covariance between two times falls with the time between them."""

    moves: bool = True
    """Whether the prior changes with time at all; a static one needs no arithmetic."""

    @abstractmethod
    def attenuation(self, elapsed: Tensor) -> Tensor:
        """Factor ``a`` on the covariance between now and ``elapsed`` time units ago, any shape."""

    @abstractmethod
    def prior_variance(self, elapsed: Tensor) -> Tensor:
        """Factor ``v`` on the prior variance ``elapsed`` time units after the origin, any shape.

        The origin of time is the first observation, or the last reset.
        """

    def covariance(self, first: Tensor, second: Tensor) -> Tensor:
        """Temporal factor of the covariance between two times, counted from the origin.

        Args:
            first: Times, broadcastable with ``second``.
            second: Times.

        Returns:
            ``v(min) * a(|difference|)``, of the broadcast shape.
        """
        return self.prior_variance(torch.minimum(first, second)) * self.attenuation(
            (first - second).abs()
        )


@dataclass(frozen=True)
class Markov(Decay):
    """The objective is redrawn a little each round: f_{t+1} = sqrt(1 - ε) f_t + sqrt(ε) g_{t+1}.

    The covariance is multiplied by (1 - ε)^(|t - t'| / 2), [B16] eq. (7)-(8).

    Args:
        epsilon: Rate of change ε per unit of time, in [0, 1].

    Raises:
        ValueError: If ``epsilon`` lies outside [0, 1].
    """

    epsilon: float

    def __post_init__(self) -> None:
        settle_number(
            self,
            "epsilon",
            "[0, 1]",
            "a rate of change lies in [0, 1]; "
            "0 keeps the objective still, 1 redraws it every round.",
        )

    def attenuation(self, elapsed: Tensor) -> Tensor:
        if self.epsilon == 1:
            return (elapsed == 0).to(elapsed.dtype)
        return torch.exp(0.5 * math.log1p(-self.epsilon) * elapsed)

    def prior_variance(self, elapsed: Tensor) -> Tensor:
        return torch.ones_like(elapsed)


@dataclass(frozen=True)
class Wiener(Decay):
    """The objective is a random walk: its variance grows by σ_w² k(x, x) per unit of time.

    The covariance is multiplied by 1 + σ_w² min(t, t'), the model of UI-TVBO in [ET].

    Args:
        sigma_w2: Variance σ_w² gained per unit of time, as a share of the kernel's; at least 0.

    Raises:
        ValueError: If ``sigma_w2`` is negative or not finite.
    """

    sigma_w2: float

    def __post_init__(self) -> None:
        settle_number(
            self,
            "sigma_w2",
            "[0, 1e100]",
            "a variance per unit of time lies in [0, 1e100]; 0 keeps the objective still.",
        )

    def attenuation(self, elapsed: Tensor) -> Tensor:
        return torch.ones_like(elapsed)

    def prior_variance(self, elapsed: Tensor) -> Tensor:
        return 1 + self.sigma_w2 * elapsed
