"""The process that a posterior depends on, its observations, and what is asked of an inference."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import torch
from gpytorch.kernels import Kernel
from torch import Size, Tensor

from botorch_tv.forgetting import (
    ConfirmedTrigger,
    Decay,
    Inflation,
    KeepAll,
    PeriodicReset,
    Retention,
    SlidingWindow,
)
from botorch_tv.forgetting.base import is_static
from botorch_tv.gp.arm_engine import RunningPosterior
from botorch_tv.gp.basis import Basis
from botorch_tv.gp.box import BoxPrior
from botorch_tv.gp.cholesky import GrowingFactor
from botorch_tv.gp.data import Change, Data, Present, Prior
from botorch_tv.gp.mixture.filter import RunningMixture
from botorch_tv.gp.regression import Observations

SCORING = 4
"""Matrices of points against observations that a score is computed in."""

BY_COUNT_OR_TIME = (KeepAll, PeriodicReset, SlidingWindow)
"""Rules known to look at no observation."""


@dataclass(frozen=True, eq=False)
class Process:
    """A Gaussian process whose measurements are forgotten.

    Attributes:
        kernel: Spatial covariance: a GPyTorch kernel, or a matrix over the arms, `M x M`.
        noise: Noise variance σ² of a new observation.
        mean: Prior mean; ``"estimated"`` for the constant of generalised least squares.
        decay: How covariance falls with the time between measurements.
        inflation: How the noise of a measurement grows with its age.
        retention: Which measurements are kept: those that every rule keeps.
    """

    kernel: Kernel | Tensor
    noise: float
    mean: float | Literal["estimated"]
    decay: Decay
    inflation: Inflation
    retention: tuple[Retention, ...]

    @cached_property
    def given_mean(self) -> float | None:
        """The prior mean; None where it is to be estimated."""
        return None if isinstance(self.mean, str) else self.mean

    @cached_property
    def moves(self) -> bool:
        """Whether the prior changes with time at all; a static one needs no arithmetic."""
        return not is_static(self.decay)

    @cached_property
    def ages(self) -> bool:
        """Whether the noise of an observation grows with its age."""
        return not is_static(self.inflation)

    @cached_property
    def reacts(self) -> bool:
        """Whether what is kept may depend on what was observed."""
        return any(type(rule) not in BY_COUNT_OR_TIME for rule in self.retention)

    @cached_property
    def slides(self) -> bool:
        """Whether rows are known to leave one by one, in all trials together."""
        rules = self.retention
        return any(isinstance(rule, SlidingWindow) and rule.by == "rounds" for rule in rules)

    @cached_property
    def returns(self) -> bool:
        """Whether rows may be set aside, which is followed by computing all anew."""
        return any(isinstance(rule, ConfirmedTrigger) for rule in self.retention)

    @cached_property
    def expires(self) -> bool:
        """Whether rows are known to leave by time, at moments that differ by trial."""
        timed = [
            rule for rule in self.retention if isinstance(rule, (PeriodicReset, SlidingWindow))
        ]
        return any(rule.by == "time" for rule in timed)

    def most_retained(self, horizon: int) -> int:
        """Most observations that a trial keeps within ``horizon`` rounds, as far as is known."""
        limits = [horizon]
        for rule in self.retention:
            if isinstance(rule, (PeriodicReset, SlidingWindow)) and rule.by == "rounds":
                limits.append(int(rule.period if isinstance(rule, PeriodicReset) else rule.window))
        return min(limits)


def temporal_rows(decay: Decay, elapsed: Tensor, first: int, last: int) -> Tensor:
    """Temporal factors of some rows with all up to them, `batch_shape x (last - first) x last`.

    Args:
        decay: Of a process.
        elapsed: Times of all rows, `batch_shape x n`.
        first: Number of the first of them.
        last: Number of the one behind the last.
    """
    those, others = elapsed[..., first:last].unsqueeze(-1), elapsed[..., :last].unsqueeze(-2)
    return decay.covariance(those, others)


Normal = Callable[..., Tensor]
"""Standard normal variates for the trials: ``normal(k)`` gives `batch_shape x k`."""


Joint = tuple[Tensor, Tensor, Tensor]
"""The joint posterior of f_now within each of e groups of q arms or points: the mean, `batch_shape
x e x q`; the covariance, `batch_shape x e x q x q`; and the information gain of the data in use, ½
ln det(I + N^(-½) K N^(-½)), `batch_shape`."""


class Looks(NamedTuple):
    """Sizes of a search of a box, for estimates of memory."""

    familiar: int
    """Observations that it begins at."""
    compared: int
    """Observations, or functions, that a point is compared with."""
    matrices: int = SCORING
    """Matrices of points against these that a score is computed in."""
    besides: int = 0
    """Numbers that the score of a point takes besides."""


class Inference(ABC):
    """How the posterior of a process is computed from its data.

    Unless it says otherwise it holds nothing besides the log and computes anew at every round.
    What is predicted has the shape of the domain: :meth:`ArmInference.predict` knows all arms at
    once, :meth:`PointRegression.predict` any point that it is asked about.

    Args:
        process: The kernel, its noise and mean, and how measurements are forgotten.
        samples: Whether functions will be drawn in every round; a choice of representation, never
            of the result.
    """

    def __init__(self, process: Process, *, samples: bool = False) -> None:
        self.process, self.samples = process, samples

    def start(
        self, prior: Prior, batch_shape: Size
    ) -> RunningPosterior | RunningMixture | GrowingFactor | None:
        """What data hold in addition to the log, before any observation."""
        return None

    def observe(self, before: Data, after: Data, change: Change, *, consume: bool) -> Data:
        """Take in the newest row of a log.

        Args:
            before: The data of the round.
            after: Those of the next, their posterior still that of ``before``.
            change: Which rows they do not keep any more.
            consume: Whether the memory of ``before`` may be reused.

        Returns:
            ``after``, its posterior brought up to date.
        """
        return after

    def keep(self, before: Data, after: Data, change: Change) -> Data:
        """Leave out rows as time passes, without an observation; see :meth:`observe`.

        What has changed may lie in memory that is for reading only.
        """
        return after

    @abstractmethod
    def joint(self, data: Data, choice: Tensor, present: Present) -> Joint:
        """The joint posterior within each of e groups of q arms or points; differentiable in these.

        Args:
            data: The observations.
            choice: Arms, `batch_shape x e x q`, or points, `batch_shape x e x q x (d + c)`.
            present: When.
        """

    @abstractmethod
    def doubly_weighted_gain(self, data: Data, present: Present) -> Tensor:
        """The information gain with the factor on the noise squared, `batch_shape`."""

    @abstractmethod
    def numbers_per_trial(self, data: Data, horizon: int, trials: int, search: int) -> int:
        """Numbers held and worked on by round ``horizon`` per trial, where ``trials`` do together.

        The most there can be: every round tells of another arm. ``search`` numbers are worked on
        while the posterior is held and a box is searched.
        """

    def looks(self, data: Data, horizon: int) -> Looks:
        """The most that a search of a box takes up to round ``horizon``."""
        retained = self.process.most_retained(horizon)
        return Looks(retained, retained)

    def model_noise(self, data: Data, noise: Tensor) -> Tensor:
        """The noise variances used for those that were told, `batch_shape`."""
        return noise

    def unit(self, data: Data) -> Tensor | None:
        """By what predictions are to be multiplied, `batch_shape`; None for 1.

        :meth:`joint` is in the units of y in any case.
        """
        return None

    def prior_mean(self, estimate: Tensor | None) -> Tensor | float:
        """The prior mean: what is known, or else the estimate, `batch_shape`."""
        given = self.process.given_mean
        if given is not None:
            return given
        assert estimate is not None
        return estimate

    def observations(
        self, data: Data, present: Present, inflation_power: int = 1, pairs: bool = True
    ) -> Observations:
        """The observations kept, ready for regression: a row for each that some trial keeps.

        Args:
            data: The log, and what is kept of it.
            present: When.
            inflation_power: 2 squares the factor on the noise, as the doubly weighted gain does.
            pairs: Whether temporal factors among all rows are wanted.
        """
        process, log, first, prior = self.process, data.history, data.dropped, data.prior
        y, time, noise = (part.tensor(first) for part in (log.y, log.time, log.noise))
        if process.given_mean:
            y = y - process.given_mean
        decay, factor = process.decay, None
        if isinstance(prior, BoxPrior):  # where both may have been learned
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
    """Coordinates of the kernel."""
    assert isinstance(data.prior, Basis)
    return data.prior
