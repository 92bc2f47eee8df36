"""Code that shapes a region by the lengthscales of a model finds those of the spatial kernel."""

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.generation import MaxPosteriorSampling
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from models.cases import build, data

from botorch_tv.kernels import MarkovKernel, SpatioTemporalKernel
from botorch_tv.models import TimeVaryingGP


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
    assert torch.equal(row, same)  # neither is changed by what is asked here


def test_a_product_has_none_of_its_own():
    product = RBFKernel(active_dims=[0]) * RBFKernel(active_dims=[1])
    kernel = SpatioTemporalKernel(product, MarkovKernel(0.03))
    assert kernel.lengthscale is None
    with pytest.raises(RuntimeError, match="Kernel has no lengthscale"):
        kernel.lengthscale = 0.3


def test_a_trust_region_follows_them():
    """The step of BoTorch's TuRBO tutorial, on the columns other than time."""
    X, Y = data(n=20)
    X[..., 1] = 0.5  # nothing depends on the second column
    model = build("markov", n=20, outcome_transform=None)
    model = TimeVaryingGP(X, Y, forgetting=model.forgetting)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    weights = model.covar_module.lengthscale.squeeze().detach()
    assert weights.shape == (2,)
    weights = weights / weights.mean()
    weights = weights / torch.prod(weights.pow(1.0 / len(weights)))
    center = X[Y.argmax(), :-1]
    lower, upper = ((center + side * weights * 0.4).clamp(0, 1) for side in (-1, 1))
    points = lower + (upper - lower) * torch.rand(50, 2).double()
    now = torch.cat([points, torch.full((50, 1), 25.0).double()], -1)
    chosen = MaxPosteriorSampling(model, replacement=False)(now, num_samples=3)
    assert chosen.shape == (3, 3)
    assert bool(((chosen[:, :2] >= lower) & (chosen[:, :2] <= upper)).all())
