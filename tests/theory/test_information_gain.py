"""Information gains against dense determinants, brute force, and [W22] Theorems 6-8."""

import math
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from numpy.testing import assert_allclose

from botorch_tv.acquisition import Greedy
from botorch_tv.forgetting import ExponentialWeights, UncertaintyInjection
from botorch_tv.theory import (
    aged_information_gain,
    closed_form_information_gain,
    discounted_gain_bound,
    exponential_gain_bound,
    greedy_information_gain,
    information_gain,
    linear_gain_bound,
    markov_information_gain,
    matern_exponent,
    polynomial_gain_bound,
    running_information_gain,
    universal_gain_bound,
    weighted_information_gain,
)

POINTS = np.array([0.0, 0.15, 0.5, 1.0])
K = np.exp(-0.5 * (POINTS[:, None] - POINTS) ** 2 / 0.3**2)
COVARIANCE = torch.as_tensor(K)
NOISES = np.array([0.05, 0.2, 0.05, 1.0])


def dense_gain(covariance: np.ndarray, noises: np.ndarray) -> float:
    """½ ln det(I + N^-½ K N^-½) by NumPy."""
    root = np.diag(noises**-0.5)
    return 0.5 * np.linalg.slogdet(np.eye(len(noises)) + root @ covariance @ root)[1]


def test_running_gain_is_the_gain_of_every_prefix() -> None:
    running = running_information_gain(COVARIANCE, torch.as_tensor(NOISES))
    expected = [dense_gain(K[:n, :n], NOISES[:n]) if n else 0.0 for n in range(5)]
    assert_allclose(running, expected, atol=1e-12)


def test_gain_is_batched() -> None:
    batch = torch.stack([COVARIANCE, 2 * COVARIANCE])
    expected = [dense_gain(K, NOISES), dense_gain(2 * K, NOISES)]
    assert_allclose(information_gain(batch, torch.as_tensor(NOISES)), expected)
    assert information_gain(batch.float(), 0.1).dtype == torch.float32


def test_aged_and_weighted_gains() -> None:
    lag = np.array([3.0, 2.0, 1.0, 0.0])
    injected = aged_information_gain(COVARIANCE, 0.1, UncertaintyInjection(alpha=1.5, kappa=2.0))
    assert float(injected) == pytest.approx(dense_gain(K, 0.1 * (1 + 2 * lag**1.5)))
    single = weighted_information_gain(COVARIANCE, 0.1, 0.8, double=False)
    assert float(single) == pytest.approx(dense_gain(K, 0.1 * 0.8**-lag))
    double = weighted_information_gain(COVARIANCE, 0.1, 0.8)
    assert float(double) == pytest.approx(dense_gain(K, 0.1 * 0.8 ** (-2 * lag)))
    same = aged_information_gain(COVARIANCE, 0.1, ExponentialWeights(0.8))
    assert float(same) == pytest.approx(float(single))


@pytest.mark.parametrize("noise", [0.05, 1.0])
def test_greedy_bound_brackets_the_maximum(noise: float) -> None:
    bounds = greedy_information_gain(COVARIANCE, noise, 4)
    for n in range(1, 5):
        most = max(
            dense_gain(K[np.ix_(arms, arms)], np.full(n, noise))
            for arms in combinations_with_replacement(range(4), n)
        )
        assert float(bounds[n]) * (1 - math.exp(-1)) - 1e-12 <= most <= float(bounds[n])
    assert bounds.tolist() == list(Greedy.of(COVARIANCE, noise, 4).values)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("noise", [0.05, 1.0])
def test_markov_bound_brackets_the_maximum(noise: float, epsilon: float) -> None:
    """Of all 4^n sequences of arms, by determinants of K o D, [B16] (14)-(15)."""
    bounds = markov_information_gain(COVARIANCE, noise, epsilon, 4)
    t = np.arange(4)
    decay = (1 - epsilon) ** (np.abs(t[:, None] - t) / 2)
    for n in range(1, 5):
        most = max(
            dense_gain(K[np.ix_(arms, arms)] * decay[:n, :n], np.full(n, noise))
            for arms in product(range(4), repeat=n)
        )
        assert float(bounds[n]) / 2 - 1e-12 <= most <= float(bounds[n])
    assert float(bounds[0]) == 0


def test_markov_bound_by_hand() -> None:
    bounds = markov_information_gain(torch.ones(1, 1, dtype=torch.float64), 1.0, 0.5, 2)
    assert_allclose(bounds, [0, math.log(2), math.log(2) + math.log(1.75)])
    static = markov_information_gain(COVARIANCE, 0.1, 0.0, 3)
    assert static.equal(greedy_information_gain(COVARIANCE, 0.1, 3))


def test_closed_forms_and_exponent() -> None:
    T = torch.tensor([[1, 10], [100, 1000]])
    se = closed_form_information_gain(T, 2, "se")
    assert_allclose(se, np.log(T.numpy()) ** 3)
    matern = closed_form_information_gain(100, 1, "matern", nu=2.5)
    assert float(matern) == pytest.approx(100 ** (2 / 7) * math.log(100))
    assert matern_exponent(2.5, 2) == pytest.approx(6 / 11)


ASYMMETRIC = COVARIANCE.triu() + 2 * COVARIANCE.tril(-1)


@pytest.mark.parametrize(
    ("covariance", "noise", "error", "message"),
    [
        (COVARIANCE, 0.0, ValueError, "noise is not positive and finite"),
        (torch.eye(3, dtype=torch.int64), 0.1, ValueError, "noise is not positive"),
        (ASYMMETRIC, 0.1, ValueError, r"covariance is not symmetric .* K\.mT"),
        (torch.stack([COVARIANCE, ASYMMETRIC]), 0.1, ValueError, "not symmetric"),
        (COVARIANCE * torch.nan, 0.1, ValueError, "not finite"),
        (-COVARIANCE, 0.1, RuntimeError, "not positive-definite"),
    ],
)
def test_no_covariance_or_no_noise_is_refused(covariance, noise, error, message) -> None:
    with pytest.raises(error, match=message):
        information_gain(covariance, noise)
    with pytest.raises(InputDataError, match="not symmetric"):
        markov_information_gain(torch.tensor([[1.0, 0.5], [0.0, 1.0]]), 0.1, 0.5, 3)


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


@pytest.mark.parametrize("noise", [0.1, 1.0])
def test_gain_of_the_linear_kernel(noise: float) -> None:
    """Orthogonal points attain the bound, and no other points of the ball exceed it."""
    radius, rounds = 1.5, 12
    bound = float(linear_gain_bound(rounds, dim=3, noise=noise, k_bar=radius**2))
    attained = np.tile(radius * np.linalg.qr(np.arange(9.0).reshape(3, 3) + np.eye(3))[0], (4, 1))
    assert dense_gain(attained @ attained.T, np.full(rounds, noise)) == pytest.approx(bound)
    random = np.random.default_rng(0)
    for _ in range(50):
        X = random.standard_normal((rounds, 3))
        X *= radius / np.linalg.norm(X, axis=1, keepdims=True)
        assert dense_gain(X @ X.T, np.full(rounds, noise)) < bound
    # Growth d ln T / 2: a hundredfold horizon adds d ln 100 / 2.
    late = linear_gain_bound(torch.tensor([1e8, 1e10]), dim=3, noise=noise)
    assert float(late.double().diff()) == pytest.approx(1.5 * math.log(100), rel=1e-5)


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
