"""The posterior of a bank against the dense textbook, through strategies and models."""

import math

import numpy as np
import pytest
import torch
from gp.mixture.readings import (
    SHARES,
    TOLERANCE,
    Readings,
    assert_textbook,
    bank_of,
    cube,
    readings,
    relevance_of,
    require_apart,
    told,
    with_bands,
)
from oracles.bank import predicted

from botorch_tv import Box, Choice, Grid, adaptive_gp_ucb
from botorch_tv.acquisition import IGPUCB
from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.models import adaptive_model
from botorch_tv.strategies.mixed_search import MixedSearch
from botorch_tv.strategies.parameters import Number, Space

D = torch.float64
BLOCKS = {
    "single": (1,) * 18,
    "few": (1, 1, 1, 1, 2, 5, 1, 2, 1),
    "many": (1, 1, 1, 1, 2, 5, 1, 40, 1, 2, 1),
    "many at first": (40, 1, 1, 1, 1, 1, 5),
}


@pytest.mark.few("single-2", "few-10")
@pytest.mark.parametrize("dim", [1, 2, 6, 10])
@pytest.mark.parametrize("blocks", BLOCKS)
def test_the_posterior_of_a_strategy(dim, blocks):
    """With a jump, an outlier, repeated points, failures and a pause of 1e12 gaps."""
    bank, data = bank_of(dim), readings(dim, BLOCKS[blocks])
    player = adaptive_gp_ucb(bank=bank, width=IGPUCB(B=0.0, R=1.0, delta=math.exp(-1)))
    require_apart(bank, data.X)
    query = np.random.default_rng(100).random((4, dim))
    state = told(player, cube(dim), data)
    for now in data.times[-1] + np.array([0.0, 2.5]):
        book = predicted(bank, *data[:3], query, now, good=data.good)
        assert_textbook(player, state, book, query, float(now), 1e-7)
        width = player.suggestion_at(state, torch.from_numpy(query[0]), now=float(now)).sqrt_beta
        assert float(width) ** 2 / 2 - 2 == pytest.approx(book.information_gain, abs=1e-7)


@pytest.mark.few(1)
@pytest.mark.parametrize("blocks", BLOCKS)
def test_given_variances_replace_the_noise(blocks):
    bank, data = bank_of(2), readings(2, BLOCKS[blocks]).with_variances()
    player, random = adaptive_gp_ucb(bank=bank), np.random.default_rng(100)
    query, now = random.random((4, 2)), float(data.times[-1] + 2.5)
    book = predicted(bank, *data[:3], query, now, good=data.good, variance=data.variance)
    mixed = data.ordered(np.lexsort([random.random(len(data.y)), data.times]))
    for each in (data, mixed):  # readings of one time have no order
        assert_textbook(player, told(player, cube(2), each), book, query, now, 1e-7)


def picked(random: np.random.Generator, values: list[float], most: int) -> tuple[float, ...]:
    count = random.integers(1, most + 1)
    return tuple(sorted(random.choice(values, count, replace=False).tolist()))


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(12))
def test_random_banks_and_readings(seed):
    random = np.random.default_rng(seed)
    dim, n = int(random.integers(1, 5)), int(random.integers(14, 26))
    bank = Bank(
        rates=picked(random, [0.0, 0.01, 0.1, 0.5], 2),
        hazards=picked(random, [0.0, 0.02, 0.2, 0.6], 2),
        lengthscales=(0.1 * dim**0.5,),
        noise_ratios=picked(random, [1e-6, 1e-3, 0.01, 1.0], 2),
        outliers=float(random.choice([0.0, 0.005, 0.2])),
        histories=int(random.integers(4, 7)),
        tolerance=TOLERANCE,
        points=int(random.choice([12, 128])),
    )
    arms = (np.arange(10)[:, None] + 0.5 * random.random((10, dim))) / 10
    require_apart(bank, arms)
    times = random.choice([0.0, 0.0, 1.0, 1.0, 0.3, 4.0, 1e5], n).cumsum()
    y = random.standard_normal(n) * random.choice([1.0, 1.0, 1.0, 30.0], n)
    data = Readings(arms[random.integers(10, size=n)], y, times, random.random(n) < 0.85)
    player, query = adaptive_gp_ucb(bank=bank), random.random((3, dim))
    state, now = told(player, cube(dim), data), float(times[-1] + random.choice([0.0, 1.0, 50.0]))
    clock = float(player.step(state))
    book = predicted(bank, *data[:3], query, now, good=data.good, clock=clock)
    assert_textbook(player, state, book, query, now, 1e-7)


