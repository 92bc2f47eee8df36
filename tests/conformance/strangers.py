"""Parts written as a user writes them, who knows the package by its documentation alone."""

import math
from dataclasses import dataclass

import torch
from gpytorch.priors import HalfNormalPrior

from botorch_tv.forgetting import Decay, Inflation, Parameter


class QuasiPeriodic(Decay):
    """Day and night, each like the last one and less like those before; no Markov process."""

    def attenuation(self, elapsed):
        return torch.exp(-0.05 * elapsed) * torch.cos(0.6 * elapsed)


class DampedDrift(Decay):
    """Starts uncertain and settles: an Ornstein-Uhlenbeck process out of equilibrium."""

    markovian = True

    def attenuation(self, elapsed):
        return torch.exp(-0.2 * elapsed)

    def prior_variance(self, elapsed):
        return 1 + 2 * torch.exp(-0.4 * elapsed)


class DriftByCovariance(Decay):
    """The same, as one formula of both times."""

    markovian = True

    def covariance(self, first, second):
        apart = (first - second).abs()
        return torch.exp(-0.2 * apart) + 2 * torch.exp(-0.2 * (first + second))


class UnclaimedDrift(DampedDrift):
    """The same, by somebody who does not know that it is Markovian."""

    markovian = False


@dataclass(frozen=True)
class Seasonal(Decay):
    """A quasi-periodic decay that can be learned."""

    rate: float
    period: float

    parameters = {  # noqa: RUF012 (as a user writes it)
        "rate": Parameter(power=-1, prior=HalfNormalPrior(0.25), restless=0.1),
        "period": Parameter(lower=2.0, upper=100.0, power=1),
    }

    def attenuation(self, elapsed):
        return torch.exp(-self.rate * elapsed) * torch.cos(6.2832 * elapsed / self.period)


@dataclass(frozen=True)
class Settling(Decay):
    """A damped drift that can be learned."""

    rate: float
    start: float = 3.0

    markovian = True
    parameters = {  # noqa: RUF012
        "rate": Parameter(power=-1, prior=HalfNormalPrior(0.25), restless=0.1),
        "start": Parameter(lower=0.1, upper=50.0),
    }

    def attenuation(self, elapsed):
        return torch.exp(-self.rate * elapsed)

    def prior_variance(self, elapsed):
        return 1 + (self.start - 1) * torch.exp(-2 * self.rate * elapsed)


@dataclass(frozen=True)
class HalfLife(Inflation):
    """A measurement counts half with every half-life."""

    half_life: float

    parameters = {"half_life": Parameter(lower=0.5, power=1)}  # noqa: RUF012

    def log_factor(self, lag):
        return math.log(2.0) * lag / self.half_life
