"""How a posterior becomes a choice: bands, samples, improvements, or chance.

An exploration scores every candidate, and the one with the highest score is played. It sees the
posterior through an :class:`Outlook`, in which larger is better whichever way the objective is
optimised.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_tv.inference.linalg import first_maximum
from botorch_tv.inference.scratch import Scratch

TIE_TOLERANCE = 1e-7
"""Scores this close, in units of the largest prior standard deviation, are equal."""
LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
SMALLEST_VARIANCE = 1e-12
"""Improvements are those of a variance of at least this, as a share of the largest prior one."""


class Outlook(ABC):
    """The posterior of f_now on candidates, as an exploration sees it.

    Attributes:
        mean: `batch_shape x M`, without the prior mean, which is the same for all candidates.
        sd: `batch_shape x M`.
        sign: 1 where the largest value is wanted, -1 where the smallest is.
        scale: Largest prior standard deviation.
        scratch: Memory for intermediate results.
    """

    mean: Tensor
    sd: Tensor
    sign: int
    scale: float
    scratch: Scratch

    @abstractmethod
    def multiplier(self) -> float | Tensor:
        """√beta of the width, a number or `batch_shape`."""

    @abstractmethod
    def incumbent(self) -> Tensor:
        """Best posterior mean, in the sense of ``sign``, among points observed, `batch_shape`."""

    @abstractmethod
    def sample(self) -> Tensor:
        """A draw from the posterior covariance, `batch_shape x M`, around zero."""

    @abstractmethod
    def uniform(self) -> Tensor:
        """A random number in [0, 1) per trial, `batch_shape`."""

    @abstractmethod
    def has_data(self) -> Tensor:
        """Whether any observation is in use, `batch_shape`."""


class Exploration(ABC):
    """A rule that turns a posterior into a choice.

    Attributes:
        random: Whether choices take random numbers.
        samples: Whether it draws functions from the posterior.
        uses_incumbent: Whether it compares with the best point observed.
        scores: Whether the choice is the candidate of the highest score.
        flat_without_data: Whether all candidates are alike before any observation.
    """

    random: bool = False
    samples: bool = False
    uses_incumbent: bool = False
    scores: bool = True
    flat_without_data: bool = True

    @abstractmethod
    def score(self, outlook: Outlook) -> Tensor:
        """How good each candidate is, `batch_shape x M`, differentiable where the outlook is."""

    def unit(self, scale: float) -> float:
        """The unit in which scores are compared, given the largest prior standard deviation."""
        return scale

    def choose(self, outlook: Outlook) -> Tensor:
        """The candidate to play, the first of the best, `batch_shape`, int64."""
        tolerance = TIE_TOLERANCE * self.unit(outlook.scale)
        winner = first_maximum(self.score(outlook), tolerance, outlook.scratch)
        return winner * outlook.has_data() if self.flat_without_data else winner


@dataclass(frozen=True)
class UpperConfidence(Exploration):
    """The largest mean(x) + √beta sd(x); the mirror image where the smallest value is wanted."""

    def score(self, outlook: Outlook) -> Tensor:
        return _optimistic(outlook, outlook.sd)


@dataclass(frozen=True)
class Thompson(Exploration):
    """The best point of a sample from GP(mean, v_t² c), [C17] Algorithm 2, GP-TS.

    The width gives v_t. The sample is joint over all arms; on a box it is a function, drawn by
    Matheron's rule from random features of the prior.
    """

    random = True
    samples = True
    flat_without_data = False

    def score(self, outlook: Outlook) -> Tensor:
        # A draw from a centred normal is as likely as its mirror image, so one sign serves both.
        return _optimistic(outlook, outlook.sample())


@dataclass(frozen=True)
class ExpectedImprovement(Exploration):
    """The largest E[max(f(x) - m, 0)], m the best posterior mean among the points observed.

    With u = (mean(x) - m) / sd(x) it is sd(x) (φ(u) + u Φ(u)). Compared by its logarithm: the plain
    value sinks below every tolerance once the objective is known well.
    """

    uses_incumbent = True

    def score(self, outlook: Outlook) -> Tensor:
        u, sd = _improvement(outlook)
        return log_expected_excess(u).add_(sd.log())

    def unit(self, scale: float) -> float:
        return 1.0


@dataclass(frozen=True)
class ProbabilityOfImprovement(Exploration):
    """The largest P(f(x) > m) = Φ(u), with m and u as in :class:`ExpectedImprovement`.

    Compared by u, of which Φ is an increasing function.
    """

    uses_incumbent = True

    def score(self, outlook: Outlook) -> Tensor:
        return _improvement(outlook)[0]

    def unit(self, scale: float) -> float:
        return 1.0


@dataclass(frozen=True)
class UniformChoice(Exploration):
    """Every candidate is as likely as any other."""

    random = True
    scores = False

    def score(self, outlook: Outlook) -> Tensor:
        return torch.zeros_like(outlook.mean)

    def choose(self, outlook: Outlook) -> Tensor:
        arms = outlook.mean.shape[-1]
        # In single precision a number just below 1 may have been rounded to 1.
        return (outlook.uniform() * arms).long().clamp_max(arms - 1)


def log_expected_excess(u: Tensor) -> Tensor:
    """ln(φ(u) + u Φ(u)), the logarithm of E[max(z + u, 0)] for standard normal z, any shape.

    With a = |u| the value at -a is φ(a) g, g = 1 - a √(π/2) erfcx(a / √2), and far out, where the
    two terms cancel, g = (1 - 3 / a²) / a²; the value at a is that at -a plus a.
    """
    # Here both forms are equally exact, to the power 2/3 of the machine's precision.
    limit = (15 / torch.finfo(u.dtype).eps) ** (1 / 6)
    a = u.abs()
    square = a.square()
    # Each form is evaluated where it holds alone: elsewhere it could make a derivative NaN.
    beyond = square.clamp_min(limit**2)
    far = (1 - 3 / beyond) / beyond
    within = a.clamp_max(limit)
    near = 1 - math.sqrt(math.pi / 2) * within * torch.special.erfcx(within * math.sqrt(0.5))
    logarithm = torch.where(a < limit, near, far).log() - 0.5 * square - LOG_ROOT_TWO_PI
    return torch.where(u > 0, torch.log(logarithm.exp() + a), logarithm)


def _optimistic(outlook: Outlook, spread: Tensor) -> Tensor:
    """±mean + √beta spread, in reused memory unless derivatives are wanted."""
    multiplier, mean = outlook.multiplier(), outlook.mean
    if torch.is_grad_enabled() and (mean.requires_grad or spread.requires_grad):
        factor = (
            multiplier.to(spread).unsqueeze(-1) if isinstance(multiplier, Tensor) else multiplier
        )
        return outlook.sign * mean + factor * spread
    score = outlook.scratch.take("arms", spread.shape, spread)
    if isinstance(multiplier, Tensor):
        factor = (outlook.sign * multiplier).to(spread).unsqueeze(-1)
        torch.addcmul(mean, spread, factor, out=score)
    else:
        torch.add(mean, spread, alpha=outlook.sign * multiplier, out=score)
    return score if outlook.sign > 0 else score.neg_()


def _improvement(outlook: Outlook) -> tuple[Tensor, Tensor]:
    """The argument u and a positive standard deviation, both `batch_shape x M`."""
    sd = outlook.sd.clamp_min(SMALLEST_VARIANCE**0.5 * outlook.scale)
    above = (outlook.mean - outlook.incumbent().unsqueeze(-1)) * outlook.sign
    return above / sd, sd
