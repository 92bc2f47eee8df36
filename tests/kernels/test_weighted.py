"""The kernel form of weights equals the noise form, [W22] App. C."""

import numpy as np
import pytest
import torch
from gpytorch.kernels import RBFKernel
from oracles.dense import regression, squared_exponential

from botorch_tv.forgetting import ExponentialWeights, UncertaintyInjection
from botorch_tv.kernels import AgeWeight, SpatioTemporalKernel, WeightedKernel
from botorch_tv.models import TimeVaryingGP

NOISE = 0.05


def spatial_kernel():
    kernel = RBFKernel().double()
    kernel.lengthscale = torch.tensor(0.3, dtype=torch.float64)
    return kernel


def kernel_form(X, y, test_X, weight):
    """The paper's weighted regression, densely: K~ = W K W, y~ = W y, at unweighted test points."""
    weighted = WeightedKernel(SpatioTemporalKernel(spatial_kernel(), None), weight)
    root = torch.exp(0.5 * weight(X))
    gram = weighted(X).to_dense() + NOISE * torch.eye(len(X)).double()
    across = weighted(X, test_X).to_dense()
    mean = across.mT @ torch.linalg.solve(gram, root * y)
    variance = 1.0 - (across * torch.linalg.solve(gram, across)).sum(0)
    return mean.detach(), variance.detach()


def model(X, y, inflation, now):
    found = TimeVaryingGP(
        X,
        y.unsqueeze(-1),
        torch.full_like(y.unsqueeze(-1), NOISE),
        forgetting=inflation,
        now=now,
        spatial_module=spatial_kernel(),
        learn_forgetting=False,
    )
    found.mean_module.constant = 0.0
    return found


@pytest.mark.parametrize(
    ("inflation", "part"),
    [
        (ExponentialWeights(0.97), ("exponential", 0.97)),
        (ExponentialWeights(0.5), ("exponential", 0.5)),
        (UncertaintyInjection(1.5, 0.2), ("injection", 1.5, 0.2)),
    ],
)
def test_kernel_form_is_noise_form(inflation, part):
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(40, 3, dtype=torch.float64, generator=generator)
    X[:, 2] = torch.arange(40) * 0.75
    y = torch.sin(6 * X[:, 0]) + X[:, 1]
    now = X[-1, 2].item() + 2.0
    test_X = torch.rand(15, 3, dtype=torch.float64, generator=generator)
    test_X[:, 2] = now
    mean, variance = kernel_form(X, y, test_X, AgeWeight(inflation, now))
    posterior = model(X, y, inflation, now).posterior(test_X)
    assert torch.allclose(posterior.mean.squeeze(-1), mean, rtol=0, atol=1e-10)
    assert torch.allclose(posterior.variance.squeeze(-1), variance, rtol=0, atol=1e-10)
    K = squared_exponential(torch.cat([X, test_X])[:, :2].numpy(), 0.3)
    dense_mean, dense_variance = regression(
        K, range(40), X[:, 2].tolist(), y.tolist(), now, noise=NOISE, inflation=part, reference=now
    )
    np.testing.assert_allclose(mean.numpy(), dense_mean[40:], rtol=0, atol=1e-10)
    np.testing.assert_allclose(variance.numpy(), dense_variance[40:], rtol=0, atol=1e-10)


@pytest.mark.filterwarnings("ignore:.*last_dim_is_batch:DeprecationWarning")
@pytest.mark.parametrize("diag", [False, True])
def test_a_column_at_a_time_has_the_weights_of_all(diag):
    X, other = torch.rand(2, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    kernel = WeightedKernel(spatial_kernel(), lambda x: x.sum(-1))
    found = kernel(X, other, diag=diag, last_dim_is_batch=True)
    found = found if diag else found.to_dense()
    roots = torch.exp(0.5 * X.sum(-1)), torch.exp(0.5 * other.sum(-1))
    for column in range(3):
        a, b = X[:, column], other[:, column]
        base = torch.exp(-0.5 * ((a.unsqueeze(-1) - b) / 0.3) ** 2)
        wanted = roots[0].unsqueeze(-1) * base * roots[1]
        wanted = wanted.diagonal() if diag else wanted
        torch.testing.assert_close(found[column].detach(), wanted, rtol=0, atol=1e-12)


def test_later_times_have_full_weight():
    X = torch.tensor([[0.0, 4.0], [0.0, 6.0], [0.0, 9.0]], dtype=torch.float64)
    weight = AgeWeight(ExponentialWeights(0.8), now=6.0)(X)
    assert weight[1:].tolist() == [0.0, 0.0]
    assert weight[0].item() == pytest.approx(2 * np.log(0.8))
