"""The oracle against hand calculations and against second ways to compute the same thing."""

import copy
import math

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import exact
from oracles.dense import (
    DenseBandit,
    Row,
    information_gain,
    joint_regression,
    log_improvement,
    matern_five_halves,
    probability_best,
    regression,
    squared_exponential,
    winner,
)
from oracles.expert import Consultant, greedy
from oracles.rules import trigger_threshold

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
    assert_allclose(mean, by_filter, atol=1e-11)
    assert_allclose(variance, covariance.diagonal(), atol=1e-11)
    determinant = information_gain(K, INDEX, TIMES, noise=NOISE, decay=decay)
    assert determinant == pytest.approx(gain, abs=1e-10)


def test_one_observation_by_hand() -> None:
    k, k0 = K[3], K[3, 3]
    mean, variance = regression(K, [3], [2.0], [1.5], 3.0, noise=0.5)
    assert_allclose(mean, k * 1.5 / 1.5)
    assert_allclose(variance, 1.0 - k**2 / 1.5)
    # Markov: the newest observation carries (1 - eps)^(1/2) one step later.
    mean, variance = regression(K, [3], [2.0], [1.5], 3.0, noise=0.5, decay=("markov", 0.19))
    assert_allclose(mean, 0.9 * k * 1.5 / 1.5)
    assert_allclose(variance, k0 - 0.81 * k**2 / 1.5)
    # Wiener: time counts from this observation; one step adds sigma_w2 k(x, x).
    _, variance = regression(K, [3], [2.0], [1.5], 3.0, noise=0.5, decay=("wiener", 0.3))
    assert_allclose(variance, 1.3 - k**2 / 1.5)


def test_two_observations_by_hand() -> None:
    both = np.array([[1.0, 0.5], [0.5, 1.0]])
    options = {"noise": 1.0, "inflation": ("injection", 1.0, 2.0)}
    # The older one, lag 1, has noise 1 * (1 + 2) = 3: invert [[4, .5], [.5, 2]], det 7.75.
    mean, variance = regression(both, [0, 1], [1.0, 2.0], [1.0, 0.0], 3.0, **options)
    assert_allclose(mean, [(2.0 - 0.25) / 7.75, (1.0 - 0.5) / 7.75])
    v0 = 1.0 - (1.0 * (2.0 - 0.25) + 0.5 * (-0.5 + 2.0)) / 7.75
    assert variance[0] == pytest.approx(v0)
    # An explicit reference of 3 ages both by one: noises 5 and 3.
    mean, _ = regression(both, [0, 1], [1.0, 2.0], [1.0, 0.0], 3.0, reference=3.0, **options)
    assert_allclose(mean, np.array([4.0 - 0.25, 2.0 - 0.5]) / 23.75)


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


def test_trigger_retains_its_point_and_restarts_its_clock() -> None:
    bandit = DenseBandit(K, NOISE, retention=("trigger", 0.1))
    assert not bandit.tell(bandit.consider(4), 0.1)
    assert not bandit.tell(bandit.consider(4), 0.1)
    # Third round: t' = t = 3. Just inside, then just outside.
    choice = bandit.consider(4)
    limit = trigger_threshold(choice.sd, NOISE, 3, 0.1)
    inside = copy.deepcopy(bandit)
    assert not inside.tell(choice, choice.mean + limit - 1e-9)
    assert bandit.tell(choice, choice.mean + limit + 1e-9)
    assert bandit.live(4.0) == [Row(4, 3.0, choice.mean + limit + 1e-9, NOISE)]
    # Fourth round: t' = 1.
    choice = bandit.consider(4)
    limit = trigger_threshold(choice.sd, NOISE, 1, 0.1)
    assert bandit.tell(choice, choice.mean - limit - 1e-9)
    assert [row.time for row in bandit.live(5.0)] == [4.0]


