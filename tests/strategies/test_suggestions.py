"""Suggestions of another strategy, another grid or a point outside are refused."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError
from loop.loops import BOX, GRID, NOISE, WITH_CONTEXT, kernel

from botorch_tv.acquisition import Logarithmic
from botorch_tv.forgetting import EventTrigger, KeepAll
from botorch_tv.strategies import Grid, Strategy, Suggestion, et_gp_ucb, gp_ucb, tv_gp_ucb

STRATEGY = et_gp_ucb(kernel=kernel(), noise=NOISE)
FINER, MOVED = Grid.regular(7, 2), Grid(GRID.X + 0.01)
nan = float("nan")


def asked(domain: Any, strategy: Strategy = STRATEGY, shape: tuple[int, ...] = (3,)) -> Suggestion:
    state = strategy.init(domain, batch_shape=shape)
    state, _ = strategy.tell(state, strategy.ask(state), torch.ones(shape, dtype=torch.float64))
    return strategy.ask(state)


def changed(**parts: Any) -> Callable[[], Suggestion]:
    return lambda: asked(GRID)._replace(**parts)


ON_GRID: dict[str, tuple[Callable[[], Any], str]] = {
    "finer grid": (lambda: asked(FINER), r"same arm of Grid\(36 .*suggestion_at\(state"),
    "moved grid": (lambda: asked(MOVED), "same arm of Grid"),
    "box": (lambda: asked(BOX), "same arm of Grid"),
    "other strategy": (
        lambda: asked(GRID, tv_gp_ucb(kernel=kernel(), noise=NOISE, epsilon=0.1)),
        r"belongs to GPStrategy\(.*Markov.*suggestion_at",
    ),
    "other width": (
        lambda: asked(GRID, replace(STRATEGY, width=Logarithmic(c1=0.3))),
        "c1=0.3.*, not to ",
    ),
    "other trials": (lambda: asked(GRID, shape=(2,)), "shape"),
    "no arm": (changed(index=torch.full((3,), 36)), "same arm of Grid"),
    "negative arm": (changed(index=torch.full((3,), -1)), "same arm of Grid"),
    "another arm": (changed(index=torch.full((3,), 5)), "same arm of Grid"),
    "real arm": (changed(index=torch.ones(3)), "same arm of Grid"),
    "no X": (changed(X=None), "suggestion.X is None, but it must be .* of shape"),
    "no time": (changed(time=torch.ones(2)), r"suggestion.time is .* of shape \(2,\)"),
    "float32 time": (
        changed(time=torch.full((3,), 2.0)),
        "suggestion.time is torch.float32 .* torch.float64",
    ),
    "float32 sd": (changed(sd=torch.ones(3)), "suggestion.sd is torch.float32"),
    "no prediction": (changed(mean=torch.full((3,), nan).double()), "nan of trial 0 was predicted"),
}


@pytest.mark.parametrize("name", ON_GRID)
def test_suggestions_of_other_grids_and_strategies_are_refused(name: str) -> None:
    make, message = ON_GRID[name]
    state = STRATEGY.init(GRID, batch_shape=(3,))
    suggestion = make()
    with pytest.raises(InputDataError, match=message):
        STRATEGY.tell(state, suggestion, torch.ones(3, dtype=torch.float64))
    assert state.rounds == 0


@pytest.mark.parametrize("domain", [BOX, WITH_CONTEXT], ids=["box", "context"])
def test_points_outside_a_box_are_refused(domain: Any) -> None:
    strategy = gp_ucb(kernel=kernel(), noise=NOISE)
    state = strategy.init(domain)
    X = torch.tensor([0.5, 0.5, 2.0][: domain.columns], dtype=torch.float64)
    good = strategy.suggestion_at(state, X)
    last = domain.columns - 1
    for place, value, match in ((1, 3.0, "lies outside Box"), (last, nan, "not finite|NaN")):
        point = X.clone()
        point[place] = value
        with pytest.raises(InputDataError, match=match):
            strategy.tell(state, good._replace(X=point), 1.0)
    with pytest.raises(InputDataError, match=r"names the arm of a grid, .* on Box"):
        strategy.tell(state, good._replace(index=torch.tensor(0)), 1.0)


def test_the_same_in_another_place_is_accepted() -> None:
    rule = EventTrigger(0.1, rule=lambda y, mean, sd, *others: (y - mean).abs() > 9)
    for retention in (STRATEGY.retention, rule):
        first, second = (
            replace(et_gp_ucb(kernel=kernel(), noise=NOISE), retention=retention) for _ in range(2)
        )
        state = second.init(Grid.regular(6, 2))
        saved = pickle.dumps(tuple(first.ask(first.init(GRID))))
        suggestion = Suggestion(*pickle.loads(saved))
        assert second.tell(state, suggestion, 1.0)[0].rounds == 1
        assert second.tell(state, suggestion._replace(made_by=None), 1.0)[0].rounds == 1


def test_parallel_suggestions_are_added_to_newer_states():
    strategy = et_gp_ucb(kernel=kernel(), noise=NOISE)
    state = strategy.init(GRID)
    for y in (0.2, 0.1):
        state, _ = strategy.tell(state, strategy.ask(state), y)
    made = strategy.ask(state)
    state, _ = strategy.tell(state, made, 0.0)
    fresh = strategy.suggestion_at(state, made.X, now=made.time)
    y = float(fresh.mean + 1.05 * strategy.band(state, fresh))
    assert y < float(made.mean + strategy.band(state, made))
    after, info = strategy.tell(state, made, y)
    assert not info.reset
    _, info = strategy.tell(state, fresh, y)
    assert info.reset
    plain = replace(strategy, retention=KeepAll())
    again = plain.init(GRID)
    for X, value in zip(after.history.choice.tensor(), after.history.y.tensor()):
        at = plain.suggestion_at(again, GRID.X[X], now=again.time + (again.rounds < 3))
        again, _ = plain.tell(again, at, value)
    expected = plain.posterior(again, GRID.X).mean
    torch.testing.assert_close(strategy.posterior(after, GRID.X).mean, expected)
