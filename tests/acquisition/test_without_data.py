"""Rounds without data: the scores of the prior decide, [B16] Algorithm 1, lines 3 to 5."""

import pytest
import torch
from gpytorch.kernels import LinearKernel, RBFKernel

from botorch_tv import Box, Grid, gp_ei, gp_pi, gp_ucb, r_gp_ucb, run_study
from botorch_tv.acquisition import ExpectedImprovement, ProbabilityOfImprovement, UpperConfidence
from botorch_tv.forgetting import PeriodicReset
from botorch_tv.simulation import MarkovWorld
from botorch_tv.strategies import GPStrategy

D = torch.float64
K = torch.diag(torch.tensor([1.0, 4.0, 2.0], dtype=D))
GRID = Grid(torch.tensor([[0.0], [0.5], [1.0]], dtype=D))
EXPLORATIONS = [UpperConfidence(), ExpectedImprovement(), ProbabilityOfImprovement()]


@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("exploration", EXPLORATIONS, ids=lambda part: type(part).__name__)
@pytest.mark.parametrize("scale", [1.0, 1e-8])
def test_first_arm_of_every_block_on_a_grid(exploration, maximize, scale):
    strategy = GPStrategy(
        kernel=scale * K,
        noise=0.01 * scale,
        retention=PeriodicReset(3),
        exploration=exploration,
        maximize=maximize,
    )
    state, arms = strategy.init(GRID, batch_shape=(2,)), []
    for _ in range(9):
        suggestion = strategy.ask(state)
        arms.append(suggestion.choice.tolist())
        state, _ = strategy.tell(state, suggestion, scale**0.5 * torch.tensor([0.3, -0.2], dtype=D))
    assert [arms[t] for t in (0, 3, 6)] == [[1, 1]] * 3


@pytest.mark.parametrize("preset", [gp_ucb, gp_ei, gp_pi])
def test_largest_prior_deviation_on_a_box(preset):
    given = {"noise": 0.01}
    sloped = preset(kernel=LinearKernel().to(D), **given)  # prior sd grows with |x|
    even = preset(kernel=RBFKernel().to(D), **given)
    box = Box([(0.0, 1.0), (0.0, 1.0)])
    assert sloped.ask(sloped.init(box, batch_shape=(2,))).X.tolist() == [[1.0, 1.0]] * 2
    assert even.ask(even.init(box)).X.tolist() == [0.5, 0.5]  # all scores tie


@pytest.mark.parametrize("compiled", [False, True])
def test_first_arm_of_every_block_in_a_study(compiled):
    if compiled:
        pytest.importorskip("numba")
    world = MarkovWorld(GRID, kernel=K, epsilon=0.1, noise=0.01)
    played = run_study(
        world,
        {"R": r_gp_ucb(period=3, kernel=K, noise=0.01)},
        trials=4,
        horizon=7,
        compiled=compiled,
        progress=False,
    )
    assert (played.data["index"].values[..., ::3] == 1).all()
