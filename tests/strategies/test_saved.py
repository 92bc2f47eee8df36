"""States saved by another version of the package are refused in words."""

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


def test_a_state_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_module, "own_version", lambda: "0.0.1")
    saved = pickle.dumps(played("tv", "grid"))
    monkeypatch.setattr(state_module, "own_version", lambda: "0.0.2")
    monkeypatch.delattr(data, "Data")
    with pytest.raises(InputDataError, match=r"saved by botorch_tv 0\.0\.1, .* 0\.0\.2.*init"):
        pickle.loads(saved)
