"""Gaussian-process regression on a log of observations: any decay, inflation and retention.

With S = diag(noise_i^(-1/2)), the posterior uses I + S K S, whose eigenvalues are at least 1. A row
i that is dropped or has infinite noise has S_i = 0 and does not change the likelihood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.gp.basis import ArmBasis, Basis, FeatureBasis
from botorch_tv.gp.cholesky import cholesky, inverted, log_diagonal

BLOCK_NUMBERS = {"cpu": 2**18, "cuda": 2**28}
"""Number of entries in the largest matrix of a block of trials, by type of device. Such a matrix
fits into the cache of a CPU or the memory of a GPU."""
GROWTH_STEPS = 64
"""Approximate number of values of n at which a maximum over the number n of observations is
evaluated."""


class Observations(NamedTuple):
    """The data of a batch of regressions; each of the n rows is an observation."""

    choice: Tensor
    """Arms, `batch_shape x n`; or points, `batch_shape x n x d`."""
    y: Tensor
    """Observations, `batch_shape x n`."""
    precision_root: Tensor
    """S, the inverse noise standard deviation, 0 for a dropped row, `batch_shape x n`."""
    decay: Tensor | None = None
    """Temporal factor of the covariance among rows, `batch_shape x n x n`; None means 1."""
    present_decay: Tensor | None = None
    """Temporal factor between rows and now, `batch_shape x n`; None means 1."""
    prior_factor: Tensor | None = None
    """Factor on the prior covariance now, `batch_shape`; None means 1."""
    estimates_mean: bool = False
    """Whether the constant prior mean is estimated from these observations."""

    def each(self, change: Callable[[Tensor], Tensor]) -> Observations:
        """A copy with a function applied to every tensor."""
        parts = (change(part) if isinstance(part, Tensor) else part for part in self)
        return Observations(*parts)  # type: ignore[arg-type]


class Trend(NamedTuple):
    """The regression in which every observation is 1; it is used to estimate the prior mean."""

    response: Tensor
    """k~ᵀ A⁻¹ 1 with the covariance A = K ∘ D + N of observations, `batch_shape x M`, or in
    coordinates, `batch_shape x r`."""
    cross: Tensor
    """1ᵀ A⁻¹ y, `batch_shape`."""
    weight: Tensor
    """1ᵀ A⁻¹ 1, `batch_shape`."""

    @property
    def constant(self) -> Tensor:
        """The estimated prior mean, `batch_shape`; see :func:`constant_mean`."""
        return constant_mean(self.cross, self.weight)


class Regression(NamedTuple):
    """A posterior in coordinates of a basis."""

    rows: Tensor
    """H, `batch_shape x n x r`: ΣᵢHᵢHᵢᵀ is the prior minus the posterior covariance."""
    coordinates: Tensor
    """The mean, `batch_shape x r`."""
    information_gain: Tensor
    """½ ln det(I + S K S), `batch_shape`."""
    is_posterior: bool
    """Whether ΣᵢHᵢHᵢᵀ, with H = ``rows``, is the posterior covariance itself."""
    trend: Trend | None
    """The regression that estimated the prior mean, in coordinates; None for a given mean."""

    def variance_reduction(self, basis: Basis) -> Tensor:
        """Prior minus posterior variance of every arm, `batch_shape x M`."""
        total = basis.sum_of_squares(self.rows)
        return basis.variance - total if self.is_posterior else total

    def covariance_reduction(self, basis: Basis, index: Tensor) -> Tensor:
        """Prior minus posterior covariance among some arms, `batch_shape x q x q`."""
        at = basis.inner(self.rows, index)
        total = at @ at.mT
        return basis.gram(index) - total if self.is_posterior else total

    def draw(self, basis: Basis, prior_factor: Tensor | None, normal: Tensor) -> Tensor:
        """Coordinates of a sample with mean 0 and the posterior covariance, `batch_shape x r`.

        Args:
            basis: The basis of the kernel.
            prior_factor: Factor on the prior covariance, `batch_shape`; None means 1.
            normal: Standard normal variates, `batch_shape x p`.
        """
        if self.is_posterior:
            assert isinstance(basis, FeatureBasis)
            return basis.draw_from_root(self.rows, normal)
        return basis.draw(self.rows.mT @ self.rows, prior_factor, normal)


def regress_on_arms(
    basis: Basis, observations: Observations, normal: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    """The posterior of a batch of regressions on all arms, computed in blocks of trials.

    Args:
        basis: The basis of the kernel over the arms.
        observations: Retained observations with their precisions.
        normal: Standard normal variates for a sample, `batch_shape x p`; None for no sample.

    Returns:
        Five results: the mean, `batch_shape x M`; the prior variance minus the posterior variance,
            `batch_shape x M`; the information gain, `batch_shape`; the estimated prior mean,
            `batch_shape`, or None if the mean is given; and the sample, `batch_shape x M`, or None
            without ``normal``.
    """
    parts = []
    for some, block in _blocks(basis, observations):
        posterior, drawn = regress(basis, block), None
        if normal is not None:
            own = normal.reshape(-1, basis.normals)[some]
            drawn = basis.expand(posterior.draw(basis, block.prior_factor, own))
        parts.append(
            (
                basis.expand(posterior.coordinates),
                posterior.variance_reduction(basis),
                posterior.information_gain,
                None if posterior.trend is None else posterior.trend.constant,
                drawn,
            )
        )
    shape = observations.y.shape[:-1]
    return tuple(  # type: ignore[return-value]
        None if part[0] is None else torch.cat(part).view((*shape, *part[0].shape[1:]))
        for part in zip(*parts)
    )


def _together(basis: Basis, rows: int) -> int:
    """Number of trials in a block if each trial has ``rows`` observations."""
    per_trial = max(1, rows * max(rows, basis.size))
    return max(1, BLOCK_NUMBERS.get(basis.variance.device.type, 2**18) // per_trial)


def numbers_of_block(basis: Basis, rows: int, trials: int, moves: bool) -> int:
    """Upper bound of the number of intermediate values in memory in :func:`regress_on_arms`.

    More observations can need less memory, for two reasons: a block then contains fewer trials, and
    a regression with more observations than coordinates uses smaller matrices. The number of
    values is computed for several numbers of observations up to ``rows``, and the largest number of
    values is returned.

    Args:
        basis: The basis of the kernel over the arms.
        rows: Largest number of observations per trial.
        trials: Number of trials in the whole batch.
        moves: Whether covariances decay with time.
    """
    step, most = max(1, rows // GROWTH_STEPS), 0
    for n in {*range(step, rows, step), min(rows, basis.size), min(rows, basis.size + 1), rows}:
        together = min(trials, _together(basis, n))
        # The posterior of a block stays in memory until the next block is done.
        held = min(n, basis.size) * basis.size if trials > together else 0
        size = basis.size if _is_few(basis, n) and not moves else n
        scoring = size * basis.size + basis.numbers_of_squares(size, together) // together
        most = max(most, together * (max(numbers_of_regression(basis, n, moves), scoring) + held))
    return most


def numbers_of_regression(basis: Basis, rows: int, moves: bool) -> int:
    """Number of values per trial that :func:`regress` holds in memory for ``rows`` observations."""
    if _is_few(basis, rows) and not moves:
        # Memory for the features of the rows, and for scaled features or three r x r matrices,
        # whichever need more.
        return rows * basis.size + max(rows * basis.size, 3 * basis.size**2)
    # Memory for the Cholesky factor, and for three n x n matrices or three matrices of columns,
    # whichever need more.
    return rows**2 + max(3 * rows**2, 3 * rows * (basis.size + 1))


def _blocks(basis: Basis, observations: Observations) -> Iterator[tuple[slice, Observations]]:
    """Slices of a flattened batch of trials with their observations."""
    dims, trials = observations.y.dim() - 1, observations.y.shape[:-1].numel()
    together = _together(basis, observations.y.shape[-1])
    for first in range(0, max(1, trials), together):
        some = slice(first, first + together)
        yield some, observations.each(lambda part: part.reshape(trials, *part.shape[dims:])[some])  # noqa: B023


def regress(basis: Basis, observations: Observations) -> Regression:
    """Posterior of a batch of regressions.

    If the covariance is static and there are more rows than the r coordinates of the basis, an
    `r x r` matrix is factored, so the cost is linear in the number of rows.

    Args:
        basis: The basis of the kernel over the arms.
        observations: Retained observations with their precisions.

    Returns:
        The posterior in coordinates of the basis.
    """
    form = _information_form if _fits_information_form(basis, observations) else covariance_form
    return form(basis, observations)


def _fits_information_form(basis: Basis, observations: Observations) -> bool:
    static = observations.decay is None and observations.present_decay is None
    return static and _is_few(basis, observations.y.shape[-1])


def _is_few(basis: Basis, rows: int) -> bool:
    """Whether there are fewer coordinates than rows."""
    return not isinstance(basis, ArmBasis) and rows > basis.size


def covariance_form(
    basis: Basis, observations: Observations, *, in_rows: bool = False
) -> Regression:
    """Posterior by the factor L of I + S (K ∘ D) S, `n x n`: H = L⁻¹ S K~ and mean Hᵀ L⁻¹ S y.

    Args:
        basis: The basis of the kernel over the arms.
        observations: Retained observations with their precisions.
        in_rows: Whether the n coordinates of the result are weights of the prior covariances of the
            n observations, instead of coordinates of the basis.
    """
    root, present = observations.precision_root, observations.present_decay
    scales = root if present is None else root * present
    columns = [
        scales.diag_embed() if in_rows else scales.unsqueeze(-1) * basis.row(observations.choice),
        (root * observations.y).unsqueeze(-1),
    ]
    if observations.estimates_mean:
        columns.append(root.unsqueeze(-1))
    factor, size = whitened_factor(basis, observations), columns[0].shape[-1]
    solved = torch.linalg.solve_triangular(factor, torch.cat(columns, -1), upper=False)
    rows, targets, trend = solved[..., :size], solved[..., size], None
    if observations.estimates_mean:
        ones = solved[..., size + 1]
        response = (ones.unsqueeze(-2) @ rows).squeeze(-2)
        trend = Trend(response, (ones * targets).sum(-1), ones.square().sum(-1))
        targets = targets - trend.constant.unsqueeze(-1) * ones
    coordinates = (targets.unsqueeze(-2) @ rows).squeeze(-2)
    return Regression(rows, coordinates, log_diagonal(factor), False, trend)


def _information_form(basis: Basis, observations: Observations) -> Regression:
    """Posterior by A = I + Φ_Xᵀ S² Φ_X, `r x r`: covariance Φ A⁻¹ Φᵀ, mean Φ A⁻¹ Φ_Xᵀ S² y."""
    scaled, factor = _information_factor(basis, observations)
    rows = inverted(factor)
    targets = observations.precision_root * observations.y
    half = rows @ (targets.unsqueeze(-2) @ scaled).mT  # L⁻¹ Φ_Xᵀ S² y
    trend = None
    if observations.estimates_mean:
        root = observations.precision_root
        ones = rows @ (root.unsqueeze(-2) @ scaled).mT
        cross = (root * targets).sum(-1) - (ones * half).sum((-2, -1))
        weight = root.square().sum(-1) - ones.square().sum((-2, -1))
        trend = Trend((ones.mT @ rows).squeeze(-2), cross, weight)
        half = half - trend.constant[..., None, None] * ones
    coordinates = (half.mT @ rows).squeeze(-2)
    return Regression(rows, coordinates, log_diagonal(factor), True, trend)


def _information_factor(basis: Basis, observations: Observations) -> tuple[Tensor, Tensor]:
    """S Φ_X, and the Cholesky factor of I + Φ_Xᵀ S² Φ_X."""
    scaled = observations.precision_root.unsqueeze(-1) * basis.row(observations.choice)
    identity = torch.eye(basis.size, dtype=scaled.dtype, device=scaled.device)
    return scaled, torch.linalg.cholesky_ex(identity + scaled.mT @ scaled).L


def constant_mean(cross: Tensor, weight: Tensor) -> Tensor:
    """The generalised least squares mean 1ᵀA⁻¹y / 1ᵀA⁻¹1 with A = K ∘ D + N; 0 without data.

    Args:
        cross: 1ᵀA⁻¹y, `batch_shape`.
        weight: 1ᵀA⁻¹1, `batch_shape`.
    """
    return torch.where(weight > 0, cross / weight.clamp_min(torch.finfo(weight.dtype).tiny), 0.0)


def information_gain(basis: Basis, observations: Observations) -> Tensor:
    """½ ln det(I + S (K ∘ D) S) of some observations, `batch_shape`."""
    gains = [
        log_diagonal(
            _information_factor(basis, block)[-1]
            if _fits_information_form(basis, block)
            else whitened_factor(basis, block)
        )
        for _, block in _blocks(basis, observations)
    ]
    return torch.cat(gains).view(observations.y.shape[:-1])


def whitened_factor(basis: Basis, observations: Observations) -> Tensor:
    """Cholesky factor of I + S (K ∘ D) S, `batch_shape x n x n`."""
    gram = basis.gram(observations.choice)
    covariance = gram if observations.decay is None else gram * observations.decay
    return cholesky(covariance, observations.precision_root)
