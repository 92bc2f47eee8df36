"""The textbook in fifty digits: for matrices on which float64 itself is in doubt."""

from __future__ import annotations

from collections.abc import Sequence

import mpmath
import numpy as np
from numpy.typing import NDArray
from oracles.dense import Array, Mean, Part

DIGITS = 50
SILENT = 1e40
"""Noise of this many times all other variances counts as infinite."""


def decay_between(decay: Part, first: float, second: float, origin: float) -> mpmath.mpf:
    """As :func:`oracles.dense.decay_between`, of two times."""
    lag = abs(mpmath.mpf(first) - mpmath.mpf(second))
    if decay[0] == "static":
        return mpmath.mpf(1)
    if decay[0] == "markov":
        return (1 - mpmath.mpf(decay[1])) ** (lag / 2) if lag > 0 else mpmath.mpf(1)
    if decay[0] == "wiener":
        return 1 + mpmath.mpf(decay[1]) * (min(first, second) - mpmath.mpf(origin))
    raise ValueError(decay)


def noise_factor(inflation: Part, lag: float) -> mpmath.mpf:
    """As :func:`oracles.dense.noise_factor`, of one lag."""
    if inflation[0] == "constant":
        return mpmath.mpf(1)
    if inflation[0] == "exponential":
        return mpmath.mpf(inflation[1]) ** (-mpmath.mpf(lag))
    if inflation[0] == "injection":
        grown = mpmath.mpf(lag) ** mpmath.mpf(inflation[1]) if lag > 0 else 0
        return 1 + mpmath.mpf(inflation[2]) * grown
    raise ValueError(inflation)


def joint_regression(
    K: Array,
    index: Sequence[int],
    times: Sequence[float],
    y: Sequence[float],
    now: float,
    *,
    noise: Sequence[float],
    decay: Part,
    inflation: Part,
    reference: float,
    origin: float,
    mean: Mean = 0.0,
) -> tuple[Array, Array, float]:
    """As :func:`oracles.dense.joint_regression`; and a condition number.

    It is that of I + N^-1/2 K~ N^-1/2: of the matrix that is inverted, well scaled.
    """
    with mpmath.workdps(DIGITS):
        variance = [
            mpmath.mpf(noise[s]) * noise_factor(inflation, reference - times[s])
            for s in range(len(index))
        ]
        silent = SILENT * max(float(K.diagonal().max() or 1.0), min(variance, default=0.0))
        usable = [s for s in range(len(index)) if variance[s] < silent]
        k = mpmath.matrix(K.tolist())
        at = decay_between(decay, now, now, origin)
        prior = k * at
        level = mpmath.mpf(0 if mean == "estimated" else mean)
        if not usable:
            return rounded(mpmath.matrix([level] * len(K)))[:, 0], rounded(prior), 1.0
        size, arms = len(usable), len(K)
        among, across = mpmath.matrix(size, size), mpmath.matrix(size, arms)
        for i, s in enumerate(usable):
            for j, u in enumerate(usable):
                among[i, j] = k[index[s], index[u]] * decay_between(
                    decay, times[s], times[u], origin
                )
            for arm in range(arms):
                across[i, arm] = k[index[s], arm] * decay_between(decay, times[s], now, origin)
            among[i, i] += variance[s]
        inverse = among**-1
        values = mpmath.matrix([y[s] for s in usable])
        if mean == "estimated":
            weights = inverse * mpmath.matrix([1] * size)
            level = (weights.T * values)[0] / sum(weights)
        seen = across.T * inverse
        posterior = seen * (values - level * mpmath.matrix([1] * size))
        scale = np.array([float(1 / mpmath.sqrt(variance[s])) for s in usable])
        spread = np.linalg.eigvalsh(scale[:, None] * rounded(among) * scale).max()
        shifted = rounded(posterior + level * mpmath.matrix([1] * arms))[:, 0]
        return shifted, rounded(prior - seen * across), float(spread)


def rounded(matrix: mpmath.matrix) -> NDArray[np.float64]:
    return np.array([[float(item) for item in row] for row in matrix.tolist()])