@pytest.mark.parametrize(("tolerance", "most"), [(1e-3, 0.08), (1e-5, 0.01)])
def test_a_coarse_tolerance_changes_little(tolerance, most):
    """Root mean square change of the mean, in posterior standard deviations, at nearby readings."""
    bank = bank_of(2, lengthscales=(0.2,), tolerance=tolerance)
    data = drifting(30, 0)
    data = data._replace(X=np.where(data.y[:, None] > 1.0, 0.5 + 0.1 * data.X, data.X))
    player, query = adaptive_gp_ucb(bank=bank), np.random.default_rng(0).random((50, 2))
    posterior = player.posterior(told(player, cube(2), data), torch.from_numpy(query), now=30.0)
    book = predicted(bank, *data[:3], query, 30.0)
    apart = posterior.mean[:, 0].numpy() - book.mean
    assert 1e-5 < float(np.sqrt((apart**2 / book.covariance.diagonal()).mean())) < most


def by_model(bank: Bank, data: Readings, query: torch.Tensor, first: int | None = None):
    """The posterior of a model of all readings; of the rows from ``first`` on it learns later."""
    rows = torch.from_numpy(np.column_stack([data.X, data.times]))
    y = torch.from_numpy(data.y).unsqueeze(-1)
    model = adaptive_model(rows[:first], y[:first], bank=bank)
    if first is not None:
        model = model.condition_on_observations(rows[first:], y[first:])
    return model.posterior(query)


def test_the_joint_posterior_of_a_model_at_several_times():
    bank, data = bank_of(2), readings(2, BLOCKS["many"])
    data = data._replace(good=data.good | True)
    query, now = np.random.default_rng(100).random((4, 2)), float(data.times[-1])
    when = now + np.array([3.0, 0.0, 0.5, 1e4])
    book = predicted(bank, *data[:3], query, when)
    asked = torch.from_numpy(np.column_stack([query, when]))
    split = int(np.flatnonzero(np.diff(data.times) == 0)[20])  # within the block of forty
    for first in (None, split):
        posterior = by_model(bank, data, asked, first)
        np.testing.assert_allclose(posterior.mean[:, 0], book.mean, rtol=0, atol=1e-7)
        found = posterior.covariance_matrix
        np.testing.assert_allclose(found, book.covariance, rtol=0, atol=1e-7)


MOST = {"few": 8, "many": 48, "many at first": 44}
"""So many points represent the readings, which have more points in six dimensions."""


@pytest.mark.few("few-6")
@pytest.mark.parametrize("dim", [1, 6])
@pytest.mark.parametrize("blocks", MOST)
def test_readings_of_one_time_have_no_order(dim, blocks):
    """Whether they arrive one by one, or in one call; with a coarse tolerance and few points."""
    bank = bank_of(dim, lengthscales=SHARES[dim][1:], tolerance=1e-3, points=MOST[blocks])
    data = readings(dim, BLOCKS[blocks])
    data = data._replace(good=data.good | True)
    player, now = adaptive_gp_ucb(bank=bank), float(data.times[-1]) + 1.0
    query = torch.rand(5, dim, dtype=D, generator=torch.Generator().manual_seed(0))
    asked = torch.cat([query, torch.full((5, 1), now, dtype=D)], -1)
    random, found = np.random.default_rng(0), []
    for _ in range(2):
        mixed = data.ordered(np.lexsort([random.random(len(data.y)), data.times]))
        state = told(player, cube(dim), mixed)
        found += [player.posterior(state, query, now=now), by_model(bank, mixed, asked)]
    # The model has no bands of predictions, so its variance is given those of the strategy.
    covariances = torch.diag_embed(found[1].variance.view(5, 1))
    wide = torch.as_tensor(with_bands(covariances, player, state)).view(5, 1)
    assert float((found[0].variance / wide - 1).abs().max()) < 1e-6
    sd = found[1].variance.sqrt()
    assert float(((found[0].mean - found[1].mean) / sd).abs().max()) < 1e-6
    for first, other in (found[::2], found[1::2]):
        assert float(((other.mean - first.mean) / sd).abs().max()) < 1e-6
        assert float(((other.variance / first.variance).sqrt() - 1).abs().max()) < 1e-6