def test_wiener_time_counts_from_the_reset() -> None:
    retained = DenseBandit(K, NOISE, decay=("wiener", 0.5), retention=("window", 1, "rounds"))
    reset = DenseBandit(K, NOISE, decay=("wiener", 0.5), retention=("period", 3, "rounds"))
    for bandit in (retained, reset):
        tell_all(bandit, [1.0, 2.0, 3.0])
    assert_allclose(reset.predict().variance, 1.0)  # nothing known, nothing elapsed
    tell_all(reset, [4.0])
    assert_allclose(reset.predict().variance[0], 1.5 - 1.0 / 1.02)
    # The window forgot rounds 1 and 2 but not that time began at 1: k(now, now) = 1 + .5 * 3.
    assert_allclose(retained.predict().variance[0], 2.5 - 4.0 / 2.02)


@pytest.mark.parametrize("exploration", ["ucb", "ei", "pi"])
def test_round_without_data_plays_the_widest_prior(exploration: str) -> None:
    # [B16] Algorithm 1, lines 3 to 5: the argmax of mu_0 + sqrt(beta) sigma_0, then as always.
    wide = {"sqrt_beta": lambda t, g, gbar: 2.0, "exploration": exploration}
    bandit = DenseBandit(np.diag([1.0, 4.0, 2.0]), NOISE, **wide)
    assert bandit.choose().index == 1


@pytest.mark.parametrize("u", [2e3, 60.0, 5.0, 1.0, 0.0, -0.5, -1.0, -3.0, -10.0, -40.0, -300.0])
def test_log_improvement_to_many_digits(u: float) -> None:
    with mpmath.workdps(60):
        exact = mpmath.log(mpmath.npdf(u) + mpmath.mpf(u) * mpmath.ncdf(u)) if u > -30 else None
        if exact is None:  # ncdf cancels there: phi(u) + u Phi(u) = the integral of Phi below u
            tail = mpmath.erfc(-mpmath.mpf(u) / mpmath.sqrt(2)) / 2
            exact = mpmath.log(mpmath.npdf(u) + mpmath.mpf(u) * tail)
    assert float(log_improvement(np.array(u))) == pytest.approx(float(exact), rel=1e-9, abs=1e-12)


def observed(**arguments: object) -> DenseBandit:
    """Three unrelated arms of variance 1; arms 0 and 1 seen once with noise 1, arm 2 never."""
    bandit = DenseBandit(np.eye(3), 1.0, gains=False, **arguments)
    bandit.tell(bandit.consider(0), 2.0)
    bandit.tell(bandit.consider(1), -2.0)
    return bandit  # means 1, -1, 0; variances 1/2, 1/2, 1


def test_improvement_by_hand() -> None:
    # Incumbent 1. u is 0, -2 / sqrt(.5), -1: PI likes the incumbent itself.
    assert observed(exploration="pi").choose().index == 0
    # EI: sqrt(.5) h(0) = .282; h(-1) = .0833: likewise.
    assert observed(exploration="ei").choose().index == 0
    # Minimising: incumbent -1 at arm 1, by symmetry.
    assert observed(exploration="pi", maximize=False).choose().index == 1
    assert observed(exploration="ei", maximize=False).choose().index == 1
    assert observed(maximize=False).recommend() == 1
    assert observed().recommend() == 0
    # Lower confidence bounds: -1 - .71 b against 0 - b; the unseen arm wins from b = 3.5 on.
    assert observed(maximize=False, sqrt_beta=lambda t, g, gbar: 3.3).choose().index == 1
    assert observed(maximize=False, sqrt_beta=lambda t, g, gbar: 3.5).choose().index == 2


def test_incumbent_is_the_best_mean_among_retained_arms() -> None:
    bandit = observed(exploration="ei", retention=("window", 1, "rounds"))
    assert bandit.choose().index == 0
    bandit = observed(exploration="pi", retention=("window", 1, "rounds"))
    assert bandit.choose().index == 0
    # A failed look at arm 2 names no incumbent, and nothing but failures is no data.
    bandit = observed(exploration="pi")
    bandit.tell(bandit.consider(2), math.nan, ok=False)
    assert bandit.choose().index == 0
    empty = DenseBandit(np.diag([1.0, 4.0]), 1.0, gains=False, exploration="ei")
    empty.tell(empty.consider(1), math.nan, ok=False)
    assert empty.choose().index == 1  # the widest prior
    assert empty.default_now() == 2.0


