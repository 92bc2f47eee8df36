"""Code that shapes a region by the lengthscales of a model finds those of the spatial kernel."""

import pytest
import torch
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel

from botorch_tv.kernels import MarkovKernel, SpatioTemporalKernel


@pytest.mark.parametrize(
    "spatial",
    [
        RBFKernel(ard_num_dims=2),
        ScaleKernel(MaternKernel(ard_num_dims=2)),
        ScaleKernel(ScaleKernel(RBFKernel(ard_num_dims=2))),
    ],
)
def test_the_lengthscales_are_those_inside(spatial):
    kernel = SpatioTemporalKernel(spatial, MarkovKernel(0.03)).double()
    kernel.lengthscale = torch.tensor([0.2, 0.5])
    inner = spatial
    while not inner.has_lengthscale:
        inner = inner.base_kernel
    assert torch.allclose(inner.lengthscale, torch.tensor([[0.2, 0.5]]).double())
    assert torch.equal(kernel.lengthscale, inner.lengthscale)
    with torch.no_grad():
        row = kernel(
            torch.zeros(1, 3).double(), torch.tensor([[0.2, 0.5, 0.0]]).double()
        ).to_dense()
        same = spatial(torch.zeros(1, 2).double(), torch.tensor([[0.2, 0.5]]).double()).to_dense()
    assert torch.equal(row, same)


def test_a_product_has_none_of_its_own():
    product = RBFKernel(active_dims=[0]) * RBFKernel(active_dims=[1])
    kernel = SpatioTemporalKernel(product, MarkovKernel(0.03))
    assert kernel.lengthscale is None
    with pytest.raises(RuntimeError, match="Kernel has no lengthscale"):
        kernel.lengthscale = 0.3
