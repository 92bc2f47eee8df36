"""The model of a panel: covariance across arms, gaps, noise, and the rate of change ε.

ε is fitted by marginal likelihood, [B16] App. B. The model is y = vec(F) + noise with covariance
K_time ⊗ K_arms + σ² I, where K_time is the Markov kernel (1 - ε)^(|t - t'| / 2). In the basis of
the eigenvectors of K_arms the model decouples into one series for each eigenvalue λ, with
covariance λ K_time + σ² I. K_time is not diagonalised, because this would cost rounds³ operations
for every ε. Each series is a first-order autoregression observed with noise, so a scalar Kalman
filter gives its likelihood exactly in a single pass over the rounds, for many ε at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch

from botorch_tv.gp.covariance import RANK_TOLERANCE, checked
from botorch_tv.memory import torch_threads
from botorch_tv.validation import require, require_integer, require_number

Center = Literal["all", "arm"]


def scaling(readings: np.ndarray, center: Center, standardize: bool) -> tuple[np.ndarray, float]:
    """Mean and scale of the training rows; readings are scaled to (reading - mean) / scale.

    Args:
        readings: Training rows, `rounds x arms`; NaN for missing readings.
        center: ``"all"`` for the mean of all readings, ``"arm"`` for a mean per arm.
        standardize: Whether the scale is the standard deviation; otherwise the scale is 1, so
            values stay in the unit of the readings.

    Returns:
        Two items: the mean, a scalar or `arms`, and the scale, a positive scalar.

    Raises:
        ValueError: If all readings equal their mean.
    """
    mean = np.nanmean(readings, axis=0 if center == "arm" else None)
    deviation = float(np.sqrt(np.nanmean((readings - mean) ** 2)))
    require(
        deviation > 0,
        "PanelWorld: the standard deviation of the training rows is 0, but a model needs readings "
        "that vary; train on other rows.",
    )
    return np.asarray(mean), deviation if standardize else 1.0


Spectrum = tuple[np.ndarray, np.ndarray]
"""A covariance Q Λ Qᵀ across arms as two items: its positive eigenvalues, `r`, and their
eigenvectors Q, `arms x r`."""


def sample_covariance(values: np.ndarray) -> np.ndarray:
    """Covariance across arms, computed from readings of mean 0.

    Args:
        values: Centred readings, `rounds x arms`; NaN for missing readings.

    Returns:
        The covariance matrix, `arms x arms`, positive semi-definite up to rounding: negative
        eigenvalues, which missing readings may cause, are clipped at zero.
    """
    if np.isnan(values).any():
        eigenvalues, vectors = sample_spectrum(values)
        return _gram((vectors * np.sqrt(eigenvalues)).T)
    return _gram(values) / len(values)


def sample_spectrum(values: np.ndarray) -> Spectrum:
    """Positive eigenvalues and eigenvectors of the covariance from :func:`sample_covariance`.

    If no reading is missing, the eigenvalues are computed accurately from the singular values of
    the readings; if there are fewer rows than arms, the computation is also fast. If readings are
    missing, the covariance of two arms is computed from the rows with readings of both arms, and is
    0 if there are no such rows. Because of missing readings, the covariance matrix can have
    negative eigenvalues, which are dropped.

    Args:
        values: Centred readings, `rounds x arms`; NaN for missing readings.
    """
    read = ~np.isnan(values)
    if read.all():
        _, singular, transposed = np.linalg.svd(values, full_matrices=False)
        return _positive(singular**2 / len(values), transposed.T)
    filled, counted = np.where(read, values, 0.0), read.astype(np.float64)
    return _positive(*_eigen(_gram(filled) / np.maximum(_gram(counted), 1.0)))


def spectrum(covariance: np.ndarray) -> Spectrum:
    """The positive eigenvalues of a covariance and their eigenvectors.

    Args:
        covariance: `arms x arms`, symmetric.

    Raises:
        InputDataError: If ``covariance`` is not a covariance matrix; eigenvalues down to -1e-8
            times the largest eigenvalue are accepted.
    """
    return _positive(*_eigen(checked(torch.as_tensor(covariance, device="cpu").double()).numpy()))


def _gram(rows: np.ndarray) -> np.ndarray:
    """The Gram matrix of the columns of a matrix.

    The computation uses a single thread, because rounding would otherwise depend on the number of
    threads. A resumed study recognises its world only if all numbers are the same. On some
    processors rounding also depends on memory alignment; a copy in PyTorch's memory is always
    aligned.
    """
    with torch_threads(1):
        tensor = torch.tensor(np.ascontiguousarray(rows), device="cpu")
        return (tensor.T @ tensor).numpy()


def _eigen(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    with torch_threads(1):
        eigenvalues, vectors = torch.linalg.eigh(torch.tensor(covariance, device="cpu"))
    return eigenvalues.numpy(), vectors.numpy()


def _positive(eigenvalues: np.ndarray, vectors: np.ndarray) -> Spectrum:
    retained = eigenvalues > RANK_TOLERANCE * eigenvalues.max()
    return eigenvalues[retained], vectors[:, retained]


# Missing readings.


def filled_from_row(values: np.ndarray, covariance: Spectrum, noise: float) -> np.ndarray:
    """Fill every missing reading with its conditional mean, given the readings of the same row.

    If a row has readings y_o at the arms o and gaps at the arms g, the conditional mean of the gaps
    is -(P_gg)⁻¹ P_go y_o, where P is the inverse of K + σ² I.

    Args:
        values: Centred readings, `rounds x arms`; NaN for missing readings.
        covariance: The spectrum of the covariance K across arms.
        noise: Variance σ² of the noise of a reading, positive.

    Returns:
        Filled readings, `rounds x arms`. Rows without any reading stay NaN.
    """
    whole = values.copy()
    missing = np.isnan(values)
    partly = np.flatnonzero(missing.any(1) & ~missing.all(1))
    if not len(partly):
        return whole
    eigenvalues, vectors = covariance
    arms = np.eye(len(vectors))
    precision = (arms - (vectors * (eigenvalues / (eigenvalues + noise))) @ vectors.T) / noise
    for row in partly:
        gaps, read = np.flatnonzero(missing[row]), np.flatnonzero(~missing[row])
        pull = -precision[np.ix_(gaps, read)] @ values[row, read]
        whole[row, gaps] = np.linalg.solve(precision[np.ix_(gaps, gaps)], pull)
    return whole


def carried_forward(values: np.ndarray) -> np.ndarray:
    """Fill each missing reading with the arm's previous reading, or else the arm's first reading.

    Args:
        values: Readings, `rounds x arms`; NaN for missing readings. Every arm has at least one
            reading.
    """
    read = ~np.isnan(values)
    rows = np.arange(len(values))[:, None]
    last = np.maximum.accumulate(np.where(read, rows, -1), axis=0)
    source = np.where(last >= 0, last, read.argmax(0))
    return np.take_along_axis(values, source, axis=0)


# The rate of change.

LOWEST = 1e-8
"""Smallest ε that is distinguished from 0; it forgets 1 % in a million rounds."""
_GRID = np.concatenate([[0.0], np.logspace(math.log10(LOWEST), 0.0, 41)])
_NARROWINGS = 6


class RateFit(NamedTuple):
    """A fitted rate of change and its likelihood.

    Attributes:
        epsilon: ε in [0, 1].
        log_likelihood: Logarithm of the marginal likelihood at ε.
    """

    epsilon: float
    log_likelihood: float


def fit_epsilon(
    values: np.ndarray, covariance: np.ndarray, noise: float, *, groups: int | None = None
) -> RateFit:
    """The rate of change that maximises the marginal likelihood, [B16] (24).

    To avoid local maxima, the likelihood is first computed on a grid of ε over the whole range,
    including ε = 0. The interval of ε with the largest likelihood is then narrowed to a relative
    width of 1e-5. If only some readings of a row are missing, they are replaced by their
    conditional mean, given the other readings of the row. Because missing readings are replaced,
    the fit overestimates ε if arms are weakly correlated. For example, if a tenth of the readings
    are missing, the distance between neighbours among 20 arms is 0.3 lengthscales, and the true ε
    is 0.01, the fitted ε is 0.0126. Rows without any reading are treated exactly: their missing
    readings are integrated out.

    Args:
        values: Centred readings, `rounds x arms`, evenly spaced in time; NaN for missing readings.
        covariance: K_arms, `arms x arms`.
        noise: Variance σ² of the noise of a reading, positive.
        groups: Number of consecutive rows in a group, such as the rows of a day; groups are
            independent. By default all rows are in one group.

    Raises:
        ValueError: If shapes do not fit, if the noise is not positive, or if no group has two rows
            with readings.
        InputDataError: If ``covariance`` is not a covariance matrix.
    """
    return fit_rate(values, spectrum(covariance), noise, groups)


def fit_rate(values: np.ndarray, covariance: Spectrum, noise: float, groups: int | None) -> RateFit:
    """Like :func:`fit_epsilon`, but takes the spectrum of the covariance."""
    filters = _Filters(values, covariance, noise, groups)
    grid = _GRID
    likelihood = filters.log_likelihood(grid)
    for _ in range(_NARROWINGS):
        best = int(likelihood.argmax())
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
        if high <= LOWEST:
            return RateFit(0.0, float(likelihood[best]))
        grid = np.unique(np.append(np.geomspace(max(low, LOWEST), high, 16), grid[best]))
        likelihood = filters.log_likelihood(grid)
    best = int(likelihood.argmax())
    return RateFit(float(grid[best]), float(likelihood[best]))


def log_likelihood(
    values: np.ndarray,
    covariance: np.ndarray,
    noise: float,
    epsilon: Sequence[float] | np.ndarray,
    *,
    groups: int | None = None,
) -> np.ndarray:
    """The log marginal likelihood as a function of ε, [B16] (24).

    Args:
        values: Centred readings, `rounds x arms`, evenly spaced in time; NaN for missing readings.
        covariance: K_arms, `arms x arms`.
        noise: Variance σ² of the noise of a reading, positive.
        epsilon: Rates of change ε in [0, 1], `k`.
        groups: Number of consecutive rows in a group; groups are independent. By default all rows
            are in one group.

    Returns:
        The logarithm of the marginal likelihood for each rate, `k`.

    Raises:
        ValueError: If a rate lies outside [0, 1], or if :func:`fit_epsilon` would raise a
            ``ValueError``.
    """
    rates = np.asarray(epsilon, dtype=np.float64)
    require(
        rates.ndim == 1 and bool(((rates >= 0) & (rates <= 1)).all()),
        f"epsilon is {epsilon}; give a list of numbers in [0, 1].",
    )
    return _Filters(values, spectrum(covariance), noise, groups).log_likelihood(rates)


class _Filters:
    """Kalman filters, one for each eigenvalue of the covariance across arms."""

    def __init__(
        self, values: np.ndarray, covariance: Spectrum, noise: float, groups: int | None
    ) -> None:
        eigenvalues, vectors = covariance
        values = np.asarray(values, dtype=np.float64)
        require(
            values.ndim == 2 and values.shape[1] == len(vectors),
            f"values have shape {values.shape}, but the covariance is of {len(vectors)} arms; give "
            f"rounds x {len(vectors)}.",
        )
        noise = require_number(
            "noise", noise, "(0, inf)", "5 % of the variance of the readings is usual."
        )
        values = filled_from_row(values, covariance, noise)
        self._read = ~np.isnan(values).any(1)
        fix = "give the rows of a group, such as a day."
        rows = require_integer("groups", len(values) if groups is None else groups, 1, fix)
        group = np.arange(len(values)) // rows
        self._starts = np.diff(group, prepend=-1) > 0
        require(
            bool(np.bincount(group[self._read], minlength=1).max(initial=0) >= 2),
            f"none of the {group[-1] + 1} groups has two rows with readings, but a rate of change "
            "needs two; give more rows, or larger groups.",
        )
        series = values @ vectors
        self._series = series / np.sqrt(eigenvalues)
        self._noise = noise / eigenvalues
        # Terms of the likelihood that do not depend on ε: from the scales of the series, and from
        # directions in which all readings are noise.
        rows, arms = int(self._read.sum()), values.shape[1]
        rest = float((values[self._read] ** 2).sum() - (series[self._read] ** 2).sum())
        idle = rows * (arms - len(eigenvalues))
        self._constant = -0.5 * (
            rows * arms * math.log(2 * math.pi)
            + rows * float(np.log(eigenvalues).sum())
            + idle * math.log(noise)
            + rest / noise
        )

    def log_likelihood(self, epsilon: np.ndarray) -> np.ndarray:
        """The log likelihood of each of k rates of change ε, `k`.

        Series are scaled to prior variance 1. For every row the mean is multiplied by √(1-ε), the
        variance becomes 1 - (1-ε)(1 - variance), and the reading updates mean and variance.
        """
        squared = 1 - epsilon[:, None]
        attenuation = np.sqrt(squared)
        mean = np.zeros((len(epsilon), self._series.shape[1]))
        variance = np.ones_like(mean)
        total = np.zeros_like(mean)
        for row, read, starts in zip(self._series, self._read, self._starts):
            if starts:
                mean[:], variance[:] = 0.0, 1.0
            else:
                mean *= attenuation
                variance = 1 - squared * (1 - variance)
            if not read:
                continue
            spread = variance + self._noise
            error = row - mean
            total += np.log(spread) + error**2 / spread
            mean += variance / spread * error
            variance *= self._noise / spread
        return np.asarray(self._constant - 0.5 * total.sum(1))
