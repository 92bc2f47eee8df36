"""Functions drawn from exactly the models that the guarantees are about; no library code."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from conformance.rounds import Setting
from numpy.typing import NDArray
from torch import Tensor

SETTING = Setting(points=5, kernel="se", noise=0.05, rounds=100, lengthscale=0.3)
Array = NDArray[np.float64]


def root(K: Array) -> Array:
    """R with R R' = K."""
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.clip(values, 0.0, None))


def gaussian_process(
    model: str, parameter: float, trials: int, rounds: int, seed: int
) -> Iterator[Tensor]:
    """Draws of f_1, f_2, ... on the grid of ``SETTING``: `trials x M` each.

    Markov: f_{t+1} = sqrt(1 - eps) f_t + sqrt(eps) g_{t+1} with independent draws g. Wiener:
    f_{t+1} = f_t + sqrt(s) g_{t+1}.
    """
    random = np.random.default_rng([seed, trials, rounds])
    R = root(SETTING.matrix())

    def draw() -> Array:
        return random.standard_normal((trials, len(R))) @ R.T

    f = draw()
    for _ in range(rounds):
        yield torch.as_tensor(f)
        if model == "markov":
            f = np.sqrt(1.0 - parameter) * f + np.sqrt(parameter) * draw()
        elif model == "wiener":
            f = f + np.sqrt(parameter) * draw()


def of_norm(B: float, trials: int, seed: int) -> Tensor:
    """f = sum_i a_i k(x_i, .) with norm sqrt(a' K a) = B in the kernel's space: `trials x M`."""
    random = np.random.default_rng(seed)
    K = SETTING.matrix()
    arms = np.argsort(random.random((trials, len(K))), axis=1)[:, :4]
    a = np.zeros((trials, len(K)))
    np.put_along_axis(a, arms, random.standard_normal(arms.shape), axis=1)
    return torch.as_tensor(B * (a @ K) / np.sqrt(np.einsum("ti,ij,tj->t", a, K, a))[:, None])


def noises(trials: int, rounds: int, variance: float, seed: int) -> Tensor:
    """Independent normal errors, `rounds x trials`."""
    random = np.random.default_rng([seed, 77])
    return torch.as_tensor(random.standard_normal((rounds, trials)) * variance**0.5)


def pick(values: Tensor, index: Tensor) -> Tensor:
    return values.gather(-1, index.unsqueeze(-1)).squeeze(-1)
