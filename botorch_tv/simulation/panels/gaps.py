"""Fill missing readings."""

from __future__ import annotations

import numpy as np

from botorch_tv.simulation.panels.covariance import Eigendecomposition


def filled_from_row(values: np.ndarray, covariance: Eigendecomposition, noise: float) -> np.ndarray:
    """Replace missing readings by their mean given the other arms of the row.

    With A = K + σ² I, gaps g and observed readings o of a row, that mean is A_go A_oo⁻¹ y_o, which
    equals -(P_gg)⁻¹ P_go y_o with P = A⁻¹; the smaller of the two systems is solved.

    Args:
        values: `rounds x arms`, NaN where missing.
        covariance: K.
        noise: Variance σ² of the noise of a reading, positive.

    Returns:
        `rounds x arms`. Rows without any reading stay NaN.
    """
    whole = values.copy()
    missing = np.isnan(values)
    partly = np.flatnonzero(missing.any(1) & ~missing.all(1))
    if not len(partly):
        return whole
    eigenvalues, vectors = covariance
    arms = np.eye(len(vectors))
    total = covariance.matrix() + noise * arms
    precision = (arms - (vectors * (eigenvalues / (eigenvalues + noise))) @ vectors.T) / noise
    for row in partly:
        gaps, read = np.flatnonzero(missing[row]), np.flatnonzero(~missing[row])
        known = values[row, read]
        if len(gaps) < len(read):
            pull = -precision[np.ix_(gaps, read)] @ known
            whole[row, gaps] = np.linalg.solve(precision[np.ix_(gaps, gaps)], pull)
        else:
            weights = np.linalg.solve(total[np.ix_(read, read)], known)
            whole[row, gaps] = total[np.ix_(gaps, read)] @ weights
    return whole


def carried_forward(values: np.ndarray) -> np.ndarray:
    """Replace missing readings by the arm's previous reading, or at the start by its first one.

    Args:
        values: `rounds x arms`, NaN where missing; every arm has at least one reading.
    """
    read = ~np.isnan(values)
    rows = np.arange(len(values))[:, None]
    last = np.maximum.accumulate(np.where(read, rows, -1), axis=0)
    source = np.where(last >= 0, last, read.argmax(0))
    return np.take_along_axis(values, source, axis=0)
