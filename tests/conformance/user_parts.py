"""Parts as a user writes them from the documentation."""

import math
from dataclasses import dataclass

import torch
from gpytorch.priors import HalfNormalPrior

from botorch_tv.acquisition import Exploration
from botorch_tv.forgetting import Decay, Inflation, Parameter, Retained, Retention


class QuasiPeriodic(Decay):
    """Day and night, correlated less with days further apart; no Markov process."""

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
    """The same process by its covariance of two times."""

    markovian = True

    def covariance(self, first, second):
        apart = (first - second).abs()
        return torch.exp(-0.2 * apart) + 2 * torch.exp(-0.2 * (first + second))


class UnclaimedDrift(DampedDrift):
    """The same process, not declared as Markovian."""

    markovian = False


@dataclass(frozen=True)
class Seasonal(Decay):
    """A quasi-periodic decay that can be learned."""

    rate: float
    period: float

    parameters = {  # noqa: RUF012 (as a user writes it)
        "rate": Parameter(power=-1, prior=HalfNormalPrior(0.25), fast_start=0.1),
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
        "rate": Parameter(power=-1, prior=HalfNormalPrior(0.25), fast_start=0.1),
        "start": Parameter(lower=0.1, upper=50.0),
    }

    def attenuation(self, elapsed):
        return torch.exp(-self.rate * elapsed)

    def prior_variance(self, elapsed):
        return 1 + (self.start - 1) * torch.exp(-2 * self.rate * elapsed)


@dataclass(frozen=True)
class HalfLife(Inflation):
    """The weight of a measurement halves with every half-life."""

    half_life: float

    parameters = {"half_life": Parameter(lower=0.5, power=1)}  # noqa: RUF012

    def log_factor(self, lag):
        return math.log(2.0) * lag / self.half_life


@dataclass(frozen=True)
class Sessions(Retention):
    """A pause drops all earlier observations."""

    pause: float

    def keep(self, log):
        fresh = log.now - log.time[..., -1] > self.pause
        return Retained(newest=0, where=fresh, reset=fresh)


@dataclass(frozen=True)
class Agreeing(Retention):
    """Retains observations that agree with the newest."""

    reach: float

    def keep(self, log):
        if log.newest is None:
            return Retained()
        apart = (log.y - log.newest.y.unsqueeze(-1)).abs()
        silent = log.noise.isinf() | log.newest.noise.isinf().unsqueeze(-1)
        return silent | (apart <= self.reach)


@dataclass(frozen=True)
class NearBest(Retention):
    """Retains observations near the best."""

    reach: float

    def keep(self, log):
        y = log.y.masked_fill(log.noise.isinf(), -math.inf)
        return y >= y.amax(-1, keepdim=True) - self.reach


@dataclass(frozen=True)
class CumulativeSum(Retention):
    """Page's test: the cumulative sum of standardised residuals."""

    slack: float
    limit: float

    def init(self, batch_shape):
        return torch.zeros(batch_shape)

    def keep(self, log):
        if log.newest is None:
            return Retained()
        fired = self._sum(log) > self.limit
        return Retained(newest=1, where=fired, reset=fired)

    def update(self, log):
        return torch.where(log.reset, 0.0, self._sum(log))

    def _sum(self, log):
        seen = log.newest
        surprise = (seen.y - seen.mean).abs() / (seen.sd**2 + seen.noise).sqrt()
        return (log.memory + surprise - self.slack).clamp_min(0)


class Replaced(Retention):
    """A newer observation replaces older observations at the same point."""

    def keep(self, log):
        if log.newest is None:
            return Retained()
        elsewhere = (log.X - log.X[..., -1:, :]).abs().amax(-1) > 0
        elsewhere[..., -1] = True
        return elsewhere


@dataclass(frozen=True)
class Thinned(Retention):
    """Retains the newest, and every third older observation, another third each round."""

    newest: int

    def keep(self, log):
        age = torch.arange(log.time.shape[-1], 0, -1, device=log.time.device)
        return ((age <= self.newest) | ((age + log.rounds) % 3 == 0)).expand(log.time.shape)


@dataclass(frozen=True)
class Restart(Retention):
    """Resets the time origin, and retains all observations."""

    every: int

    def keep(self, log):
        return Retained(reset=log.newest is None and log.rounds % self.every == 0)


@dataclass(frozen=True)
class Surprise(Retention):
    """A large residual drops all other observations, without a reset of time."""

    limit: float

    def keep(self, log):
        if log.newest is None:
            return Retained()
        far = (log.newest.y - log.newest.mean).abs() > self.limit
        return Retained(newest=1, where=far & log.newest.noise.isfinite())


@dataclass(frozen=True)
class Panic(Retention):
    """A large residual drops all observations, itself included."""

    limit: float

    def keep(self, log):
        if log.newest is None:
            return Retained()
        far = (log.newest.y - log.newest.mean).abs() > self.limit
        far = far & log.newest.noise.isfinite()
        return Retained(newest=0, where=far, reset=far)


@dataclass(frozen=True)
class Blank(Retention):
    """Drops all observations periodically, without a reset of time."""

    every: int

    def keep(self, log):
        ends = log.newest is None and log.rounds % self.every == 0
        return Retained(newest=0 if ends else None)


@dataclass(frozen=True)
class Newest(Retention):
    """A window like the package's."""

    number: int

    def keep(self, log):
        return Retained(newest=self.number)


@dataclass(frozen=True)
class Directed(Exploration):
    """Deterministic information-directed sampling: least squared regret per information."""

    def choose(self, candidates):
        best = candidates.at(candidates.argmax(self.upper))
        most = self.upper(best)

        def score(at):
            regret = most - (at.sign * at.mean - at.sqrt_beta * at.sd)
            return torch.log1p(at.sd**2 / at.noise).log() - 2 * regret.log()

        return candidates.argmax(score, unit=1.0)

    def upper(self, at):
        return at.sign * at.mean + at.sqrt_beta * at.sd


@dataclass(frozen=True)
class TopTwo(Exploration):
    """The best point of either of two samples, at equal chances."""

    def choose(self, candidates):
        first, second = (
            candidates.argmax(lambda at, number=number: at.sign * at.mean + at.sample(2)[number])
            for number in (0, 1)
        )
        return candidates.where(candidates.uniform() < 0.5, first, second)


@dataclass(frozen=True)
class EpsilonGreedy(Exploration):
    """Random choices, which become rarer from each reset on."""

    fade: float = 0.9

    def init(self, batch_shape):
        return torch.ones(batch_shape)

    def update(self, log):
        return torch.where(log.reset, 1.0, self.fade * log.memory)

    def choose(self, candidates):
        best = candidates.argmax(lambda at: at.sign * at.mean)
        return candidates.where(
            candidates.uniform() < candidates.memory, candidates.anywhere(), best
        )
