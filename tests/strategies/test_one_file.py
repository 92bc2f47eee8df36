"""A stranger's retention and a stranger's kernel, each in one file, take the path of ours."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

from botorch_tv.strategies import Box, GPStrategy, Grid, gp_ucb
from botorch_tv.strategies.state import State

RETENTION = """
from dataclasses import dataclass
from botorch_tv.forgetting import Retained, Log, Retention

@dataclass(frozen=True)
class Above(Retention):
    least: float

    def keep(self, log: Log) -> Retained:
        return Retained(rows=log.y >= self.least)
"""
KERNEL = """
from gpytorch.kernels import Kernel

class Cauchy(Kernel):
    has_lengthscale = True

    def forward(self, x1, x2, diag=False, **params):
        apart = self.covar_dist(x1 / self.lengthscale, x2 / self.lengthscale, diag=diag)
        return 1 / (1 + apart.square())
"""
NOISE = 0.05
ARMS = Grid.regular(5, 2)
X, at = ARMS.X[[0, 4, 12, 13, 20]], ARMS.X[3:9]
y = torch.tensor([0.3, -0.2, 0.5, -0.1, 0.1], dtype=X.dtype)
DOMAINS = [ARMS, Box(torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double())]


def from_file(folder: Path, text: str) -> ModuleType:
    file = folder / "stranger.py"
    file.write_text("import torch\n" + text)
    spec = importlib.util.spec_from_file_location("stranger", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def played(strategy: GPStrategy, domain: Grid | Box) -> State:
    state = strategy.init(domain)
    strategy.ask(state)
    for point, value in zip(X, y):
        state, _ = strategy.tell(state, strategy.suggestion_at(state, point), value)
    return state


def by_hand(kernel, X, y, at):
    K = kernel(X).to_dense() + NOISE * torch.eye(len(X), dtype=X.dtype)
    return kernel(at, X).to_dense() @ torch.linalg.solve(K, y)


@pytest.mark.parametrize("domain", DOMAINS, ids=["grid", "box"])
def test_a_kernel(domain: Grid | Box, tmp_path: Path) -> None:
    kernel = from_file(tmp_path, KERNEL).Cauchy().double()
    kernel.lengthscale = 0.4
    strategy = gp_ucb(kernel=kernel, noise=NOISE)
    state = played(strategy, domain)
    with torch.no_grad():
        torch.testing.assert_close(
            strategy.posterior(state, at).mean.squeeze(-1), by_hand(kernel, X, y, at)
        )


@pytest.mark.parametrize("domain", DOMAINS, ids=["grid", "box"])
def test_a_retention(domain: Grid | Box, tmp_path: Path) -> None:
    rule = from_file(tmp_path, RETENTION).Above(0.0)
    kernel = from_file(tmp_path, KERNEL).Cauchy().double()
    strategy = GPStrategy(kernel=kernel, noise=NOISE, retention=rule)
    above = y >= 0
    with torch.no_grad():
        mean = strategy.posterior(played(strategy, domain), at).mean
        wanted = by_hand(kernel, X[above], y[above], at)
    torch.testing.assert_close(mean.squeeze(-1), wanted)
