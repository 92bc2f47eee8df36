"""The estimated memory of a trial is right to a factor of two.

Counted are the numbers alive at a time; every round is of another arm or point, the worst case that
the estimate is of, and no trigger fires.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from live_numbers import LiveNumbers

from botorch_tv.gp.box import PointBasis
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import (
    Box,
    DiscreteSearch,
    Grid,
    MultiStart,
    State,
    Strategy,
    Suggestion,
    et_gp_ucb,
    gp_ei,
    gp_ts,
    gp_ucb,
    r_gp_ucb,
    random_search,
    sparq_gp_ucb,
    sw_gp_ucb,
    tv_gp_ucb,
    ui_tvbo,
    w_gp_ucb,
)
from botorch_tv.strategies.domains import Domain

KERNEL = unit_kernel("se", 0.3)
NOISE = {"kernel": KERNEL, "noise": 0.1}
STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "GP": lambda: gp_ucb(**NOISE),
    "GP exact": lambda: gp_ucb(**NOISE, inference="exact"),
    "TV": lambda: tv_gp_ucb(**NOISE, epsilon=0.03),
    "SW": lambda: sw_gp_ucb(**NOISE, window=10),
    "R": lambda: r_gp_ucb(**NOISE, period=12),
    "ET": lambda: et_gp_ucb(**NOISE),
    "W": lambda: w_gp_ucb(**NOISE, gamma=0.95),
    "UI": lambda: ui_tvbo(**NOISE, sigma_w2=0.03),
    "TS": lambda: gp_ts(**NOISE),
    "EI": lambda: gp_ei(**NOISE),
    "random": lambda: random_search(**NOISE),
    "TV in a window": lambda: replace(
        tv_gp_ucb(**NOISE, epsilon=0.03), retention=sw_gp_ucb(**NOISE, window=10).retention
    ),
}


SIZES = [(4, 12), (7, 40)]
"""Points per dimension and rounds."""


def share(player: Strategy, domain: Domain, trials: int, horizon: int) -> float:
    template = player.init(domain)
    estimate = trials * player.numbers_per_trial(template, horizon, trials)
    draw = torch.Generator().manual_seed(0)
    player.ask(template, generator=draw)  # fills caches that all trials share
    with LiveNumbers() as live:
        state = player.init_like(template, (trials,))
        first = player.ask(state, generator=draw)
        for t in range(horizon):
            state, _ = player.tell(
                state, _other(first, state, t, draw), first.mean, check=False, consume=True
            )
            asked = player.consult(state, generator=draw) if player.consults else None
            if asked is not None:
                answers = torch.zeros(asked.mask.shape, dtype=torch.float64)
                state = player.absorb(state, asked, answers, check=False)
            if isinstance(domain, Grid) or t == horizon - 1:
                player.ask(state, generator=draw)
    return estimate / live.most


def _other(first: Suggestion, state: State, t: int, draw: torch.Generator) -> Suggestion:
    trials, time = len(first.mean), first.time + t
    if isinstance(state.domain, Grid):
        index = (5 * torch.arange(trials) + t) % len(state.domain)
        return first._replace(index=index, X=state.domain.points(index, first.mean), time=time)
    X = torch.rand(first.X.shape, dtype=torch.float64, generator=draw)
    return first._replace(X=X, time=time)


@pytest.mark.parametrize("trials", [12])
@pytest.mark.parametrize(("points", "horizon"), SIZES)
@pytest.mark.parametrize("name", STRATEGIES)
def test_on_a_grid(name: str, points: int, horizon: int, trials: int) -> None:
    assert 0.5 < share(STRATEGIES[name](), Grid.regular(points, 2), trials, horizon) < 2


def test_with_an_expert() -> None:
    assert 0.5 < share(sparq_gp_ucb(**NOISE, steps=20), Grid.regular(5, 2), 3, 12) < 2


@pytest.mark.parametrize("name", ["GP", "TV", "SW", "TS"])
def test_of_features_on_a_box(name: str) -> None:
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    domain = Box(bounds, search=MultiStart(raw_samples=64, evaluations=2))
    player = replace(STRATEGIES[name](), inference="features")
    assert isinstance(player.init(domain).basis, PointBasis)
    assert 0.8 < share(player, domain, 5, 80) < 1.6


@pytest.mark.parametrize("trials", [1, 5])
@pytest.mark.parametrize("name", ["GP", "TV", "SW", "TS", "random"])
@pytest.mark.parametrize(
    "search",
    [MultiStart(raw_samples=64, evaluations=2), DiscreteSearch(torch.rand(300, 2).double())],
)
def test_on_a_box(search: MultiStart | DiscreteSearch, name: str, trials: int) -> None:
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    assert 0.5 < share(STRATEGIES[name](), Box(bounds, search=search), trials, 40) < 2


@pytest.mark.parametrize("name", ["GP exact", "TV", "W"])
def test_of_a_factor_that_grows(name: str) -> None:
    domain = Box(torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64))
    player = replace(STRATEGIES[name](), inference="exact")
    assert 0.8 < share(player, domain, 2, 150) < 1.3


@pytest.mark.parametrize("trials", [8, 256])
def test_of_a_regression_that_takes_less_once_rows_outnumber_coordinates(trials: int) -> None:
    strategy = STRATEGIES["W"]()
    state = strategy.init(Grid.regular(15, 2))
    estimates = [
        strategy.numbers_per_trial(state, horizon, trials) for horizon in range(10, 301, 10)
    ]
    assert estimates == sorted(estimates)
