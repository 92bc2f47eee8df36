"""The textbook of the bank against the sum over all histories, each a regression of its own."""

import itertools
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles.bank import SHAPE, Array, DenseBank
from scipy.special import logsumexp
from scipy.stats import multivariate_t
from scipy.stats import t as student_t

NOISE = 0.1


class Regression(NamedTuple):
    log: float
    """Log marginal likelihood of the data, times the chance of the history."""
    mean: Array
    covariance: Array


def all_histories(K, y, times, now, *, rate, hazard) -> list[Regression]:
    """All histories of jumps between observations and now, each a dense Student-t regression.

    With scale s² ~ InverseGamma(A, A) and m ~ N(0, s²), the y of a history are jointly Student-t
    with 2A degrees of freedom and squared scale C, where C = K ∘ D ∘ J + 1 1ᵀ + N, D_ij = a between
    i and j, and J_ij = 1 where no jump lies between them. Points of ``K`` beyond those of ``y`` are
    asked about.
    """
    n, q = len(y), len(K) - len(y)
    when = np.concatenate([times, np.full(q, now)])
    chances = 1 - (1 - hazard) ** np.diff(np.append(times, now))
    found = []
    for jumps in itertools.product([False, True], repeat=n):
        chance = np.prod([H if jump else 1 - H for H, jump in zip(chances, jumps)])
        if chance == 0:
            continue
        era = np.concatenate([[0], np.cumsum(jumps)])
        era = np.concatenate([era[:n], np.full(q, era[n])])
        decay = (1 - rate) ** (np.abs(np.subtract.outer(when, when)) / 2)
        whole = K * decay * np.equal.outer(era, era) + 1
        C, k = whole[:n, :n] + NOISE * np.eye(n), whole[n:, :n]
        log = multivariate_t(np.zeros(n), C, df=2 * SHAPE).logpdf(y) + np.log(chance)
        solved = np.linalg.solve(C, y)
        scale = (SHAPE + 0.5 * y @ solved) / (SHAPE + 0.5 * n - 1)
        covariance = scale * (whole[n:, n:] - k @ np.linalg.solve(C, k.T))
        found.append(Regression(float(log), k @ solved, covariance))
    return found


def played(n, seed, *, rate=0.0, hazard=0.0, outliers=0.0, block=1, ahead=1.7):
    """A bank after n readings, three points asked about, and all histories."""
    random = np.random.default_rng(seed)
    U, y = random.random((n + 3, 2)), random.standard_normal(n)
    times = np.repeat(np.cumsum(random.uniform(0.2, 3.0, n)), block)[:n]
    bank = SimpleNamespace(
        lengthscales=(0.4,), rates=(rate,), hazards=(hazard,), noise_ratios=(NOISE,)
    )
    bank.outliers, bank.histories, bank.tolerance = outliers, 4, 1e-5
    dense = DenseBank(bank, U)
    for first in range(0, n, block):
        rows = list(range(first, min(n, first + block)))
        dense.observe(rows, y[rows], times[first])
    K = np.exp(-0.5 * np.square(U[:, None] - U).sum(-1) / 0.4**2)
    now = times[-1] + ahead
    book = all_histories(K, y, times, now, rate=rate, hazard=hazard)
    return dense, dense.moments(list(range(n, n + 3)), [now] * 3), book, K, y


