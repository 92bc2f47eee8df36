"""Random features: their inner products are the kernel, on average and within their error."""

import math

import pytest
import torch
from gpytorch.kernels import AdditiveKernel, MaternKernel, RBFKernel, ScaleKernel

from botorch_tv.gp.point_kernel import FREQUENCIES, frequencies, point_kernel, spectral_normals

D = torch.float64
TRIALS = 60


def ready(name):
    active = [2, 0] if name == "columns" else None
    nu = {"matern12": 0.5, "matern32": 1.5}.get(name, 2.5)
    base = MaternKernel(nu=nu, ard_num_dims=2, active_dims=active)
    base = (RBFKernel(ard_num_dims=2) if name == "rbf" else base).double()
    base.lengthscale = torch.tensor([[0.3, 0.6]], dtype=D)
    kernel = ScaleKernel(base).double()
    kernel.outputscale = torch.tensor(2.0, dtype=D)
    return point_kernel(kernel.requires_grad_(False))


@pytest.mark.parametrize("name", ["rbf", "matern12", "matern32", "matern52", "columns"])
def test_inner_products_are_the_kernel(name):
    kernel = ready(name)
    generator = torch.Generator().manual_seed(0)
    shape = (TRIALS, FREQUENCIES, 2 + spectral_normals(kernel))
    frequency = frequencies(kernel, torch.randn(shape, generator=generator, dtype=D))
    columns = 3 if name == "columns" else 2
    X = torch.rand(6, columns, generator=generator, dtype=D).expand(TRIALS, 6, columns)
    phi = kernel.waves(X, frequency)
    assert phi.shape == (TRIALS, 6, 2 * FREQUENCIES)
    gram, wanted = phi @ phi.mT, kernel.covariance(X, X)
    assert (gram - wanted).abs().max() < 2.0 * 5 / math.sqrt(FREQUENCIES)
    error = 2.0 / math.sqrt(2 * TRIALS * FREQUENCIES)  # var cos <= 1/2 away from the diagonal
    assert (gram.mean(0) - wanted[0]).abs().max() < 5 * math.sqrt(2) * error
    diagonal = gram.diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(diagonal, torch.full_like(diagonal, 2.0))
    some = torch.tensor([7, 3])
    torch.testing.assert_close(kernel.select(some).waves(X[some], frequency[some]), phi[some])


def test_no_spectrum_is_known_for_others():
    kernel = AdditiveKernel(RBFKernel(), MaternKernel())
    with pytest.raises(ValueError, match="Thompson"):
        spectral_normals(point_kernel(kernel))
