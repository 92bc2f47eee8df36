"""States saved by another version of the package are refused in words."""

import io
import pickle
import sys
import types
from typing import NamedTuple

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import RBFKernel

from botorch_tv.inference import data
from botorch_tv.inference.data import Data
from botorch_tv.strategies import Box, Grid, adaptive_gp_ucb, sw_gp_ucb, tv_gp_ucb
from botorch_tv.strategies.state import State

CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
PRESETS = {
    "tv": tv_gp_ucb(kernel=RBFKernel().double(), noise=0.01, epsilon=0.03),
    "window": sw_gp_ucb(kernel=RBFKernel().double(), noise=0.01, window=2),
    "adaptive": adaptive_gp_ucb(),
}
DOMAINS = {"grid": Grid.regular(4, 2), "box": Box(CUBE)}


def played(name: str, domain: str) -> State:
    strategy = PRESETS[name]
    state = strategy.init(DOMAINS[domain])
    for y in (0.3, -0.1, 0.2):
        point = DOMAINS["grid"].X[[5, 9][int(y > 0)]]
        state, _ = strategy.tell(state, strategy.suggestion_at(state, point), y)
    return state


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("name", PRESETS)
def test_a_state_comes_back_and_goes_on(name: str, domain: str) -> None:
    state = played(name, domain)
    saved = io.BytesIO()
    torch.save(state, saved)
    saved.seek(0)
    again = torch.load(saved, weights_only=False)
    strategy, X = PRESETS[name], DOMAINS["grid"].X[:3]
    first, second = (strategy.posterior(one, X) for one in (state, again))
    assert type(again) is State
    assert torch.equal(first.mean, second.mean)
    assert torch.equal(first.variance, second.variance)


def test_a_class_that_is_gone_is_named_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    saved = pickle.dumps(played("tv", "grid"))
    monkeypatch.delattr(data, "Data")
    with pytest.raises(InputDataError, match=r"Data is not there.*strategy\.init"):
        pickle.loads(saved)


def test_a_class_of_other_fields_is_named_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    """In other fields the same numbers would be taken for others."""
    saved = pickle.dumps(played("tv", "grid"))
    swapped = ("rounds", "prior", *Data._fields[2:])
    other = NamedTuple("Data", [(name, object) for name in swapped])  # type: ignore[misc]
    other.__module__ = data.__name__
    monkeypatch.setattr(data, "Data", other)
    with pytest.raises(InputDataError, match=r"Data consists of other parts"):
        pickle.loads(saved)


def test_a_module_that_is_gone_is_named_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = types.ModuleType("botorch_tv.inference.former")

    class Former(NamedTuple):
        mean: torch.Tensor

    Former.__module__, Former.__qualname__, gone.Former = gone.__name__, "Former", Former  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, gone.__name__, gone)
    state = played("tv", "grid")
    saved = pickle.dumps(state._replace(memory=state.memory._replace(exploration=Former(CUBE))))
    assert torch.equal(pickle.loads(saved).memory.exploration.mean, CUBE)
    monkeypatch.delitem(sys.modules, gone.__name__)
    with pytest.raises(InputDataError, match=r"former\.Former is not there.*Load it with that"):
        pickle.loads(saved)
