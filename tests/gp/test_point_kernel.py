"""Kernels at points: written out, they are GPyTorch's, values and slopes."""

import pytest
import torch
from gp.kernels import made, scaled
from gpytorch.kernels import (
    AdditiveKernel,
    LinearKernel,
    MaternKernel,
    PeriodicKernel,
    ProductKernel,
    RBFKernel,
    RQKernel,
    ScaleKernel,
)
from torch.testing import assert_close

from botorch_tv.gp.point_kernel import General, Stationary, point_kernel

D = torch.float64


SINGLE = torch.Size([1])
WRITTEN_OUT = {
    "rbf": made("rbf", 0.4),
    "rbf ard": made("rbf", 0.4, 0.9, 0.2),
    "rbf column": made("rbf", 0.4, active_dims=[1]),
    "rbf columns ard": made("rbf", 0.4, 0.8, active_dims=[2, 0]),
    "matern12": made(0.5, 0.4),
    "matern32": made(1.5, 0.4),
    "matern52": made(2.5, 0.4),
    "matern52 ard": made(2.5, 0.4, 0.9, 0.2),
    "scaled": made(1.5, 0.4, scale=2.5),
    "scaled column": made("rbf", 0.4, scale=2.5, active_dims=[2]),
    "column scaled": scaled(made("rbf", 0.4), 0.3, active_dims=[0, 2]),
    "batch of 1": made("rbf", 0.4, batch_shape=SINGLE),
    "scaled batch of 1": scaled(made("rbf", 0.4, batch_shape=SINGLE), 2.5, batch_shape=SINGLE),
}
OTHERS = {
    "product": ProductKernel(WRITTEN_OUT["rbf column"], WRITTEN_OUT["matern52 ard"]),
    "sum": AdditiveKernel(WRITTEN_OUT["scaled"], WRITTEN_OUT["rbf"]),
    "periodic": ScaleKernel(PeriodicKernel()).double(),
    "rational quadratic": RQKernel(ard_num_dims=3).double(),
    "linear": LinearKernel().double(),
}
ALL = WRITTEN_OUT | OTHERS


def points(trials, q, seed=0, offset=0.0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(trials, q, 3, generator=generator, dtype=D) + offset


@pytest.mark.parametrize("name", ALL)
def test_as_gpytorch_evaluates_it(name):
    kernel, ready = ALL[name].requires_grad_(False), point_kernel(ALL[name])
    assert isinstance(ready, Stationary if name in WRITTEN_OUT else General)
    X1, X2 = points(4, 5), points(4, 6, seed=1)
    X2[:, 0] = X1[:, 2]
    wanted = torch.stack([kernel(a, b).to_dense().reshape(5, 6) for a, b in zip(X1, X2)])
    assert_close(ready.covariance(X1, X2), wanted, rtol=0, atol=1e-7)
    apart = (X1.unsqueeze(2) - X2.unsqueeze(1)).abs().amax(-1) > 0
    assert_close(ready.covariance(X1, X2)[apart], wanted[apart], rtol=0, atol=1e-12)
    diagonal = torch.stack([kernel(a, a).to_dense().reshape(5, 5).diagonal() for a in X1])
    assert_close(ready.variance(X1), diagonal, rtol=0, atol=1e-7)
    some = torch.tensor([3, 1])
    picked = ready.select(some).covariance(X1[some], X2[some])
    assert_close(picked, wanted[some], rtol=0, atol=1e-7)
    assert ready.covariance(X1, X2[:, :0]).shape == (4, 5, 0)  # before any observation


@pytest.mark.parametrize("name", ALL)
def test_slopes_by_finite_differences_and_finite_at_data(name):
    ready = point_kernel(ALL[name].requires_grad_(False))
    X1, X2 = points(2, 3).requires_grad_(True), points(2, 4, seed=1)
    assert torch.autograd.gradcheck(lambda X: ready.covariance(X, X2), X1)
    (slope,) = torch.autograd.grad(ready.covariance(X1, X1.detach()).sum(), X1)
    assert slope.isfinite().all()


def test_a_kernel_per_trial():
    shape = torch.Size([3])
    kernel = ScaleKernel(
        MaternKernel(nu=2.5, batch_shape=shape, active_dims=[0, 1]), batch_shape=shape
    ).double()
    kernel.base_kernel.lengthscale = torch.tensor([0.2, 0.5, 1.0], dtype=D).view(3, 1, 1)
    kernel.outputscale = torch.tensor([1.0, 2.0, 3.0], dtype=D)
    kernel.requires_grad_(False)
    ready, X1, X2 = point_kernel(kernel), points(3, 4), points(3, 5, seed=1)
    wanted = kernel(X1, X2).to_dense()
    assert_close(ready.covariance(X1, X2), wanted, rtol=0, atol=1e-12)
    some = torch.tensor([2, 0])
    picked = ready.select(some).covariance(X1[some], X2[some])
    assert_close(picked, wanted[some], rtol=0, atol=1e-12)
    assert ready.variance(X1).tolist() == [[1.0] * 4, [2.0] * 4, [3.0] * 4]
    with pytest.raises(ValueError, match="batch shape"):
        point_kernel(RQKernel(batch_shape=shape))


def test_a_formula_of_single_precision_is_taken_in_the_dtype_of_the_points():
    class Single(RBFKernel):
        def forward(self, x1, x2, **how):
            return super().forward(x1, x2, **how).float()

    X = torch.rand(1, 4, 2, dtype=torch.float64)
    ready = General(Single().double())
    usual = RBFKernel().double()(X).to_dense()
    assert_close(ready.covariance(X, X), usual, rtol=0, atol=1e-7)
    assert ready.variance(X).dtype == torch.float64
