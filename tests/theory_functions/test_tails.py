"""Tail constants of the squared exponential kernel."""

import math

import numpy as np
import pytest

from botorch_tv.theory import squared_exponential_tails


def test_by_hand() -> None:
    tails = squared_exponential_tails(0.5, r=math.pi)
    assert tails == pytest.approx((3, math.sqrt(2), 1 + 2 * math.sqrt(3), 2 * math.sqrt(2)))


def test_they_hold_for_draws_and_are_not_far_off() -> None:
    l, x = 0.2, np.linspace(0, 1, 81)
    apart = x[:, None] - x
    K = np.exp(-(apart**2) / (2 * l**2))
    slopes = (1 / l**2 - apart**2 / l**4) * K
    a0, b0, a1, b1 = squared_exponential_tails(l)
    random = np.random.default_rng(0)
    for covariance, a, b in ((K, a0, b0), (slopes, a1, b1)):
        values, vectors = np.linalg.eigh(covariance)
        draws = random.standard_normal((4000, 81)) @ (vectors * np.sqrt(values.clip(0))).T
        top = np.abs(draws).max(1)
        for L in b * np.array([1.2, 1.5, 1.8, 2.1]):
            seen, bound = (top > L).mean(), a * math.exp(-((L / b) ** 2))
            assert seen <= bound + 3 * math.sqrt(bound / 4000)
            assert seen > bound / 3
