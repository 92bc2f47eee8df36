"""The textbook of a bank without jumps: every member a dense Student-t regression of its own.

Points asked about have times of their own. A member's f is a process of covariance s² (K ∘ D + 1),
D being what the rate leaves between two times and K = φ φᵀ; what φ leaves out of 1 is independent
noise of f at every point, and y has noise s² ρ besides. s² ~ InverseGamma(A, A), members are as
likely.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import multivariate_t

Array = NDArray[np.float64]


class Member(NamedTuple):
    log_evidence: float
    mean: Array
    covariance: Array
    noise: float
    """Variance of a new observation's noise."""


def member(
    phi: Array, y: Array, times: Array, points: Array, when: Array, *, rate: float, noise: float
) -> Member:
    """What a member says of points `q x r` at the times ``when``."""
    A, n = 2.0, len(y)
    rows, at = np.concatenate([phi, points]), np.concatenate([times, when])
    K = rows @ rows.T * (1 - rate) ** (np.abs(np.subtract.outer(at, at)) / 2) + 1
    K += np.diag(1 - (rows**2).sum(-1))
    C, k = K[:n, :n] + noise * np.eye(n), K[n:, :n]
    solved = np.linalg.solve(C, y)
    scale = (A + 0.5 * y @ solved) / (A + 0.5 * n - 1)
    evidence = multivariate_t(np.zeros(n), C, df=2 * A).logpdf(y)
    covariance = scale * (K[n:, n:] - k @ np.linalg.solve(C, k.T))
    return Member(float(evidence), k @ solved, covariance, noise * scale)


def mixture(members: list[Member]) -> tuple[Array, Array, Array, float]:
    """Weights, mean and covariance of all members, and the variance of new noise."""
    logs = np.array([item.log_evidence for item in members])
    weight = np.exp(logs - logsumexp(logs))
    mean = np.einsum("k,ki->i", weight, [item.mean for item in members])
    covariance = sum(
        w * (item.covariance + np.outer(item.mean - mean, item.mean - mean))
        for w, item in zip(weight, members)
    )
    return weight, mean, covariance, float(weight @ [item.noise for item in members])


def in_units_of_data(
    features: Sequence[Callable[[Array], Array]],
    rates: Sequence[float],
    noise_ratios: Sequence[float],
    data: tuple[Array, Array, Array],
    query: tuple[Array, Array],
    *,
    first: int,
    clock: float,
) -> tuple[Array, Array, Array, float]:
    """As :func:`mixture`, of raw measurements.

    Args:
        features: The φ of every lengthscale, points `n x d` to `n x r`.
        rates: Of change, per ``clock``.
        noise_ratios: Noise variances in those of the objective.
        data: Points `n x d`, what came out `n`, and when, `n`.
        query: Points `q x d` and their times `q`.
        first: Measurements whose mean and standard deviation are the units.
        clock: The unit of time.
    """
    (X, y, times), (points, when) = data, query
    centre, spread = y[:first].mean(), y[:first].std()
    members = [
        member(
            *(phi(X), (y - centre) / spread, times / clock, phi(points), when / clock),
            rate=rate,
            noise=noise,
        )
        for phi, rate, noise in itertools.product(features, rates, noise_ratios)
    ]
    weight, mean, covariance, noise = mixture(members)
    return weight, mean * spread + centre, covariance * spread**2, noise * spread**2
