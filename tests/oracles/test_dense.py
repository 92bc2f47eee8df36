"""The oracle against hand calculations and against second ways to compute the same thing."""

import math

import numpy as np
import pytest
from oracles.dense import (
    DenseBandit,
    Row,
    decay_between,
    information_gain,
    matern_five_halves,
    noise_factor,
    regression,
    squared_exponential,
    trigger_threshold,
    winner,
)

ARMS = np.linspace(0.0, 1.0, 9)[:, None]
K = squared_exponential(ARMS, 0.3)
NOISE = 0.02
RANDOM = np.random.default_rng(7)
N = 25
INDEX = RANDOM.integers(0, len(ARMS), N).tolist()
TIMES = np.cumsum(RANDOM.exponential(1.3, N)).tolist()
Y = RANDOM.standard_normal(N).tolist()
NOW = TIMES[-1] + 0.7


def kalman(model: str, parameter: float, now: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean, covariance and accumulated gain at ``now`` by moving time and observing in turn."""
    mean, covariance, gain, clock = np.zeros(len(K)), K.copy(), 0.0, TIMES[0]
    for index, time, y in [*zip(INDEX, TIMES, Y), (None, now, None)]:
        elapsed, clock = time - clock, time
        if model == "markov":
            a = (1.0 - parameter) ** (elapsed / 2.0)
            mean, covariance = a * mean, a**2 * covariance + (1.0 - a**2) * K
        elif model == "wiener":
            covariance = covariance + parameter * elapsed * K
        if index is not None:
            column, spread = covariance[:, index].copy(), NOISE + covariance[index, index]
            gain += 0.5 * math.log1p(covariance[index, index] / NOISE)
            mean = mean + column * (y - mean[index]) / spread
            covariance = covariance - np.outer(column, column) / spread
    return mean, covariance, gain


@pytest.mark.parametrize(
    ("model", "parameter"),
    [("static", 0.0), ("markov", 0.0), ("markov", 0.1), ("wiener", 0.0), ("wiener", 0.2)],
)
def test_kalman_filter_is_the_regression(model: str, parameter: float) -> None:
    decay = (model, parameter) if model != "static" else ("static",)
    mean, variance = regression(K, INDEX, TIMES, Y, NOW, noise=NOISE, decay=decay)
    by_filter, covariance, gain = kalman(model, parameter, NOW)
    np.testing.assert_allclose(mean, by_filter, atol=1e-11)
    np.testing.assert_allclose(variance, covariance.diagonal(), atol=1e-11)
    determinant = information_gain(K, INDEX, TIMES, noise=NOISE, decay=decay)
    assert determinant == pytest.approx(gain, abs=1e-10)


@pytest.mark.parametrize("gamma", [1.0, 0.95, 0.7])
def test_exponential_weights_in_their_kernel_form(gamma: float) -> None:
    """K~ = W K W, y~ = W y, k~ = W k_x, lambda_n = lambda w_n with w_s = gamma^-s."""
    w = gamma ** -np.asarray(TIMES)
    W = np.diag(np.sqrt(w))
    within, across = W @ K[np.ix_(INDEX, INDEX)] @ W, W @ K[INDEX, :]
    inverse = np.linalg.inv(within + NOISE * w[-1] * np.eye(N))
    mean, variance = regression(
        K, INDEX, TIMES, Y, NOW, noise=NOISE, inflation=("exponential", gamma)
    )
    np.testing.assert_allclose(mean, across.T @ inverse @ W @ Y, atol=1e-9)
    expected = K.diagonal() - (across * (inverse @ across)).sum(0)
    np.testing.assert_allclose(variance, expected, atol=1e-9)


def test_one_observation_by_hand() -> None:
    k, k0 = K[3], K[3, 3]
    mean, variance = regression(K, [3], [2.0], [1.5], 3.0, noise=0.5)
    np.testing.assert_allclose(mean, k * 1.5 / 1.5)
    np.testing.assert_allclose(variance, 1.0 - k**2 / 1.5)
    # Markov: the newest observation carries (1 - eps)^(1/2) one step later.
    mean, variance = regression(K, [3], [2.0], [1.5], 3.0, noise=0.5, decay=("markov", 0.19))
    np.testing.assert_allclose(mean, 0.9 * k * 1.5 / 1.5)
    np.testing.assert_allclose(variance, k0 - 0.81 * k**2 / 1.5)
    # Wiener: time counts from this observation; one step adds sigma_w2 k(x, x).
    _, variance = regression(K, [3], [2.0], [1.5], 3.0, noise=0.5, decay=("wiener", 0.3))
    np.testing.assert_allclose(variance, 1.3 - k**2 / 1.5)


def test_two_observations_by_hand() -> None:
    both = np.array([[1.0, 0.5], [0.5, 1.0]])
    options = {"noise": 1.0, "inflation": ("injection", 1.0, 2.0)}
    # The older one, lag 1, has noise 1 * (1 + 2) = 3: invert [[4, .5], [.5, 2]], det 7.75.
    mean, variance = regression(both, [0, 1], [1.0, 2.0], [1.0, 0.0], 3.0, **options)
    np.testing.assert_allclose(mean, [(2.0 - 0.25) / 7.75, (1.0 - 0.5) / 7.75])
    v0 = 1.0 - (1.0 * (2.0 - 0.25) + 0.5 * (-0.5 + 2.0)) / 7.75
    assert variance[0] == pytest.approx(v0)
    # An explicit reference of 3 ages both by one: noises 5 and 3.
    mean, _ = regression(both, [0, 1], [1.0, 2.0], [1.0, 0.0], 3.0, reference=3.0, **options)
    np.testing.assert_allclose(mean, np.array([4.0 - 0.25, 2.0 - 0.5]) / 23.75)


def test_limits_of_the_models() -> None:
    plain = regression(K, INDEX, TIMES, Y, NOW, noise=NOISE)
    for options in (
        {"decay": ("markov", 0.0)},
        {"decay": ("wiener", 0.0)},
        {"inflation": ("exponential", 1.0)},
        {"inflation": ("injection", 0.5, 0.0)},
    ):
        same = regression(K, INDEX, TIMES, Y, NOW, noise=NOISE, **options)
        np.testing.assert_array_equal(plain, same)
    mean, variance = regression(K, INDEX, TIMES, Y, NOW, noise=NOISE, decay=("markov", 1.0))
    np.testing.assert_array_equal(mean, 0.0)
    np.testing.assert_array_equal(variance, 1.0)
    newest = regression(K, INDEX[-1:], TIMES[-1:], Y[-1:], NOW, noise=NOISE)
    last = regression(K, INDEX, TIMES, Y, NOW, noise=NOISE, inflation=("exponential", 1e-300))
    np.testing.assert_allclose(newest, last, atol=1e-12)


def test_zero_to_the_zero_is_zero() -> None:
    factor = noise_factor(("injection", 0.0, 2.0), np.array([0.0, 1.0]))
    np.testing.assert_array_equal(factor, [1.0, 3.0])
    assert decay_between(("markov", 1.0), np.array([2.0]), np.array([2.0]), 0.0)[0, 0] == 1.0


def test_double_weighted_gain_squares_the_growth_of_the_noise() -> None:
    gamma = 0.9
    gain = information_gain(K, INDEX, TIMES, noise=NOISE, inflation=("exponential", gamma), power=2)
    noise = NOISE * gamma ** (-2.0 * (TIMES[-1] - np.asarray(TIMES)))
    among = K[np.ix_(INDEX, INDEX)]
    _, above = np.linalg.slogdet(among + np.diag(noise))
    assert gain == pytest.approx(0.5 * (above - np.log(noise).sum()), abs=1e-9)


def test_kernels_by_hand() -> None:
    X = np.array([[0.0, 0.0], [0.3, 0.4]])
    assert squared_exponential(X, 0.5)[0, 1] == pytest.approx(math.exp(-0.5))
    s = math.sqrt(5.0)
    expected = (1 + s + s * s / 3) * math.exp(-s)
    assert matern_five_halves(X, 0.5)[0, 1] == pytest.approx(expected)


def test_winner_is_the_lowest_index_within_the_tolerance() -> None:
    assert winner(np.array([0.0, 1.0 - 0.9e-7, 1.0]), 1.0) == 1
    assert winner(np.array([0.0, 1.0 - 1.1e-7, 1.0]), 1.0) == 2
    assert winner(np.array([0.0, 1.0 - 1.9e-7, 1.0]), 4.0) == 1


def test_threshold_by_hand() -> None:
    L = math.log(2 * (math.pi**2 * 9 / 6) / 0.1)
    assert trigger_threshold(0.5, 0.02, 3, 0.1) == pytest.approx(
        0.5 * math.sqrt(2 * L) + math.sqrt(2 * 0.02 * L)
    )


def tell_all(bandit: DenseBandit, times: list[float], y: float = 0.0) -> None:
    for time in times:
        bandit.tell(bandit.consider(0, now=time), y)


@pytest.mark.parametrize(
    ("retention", "live"),
    [
        (("all",), [1, 2, 3, 4, 5]),
        (("period", 2, "rounds"), [5]),
        (("period", 5, "rounds"), []),  # round 6 starts anew: 5 mod 5 = 0
        (("period", 6, "rounds"), [1, 2, 3, 4, 5]),
        (("window", 2, "rounds"), [4, 5]),
        (("window", 9, "rounds"), [1, 2, 3, 4, 5]),
        (("period", 4.0, "time"), [5]),  # blocks [1, 5), [5, 9): now = 6
        (("period", 5.0, "time"), []),  # a new block begins exactly now
        (("window", 2.0, "time"), [4, 5]),  # 6 - 4 <= 2
        (("window", 0.5, "time"), []),
    ],
)
def test_what_is_retained(retention: tuple, live: list[int]) -> None:
    bandit = DenseBandit(K, NOISE, retention=retention)
    tell_all(bandit, [1.0, 2.0, 3.0, 4.0, 5.0])
    assert [int(row.time) for row in bandit.live(bandit.default_now())] == live


def test_trigger_keeps_its_point_and_restarts_its_clock() -> None:
    bandit = DenseBandit(K, NOISE, retention=("trigger", 0.1))
    assert not bandit.tell(bandit.consider(4), 0.1)
    assert not bandit.tell(bandit.consider(4), 0.1)
    # Third round: t' = t = 3. Just inside, then just outside.
    choice = bandit.consider(4)
    limit = trigger_threshold(choice.sd, NOISE, 3, 0.1)
    inside = DenseBandit(K, NOISE, retention=("trigger", 0.1), rows=list(bandit.rows))
    assert not inside.tell(choice, choice.mean + limit - 1e-9)
    assert bandit.tell(choice, choice.mean + limit + 1e-9)
    assert bandit.live(4.0) == [Row(4, 3.0, choice.mean + limit + 1e-9)]
    # Fourth round: t' = 1.
    choice = bandit.consider(4)
    limit = trigger_threshold(choice.sd, NOISE, 1, 0.1)
    assert bandit.tell(choice, choice.mean - limit - 1e-9)
    assert [row.time for row in bandit.live(5.0)] == [4.0]


def test_wiener_time_counts_from_the_reset() -> None:
    kept = DenseBandit(K, NOISE, decay=("wiener", 0.5), retention=("window", 1, "rounds"))
    reset = DenseBandit(K, NOISE, decay=("wiener", 0.5), retention=("period", 3, "rounds"))
    for bandit in (kept, reset):
        tell_all(bandit, [1.0, 2.0, 3.0])
    np.testing.assert_allclose(reset.predict().variance, 1.0)  # nothing known, nothing elapsed
    tell_all(reset, [4.0])
    np.testing.assert_allclose(reset.predict().variance[0], 1.5 - 1.0 / 1.02)
    # The window forgot rounds 1 and 2 but not that time began at 1: k(now, now) = 1 + .5 * 3.
    np.testing.assert_allclose(kept.predict().variance[0], 2.5 - 4.0 / 2.02)


def test_round_without_data_plays_index_zero() -> None:
    uneven = np.diag([1.0, 4.0])
    bandit = DenseBandit(uneven, NOISE, multiplier=lambda t, g, gbar: 2.0)
    assert bandit.choose().index == 0
    bandit.tell(bandit.consider(0), 0.0)
    assert bandit.choose().index == 1
