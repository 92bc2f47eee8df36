"""Arguments, defaults and docstrings of presets."""

import inspect
import math
import pickle
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError
from conformance.presets import BY_NAME, LINES, OTHERS
from gpytorch.kernels import RBFKernel
from loop.loops import BOX, GRID, NOISE, WITH_CONTEXT, kernel
from strategies.live_numbers import LiveNumbers

import botorch_tv
from botorch_tv import strategies
from botorch_tv.acquisition import Logarithmic, WidthContext
from botorch_tv.forgetting import EventTrigger
from botorch_tv.forgetting.change_detection import prediction_error
from botorch_tv.identity import describe
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
    gp_ucb,
    listing,
    sparq_gp_ucb,
    tv_gp_ucb,
)
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.listing import ARGUMENTS

PRESETS = {name: entry.make for name, entry in listing.PRESETS.items()}


def needed_by(name):
    arguments = OTHERS[name][1] if name in OTHERS else LINES[name][1]
    given = {"kernel": RBFKernel(), "noise": 0.1} | arguments
    own = inspect.signature(PRESETS[name]).parameters.values()
    return {item.name: given[item.name] for item in own if item.default is item.empty}


@pytest.mark.parametrize("name", PRESETS)
def test_every_argument_is_listed_taken_and_described(name):
    preset = PRESETS[name]
    listed = inspect.signature(preset).parameters
    described = inspect.getdoc(preset).split("Args:\n")[1]
    for item in listed.values():
        assert f"\n    {item.name}: " in f"\n{described}"
        assert item.annotation is not item.empty
    needed = needed_by(name)
    spelled = {name: item.default for name, item in listed.items()} | needed
    assert describe(preset(**spelled), "it") == describe(preset(**needed), "it")
    assert pickle.loads(pickle.dumps(preset)) is preset


@pytest.mark.parametrize("name", PRESETS)
def test_typos_are_refused(name):
    needed = needed_by(name)
    with pytest.raises(TypeError, match="unexpected keyword argument 'maximise'"):
        PRESETS[name](**needed, maximise=False)
    # Parts of a strategy that are the preset's own affair are no arguments either.
    with pytest.raises(TypeError, match="unexpected keyword argument 'exploration'"):
        PRESETS[name](**needed, exploration=None)


def test_the_package_offers_the_whole_list():
    offered = {name for name in strategies.__all__ if inspect.isfunction(getattr(strategies, name))}
    assert offered == set(PRESETS)
    names = {name: list(entry.names) for name, entry in listing.PRESETS.items()}
    assert botorch_tv.preset_names() == names
    styles = [entry.style for entry in listing.PRESETS.values()]
    assert len(set(styles)) == len(styles)


def test_defaults_are_those_of_a_strategy():
    defaults = {item.name: item.default for item in fields(strategies.GPStrategy)}
    for name in ("maximize", "mean", "inference"):
        assert ARGUMENTS[name][1] == defaults[name]


