import numpy as np
import pytest
import torch
from gpytorch.kernels import MaternKernel
from simulation.worlds.recorded_stream import RecordedStream, rounds

from botorch_tv.simulation import MarkovWorld
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Grid


@pytest.mark.parametrize("rough", [False, True])
def test_covariance_in_space_and_time_is_the_models(rough: bool) -> None:
    """cov(f_s(x), f_t(x')) = (1 - ε)^(|t - s| / 2) k(x, x'), within five standard errors."""
    grid = Grid.regular(5, 2)
    kernel = unit_kernel("se", 0.3)
    if rough:
        kernel = MaternKernel(nu=0.5).double()
        kernel.lengthscale = torch.tensor(0.3, dtype=torch.float64)
    trials, epsilon = 20_000, 0.2
    world = MarkovWorld(grid, kernel=kernel, epsilon=epsilon, noise=0.0)
    f = rounds(world, RecordedStream(trials), 4)
    K = kernel(grid.X).to_dense().detach().numpy()
    for s, t in ((0, 0), (3, 3), (0, 1), (0, 3)):
        expected = (1 - epsilon) ** ((t - s) / 2) * K
        product = f[s][:, :, None] * f[t][:, None, :]
        error = product.std(0) / trials**0.5
        assert (np.abs(product.mean(0) - expected) <= 5 * error).all()
