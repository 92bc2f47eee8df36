"""``torch.inference_mode()`` changes nothing: not what is chosen, nor what a state is good for."""

from dataclasses import replace

import pytest
import torch
from gpytorch.kernels import RBFKernel

from botorch_tv.acquisition import Exploration
from botorch_tv.forgetting import EventTrigger, Retained, Retention
from botorch_tv.learning import Refit
from botorch_tv.strategies import Box, GPStrategy, Grid, gp_ei, gp_ts, gp_ucb, tv_gp_ucb

D = torch.float64


class Newest(Retention):
    def keep(self, log):
        return Retained(newest=2)


class Plain(Exploration):
    def score(self, candidates):
        return candidates.mean + candidates.sd


def far(y, mean, sd, noise, since, delta):
    return (y - mean).abs() > 9


MAKE = {
    "own parts": lambda kernel: GPStrategy(
        kernel=kernel,
        noise=0.02,
        retention=(Newest(), EventTrigger(0.1, rule=far)),
        exploration=Plain(),
    ),
    "GP-UCB": lambda kernel: gp_ucb(kernel=kernel, noise=0.02),
    "GP-TS": lambda kernel: gp_ts(kernel=kernel, noise=0.02),
    "GP-EI": lambda kernel: gp_ei(kernel=kernel, noise=0.02),
    "learning": lambda kernel: replace(
        tv_gp_ucb(kernel=kernel, noise=0.02, epsilon=0.01), learning=Refit(every=2, least=2)
    ),
}


def play(name, where):
    kernel = RBFKernel().double()
    kernel.lengthscale = 0.3
    strategy = MAKE[name](kernel)
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D)
    domain = Box(bounds) if where == "box" else Grid.regular(points=4, dim=2)
    state = strategy.init(domain)
    for t in range(3):
        suggestion = strategy.ask(state, generator=torch.Generator().manual_seed(t))
        y = torch.sin(3 * suggestion.X.sum())
        state, _ = strategy.tell(state, suggestion, y)
    strategy.posterior(state, suggestion.X.unsqueeze(0))
    return strategy, state, torch.cat([suggestion.X, strategy.recommend(state)])


@pytest.mark.parametrize(
    ("name", "where"),
    [(name, where) for name in MAKE for where in ("box", "grid") if (name, where)[0] != "learning"]
    + [("learning", "box")],
)
def test_inference_mode(name, where):
    _, _, expected = play(name, where)
    with torch.inference_mode():
        strategy, state, chosen = play(name, where)
    torch.testing.assert_close(chosen.clone(), expected, rtol=0, atol=1e-9)
    suggestion = strategy.ask(state, generator=torch.Generator().manual_seed(9))
    state, _ = strategy.tell(state, suggestion, 0.3)
    X = suggestion.X.clone().unsqueeze(0).requires_grad_(where == "box")
    mean = strategy.posterior(state, X).mean
    if where == "box":
        mean.sum().backward()
        assert X.grad.isfinite().all()
