"""Random features: their inner products are the kernel, on average and within their error."""

import math

import pytest
import torch
from gp.kernels import made
from gpytorch.kernels import AdditiveKernel, MaternKernel, RBFKernel

from botorch_tv.gp.point_kernel import FREQUENCIES, frequencies, point_kernel, spectral_normals

D = torch.float64
TRIALS = 60


@pytest.mark.parametrize(
    ("kind", "columns"),
    [("rbf", None), (0.5, None), (1.5, None), (2.5, None), (2.5, [2, 0])],
)
def test_inner_products_are_the_kernel(kind, columns):
    kernel = point_kernel(made(kind, 0.3, 0.6, scale=2.0, active_dims=columns))
    generator = torch.Generator().manual_seed(0)
    shape = (TRIALS, FREQUENCIES, 2 + spectral_normals(kernel))
    frequency = frequencies(kernel, torch.randn(shape, generator=generator, dtype=D))
    d = 3 if columns else 2
    X = torch.rand(6, d, generator=generator, dtype=D).expand(TRIALS, 6, d)
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


def test_other_kernels_have_no_spectrum():
    kernel = AdditiveKernel(RBFKernel(), MaternKernel())
    with pytest.raises(ValueError, match="Thompson"):
        spectral_normals(point_kernel(kernel))