def test_more_readings_of_one_time_than_points_are_split_alike():
    bank, data = bank_of(1, points=8), readings(1, (1, 1, 1, 1, 19, 1))
    data = data._replace(good=data.good | True)
    player, now = adaptive_gp_ucb(bank=bank), float(data.times[-1]) + 1.0
    query = torch.linspace(0, 1, 5, dtype=D).unsqueeze(-1)
    asked = torch.cat([query, torch.full((5, 1), now, dtype=D)], -1)
    state = told(player, cube(1), data)
    mine, its = player.posterior(state, query, now=now), by_model(bank, data, asked)
    torch.testing.assert_close(mine.mean, its.mean, rtol=0, atol=1e-9)
    wide = with_bands(torch.diag_embed(its.variance.view(5, 1)), player, state)
    torch.testing.assert_close(
        mine.variance.view(5), torch.as_tensor(wide).view(5), rtol=0, atol=1e-9
    )


@pytest.mark.few("single", "few")
@pytest.mark.parametrize("blocks", BLOCKS)
def test_grids_and_boxes_agree_at_the_arms(blocks):
    """With points beyond the limit removed; the blocks of forty are larger than the limit."""
    bank, data = bank_of(1, lengthscales=(0.2,), points=8), readings(1, BLOCKS[blocks])
    player, now = adaptive_gp_ucb(bank=bank), float(data.times[-1]) + 1.0
    arms = torch.linspace(0, 1, 9, dtype=D).unsqueeze(-1)
    states = [told(player, domain, data) for domain in (cube(1), Grid(arms))]
    on_box, on_grid = (player.posterior(state, arms, now=now) for state in states)
    torch.testing.assert_close(on_grid.mean, on_box.mean, rtol=0, atol=1e-8)
    covariances = (item.mvn.covariance_matrix for item in (on_grid, on_box))
    torch.testing.assert_close(*covariances, rtol=0, atol=1e-8)
    weights = (player.weights(state) for state in states)
    torch.testing.assert_close(*weights, rtol=0, atol=1e-8)
    suggestion = player.ask(states[1], now=now)
    torch.testing.assert_close(suggestion.mean, on_grid.mean[suggestion.index, 0])
    torch.testing.assert_close(suggestion.sd.square(), on_grid.variance[suggestion.index, 0])


@pytest.mark.full
def test_a_box_of_listed_values_has_the_posterior_of_a_grid():
    space = Space({"n": Number(0, 8, step=1), "c": Choice("a", "b")})
    X = torch.tensor([space.point({"n": n, "c": c}) for c in "ab" for n in range(9)]).double()
    player, random = adaptive_gp_ucb(), torch.Generator().manual_seed(0)
    listed = Box(torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double(), search=MixedSearch(space))
    data = [(X[place], torch.randn((), generator=random)) for place in [3, 17, 9, 4, 4, 0, 12, 7]]
    found = []
    for domain in (listed, Grid(X)):
        state = player.init(domain)
        for n, (x, y) in enumerate(data):
            suggestion = player.suggestion_at(state, x, now=n + 1.0)
            state, _ = player.tell(state, suggestion, float(y))
        posterior = player.posterior(state, X, now=16.0)
        found.append((posterior.mean, posterior.variance, player.weights(state)))
    for first, second in zip(*found):
        torch.testing.assert_close(first, second, rtol=0, atol=1e-9)


