"""Nothing is made on PyTorch's default device: all says where it is, or is where its arguments are.

On the meta device there are no numbers, so that whatever were made there would be noticed.
"""

from __future__ import annotations

import ast
import math
from functools import partial
from pathlib import Path

import pytest
import torch
from conformance.presets import BY_NAME

import botorch_tv
from botorch_tv import strategies as s
from botorch_tv.learning import Refit
from botorch_tv.loop import Loop
from botorch_tv.models import adaptive_model
from botorch_tv.simulation import MarkovWorld, run_study
from botorch_tv.simulation.rivals import unit_kernel

GIVEN = {"kernel": unit_kernel("se", 0.3), "noise": 0.05}
NAMED = [
    *("ET-GP-UCB", "TV-GP-UCB", "SW-GP-UCB", "WGP-UCB", "GLR-GP-UCB", "GP-TS", "GP-EI"),
    *("Random", "TV-BayesOpt", "UI-TVBO"),
]
ON_GRIDS = {name: partial(BY_NAME[name].strategy, *GIVEN.values()) for name in NAMED}
ON_GRIDS |= {
    "adaptive": s.adaptive_gp_ucb,
    "committee": lambda: s.PriorElimination(members=(s.gp_ucb(**GIVEN), s.igp_ucb(**GIVEN))),
    "bandits": lambda: s.bob_gp_ucb(**GIVEN, windows=(3, 6), block=4, horizon=30),
    "phases": lambda: s.r_perp(**GIVEN, period=4, beta=2.0),
    "exp3": lambda: s.rexp3(**GIVEN, period=4, low=-1.0, high=1.0),
    "sparq": lambda: s.sparq_gp_ucb(**GIVEN, steps=20),
}
ON_BOXES = {
    "regression": lambda: s.gp_ucb(**GIVEN, inference="exact"),
    "features": lambda: s.et_gp_ucb(**GIVEN, inference="features"),
    "walk": lambda: s.ui_tvbo(**GIVEN, sigma_w2=0.05),
    "ts": lambda: s.gp_ts(**GIVEN),
    "w_dbo": lambda: s.w_dbo(**GIVEN, epsilon=0.05),
    "learned": lambda: s.GPStrategy(
        **GIVEN, width=s.gp_ucb(**GIVEN).width, learning=Refit(every=4)
    ),
    "adaptive": s.adaptive_gp_ucb,
}


def measured(X, t):
    return torch.cos(3 * X - 0.1 * t).sum(-1)


def played(strategy, domain, shape, rounds):
    """What is chosen in some rounds, `rounds x shape x d`."""
    state, generator = strategy.init(domain, batch_shape=shape), torch.Generator("cpu")
    generator.manual_seed(3)
    chosen = []
    for t in range(rounds):
        suggestion = strategy.ask(state, generator=generator)
        state, _ = strategy.tell(state, suggestion, measured(suggestion.X, t))
        consultation = strategy.consult(state, generator=generator)
        if consultation is not None:
            state = strategy.absorb(state, consultation, measured(consultation.X, t))
        chosen.append(suggestion.X)
    return torch.stack(chosen)


def require_same(make):
    usual = make()
    with torch.device("meta"):
        found = make()
    assert found.device.type == "cpu"
    assert torch.equal(found, usual)


@pytest.mark.few(8)
@pytest.mark.parametrize("name", ON_GRIDS)
def test_choices_on_a_grid(name):
    shape = (3,) if name != "sparq" else ()
    require_same(lambda: played(ON_GRIDS[name](), s.Grid.regular(6, 2), shape, 12))


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ON_BOXES)
def test_choices_on_a_box(name):
    require_same(lambda: played(ON_BOXES[name](), s.Box([(0.0, 1.0)] * 2), (), 9))


def test_studies():
    grid = s.Grid.regular(6, 2)
    world = MarkovWorld(grid, kernel=GIVEN["kernel"], epsilon=0.05, noise=0.05)
    players = {name: ON_GRIDS[name]() for name in ("ET-GP-UCB", "WGP-UCB", "GP-TS")}

    def regret():
        study = run_study(world, players, trials=3, horizon=10, progress=False)
        return torch.tensor(study.data["regret"].values, device="cpu")

    require_same(regret)


def test_models():
    X = torch.rand(12, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    X = torch.cat([X, torch.arange(12.0).double().unsqueeze(-1)], -1)
    y = measured(X[:, :2], 0).unsqueeze(-1)
    at = X[:3] + torch.tensor([0.0, 0.0, 12.0], dtype=torch.float64)

    def moments():
        posterior = adaptive_model(X, y).posterior(at)
        return torch.cat([posterior.mean, posterior.variance]).detach()

    require_same(moments)


def test_loops():
    def points():
        loop = Loop(s.Box({"x": s.Float(0, 1), "kind": s.Choice("a", "b")}))
        chosen = []
        for t in range(5):
            suggestion = loop.ask(now=t)
            loop.tell(math.cos(3 * suggestion.point["x"]) + (suggestion.point["kind"] == "a"))
            chosen.append([suggestion.point["x"], suggestion.point["kind"] == "a"])
        return torch.tensor(chosen, dtype=torch.float64, device="cpu")

    require_same(points)


MODULES = (
    # Parameters and buffers of modules, which PyTorch makes on its default device.
    "forgetting/decay.py",
    "kernels/declared.py",
    "kernels/temporal.py",
    "likelihoods/age_noise.py",
    "test_functions/cart_pole.py",
    "test_functions/cart_pole_system.py",
    "test_functions/drifting.py",
    "test_functions/search.py",
)
MAKE = (
    *("arange", "as_tensor", "empty", "eye", "full", "linspace", "logspace", "ones", "rand"),
    *("randint", "randn", "randperm", "scalar_tensor", "tensor", "tril_indices", "zeros"),
)


def test_every_tensor_has_an_explicit_device():
    package, silent = Path(botorch_tv.__file__).parent, []
    for file in package.rglob("*.py"):
        if str(file.relative_to(package)) in MODULES:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            of_torch = isinstance(node.func.value, ast.Name) and node.func.value.id == "torch"
            given = {keyword.arg for keyword in node.keywords} & {"device", None}
            if of_torch and node.func.attr in MAKE and not given:
                silent.append(f"{file.relative_to(package)}:{node.lineno}")
    assert not silent
