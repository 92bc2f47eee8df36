"""Where measurements succeed, pending points, and categories tried again."""

import itertools
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from gp.mixture.readings import bank_of
from oracles.bank import predicted
from scipy.special import softmax
from scipy.stats import truncnorm

from botorch_tv import (
    Box,
    Choice,
    Grid,
    Integer,
    Loop,
    adaptive_gp_ucb,
    et_gp_ucb,
    gp_ei,
    gp_ts,
    gp_ucb,
    random_search,
    tv_gp_ucb,
)
from botorch_tv.acquisition import Constant
from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.loop.log import (
    CAUTION,
    OLDEST,
    Censored,
    MeasurementLog,
    trial_answer,
    trial_log,
)
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import DiscreteSearch, MultiStart, Strategy, feasible
from botorch_tv.strategies.box import holding
from botorch_tv.strategies.feasible import Success, corners_of
from botorch_tv.strategies.parameters import Number, Space
from botorch_tv.strategies.pending import SOON, apart, as_if_measured, due_again, overdue
from botorch_tv.strategies.state import State

UNIT = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


def chance_of(X, ok, time, corners, now) -> Success:
    """The probability of success for a single trial."""
    rows = (part.unsqueeze(0) for part in (X, ok, time))
    return Success(*rows, corners, torch.tensor([now], dtype=torch.float64))


def at(chance: Success, points: torch.Tensor) -> torch.Tensor:
    return chance.probability(points.unsqueeze(0))[0]


def textbook(U, ok, age, points):
    label, mean = np.where(ok, 1.0, -1.0), 2 * feasible.PRIOR - 1
    logs, found = [], []
    hypotheses = itertools.product((*feasible.LENGTHSCALES, None), feasible.RATES)
    for length, rate in hypotheses:

        def covariance(X, Y, s, t, length=length, rate=rate):
            square = ((X[:, None] - Y[None]) ** 2).sum(-1)
            near = 0 if length is None else feasible.LOCAL * np.exp(-0.5 * square / length**2)
            return (feasible.LEVEL + near) * (1 - rate) ** (np.abs(s[:, None] - t) / 2)

        def predicted(n, X, at, covariance=covariance):
            K = covariance(U[:n], U[:n], age[:n], age[:n]) + feasible.NOISE * np.eye(n)
            k = covariance(X, U[:n], at, age[:n])
            return mean + k @ np.linalg.solve(K, label[:n] - mean)

        share = feasible.GLITCH if length is None else (1 - feasible.GLITCH) / 2
        log = math.log(share / len(feasible.RATES))
        for n in range(len(U)):
            p = (1 + predicted(n, U[n : n + 1], age[n : n + 1])[0]) / 2
            p = p if ok[n] else 1 - p
            log += math.log(min(max(p, feasible.LEAST), 1 - feasible.LEAST))
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
    lower, ranges = corners[0].numpy(), (corners[1] - corners[0]).numpy()
    X = torch.from_numpy(lower + ranges * U)
    chance = chance_of(X, torch.from_numpy(ok), torch.from_numpy(100 - age), corners, 100)
    wanted = textbook(U, ok, age / gap, points)
    found = at(chance, torch.from_numpy(lower + ranges * points))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=0, atol=1e-10)


