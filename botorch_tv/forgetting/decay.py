"""Decay of covariance: how far the objective has moved since a measurement was taken.

A decay is the temporal factor of the covariance,

    cov(f_s(x), f_t(x')) = D(s, t) * k(x, x'),

with times counted from an origin. Usually it has two factors, D(s, t) = v(min(s, t)) * a(|t - s|):
the prior variance ``v`` at the earlier of the two times and the attenuation ``a`` since then. A
custom decay defines ``attenuation`` alone (stationary, of variance 1), both, or ``covariance``
alone:

    class QuasiPeriodic(Decay):
        def attenuation(self, elapsed):
            return torch.exp(-0.05 * elapsed) * torch.cos(0.6 * elapsed)

Its learnable parameters are declared in ``parameters``. They are attributes of the same names,
which its formula must read on each call: numbers, or tensors while they are learned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from gpytorch.priors import HalfNormalPrior
from torch import Tensor

from botorch_tv.forgetting.parameter import Parameter
from botorch_tv.forgetting.rate_prior import RatePrior
from botorch_tv.validation import require, settle_number

LARGEST_EPSILON = 1.0 - 1e-6
"""Above it the gradient of (1 - ε)^(Δt/2) is lost to rounding."""
ENDLESS = 1e30
"""Stands for the infinite -ln(1 - ε) of ε = 1, in any unit of time and in float32."""
UNDEFINED = (
    "{} defines no covariance in time; define attenuation(elapsed), and prior_variance(elapsed) "
    "where the variance changes, or covariance(first, second) alone."
)


class Decay:
    """How the covariance between two times falls with the time between them."""

    markovian: bool = False
    """Whether the future is independent of the past given the present.

    D(r, t) D(s, s) = D(r, s) D(s, t) for all r < s < t. On a grid a recursion of constant cost per
    round can then be used. Strategies check this claim.
    """
    parameters: ClassVar[Mapping[str, Parameter]] = {}
    """Learnable parameters, by name of the attribute."""

    @property
    def stationary(self) -> bool:
        """Whether the covariance depends only on the time difference."""
        kind = type(self)
        constant_variance = kind.prior_variance is Decay.prior_variance
        return constant_variance and kind.covariance is Decay.covariance

    def attenuation(self, elapsed: Tensor) -> Tensor:
        """Factor ``a`` on the covariance between now and ``elapsed`` time units ago, any shape."""
        raise NotImplementedError(UNDEFINED.format(type(self).__name__))

    def prior_variance(self, elapsed: Tensor) -> Tensor:
        """Factor ``v`` on the prior variance ``elapsed`` time units after the origin, any shape.

        The origin of time is the first observation, or the last reset. The default is the diagonal
        of ``covariance`` if that is overridden, else 1.
        """
        if type(self).covariance is Decay.covariance:
            return torch.ones_like(elapsed)
        return self.covariance(elapsed, elapsed)

    def covariance(self, first: Tensor, second: Tensor) -> Tensor:
        """Temporal factor of the covariance between two times, counted from the origin.

        Args:
            first: Times, broadcastable with ``second``.
            second: Times.

        Returns:
            ``v(min) * a(|difference|)``, of the broadcast shape.
        """
        kept = self.attenuation((first - second).abs())
        if type(self).prior_variance is Decay.prior_variance:
            return kept
        return self.prior_variance(torch.minimum(first, second)) * kept

    def transition(self, first: Tensor, second: Tensor) -> Tensor:
        """Factor on the posterior mean of a Markovian objective between two times.

        Args:
            first: Times, counted from the origin.
            second: Later times, broadcastable with ``first``.

        Returns:
            Of the broadcast shape.
        """
        if type(self).attenuation is Decay.attenuation:
            return self.covariance(first, second) / self.prior_variance(first)
        return self.attenuation((second - first).clamp_min(0))


def require_defined(decay: Decay) -> None:
    """Raise a ``ValueError`` unless a decay defines its covariance."""
    kind = type(decay)
    defined = kind.attenuation is not Decay.attenuation or kind.covariance is not Decay.covariance
    require(defined, UNDEFINED.format(kind.__name__))


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

    markovian = True
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "epsilon": Parameter(
            upper=LARGEST_EPSILON,
            power=-1,
            share="lost",
            prior=HalfNormalPrior(0.25),
            beside_scale=RatePrior(upper=1.0),
            fastest=0.999,
            uncorrelated_beyond=0.9,
            fast_start=0.1,
        )
    }

    def __post_init__(self) -> None:
        settle_number(
            self, "epsilon", "[0, 1]", "0 keeps the objective still, 1 redraws it every round."
        )

    def attenuation(self, elapsed: Tensor) -> Tensor:
        return torch.exp(0.5 * _log_kept(self.epsilon) * elapsed)


@dataclass(frozen=True)
class Wiener(Decay):
    """The objective is a random walk: its variance grows by σ_w² k(x, x) per unit of time.

    The covariance is multiplied by 1 + σ_w² min(t, t'), the model of UI-TVBO in [ET].

    Args:
        sigma_w2: Variance σ_w² gained per unit of time, relative to the kernel's; at least 0.

    Raises:
        ValueError: If ``sigma_w2`` is negative or not finite.
    """

    sigma_w2: float

    markovian = True
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "sigma_w2": Parameter(
            power=-1,
            prior=HalfNormalPrior(0.25),
            beside_scale=RatePrior(),
            fastest=1e3,
            uncorrelated_beyond=9.0,  # of the variance at the next observation nine tenths are new
            fast_start=0.1,
        )
    }

    def __post_init__(self) -> None:
        settle_number(self, "sigma_w2", "[0, 1e100]", "0 keeps the objective still.")

    def attenuation(self, elapsed: Tensor) -> Tensor:
        return torch.ones_like(elapsed)

    def prior_variance(self, elapsed: Tensor) -> Tensor:
        return 1 + self.sigma_w2 * elapsed


def _log_kept(epsilon: float | Tensor) -> float | Tensor:
    """ln(1 - ε), finite and with a finite gradient."""
    if not isinstance(epsilon, Tensor):
        return math.log1p(-epsilon) if epsilon < 1 else -ENDLESS
    below = epsilon.clamp_max(1 - torch.finfo(epsilon.dtype).eps)
    return torch.where(epsilon < 1, torch.log1p(-below), -ENDLESS)
