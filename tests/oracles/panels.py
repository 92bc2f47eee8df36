"""The likelihood of a record of many arms, by the dense matrix."""

import numpy as np


def dense_log_likelihood(values, covariance, noise, epsilon, labels=None) -> float:
    """[B16] (24) on the readings there are, by the dense matrix."""
    rounds, arms = values.shape
    t = np.arange(rounds)
    stay = (1.0 - epsilon) ** (np.abs(t[:, None] - t) / 2)
    if labels is not None:
        stay = stay * (labels[:, None] == labels)
    matrix = np.kron(stay, covariance) + noise * np.eye(rounds * arms)
    y = values.ravel()
    read = ~np.isnan(y)
    y, matrix = y[read], matrix[np.ix_(read, read)]
    _, logdet = np.linalg.slogdet(matrix)
    return -0.5 * (y @ np.linalg.solve(matrix, y) + logdet + len(y) * np.log(2 * np.pi))