def test_a_batch_has_the_feasibility_of_its_trials():
    random = np.random.default_rng(0)
    X, ok = (
        torch.from_numpy(random.random((3, 9, 2))),
        torch.from_numpy(random.random((3, 9)) < 0.6),
    )
    time = torch.from_numpy(random.random((3, 9)).cumsum(-1))
    now, points = 1 + time[:, -1], torch.from_numpy(random.random((3, 4, 2)))
    batch, order = Success(X, ok, time, UNIT, now), torch.tensor([2, 0])
    some = batch.select(order).judge(points[order])
    for n in range(3):
        alone = Success(X[n : n + 1], ok[n : n + 1], time[n : n + 1], UNIT, now[n : n + 1])
        for number, wanted in enumerate(alone.judge(points[n : n + 1])):
            torch.testing.assert_close(batch.judge(points)[number][n], wanted[0])
            if n != 1:
                torch.testing.assert_close(some[number][n // 2 - 1], wanted[0])


def test_the_unit_of_time_lies_between_measurements_not_before_the_present():
    U, ok = np.array([[0.2, 0.2], [0.8, 0.8]]), np.array([True, False])
    time = torch.tensor([0.0, 4.0], dtype=torch.float64)
    chance = chance_of(torch.from_numpy(U), torch.from_numpy(ok), time, UNIT, 5)
    wanted = textbook(U, ok, np.array([5.0, 1.0]) / 4, U)
    found = at(chance, torch.from_numpy(U))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=0, atol=1e-10)


def test_outcomes_at_a_single_time_may_have_any_unit_of_time():
    X = torch.tensor([[0.2, 0.2], [0.8, 0.8], [0.8, 0.8]], dtype=torch.float64)
    ok, time = torch.tensor([True, False, False]), torch.zeros(3, dtype=torch.float64)
    hours, seconds = (at(chance_of(X, ok, time, UNIT, now), X) for now in (1, 3600))
    torch.testing.assert_close(hours, seconds)


KERNEL = unit_kernel("se", 0.2)
GIVEN = {"kernel": KERNEL, "noise": 0.01}
SMALL = Bank(outliers=0.0, rates=(0.0, 0.03), noise_ratios=(0.01,))
QUICK = MultiStart(raw_samples=64, restarts=3, evaluations=20)
STRATEGIES = {
    "adaptive": adaptive_gp_ucb(bank=SMALL),
    "bound": gp_ucb(**GIVEN),
    "improvement": gp_ei(**GIVEN),
    "sample": gp_ts(**GIVEN),
}
DOMAINS = {
    "box": Box(UNIT, search=QUICK),
    "points": Box(UNIT, search=DiscreteSearch(Grid.regular(points=15, dim=2).X)),
    "grid": Grid.regular(points=15, dim=2),
}


@pytest.mark.few("improvement-grid")
@pytest.mark.parametrize(
    ("strategy", "domain"),
    [
        *(("adaptive", domain) for domain in ("points", "grid")),
        *(("bound", domain) for domain in DOMAINS),
        *(("improvement", "grid"), ("sample", "box")),
    ],
)
def test_every_strategy_avoids_it_on_every_domain(strategy, domain):
    loop, inside = Loop(STRATEGIES[strategy], DOMAINS[domain]), 0
    for number in range(30):
        x, y = loop.ask().point
        ok = x <= 0.6
        inside += number >= 15 and not ok
        loop.tell(2 - (x - 0.7) ** 2 - (y - 0.5) ** 2 if ok else None, ok=ok)
    assert inside <= 4
    assert loop.recommend()[0] <= 0.6


@pytest.mark.full
def test_randomised_strategies_draw_again():
    loop, inside = Loop(random_search(**GIVEN), DOMAINS["box"]), 0
    for number in range(40):
        x, y = loop.ask().point
        inside += number >= 20 and x > 0.6
        loop.tell(1 - (x - 0.7) ** 2 - (y - 0.5) ** 2, ok=x <= 0.6)
    assert inside <= 4


@pytest.mark.full
def test_a_machine_that_fails_most_of_the_time_anywhere_is_optimised():
    random, apart = np.random.default_rng(1), []
    loop = Loop(STRATEGIES["adaptive"], DOMAINS["box"])
    for number in range(45):
        x, y = loop.ask().point
        square = (x - 0.3) ** 2 + (y - 0.7) ** 2
        apart += [square] if number >= 30 else []
        loop.tell(math.exp(-square / 0.08), ok=random.random() < 0.3)
    assert np.mean(np.array(apart) < 0.03) > 0.8


@pytest.mark.full
def test_where_everything_fails_nothing_is_recommended():
    loop = Loop(STRATEGIES["adaptive"], [(0, 1)])
    for number in range(20):
        loop.ask()
        loop.tell(1.0 * number, ok=number < 5)
    with pytest.raises(InputDataError, match="more likely to fail than to succeed"):
        loop.recommend()
    assert "more likely to fail" in loop.describe()


@pytest.mark.parametrize("most", [False, True])
def test_strict_means_likelier_to_succeed_than_to_fail(most: bool) -> None:
    """Unless every point is likelier to fail; then the limit stays relative."""
    X = torch.linspace(0, 1, 24, dtype=torch.float64).unsqueeze(-1)
    ok = (X.squeeze(-1) > 0.5) & (not most)
    ok[1::2] &= X[1::2, 0] > 0.7
    chance = chance_of(X, ok, torch.arange(24).double(), UNIT[:, :1], 24.0)
    points = torch.linspace(0, 1, 101, dtype=torch.float64).view(1, -1, 1)
    p, before = chance.probability(points), chance.allowed(points)
    assert bool(chance.fails) == most == bool((p <= 0.5).all())
    strict = chance.strict().allowed(points)
    assert torch.equal(strict, before if most else p > 0.5)
    assert strict.any()
    assert most or bool((before & ~strict).any())
    assert torch.equal(chance.allowed(points), before)


def test_a_recommendation_that_no_measurement_supports_says_so():
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


FEW = bank_of(1)


def history(values: list[float]) -> MeasurementLog:
    player = adaptive_gp_ucb(bank=FEW, starts=3)
    space = Space({"x": Number(0.0, 1.0)})
    rows = [trial_answer(float(n), n, (0.3 * n,), y) for n, y in enumerate(values)]
    return trial_log(player, space).changed(rows, OLDEST)


def assert_learned_from(player: Strategy, state: State, x, y, times) -> None:
    """The prediction is that of the textbook, whose units are those of the first three values."""
    query, clock = np.array([[0.1], [0.7]]), float(np.median(np.diff(times)))
    x, y, times = np.array(x)[:, None], np.array(y), np.array(times)
    book = predicted(FEW, x, y, times, query, times[-1] + 1, clock=clock, starts=3)
    posterior = player.posterior(state, torch.from_numpy(query), now=float(times[-1]) + 1)
    np.testing.assert_allclose(posterior.mean[:, 0], book.mean, rtol=0, atol=1e-8)


@pytest.mark.parametrize("values", [[], [55.0, 55.5]])
def test_a_running_trial_sets_no_units(values: list[float]) -> None:
    before = history(values)
    state = before.state
    for place in (0.9, 0.95):
        state = as_if_measured(before.quiet, state, UNIT.new_tensor([place]), 4.0)
    assert not before.quiet.predicts(state)
    assert state.rounds == len(values) + 2
    later, _ = before.strategy.tell(
        state, before.strategy.suggestion_at(state, UNIT.new_tensor([0.6]), now=5.0), 56.0
    )
    assert bool(before.strategy.predicts(later)) == bool(values)
    if values:
        assert_learned_from(
            before.strategy, later, [0.0, 0.3, 0.6], [*values, 56.0], [0.0, 1.0, 5.0]
        )


def test_a_fantasy_is_the_predicted_mean_or_the_limit() -> None:
    first = history([55.0, 55.5])
    state = as_if_measured(first.quiet, first.state, UNIT.new_tensor([0.9]), 4.0, limit=50.0)
    assert_learned_from(first.quiet, state, [0.0, 0.3, 0.9], [55.0, 55.5, 50.0], [0.0, 1.0, 4.0])
    before = history([55.0, 55.5, 56.0, 54.0])
    state = as_if_measured(before.quiet, before.state, torch.tensor([0.9]).double(), 4.0)
    mean = before.quiet.suggestion_at(before.state, torch.tensor([0.9]).double(), now=4.0).mean
    torch.testing.assert_close(state.history.y.tensor()[-1], mean)


@pytest.mark.filterwarnings("ignore:an observation is")
@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("reach", [-1e9, -30.0, -1.0, 0.5, 1.1, 1.3, 1e9])
def test_a_bound_is_assumed_to_be_met_as_by_the_truncated_prediction(maximize, reach) -> None:
    player = tv_gp_ucb(kernel=unit_kernel("se", 0.3), noise=0.05, epsilon=0.1, maximize=maximize)
    rows = [trial_answer(float(n), n, (0.3 * n,), y) for n, y in enumerate([0.4, -1.0, 0.2])]
    log = trial_log(player, Space({"x": Number(0.0, 1.0)})).changed(rows, OLDEST)
    X, sign = torch.tensor([0.4]).double(), 1 if maximize else -1
    predicted = player.suggestion_at(log.state, X, now=3.0)
    mean, sd = sign * float(predicted.mean), float(predicted.sd)
    limit = mean + reach * sd
    after = log.added(trial_answer(3.0, 3, (0.4,), sign * limit, Censored), OLDEST).state
    assert after.rounds == 4
    if reach > 1.2:  # the prediction agrees with the bound
        posterior, wanted = (
            player.posterior(state, X.unsqueeze(0), now=3.0) for state in (after, log.state)
        )
        torch.testing.assert_close(posterior.mean, wanted.mean)
        torch.testing.assert_close(posterior.variance, wanted.variance)
    else:
        value = truncnorm.mean(-math.inf, reach, loc=mean, scale=sd) if reach > -99 else limit
        assert sign * float(after.history.y.tensor()[-1]) == pytest.approx(value, rel=1e-6)


@pytest.mark.few(2)
@pytest.mark.parametrize("limit", [None, 54.5, 58.0])
@pytest.mark.parametrize("values", [[], [55.0, 55.5, 56.0, 54.0]])
def test_fantasies_of_a_mirrored_objective_are_mirrored(
    values: list[float], limit: float | None
) -> None:
    found = []
    for sign in (1, -1):
        log = history([sign * value for value in values])
        quiet = replace(log.quiet, maximize=sign > 0)
        X, bound = torch.tensor([0.75]).double(), None if limit is None else sign * limit
        state = as_if_measured(quiet, log.state, X, 4.5, bound)
        assert (state.rounds, float(state.time)) == (len(values) + 1, 4.5)
        assert float(state.history.choice.tensor()[-1]) == 0.75
        failed = state.history.noise.tensor()[-1].isinf()
        assert bool(failed) == (limit == 58.0 if values else limit is None)
        found.append(torch.where(failed, 0.0, sign * state.history.y.tensor()[-1]))
    torch.testing.assert_close(*found)
    if limit is not None:
        assert found[0] <= limit


SPACE = Space({"x": Number(0.0, 1.0), "c": Choice("a", "b", "c"), "d": Choice(True, False)})


def tried(letters: str, others: str | None = None) -> torch.Tensor:
    others = "t" * len(letters) if others is None else others
    rows = [
        SPACE.point({"x": 0.1 * (n % 10), "c": c, "d": d == "t"})
        for n, (c, d) in enumerate(zip(letters, others))
    ]
    return torch.tensor(rows, dtype=torch.float64)


def value(letters: str, others: str | None = None) -> object:
    due = overdue(SPACE, tried(letters, others))
    return due if due is None else due[1]


BOTH = "tf" * 400
START = "bcbcbc"
ONCE = START + "a" * 28 + "bc"
TWICE = ONCE + "a" * 58 + "bc"
THRICE = TWICE + "a" * 118 + "bc"
FOUR_TIMES = THRICE + "a" * 238 + "bc"


@pytest.mark.parametrize(
    ("letters", "others", "wanted"),
    [
        ("ab" * 6, BOTH, "c"),  # never tried
        ("ab" * 5 + "a", BOTH, None),  # one in four trials at most
        ("ab" * 5 + "acabab", BOTH, "c"),  # tried once: after four trials
        ("ab" * 5 + "abcaba", BOTH, None),
        ("ab" * 4 + "acbc" + "ab" * 4, BOTH, "c"),  # tried twice: after eight trials
        ("ab" * 4 + "acabc" + "aba" * 2 + "b", BOTH, None),
        ("ab" * 4 + "cccb" + "a" * 28, BOTH, None),  # tried three times: not for long enough
        ("ab" * 3 + "ac" + "ab" * 6, BOTH, None),  # one of the first trials had it
        (START + "a" * 34, BOTH, "b"),
        (START + "a" * 54, BOTH, "c"),  # those that are due take turns
        (START + "a" * 33, BOTH, None),  # one in ten trials at most
        (START + "a" * 35, BOTH, None),
        ("abc" * 20, "fff" + "t" * 57, False),
        (START + "c" + "a" * 33, "f" * 4 + "t" * 36, "b"),  # that with the fewest trials
        (START + "c" + "a" * 53, "f" * 4 + "t" * 56, "b"),
        (START + "bc" + "a" * 52, "f" * 3 + "t" * 57, False),
        (ONCE + "a" * 34, BOTH, None),
        (ONCE + "a" * 54, BOTH, None),  # tried once in vain: after twice as long
        (ONCE + "a" * 64, BOTH, "c"),
        (ONCE + "b" + "a" * 33, BOTH, "b"),  # was gone on with, and c was not
        (THRICE + "a" * 234, BOTH, None),
        (THRICE + "a" * 244, BOTH, "c"),
        (FOUR_TIMES + "a" * 244, BOTH, "c"),  # no longer than that
    ],
)
def test_new_and_neglected_categories_are_due(letters: str, others: str, wanted: object) -> None:
    assert value(letters, others) == wanted


def test_of_many_that_were_never_tried_each_has_its_turns() -> None:
    many = Space({"m": Choice(*range(40))})
    points = torch.tensor([many.point({"m": 0})] * 19, dtype=torch.float64)
    seen = []
    for _ in range(45 * SOON):
        due = overdue(many, points)
        if due is not None:
            assert due[0] == "m"
            seen.append(due[1])
        new = torch.tensor([many.point({"m": 0 if due is None else due[1]})])
        points = torch.cat([points, new.double()])
    assert set(seen) == set(range(1, 40))
    assert len(seen) <= 45


@pytest.mark.full
def test_a_due_category_is_chosen_at_its_best_bound() -> None:
    space = Space({"x": Number(0, 16, step=1), "c": Choice("a", "b")})
    strategy = adaptive_gp_ucb(bank=SMALL)
    letters = "ab" * 4 + "a" * 32
    rows = [
        trial_answer(float(n), n, space.point({"x": x, "c": c}), x / 16 - 0.5 * (c == "b"))
        for n, c in enumerate(letters)
        for x in [(5 * n) % 17]
    ]
    state = trial_log(strategy, space).changed(rows, OLDEST).state
    plain = strategy.ask(state, now=40.0)
    suggestion = strategy.ask(holding(state, due_again(state)), now=40.0)
    already = holding(state, {"c": "a"})
    held = strategy.ask(holding(already, due_again(already)), now=40.0)
    assert space.params(plain.X)["c"] == space.params(held.X)["c"] == "a"
    assert space.params(suggestion.X)["c"] == "b"
    every = torch.tensor([space.point({"x": n, "c": "b"}) for n in range(17)]).double()
    posterior = strategy.posterior(state, every, now=40.0)
    mean, sd = posterior.mean.squeeze(-1), posterior.variance.squeeze(-1).sqrt()
    best = int((mean + suggestion.sqrt_beta * sd).argmax())
    torch.testing.assert_close(suggestion.X, every[best])
    later = strategy.tell(state, suggestion, 0.3)[0]
    late = strategy.ask(holding(later, due_again(later)), now=41.0)
    assert space.params(late.X)["c"] == "a"


GRID = Grid.regular(4, 1)
LISTED = {
    "grid": GRID,
    "points": Box([(0, 1)], search=DiscreteSearch(GRID.X)),
    "whole": Box({"n": Integer(1, 4, log=True)}, search=MultiStart(16, 2, 8)),
    "mixed": Box({"n": Integer(1, 2), "c": Choice("a", "b")}),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("name", LISTED)
def test_a_point_is_pending_twice_only_if_no_other_may_be_as_good(
    name: str, maximize: bool
) -> None:
    """By a search through all points: their means, bounds and numbers of pending suggestions."""
    player = tv_gp_ucb(
        kernel=KERNEL, noise=0.02, epsilon=0.03, width=Constant(0.09), maximize=maximize
    )
    state, sign = player.init(LISTED[name]), 1 if maximize else -1
    X = state.domain.listed
    assert X is not None
    for at, y in enumerate((0.1, 0.3, 0.25, -0.2)):
        state, _ = player.tell(state, player.suggestion_at(state, X[at]), sign * y)
    posterior = player.posterior(state, X.unsqueeze(-2))
    mean = sign * posterior.mean.flatten()
    bound = mean + 0.3 * posterior.variance.flatten().sqrt()
    moved = 0
    for seed in range(14):
        pending = np.random.default_rng(seed).integers(0, 4, seed % 7).tolist()
        times = [pending.count(n) for n in range(4)]
        chosen = pending[0] if pending else 0
        rivals = [n for n in range(4) if times[n] < times[chosen] and bound[n] >= mean[chosen]]
        wanted = min(rivals, key=lambda n: (times[n], -float(bound[n])), default=chosen)
        suggestion = player.suggestion_at(state, X[chosen])
        found = apart(player, state, None, suggestion, X[pending], None)
        assert torch.equal(found.X, X[wanted])
        assert (found is suggestion) == (wanted == chosen)
        moved += wanted != chosen
    assert 2 < moved < 12


def test_suggestions_that_are_open_together_differ() -> None:
    loop = Loop(tv_gp_ucb(kernel=KERNEL, noise=0.02, epsilon=0.03), LISTED["mixed"], pending=8)
    for now in range(4):
        loop.tell(0.1 * (now % 2), suggestion=loop.ask(now=now))
    points = [tuple(loop.ask(now=4).point.values()) for _ in range(8)]
    assert len(set(points[:4])) == len(set(points[4:])) == 4


def test_a_recommendation_elsewhere_is_cautious_too() -> None:
    """Of arms where success is likely, a measured one, not one that nobody measured."""
    grid = Grid(torch.linspace(0, 1, 4, dtype=torch.float64).unsqueeze(-1))
    strategy = gp_ucb(kernel=torch.eye(4).double(), noise=0.02, mean=0.8)
    state, rows = strategy.init(grid), [*[(0, 3.0, False)] * 6, *[(2, 1.0, True)] * 3]
    state, _ = strategy.tell(state, strategy.suggestion_at(state, grid.X[0]), 3.0)
    for arm, y, ok in rows:
        said = strategy.suggestion_at(state, grid.X[arm])
        state, _ = strategy.tell(state, said, y, ok=torch.tensor(ok))
    arms, succeeded = [0] + [row[0] for row in rows], [True] + [row[2] for row in rows]
    time = torch.arange(1.0, 11.0).double()
    chance = chance_of(grid.X[arms], torch.tensor(succeeded), time, corners_of(grid), 10.0)
    assert chance.allowed(grid.X.unsqueeze(0)).tolist() == [[False, True, True, True]]
    assert int(strategy.recommended_arm(state)) == 0
    found = strategy.recommend(state, now=10.0, caution=CAUTION, feasible=chance.strict())
    assert torch.equal(found, grid.X[2])
