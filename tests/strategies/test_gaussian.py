"""Variances of predictions are those of the formula, whatever the unit of y."""

import re
from math import sin

import pytest
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel

from botorch_tv import Box, Grid, Loop
from botorch_tv.strategies import gp_ucb

D = torch.float64
X = torch.linspace(0, 1, 7, dtype=D).unsqueeze(-1)


@pytest.mark.parametrize("domain", [Grid(X), Box([(0.0, 1.0)])], ids=["grid", "box"])
@pytest.mark.parametrize("unit", [1e-9, 1.0])
def test_variances_in_any_unit(domain, unit):
    """Those below 1e-10 came out as 1e-10."""
    kernel = ScaleKernel(RBFKernel()).to(D)
    kernel.base_kernel.lengthscale = torch.tensor(0.3, dtype=D)
    kernel.outputscale = torch.tensor(unit**2, dtype=D)
    strategy = gp_ucb(kernel=kernel, noise=0.05 * unit**2)
    state = strategy.init(domain)
    for row in (1, 5, 5):
        state, _ = strategy.tell(state, strategy.suggestion_at(state, X[row]), unit * sin(row))
    K = torch.exp(-0.5 * (X - X.mT).square() / 0.3**2)
    told = [1, 5, 5]
    whole = K[told][:, told] + 0.05 * torch.eye(3, dtype=D)
    wanted = K.diagonal() - (K[:, told] * torch.linalg.solve(whole, K[told]).mT).sum(-1)
    posterior = strategy.posterior(state, X)
    torch.testing.assert_close(posterior.variance.squeeze(-1) / unit**2, wanted, rtol=1e-7, atol=0)
    as_model = strategy.as_model(state).posterior(X.unsqueeze(-2))
    torch.testing.assert_close(as_model.variance.flatten() / unit**2, wanted, rtol=1e-7, atol=0)


def test_a_loop_says_how_sure_it_is_in_any_unit():
    """What it expected went from -2e-5 to 2e-5, where all that was measured is below 2e-8."""
    loop = Loop(Box([(0.0, 1.0)]))
    for number in range(5):
        loop.observe([number / 4], 1e-8 * sin(number))
    least, most = re.search(r"± 2 sd: (\S+) to (\S+)\.", loop.describe()).groups()
    assert -1e-7 < float(least) < float(most) < 1e-7
