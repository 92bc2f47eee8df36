"""The posterior of a batch of regressions, at any points.

The same formulas as :mod:`botorch_tv.inference.regression`, where arms are replaced by points: with
S = diag(noise_i^(-1/2)), D the temporal factors and L Lᵀ = I + S (K ∘ D) S,

    mean(x) = k~ᵀ S L⁻ᵀ L⁻¹ S y,   var(x) = v k(x, x) - ‖L⁻¹ S k~‖².
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.inference.fourier import FourierFeatures
from botorch_tv.inference.point_kernel import PointKernel
from botorch_tv.inference.regression import Observations, constant_mean

SMALLEST_VARIANCE = 1e-18
"""Variances are at least this share of the prior's, so that the root has a derivative."""


@dataclass(frozen=True)
class Path:
    """One function per trial drawn from a posterior, around its mean.

    Attributes:
        waves: Features of the prior.
        weight: Their weights now, `trials x 2F`.
        correction: What the data take back, `trials x n`.
    """

    waves: FourierFeatures
    weight: Tensor
    correction: Tensor

    def select(self, trials: Tensor) -> Path:
        """That of some trials."""
        return Path(self.waves.select(trials), self.weight[trials], self.correction[trials])


class PointPosterior(ABC):
    """Posteriors of some trials at any points of a box, however they were computed.

    Attributes:
        X: Points measured, `trials x n x d`.
        live: Whether each observation is in use, `trials x n`.
        offset: The prior mean estimated, `trials`; None where it was not.
        information_gain: ½ ln det(I + S (K ∘ D) S), `trials`.
    """

    X: Tensor
    live: Tensor
    offset: Tensor | None
    information_gain: Tensor

    @property
    @abstractmethod
    def has_function(self) -> bool:
        """Whether a function was drawn from it."""

    @property
    def familiar(self) -> int:
        """How many of the newest observations a search may look at; each of them takes time."""
        return self.X.shape[-2]

    @abstractmethod
    def at(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean, without the prior mean, and standard deviation, `trials x q x d -> trials x q`."""

    @abstractmethod
    def mean_at(self, X: Tensor) -> Tensor:
        """The mean alone, `trials x q x d -> trials x q`."""

    @abstractmethod
    def sample_at(self, X: Tensor) -> Tensor:
        """The function drawn, less the mean, `trials x q x d -> trials x q`."""

    @abstractmethod
    def select(self, trials: Tensor) -> PointPosterior:
        """The posteriors of some trials."""


class GaussianPosterior(PointPosterior):
    """Posteriors of which covariances say all."""

    @abstractmethod
    def joint(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and covariance of e groups of points of each trial.

        Args:
            X: `trials x e x q x d`.

        Returns:
            The mean, `trials x e x q`, and the covariance within each group,
            `trials x e x q x q`.
        """


@dataclass(frozen=True)
class RegressionPosterior(GaussianPosterior):
    """Posteriors of regressions, `trials` in number, on n observations each.

    Attributes:
        kernel: The spatial covariance.
        X: Points measured, `trials x n x d`.
        live: Whether each observation is in use, `trials x n`.
        weights: S L⁻ᵀ L⁻¹ S y, each times its temporal factor, `trials x n`.
        rows: L⁻¹ S with temporal factors, `trials x n x n`.
        prior_factor: v, `trials`; None where it is 1.
        offset: The prior mean estimated, `trials`; None where it was not.
        information_gain: ½ ln det(I + S (K ∘ D) S), `trials`.
        path: A function drawn from the posterior, where one was asked for.
    """

    kernel: PointKernel
    X: Tensor
    live: Tensor
    weights: Tensor
    rows: Tensor
    prior_factor: Tensor | None
    offset: Tensor | None
    information_gain: Tensor
    path: Path | None = None

    @property
    def has_function(self) -> bool:
        return self.path is not None

    def at(self, X: Tensor) -> tuple[Tensor, Tensor]:
        cross = self.kernel.covariance(X, self.X)
        reduction = (cross @ self.rows.mT).square().sum(-1)
        prior = self.kernel.variance(X)
        if self.prior_factor is not None:
            prior = prior * self.prior_factor.unsqueeze(-1)
        variance = torch.maximum(prior - reduction, SMALLEST_VARIANCE * prior)
        return _times(cross, self.weights), variance.sqrt()

    def mean_at(self, X: Tensor) -> Tensor:
        return _times(self.kernel.covariance(X, self.X), self.weights)

    def joint(self, X: Tensor) -> tuple[Tensor, Tensor]:
        trials, groups, q, _ = X.shape
        cross = self.kernel.covariance(X.flatten(1, 2), self.X)
        whitened = (cross @ self.rows.mT).view(trials, groups, q, self.rows.shape[-2])
        each = self.kernel
        if groups != 1:
            each = each.select(torch.arange(trials, device=X.device).repeat_interleave(groups))
        flat = X.flatten(0, 1)
        prior = each.covariance(flat, flat).view(trials, groups, q, q)
        if self.prior_factor is not None:
            prior = prior * self.prior_factor[:, None, None, None]
        mean = _times(cross, self.weights).view(trials, groups, q)
        return mean, prior - whitened @ whitened.mT

    def sample_at(self, X: Tensor) -> Tensor:
        assert self.path is not None
        prior = _times(self.path.waves.at(X), self.path.weight)
        return prior - _times(self.kernel.covariance(X, self.X), self.path.correction)

    def select(self, trials: Tensor) -> RegressionPosterior:
        return RegressionPosterior(
            kernel=self.kernel.select(trials),
            X=self.X[trials],
            live=self.live[trials],
            weights=self.weights[trials],
            rows=self.rows[trials],
            prior_factor=None if self.prior_factor is None else self.prior_factor[trials],
            offset=None if self.offset is None else self.offset[trials],
            information_gain=self.information_gain[trials],
            path=None if self.path is None else self.path.select(trials),
        )


class PathDraw(NamedTuple):
    """Random numbers for a function drawn from a posterior."""

    waves: FourierFeatures
    """Random features of the prior."""
    weights: Tensor
    """Standard normal variates, `trials x 2F`."""
    errors: Tensor
    """Standard normal variates, `trials x n`."""


def point_posterior(
    kernel: PointKernel, observations: Observations, draw: PathDraw | None = None
) -> RegressionPosterior:
    """Regression on points.

    Args:
        kernel: The spatial covariance.
        observations: Those kept, one batch dimension.
        draw: Random numbers for a function drawn from the posterior; None for none.
    """
    X, y, root = observations.choice, observations.y, observations.precision_root
    spatial = kernel.covariance(X, X)
    gram = spatial if observations.decay is None else spatial * observations.decay
    whitened = root.unsqueeze(-1) * gram * root.unsqueeze(-2)
    whitened.diagonal(dim1=-2, dim2=-1).add_(1)
    # Eigenvalues are at least 1 up to rounding, so the factorisation cannot fail on finite input.
    factor = torch.linalg.cholesky_ex(whitened).L
    identity = torch.eye(y.shape[-1], dtype=y.dtype, device=y.device).expand_as(factor)
    inverse = torch.linalg.solve_triangular(factor, identity, upper=False)
    targets = _times(inverse, root * y)
    offset = None
    if observations.estimates_mean:
        ones = _times(inverse, root)
        offset = constant_mean((ones * targets).sum(-1), ones.square().sum(-1))
        targets = targets - offset.unsqueeze(-1) * ones
    present = root if observations.present_decay is None else root * observations.present_decay
    rows = inverse * present.unsqueeze(-2)
    path = None
    if draw is not None:
        path = _path(observations, draw, spatial, inverse, rows)
    return RegressionPosterior(
        kernel=kernel,
        X=X,
        live=root > 0,
        weights=_times(rows.mT, targets),
        rows=rows,
        prior_factor=observations.prior_factor,
        offset=offset,
        information_gain=factor.diagonal(dim1=-2, dim2=-1).log().sum(-1),
        path=path,
    )


def _path(
    observations: Observations, draw: PathDraw, spatial: Tensor, inverse: Tensor, rows: Tensor
) -> Path:
    """A function drawn from the posterior, by Matheron's rule.

    A function f drawn from the prior is corrected by what the data would have said about it, to
    f(x) - k~ᵀ (K ∘ D + N)⁻¹ (f_past(X) + e), where e is a draw of the noise. With the temporal
    factors d between rows and now and v of now, the past is

        f_past(X) = (d / v) ∘ f(X) + r,   r ~ N(0, K ∘ (D - d dᵀ / v)),

    so that only r needs the times, and it is drawn together with the noise.
    """
    weight, present, root = draw.weights, None, observations.precision_root
    in_use = root > 0
    errors = in_use * draw.errors  # S e is standard normal where an observation is in use
    if observations.decay is not None:
        assert observations.present_decay is not None
        assert observations.prior_factor is not None
        factor = observations.prior_factor.unsqueeze(-1)
        weight, present = weight * factor.sqrt(), observations.present_decay / factor
        explained = present.unsqueeze(-1) * observations.present_decay.unsqueeze(-2)
        lasting = (
            root.unsqueeze(-1) * (spatial * (observations.decay - explained)) * root.unsqueeze(-2)
        )
        lasting.diagonal(dim1=-2, dim2=-1).add_(1)
        errors = _times(torch.linalg.cholesky_ex(lasting).L, errors)
    at_rows = _times(draw.waves.at(observations.choice), weight)
    if present is not None:
        at_rows = present * at_rows
    disturbed = _times(inverse, root * at_rows + errors)
    return Path(draw.waves, weight, _times(rows.mT, disturbed))


def _times(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)
