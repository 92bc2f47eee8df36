"""Arguments in each other's place, or of another kind than is wanted: what newcomers type first."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from bad_input.rows import Row, assert_refuses
from botorch.exceptions import InputDataError
from gpytorch.kernels import MaternKernel, RBFKernel

from botorch_tv import (
    Box,
    Grid,
    Loop,
    adaptive_gp_ucb,
    gp_ucb,
    run_study,
    sparq_gp_ucb,
    tv_gp_ucb,
)
from botorch_tv.acquisition import Constant, ExpectedImprovement
from botorch_tv.forgetting import Decay, EventTrigger, ExponentialWeights, Markov
from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.simulation import MarkovWorld

D = torch.float64
SIDE = Box([(0.0, 1.0)])
SQUARE = Box([(0.0, 1.0), (0.0, 2.0)])
KERNEL = RBFKernel().double()
WORLD = MarkovWorld(Grid.regular(3, 1), kernel=KERNEL, epsilon=0.1, noise=0.1)
STRATEGY = gp_ucb(kernel=KERNEL, noise=0.02)
STRATEGIES = {
    "given": STRATEGY,
    "adaptive": adaptive_gp_ucb(),
    "expert": sparq_gp_ucb(kernel=KERNEL, noise=0.02),
}
STATES = {name: one.init(SIDE) for name, one in STRATEGIES.items()}
X = torch.tensor([[0.1], [0.5], [0.9]], dtype=D)
Y = torch.tensor([0.2, 0.7, 0.4], dtype=D)


def regular(bounds):
    return Grid.regular(3, 2, bounds=bounds)


LOOPS = {
    "two domains": Row(
        lambda: Loop(SIDE, SIDE),
        "Box, Box came",
        "takes strategy, domain",
        "the strategy may be left out",
    ),
    "table turned": Row(
        lambda: Loop.from_table(SIDE, STRATEGY, X, Y),
        "Box, GPStrategy, Tensor, Tensor",
        "takes strategy, domain, X, y in this order",
        "the strategy may be left out",
    ),
    "table without anything": Row(
        lambda: Loop.from_table(SIDE), "nothing came", "as loop.table() returns", "give y"
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_what_is_in_another_place(name):
    assert_refuses(LOOPS[name])


def test_an_answer_goes_before_its_suggestion():
    loop = Loop(STRATEGY, SIDE)
    suggestion = loop.ask()
    calls = {
        "turned": lambda: loop.tell(suggestion, 0.5),
        "without its name": lambda: loop.tell(0.5, suggestion),
        "alone": lambda: loop.tell(suggestion),
        "a number": lambda: loop.tell(0.5, 1),
        "a point": lambda: loop.tell([0.3], 0.5),
    }
    for call in calls.values():
        with pytest.raises((TypeError, InputDataError), match=r"y is|tell\(\)"):
            call()
    assert [one.number for one in loop.open] == [1]
    assert len(loop.history.y) == 0
    loop.tell(0.5, suggestion=suggestion)
    assert loop.history.y.tolist() == [0.5]


class TestOneDimension:
    """Points and values look alike there, so that each has a shape of its own."""

    @pytest.mark.parametrize(
        "column", [torch.Tensor.clone, torch.Tensor.tolist], ids=["tensor", "list"]
    )
    def test_swapped(self, column):
        x, y = column(X), column(Y)
        flat, rows = column(X.squeeze(-1)), column(Y.unsqueeze(-1))
        for given in ((y, x), (y, flat), (flat, y), (flat, rows)):
            row = Row(lambda g=given: Loop.from_table(SIDE, *g), "X is", "n x 1", "give X of")
            assert_refuses(row._replace(error=InputDataError))
        for given in ((rows, x), (x, rows)):
            row = Row(
                lambda g=given: Loop.from_table(SIDE, *g), "X is", "y of shape n", "give X of"
            )
            assert_refuses(row._replace(error=InputDataError))
        loop = Loop.from_table(SIDE, x, y)
        assert loop.history.X.squeeze(-1).tolist() == X.squeeze(-1).tolist()
        assert loop.history.y.tolist() == Y.tolist()

    def test_one_measurement(self):
        loop = Loop(STRATEGY, SIDE)
        row = Row(lambda: loop.observe(0.5, 0.25), "0.5", "a row of 1", "pass several")
        assert_refuses(row._replace(error=InputDataError))
        assert len(loop.history.y) == 0
        loop.observe([0.5], 0.25)
        assert loop.history.X.tolist() == [[0.5]]

    def test_elsewhere_columns_do(self):
        """As BoTorch has them."""
        x = torch.tensor([[0.1, 0.2], [0.5, 0.6]], dtype=D)
        loop = Loop.from_table(SQUARE, x, torch.tensor([[1.0], [2.0]], dtype=D))
        assert loop.history.y.tolist() == [1.0, 2.0]


def test_a_table_needs_no_strategy():
    one = Loop.from_table(adaptive_gp_ucb(), SIDE, X, Y, seed=3)
    others = [
        Loop.from_table(SIDE, X, Y, seed=3),
        Loop.from_table([(0.0, 1.0)], X, Y, seed=3),
        Loop.from_table(SIDE, X=X, y=Y, seed=3),
    ]
    wanted = one.ask(now=5.0).X
    for other in others:
        assert repr(other.strategy) == repr(one.strategy)
        assert torch.equal(other.ask(now=5.0).X, wanted)


def test_a_picture_of_no_known_ending(tmp_path):
    loop = Loop.from_table(SIDE, X, Y)
    result = run_study(WORLD, {"a": STRATEGY}, trials=2, horizon=2, progress=False)
    for plot in (loop.plot, result.plot):
        with pytest.raises(ValueError, match=r"xyz.*supported formats: .*png"):
            plot(tmp_path / "picture.xyz")
    result.plot(tmp_path / "picture.PNG")
    assert (tmp_path / "picture.PNG").stat().st_size > 0


class TestSidesAndCorners:
    """The same numbers are two boxes: sides in a list, corners in a tensor."""

    @pytest.mark.parametrize(
        ("make", "name"),
        [(Box, "Box: bounds"), (Loop, "Box: bounds"), (regular, "Grid.regular: bounds")],
        ids=["Box", "Loop", "Grid"],
    )
    def test_two_lists_that_may_be_either(self, make, name):
        row = Row(
            partial(make, [[0, 5], [10, 50]]),
            "[[0, 5], [10, 50]]",
            "may be ranges or corners",
            "give the ranges as tuples, [(0, 5), (10, 50)], or corners as a tensor",
            InputDataError,
        )
        assert_refuses(row)
        with pytest.raises(InputDataError, match=name):
            row.call()

    @pytest.mark.parametrize(
        "sides",
        [
            [(0, 5), (10, 50)],  # tuples
            [[0, 5], (10, 50)],  # one of them
            [[0, 1], [0, 1]],  # no corners: a side of length 0
            [[20, 80], [1, 8]],  # nor these: 20 is above 1
            [[0, 5], [5, 9]],  # the same box either way
            [[0, 5], [10, 50], [20, 60]],  # three sides
            [[0, 5]],
        ],
        ids=str,
    )
    def test_what_has_one_meaning(self, sides):
        wanted = torch.tensor(sides, dtype=D).T
        assert torch.equal(Box(sides).bounds, wanted)
        X = Grid.regular(2, len(sides), bounds=sides).X
        assert torch.equal(torch.stack([X.amin(0), X.amax(0)]), wanted)

    def test_a_tensor_is_corners(self):
        corners = torch.tensor([[0.0, 5.0], [10.0, 50.0]], dtype=D)
        assert torch.equal(Box(corners).bounds, corners)
        assert torch.equal(Grid.regular(2, 2, bounds=corners).X[[0, -1]], corners)
        assert torch.equal(Box([(0, 10), (5, 50)]).bounds, corners)


class Slow(Decay):
    """Says nothing of its rate in words."""

    def __init__(self, rate):
        self.rate = rate

    def attenuation(self, elapsed):
        return torch.exp(-self.rate * elapsed)


MARKOV = tv_gp_ucb(kernel=KERNEL, noise=0.02, epsilon=0.1, mean=0.5)
OTHERS = {
    "decay": (MARKOV, replace(MARKOV, decay=Markov(0.2)), "decay Markov(epsilon=0.1)"),
    "kernel": (MARKOV, replace(MARKOV, kernel=MaternKernel().double()), "kernel RBFKernel("),
    "noise": (MARKOV, replace(MARKOV, noise=0.03), "noise 0.02"),
    "mean": (MARKOV, replace(MARKOV, mean=0.0), "mean 0.5"),
    "inflation": (MARKOV, replace(MARKOV, inflation=ExponentialWeights(0.9)), "inflation Static()"),
    "rules": (MARKOV, replace(MARKOV, retention=EventTrigger(0.1)), "0 rules of retention"),
    "matrix": (
        replace(MARKOV, kernel=torch.eye(len(X)).double()),
        replace(MARKOV, kernel=2 * torch.eye(len(X)).double()),
        "kernel covariance matrix",
    ),
    "own": (replace(MARKOV, decay=Slow(0.1)), replace(MARKOV, decay=Slow(0.5)), "Slow object"),
    "bank": (STRATEGIES["adaptive"], adaptive_gp_ucb(bank=Bank(rates=(0.0, 0.1))), "bank Bank("),
}
USES = {
    "ask": lambda one, state: one.ask(state),
    "tell": lambda one, state: one.tell(state, one.ask(one.init(state.domain)), 0.1, time=9.0),
    "suggestion_at": lambda one, state: one.suggestion_at(state, X[0]),
    "posterior": lambda one, state: one.posterior(state, X),
    "recommend": lambda one, state: one.recommend(state),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("other", OTHERS)
def test_what_another_strategy_has_computed(other, use):
    began, goes_on, there = OTHERS[other]
    for domain in (Grid(X),) if other == "matrix" else (SIDE, Grid(X)):
        state = began.init(domain)
        for x, y in zip(X, Y):
            state, _ = began.tell(state, began.suggestion_at(state, x), y)
        refused = partial(USES[use], goes_on, state)
        assert_refuses(Row(refused, there, "the state was begun with", "init", InputDataError))


def test_a_suggestion_of_another_strategy_that_is_called_the_same():
    one, other, _ = OTHERS["matrix"]
    state = one.init(Grid(X))
    with pytest.raises(InputDataError, match=r"belongs to GPStr.*, not to the same with other num"):
        one.tell(state, other.ask(other.init(Grid(X))), 0.1)


def test_what_only_chooses_may_change_from_round_to_round():
    state, _ = MARKOV.tell(MARKOV.init(SIDE), MARKOV.suggestion_at(MARKOV.init(SIDE), X[0]), 0.1)
    for changed in (
        {"width": Constant(4.0)},
        {"maximize": False},
        {"exploration": ExpectedImprovement()},
    ):
        other = replace(MARKOV, **changed)
        after, _ = other.tell(state, other.ask(state), 0.2)
        assert torch.equal(other.posterior(state, X).mean, MARKOV.posterior(state, X).mean)
        MARKOV.ask(after)