@pytest.mark.few("26")
@pytest.mark.parametrize("seed", [26, 1, 2, 3])
def test_trials_of_a_batch_are_lone_trials(seed):
    """Each measures at times of its own, some at one time while others go on, or fails for long.

    If all members jump, a long pause leaves nothing by which points to remove could be told apart.
    """
    hazards = (0.0, 0.05) if seed % 2 else (0.1,)
    bank, trials, n = bank_of(2, lengthscales=(0.15,), hazards=hazards, points=8), 3, 26
    player, box = adaptive_gp_ucb(bank=bank), cube(2)
    generator = torch.Generator().manual_seed(seed)
    arms = torch.rand(14, 2, dtype=D, generator=generator)
    X = arms[torch.randint(14, (n, trials), generator=generator)]
    some_gaps = torch.tensor([0.0, 0.0, 1.0, 1.0, 1e-3, 5.0, 1e12], dtype=D)
    gaps = some_gaps[torch.randint(7, (n, trials), generator=generator)]
    times, ok = gaps.cumsum(0), torch.rand(n, trials, generator=generator) < 0.85
    ok[8:18, 2] = False
    y = torch.sin(5 * X.sum(-1)) + (times > 9) * X[..., 0]
    y[:5, 0], y[9, 0], y[20, 2] = 3.0, 21.0, 21.0

    def posterior_of(some):
        state = player.init(box, batch_shape=(len(some),))
        for row in range(n):
            suggestion = player.suggestion_at(state, X[row, some], now=times[row, some])
            state, _ = player.tell(state, suggestion, y[row, some], ok=ok[row, some])
        query = arms[:5].expand(len(some), -1, -1)
        posterior = player.posterior(state, query, now=state.time + 1.5)
        return posterior.mean, posterior.variance, player.weights(state)

    together = posterior_of([0, 1, 2])
    for trial in range(trials):
        for found, alone in zip(together, posterior_of([trial])):
            torch.testing.assert_close(found[trial], alone[0], rtol=0, atol=1e-9)


def test_a_limit_of_points_that_is_not_reached_changes_nothing():
    data = readings(1, BLOCKS["single"])  # nine points
    found = []
    for points in (9, 128):
        player = adaptive_gp_ucb(bank=bank_of(1, lengthscales=(0.2,), points=points))
        state = told(player, cube(1), data)
        query = torch.linspace(0, 1, 7, dtype=D).unsqueeze(-1)
        posterior = player.posterior(state, query, now=float(data.times[-1]) + 1)
        found.append((posterior.mean, posterior.variance, player.weights(state)))
    for few, many in zip(*found):
        torch.testing.assert_close(few, many, rtol=0, atol=1e-10)


@pytest.mark.few(1)
@pytest.mark.parametrize("blocks", ["single", "few"])
@pytest.mark.parametrize("dim", [2, 6])
def test_points_beyond_the_limit_are_removed_as_in_function_space(dim, blocks):
    bank = bank_of(dim, points=8)
    player, data = adaptive_gp_ucb(bank=bank), readings(dim, BLOCKS[blocks])
    query, now = np.random.default_rng(1).random((4, dim)), float(data.times[-1]) + 1.0
    state = told(player, cube(dim), data)
    book = predicted(bank, *data[:3], query, now, good=data.good)
    assert_textbook(player, state, book, query, now, 1e-9)
    exact = predicted(bank_of(dim), *data[:3], query, now, good=data.good)
    assert np.abs(book.mean - exact.mean).max() > 1e-6


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_device_learns_the_same_where_blocks_need_no_host(device):
    """Without jumps and outliers, readings of one time count as if they came one by one."""
    parts = {"hazards": (0.0,), "outliers": 0.0, "lengthscales": (0.15,)}
    bank, data = bank_of(2, **parts), readings(2, BLOCKS["few"])
    player, now = adaptive_gp_ucb(bank=bank), float(data.times[-1]) + 1.0
    state = told(player, cube(2), data, device)
    query = torch.rand(4, 2, dtype=D, generator=torch.Generator().manual_seed(0))
    book = predicted(bank, *data[:3], query.numpy(), now, good=data.good)
    posterior = player.posterior(state, query.to(device), now=now)
    mean, covariance = posterior.mean[:, 0].cpu(), posterior.mvn.covariance_matrix.cpu()
    np.testing.assert_allclose(mean, book.mean, rtol=0, atol=1e-7)
    wide = with_bands(book.covariance, player, state)
    np.testing.assert_allclose(covariance, wide, rtol=0, atol=1e-7)


