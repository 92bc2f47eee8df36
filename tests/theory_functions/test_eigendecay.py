"""[W22] Theorems 6-8: by hand, and above the gains of a kernel with given eigenvalues."""

import math

import numpy as np
import pytest
import torch

from botorch_tv.theory import (
    discounted_gain_bound,
    exponential_gain_bound,
    polynomial_gain_bound,
    universal_gain_bound,
    weighted_information_gain,
)

SHARED = {"gamma": 0.8, "noise": 0.5}
LOST = 0.5 * 0.36  # λ (1 - γ²)


def test_theorem_6_by_hand() -> None:
    bound = universal_gain_bound(torch.tensor([10.0, 20.0]), noise=0.5, terms=4, tail=0.02, k_bar=2)
    expected = [2 * math.log(1 + 20 / 2) + 0.2, 2 * math.log(1 + 40 / 2) + 0.4]
    np.testing.assert_allclose(bound, expected, rtol=1e-6)


def test_theorem_7_by_hand() -> None:
    double = discounted_gain_bound(**SHARED, terms=3, tail=0.1, k_bar=2.0)
    assert double == pytest.approx(1.5 * math.log(1 + 2 / (3 * LOST)) + 0.1 / (2 * LOST))
    single = discounted_gain_bound(**SHARED, terms=3, tail=0.1, double=False)
    assert single == pytest.approx(1.5 * math.log(1 + 1 / (3 * 0.1)) + 0.1 / 0.2)


def test_corollary_8_by_hand() -> None:
    log = math.log(1 + 1 / LOST)
    polynomial = polynomial_gain_bound(**SHARED, C_p=0.7, beta_p=2.5, psi=1.2)
    scale = 0.7 * 1.44 / LOST
    assert polynomial == pytest.approx((scale ** (1 / 2.5) * log ** (-1 / 2.5) + 1) * log)
    exponential = exponential_gain_bound(**SHARED, C_e1=0.9, C_e2=0.4, psi=1.2)
    C_beta = math.log(0.9 * 1.44 / (0.5 * 0.4))
    assert exponential == pytest.approx(((math.log(1 / 0.36) + C_beta) / 0.4 + 1) * log)


@pytest.mark.parametrize("gamma", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("decay", ["polynomial", "exponential"])
def test_bounds_lie_above_gains(gamma: float, double: bool, decay: str) -> None:
    m = np.arange(1.0, 200.0)
    c = 0.5 * m**-2.5 if decay == "polynomial" else 0.5 * np.exp(-0.4 * m)
    k_bar, terms, noise, psi, T = 2 * c.sum(), 5, 0.2, math.sqrt(2), 60
    tail = 2 * c[terms:].sum()
    given = {"gamma": gamma, "noise": noise, "k_bar": k_bar, "double": double}
    bounds = [
        discounted_gain_bound(**given, terms=terms, tail=tail),
        float(universal_gain_bound(T, noise=noise, terms=terms, tail=tail, k_bar=k_bar)),
        polynomial_gain_bound(**given, C_p=0.5, beta_p=2.5, psi=psi)
        if decay == "polynomial"
        else exponential_gain_bound(**given, C_e1=0.5, C_e2=0.4, psi=psi),
    ]
    random = np.random.default_rng(0)
    for x in (random.random(T), np.full(T, 0.3), np.tile([0.0, 1.0, 0.4], 20)):
        features = math.sqrt(2) * np.cos(np.pi * x[:, None] * m) * np.sqrt(c)
        K = torch.as_tensor(features @ features.T)
        gain = float(weighted_information_gain(K, noise, gamma, double=double))
        assert 0 < gain <= min(bounds)
