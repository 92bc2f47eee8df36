"""The textbook of one member: every history of jumps, each a dense Student-t regression.

With scale s² ~ InverseGamma(A, B) and m ~ N(0, s²), the y of a history are jointly Student-t with
2A degrees of freedom and squared scale (B / A) C, where C = K ∘ D ∘ J + 1 1ᵀ + N, D_ij = a between
i and j and J_ij = 1 where no jump lies between them.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import multivariate_t

Array = NDArray[np.float64]


class History(NamedTuple):
    log_marginal_likelihood: float
    """Of the data, times the chance of the history."""
    mean: Array
    """Of f_now at some points."""
    covariance: Array


def histories(
    phi: Array,
    y: Array,
    times: Array,
    noise: Array,
    points: Array,
    now: float,
    *,
    rate: float,
    hazard: float,
    A: float,
    B: float,
) -> list[History]:
    """All histories of jumps between observations, and between the last observation and now.

    ``phi``, `n x r`, and ``points``, `q x r`, are whitened features of observations and of query
    points; ``noise``, `n`, is in units of s², whose prior has parameters A and B.
    """
    n, q = len(y), len(points)
    rows = np.concatenate([phi, points])
    when = np.concatenate([times, np.full(q, now)])
    gaps = np.diff(np.concatenate([times, [now]]))
    chances = 1 - (1 - hazard) ** gaps
    found = []
    for jumps in itertools.product([False, True], repeat=n):
        chance = np.prod([H if jump else 1 - H for H, jump in zip(chances, jumps)])
        if chance == 0:
            continue
        era = np.concatenate([[0], np.cumsum(jumps)])
        era = np.concatenate([era[:n], np.full(q, era[n])])
        decay = (1 - rate) ** (np.abs(np.subtract.outer(when, when)) / 2)
        K = rows @ rows.T * decay * np.equal.outer(era, era) + 1
        C, k = K[:n, :n] + np.diag(noise), K[n:, :n]
        log = multivariate_t(np.zeros(n), (B / A) * C, df=2 * A).logpdf(y)
        solved = np.linalg.solve(C, y)
        scale = (B + 0.5 * y @ solved) / (A + 0.5 * n - 1)
        covariance = scale * (K[n:, n:] - k @ np.linalg.solve(C, k.T))
        found.append(History(float(log + np.log(chance)), k @ solved, covariance))
    return found


def marginal_likelihood(found: list[History]) -> float:
    """Log density of the data."""
    return float(logsumexp([item.log_marginal_likelihood for item in found]))


def mixture(found: list[History]) -> tuple[Array, Array]:
    """Mean and covariance over histories."""
    logs = np.array([item.log_marginal_likelihood for item in found])
    weight = np.exp(logs - logsumexp(logs))
    mean = sum(w * item.mean for w, item in zip(weight, found))
    covariance = sum(
        w * (item.covariance + np.outer(item.mean - mean, item.mean - mean))
        for w, item in zip(weight, found)
    )
    return mean, covariance
