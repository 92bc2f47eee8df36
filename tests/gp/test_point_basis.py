"""Few functions on a box represent any kernel within the stated error."""

import pytest
import torch
from gp.kernels import made, scaled
from gpytorch.kernels import LinearKernel, PeriodicKernel
from torch.testing import assert_close

from botorch_tv.gp.box import PointBasis, box_prior_at, point_basis

D = torch.float64


CASES = {
    "d=1": (made("rbf", 0.2), [(0, 1)], 1e-9, 20),
    "d=1, short": (made("rbf", 0.05), [(0, 1)], 1e-9, 60),
    "d=2": (made("rbf", 0.2, 0.2), [(0, 1)] * 2, 1e-9, 220),
    "other ranges": (made("rbf", 20.0, 0.002, scale=9.0), [(-50, 50), (1, 1.01)], 1e-9, 220),
    "d=3": (made("rbf", 0.4, 0.4, 0.4), [(0, 1)] * 3, 1e-9, 600),
    "d=5": (made("rbf", *[2.0] * 5), [(0, 1)] * 5, 1e-6, 200),
    "Matérn": (made(2.5, 0.5), [(0, 1)], 1e-9, 150),
    "1 of 2 columns": (made("rbf", 0.2, active_dims=[1]), [(0, 1)] * 2, 1e-9, 25),
    "linear": (LinearKernel().double(), [(0, 1)] * 3, 1e-9, 3),
    "periodic": (scaled(PeriodicKernel().double(), 2.0), [(0, 1)], 1e-9, 30),
}


def basis_of(name, most=1024):
    kernel, ranges, tolerance, _ = CASES[name]
    corners = torch.tensor(ranges, dtype=D).T.contiguous()
    probe = corners[0] + (corners[1] - corners[0]) * torch.rand(20, len(ranges), dtype=D)
    box_prior = box_prior_at(torch.cat([probe, corners]), kernel)
    return point_basis(box_prior, corners, tolerance=tolerance, least_noise=0.0, most=most), corners


@pytest.mark.parametrize("name", CASES)
def test_kernels_are_within_the_stated_error(name):
    kernel, ranges, tolerance, most = CASES[name]
    basis, corners = basis_of(name)
    assert isinstance(basis, PointBasis)
    assert basis.size <= most
    assert tolerance <= basis.error <= 2 * tolerance
    U = torch.rand(900, len(ranges), generator=torch.Generator().manual_seed(1), dtype=D)
    U[300:600, 0] = U[300:600, 0].round()
    U[600:] = U[600:].round()
    X = corners[0] + (corners[1] - corners[0]) * U
    exact = kernel(X, X).to_dense().detach()
    phi = basis.at(X)
    assert phi.shape == (900, basis.size)
    rounding = 1e-13 * float(exact.diagonal().max())
    worst = 2 * basis.error * basis.scale**2 + rounding
    rest = exact - phi @ phi.T
    assert rest.abs().max() <= worst
    assert rest.diagonal().min() >= -worst, "no more variance than there is"


def test_too_few_nodes_are_reported():
    assert basis_of("d=2", most=50)[0] == 50


def test_draws_have_the_posterior_covariance():
    basis, _ = basis_of("linear")
    half = torch.rand(3, 3, dtype=D)
    lost, factor = 0.2 * half @ half.T, torch.tensor(1.5, dtype=D)
    root = basis.root(lost, factor)
    assert_close(root @ root.T, 1.5 * torch.eye(3, dtype=D) - lost)
    normal = torch.rand(3, dtype=D)
    assert_close(basis.draw(lost, factor, normal), root @ normal)


def test_points_are_batched_and_differentiable():
    basis, _ = basis_of("d=1")
    X = torch.rand(3, 4, 1, dtype=D)
    assert_close(basis.at(X)[1, 2], basis.at(X[1, 2:3])[0], atol=1e-9, rtol=0)
    points = torch.tensor([[0.0], [0.4], [1.0]], dtype=D, requires_grad=True)
    step = 1e-5
    moved = (basis.at(points + step) - basis.at(points - step)) / (2 * step)
    weights = torch.linspace(-1, 1, basis.size, dtype=D)
    (gradient,) = torch.autograd.grad((basis.at(points) @ weights).sum(), points)
    assert_close(gradient[:, 0], moved.detach() @ weights, atol=1e-4, rtol=1e-4)


def test_indices_are_coordinates():
    basis, _ = basis_of("d=1")
    phi = basis.at(torch.rand(2, 5, 1, dtype=D))
    rows = torch.rand(2, 3, basis.size, dtype=D)
    assert torch.equal(basis.row(phi), phi)
    assert torch.equal(basis.expand(rows), rows)
    assert_close(basis.inner(rows, phi), torch.einsum("bnr,bqr->bqn", rows, phi))
    assert_close(basis.gram(phi), torch.einsum("bnr,bqr->bnq", phi, phi))
    item = phi[:, 0]
    assert_close(basis.value(rows[:, 0], item), (rows[:, 0] * item).sum(-1))
    assert basis.alone(item).shape == (2, 1, basis.size)