def assert_mixture(dense, moments, book) -> None:
    logs = np.array([item.log for item in book])
    weight = np.exp(logs - logsumexp(logs))
    found = logsumexp([history.log for member in dense.members for history in member.histories])
    assert_allclose(found, logsumexp(logs), rtol=0, atol=1e-10)
    mean = sum(w * item.mean for w, item in zip(weight, book))
    assert_allclose(moments[0], mean, rtol=0, atol=1e-10)
    apart = [item.mean - mean for item in book]
    spreads = [item.covariance + np.outer(off, off) for item, off in zip(book, apart)]
    assert_allclose(
        moments[1], sum(w * each for w, each in zip(weight, spreads)), rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("block", [1, 3])
@pytest.mark.parametrize("rate", [0.0, 0.03, 0.5])
def test_a_member_without_jumps_is_student_t_regression(rate, block):
    dense, moments, book, *_ = played(12, 1, rate=rate, block=block)
    assert len(book) == 1
    assert_mixture(dense, moments, book)
    # The gain is that of the vector: ½ ln det (C / N), whatever the blocks.
    if rate == 0:
        C = played(12, 1)[3][:12, :12] + 1 + NOISE * np.eye(12)
        gain = 0.5 * np.linalg.slogdet(C / NOISE)[1]
        assert dense.information_gain == pytest.approx(gain, abs=1e-9)


@pytest.mark.parametrize(("n", "block"), [(1, 1), (2, 2), (4, 2), (6, 3)])
def test_one_jump_is_weighed_exactly(n, block):
    """With two blocks only one jump is possible before now, which nothing has merged."""
    for seed in range(3):
        dense, (mean, _), book, *_ = played(n, seed, rate=0.03, hazard=0.3, block=block, ahead=0.0)
        logs = [item.log for item in book]
        found = logsumexp([item.log for item in dense.members[0].histories])
        assert_allclose(found, logsumexp(logs), rtol=0, atol=1e-10)
        share = np.exp(logs - logsumexp(logs))
        assert_allclose(
            mean, sum(w * item.mean for w, item in zip(share, book)), rtol=0, atol=1e-10
        )


@pytest.mark.parametrize("seed", range(3))
def test_a_reading_that_may_be_wrong_is_weighed_by_both_predictions(seed):
    _, (mean, covariance), _, K, y = played(1, seed, outliers=0.2)
    y = float(y[0])
    S = 2 + NOISE
    right = 0.8 * student_t(2 * SHAPE, scale=S**0.5).pdf(y)
    # Before data, s² has mean 2, and m has variance s².
    wrong = 0.2 * student_t(4, scale=(2 * 2 * S) ** 0.5).pdf(y)
    r = wrong / (right + wrong)
    gain = (K[1:, 0] + 1) / S
    assert_allclose(mean, (1 - r) * gain * y, rtol=0, atol=1e-12)
    B = SHAPE + 0.5 * ((1 - r) * y**2 / S + r)
    within = K[1:, 1:] + 1 - (1 - r) * S * np.outer(gain, gain)
    # Between the cases the means differ by gain y, in units of s² as the filter measures it.
    between = r * (1 - r) * y**2 * np.outer(gain, gain) * (SHAPE + 0.5) / B
    assert_allclose(covariance, B / (SHAPE - 0.5) * (within + between), rtol=0, atol=1e-12)


def test_in_a_block_a_reading_that_is_surely_wrong_counts_for_nothing():
    """The others count as if they were alone, in any order."""
    bank = SimpleNamespace(
        lengthscales=(0.4,), rates=(0.05,), hazards=(0.0,), noise_ratios=(NOISE,), outliers=0.05
    )
    bank.histories, bank.tolerance, random = 4, 1e-5, np.random.default_rng(0)
    U, y = random.random((17, 2)), 0.3 * random.standard_normal(10)
    alone, block, turned = (DenseBank(bank, U) for _ in range(3))
    for dense in (alone, block, turned):
        for row in range(8):
            dense.observe([row], y[row : row + 1], 0.1 * row)
    alone.observe([8, 9], y[8:], 1.0)
    block.observe([8, 9, 10, 11], np.array([*y[8:], 1e3, -1e3]), 1.0)
    turned.observe([11, 8, 10, 9], np.array([-1e3, y[8], 1e3, y[9]]), 1.0)
    asked, times = [13, 14, 15, 16], [2.0, 2.0, 1.0, 4.0]
    for first, second in zip(block.moments(asked, times), turned.moments(asked, times)):
        assert_allclose(first, second, rtol=0, atol=1e-10)
    assert_allclose(
        block.moments(asked, times)[0], alone.moments(asked, times)[0], rtol=0, atol=1e-7
    )
