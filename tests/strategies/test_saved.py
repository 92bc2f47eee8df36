"""States saved by another version of the package are refused in words."""

import io
import pickle

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import RBFKernel

from botorch_tv.gp import data
from botorch_tv.strategies import Box, Grid, adaptive_gp_ucb, sw_gp_ucb, tv_gp_ucb
from botorch_tv.strategies import state as state_module
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


def test_a_state_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its parts are read, which that version may have named or ordered otherwise."""
    monkeypatch.setattr(state_module, "own_version", lambda: "0.0.1")
    saved = pickle.dumps(played("tv", "grid"))
    monkeypatch.setattr(state_module, "own_version", lambda: "0.0.2")
    monkeypatch.delattr(data, "Data")
    with pytest.raises(InputDataError, match=r"saved by botorch_tv 0\.0\.1, .* 0\.0\.2.*init"):
        pickle.loads(saved)
