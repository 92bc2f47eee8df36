"""When to measure, what changed, when to stop, and how well strategies predict."""

import math

import numpy as np
import pytest
from botorch.exceptions import InputDataError
from loop.loops import BANK, NOISE, kernel
from scipy.stats import norm

from botorch_tv import Loop, adaptive_gp_ucb, gp_ucb, tv_gp_ucb
from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.loop.monitor import changes, value_of_measuring
from botorch_tv.strategies import Grid

EPSILON = 0.1
X = np.linspace(0, 1, 9)
ARMS = (0, 3, 5, 8, 3, 2, 4, 3, 4, 1)
TIMES = np.arange(1.0, 11.0)
Y = np.array([0.1, -0.1, 0.6, 0.1, -0.5, 0.4, 1.3, 0.9, -0.7, 0.3])
GRID = Grid.regular(9, 1)


def measured(strategy):
    loop = Loop(strategy, GRID)
    for arm, time, y in zip(ARMS, TIMES, Y):
        loop.observe([X[arm]], y, time=time)
    return loop


def textbook(now, count=10, epsilon=EPSILON):
    """Mean and covariance of f_now on all arms, given the first measurements."""

    def covariance(x, s, z, t):
        lag = np.abs(np.subtract.outer(s, t))
        return np.exp(-(np.subtract.outer(x, z) ** 2) / 0.18) * (1 - epsilon) ** (lag / 2)

    at, times, present = X[list(ARMS[:count])], TIMES[:count], np.full(9, now)
    cross = covariance(X, present, at, times)
    inverse = np.linalg.inv(covariance(at, times, at, times) + NOISE * np.eye(count))
    prior = covariance(X, present, X, present)
    return cross @ inverse @ Y[:count], prior - cross @ inverse @ cross.T


@pytest.mark.parametrize("sign", [1, -1])
def test_gain_is_that_of_the_joint_posterior(sign):
    loop = measured(tv_gp_ucb(kernel=kernel(), noise=NOISE, epsilon=EPSILON, maximize=sign > 0))
    mean, K = textbook(11.0)
    best = int(np.abs(X - loop.recommend(now=11.0)[0]).argmin())
    for at, given in ((1, None), (7, [X[7]])):
        sd = math.sqrt(K[best, best] + K[at, at] - 2 * K[best, at])
        expected = sign * (mean[best] - mean[at])
        found = loop.gain(given, now=11.0)
        assert found == pytest.approx((expected, sd, norm.cdf(expected / sd)), abs=1e-7)
    same = loop.gain([X[best]], now=11.0)
    assert same == pytest.approx((0, 0, 0), abs=1e-7)


def test_value_of_measuring_is_the_knowledge_gradient():
    loop = measured(tv_gp_ucb(kernel=kernel(), noise=NOISE, epsilon=EPSILON))
    mean, K = textbook(15.0)
    z = norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    moves = K / np.sqrt(K.diagonal() + NOISE)
    gains = [(mean[:, None] + np.outer(move, z)).max(0).mean() for move in moves.T]
    found = value_of_measuring(loop.strategy, loop.state, GRID.X, 15.0)
    assert float(found) == pytest.approx(max(gains) - mean.max(), rel=0.02)


def test_a_measurement_becomes_worth_its_cost():
    loop = measured(tv_gp_ucb(kernel=kernel(), noise=NOISE, epsilon=0.01))
    first = loop.worth_measuring(0.3, now=11.0)
    assert not first
    assert 0 < first.gain < 0.3
    assert 0 < first.wait < math.inf
    assert loop.worth_measuring(0.3, now=11.0 + first.wait).wait == 0
    assert not loop.worth_measuring(0.3, now=11.0 + first.wait / 2)
    assert loop.worth_measuring(0.9 * first.gain, now=11.0)
    assert loop.worth_measuring(1e9, now=11.0).wait == math.inf
    assert Loop(GRID).worth_measuring(1e9)  # nothing is known yet
    with pytest.raises(ValueError, match="cost"):
        loop.worth_measuring(-1.0)


def test_evidence_sums_the_likelihood_ratios_of_all_starts():
    rows = [(float(t), e) for t, e in enumerate(np.random.default_rng(1).normal(size=12))]
    ratios = np.array([[math.exp(m * e - m * m / 2) for _, e in rows] for m in SHIFTS])
    sums = [sum(ratios[:, k : n + 1].prod(1).mean() for k in range(n + 1)) for n in range(12)]
    largest, found = changes(rows, 1e9)
    assert largest == pytest.approx(max(sums))
    assert not found


SHIFTS = [sign * m for m in (0.5, 1.0, 2.0, 4.0) for sign in (1, -1)]


