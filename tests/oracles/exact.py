"""The textbook in fifty digits: for matrices on which float64 itself is in doubt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import mpmath
import numpy as np
from numpy.typing import NDArray
from oracles.dense import Array, Mean, Part, decay_between, noise_factor

DIGITS = 50
SILENT = 1e40
"""Noise of this many times all other variances counts as infinite."""


def joint_regression(
    K: Array,
    index: Sequence[int],
    times: Sequence[float],
    y: Sequence[float],
    now: float,
    *,
    noise: Sequence[float],
    decay: Part = ("static",),
    inflation: Part = ("constant",),
    reference: float,
    origin: float,
    mean: Mean = 0.0,
) -> tuple[Array, Array, float]:
    """As :func:`oracles.dense.joint_regression`, and by its factors; and a condition number.

    It is that of I + N^-1/2 K~ N^-1/2: of the matrix that is inverted, well scaled.
    """
    with mpmath.workdps(DIGITS):
        decay, inflation = exactly(decay), exactly(inflation)
        t, at = exactly(times), exactly([now])
        variance = exactly(noise) * noise_factor(inflation, -(t - reference))
        silent = SILENT * max(float(K.diagonal().max() or 1.0), min(variance, default=0.0))
        usable = [s for s in range(len(index)) if variance[s] < silent]
        prior = mpmath.matrix(K.tolist()) * decay_between(decay, at, at, origin)[0, 0]
        level = mpmath.mpf(0 if mean == "estimated" else mean)
        if not usable:
            return rounded(mpmath.matrix([level] * len(K)))[:, 0], rounded(prior), 1.0
        size, arms = len(usable), len(K)
        k, t, variance = K[np.asarray(index)[usable]], t[usable], variance[usable]
        among = k[:, np.asarray(index)[usable]] * decay_between(decay, t, t, origin)
        among = mpmath.matrix((among + np.diag(variance)).tolist())
        across = mpmath.matrix((k * decay_between(decay, t, at, origin)).tolist())
        inverse = among**-1
        values = mpmath.matrix([y[s] for s in usable])
        if mean == "estimated":
            weights = inverse * mpmath.matrix([1] * size)
            level = (weights.T * values)[0] / sum(weights)
        seen = across.T * inverse
        posterior = seen * (values - level * mpmath.matrix([1] * size))
        scale = np.array([float(1 / mpmath.sqrt(v)) for v in variance])
        spread = np.linalg.eigvalsh(scale[:, None] * rounded(among) * scale).max()
        shifted = rounded(posterior + level * mpmath.matrix([1] * arms))[:, 0]
        return shifted, rounded(prior - seen * across), float(spread)


def exactly(numbers: Iterable[float | str]) -> NDArray[np.object_]:
    """Numbers of fifty digits; names of parts stay."""
    parts = [part if isinstance(part, str) else mpmath.mpf(part) for part in numbers]
    return np.array(parts, dtype=object)


def rounded(matrix: mpmath.matrix) -> NDArray[np.float64]:
    return np.array([[float(item) for item in row] for row in matrix.tolist()])