def drifting(n: int, seed: int) -> Readings:
    """A peak on a circle, one turn in a hundred rounds, measured anywhere."""
    random = np.random.default_rng(seed)
    X, t = random.random((n, 2)), np.arange(float(n))
    angle = 2 * np.pi * t / 100
    apart = X - 0.5 - 0.3 * np.column_stack([np.cos(angle), np.sin(angle)])
    y = 5 * np.exp(-(apart**2).sum(-1) / 0.08) + 0.3 * random.standard_normal(n)
    return Readings(X, y, t, np.ones(n, bool))


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(4))
def test_a_limit_that_is_reached_changes_little(seed):
    """The root mean square change is below .02 posterior standard deviations."""
    data, found = drifting(40, seed), []
    query = torch.rand(200, 2, dtype=D, generator=torch.Generator().manual_seed(seed))
    for points in (24, 128):
        bank = bank_of(2, rates=(0.01, 0.1), points=points, lengthscales=(0.3,))
        player = adaptive_gp_ucb(bank=bank)
        state = told(player, cube(2), data)
        found.append(player.posterior(state, query, now=40.0))
    few, many = found
    apart = (few.mean - many.mean) / many.variance.sqrt()
    assert 1e-6 < float(apart.square().mean().sqrt()) < 0.02


@pytest.mark.parametrize("rounds", [30, pytest.param(3000, marks=pytest.mark.slow)])
def test_many_rounds_are_the_textbook(rounds):
    """Sixteen of thirty points represent the posterior; the textbook removes points too."""
    random = np.random.default_rng(0)
    arms = random.random((30, 2))
    X, t = arms[random.integers(30, size=rounds)], np.arange(float(rounds))
    y = np.sin(5 * X[:, 0] + t / 300) + X[:, 1] * (t > rounds / 2)
    y += 0.1 * random.standard_normal(rounds)
    data = Readings(X, y, t, np.ones(rounds, bool))
    bank = bank_of(2, lengthscales=(0.15,), points=16)
    player, query = adaptive_gp_ucb(bank=bank), random.random((3, 2))
    state = told(player, cube(2), data)
    book = predicted(bank, *data[:3], query, float(rounds), relevance=relevance_of(state))
    assert_textbook(player, state, book, query, float(rounds), 1e-7)


@pytest.mark.parametrize("rounds", [40, pytest.param(3000, marks=pytest.mark.slow)])
def test_with_few_of_many_points_all_stays_finite(rounds):
    data, bank = drifting(rounds, 0), bank_of(2, lengthscales=(0.3,), points=16)
    player = adaptive_gp_ucb(bank=bank)
    state = told(player, cube(2), data)
    query = torch.rand(50, 2, dtype=D, generator=torch.Generator().manual_seed(0))
    posterior = player.posterior(state, query)
    assert bool(posterior.mean.isfinite().all())
    assert float(posterior.mean.abs().max()) < 10
    assert float(posterior.variance.min()) > 0
    assert float(torch.linalg.eigvalsh(posterior.mvn.covariance_matrix).min()) > -1e-9
    assert float(player.weights(state).sum()) == pytest.approx(1.0)
