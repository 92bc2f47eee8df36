"""Where measurements succeed: the probability against the textbook, and what it does to choices."""

import itertools
import math
import warnings

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import RBFKernel
from scipy.special import softmax

from botorch_tv import (
    Box,
    Choice,
    Grid,
    Loop,
    adaptive_gp_ucb,
    et_gp_ucb,
    gp_ei,
    gp_ts,
    gp_ucb,
    random_search,
)
from botorch_tv.strategies import DiscreteSearch, outcomes
from botorch_tv.strategies.outcomes import Success

UNIT = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


def textbook(U, ok, age, points):
    """The probability by one regression on labels for each outcome, given those before it."""
    label, mean = np.where(ok, 1.0, -1.0), 2 * outcomes.PRIOR - 1
    logs, found = [], []
    hypotheses = itertools.product((*outcomes.LENGTHSCALES, None), outcomes.RATES)
    for length, rate in hypotheses:

        def covariance(X, Y, s, t, length=length, rate=rate):
            square = ((X[:, None] - Y[None]) ** 2).sum(-1)
            near = 0 if length is None else outcomes.LOCAL * np.exp(-0.5 * square / length**2)
            return (outcomes.LEVEL + near) * (1 - rate) ** (np.abs(s[:, None] - t) / 2)

        def predicted(n, X, at, covariance=covariance):
            K = covariance(U[:n], U[:n], age[:n], age[:n]) + outcomes.NOISE * np.eye(n)
            k = covariance(X, U[:n], at, age[:n])
            return mean + k @ np.linalg.solve(K, label[:n] - mean)

        share = outcomes.GLITCH if length is None else (1 - outcomes.GLITCH) / 2
        log = math.log(share / len(outcomes.RATES))
        for n in range(len(U)):
            p = (1 + predicted(n, U[n : n + 1], age[n : n + 1])[0]) / 2
            p = p if ok[n] else 1 - p
            log += math.log(min(max(p, outcomes.LEAST), 1 - outcomes.LEAST))
        logs.append(log)
        now = predicted(len(U), points, np.zeros(len(points)))
        found.append((1 + np.clip(now, -1, 1)) / 2)
    return softmax(logs) @ np.array(found)


@pytest.mark.parametrize("seed", range(3))
def test_the_probability_is_that_of_the_textbook(seed):
    random = np.random.default_rng(seed)
    U, ok = random.random((12, 2)), random.random(12) < 0.7
    ok[0] = False
    age = np.sort(random.choice(20, 12, replace=False))[::-1].astype(float)
    gap = np.median(-np.diff(age))
    points = random.random((5, 2))
    corners = torch.tensor([[10.0, -4.0], [30.0, 4.0]], dtype=torch.float64)
    lower, sides = corners[0].numpy(), (corners[1] - corners[0]).numpy()
    X = torch.from_numpy(lower + sides * U)
    chance = Success(X, torch.from_numpy(ok), torch.from_numpy(100 - age), corners, 100)
    wanted = textbook(U, ok, age / gap, points)
    at = torch.from_numpy(lower + sides * points)
    np.testing.assert_allclose(chance.at(at).numpy(), wanted, rtol=0, atol=1e-10)


def test_the_unit_of_time_lies_between_measurements_not_before_the_present():
    U, ok = np.array([[0.2, 0.2], [0.8, 0.8]]), np.array([True, False])
    time = torch.tensor([0.0, 4.0], dtype=torch.float64)
    chance = Success(torch.from_numpy(U), torch.from_numpy(ok), time, UNIT, 5)
    wanted = textbook(U, ok, np.array([5.0, 1.0]) / 4, U)
    np.testing.assert_allclose(chance.at(torch.from_numpy(U)).numpy(), wanted, rtol=0, atol=1e-10)


def test_one_failure_among_successes_is_a_glitch_and_several_are_a_region():
    random = np.random.default_rng(0)
    near = 0.5 + 0.05 * random.standard_normal((12, 2))
    X = torch.from_numpy(np.concatenate([random.random((6, 2)), near]))
    place = torch.tensor([[0.5, 0.5]], dtype=torch.float64)

    def probability(failures):
        n = len(X) + failures
        ok = torch.arange(n) < len(X)
        every = torch.cat([X, place.expand(failures, -1)])
        return float(Success(every, ok, torch.arange(n).double(), UNIT, n).at(place))

    assert probability(1) > 0.75
    assert probability(8) < 0.5
    assert probability(8) < probability(4) < probability(1)


def test_a_failure_is_forgotten():
    X = torch.tensor([[0.2, 0.2], [0.8, 0.8], [0.8, 0.8], [0.8, 0.8]], dtype=torch.float64)
    told = X, torch.tensor([True, False, False, False]), torch.arange(4).double()
    soon, late = (float(Success(*told, UNIT, now).at(X[1:2])) for now in (4, 400))
    assert soon < late


def test_outcomes_of_one_time_may_have_any_unit_of_time():
    X = torch.tensor([[0.2, 0.2], [0.8, 0.8], [0.8, 0.8]], dtype=torch.float64)
    ok, time = torch.tensor([True, False, False]), torch.zeros(3, dtype=torch.float64)
    hours, seconds = (Success(X, ok, time, UNIT, now).at(X) for now in (1, 3600))
    torch.testing.assert_close(hours, seconds)


