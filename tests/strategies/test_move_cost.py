"""Costs of moves: choices maximise the score less the cost, as brute force finds them."""

import math

import pytest
import torch
from gp.mixture.readings import bank_of

from botorch_tv import Box, Choice, Float, Grid, Integer, Loop, adaptive_gp_ucb, gp_ucb, tv_gp_ucb
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import DiscreteSearch
from botorch_tv.strategies.feasible import MoveCost
from botorch_tv.strategies.pending import of_model

D = torch.float64
GIVEN = tv_gp_ucb(kernel=unit_kernel("se", 0.3), noise=0.05, epsilon=0.03)
STRATEGIES = {
    "given": GIVEN,
    "minimises": gp_ucb(kernel=unit_kernel("se", 0.3), noise=0.05, maximize=False),
    "adaptive": adaptive_gp_ucb(bank=bank_of(1, hazards=(0.0,))),
}
GRID = Grid(torch.cartesian_prod(*[torch.linspace(0, 4, 9, dtype=D)] * 2))
LOW, HIGH = torch.zeros(2, dtype=D), torch.full((2,), 4.0, dtype=D)


def climb(before, after):
    return 3 * math.dist(before, after) + 2 * (after[0] > before[0])


COSTS = {
    "number": (2.0, lambda at, X: 2 * (X - at).abs().sum(-1) / 4),
    "by name": ({"x1": 5.0}, lambda at, X: 5 * (X[:, 1] - at[1]).abs() / 4),
    "function": (climb, lambda at, X: torch.tensor([climb(at.tolist(), x) for x in X.tolist()])),
}


def measured(loop, rounds=7, factor=1.0):
    X = 4 * torch.rand(rounds, 2, dtype=D, generator=torch.Generator().manual_seed(3))
    for x in X if isinstance(loop.domain, Box) else (GRID.X[(7 * n) % 81] for n in range(rounds)):
        loop.observe(x.tolist(), factor * float(torch.sin(x).sum() + 0.3 * x[0]))
    return loop


@pytest.mark.filterwarnings("ignore:No measurement supports")
@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("name", STRATEGIES)
def test_choices_on_a_grid_maximise_the_bound_less_the_cost(name, cost):
    """In the units of y, which differ from those of the adaptive strategy."""
    strategy, factor = STRATEGIES[name], 5.0 if name == "adaptive" else 1.0
    given, wanted = COSTS[cost]
    loop = measured(Loop(strategy, GRID, move_cost=given), factor=factor)
    sign = 1 if strategy.maximize else -1
    for _ in range(2):
        last = torch.tensor(loop.history.points[-1], dtype=D)
        mean, sd = of_model(strategy, loop.state, None, GRID.X)
        price = wanted(last, GRID.X)
        best = GRID.X[(sign * mean - 0.5 * sd - price).argmax()]
        assert loop.recommend() == best.tolist()
        made = loop.ask()
        bound = sign * mean + made.row.prediction[2] * sd - price
        assert made.point == GRID.X[bound.argmax()].tolist()
        loop.tell(factor * 1.3)


@pytest.mark.few(1)
@pytest.mark.parametrize("rate", [1.0, 0.3, 3.0])
def test_choices_in_a_box_maximise_the_bound_less_the_cost(rate):
    """As well as a dense grid that has the lines on which a coordinate stays, where kinks are."""
    loop = measured(Loop(GIVEN, [(0, 4), (0, 4)], move_cost=rate))
    last = torch.tensor(loop.history.points[-1], dtype=D)
    X = torch.cartesian_prod(*[torch.linspace(0, 4, 41, dtype=D)] * 2)
    lines = [X.index_fill(1, torch.tensor([axis]), float(last[axis])) for axis in (0, 1)]
    X, made = torch.cat([X, *lines]), loop.ask()
    every = torch.cat([X, made.X.unsqueeze(0)])
    mean, sd = of_model(GIVEN, loop.state, None, every)
    score = mean + made.row.prediction[2] * sd - rate * (every - last).abs().sum(-1) / 4
    assert score[:-1].max() - 1e-9 <= score[-1] <= score[:-1].max() + 2e-2