COMMON = {"maximize": True, "mean": 0.0, "inference": "auto"}
WIDE = {"width": None}
GAIN = WIDE | {"B": 1.0, "R": None, "delta": 0.1}  # δ = 0.1 as in the papers' experiments
EXPERT = WIDE | {"B": 1.0, "delta": 0.1, "c_Q": 1.0, "steps": None}
DEFAULTS = {
    "gp_ucb": WIDE,
    "igp_ucb": GAIN,
    "gp_ts": GAIN,
    "gp_ei": {"incumbent": "posterior", "ties": "first"},
    "gp_pi": {"incumbent": "posterior", "ties": "first"},
    "random_search": {},
    "r_gp_ucb": WIDE,
    "br_gp_ucb": GAIN,
    "sw_gp_ucb": GAIN,
    "tv_gp_ucb": WIDE,
    "tv_bayesopt": WIDE,
    "w_gp_ucb": GAIN,
    "ui_tvbo": WIDE,
    "ui_gp_ucb": WIDE | {"kappa": 1.0, "B": 1.0, "delta": 0.1},
    "et_gp_ucb": WIDE | {"delta": 0.1, "rule": prediction_error, "confirm": 0},
    "glr_gp_ucb": WIDE | {"delta": 0.1, "longest": 64},
    "w_dbo": WIDE | {"alpha": 0.25},
    "pe_gp_ucb": WIDE | {"delta": 0.1},
    "bob_gp_ucb": GAIN,
    "r_perp": {},
    "rexp3": {"gamma": None},
    "sparq_gp_ucb": EXPERT,
    "w_sparq_gp_ucb": EXPERT | {"alpha_tilde": 0.25, "inflate": True},
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults(name):
    parameters = inspect.signature(getattr(strategies, name)).parameters.values()
    assert all(item.kind is item.KEYWORD_ONLY for item in parameters)
    given = {item.name: item.default for item in parameters if item.default is not item.empty}
    assert given == COMMON | DEFAULTS[name]


def test_an_event_trigger_explores_as_its_paper_does():
    et, usual = (make(kernel=RBFKernel(), noise=0.1).width for make in (et_gp_ucb, gp_ucb))
    for t in (1, 7, 400):
        context = WidthContext(t, t)
        assert float(et.sqrt_beta(context)) == pytest.approx((0.4 * math.log(4 * t)) ** 0.5)
        assert float(usual.sqrt_beta(context)) == pytest.approx((0.8 * math.log(4 * t)) ** 0.5)


# ---------------- Suggestions of another strategy, another grid or a point outside are refused

STRATEGY = et_gp_ucb(kernel=kernel(), noise=NOISE)
FINER = Grid.regular(7, 2)
nan = float("nan")


def asked(domain: Any, strategy: Strategy = STRATEGY) -> Suggestion:
    shape = (3,)
    state = strategy.init(domain, batch_shape=shape)
    state, _ = strategy.tell(state, strategy.ask(state), torch.ones(shape, dtype=torch.float64))
    return strategy.ask(state)


def changed(**parts: Any) -> Callable[[], Suggestion]:
    return lambda: asked(GRID)._replace(**parts)


ON_GRID: dict[str, tuple[Callable[[], Any], str]] = {
    "finer grid": (lambda: asked(FINER), r"same arm of Grid\(36 .*suggestion_at\(state"),
    "box": (lambda: asked(BOX), "same arm of Grid"),
    "other strategy": (
        lambda: asked(GRID, tv_gp_ucb(kernel=kernel(), noise=NOISE, epsilon=0.1)),
        r"belongs to GPStrategy\(.*Markov.*suggestion_at",
    ),
    "other width": (
        lambda: asked(GRID, replace(STRATEGY, width=Logarithmic(c1=0.3))),
        "c1=0.3.*, not to ",
    ),
    "no arm": (changed(index=torch.full((3,), 36)), "same arm of Grid"),
    "another arm": (changed(index=torch.full((3,), 5)), "same arm of Grid"),
    "real arm": (changed(index=torch.ones(3)), "same arm of Grid"),
    "no X": (changed(X=None), "suggestion.X is None, but it must be .* of shape"),
    "no time": (changed(time=torch.ones(2)), r"suggestion.time is .* of shape \(2,\)"),
    "float32 time": (
        changed(time=torch.full((3,), 2.0)),
        "suggestion.time is torch.float32 .* torch.float64",
    ),
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


# ---------------- The estimated memory of a trial is right to a factor of two

MEMORY = ["GP-UCB", "TV-GP-UCB", "SW-GP-UCB", "WGP-UCB", "GP-TS", "GP-EI", "Random", "SparQ"]
MEMORY += ["Markov + window"]


def remembering(name: str) -> Strategy:
    kernel = unit_kernel("se", 0.3)
    if name == "SparQ":
        return sparq_gp_ucb(kernel=kernel, noise=0.1, steps=20)
    return BY_NAME[name].strategy(kernel, 0.1)


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


UNIT = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
ON_A_BOX = ["GP-UCB", "TV-GP-UCB", "GP-TS", "Random"]
SEARCHES = {
    "starts": MultiStart(raw_samples=64, evaluations=2),
    "listed": DiscreteSearch(torch.rand(300, 2).double()),
}


@pytest.mark.few("GP-UCB", "TV-GP-UCB")
@pytest.mark.parametrize("name", MEMORY)
def test_on_a_grid(name: str) -> None:
    for points, horizon in ((4, 12), (7, 16 if name == "SparQ" else 40)):
        trials = 3 if name == "SparQ" else 12
        assert 0.5 < share(remembering(name), Grid.regular(points, 2), trials, horizon) < 2


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ON_A_BOX)
@pytest.mark.parametrize("search", SEARCHES)
def test_on_a_box(search: str, name: str) -> None:
    domain = Box(UNIT, search=SEARCHES[search])
    for trials in (1, 5):
        assert 0.5 < share(remembering(name), domain, trials, 40) < 2


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["GP-UCB", "TV-GP-UCB", "WGP-UCB"])
def test_of_a_factor_that_grows(name: str) -> None:
    player = replace(remembering(name), inference="exact")
    assert 0.8 < share(player, Box(UNIT), 2, 150) < 1.3
