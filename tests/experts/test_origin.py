"""The origin of a random walk is the first value, also if an expert gave it."""

import numpy as np
import pytest
import torch
from gpytorch.kernels import MaternKernel
from oracles.dense import matern_five_halves

from botorch_tv.experts import SparQ
from botorch_tv.forgetting import Wiener
from botorch_tv.strategies import Box, Grid

GRID = Grid.regular(points=5, dim=2)
K = matern_five_halves(GRID.X.numpy(), 0.3)
KERNEL = MaternKernel(nu=2.5).double()
KERNEL.lengthscale = torch.tensor(0.3, dtype=torch.float64)
WALK, NOISE = 0.4, 0.05


@pytest.mark.parametrize("place", ["grid", "box"])
def test_answers_start_the_clock_where_the_first_measurement_failed(place: str) -> None:
    """Trials: the expert answers at time 3; it does not; the first measurement had worked.

    With u = time - origin, cov f_s(a) f_t(b) = K_ab (1 + w min(u_s, u_t)), asked at time 7.
    """
    domain = GRID if place == "grid" else Box(torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double())
    strategy = SparQ(kernel=KERNEL, noise=NOISE, decay=Wiener(WALK))
    state, arm = strategy.init(domain, batch_shape=(3,)), 7
    X, y = GRID.X[arm].expand(3, 2), torch.full((3,), 0.6, dtype=torch.float64)
    at = strategy.suggestion_at(state, X, now=3.0)
    state, _ = strategy.tell(state, at, y, ok=torch.tensor([False, False, True]))
    asked = strategy.consult(state)
    assert asked is not None
    answered = torch.tensor([True, False, True]).unsqueeze(-1)
    with pytest.warns(match="no answer in 1 of 3 trials"):
        state = strategy.absorb(
            state, asked, torch.full((3, 1), 0.6, dtype=torch.float64), ok=answered
        )
    assert state.data.origin.tolist() == [3.0, torch.inf, 3.0]
    posterior = strategy.posterior(state, GRID.X.expand(3, 25, 2), now=7.0)
    weight = 1 / (1 + NOISE)  # K_aa = 1, and the answer is at the origin
    mean = torch.from_numpy(K[arm] * weight * 0.6)
    variance = torch.from_numpy((1 + WALK * (7 - 3)) - K[arm] ** 2 * weight)
    for trial in (0, 2):
        torch.testing.assert_close(posterior.mean[trial, :, 0], mean, rtol=0, atol=1e-10)
        torch.testing.assert_close(posterior.variance[trial, :, 0], variance, rtol=0, atol=1e-10)
    np.testing.assert_allclose(posterior.mean[1], 0.0, atol=1e-12)
    np.testing.assert_allclose(posterior.variance[1], 1.0, atol=1e-12)