SPACE = {"heat": (0, 4), "n": Integer(1, 9), "rate": Float(1e-3, 1, log=True)}
MIXED = {**SPACE, "gas": Choice("Ar", "N2"), "size": Choice("s", "m", "l", ordered=True)}
AT = {"heat": 1.25, "n": 4, "rate": 0.1, "gas": "N2", "size": "m"}


def trials(domain, cost, model=GIVEN):
    loop = Loop(model, domain, move_cost=cost)
    for n in range(5):
        moved = {"heat": 0.7 * n, "n": 2 * n + 1, "gas": ("Ar", "N2")[n % 2]}
        point = AT | moved if n < 4 else AT
        loop.observe({name: point[name] for name in loop.parameters}, float(n % 3))
    return loop


SPACES = {
    "steps": Box(SPACE),
    "mixed": Box(MIXED),
    "limits": Box(SPACE, constraints="n + heat <= 8"),
}


@pytest.mark.few("steps", "mixed")
@pytest.mark.parametrize("space", SPACES)
def test_no_cost_changes_nothing_and_a_great_cost_stays(space):
    free = trials(SPACES[space], None).ask()
    same = trials(SPACES[space], 0).ask()
    assert (same.point, same.mean) == (free.point, free.mean)
    here = {name: AT[name] for name in free.point}
    loop = trials(SPACES[space], 1e3)
    assert loop.ask().point == loop.recommend() == here
    held = trials(SPACES[space], {"heat": 1e3}).ask().point
    assert held["heat"] == AT["heat"]
    assert held != here


def test_the_cost_is_per_range_of_each_scale():
    box = SPACES["mixed"]
    X = torch.stack([box.parameters.place(AT | move, box.bounds) for move in MOVES])
    found = MoveCost(box, X[0], dict.fromkeys(MIXED, 2.0))(X)
    assert found.tolist() == pytest.approx([0, 1, 0.5, 2 / 3, 2, 1, 1.5], abs=1e-12)


MOVES = [
    {},
    {"heat": 3.25},
    {"n": 6},
    {"rate": 0.01},
    {"gas": "Ar"},
    {"size": "l"},
    {"heat": 2.25, "size": "s"},
]


def test_listed_candidates_are_priced():
    X = torch.tensor([[0.0, 0.0], [2.0, 2.0], [4.0, 4.0]], dtype=D)
    for cost in (1e3, climb):
        box = Box([(0, 4), (0, 4)], search=DiscreteSearch(X))
        loop = Loop(GIVEN, box, move_cost=cost, pending=2)
        loop.observe([2.0, 2.0], 0.0)
        assert [loop.ask().point for _ in range(2)] == [[2.0, 2.0]] * 2


def test_a_file_has_the_numbers_but_no_function(tmp_path):
    path = tmp_path / "loop.json"
    for loop in (
        trials(SPACES["mixed"], {"heat": 0.7}),
        measured(Loop(GIVEN, GRID, move_cost={"x1": 5})),
    ):
        loop.save(path)
        assert Loop.load(path, GIVEN).ask().point == loop.ask().point
    loop = trials(SPACES["mixed"], lambda before, after: 1e3 * (before != after))
    with pytest.raises(ValueError, match=r"a file has no functions; give move_cost numbers"):
        loop.save(path)
    assert loop.ask().point == AT


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        ({"heat": 1, "heta": 1}, r"names 'heta'; the parameters are \['heat', 'n', 'rate'\]"),
        ({"heat": -1}, "move_cost of heat is -1, but"),
        (math.inf, "move_cost of heat is inf, but"),
    ],
)
def test_refusals(cost, words):
    with pytest.raises(ValueError, match=words):
        Loop(SPACES["steps"], move_cost=cost)
