"""How a posterior becomes a choice: confidence bounds, samples, improvements, or chance.

An exploration usually scores every candidate, and the one with the highest score is played. It sees
the posterior through :class:`~botorch_tv.acquisition.Candidates`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from botorch_tv.acquisition.candidates import Candidates, Ties
from botorch_tv.forgetting.base import Part
from botorch_tv.validation import require, shown

TIE_TOLERANCE = 1e-7
"""Scores this close, in units of the largest prior standard deviation, are equal."""
LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
Incumbent = Literal["posterior", "observed"]
"""The reference of an improvement: the best posterior mean among the points observed, or the best
value observed."""
SMALLEST_VARIANCE = 1e-12
"""Lower limit of the variance in improvements, relative to the largest prior variance."""


class Exploration(Part):
    """A rule that turns a posterior into a choice.

    Override :meth:`score` to score candidates, or :meth:`choose` to choose directly. It may have a
    memory of earlier rounds; see :class:`~botorch_tv.forgetting.base.Part`.

    Attributes:
        samples: Whether functions are drawn in every round; a hint that makes this fast.
        ties: Which of several tying arms of a grid :meth:`choose` takes.

    Example:
        >>> class TopTwo(Exploration):
        ...     '''The best point of one of two samples, with equal probability.'''
        ...
        ...     def choose(self, candidates):
        ...         first, second = (
        ...             candidates.argmax(lambda at: at.sign * at.mean + at.sample(2)[number])
        ...             for number in (0, 1)
        ...         )
        ...         return candidates.where(candidates.uniform() < 0.5, first, second)
    """

    samples: bool = False
    ties: Ties = "first"

    def score(self, candidates: Candidates) -> Tensor:
        """The score of each candidate, `batch_shape x M`; on a box differentiable by the points.

        On a box it is called for groups of trials, flattened to one dimension.
        """
        raise NotImplementedError(f"{type(self).__name__} scores no candidates.")

    def unit(self, scale: float) -> float:
        """The unit of scores, for ties, given the largest prior standard deviation."""
        return scale

    def choose(self, candidates: Candidates) -> Tensor:
        """The choice to play; by default the candidate with the highest score.

        Returns:
            As :meth:`Candidates.argmax`: the index of an arm, `batch_shape`, int64, or a
            point of a box, `batch_shape x d`.
        """
        unit = self.unit(candidates.scale)
        return candidates.argmax(self.score, unit=unit, first_without_data=True, ties=self.ties)


@dataclass(frozen=True)
class _BreaksTies(Exploration):
    """Takes the best candidate, with an option for ties."""

    ties: Ties = "first"

    def __post_init__(self) -> None:
        _require_one_of(self, "ties", self.ties, get_args(Ties))


@dataclass(frozen=True)
class UpperConfidence(_BreaksTies):
    """The largest mean(x) + √beta sd(x); mirrored when minimising.

    Args:
        ties: Which arm of a grid to play when bounds agree within 1e-7 prior standard deviations,
            as in unexplored regions: the ``"first"``, which is reproducible, or a ``"random"`` one.
            The papers do not say; it matters if a large part of the domain is flat.

    Raises:
        ValueError: If ``ties`` is something else.
    """

    def score(self, candidates: Candidates) -> Tensor:
        return _optimistic(candidates, candidates.sd)


@dataclass(frozen=True)
class Thompson(Exploration):
    """The best point of a sample from GP(mean, v_t² c), [C17] Algorithm 2, GP-TS.

    The width is v_t. The sample is joint over all arms; on a box it is a function, drawn by
    Matheron's rule from random features of the prior.
    """

    samples = True

    def score(self, candidates: Candidates) -> Tensor:
        # A draw from a centred normal is as likely as its mirror image, so one sign serves both.
        return _optimistic(candidates, candidates.sample()[0])

    def choose(self, candidates: Candidates) -> Tensor:
        return candidates.argmax(self.score)


@dataclass(frozen=True)
class _Improves(_BreaksTies):
    """Scores candidates relative to an incumbent m."""

    incumbent: Incumbent = "posterior"

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_one_of(self, "incumbent", self.incumbent, get_args(Incumbent))

    def unit(self, scale: float) -> float:
        return 1.0

    def improvement(self, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """U = (mean(x) - m) / sd(x) and a positive standard deviation, both `batch_shape x M`."""
        observed = self.incumbent == "observed"
        best = candidates.best_observation if observed else candidates.incumbent
        sd = candidates.sd.clamp_min(SMALLEST_VARIANCE**0.5 * candidates.scale)
        return (candidates.mean - best) * candidates.sign / sd, sd


@dataclass(frozen=True)
class ExpectedImprovement(_Improves):
    """The largest E[max(f(x) - m, 0)], m the incumbent.

    With u = (mean(x) - m) / sd(x) it is sd(x) (φ(u) + u Φ(u)). Its logarithm is compared, because
    the value itself falls below any tolerance once the objective is well known.

    Args:
        ties: See :class:`UpperConfidence`.
        incumbent: The definition of m. ``"posterior"``, the best posterior mean among the points
            observed, forgets as the posterior does. ``"observed"``, the best observation in use, is
            the textbook definition for exact observations of a static objective; noise biases it
            upwards, which increases exploration.

    Raises:
        ValueError: If an argument is not one of these words.
    """

    def score(self, candidates: Candidates) -> Tensor:
        u, sd = self.improvement(candidates)
        return log_expected_excess(u).add_(sd.log())


@dataclass(frozen=True)
class ProbabilityOfImprovement(_Improves):
    """The largest P(f(x) > m) = Φ(u), with m and u as in :class:`ExpectedImprovement`.

    Candidates are compared by u, since Φ is increasing. If m is the best posterior mean, it seldom
    leaves its first arm: u is 0 there and negative everywhere else.

    Args:
        ties: See :class:`UpperConfidence`.
        incumbent: See :class:`ExpectedImprovement`.

    Raises:
        ValueError: If an argument is not one of these words.
    """

    def score(self, candidates: Candidates) -> Tensor:
        return self.improvement(candidates)[0]


@dataclass(frozen=True)
class UniformChoice(Exploration):
    """A uniformly random choice among the candidates."""

    def choose(self, candidates: Candidates) -> Tensor:
        return candidates.anywhere()


@dataclass(frozen=True)
class BestMean(_BreaksTies):
    """The best posterior mean, or the best lower bound mean(x) - caution sd(x): no exploration.

    Args:
        ties: See :class:`UpperConfidence`.
        caution: Standard deviations by which the bound lies below the mean, or above it when
            minimising.
    """

    caution: float = 0.0

    def score(self, candidates: Candidates) -> Tensor:
        best = candidates.sign * candidates.mean
        return best - self.caution * candidates.sd if self.caution else best


def draws_numbers(exploration: Exploration) -> bool:
    """Whether an exploration may use random numbers; False only if it is known not to."""
    known = (UpperConfidence, ExpectedImprovement, ProbabilityOfImprovement, BestMean)
    if isinstance(exploration, _BreaksTies) and type(exploration) in known:
        return exploration.ties == "random"
    return True


def bound_width(score: object, sqrt_beta: float | Tensor) -> float | Tensor | None:
    """The w of a score ±mean + w sd, whose derivatives are known; None for other scores.

    Args:
        score: The score.
        sqrt_beta: √beta, the w of :class:`UpperConfidence`.
    """
    function = getattr(score, "__func__", None)
    if function is BestMean.score:
        return -float(score.__self__.caution)  # type: ignore[attr-defined]
    return sqrt_beta if function is UpperConfidence.score else None


def require_defined(exploration: Exploration) -> None:
    """Raise a ``ValueError`` unless an exploration defines how it chooses."""
    kind = type(exploration)
    require(
        kind.score is not Exploration.score or kind.choose is not Exploration.choose,
        f"{kind.__name__} defines no rule; define score(candidates), how good each is, or "
        "choose(candidates), which is played.",
    )


def log_expected_excess(u: Tensor) -> Tensor:
    """ln(φ(u) + u Φ(u)), the logarithm of E[max(z + u, 0)] for standard normal z, any shape.

    With a = |u| the value at -a is φ(a) g, g = 1 - a √(π/2) erfcx(a / √2), and far out, where the
    two terms cancel, g = (1 - 3 / a²) / a²; the value at a is that at -a plus a.
    """
    # Here both forms are equally exact, to the power 2/3 of the machine's precision.
    limit = (15 / torch.finfo(u.dtype).eps) ** (1 / 6)
    # At 0, where every search meets the incumbent itself, |u| would have the slope 0.
    a = torch.where(u > 0, u, -u)
    square = a.square()
    # Each form is evaluated where it holds alone: elsewhere it could make a derivative NaN.
    beyond = square.clamp_min(limit**2)
    far = (1 - 3 / beyond) / beyond
    within = a.clamp_max(limit)
    near = 1 - math.sqrt(math.pi / 2) * within * torch.special.erfcx(within * math.sqrt(0.5))
    logarithm = torch.where(a < limit, near, far).log() - 0.5 * square - LOG_ROOT_TWO_PI
    return torch.where(u > 0, torch.log(logarithm.exp() + a), logarithm)


def _optimistic(candidates: Candidates, spread: Tensor) -> Tensor:
    """±mean + √beta spread, in reused memory unless derivatives are wanted."""
    sqrt_beta, mean, sign = candidates.sqrt_beta, candidates.mean, candidates.sign
    if torch.is_grad_enabled() and (mean.requires_grad or spread.requires_grad):
        best = mean if sign > 0 else -mean
        if isinstance(sqrt_beta, Tensor):
            return torch.addcmul(best, sqrt_beta.to(spread), spread)
        return torch.add(best, spread, alpha=sqrt_beta)
    score = candidates.scratch.take("arms", spread.shape, spread)
    if isinstance(sqrt_beta, Tensor):
        torch.addcmul(mean, spread, (sign * sqrt_beta).to(spread), out=score)
    else:
        torch.add(mean, spread, alpha=sign * sqrt_beta, out=score)
    return score if sign > 0 else score.neg_()


def _require_one_of(part: Exploration, name: str, given: str, words: tuple[str, ...]) -> None:
    """Raise a ``ValueError`` unless a word is one of those known."""
    choices = " or ".join(f'"{word}"' for word in words)
    require(given in words, f"{type(part).__name__}: {name} is {shown(given)}; choose {choices}.")
