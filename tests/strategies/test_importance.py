"""The importance of parameters against Sobol indices of known functions."""

import pytest
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel
from numpy.testing import assert_allclose

from botorch_tv import Box, Choice, Grid, Integer, adaptive_gp_ucb, tv_gp_ucb
from botorch_tv.even_points import even_points
from botorch_tv.strategies.sobol import importance

D = torch.float64
WIDE = ScaleKernel(RBFKernel()).double()
WIDE.base_kernel.lengthscale, WIDE.outputscale = 2.0, 100.0
PLAYERS = {
    "adaptive": adaptive_gp_ucb(),
    "given": tv_gp_ucb(kernel=WIDE, noise=1e-4, epsilon=0.0, maximize=False),
}


def learned(player, domain, X, y, shape=()):
    state = player.init(domain, batch_shape=shape)
    for x, value in zip(X, y):
        place = x.expand(*shape, -1)
        suggestion = player.suggestion_at(state, place)
        state, _ = player.tell(state, suggestion, value.expand(shape))
    return state


@pytest.mark.parametrize("name", [pytest.param("adaptive", marks=pytest.mark.full), "given"])
def test_shares_are_those_of_a_sum(name):
    """Variances 9 / 12 and 64 / 180; a state has two trials."""
    box = Box([(0.0, 2.0), (-1.0, 1.0), (0.0, 1.0)])
    U = even_points(40, 3)
    X = box.from_unit(U)
    y = 3 * U[:, 0] + 8 * (U[:, 1] - 0.5) ** 2
    found = importance(PLAYERS[name], learned(PLAYERS[name], box, X, y, (2,)))
    wanted = torch.tensor([9 / 12, 64 / 180, 0.0], dtype=D)
    assert found.shape == (2, 3)
    assert_allclose(found.sum(-1), 1, rtol=0, atol=1e-12)
    assert_allclose(found, (wanted / wanted.sum()).expand(2, 3), rtol=0, atol=0.03)


def test_shares_on_a_grid_and_before_data():
    grid = Grid.regular(5, 2)
    player = PLAYERS["given"]
    assert_allclose(importance(player, player.init(grid)), [0.5, 0.5])
    y = 2 * grid.X[:, 0] - grid.X[:, 1]
    found = importance(player, learned(player, grid, grid.X, y))
    assert_allclose(found, [0.8, 0.2], rtol=0, atol=0.01)


def test_shares_of_few_points():
    """Of all 16 points, or 15, the shares are those of a grid of them."""
    ranges = {"x": Integer(0, 3), "y": Integer(0, 3)}
    for limit in ("x + y <= 6", "x + y <= 5"):
        box = Box(ranges, constraints=limit)
        y = 3 * box.listed[:, 0]
        found = importance(PLAYERS["given"], learned(PLAYERS["given"], box, box.listed, y))
        grid = Grid(box.listed)
        exact = importance(PLAYERS["given"], learned(PLAYERS["given"], grid, grid.X, y))
        assert_allclose(found, exact, rtol=0, atol=0.05)


def test_a_category_has_one_share_and_a_context_its_own():
    box = Box({"x": (0, 1), "kind": Choice("a", "b", "c"), "y": (0, 1)}, context_dim=1)
    chosen = box.search.filling(box, 25, 0, torch.empty(0, dtype=D))
    X = torch.cat([chosen, 5 * (torch.arange(25, dtype=D) * 0.618 % 1).unsqueeze(-1)], -1)
    y = X[:, 0] + 2 * (X[:, 1] > 0.9) + X[:, -1] / 5
    found = importance(PLAYERS["given"], learned(PLAYERS["given"], box, X, y))
    assert found.shape == (4,)
    wanted = torch.tensor([1 / 12, 4 * 2 / 9, 0.0, 1 / 12], dtype=D)
    assert_allclose(found, wanted / wanted.sum(), rtol=0, atol=0.05)
