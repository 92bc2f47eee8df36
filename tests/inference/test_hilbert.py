"""Waves with fixed ends: with the right prior variances they make up the kernel."""

import pytest
import torch
from gpytorch.kernels import RBFKernel
from torch.utils._python_dispatch import TorchDispatchMode

from botorch_tv.inference.hilbert import BoxFeatures, box_features

D = torch.float64
CASES = {"d=1": (0.1, 1, 1e-8), "d=2": (0.2, 2, 1e-6), "d=3": (0.4, 3, 1e-3)}


def error(features: BoxFeatures, lengthscale: float, X: torch.Tensor) -> float:
    """Largest |k - φ S φᵀ| among some points."""
    kernel = RBFKernel().double()
    kernel.lengthscale = torch.tensor(lengthscale, dtype=D)
    phi = features.at(X)
    approximate = (phi * features.density(lengthscale)) @ phi.T
    return float((approximate - kernel(X, X).to_dense().detach()).abs().max())


def points(dim: int) -> torch.Tensor:
    """At random, in corners, and near walls."""
    inside = torch.rand(150, dim, generator=torch.Generator().manual_seed(0), dtype=D)
    walls = inside.clone()
    walls[torch.arange(150), torch.arange(150) % dim] = (torch.arange(150) % 2).to(D)
    corners = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=D)] * dim).view(-1, dim)
    return torch.cat([inside, walls, corners])


@pytest.mark.parametrize("name", CASES)
def test_kernels_are_within_the_tolerance(name):
    lengthscale, dim, tolerance = CASES[name]
    features = box_features(lengthscale, dim, tolerance)
    found = error(features, lengthscale, points(dim))
    assert found < tolerance
    assert found > 1e-3 * tolerance, "far more features than asked for"


def test_fewer_would_not_do():
    """The tolerance is why waves are there: half of them make up no kernel within it."""
    features = box_features(0.2, 2, 1e-6)
    strongest = features.density(0.2).argsort(descending=True)[: len(features.number) // 2]
    fewer = BoxFeatures(features.number[strongest], features.side)
    assert error(fewer, 0.2, points(2)) > 10 * 1e-6


def test_gradients():
    features = box_features(0.5, 2, 1e-2)
    U = torch.tensor([[0.0, 0.4], [1.0, 1.0]], dtype=D, requires_grad=True)
    assert features.at(torch.rand(3, 4, 2, dtype=D)).shape == (3, 4, len(features.number))
    assert torch.autograd.gradcheck(features.at, (U,))


def test_too_many_waves_are_refused():
    with pytest.raises(ValueError, match=r"lengthscale 0\.01 .*waves.*larger"):
        box_features(0.01, 4, 1e-6)


class _Blind(TorchDispatchMode):
    """Fails whoever reads a number, for which a device would be waited."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func is not torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def test_a_device_is_waited_for_once_at_most():
    features, X = box_features(0.3, 2, 1e-3), torch.rand(5, 2, dtype=torch.float64)
    first = features.at(X)
    with _Blind():
        again = features.at(X)
        with pytest.raises(AssertionError):
            int(X.argmax())
    torch.testing.assert_close(again, first, rtol=0, atol=0)
