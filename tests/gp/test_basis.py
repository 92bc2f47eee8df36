"""Every basis against the kernel matrix itself."""

import pytest
import torch
from gpytorch.kernels import MaternKernel, RBFKernel
from live_numbers import LiveNumbers
from torch import Tensor
from torch.testing import assert_close

from botorch_tv.gp.basis import ArmBasis, Basis, FeatureBasis, ProductBasis
from botorch_tv.gp.covariance import factor
from botorch_tv.strategies import Grid

SHAPES = [(), (3,), (2, 2)]


def matrix(grid: Grid, lengthscale: float = 0.3) -> Tensor:
    squared = (grid.X.unsqueeze(-2) - grid.X).square().sum(-1)  # torch.cdist rounds to 1e-8
    return 1.7 * torch.exp(-0.5 * squared / lengthscale**2)


def bases() -> list[tuple[Basis, Tensor]]:
    square, cube = Grid.regular(12, 2), Grid.regular(7, 3)
    scattered = Grid(torch.rand(60, 2, generator=torch.Generator().manual_seed(0)).double())
    return [
        (factor(matrix(square, 3.0), square.shape), matrix(square, 3.0)),
        (factor(matrix(cube, 8.0), cube.shape), matrix(cube, 8.0)),
        (factor(matrix(scattered, 0.8), inference="features"), matrix(scattered, 0.8)),
        (ArmBasis(matrix(square)), matrix(square)),
    ]


KINDS = [ProductBasis, ProductBasis, FeatureBasis, ArmBasis]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_answers_are_those_of_the_matrix(number: int, shape: tuple[int, ...]) -> None:
    basis, K = bases()[number]
    assert type(basis) is KINDS[number]
    generator = torch.Generator().manual_seed(1)
    index = torch.randint(basis.arms, (*shape, 4), generator=generator)
    arms = torch.randint(basis.arms, (*shape, 6), generator=generator)
    weights = torch.randn(*shape, 6, generator=generator, dtype=torch.float64)
    rows = basis.row(arms)
    close = {"rtol": 0, "atol": 1e-9}
    assert_close(basis.variance, K.diagonal(), **close)
    assert_close(basis.expand(rows), K[arms], **close)
    assert_close(basis.inner(rows, index), K[index.unsqueeze(-1), arms.unsqueeze(-2)], **close)
    assert_close(basis.between(index, arms), basis.inner(rows, index), **close)
    assert_close(basis.gram(arms), K[arms.unsqueeze(-1), arms.unsqueeze(-2)], **close)
    assert_close(basis.mixture(arms, weights), (weights.unsqueeze(-1) * K[arms]).sum(-2), **close)
    assert_close(basis.sum_of_squares(rows), K[arms].square().sum(-2), **close)


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize(("trials", "rows"), [(1, 3), (4, 20), (30, 2)])
def test_squares_take_the_estimated_memory(number: int, trials: int, rows: int) -> None:
    basis = bases()[number][0]
    terms = torch.ones(trials, rows, basis.size, dtype=torch.float64)
    with LiveNumbers() as live:
        basis.sum_of_squares(terms)
    assert 0.5 < basis.numbers_of_squares(rows, trials) / live.most < 2.1


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


def test_only_a_product_kernel_is_recognised_as_such() -> None:
    grid = Grid.regular(9, 2)
    turned = grid.X @ torch.tensor([[1.0, 0.5], [0.0, 1.0]], dtype=torch.float64)
    K = torch.exp(-0.5 * torch.cdist(turned, turned).square())
    basis = factor(K, grid.shape, "features")
    assert type(basis) is FeatureBasis
    assert_close(basis.gram(torch.arange(81)), K, rtol=0, atol=1e-9)