FORBIDDEN = {
    "half": lambda x, y: x > 0.66,
    "corner": lambda x, y: x + y > 1.18,
    "disc": lambda x, y: (x - 0.6) ** 2 + (y - 0.5) ** 2 < 0.33**2,
}


@pytest.mark.parametrize("shape", FORBIDDEN)
def test_a_forbidden_region_is_left(shape):
    fails, loop, inside = FORBIDDEN[shape], Loop({"x": (0, 1), "y": (0, 1)}), 0
    for number in range(40):
        x, y = loop.ask().point.values()
        inside += number >= 20 and fails(x, y)
        ok = not fails(x, y)
        loop.tell(-((x - 0.7) ** 2) - (y - 0.55) ** 2 if ok else None, ok=ok)
    assert inside <= 4
    assert not fails(*loop.recommend().values())


KERNEL = RBFKernel().double()
KERNEL.lengthscale = 0.2
KNOWN = {"kernel": KERNEL, "noise": 0.01}
STRATEGIES = {
    "adaptive": adaptive_gp_ucb(),
    "bound": gp_ucb(**KNOWN),
    "improvement": gp_ei(**KNOWN),
    "sample": gp_ts(**KNOWN),
}
DOMAINS = {
    "box": Box([(0.0, 1.0), (0.0, 1.0)]),
    "points": Box(UNIT, search=DiscreteSearch(Grid.regular(points=15, dim=2).X)),
    "grid": Grid.regular(points=15, dim=2),
}


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_and_domain_leaves_it(strategy, domain):
    loop, inside = Loop(STRATEGIES[strategy], DOMAINS[domain]), 0
    for number in range(30):
        x, y = loop.ask().point
        ok = x <= 0.6
        inside += number >= 15 and not ok
        loop.tell(2 - (x - 0.7) ** 2 - (y - 0.5) ** 2 if ok else None, ok=ok)
    assert inside <= 4
    assert loop.recommend()[0] <= 0.6


def test_who_draws_points_draws_again():
    loop, inside = Loop(random_search(**KNOWN), DOMAINS["box"]), 0
    for number in range(40):
        x, y = loop.ask().point
        inside += number >= 20 and x > 0.6
        loop.tell(1 - (x - 0.7) ** 2 - (y - 0.5) ** 2, ok=x <= 0.6)
    assert inside <= 4


def test_a_machine_that_fails_most_of_the_time_anywhere_is_optimised():
    """Probability tells no place from another, so that only the objective does."""
    random, apart = np.random.default_rng(1), []
    loop = Loop({"x": (0, 1), "y": (0, 1)})
    for number in range(60):
        x, y = loop.ask().point.values()
        square = (x - 0.3) ** 2 + (y - 0.7) ** 2
        apart += [square] if number >= 40 else []
        loop.tell(math.exp(-square / 0.08), ok=random.random() < 0.3)
    assert np.mean(np.array(apart) < 0.03) > 0.8


def test_where_everything_fails_nothing_is_recommended():
    loop = Loop([(0, 1)])
    for number in range(20):
        loop.ask()
        loop.tell(1.0 * number, ok=number < 5)
    with pytest.raises(InputDataError, match="more likely to fail than to succeed"):
        loop.recommend()
    assert "more likely to fail" in loop.describe()


def test_a_recommendation_that_no_measurement_supports_says_so():
    """An event trigger forgets all but one reading, which is low."""
    strategy = et_gp_ucb(kernel=KERNEL, noise=0.01)
    loop = Loop(strategy, Grid.regular(points=15, dim=2))
    for _ in range(12):
        loop.ask()
        loop.tell(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loop.recommend()
    assert "No measurement supports" not in loop.describe()
    loop.observe(torch.tensor([0.0, 0.0]), -3.0)
    assert loop.last.reset
    with pytest.warns(UserWarning, match="No measurement supports this setting"):
        loop.recommend()
    assert "No measurement supports this setting" in loop.describe()


def test_a_category_that_always_fails_is_left():
    loop, bad = Loop({"kind": Choice("a", "b", "c"), "x": (0, 1)}), 0
    for number in range(30):
        point = loop.ask().point
        ok = point["kind"] != "b"
        bad += number >= 12 and not ok
        loop.tell(-((point["x"] - 0.4) ** 2), ok=ok)
    assert bad <= 2
    assert loop.recommend()["kind"] != "b"


def test_a_failure_changes_nothing_that_is_learned_about_the_objective():
    one, other = Loop([(0, 1), (0, 1)]), Loop([(0, 1), (0, 1)])
    points = torch.rand(12, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for number, X in enumerate(points):
        y = math.sin(5 * float(X.sum()))
        for loop in (one, other):
            loop.observe(X, y, time=number)
    one.observe(torch.tensor([0.5, 0.5]), ok=False, time=11.5)
    at = torch.rand(20, 2, dtype=torch.float64)
    ours, wanted = (loop.posterior(at, now=13) for loop in (one, other))
    assert torch.equal(ours.mean, wanted.mean)
    assert torch.equal(ours.variance, wanted.variance)
