"""How fast a record forgets: the rate of change ε by marginal likelihood, [B16] App. B.

The model is y = vec(F) + noise with covariance K_time ⊗ K_arms + σ² I, K_time the Markov kernel
(1 - ε)^(|t - t'| / 2). In the eigenvectors of K_arms it falls apart into one series per eigenvalue
λ, each with covariance λ K_time + σ² I. K_time could be diagonalised as well, but at a cost of
rounds³ for every ε; a series of this kind is a first-order autoregression seen through noise, whose
likelihood a scalar Kalman filter gives exactly in rounds steps, for many ε at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from botorch_tv.simulation.panels.covariance import Eigendecomposition, spectrum
from botorch_tv.simulation.panels.gaps import filled_from_row
from botorch_tv.validation import require, require_integer, require_number

LOWEST = 1e-8
"""Smallest ε told from 0: over a million rounds it forgets one percent."""
_GRID = np.concatenate([[0.0], np.logspace(math.log10(LOWEST), 0.0, 41)])
_NARROWINGS = 6
LEAST_SHARE = 1e-4
"""Smallest noise fitted, as a share of the variance of the readings."""
ROWS_PER_ARM = 4
"""Fewest complete rows per arm to fit noise to."""


class RateFit(NamedTuple):
    """A fitted rate of change and its likelihood.

    Args:
        epsilon: ε in [0, 1].
        log_likelihood: Logarithm of the marginal likelihood there.
    """

    epsilon: float
    log_likelihood: float


def fit_epsilon(
    values: np.ndarray,
    covariance: np.ndarray,
    noise: float,
    *,
    groups: int | Sequence[object] | None = None,
) -> RateFit:
    """The rate of change that maximises the marginal likelihood, [B16] (24).

    The whole range is scanned first, ε = 0 included, so a local maximum does not capture the
    search; then the best interval is narrowed to a relative width of 1e-5. Single missing readings
    are replaced by their mean given the other arms of the row, which looks like a faster world
    where arms are little related (with a tenth missing of 20 arms 0.3 lengthscales apart, 0.0126
    instead of 0.01); rows without any reading are left out exactly.

    Args:
        values: Centred readings, `rounds x arms`, evenly spaced in time; NaN where there is none.
        covariance: K_arms, `arms x arms`.
        noise: Variance σ² of the noise of a reading, positive.
        groups: Rows per independent group of rows (say a day), or a label per row, a group ending
            where it changes; one group unless given.

    Raises:
        ValueError: If shapes do not fit, the noise is not positive, or there are fewer than two
            rows with readings in every group.
        InputDataError: If the covariance is none.
    """
    return fit_rate(values, spectrum(covariance), noise, groups)


def fit_rate(
    values: np.ndarray,
    covariance: Eigendecomposition,
    noise: float,
    groups: int | Sequence[object] | None,
) -> RateFit:
    """:func:`fit_epsilon` for a covariance whose eigenvalues are known."""
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


class NoiseFit(NamedTuple):
    """Noise and rate of change that explain a record best.

    Args:
        noise: Variance σ² of the noise of a reading.
        epsilon: ε in [0, 1].
        covariance: The covariance across arms less that noise.
    """

    noise: float
    epsilon: float
    covariance: Eigendecomposition


def fit_noise(
    values: np.ndarray, sample: Eigendecomposition, groups: int | Sequence[object] | None
) -> NoiseFit:
    """Noise and rate of change of largest marginal likelihood, given what the record varies by.

    The covariance S of the readings is that of the objective and the noise, S = K_arms + σ² I, so
    K_arms is what S leaves over σ², and what is not repeated from row to row is noise. Rows with
    missing readings are left out.

    Args:
        values: Centred readings, `rounds x arms`, evenly spaced in time; NaN where there is none.
        sample: S.
        groups: As for :func:`fit_epsilon`.

    Raises:
        ValueError: If there are fewer than ``ROWS_PER_ARM`` complete rows per arm, of which S and
            the noise cannot be told apart.
    """
    whole = ~np.isnan(values).any(1)
    rows, arms = int(whole.sum()), values.shape[1]
    require(
        rows >= ROWS_PER_ARM * arms,
        f"noise can be fitted to {ROWS_PER_ARM * arms:,} or more complete rows of {arms} arms, but "
        f"there are {rows:,}; give more rows, fewer arms, or the noise as a number.",
    )
    complete = np.where(whole[:, None], values, np.nan)
    variance = float(np.mean(values[whole] ** 2))
    shares = np.geomspace(LEAST_SHARE, 0.95 * min(1.0, sample.eigenvalues.max() / variance), 15)
    found: dict[float, tuple[RateFit, Eigendecomposition]] = {}
    for _ in range(_NARROWINGS):
        for share in shares:
            if share not in found:
                left = sample.less(share * variance)
                found[share] = (fit_rate(complete, left, share * variance, groups), left)
        known = sorted(found)
        best = max(known, key=lambda share: found[share][0].log_likelihood)
        place = known.index(best)
        low, high = known[max(place - 1, 0)], known[min(place + 1, len(known) - 1)]
        shares = np.array([math.sqrt(low * best), math.sqrt(best * high)])
    fit, left = found[best]
    return NoiseFit(best * variance, fit.epsilon, left)


def log_likelihood(
    values: np.ndarray,
    covariance: np.ndarray,
    noise: float,
    epsilon: Sequence[float] | np.ndarray,
    *,
    groups: int | Sequence[object] | None = None,
) -> np.ndarray:
    """The log marginal likelihood as a function of ε, [B16] (24).

    Args:
        values: As for :func:`fit_epsilon`.
        covariance: As for :func:`fit_epsilon`.
        noise: As for :func:`fit_epsilon`.
        epsilon: Rates of change in [0, 1], `k`.
        groups: As for :func:`fit_epsilon`.

    Returns:
        `k`.

    Raises:
        ValueError: If a rate lies outside [0, 1]; else as :func:`fit_epsilon`.
    """
    rates = np.asarray(epsilon, dtype=np.float64)
    require(
        rates.ndim == 1 and bool(((rates >= 0) & (rates <= 1)).all()),
        f"epsilon is {epsilon}, but rates of change are a list of numbers in [0, 1].",
    )
    return _Filters(values, spectrum(covariance), noise, groups).log_likelihood(rates)


class _Filters:
    """One Kalman filter per eigenvalue of the covariance across arms."""

    def __init__(
        self,
        values: np.ndarray,
        covariance: Eigendecomposition,
        noise: float,
        groups: int | Sequence[object] | None,
    ) -> None:
        eigenvalues, vectors = covariance
        values = np.asarray(values, dtype=np.float64)
        require(
            values.ndim == 2 and values.shape[1] == len(vectors),
            f"values have shape {values.shape}, but the covariance is of {len(vectors)} arms; give "
            f"rounds x {len(vectors)}.",
        )
        noise = require_number(
            "noise", noise, "(0, inf)", "it tells signal from noise; 5 % of the variance is usual."
        )
        values = filled_from_row(values, covariance, noise)
        self._read = ~np.isnan(values).any(1)
        self._starts = group_starts(groups, len(values))
        first = np.maximum.accumulate(np.where(self._starts, np.arange(len(values)), 0))
        require(
            bool(np.bincount(first[self._read], minlength=1).max(initial=0) >= 2),
            f"{int(self._read.sum())} rows with readings in {int(self._starts.sum())} groups never "
            "come two to a group, so they tell no rate of change; give more rows.",
        )
        series = values @ vectors
        self._series = series / np.sqrt(eigenvalues)
        self._noise = noise / eigenvalues
        # What does not depend on ε: scales, and the directions in which only noise is expected.
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
        """For each ε, `k -> k`.

        Series are scaled to prior variance 1. In every row the reading is compared with its
        prediction, the state is corrected by it, and time passes: mean √(1-ε), variance
        1 - (1-ε)(1 - variance).
        """
        keep = 1 - epsilon[:, None]
        stay = np.sqrt(keep)
        mean = np.zeros((len(epsilon), self._series.shape[1]))
        variance = np.ones_like(mean)
        total = np.zeros_like(mean)
        for row, read, starts in zip(self._series, self._read, self._starts):
            if starts:
                mean[:], variance[:] = 0.0, 1.0
            else:
                mean *= stay
                variance = 1 - keep * (1 - variance)
            if not read:
                continue
            spread = variance + self._noise
            error = row - mean
            total += np.log(spread) + error**2 / spread
            mean += variance / spread * error
            variance *= self._noise / spread
        return np.asarray(self._constant - 0.5 * total.sum(1))


def group_starts(groups: int | Sequence[object] | None, rows: int) -> np.ndarray:
    """Which rows begin a group of rows, a bool each.

    Args:
        groups: Rows per group, or a label per row; None for one group.
        rows: Number of rows.

    Raises:
        ValueError: If the groups have fewer than two rows, or labels do not fit the rows.
    """
    if groups is None:
        return np.asarray(np.arange(rows) == 0)
    if isinstance(groups, int):
        groups = require_integer("groups", groups, 2, "give the rows of a group, such as a day.")
        return np.asarray(np.arange(rows) % groups == 0)
    labels = np.asarray(groups)
    require(
        labels.shape == (rows,),
        f"groups have shape {labels.shape}, but there are {rows} training rows; give a label for "
        "each, or the rows per group.",
    )
    return np.concatenate([[True], labels[1:] != labels[:-1]])