def test_failed_round_counts_and_cannot_trigger() -> None:
    bandit = DenseBandit(K, NOISE, retention=("trigger", 0.1))
    assert not bandit.tell(bandit.consider(4), math.nan, ok=False)
    assert not bandit.tell(bandit.consider(4), 1e9, ok=False)
    # Round 3, t' = 3, with noise of its own: the band is that observation's.
    choice = bandit.consider(4)
    limit = trigger_threshold(1.0, 0.5, 3, 0.1)
    inside = copy.deepcopy(bandit)
    assert not inside.tell(choice, limit - 1e-9, noise=0.5)
    assert bandit.tell(choice, limit + 1e-9, noise=0.5)
    window = DenseBandit(K, NOISE, retention=("window", 2, "rounds"))
    for ok in (True, False, False):
        window.tell(window.consider(0), 1.0, ok=ok)
    assert not window.predict().usable


def test_how_often_an_arm_is_best() -> None:
    mean, covariance = np.array([0.3, 0.0]), np.array([[1.0, 0.6], [0.6, 2.0]])
    expected = 0.5 * math.erfc(-0.3 / math.sqrt(1.0 + 2.0 - 1.2) / math.sqrt(2.0))
    often = probability_best(mean, covariance, 100_000, seed=0)
    assert often[0] == pytest.approx(expected, abs=5 * math.sqrt(0.25 / 100_000))
    assert often.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("mean", [0.0, 0.7, "estimated"])
@pytest.mark.parametrize("decay", [("static",), ("markov", 0.1), ("wiener", 0.1)])
def test_fifty_digits_agree_with_sixteen(decay: tuple, mean: object) -> None:
    noise = np.full(10, NOISE)
    noise[3] = math.inf
    data = {
        "noise": noise,
        "decay": decay,
        "inflation": ("injection", 0.5, 2.0),
        "reference": TIMES[9],
        "origin": TIMES[0],
        "mean": mean,
    }
    given = (K, INDEX[:10], TIMES[:10], Y[:10], TIMES[9] + 1.5)
    one, another = joint_regression(*given, **data), exact.joint_regression(*given, **data)
    assert_allclose(one[0], another[0], atol=1e-12)
    assert_allclose(one[1], another[1], atol=1e-12)
    nothing = exact.joint_regression(K, [], [], [], 2.0, **data | {"noise": [], "origin": 1.0})
    expected = joint_regression(K, [], [], [], 2.0, **data | {"noise": [], "origin": 1.0})
    assert_allclose(nothing[1], expected[1])
    assert_allclose(nothing[0], expected[0])


def test_greedy_takes_the_largest_variance() -> None:
    K = np.array([[1.0, 0, 0, 0], [0, 4, 4, 2], [0, 4, 4, 2], [0, 2, 2, 2]])
    assert greedy(K, [0, 1, 2, 3], 2) == [1, 0]  # left of arm 3: 2 - 4 / 4 = 1, a tie with arm 0
    assert greedy(K, [3, 2, 1, 0], 3) == [2, 3, 0]
    assert greedy(K, [0, 1, 2, 3], 4) == [1, 0, 3]  # the fourth says nothing new
    assert greedy(K, [3], 4) == [3]


def test_answers_replace_all_earlier_rows() -> None:
    bandit = DenseBandit(np.eye(4), 1.0, consultant=Consultant(lambda t: t == 2, c_Q=9.0))
    for arm, y, ok in ((2, 0.8, False), (1, 0.5, True), (3, -1.0, True)):
        bandit.tell(bandit.consider(arm), y, ok=ok)
    # Asked after round 2: of arm 2, first in round 1, nothing is said, since 1 + 2 = 3.
    assert [(row.index, row.time) for row in bandit.live(4.0)] == [(1, 2.0), (3, 3.0)]
    answer = 0.5 * 0.5 + math.cos(2 + 0.6)
    np.testing.assert_allclose(bandit.predict().mean, [0.0, answer / 2, 0.0, -0.5])
    silent = DenseBandit(np.eye(4), 1.0, consultant=Consultant(lambda t: t == 2))
    for arm in (1, 1):
        silent.tell(silent.consider(arm), 1.0)
    assert [row.time for row in silent.live(3.0)] == [1.0, 2.0]
