"""Wrong readings: a bank against the textbook in function space, and what a loop makes of one."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import t as student_t

from botorch_tv import Box, Grid, Loop, adaptive_gp_ucb
from botorch_tv.gp.mixture.bank import FIRST, Bank

D = torch.float64
NOISE, ODDS = 0.05, 0.1 / 0.9
ONE = Bank(rates=(0.0,), hazards=(0.0,), lengthscales=(0.4,), noise_ratios=(NOISE,), outliers=0.1)


def by_the_book(phi, y):
    """Mean and covariance of f at all rows of ``phi``, the first of which give the values ``y``.

    Each reading is right, or says nothing and comes from Student's t with 4 degrees of freedom
    about the constant, with twice the variance of a reading where nothing else is known; both cases
    become one Gaussian by the law of total variance. The last entry is the constant.
    """
    n, total = len(y), len(phi) + 1
    rows = np.vstack([phi, np.zeros(phi.shape[1])])
    C, m, A, B = rows @ rows.T + 1, np.zeros(total), 2.0, 2.0
    left = 1 - (phi**2).sum(-1)
    for i in range(n):
        S, e = C[i, i] + left[i] + NOISE, y[i] - m[i]
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
    for one, value in zip(X, y):
        state, _ = player.tell(state, player.suggestion_at(state, one), value)
    posterior = player.posterior(state, query)
    phi = state.data.prior.features[0].at(torch.cat([X, query])).numpy()
    centre, spread = y[:FIRST].mean(), y[:FIRST].std(correction=0)
    mean, covariance = by_the_book(phi, ((y - centre) / spread).numpy())
    np.testing.assert_allclose(posterior.mean[:, 0], centre + spread * mean[12:], rtol=0, atol=1e-9)
    ours = posterior.distribution.covariance_matrix.numpy()
    wanted = float(spread) ** 2 * covariance[12:, 12:]
    off = ~np.eye(5, dtype=bool)  # features leave out some of the variances
    np.testing.assert_allclose(ours[off], wanted[off], rtol=0, atol=1e-9)


def regret_after(bank: Bank, error: float) -> torch.Tensor:
    """Regret of the ten rounds after a wrong reading, of 8 trials: 50 and a peak of 40."""
    grid = Grid.regular(points=12, dim=2)
    own = torch.Generator().manual_seed(0)
    center = 0.2 + 0.6 * torch.rand(8, 2, generator=own, dtype=D)
    apart = (grid.X - center.unsqueeze(1)).square().sum(-1)
    f = 50 + 40 * torch.exp(-apart / (2 * 0.25**2))
    player, found = adaptive_gp_ucb(bank=bank), []
    state = player.init(grid, batch_shape=(8,))
    for t in range(1, 36):
        suggestion = player.ask(state)
        value = f.gather(-1, suggestion.index.unsqueeze(-1)).squeeze(-1)
        found.append(f.amax(-1) - value)
        y = value + torch.randn(8, generator=own, dtype=D) + error * (t == 25)
        state, _ = player.tell(state, suggestion, y)
    return torch.stack(found[25:]).mean(0)


@pytest.mark.parametrize("error", [-40.0, 40.0])
def test_one_wrong_reading_is_measured_again_and_not_believed(error):
    assert regret_after(Bank(), error).mean() < regret_after(Bank(), 0.0).mean() + 1
    assert regret_after(Bank(outliers=0.0), error).mean() > 10


def test_a_jump_that_the_next_readings_refute_is_not_told_of():
    loop, told = Loop([(0.0, 1.0)]), []
    for number in range(29):
        (x,) = loop.ask().point
        loop.tell(90 - 40 * (x - 0.4) ** 2 - 6 * (number == 20) + 0.1 * math.sin(99 * number))
        told.append("Change point between" in loop.describe())
    assert [number for number, jumped in enumerate(told) if jumped] == [20]
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
