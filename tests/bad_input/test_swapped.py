"""Arguments in each other's place, or of another kind than is wanted."""

import inspect
import re
from dataclasses import replace
from functools import partial

import pytest
import torch
from bad_input.rows import refuses
from bad_input.test_own_parts import Rate
from botorch.exceptions import InputDataError
from gpytorch.kernels import MaternKernel, RBFKernel

from botorch_tv import (
    Box,
    Choice,
    Float,
    Grid,
    Integer,
    Loop,
    adaptive_gp_ucb,
    gp_ucb,
    run_study,
    tv_gp_ucb,
)
from botorch_tv.acquisition import Constant, ExpectedImprovement
from botorch_tv.forgetting import EventTrigger, ExponentialWeights, Markov
from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.hints import INSTEAD
from botorch_tv.optuna import DriftSampler
from botorch_tv.simulation import MarkovWorld

D = torch.float64
SIDE = Box([(0.0, 1.0)])
KERNEL = RBFKernel().double()
WORLD = MarkovWorld(Grid.regular(3, 1), kernel=KERNEL, epsilon=0.1, noise=0.1)
STRATEGY = gp_ucb(kernel=KERNEL, noise=0.02)
X = torch.tensor([[0.1], [0.5], [0.9]], dtype=D)
Y = torch.tensor([0.2, 0.7, 0.4], dtype=D)


def test_arguments_in_another_place():
    with pytest.raises(ValueError, match=r"Box, Box.*strategy, domain"):
        Loop(SIDE, SIDE)
    with pytest.raises(
        ValueError, match=r"Box, GPStrategy, Tensor, Tensor.*strategy, domain, X, y"
    ):
        Loop.from_table(SIDE, STRATEGY, X, Y)
    with pytest.raises(ValueError, match=r"loop\.table\(\)"):
        Loop.from_table(SIDE)


