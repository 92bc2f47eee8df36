"""The posterior of a batch of regressions, at any points.

The formulas of :mod:`botorch_tv.gp.regression` apply, with points instead of arms: with
S = diag(noise_i^(-1/2)), D the temporal factors and L Lᵀ = I + S (K ∘ D) S,

    mean(x) = k~ᵀ S L⁻ᵀ L⁻¹ S y,   var(x) = v k(x, x) - ‖L⁻¹ S k~‖².

Here k~ contains the prior covariances of f_now(x) with the observations, and v is the factor on the
prior variance.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Size, Tensor

from botorch_tv.gp.arms import log_numbers
from botorch_tv.gp.basis import CACHED_NUMBERS
from botorch_tv.gp.box import BoxPrior
from botorch_tv.gp.cholesky import (
    FACTOR_BLOCK,
    Factor,
    Gram,
    GrowingFactor,
    cholesky,
    factor_of,
    numbers_of_factor,
)
from botorch_tv.gp.data import Data, Present, Prior
from botorch_tv.gp.point_kernel import (
    FREQUENCIES,
    Covariance,
    CrossCovariance,
    PointKernel,
    Stationary,
    frequencies,
    spectral_normals,
)
from botorch_tv.gp.process import Inference, Joint, Normal, SearchSizes, temporal_rows
from botorch_tv.gp.regression import Observations, constant_mean
from botorch_tv.gp.tensors import OfTrials

STARTING_POINTS = 256
"""Largest number of observations from which a search of a box starts. They are the newest
observations if the cost per round must be constant, otherwise the observations with the best
means."""
POSTERIOR_MATRICES = 6
"""Number of matrices in memory while a posterior is computed, each with a row per observation of a
block of the Cholesky factor and a column per observation."""
DECAY_MATRICES = 2
"""Number of further matrices of the size described in :data:`POSTERIOR_MATRICES` if covariances
decay with time."""
WAVES = 4
"""Number of values per point and frequency in memory while a sample is evaluated."""

SMALLEST_VARIANCE = 1e-18
"""Lower limit of variances, as a share of the prior variance. A limit is needed because the root
has no derivative at 0."""


Pull = Callable[[Tensor | float, Tensor | float], Tensor]
"""Maps derivatives with respect to mean and standard deviation, numbers or broadcastable to
`trials x q`, to derivatives with respect to the chosen coordinates, `trials x q x d`; derivatives
with respect to the context may follow."""


class PointPosterior(OfTrials, ABC):
    """Posteriors of some trials at any points of a box.

    Attributes:
        X: Points measured, `trials x n x d`.
        live: Whether each observation is in use, `trials x n`.
        offset: The estimated prior mean, `trials`; None if it was given.
        information_gain: ½ ln det(I + S (K ∘ D) S), `trials`.
        path: A sample of the posterior; None if no sample was requested.
    """

    X: Tensor
    live: Tensor
    offset: Tensor | None
    information_gain: Tensor
    path: Tensor | tuple[Tensor, ...] | None
    coarse: ClassVar[bool] = False
    """Whether a search may disregard differences of 1e-5 units of its scores."""

    @property
    def compared(self) -> int:
        """Number of points or basis functions whose covariances with a point are computed."""
        return self.X.shape[-2]

    def starting_points(self, sign: int, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """Points from which a search starts, `trials x m x d`, and a mask of the points in use.

        Args:
            sign: 1 to maximise, -1 to minimise.
            context: The context of the decision, `trials x c`; None without a context.
        """
        return self.X, self.live

    def in_present_context(self, context: Tensor | None) -> Tensor:
        """The measured points, but with the present context, `trials x n x d`."""
        if context is None:
            return self.X
        return with_context(self.X[..., : self.X.shape[-1] - context.shape[-1]], context)

    @abstractmethod
    def at(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Two results at points, `trials x q` each: mean minus prior mean; and standard deviation.

        Args:
            X: Points, `trials x q x d`.
        """

    def slopes(self, X: Tensor) -> tuple[Tensor, Tensor, Pull]:
        """The results of :meth:`at`, and a :data:`Pull` that uses automatic differentiation."""
        with torch.enable_grad():
            X = X.detach().requires_grad_()
            mean, sd = self.at(X)

        def pull(by_mean: Tensor | float, by_sd: Tensor | float) -> Tensor:
            with torch.enable_grad():
                total = (by_mean * mean + by_sd * sd).sum()
            return torch.autograd.grad(total, X)[0]

        return mean.detach(), sd.detach(), pull

    def expected_at(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Two results for predictions: mean minus prior mean; and standard deviation.

        The moments for predictions may differ from the moments for choices, which :meth:`at`
        returns.
        """
        return self.at(X)

    @abstractmethod
    def mean_at(self, X: Tensor) -> Tensor:
        """Only the first result of :meth:`at`, the mean, `trials x q x d -> trials x q`."""

    @abstractmethod
    def sample_at(self, X: Tensor) -> Tensor:
        """At points, the drawn sample minus the mean, `trials x q x d -> trials x q`."""


@dataclass(frozen=True)
class GaussianPosterior(PointPosterior):
    """Posteriors computed from the prior covariances of a point with n other points, the nodes.

    The nodes are the observations of a regression, or the nodes of a basis. In a regression, the
    inner products of whitened covariances are the prior minus the posterior covariance. In a basis,
    they are the posterior covariance itself.

    Attributes:
        kernel: The spatial covariance.
        X: Points measured, `trials x m x d`.
        live: Whether each observation is in use, `trials x m`.
        weights: Weights of the spatial covariances in the posterior mean, `trials x n`. In a
            regression, these are the entries of S L⁻ᵀ L⁻¹ S y, each times the temporal factor of
            its observation.
        factor: The Cholesky factor L of a regression, or an inverse root for a basis; it whitens
            covariances.
        offset: The estimated prior mean, `trials`; None if it was given.
        information_gain: ½ ln det(I + S (K ∘ D) S), `trials`.
        scale: Factors on the spatial covariances in the posterior variance of a regression,
            `trials x n`. The factor of an observation is the product of its entry of S and its
            temporal factor. None means 1.
        prior_factor: Factor v on the prior variance, `trials`; None means 1.
        nodes: The nodes of a basis, `trials x n x d`; None for a regression.
        largest: Largest prior variance in a basis; None for a regression.
        path: A sample of the posterior, if requested: frequencies of the features of a prior
            sample, `trials x F x d`; weights of these features, `trials x 2F`; and weights of the
            correction by the data, `trials x n`. In a basis, only the correction.
    """

    shared = ("largest",)

    kernel: PointKernel
    X: Tensor
    live: Tensor
    weights: Tensor
    factor: Factor
    offset: Tensor | None
    information_gain: Tensor
    scale: Tensor | None = None
    prior_factor: Tensor | None = None
    nodes: Tensor | None = None
    largest: float | None = None
    path: tuple[Tensor, ...] | None = None

    @property
    def compared(self) -> int:
        return self.weights.shape[-1]

    def starting_points(self, sign: int, context: Tensor | None) -> tuple[Tensor, Tensor]:
        if self.nodes is not None:  # the cost per round must be constant
            return self.X[..., -STARTING_POINTS:, :], self.live[..., -STARTING_POINTS:]
        if self.X.shape[-2] <= STARTING_POINTS:
            return self.X, self.live
        at = self.in_present_context(context)
        block = max(1, CACHED_NUMBERS // self.live.numel())
        with torch.no_grad():
            mean = torch.cat([self.mean_at(some) for some in torch.split(at, block, dim=1)], 1)
        mean = (sign * mean).masked_fill(~self.live, -math.inf)
        best = mean.topk(STARTING_POINTS).indices.sort().values
        X = self.X.gather(1, best.unsqueeze(-1).expand(-1, -1, self.X.shape[-1]))
        return X, self.live.gather(1, best)

    def at(self, X: Tensor) -> tuple[Tensor, Tensor]:
        cross = self._cross(X)
        variance, least = self._variance(X, self._whitened(cross))
        return _times(cross, self.weights), variance.clamp_min(least).sqrt()

    def slopes(self, X: Tensor) -> tuple[Tensor, Tensor, Pull]:
        if not isinstance(self._cross, CrossCovariance):
            return super().slopes(X)
        cross, pull_cross = self._cross.slopes(X)
        whitened = self._whitened(cross)
        variance, least = self._variance(X, whitened)
        sd = variance.clamp_min(least).sqrt()

        def pull(by_mean: Tensor | float, by_sd: Tensor | float) -> Tensor:
            changes = (by_sd / sd * (variance >= least)).unsqueeze(-1)
            by_variance = self.factor.returned(whitened * changes)
            if self.scale is not None:
                by_variance = by_variance * -self.scale.unsqueeze(-2)
            return pull_cross(beside(by_mean) * self.weights.unsqueeze(-2) + by_variance)

        return _times(cross, self.weights), sd, pull

    def mean_at(self, X: Tensor) -> Tensor:
        return _times(self._cross(X), self.weights)

    def joint(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and covariance within each of e groups of q points per trial.

        Args:
            X: The points, `trials x e x q x d`.

        Returns:
            The mean, `trials x e x q`, and the covariance within each group,
            `trials x e x q x q`.
        """
        trials, groups, q, _ = X.shape
        cross, flat = self._cross(X.flatten(1, 2)), X.flatten(0, 1)
        whitened = self._whitened(cross).view(trials, groups, q, cross.shape[-1])
        mean = _times(cross, self.weights).view(trials, groups, q)
        if self.largest is not None:
            return mean, whitened @ whitened.mT
        number = torch.arange(trials, device=X.device).repeat_interleave(groups)
        prior = self.kernel.select(number).covariance(flat, flat).view(trials, groups, q, q)
        if self.prior_factor is not None:
            prior = prior * self.prior_factor[:, None, None, None]
        return mean, prior - whitened @ whitened.mT

    def sample_at(self, X: Tensor) -> Tensor:
        assert self.path is not None
        *waves, correction = self.path
        prior: Tensor | float = 0.0
        if waves:
            assert isinstance(self.kernel, Stationary)
            frequency, weight = waves
            prior = _times(self.kernel.waves(X, frequency), weight)
        return prior - _times(self._cross(X), correction)

    @cached_property
    def _cross(self) -> Covariance:
        """Maps points to their prior covariances with the n nodes."""
        return self.kernel.against(self.X if self.nodes is None else self.nodes)

    def _whitened(self, cross: Tensor) -> Tensor:
        if self.scale is not None:
            cross = cross * self.scale.unsqueeze(-2)
        return self.factor.whitened(cross)

    def _variance(self, X: Tensor, whitened: Tensor) -> tuple[Tensor, Tensor | float]:
        """Variances, `trials x q`, and their lower bound."""
        squares = whitened.square().sum(-1)
        if self.largest is not None:
            return squares, SMALLEST_VARIANCE * self.largest
        prior = self.kernel.variance(X)
        if self.prior_factor is not None:
            prior = prior * self.prior_factor.unsqueeze(-1)
        return prior - squares, SMALLEST_VARIANCE * prior


def beside(value: Tensor | float) -> Tensor | float:
    """Append a dimension of size 1 to a tensor; a plain number is returned unchanged."""
    return value.unsqueeze(-1) if isinstance(value, Tensor) else value


def with_context(X: Tensor, context: Tensor | None) -> Tensor:
    """Points with their context appended, `trials x q x d -> trials x q x (d + c)`."""
    if context is None:
        return X
    return torch.cat([X, context.unsqueeze(-2).expand(*X.shape[:-1], -1)], -1)


PathDraw = tuple[Tensor, Tensor, Tensor]
"""Frequencies of random features of the prior, `trials x F x d`, and standard normal variates for
the weights of features, `trials x 2F`, and for the errors of observations, `trials x n`."""


def point_posterior(
    kernel: PointKernel,
    observations: Observations,
    draw: PathDraw | None = None,
    factor: Factor | None = None,
) -> GaussianPosterior:
    """Regression on points.

    Args:
        kernel: The spatial covariance.
        observations: Retained observations, with one batch dimension.
        draw: Random numbers for a sample of the posterior; None for no sample.
        factor: The Cholesky factor of the observations, if available. If ``factor`` is given,
            temporal factors among rows are required only for a sample.
    """
    X, root, decay = observations.choice, observations.precision_root, observations.decay
    if factor is None:
        time = None if decay is None else lambda first, last: decay[:, first:last, :last]
        factor = factor_of(gram_of(kernel, X, root, time), root)
    targets = _times_factor(factor, root * observations.y)
    offset = None
    if observations.estimates_mean:
        ones = _times_factor(factor, root)
        offset = constant_mean((ones * targets).sum(-1), ones.square().sum(-1))
        targets = targets - offset.unsqueeze(-1) * ones
    present = root if observations.present_decay is None else root * observations.present_decay
    return GaussianPosterior(
        kernel=kernel,
        X=X,
        live=root > 0,
        weights=present * _returned(factor, targets),
        factor=factor,
        scale=present,
        prior_factor=observations.prior_factor,
        offset=offset,
        information_gain=factor.log_diagonal,
        path=None if draw is None else _path(kernel, observations, draw, factor, present),
    )


def gram_of(kernel: PointKernel, X: Tensor, root: Tensor, time: Gram | None) -> Gram:
    """A function that computes rows of S (K ∘ D) S, for a Cholesky factor.

    Args:
        kernel: The spatial covariance.
        X: Points measured, `trials x n x d`.
        root: S, `trials x n`.
        time: Rows of the temporal factors; None if all are 1.
    """

    def gram(first: int, last: int) -> Tensor:
        rows = kernel.covariance(X[:, first:last], X[:, :last])
        if time is not None:
            rows = rows * time(first, last)
        return root[:, first:last].unsqueeze(-1) * rows * root[:, :last].unsqueeze(-2)

    return gram


def _path(
    kernel: PointKernel, observations: Observations, draw: PathDraw, factor: Factor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """A sample of the posterior, by Matheron's rule.

    A sample f of the prior at present becomes f(x) - k~ᵀ (K ∘ D + N)⁻¹ (f_past(X) + e), where
    f_past is the sample at the times of the observations and e is a sample of the noise. If d
    contains the temporal factors between the rows and the present, and v is the factor on the
    present prior variance, then

        f_past(X) = (d / v) ∘ f(X) + r,   r ~ N(0, K ∘ (D - d dᵀ / v)).

    Only the residual r requires the temporal factors D between pairs of rows. The residual r is
    drawn together with the noise e.
    """
    (frequency, weight, errors), present = draw, None
    assert isinstance(kernel, Stationary)
    X, root = observations.choice, observations.precision_root
    errors = (root > 0) * errors  # S e is standard normal where an observation is in use
    if observations.decay is not None:
        assert observations.present_decay is not None
        assert observations.prior_factor is not None
        prior, spatial = observations.prior_factor.unsqueeze(-1), kernel.covariance(X, X)
        weight, present = weight * prior.sqrt(), observations.present_decay / prior
        explained = present.unsqueeze(-1) * observations.present_decay.unsqueeze(-2)
        lasting = spatial * (observations.decay - explained)
        errors = _times(cholesky(lasting, root), errors)
    at_rows = _times(kernel.waves(X, frequency), weight)
    if present is not None:
        at_rows = present * at_rows
    disturbed = _times_factor(factor, root * at_rows + errors)
    return frequency, weight, scale * _returned(factor, disturbed)


def _times_factor(factor: Factor, vector: Tensor) -> Tensor:
    return factor.whitened(vector.unsqueeze(-2)).squeeze(-2)


def _returned(factor: Factor, vector: Tensor) -> Tensor:
    return factor.returned(vector.unsqueeze(-2)).squeeze(-2)


def _times(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


class PointInference(Inference):
    """Inference at points of a box."""

    @abstractmethod
    def predict(
        self, data: Data, present: Present, normal: Normal | None = None, most: int = 0
    ) -> GaussianPosterior:
        """The posterior at present, with the batch shape flattened to one dimension of trials.

        Args:
            data: The observations.
            present: The time of the decision.
            normal: Random numbers for a sample; None for no sample.
            most: Number of rows of a trial that retains all rows. The count of random numbers
                depends only on ``most``.
        """

    def joint(self, data: Data, choice: Tensor, present: Present) -> Joint:
        with torch.no_grad():
            posterior = self.predict(data, present)
        shape, q = data.time.shape, choice.shape[-2]
        mean, covariance = posterior.joint(choice.reshape(data.time.numel(), *choice.shape[-3:]))
        offset = self.prior_mean(posterior.offset)
        if isinstance(offset, Tensor):
            offset = offset[:, None, None]
        return (
            (mean + offset).view(*shape, choice.shape[-3], q),
            covariance.view(*shape, choice.shape[-3], q, q),
            posterior.information_gain.view(shape),
        )


class PointRegression(PointInference):
    """Regression at points of a box, for any process.

    As long as rows are only added to the log, a round on n observations costs O(n²) for any decay,
    because the factor is only extended; see :class:`GrowingFactor`. If old rows of the factored
    matrix change, the factor is computed again from the first changed row on, which costs O(n³).
    Old rows of the factored matrix change in every round in three cases: if noise grows with age,
    if a rule drops observations by their relevance, and if a sliding window drops the oldest
    observation. A reset, or a change of the hyperparameters, changes old rows of the factored
    matrix only in the round in which it occurs. A sample of a moving objective also costs O(n³).
    """

    def start(self, prior: Prior, batch_shape: Size) -> GrowingFactor | None:
        if self.samples and isinstance(prior, BoxPrior):
            spectral_normals(prior.points)  # to raise an error if the spectrum is not available
        return None if self.process.ages else GrowingFactor()

    def predict(
        self, data: Data, present: Present, normal: Normal | None = None, most: int = 0
    ) -> GaussianPosterior:
        kernel, moves = _box_prior(data).points, normal is not None and self.process.moves
        observations = self.observations(data, present, pairs=moves)
        draw = None if normal is None else _path_draw(kernel, observations, normal, most)
        return point_posterior(kernel, observations, draw, self._factor(data, observations))

    def doubly_weighted_gain(self, data: Data, present: Present) -> Tensor:
        observations = self.observations(data, present, inflation_power=2)
        return self._factor(data, observations).log_diagonal.view_as(present.now)

    def _factor(self, data: Data, observations: Observations) -> Factor:
        """The Cholesky factor of the observations; rows that were factored before are reused."""
        prior, X, root = _box_prior(data), observations.choice, observations.precision_root
        decay = self.process.decay if prior.decay is None else prior.decay
        elapsed = data.elapsed if self.process.moves else None

        def time(first: int, last: int) -> Tensor:
            assert elapsed is not None
            rows = temporal_rows(decay, elapsed, first, last).to(root)
            return rows.reshape(-1, *rows.shape[-2:])

        gram = gram_of(prior.points, X, root, None if elapsed is None else time)
        if not isinstance(data.running, GrowingFactor):
            return factor_of(gram, root)
        times = [] if elapsed is None else [elapsed.reshape(*root.shape, 1)]
        return data.running.factor(prior, root, torch.cat([X, *times], -1), gram)

    def numbers_per_trial(self, data: Data, horizon: int, trials: int, search: int) -> int:
        retained, moves = self.process.most_retained(horizon), self.process.moves
        width = min(retained, FACTOR_BLOCK) + retained * (self.samples and moves)
        block = (POSTERIOR_MATRICES + DECAY_MATRICES * moves) * retained * width
        # The last rows of the factor stay in memory during the search of the box.
        at_work = max(block, retained * min(retained, FACTOR_BLOCK) + search)
        return log_numbers(horizon) + numbers_of_factor(retained) + at_work

    def search_sizes(self, data: Data, horizon: int) -> SearchSizes:
        retained = self.process.most_retained(horizon)
        return SearchSizes(
            min(STARTING_POINTS, retained), retained, besides=WAVES * FREQUENCIES * self.samples
        )

    def model_noise(self, data: Data, noise: Tensor) -> Tensor:
        factor = _box_prior(data).noise_factor
        return noise if factor is None else noise * factor.view_as(noise)

    def observations(
        self, data: Data, present: Present, inflation_power: int = 1, pairs: bool = False
    ) -> Observations:
        """The retained observations, with the batch shape flattened to one dimension of trials."""
        found = super().observations(data, present, inflation_power, pairs)
        trials, dims = data.time.numel(), data.time.dim()
        return found.each(lambda part: part.reshape(trials, *part.shape[dims:]))


def _path_draw(
    kernel: PointKernel, observations: Observations, normal: Normal, most: int
) -> PathDraw:
    """Random numbers for one sample per trial.

    The count of random numbers depends only on the number of rounds, not on the rows that other
    trials retain. A trial therefore draws the same numbers in any batch.
    """
    trials, n, columns = observations.choice.shape
    picked = kernel.columns if isinstance(kernel, Stationary) else None
    columns = columns if picked is None else len(picked)

    def flat(*shape: int) -> Tensor:
        return normal(*shape).reshape(trials, *shape)

    frequency = frequencies(kernel, flat(FREQUENCIES, columns + spectral_normals(kernel)))
    return frequency, flat(2 * FREQUENCIES), flat(most)[:, most - n :]


def _box_prior(data: Data) -> BoxPrior:
    assert isinstance(data.prior, BoxPrior)
    return data.prior
