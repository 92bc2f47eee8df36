"""What a preset takes: listed, described, and nothing besides."""

import inspect
import pickle
from dataclasses import fields
from pathlib import Path
from typing import Unpack

import pytest
from gpytorch.kernels import RBFKernel

import botorch_tv
from benchmarks import readme
from botorch_tv import strategies
from botorch_tv.acquisition import Logarithmic
from botorch_tv.forgetting import SlidingWindow
from botorch_tv.identity import describe
from botorch_tv.strategies import presets
from botorch_tv.strategies.presets import ARGUMENTS

PRESETS = {name: one.make for name, one in presets.PRESETS.items()}
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


TOLD_NOTHING = "adaptive_gp_ucb"


def needed_by(name):
    if name == TOLD_NOTHING:
        return {}
    return {"kernel": RBFKernel(), "noise": 0.1} | OWN.get(name, {})


@pytest.mark.parametrize("name", PRESETS)
def test_every_argument_is_listed_taken_and_described(name):
    preset = PRESETS[name]
    listed = inspect.signature(preset).parameters
    described = inspect.getdoc(preset).split("Args:\n")[1]
    for one in listed.values():
        assert f"\n    {one.name}: " in f"\n{described}"
        assert one.annotation is not one.empty
    needed = needed_by(name)
    assert {one.name for one in listed.values() if one.default is one.empty} == set(needed)
    spelled = {name: one.default for name, one in listed.items()} | needed
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
    styles = [one.style for one in presets.PRESETS.values()]
    assert len(set(styles)) == len(styles)


def test_the_table_of_the_readme_is_that_of_the_list():
    text = readme.README.read_text(encoding="utf-8")
    begin, end = readme.PRESETS_BEGIN, readme.PRESETS_END
    assert readme.replaced(readme.presets(), text, begin, end) == text
    assert all(one.row.count(" | ") == 4 for one in presets.PRESETS.values())


def test_a_stranger_adds_an_algorithm_in_one_file(monkeypatch):
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
    one = short_gp_ucb(kernel=RBFKernel().double(), noise=0.1, rounds=3)
    state = one.init(strategies.Grid.regular(points=4, dim=1))
    for _ in range(5):
        state, _ = one.tell(state, one.ask(state), 0.1)
    assert state.data.rounds - state.data.dropped == 3
    with pytest.raises(TypeError, match="unexpected keyword argument 'round'"):
        short_gp_ucb(kernel=RBFKernel(), noise=0.1, round=3)


def test_what_is_missing_is_said():
    with pytest.raises(TypeError, match="missing a required argument: 'noise'"):
        strategies.r_gp_ucb(kernel=RBFKernel())
    with pytest.raises(TypeError, match="too many positional arguments"):
        strategies.gp_ucb(RBFKernel(), 0.1)


def test_defaults_are_those_of_a_strategy():
    defaults = {one.name: one.default for one in fields(strategies.GPStrategy)}
    for name in ("maximize", "mean", "inference"):
        assert ARGUMENTS[name][1] == defaults[name]


@pytest.mark.slow
def test_types_are_checked_beforehand(tmp_path):
    api = pytest.importorskip("mypy.api")
    calls = {
        "gp_ucb(kernel=k, noise=0.1, mean='estimated')": "",
        "gp_ucb(kernel=k, noise=0.1, wdith=None)": 'Unexpected keyword argument "wdith"',
        "gp_ei(kernel=k, noise=0.1, width=None)": 'Unexpected keyword argument "width"',
        "r_gp_ucb(kernel=k, noise=0.1)": 'Missing named argument "period"',
        "r_gp_ucb(kernel=k, noise=0.1, period='3')": "incompatible type",
        "tv_gp_ucb(kernel=k, epsilon=0.1)": 'Missing named argument "noise"',
    }
    head = f"from torch import Tensor\nfrom botorch_tv.strategies import {', '.join(PRESETS)}\n"
    file = tmp_path / "calls.py"
    file.write_text(head + "def play(k: Tensor) -> None:\n    " + "\n    ".join(calls) + "\n")
    settings = Path(botorch_tv.__file__).parents[1] / "pyproject.toml"
    told, _, _ = api.run(["--config-file", str(settings), "--no-error-summary", str(file)])
    for line, expected in enumerate(calls.values(), start=4):
        errors = [one for one in told.splitlines() if f"calls.py:{line}: error:" in one]
        assert bool(errors) == bool(expected)
        assert all(expected in one for one in errors)