UNKNOWN = {
    "column": (lambda: Loop.from_table(SIDE, X, Y, times=Y), "Loop.from_table() got", "mean time?"),
    "q": (lambda: Loop(SIDE).ask(q=4), "Loop.ask() got", "Loop.ask(n=4)"),
    "sem": (lambda: Loop(SIDE).tell(0.5, sem=0.1), "Loop.tell() got", "'sem'", "the variance"),
    "kappa": (lambda: gp_ucb(kernel=KERNEL, noise=0.1, kappa=2), "gp_ucb() got", "=Constant(4)"),
    "near": (lambda: tv_gp_ucb(kernel=KERNEL, noise=0.1, epslon=0.1), "did you mean epsilon?"),
    "nearer": (lambda: run_study(WORLD, {}, n_trials=3), "run_study() got", "mean trials?"),
    "nothing near": (lambda: Float(0, 1, foo=2), "'foo'; its arguments are low, high, log, step."),
    "none": (lambda: Loop(SIDE).consult(foo=2), "Loop.consult() got", "its arguments are none"),
    "point": (lambda: Loop(SIDE).tell(0.5, point={}), "Loop.tell() got", "Loop.observe({"),
    "number": (lambda: Loop(SIDE).tell(0.5, number=3), "Loop.tell(y, suggestion=3)"),
    "time": (lambda: Loop(SIDE).ask(time=3), "Loop.ask(now=)"),
    "table": (lambda: Loop.from_table(SIDE, X, Y, foo=2), "'foo'; its arguments are strategy, d"),
    "sampler": (lambda: DriftSampler(foo=2), "DriftSampler() got", "are strategy, time_key"),
    "box": (
        lambda: Box([(0, 1)], foo=2),
        "Box() got",
        "are bounds, constraints, context_dim, search",
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_unknown_argument(name):
    call, *words = UNKNOWN[name]
    with pytest.raises(TypeError, match=".*".join(map(re.escape, words))):
        call()


def test_hints_name_arguments_that_exist():
    """Every ``function(..., argument=`` in a hint is one that can be called so."""
    names = {"Loop.ask": Loop.ask, "Loop.tell": Loop.tell, "Constant": Constant, "Float": Float}
    names |= {"Loop": Loop, "run_study": run_study, "gp_ucb": gp_ucb}
    names |= {"adaptive_gp_ucb": adaptive_gp_ucb, "Integer": Integer, "Choice": Choice}
    calls = re.findall(r"([\w.]+)\(([^()]*=[^()]*)", "; ".join(INSTEAD.values()))
    assert len(calls) >= 8
    for function, arguments in calls:
        taken = inspect.signature(names[function]).parameters
        assert set(re.findall(r"(\w+)=", arguments)) <= set(taken), function


def test_an_answer_goes_before_its_suggestion():
    loop = Loop(STRATEGY, SIDE)
    suggestion = loop.ask()
    for arguments in ((suggestion, 0.5), (0.5, suggestion), (suggestion,), (0.5, 1), ([0.3], 0.5)):
        with pytest.raises((TypeError, InputDataError), match=r"y is|tell\(\)"):
            loop.tell(*arguments)
    assert [waiting.number for waiting in loop.open] == [1]
    assert len(loop.history.y) == 0
    loop.tell(0.5, suggestion=suggestion)
    assert loop.history.y.tolist() == [0.5]


@pytest.mark.parametrize("column", [torch.clone, torch.Tensor.tolist], ids=["tensor", "list"])
def test_points_and_values_of_one_dimension_have_a_shape_of_their_own(column):
    x, y = column(X), column(Y)
    flat, rows = column(X.squeeze(-1)), column(Y.unsqueeze(-1))
    for given in ((y, x), (y, flat), (flat, y), (flat, rows)):
        refuses(partial(Loop.from_table, SIDE, *given), "X is", "n x 1", "give X of")
    for given in ((rows, x), (x, rows)):
        refuses(partial(Loop.from_table, SIDE, *given), "X is", "y of shape n", "give X of")
    loop = Loop.from_table(SIDE, x, y)
    assert loop.history.X.squeeze(-1).tolist() == X.squeeze(-1).tolist()
    assert loop.history.y.tolist() == Y.tolist()


def test_a_measurement_of_one_dimension_is_a_row():
    loop = Loop(STRATEGY, SIDE)
    refuses(lambda: loop.observe(0.5, 0.25), "0.5", "must be one point")
    assert len(loop.history.y) == 0
    loop.observe([0.5], 0.25)
    assert loop.history.X.tolist() == [[0.5]]


def test_a_picture_of_no_known_ending(tmp_path):
    loop = Loop.from_table(SIDE, X, Y)
    result = run_study(WORLD, {"a": STRATEGY}, trials=2, horizon=2, progress=False)
    for plot in (loop.plot, result.plot):
        with pytest.raises(ValueError, match=r"xyz.*supported formats: .*png"):
            plot(tmp_path / "picture.xyz")
    result.plot(tmp_path / "picture.PNG")
    assert (tmp_path / "picture.PNG").stat().st_size > 0


@pytest.mark.parametrize("make", [Box, Loop, lambda bounds: Grid.regular(3, 2, bounds=bounds)])
def test_two_lists_that_may_be_ranges_or_corners(make):
    refuses(
        lambda: make([[0, 5], [10, 50]]), ": bounds", "[[0, 5], [10, 50]]", "[(0, 5), (10, 50)]"
    )


@pytest.mark.parametrize(
    "ranges",
    [
        [(0, 5), (10, 50)],  # tuples
        [[0, 5], (10, 50)],  # a list and a tuple
        [[0, 1], [0, 1]],  # no corners: a range of length 0
        [[20, 80], [1, 8]],  # no corners: 20 is above 1
        [[0, 5], [5, 9]],  # the same box either way
        [[0, 5], [10, 50], [20, 60]],  # three ranges
        [[0, 5]],
    ],
    ids=str,
)
def test_lists_with_one_meaning(ranges):
    wanted = torch.tensor(ranges, dtype=D).T
    assert torch.equal(Box(ranges).bounds, wanted)
    X = Grid.regular(2, len(ranges), bounds=ranges).X
    assert torch.equal(torch.stack([X.amin(0), X.amax(0)]), wanted)


EYE = torch.eye(len(X), dtype=D)
MARKOV = tv_gp_ucb(kernel=KERNEL, noise=0.02, epsilon=0.1, mean=0.5)
OTHERS = {
    "decay": (MARKOV, {"decay": Markov(0.2)}, "decay Markov(epsilon=0.1)"),
    "kernel": (MARKOV, {"kernel": MaternKernel().double()}, "kernel RBFKernel("),
    "noise": (MARKOV, {"noise": 0.03}, "noise 0.02"),
    "mean": (MARKOV, {"mean": 0.0}, "mean 0.5"),
    "inflation": (MARKOV, {"inflation": ExponentialWeights(0.9)}, "inflation Static()"),
    "rules": (MARKOV, {"retention": EventTrigger(0.1)}, "0 rules of retention"),
    "matrix": (replace(MARKOV, kernel=EYE), {"kernel": 2 * EYE}, "kernel covariance matrix"),
    # Its repr does not show its rate.
    "own": (replace(MARKOV, decay=Rate(0.1)), {"decay": Rate(0.5)}, "Rate object"),
    "bank": (adaptive_gp_ucb(), {"bank": Bank(rates=(0.0, 0.1))}, "bank Bank("),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_state_of_another_strategy(name):
    began, changed, word = OTHERS[name]
    other = replace(began, **changed)
    for domain in (Grid(X),) if name == "matrix" else (SIDE, Grid(X)):
        state = began.init(domain)
        for x, y in zip(X, Y):
            state, _ = began.tell(state, began.suggestion_at(state, x), y)
        own = other.ask(other.init(domain))
        for call in (
            partial(other.ask, state),
            partial(other.tell, state, own, 0.1, time=9.0),
            partial(other.suggestion_at, state, X[0]),
            partial(other.posterior, state, X),
            partial(other.recommend, state),
        ):
            refuses(call, word, "the state was begun with", "init")


def test_a_suggestion_of_another_strategy_of_the_same_name():
    began, changed, _ = OTHERS["matrix"]
    other = replace(began, **changed)
    with pytest.raises(InputDataError, match="GPStrategy"):
        began.tell(began.init(Grid(X)), other.ask(other.init(Grid(X))), 0.1)


def test_parts_that_only_choose_may_change_from_round_to_round():
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
