"""Parts written as a user writes them, who knows the package by its documentation alone."""

import torch

from botorch_tv.forgetting import Decay


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
