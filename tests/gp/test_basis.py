"""Every basis against the kernel matrix itself; draws depend on the kernel alone."""

from __future__ import annotations

import pytest
import torch
from gp.kernels import made, scaled
from gpytorch.kernels import LinearKernel, MaternKernel, PeriodicKernel, RBFKernel
from torch import Tensor
from torch.testing import assert_close

from botorch_tv.gp import covariance as factoring
from botorch_tv.gp.basis import ArmBasis, Basis, FeatureBasis, ProductBasis
from botorch_tv.gp.box import PointBasis, box_prior_at, point_basis
from botorch_tv.gp.covariance import factor
from botorch_tv.gp.regression import Observations, regress
from botorch_tv.strategies import Grid


def matrix(grid: Grid, lengthscale: float = 0.3) -> Tensor:
    squared = (grid.X.unsqueeze(-2) - grid.X).square().sum(-1)  # torch.cdist rounds to 1e-8
    return 1.7 * torch.exp(-0.5 * squared / lengthscale**2)


@pytest.mark.parametrize(
    ("grid", "lengthscale"), [(Grid.regular(12, 2), 3.0), (Grid.regular(7, 3), 8.0)]
)
def test_rows_of_a_product_are_those_of_the_matrix(grid: Grid, lengthscale: float) -> None:
    """Law 2 holds the other forms, and products in two dimensions."""
    K = matrix(grid, lengthscale)
    basis = factor(K, grid.shape)
    assert isinstance(basis, ProductBasis)
    rows = basis.row(torch.arange(basis.arms))
    assert_close(basis.expand(rows), K, rtol=0, atol=1e-9)
    assert_close(basis.variance, K.diagonal(), rtol=0, atol=1e-9)
    assert_close(basis.sum_of_squares(rows), K.square().sum(-2), rtol=0, atol=1e-9)


def test_low_rank_kernels_become_features_and_others_stay() -> None:
    grid = Grid.regular(20, 2)
    smooth, rough = RBFKernel().double(), MaternKernel(nu=0.5).double()
    kinds = {}
    for kernel in (smooth, rough):
        kernel.lengthscale = torch.tensor(0.5, dtype=torch.float64)
        K = kernel(grid.X).to_dense().detach()
        kinds[type(kernel)] = type(factor(K, grid.shape))
        exact = factor(K, grid.shape, "exact")
        forced = factor(K, grid.shape, "features")
        assert isinstance(exact, ArmBasis)
        assert isinstance(forced, FeatureBasis)
        arms = torch.arange(len(grid))
        assert_close(forced.gram(arms), K, rtol=0, atol=1e-9)
    assert kinds == {RBFKernel: ProductBasis, MaternKernel: ArmBasis}


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_unit_of_the_objective_decides_on_no_feature(unit: float) -> None:
    scattered = Grid(torch.rand(60, 2, generator=torch.Generator().manual_seed(0)).double())
    for lengthscale in (0.4, 0.8):
        K = matrix(scattered, lengthscale)
        basis, other = (factor(item, inference="features") for item in (K, unit * K))
        assert basis.size == other.size < 60
        assert_close(other.row(torch.arange(60)).square().sum(-1), unit * K.diagonal())


SQUARE = Grid.regular(8, 2)
PLAYED = torch.arange(0, 64, 3)
NOISE = 0.02


def covariance(name: str) -> Tensor:
    """Kernels with many equal eigenvalues, of low rank and of full rank."""
    if name == "torus":
        circle = PeriodicKernel().double()(torch.arange(8.0).double().unsqueeze(-1) / 8).to_dense()
        return torch.kron(circle, circle).detach()
    kernel = {"product": RBFKernel(), "full": MaternKernel(0.5), "long": MaternKernel(2.5)}
    chosen = kernel.get(name, RBFKernel()).double()
    chosen.lengthscale = 3.0 if name == "long" else 0.5
    turn = [[1.0, 0.5], [0.5, 1.0]] if name == "turned" else [[1.0, 0.0], [0.0, 1.0]]
    return chosen(SQUARE.X @ torch.tensor(turn).double()).to_dense().detach()


NAMES = ["product", "turned", "torus", "full", "long"]


@pytest.fixture
def other_eigenvectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another basis of every space of equal eigenvalues, and a few features fewer."""
    eigh = torch.linalg.eigh

    def turned(matrix: Tensor) -> tuple[Tensor, Tensor]:
        values, vectors = eigh(matrix)
        apart = values.diff(dim=-1) > 4e-15 * values[..., -1:]
        group = torch.nn.functional.pad(apart.cumsum(-1), (1, 0))
        mixing = torch.randn(vectors.shape[-2:], generator=torch.Generator().manual_seed(0))
        together = group.unsqueeze(-1) == group.unsqueeze(-2)
        mixing = torch.linalg.qr(torch.where(together, mixing.double(), 0.0)).Q
        return torch.return_types.linalg_eigh((values, vectors @ mixing))

    monkeypatch.setattr(torch.linalg, "eigh", turned)
    monkeypatch.setattr(factoring, "RANK_TOLERANCE", 5e-13)


def drawn(basis: Basis, form: str) -> Tensor:
    """The samples that unit vectors of normal variates give, one row each, `p x M`."""
    unit = torch.eye(basis.normals, dtype=torch.float64)
    if form == "prior":
        assert isinstance(basis, FeatureBasis)
        return basis.expand(basis.draw_from_prior(unit))
    rounds = PLAYED if form == "few rows" else PLAYED.repeat(6)
    index = rounds.expand(basis.normals, -1)
    root = torch.full(index.shape, NOISE**-0.5, dtype=torch.float64)
    posterior = regress(basis, Observations(index, torch.zeros_like(root), root))
    assert posterior.is_posterior == (form == "many rows")
    return basis.expand(posterior.draw(basis, None, unit))


@pytest.mark.parametrize(
    ("kind", "form"),
    [("features", form) for form in ("prior", "few rows", "many rows")] + [("exact", "few rows")],
)
@pytest.mark.parametrize("name", NAMES)
def test_samples_do_not_depend_on_eigenvectors(name: str, kind: str, form: str, request) -> None:
    K = covariance(name)
    before = drawn(factor(K, SQUARE.shape, kind), form)
    request.getfixturevalue("other_eigenvectors")
    after = drawn(factor(K, SQUARE.shape, kind), form)
    assert_close(after, before, rtol=0, atol=1e-8)


@pytest.mark.parametrize("form", ["prior", "few rows", "many rows"])
@pytest.mark.parametrize("name", NAMES)
def test_samples_have_the_covariance_of_prior_and_posterior(name: str, form: str) -> None:
    K = covariance(name)
    samples = drawn(factor(K, SQUARE.shape, "features"), form)
    expected = K
    if form != "prior":
        times = 1 if form == "few rows" else 6
        noisy = K[PLAYED][:, PLAYED] + NOISE / times * torch.eye(len(PLAYED), dtype=torch.float64)
        expected = K - K[:, PLAYED] @ torch.linalg.solve(noisy, K[PLAYED])
    assert_close(samples.T @ samples, expected, rtol=0, atol=1e-9)


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
