"""An exploration of one's own sees all that candidates promise, on a grid and on a box."""

from dataclasses import dataclass, field

import pytest
import torch
from gpytorch.kernels import RBFKernel

from botorch_tv.acquisition import Constant
from botorch_tv.acquisition.exploration import Exploration
from botorch_tv.strategies import Box, GPStrategy, Grid

D = torch.float64
GRID = Grid.regular(points=5, dim=2)
BOX = Box(torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D))


@dataclass(frozen=True)
class Curious(Exploration):
    seen: list = field(default_factory=list)

    def score(self, candidates):
        facts = (candidates.has_data, candidates.incumbent, candidates.sqrt_beta)
        where = (candidates.sign, candidates.scale, candidates.mean.shape)
        self.seen.append((*facts, *where, candidates.round, candidates.noise))
        return candidates.sign * candidates.mean


@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("domain", [GRID, BOX], ids=["grid", "box"])
def test_what_an_exploration_sees(domain, maximize):
    kernel = RBFKernel().double()
    kernel.lengthscale = torch.tensor(0.2, dtype=D)
    strategy = GPStrategy(
        kernel=kernel,
        noise=0.1,
        width=Constant(4.0),
        exploration=(curious := Curious()),
        maximize=maximize,
    )
    state = strategy.init(domain, batch_shape=(3,))
    corners = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D)
    for x, y, ok in (
        (corners[0], [3.0, -2.0, 9.0], [True, True, False]),
        (corners[1], [-1.0, 7.0, 7.0], [True, False, False]),
    ):
        at = strategy.suggestion_at(state, x.expand(3, 2))
        state, _ = strategy.tell(state, at, torch.tensor(y, dtype=D), ok=torch.tensor(ok))
    strategy.ask(state)
    has_data, incumbent, sqrt_beta, sign, scale, shape, number, noise = curious.seen[0]
    assert has_data.tolist() == [True, True, False]
    best = 3 if maximize else -1
    # A corner tells nothing of the other, k = exp(-25): its mean is y / (1 + 0.1).
    wanted = torch.tensor([best / 1.1, -2 / 1.1, 0.0], dtype=D)
    torch.testing.assert_close(incumbent[:, 0], wanted, rtol=0, atol=1e-9)
    assert float(torch.as_tensor(sqrt_beta).max()) == pytest.approx(2.0)
    assert sign == (1 if maximize else -1)
    assert scale == pytest.approx(1.0)
    assert shape[0] == 3
    assert number == 3
    assert noise.unique().tolist() == [0.1]
