"""Outliers: a bank against the textbook in function space, and in a loop."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import t as student_t

from botorch_tv import Box, Loop, adaptive_gp_ucb
from botorch_tv.gp.mixture.bank import FIRST, Bank

D = torch.float64
NOISE, ODDS = 0.05, 0.1 / 0.9
ONE = Bank(rates=(0.0,), hazards=(0.0,), lengthscales=(0.4,), noise_ratios=(NOISE,), outliers=0.1)


def by_the_book(phi, y):
    """Mean and covariance of f at all rows of ``phi``, the first of which give the values ``y``.

    A reading is right, or an outlier from Student's t with 4 degrees of freedom about the constant,
    with twice the prior variance of a reading; a Gaussian with the moments of both cases replaces
    them. The last entry is the constant.
    """
    n, total = len(y), len(phi) + 1
    rows = np.vstack([phi, np.zeros(phi.shape[1])])
    C, m, A, B = rows @ rows.T + 1, np.zeros(total), 2.0, 2.0
    rest = 1 - (phi**2).sum(-1)
    for i in range(n):
        S, e = C[i, i] + rest[i] + NOISE, y[i] - m[i]
        right = student_t(2 * A, scale=math.sqrt(B / A * S)).pdf(e)
        variance = B / (A - 1) * (1 + NOISE + C[-1, -1])
        wrong = student_t(4, loc=m[-1], scale=math.sqrt(2 * variance)).pdf(y[i])
        r = ODDS * wrong / (right + ODDS * wrong)
        A, B = A + 0.5, B + 0.5 * ((1 - r) * e**2 / S + r * B / A)
        gain = C[:, i] / S
        m = m + (1 - r) * gain * e
        between = r * (1 - r) * e**2 * np.outer(gain, gain) / (B / A)
        C = C - (1 - r) * S * np.outer(gain, gain) + between
    return m[:-1], B / (A - 1) * C[:-1, :-1]


@pytest.mark.parametrize("wrong", [0.0, 2.0, -9.0])
def test_the_posterior_is_that_of_the_textbook(wrong):
    random = np.random.default_rng(3)
    X = torch.from_numpy(random.random((12, 2)))
    y = torch.sin(4 * X.sum(-1)) + 0.1 * torch.from_numpy(random.standard_normal(12))
    y[8] += wrong
    query = torch.from_numpy(random.random((5, 2)))
    player = adaptive_gp_ucb(bank=ONE)
    state = player.init(Box([(0.0, 1.0), (0.0, 1.0)]))
    for item, value in zip(X, y):
        state, _ = player.tell(state, player.suggestion_at(state, item), value)
    posterior = player.posterior(state, query)
    phi = state.data.prior.features[0].at(torch.cat([X, query])).numpy()
    centre, spread = y[:FIRST].mean(), y[:FIRST].std(correction=0)
    mean, covariance = by_the_book(phi, ((y - centre) / spread).numpy())
    np.testing.assert_allclose(posterior.mean[:, 0], centre + spread * mean[12:], rtol=0, atol=1e-9)
    ours = posterior.distribution.covariance_matrix.numpy()
    wanted = float(spread) ** 2 * covariance[12:, 12:]
    off = ~np.eye(5, dtype=bool)  # features leave out some of the variances
    np.testing.assert_allclose(ours[off], wanted[off], rtol=0, atol=1e-9)


def test_a_jump_refuted_by_later_measurements_is_not_reported():
    loop, observed = Loop([(0.0, 1.0)]), []
    for number in range(29):
        (x,) = loop.ask().point
        loop.tell(90 - 40 * (x - 0.4) ** 2 - 6 * (number == 20) + 0.1 * math.sin(99 * number))
        observed.append("Change point between" in loop.describe())
    assert [number for number, jumped in enumerate(observed) if jumped] == [20]
    assert loop.recommend()[0] == pytest.approx(0.4, abs=0.1)


def test_a_second_reading_of_the_kind_makes_it_a_jump():
    loop = Loop([(0.0, 1.0)])
    for number in range(40):
        (x,) = loop.ask().point
        level = 90 if number < 20 else 50
        best = 0.4 if number < 20 else 0.8
        loop.tell(level - 40 * (x - best) ** 2 + 0.1 * math.sin(99 * number))
    assert "Change point between" in loop.describe()
    assert loop.recommend()[0] == pytest.approx(0.8, abs=0.1)