def test_false_detections_keep_their_rate():
    e = np.random.default_rng(2).normal(size=8_000).tolist()
    _, found = changes(list(enumerate(e)), 50.0)
    assert 40 < len(found) <= 8_000 / 50
    _, found = changes([(t, x - 1.5 * (t >= 70)) for t, x in enumerate(e[:100])], 1e3)
    assert found
    assert abs(found[0] - 70) <= 3


def level(x, t):
    """A parabola whose optimum jumps after time 20."""
    noise = 0.1 * math.sin(1e4 * x + 7.0 * t)
    return 20 - 30 * (x - (0.3 if t <= 20 else 0.8)) ** 2 + noise


def test_a_jump_is_detected_and_dated():
    loop, before = Loop(adaptive_gp_ucb(bank=BANK_WITH_JUMPS), GRID), []
    for t in range(1, 27):
        suggestion = loop.ask()
        loop.tell(level(suggestion.X.item(), t))
        if t == 20:
            before = [loop.drifted(), loop.should_stop()]
    static, stop = before
    assert not static
    assert static.time is None
    assert stop
    assert stop.improvement < stop.noise
    found = loop.drift_alarm(false_alarms=0.01)
    assert found
    assert found.time in (21.0, 22.0)
    assert found.evidence > 100
    assert not loop.should_stop()
    assert loop.should_stop().reason.startswith("never")


BANK_WITH_JUMPS = Bank(
    rates=(0.0, 0.03), hazards=(0.0, 0.02), lengthscales=(0.3,), noise_ratios=(0.01,)
)


def test_settings_beyond_limits_gain_nothing():
    """y rises with x to 1, where p = y is too large."""
    model = gp_ucb(kernel=kernel(), noise=NOISE)
    loop = Loop(model, {"x": (0, 1)}, objective="y", constraints="p <= 0.5")
    for x in (*X, 0.4, 0.5, 0.45, 0.5):
        loop.observe({"x": x}, {"y": 4 * x, "p": x})
    assert loop.should_stop()
    assert loop.should_stop().improvement < 0.1 < 4 * 0.5
    assert not loop.worth_measuring(0.2)
    loop.limit("p", -9)
    assert "no setting keeps the limits" in loop.should_stop().reason
    assert loop.worth_measuring(1e9)


def test_a_strategy_that_assumes_drift_never_stops():
    assert not measured(tv_gp_ucb(kernel=kernel(), noise=NOISE, epsilon=EPSILON)).should_stop()
    assert measured(gp_ucb(kernel=kernel(), noise=100.0)).should_stop()


def test_backtest_scores_predictions_made_before_each_measurement():
    loop = measured(adaptive_gp_ucb(bank=BANK))
    given = {"TV": tv_gp_ucb(kernel=kernel(), noise=NOISE, epsilon=EPSILON)}
    given["GP"] = gp_ucb(kernel=kernel(), noise=NOISE)
    frame = loop.backtest(given)
    for name, epsilon in (("TV", EPSILON), ("GP", 0.0)):
        mean, sd = np.zeros(10), np.full(10, math.sqrt(1 + NOISE))
        for n in range(1, 10):
            every, K = textbook(TIMES[n], n, epsilon)
            mean[n], sd[n] = every[ARMS[n]], math.sqrt(K[ARMS[n], ARMS[n]] + NOISE)
        row = frame.loc[name]
        assert row["rmse"] == pytest.approx(np.sqrt(np.mean((Y - mean) ** 2)), abs=1e-7)
        assert row["log_score"] == pytest.approx(norm.logpdf(Y, mean, sd).mean(), abs=1e-6)
        assert row["coverage"] == np.mean(np.abs(Y - mean) <= norm.ppf(0.975) * sd)
    assert list(frame["log_score"]) == sorted(frame["log_score"], reverse=True)
    with pytest.raises(InputDataError, match="measurements"):
        Loop(GRID).backtest()


def test_backtest_of_named_outcomes_is_that_of_the_objective():
    strategies = {"GP": gp_ucb(kernel=kernel(), noise=NOISE)}
    named, plain = Loop({"x": (0, 1)}, objective="2 * a - b"), Loop({"x": (0, 1)})
    for n, x in enumerate((0.1, 0.8, 0.4, 0.5, 0.3, 0.9)):
        values = {"a": x, "b": n / 5} if n != 3 else {"a": x}
        named.observe({"x": x}, values)
        plain.observe({"x": x}, 2 * x - n / 5, ok=n != 3)
    assert named.backtest(strategies).equals(plain.backtest(strategies))
    assert named.drifted() == plain.drifted()


@pytest.mark.full
def test_backtest_compares_the_usual_strategies():
    found = measured(adaptive_gp_ucb(bank=BANK)).backtest()
    assert set(found.index) == {"this loop", "adaptive", "drift", "jumps", "static"}
    assert found["measurements"].nunique() == 1
