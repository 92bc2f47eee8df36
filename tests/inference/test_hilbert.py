"""Waves with fixed ends: with the right prior variances they make up the kernel."""

import math

import pytest
import torch
from gpytorch.kernels import MaternKernel, RBFKernel

from botorch_tv.inference.hilbert import box_features

D = torch.float64
CASES = {
    "d=1": ([[0.1]], math.inf, 1e-8),
    "d=2": ([[0.2, 0.2]], math.inf, 1e-6),
    "d=3": ([[0.4, 0.4, 0.4]], math.inf, 1e-3),
    "a bank": ([[0.1, 0.1], [0.2, 0.2], [0.4, 0.4]], math.inf, 1e-3),
    "sides differ": ([[0.15, 0.6]], math.inf, 1e-6),
    "Matérn 5/2": ([[0.2]], 2.5, 1e-6),
    "Matérn 5/2, d=2": ([[0.4, 0.3]], 2.5, 1e-3),
    "Matérn 3/2": ([[0.3]], 1.5, 1e-4),
    "Matérn 1/2": ([[0.3]], 0.5, 1e-2),
}


def dense(lengthscale, smoothness, X):
    kernel = RBFKernel(ard_num_dims=X.shape[-1])
    if smoothness < math.inf:
        kernel = MaternKernel(nu=smoothness, ard_num_dims=X.shape[-1])
    kernel = kernel.double()
    kernel.lengthscale = lengthscale
    return kernel(X, X).to_dense().detach()


def points(dim, generator):
    """At random, in corners, and near walls."""
    inside = torch.rand(150, dim, generator=generator, dtype=D)
    walls = inside.clone()
    walls[torch.arange(150), torch.arange(150) % dim] = (torch.arange(150) % 2).to(D)
    corners = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=D)] * dim).view(-1, dim)
    return torch.cat([inside, walls, corners])


@pytest.mark.parametrize("name", CASES)
def test_kernels_are_within_the_tolerance(name):
    lengthscale, smoothness, tolerance = CASES[name]
    lengthscale = torch.tensor(lengthscale, dtype=D)
    features = box_features(lengthscale, smoothness=smoothness, tolerance=tolerance)
    X = points(lengthscale.shape[-1], torch.Generator().manual_seed(0))
    phi = features.at(X)
    assert phi.shape == (len(X), features.size)
    assert features.frequencies.shape == (features.size, lengthscale.shape[-1])
    told = features.error(lengthscale, smoothness)
    for one, error in zip(lengthscale, told, strict=True):
        approximate = (phi * features.density(one, smoothness)) @ phi.T
        found = float((approximate - dense(one, smoothness, X)).abs().max())
        assert found < tolerance
        assert found <= 1.2 * float(error) + 1e-13
    assert float(told.max()) > 1e-3 * tolerance, "far more features than asked for"


def test_kernels_between_are_served():
    ends = torch.tensor([[0.1, 0.4], [0.4, 0.1]], dtype=D)
    features = box_features(ends, tolerance=1e-3)
    between = torch.cartesian_prod(*[torch.linspace(0.1, 0.4, 7, dtype=D)] * 2)
    assert float(features.error(between).max()) < 1e-3


def test_fewer_would_not_do():
    """The tolerance is why waves are there: half of them make up no kernel within it."""
    lengthscale = torch.tensor([0.2, 0.2], dtype=D)
    features = box_features(lengthscale, tolerance=1e-6)
    strongest = features.density(lengthscale).argsort(descending=True)[: features.size // 2]
    fewer = type(features)(features.number[strongest], features.side)
    assert float(fewer.error(lengthscale)) > 10 * 1e-6


def test_densities_batch_and_scale():
    features = box_features(torch.tensor([[0.2, 0.3]], dtype=D), tolerance=1e-3)
    lengthscale = torch.tensor([[0.2, 0.3], [0.25, 0.25]], dtype=D)
    scale = torch.tensor([2.0, 0.5], dtype=D)
    for smoothness in (math.inf, 2.5, 0.5):
        together = features.density(lengthscale, smoothness, scale)
        assert together.shape == (2, features.size)
        for one, factor, row in zip(lengthscale, scale, together, strict=True):
            torch.testing.assert_close(factor * features.density(one, smoothness), row)
    alike = features.density(torch.tensor([[0.25]], dtype=D))
    torch.testing.assert_close(alike[0], features.density(lengthscale[1]))
    assert features.at(torch.rand(3, 4, 2, dtype=D)).shape == (3, 4, features.size)


def test_gradients():
    features = box_features(torch.tensor([0.5, 0.7], dtype=D), tolerance=1e-2)
    U = torch.tensor([[0.0, 0.4], [1.0, 1.0]], dtype=D, requires_grad=True)
    assert torch.autograd.gradcheck(features.at, (U,))


def test_too_many_waves_are_refused():
    with pytest.raises(ValueError, match=r"lengthscales down to \[0.01.*waves.*larger"):
        box_features(torch.full((4,), 0.01, dtype=D), tolerance=1e-6)
    with pytest.raises(ValueError, match="must be positive"):
        box_features(torch.tensor([0.1, 0.0], dtype=D), tolerance=1e-6)
    with pytest.raises(ValueError, match="tolerance is 0"):
        box_features(torch.tensor([0.1], dtype=D), tolerance=0)
