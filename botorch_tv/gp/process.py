"""Gaussian processes with rules for forgetting, and the base class of inference classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import torch
from gpytorch.kernels import Kernel
from torch import Size, Tensor

from botorch_tv.forgetting import Decay, Inflation, Lifetime, Retention
from botorch_tv.gp.arm_engine import RunningPosterior
from botorch_tv.gp.basis import Basis
from botorch_tv.gp.box import BoxPrior
from botorch_tv.gp.cholesky import GrowingFactor
from botorch_tv.gp.data import Change, Data, Present, Prior
from botorch_tv.gp.mixture.running import RunningMixture
from botorch_tv.gp.regression import Observations

SCORING = 4
"""Number of matrices in memory while a score is computed, each with a row per point and a column
per observation."""


@dataclass(frozen=True, eq=False)
class Process:
    """A Gaussian process with rules for forgetting its observations.

    Attributes:
        kernel: Spatial covariance: a GPyTorch kernel, or the matrix of all pairs of arms, `M x M`.
        noise: Noise variance σ² of a new observation.
        mean: Prior mean, a number; ``"estimated"`` estimates a constant by generalised least
            squares.
        decay: How the covariance falls with the time between observations.
        inflation: How the noise of an observation grows with its age.
        retention: The rules of retention; an observation is retained if every rule retains it.
    """

    kernel: Kernel | Tensor
    noise: float
    mean: float | Literal["estimated"]
    decay: Decay
    inflation: Inflation
    retention: tuple[Retention, ...]

    @cached_property
    def given_mean(self) -> float | None:
        """The prior mean; None if it is estimated."""
        return None if isinstance(self.mean, str) else self.mean

    @cached_property
    def moves(self) -> bool:
        """Whether the prior changes with time."""
        return not self.decay.is_static

    @cached_property
    def ages(self) -> bool:
        """Whether the noise of an observation grows with its age."""
        return not self.inflation.is_static

    @cached_property
    def reacts(self) -> bool:
        """Whether the retained rows may depend on observed values."""
        return any(rule.reacts for rule in self.retention)

    @cached_property
    def slides(self) -> bool:
        """Whether a window of rounds drops one row per round, the same row in all trials."""
        return any(lifetime.window for lifetime in self.lifetimes)

    @cached_property
    def returns(self) -> bool:
        """Whether a rule may set rows aside temporarily.

        If a rule sets rows aside, the posterior must be recomputed.
        """
        return any(rule.sets_aside for rule in self.retention)

    @cached_property
    def expires(self) -> bool:
        """Whether a rule drops rows by time; trials may then drop rows in different rounds."""
        return any(lifetime.span for lifetime in self.lifetimes)

    @property
    def lifetimes(self) -> list[Lifetime]:
        """How long the rules retain observations, where this depends on number or age alone."""
        return [rule.retained_for for rule in self.retention if rule.retained_for is not None]

    def most_retained(self, horizon: int) -> int:
        """Largest number of observations that a trial may retain within ``horizon`` rounds."""
        limits = (lifetime.window or lifetime.period or horizon for lifetime in self.lifetimes)
        return min((horizon, *limits))


def temporal_rows(decay: Decay, elapsed: Tensor, first: int, last: int) -> Tensor:
    """Rows ``first`` to ``last`` - 1 of the matrix of temporal factors between rows of a log.

    Columns from number ``last`` on are omitted, so the result is
    `batch_shape x (last - first) x last`.

    Args:
        decay: The decay of a process.
        elapsed: Times of all rows, `batch_shape x n`.
        first: Index of the first row to compute.
        last: Index of the last row to compute, plus 1.
    """
    those, others = elapsed[..., first:last].unsqueeze(-1), elapsed[..., :last].unsqueeze(-2)
    return decay.covariance(those, others)


Normal = Callable[..., Tensor]
"""Standard normal variates for the trials: ``normal(k)`` returns `batch_shape x k`."""


Joint = tuple[Tensor, Tensor, Tensor]
"""The joint posterior of f_now within each of e groups of q arms or points, as three tensors: the
mean, `batch_shape x e x q`; the covariance, `batch_shape x e x q x q`; and the information gain ½
ln det(I + N^(-½) K N^(-½)) of the observations in use, with prior covariance K and noise covariance
N, `batch_shape`."""


class SearchSizes(NamedTuple):
    """Sizes of the search of a box, from which memory is estimated."""

    starts: int
    """Number of observations from which the search starts."""
    compared: int
    """Number of observations or basis functions whose covariances with a point are computed."""
    matrices: int = SCORING
    """Number of matrices in memory while a score is computed, each with a row per point and
    ``compared`` columns."""
    besides: int = 0
    """Number of further values in memory per point while a score is computed."""


class Inference(ABC):
    """Computation of the posterior of a process from its data.

    By default, every round computes the posterior from the log alone. :meth:`ArmInference.predict`
    returns the posterior at all arms, and :meth:`PointRegression.predict` returns a posterior for
    any points.

    Args:
        process: The kernel, the noise variance, the prior mean, and the rules for forgetting.
        samples: Whether every round draws samples; samples change the representation of the
            posterior, but not its values.
    """

    def __init__(self, process: Process, *, samples: bool = False) -> None:
        self.process, self.samples = process, samples

    def start(
        self, prior: Prior, batch_shape: Size
    ) -> RunningPosterior | RunningMixture | GrowingFactor | None:
        """The initial running posterior or cache; None if this inference uses neither."""
        return None

    def observe(self, before: Data, after: Data, change: Change, *, consume: bool) -> Data:
        """Update the posterior with the newest row of a log.

        Args:
            before: The data before the observation.
            after: The data that include the observation; their posterior is still the posterior of
                ``before``.
            change: The change of the retained rows from ``before`` to ``after``.
            consume: Whether the memory of ``before`` may be reused.

        Returns:
            The data ``after``, now with the updated posterior.
        """
        return after

    def keep(self, before: Data, after: Data, change: Change) -> Data:
        """Drop rows when time passes without an observation; arguments are as for :meth:`observe`.

        Do not write to the tensors in ``change``: they may be read-only.
        """
        return after

    @abstractmethod
    def joint(self, data: Data, choice: Tensor, present: Present) -> Joint:
        """The joint posterior within each of e groups of q arms or points.

        The result is differentiable with respect to points.

        Args:
            data: The observations.
            choice: Arms, `batch_shape x e x q`; or points, `batch_shape x e x q x (d + c)`.
            present: The time of the decision.
        """

    @abstractmethod
    def doubly_weighted_gain(self, data: Data, present: Present) -> Tensor:
        """Information gain if noise grew by the square of its usual factor, `batch_shape`."""

    @abstractmethod
    def numbers_per_trial(self, data: Data, horizon: int, trials: int, search: int) -> int:
        """Upper bound of the number of values per trial in memory in the first ``horizon`` rounds.

        Args:
            data: The data before any observation.
            horizon: Number of rounds.
            trials: Number of trials computed together.
            search: Number of values per trial in memory during the search of a box.
        """

    def search_sizes(self, data: Data, horizon: int) -> SearchSizes:
        """The largest sizes that the search of a box reaches in the first ``horizon`` rounds."""
        retained = self.process.most_retained(horizon)
        return SearchSizes(retained, retained)

    def model_noise(self, data: Data, noise: Tensor) -> Tensor:
        """The noise variances that the model uses instead of the given ``noise``, `batch_shape`."""
        return noise

    def unit(self, data: Data) -> Tensor | None:
        """The unit of predictions, `batch_shape`; None means 1.

        The results of :meth:`joint` are in the units of y, not in the unit of predictions.
        """
        return None

    def prior_mean(self, estimate: Tensor | None) -> Tensor | float:
        """The prior mean: the given number, or else ``estimate``, `batch_shape`."""
        given = self.process.given_mean
        if given is not None:
            return given
        assert estimate is not None
        return estimate

    def observations(
        self, data: Data, present: Present, inflation_power: int = 1, pairs: bool = True
    ) -> Observations:
        """The rows that at least one trial retains, prepared for regression.

        Args:
            data: The log and its retained rows.
            present: The time of the decision.
            inflation_power: Power of the factor by which noise grows with age: 1, or 2 for the
                doubly weighted gain.
            pairs: Whether to compute temporal factors among all rows.
        """
        process, log, first, prior = self.process, data.history, data.dropped, data.prior
        y, time, noise = (part.tensor(first) for part in (log.y, log.time, log.noise))
        if process.given_mean:
            y = y - process.given_mean
        decay, factor = process.decay, None
        if isinstance(prior, BoxPrior):  # decay and noise may be learned
            decay, factor = decay if prior.decay is None else prior.decay, prior.noise_factor
        if factor is not None:
            noise = noise * factor.view_as(present.now).unsqueeze(-1)
        root = noise.rsqrt()
        if process.ages:
            growth = process.inflation.log_factor(present.reference.unsqueeze(-1) - time)
            root = torch.exp(-0.5 * (noise.log() + inflation_power * growth))
        mask = data.mask
        if mask is not None:
            root = root * mask
        found = Observations(log.choice.tensor(first), y, root.to(y.dtype))
        found = found._replace(estimates_mean=process.given_mean is None)
        if not process.moves:
            return found
        elapsed = data.elapsed
        age = (present.now.unsqueeze(-1) - data.origin.unsqueeze(-1)).clamp_min(0)
        return found._replace(
            decay=temporal_rows(decay, elapsed, 0, elapsed.shape[-1]).to(y) if pairs else None,
            present_decay=decay.covariance(elapsed, age).to(y.dtype),
            prior_factor=decay.prior_variance(age.squeeze(-1)).to(y.dtype),
        )


def basis_of(data: Data) -> Basis:
    """The basis of the kernel."""
    assert isinstance(data.prior, Basis)
    return data.prior
