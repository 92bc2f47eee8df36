"""Arguments, defaults and docstrings of presets."""

import inspect
import math
import pickle
from dataclasses import fields
from typing import Unpack

import pytest
from gpytorch.kernels import RBFKernel

import botorch_tv
from benchmarks import readme
from botorch_tv import strategies
from botorch_tv.acquisition import Logarithmic, WidthContext
from botorch_tv.forgetting import SlidingWindow
from botorch_tv.forgetting.change_detection import prediction_error
from botorch_tv.identity import describe
from botorch_tv.strategies import et_gp_ucb, gp_ucb, presets
from botorch_tv.strategies.presets import ARGUMENTS

PRESETS = {name: entry.make for name, entry in presets.PRESETS.items()}
OWN = {
    "r_gp_ucb": {"period": 3},
    "br_gp_ucb": {"period": 3},
    "sw_gp_ucb": {"window": 3},
    "tv_gp_ucb": {"epsilon": 0.1},
    "glr_gp_ucb": {"chance": 0.1},
    "w_dbo": {"epsilon": 0.1},
    "pe_gp_ucb": {"epsilons": (0.0, 0.1)},
    "bob_gp_ucb": {"windows": (2, 4), "block": 4, "horizon": 20},
    "r_perp": {"period": 9, "beta": 4.0},
    "tv_bayesopt": {"epsilon": 0.1, "cycle": 5.0, "cycle_lengthscale": 1.0},
    "w_gp_ucb": {"gamma": 0.9},
    "ui_tvbo": {"sigma_w2": 0.1},
    "ui_gp_ucb": {"alpha": 1.0},
    "w_sparq_gp_ucb": {"alpha": 1.0},
}


ADAPTIVE = "adaptive_gp_ucb"


def needed_by(name):
    if name == ADAPTIVE:
        return {}
    return {"kernel": RBFKernel(), "noise": 0.1} | OWN.get(name, {})


@pytest.mark.parametrize("name", PRESETS)
def test_every_argument_is_listed_taken_and_described(name):
    preset = PRESETS[name]
    listed = inspect.signature(preset).parameters
    described = inspect.getdoc(preset).split("Args:\n")[1]
    for item in listed.values():
        assert f"\n    {item.name}: " in f"\n{described}"
        assert item.annotation is not item.empty
    needed = needed_by(name)
    assert {item.name for item in listed.values() if item.default is item.empty} == set(needed)
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
    assert all(name in botorch_tv.__all__ for name in PRESETS)
    styles = [entry.style for entry in presets.PRESETS.values()]
    assert len(set(styles)) == len(styles)


def test_the_table_of_the_readme_is_that_of_the_list():
    text = readme.README.read_text(encoding="utf-8")
    begin, end = readme.PRESETS_BEGIN, readme.PRESETS_END
    assert readme.replaced(readme.presets(), text, begin, end) == text
    assert all(entry.row.count(" | ") == 4 for entry in presets.PRESETS.values())


def test_a_user_adds_an_algorithm_in_a_file(monkeypatch):
    monkeypatch.setattr(presets, "PRESETS", dict(presets.PRESETS))

    @presets.preset("Short-GP-UCB, Short", "blue dotted", "none | σ² | the newest | logarithmic | ")
    def short_gp_ucb(*, rounds: int = 5, **common: Unpack[presets.Common]) -> strategies.GPStrategy:
        """Keeps the newest rounds.

        Args:
            rounds: How many.
        """
        parts = presets.with_width(common, Logarithmic())
        return strategies.GPStrategy(retention=SlidingWindow(rounds), **parts)

    assert "`short_gp_ucb` | retains the newest" in readme.presets(presets.PRESETS)
    player = short_gp_ucb(kernel=RBFKernel().double(), noise=0.1, rounds=3)
    state = player.init(strategies.Grid.regular(points=4, dim=1))
    for _ in range(5):
        state, _ = player.tell(state, player.ask(state), 0.1)
    assert state.data.rounds - state.data.dropped == 3
    with pytest.raises(TypeError, match="unexpected keyword argument 'round'"):
        short_gp_ucb(kernel=RBFKernel(), noise=0.1, round=3)


def test_missing_arguments_are_named():
    with pytest.raises(TypeError, match="missing a required argument: 'noise'"):
        strategies.r_gp_ucb(kernel=RBFKernel())
    with pytest.raises(TypeError, match="too many positional arguments"):
        strategies.gp_ucb(RBFKernel(), 0.1)


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
