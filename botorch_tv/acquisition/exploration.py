"""How a strategy chooses the next point: confidence bounds, samples, improvements, or chance.

An exploration usually scores every candidate, and plays the candidate with the highest score. The
posterior comes from :class:`Candidates`, which works on grids and on boxes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import torch
from torch import Size, Tensor

from botorch_tv.forgetting.base import Log, Part
from botorch_tv.gp.tensors import Scratch
from botorch_tv.validation import require, settle_integer, settle_number, shown

Ties = Literal["first", "random"]
"""Which of several tying candidates is played: the first, or a random candidate."""


class Candidates(ABC):
    """The posterior of the current objective at M candidates: arms of a grid, or points of a box.

    On a grid all arms are candidates. On a box, ``mean``, ``sd`` and :meth:`sample` are available
    only for the candidates that a score function receives, and for the result of :meth:`at`. An
    exploration that passes a score function to :meth:`argmax` works on grids and on boxes.

    Attributes:
        sign: 1 when maximising, -1 when minimising.
        scale: Largest prior standard deviation of the objective over the domain.
        round: The current round t, counted from 1.
        memory: The exploration's memory of earlier rounds; see
            :class:`~botorch_tv.forgetting.base.Part`.
        scratch: Reusable memory for intermediate results.
        mean: Posterior mean minus the constant prior mean, `batch_shape x M`.
        sd: Posterior standard deviation, `batch_shape x M`.
        tight_sd: σ̃ of :class:`TightConfidence`, `batch_shape x M`; on grids only.
        sqrt_beta: √beta of the strategy's confidence schedule, as in the confidence bounds
            mean ± √beta sd; a number or `batch_shape x 1`.
    """

    mean: Tensor
    sd: Tensor
    tight_sd: Tensor
    sqrt_beta: float | Tensor
    sign: int
    scale: float
    round: int
    memory: Any
    scratch: Scratch

    @property
    @abstractmethod
    def noise(self) -> Tensor:
        """Noise variance of an observation, `batch_shape x 1`."""

    @property
    @abstractmethod
    def incumbent(self) -> Tensor:
        """The best posterior mean among the points observed, `batch_shape x 1`.

        The best mean is the largest when maximising, and the smallest when minimising. Without data
        the incumbent is 0, and no choice depends on it.
        """

    @property
    @abstractmethod
    def best_observation(self) -> Tensor:
        """The best observation in use, minus the prior mean, `batch_shape x 1`.

        The best observation is the largest when maximising, and the smallest when minimising.
        Without data the result is 0. An expert's answers are ignored. Observations are noisy and
        may be outdated, so under drift :attr:`incumbent` is more informative.
        """

    @property
    @abstractmethod
    def has_data(self) -> Tensor:
        """Whether a trial has any observation in use, `batch_shape`, bool."""

    @abstractmethod
    def sample(self, n: int = 1) -> Tensor:
        """Samples of the posterior, minus the posterior mean, `n x batch_shape x M`.

        Add ``mean`` to obtain samples of the posterior itself. Repeated calls within a round return
        the same samples: ``sample(2)[0]`` is ``sample(1)[0]``.

        Args:
            n: Number of samples.

        Raises:
            InputDataError: If the domain is a box, and the method is called neither in a score
                function nor on a result of :meth:`at`.
        """

    @abstractmethod
    def uniform(self) -> Tensor:
        """A new random number in [0, 1) for each trial, `batch_shape`."""

    @abstractmethod
    def argmax(
        self,
        score: Callable[[Candidates], Tensor],
        *,
        unit: float | None = None,
        ties: Ties = "first",
        among: Tensor | None = None,
    ) -> Tensor:
        """The candidate with the highest score.

        Args:
            score: A function from candidates to their scores, `batch_shape x M`; on a box it must
                be differentiable with respect to the points.
            unit: The unit of scores; ``scale`` by default. Scores tie if they differ by less than
                1e-7 units.
            ties: Which arm of a grid to take if several arms tie: the ``"first"``, or a uniformly
                ``"random"`` arm.
            among: The only candidates to choose from: indices of arms, int64 of shape `q`, or
                points of a box, `q x d`; None for all candidates.

        Returns:
            A choice: the index of an arm, `batch_shape`, int64, or a point of a box,
            `batch_shape x d`.

        Raises:
            InputDataError: If ``ties`` is ``"random"`` on a box, if a score is NaN, or if the
                scores have a wrong shape.
        """

    @abstractmethod
    def at(self, choice: Tensor) -> Candidates:
        """The posterior at one choice for each trial, so M is 1.

        Args:
            choice: Indices of arms, `batch_shape`, or points, `batch_shape x d`.
        """

    @abstractmethod
    def anywhere(self) -> Tensor:
        """A new uniformly random choice: arms, `batch_shape`, or points, `batch_shape x d`."""

    @abstractmethod
    def where(self, condition: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """Take ``first`` in trials where ``condition`` is True, and ``second`` in all other trials.

        Args:
            condition: The condition, `batch_shape`, bool.
            first: A choice, `batch_shape` on a grid, `batch_shape x d` on a box.
            second: A choice of the same shape as ``first``.

        Returns:
            The choices, in the shape of ``first``.
        """


LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
Incumbent = Literal["posterior", "observed"]
"""The reference of an improvement: the best posterior mean among the points observed, or the best
value observed."""
SMALLEST_VARIANCE = 1e-12
"""Smallest posterior variance that an improvement uses, divided by the largest prior variance."""


class Exploration(Part):
    """A rule that uses a posterior to choose the next point.

    Override :meth:`score` to score candidates, or :meth:`choose` to choose directly. An exploration
    may have a memory of earlier rounds; see :class:`~botorch_tv.forgetting.base.Part`.

    Attributes:
        samples: Whether the exploration draws posterior samples in every round. If True, the
            strategy stores the posterior in a form from which samples are drawn quickly.
        ties: Which arm of a grid :meth:`choose` takes if several arms tie.

    Example:
        >>> class TopTwo(Exploration):
        ...     '''The best point of the first or second sample, with equal probability.'''
        ...
        ...     def choose(self, candidates):
        ...         first, second = (
        ...             candidates.argmax(lambda at: at.sign * at.mean + at.sample(2)[number])
        ...             for number in (0, 1)
        ...         )
        ...         return candidates.where(candidates.uniform() < 0.5, first, second)
    """

    DECLARED = (("bound_factors", "draws_numbers", "searches_box"), ("score", "choose", "unit"))
    bound_factors: tuple[float, float] | None = None
    """The numbers a and b of a score of the form ±mean + (a √beta + b) sd; None for other scores.
    The search of a box then computes the gradient in closed form, and studies can be compiled."""
    draws_numbers: bool = True
    """Whether the exploration may use random numbers."""
    searches_box: bool = True
    """Whether the exploration searches a box for the highest score."""
    samples: bool = False
    ties: Ties = "first"

    @property
    def plays_bound(self) -> bool:
        """Whether every choice is the first maximum of ±mean + (a √beta + b) sd, with a ≥ 0."""
        kind = type(self)
        usual = kind.choose is Exploration.choose and kind.unit is Exploration.unit
        usual = usual and self.ties == "first" and not self.remembers
        return usual and self.bound_factors is not None and self.bound_factors[0] >= 0

    def score(self, candidates: Candidates) -> Tensor:
        """The score of each candidate, `batch_shape x M`.

        On a box, the score must be differentiable with respect to the points. On a box, the batch
        shape has one dimension, because each call is for a group of trials.

        Args:
            candidates: The candidates.
        """
        raise NotImplementedError(f"{type(self).__name__} must define score() or choose().")

    def unit(self, scale: float) -> float:
        """The unit of scores: scores tie if they differ by less than 1e-7 units.

        Args:
            scale: Largest prior standard deviation.
        """
        return scale

    def choose(self, candidates: Candidates) -> Tensor:
        """The choice to play; by default the candidate with the highest score.

        Args:
            candidates: The candidates.

        Returns:
            The choice: the index of an arm, `batch_shape`, int64, or a point of a box,
            `batch_shape x d`.
        """
        unit = self.unit(candidates.scale)
        return candidates.argmax(self.score, unit=unit, ties=self.ties)


@dataclass(frozen=True)
class Plain(Exploration):
    """An exploration without parameters; two instances of the same class are equal."""


@dataclass(frozen=True)
class _BreaksTies(Exploration):
    """An exploration that takes the candidate with the best score; ``ties`` chooses if arms tie."""

    ties: Ties = "first"

    @property
    def draws_numbers(self) -> bool:  # type: ignore[override]
        return self.ties == "random"

    def __post_init__(self) -> None:
        for name, options in (("ties", get_args(Ties)), ("incumbent", get_args(Incumbent))):
            given = getattr(self, name, options[0])
            require(
                given in options,
                f"{type(self).__name__}: {name} is {shown(given)}; choose "
                f'"{options[0]}" or "{options[1]}".',
            )


class UpperConfidence(_BreaksTies):
    """Play the point with the largest upper confidence bound mean(x) + √beta sd(x).

    When minimising, play the point with the smallest lower bound mean(x) - √beta sd(x).

    Args:
        ties: Which arm of a grid to play if several arms tie: the ``"first"``, which is
            reproducible, or a ``"random"`` arm. Arms tie if their confidence bounds differ by less
            than 1e-7 prior standard deviations, as in unexplored regions. The papers give no rule
            for ties. The choice of ``ties`` matters if many arms tie.

    Raises:
        ValueError: If ``ties`` is neither ``"first"`` nor ``"random"``.
    """

    bound_factors = (1.0, 0.0)
    draws_numbers = _BreaksTies.draws_numbers

    def score(self, candidates: Candidates) -> Tensor:
        return _optimistic(candidates, candidates.sd)


class TightConfidence(_BreaksTies):
    """Play the point with the largest mean(x) + √β σ̃(x), [W22] Theorem 2.

    When minimising, play the point with the smallest mean(x) - √β σ̃(x).

    WGP-UCB uses the posterior variance var(x) = k(x, x) - kᵀ(K + N)⁻¹k. Here K is the covariance
    matrix of the observations, k their covariances with x, and N the diagonal matrix of their noise
    variances n_s, which grow with age from λ.

    [W22] Theorem 2 uses a variance of at most var(x): σ̃² = λ φ(x)ᵀ V⁻¹ Ṽ V⁻¹ φ(x), with V and Ṽ of
    [W22]. σ̃² equals var(x) - Σ_s (n_s - λ) a_s² with a = (K + N)⁻¹k. σ̃² is the expected squared
    error of the mean if the objective is static and all observations have noise variance λ. If
    noise does not grow with age, σ̃² equals var(x). [W22] computes σ̃ from explicit features φ; this
    class needs no features. The class works only on grids and for static covariances. With M arms a
    round costs O(M²) per trial.

    Args:
        ties: See :class:`UpperConfidence`.

    Raises:
        ValueError: If ``ties`` is neither ``"first"`` nor ``"random"``.
    """

    draws_numbers = _BreaksTies.draws_numbers

    def score(self, candidates: Candidates) -> Tensor:
        return _optimistic(candidates, candidates.tight_sd)


@dataclass(frozen=True)
class LatticeSets:
    """Decision sets D_t of GP-TS: a lattice of ⌈B L r d t²⌉^d points, [C17] Theorem 4.

    The points are the centres of equal cells of the box [0, r]^d, so that |f(x) - f([x]_t)| <= 1/t²
    for the point [x]_t of D_t that is nearest to x.

    Args:
        B: Bound on the norm of f, positive.
        L: Bound on the slopes of the kernel, positive; see
            :func:`botorch_tv.theory.log_decision_set`.
        r: Side length r of the box [0, r]^d, positive.
        dim: Dimension d of the box, at least 1.
        most: Largest number of points, at least 1. The lattice of the theorem soon exceeds any
            memory; beyond ``most`` points it is coarser, and the theorem no longer covers it.

    Raises:
        ValueError: If an argument is out of range.
    """

    B: float
    L: float
    r: float = 1.0
    dim: int = 1
    most: int = 10_000

    def __post_init__(self) -> None:
        for name in ("B", "L", "r"):
            settle_number(self, name, "(0, inf)", "[C17] Theorem 4 defines it.")
        for name in ("dim", "most"):
            settle_integer(self, name, 1, "give a whole number.")

    def __call__(self, t: int) -> Tensor:
        """The points of D_t, `q x d`, float64 on the CPU.

        Args:
            t: The round, counted from 1.
        """
        largest = 1
        while (largest + 1) ** self.dim <= self.most:
            largest += 1
        side = min(math.ceil(self.B * self.L * self.r * self.dim * t**2), largest)
        line = self.r * (torch.arange(side, dtype=torch.float64, device="cpu") + 0.5) / side
        return torch.cartesian_prod(*[line] * self.dim).view(-1, self.dim)


@dataclass(frozen=True)
class Thompson(Exploration):
    """Play the best point of a sample from GP(mean, v_t² c), [C17] Algorithm 2, GP-TS.

    Here v_t is the strategy's width √beta, and c is the posterior covariance. On a grid the values
    at all arms are sampled jointly. On a box the sample is a function, drawn by Matheron's rule
    from random features of the prior.

    Args:
        decision_set: A function from the round t to the decision set D_t of the algorithm: indices
            of arms, int64 of shape `q`, on a grid; points, `q x d`, on a box, for example
            :class:`LatticeSets`. By default D_t is the domain, which is exact Thompson sampling.
    """

    decision_set: Callable[[int], Tensor] | None = None

    samples = True

    def score(self, candidates: Candidates) -> Tensor:
        # A normal distribution with mean 0 is symmetric, so the sign of the sample does not matter.
        return _optimistic(candidates, candidates.sample()[0])

    def choose(self, candidates: Candidates) -> Tensor:
        among = None if self.decision_set is None else self.decision_set(candidates.round)
        return candidates.argmax(self.score, among=among)


@dataclass(frozen=True)
class _Improves(_BreaksTies):
    """An exploration whose scores measure the improvement of a candidate over an incumbent m."""

    incumbent: Incumbent = "posterior"

    draws_numbers = _BreaksTies.draws_numbers

    def unit(self, scale: float) -> float:
        return 1.0

    def improvement(self, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """Two tensors `batch_shape x M`: u = ±(mean(x) - m) / sd(x), and sd(x).

        The sign of u is reversed when minimising. Standard deviations near 0 are raised to a
        positive limit. Without data there is no incumbent, and u is 0.
        """
        observed = self.incumbent == "observed"
        best = candidates.best_observation if observed else candidates.incumbent
        sd = candidates.sd.clamp_min(SMALLEST_VARIANCE**0.5 * candidates.scale)
        u = (candidates.mean - best) * candidates.sign / sd
        return torch.where(candidates.has_data.unsqueeze(-1), u, 0.0), sd


class ExpectedImprovement(_Improves):
    """Play the point with the largest E[max(f(x) - m, 0)], where m is the incumbent.

    The expectation equals sd(x) (φ(u) + u Φ(u)) with u = (mean(x) - m) / sd(x). Candidates are
    compared by the logarithm of the expectation, because the expectation itself falls below any
    tolerance when the posterior is narrow. Without data, play the point with the largest prior
    standard deviation.

    Args:
        ties: See :class:`UpperConfidence`.
        incumbent: Which incumbent m to use. ``"posterior"`` is the best posterior mean among the
            points observed; like the posterior, this incumbent forgets old data. ``"observed"`` is
            the best observation in use. Textbooks use this incumbent for exact observations of a
            static objective. With noise, the best observation is usually better than the objective
            at the same point, and this difference increases exploration.

    Raises:
        ValueError: If ``ties`` or ``incumbent`` is not an allowed value.
    """

    draws_numbers = _BreaksTies.draws_numbers

    def score(self, candidates: Candidates) -> Tensor:
        u, sd = self.improvement(candidates)
        return log_expected_excess(u).add_(sd.log())


class ProbabilityOfImprovement(_Improves):
    """Play the point with the largest P(f(x) > m) = Φ(u), where m is the incumbent.

    Candidates are compared by u = (mean(x) - m) / sd(x), because Φ is increasing. If m is the best
    posterior mean, u is 0 at the incumbent and usually negative elsewhere, so this exploration
    seldom leaves the arm that it plays first. Without data, play the point with the largest prior
    standard deviation.

    Args:
        ties: See :class:`UpperConfidence`.
        incumbent: See :class:`ExpectedImprovement`.

    Raises:
        ValueError: If ``ties`` or ``incumbent`` is not an allowed value.
    """

    draws_numbers = _BreaksTies.draws_numbers

    def score(self, candidates: Candidates) -> Tensor:
        u, sd = self.improvement(candidates)
        return torch.where(candidates.has_data.unsqueeze(-1), u, sd.log())


class UniformChoice(Plain):
    """A uniformly random choice among the candidates."""

    searches_box = False

    def choose(self, candidates: Candidates) -> Tensor:
        return candidates.anywhere()


@dataclass(frozen=True)
class BestMean(_BreaksTies):
    """Play the point with the largest mean(x) - caution sd(x), without exploration.

    When minimising, play the point with the smallest mean(x) + caution sd(x).

    Args:
        ties: See :class:`UpperConfidence`.
        caution: Number of standard deviations that the score subtracts from the mean (adds to the
            mean when minimising).
    """

    caution: float = 0.0

    draws_numbers = _BreaksTies.draws_numbers

    @property
    def bound_factors(self) -> tuple[float, float]:  # type: ignore[override]
        return 0.0, -float(self.caution)

    def score(self, candidates: Candidates) -> Tensor:
        best = candidates.sign * candidates.mean
        return best - self.caution * candidates.sd if self.caution else best


def bound_width(score: object, sqrt_beta: float | Tensor) -> float | Tensor | None:
    """The factor w of a score of the form ±mean + w sd; None for any other score.

    Args:
        score: The score function; the form ±mean + w sd has closed-form derivatives.
        sqrt_beta: √beta; see :attr:`Exploration.bound_factors`.
    """
    exploration = getattr(score, "__self__", None)
    if not isinstance(exploration, Exploration) or score != exploration.score:
        return None
    factors = exploration.bound_factors
    return None if factors is None else factors[0] * sqrt_beta + factors[1]


def log_expected_excess(u: Tensor) -> Tensor:
    """ln(φ(u) + u Φ(u)), the logarithm of E[max(z + u, 0)] with z standard normal.

    Let h(u) = φ(u) + u Φ(u) and a = |u|. For negative u, h(u) = φ(a) g(a), where
    g(a) = 1 - a √(π/2) erfcx(a / √2). For large a the two terms of g(a) almost cancel, so g(a) is
    replaced by (1 - 3 / a²) / a². For positive u, h(u) = h(-u) + u.
    """
    # At a = limit, the exact form of g(a) and its replacement have the same error: the machine's
    # precision to the power 2/3.
    limit = (15 / torch.finfo(u.dtype).eps) ** (1 / 6)
    # A search that starts at the incumbent starts at u = 0, where torch.abs has the derivative 0.
    a = torch.where(u > 0, u, -u)
    square = a.square()
    # Each form of g is evaluated only where it is used: elsewhere its derivative could be NaN.
    beyond = square.clamp_min(limit**2)
    far = (1 - 3 / beyond) / beyond
    within = a.clamp_max(limit)
    near = 1 - math.sqrt(math.pi / 2) * within * torch.special.erfcx(within * math.sqrt(0.5))
    logarithm = torch.where(a < limit, near, far).log() - 0.5 * square - LOG_ROOT_TWO_PI
    return torch.where(u > 0, torch.log(logarithm.exp() + a), logarithm)


def _optimistic(candidates: Candidates, spread: Tensor) -> Tensor:
    """The scores ±mean + √beta spread; if gradients are disabled, they are in reused memory."""
    sqrt_beta, mean, sign = candidates.sqrt_beta, candidates.mean, candidates.sign
    if torch.is_grad_enabled() and (mean.requires_grad or spread.requires_grad):
        best = mean if sign > 0 else -mean
        if isinstance(sqrt_beta, Tensor):
            return torch.addcmul(best, sqrt_beta.to(spread), spread)
        return torch.add(best, spread, alpha=sqrt_beta)
    score = candidates.scratch.take("arms", spread.shape, spread)
    if isinstance(sqrt_beta, Tensor):
        torch.addcmul(mean, spread, sqrt_beta.to(spread), value=sign, out=score)
    else:
        torch.add(mean, spread, alpha=sign * sqrt_beta, out=score)
    return score if sign > 0 else score.neg_()


@dataclass(frozen=True)
class Forced(Exploration):
    """Another exploration, mixed with occasional uniformly random choices.

    A detector finds changes only at points that the bandit measures. If the bandit is certain of
    its optimum, it measures only the optimum. Random choices find changes at points that the bandit
    would otherwise not measure [Liu, Lee, Shroff, AAAI 2018].

    Args:
        chance: Probability of a random choice in each round, in [0, 1].
        otherwise: The exploration for rounds without a random choice. The memory of this
            exploration is updated in all rounds.

    Raises:
        ValueError: If ``chance`` lies outside [0, 1].
    """

    chance: float
    otherwise: Exploration = field(default_factory=UpperConfidence)

    def __post_init__(self) -> None:
        settle_number(self, "chance", "[0, 1]", "0.05 forces one round in twenty.")

    @property
    def samples(self) -> bool:  # type: ignore[override]
        """Whether the exploration ``otherwise`` draws samples."""
        return self.otherwise.samples

    def init(self, batch_shape: Size) -> Any:
        return self.otherwise.init(batch_shape)

    def update(self, log: Log) -> Any:
        return self.otherwise.update(log)

    def choose(self, candidates: Candidates) -> Tensor:
        chosen = self.otherwise.choose(candidates)
        anywhere = candidates.anywhere()
        return candidates.where(candidates.uniform() < self.chance, anywhere, chosen)
