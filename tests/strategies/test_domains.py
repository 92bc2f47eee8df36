"""A grid factors a kernel once, and leaves it as it was."""

import copy
import pickle

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel, MaternKernel, PeriodicKernel, RBFKernel, ScaleKernel

from botorch_tv.gp.covariance import covariance_matrix
from botorch_tv.strategies import Box, Grid, gp_ucb

CPU = torch.device("cpu")


def set_to(kernel: Kernel, lengthscale: float | list[float]) -> Kernel:
    kernel.lengthscale = torch.tensor(lengthscale, dtype=torch.float64)
    return kernel


def squared_exponential(lengthscale: float = 0.2) -> Kernel:
    return set_to(RBFKernel().double(), lengthscale)


PLACES = {
    "grid": Grid.regular(3, 2),
    "box": Box(torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)),
}


@pytest.mark.parametrize("factor", [0.01, 1.0, 1e6])
def test_points_are_arms_up_to_rounding_of_the_grids_extent(factor: float) -> None:
    for origin in (0.0, -3 * factor):
        grid = Grid(Grid.regular(4, 2).X * factor + origin)
        near, far = (share * 1e-9 * max(factor, 1) for share in (0.9, 1.2))
        assert grid.index_of(grid.X + near).tolist() == list(range(16))
        with pytest.raises(InputDataError, match="is no point of"):
            grid.index_of(grid.X - far)


@pytest.mark.filterwarnings("ignore:the kernel's parameters are float32")
@pytest.mark.parametrize("domain", PLACES.values(), ids=PLACES)
def test_a_run_leaves_the_kernel_in_its_dtype(domain: Grid | Box) -> None:
    for own in (torch.float32, torch.float64):
        strategy = gp_ucb(kernel=squared_exponential().to(own), noise=0.02)
        for dtype in (torch.float64, torch.float32):
            strategy.ask(strategy.init(domain, dtype=dtype))
            assert {one.dtype for one in strategy.kernel.parameters()} == {own}


def different_kernels() -> list[Kernel]:
    scaled = ScaleKernel(squared_exponential()).double()
    scaled.outputscale = torch.tensor(2.0, dtype=torch.float64)
    first = set_to(RBFKernel(active_dims=(0,)).double(), 0.2)
    second = set_to(RBFKernel(active_dims=(1,)).double(), 0.2)
    across = set_to(RBFKernel(ard_num_dims=2).double(), [[0.2, 0.3]])
    rough = set_to(MaternKernel(nu=1.5).double(), 0.2)
    smooth = set_to(MaternKernel(nu=2.5).double(), 0.2)
    nearly = squared_exponential(0.2 * (1 + 1e-12))
    other = [PeriodicKernel().double(), PeriodicKernel().double()]
    other[1].period_length = torch.tensor(0.3, dtype=torch.float64)
    return [squared_exponential(), scaled, first, second, across, rough, smooth, nearly, *other]


def test_different_kernels_are_never_taken_for_one_another() -> None:
    grid, alone = Grid.regular(3, 2), Grid.regular(3, 2).X
    for turn in range(2):  # the second time each is known
        for kernel in different_kernels():
            basis = grid.basis(kernel, "exact", dtype=torch.float64, device=CPU)
            arms = torch.arange(9)
            assert torch.equal(basis.gram(arms), covariance_matrix(kernel, alone)), (turn, kernel)


def test_a_grid_is_saved_without_what_it_remembers() -> None:
    grid = Grid.regular(3, 2)
    bare = len(pickle.dumps(grid))
    gp_ucb(kernel=squared_exponential(), noise=0.02).init(grid)
    grid.points(torch.tensor([1]), torch.zeros(0, dtype=torch.float32))
    assert len(pickle.dumps(grid)) == bare
    again = pickle.loads(pickle.dumps(grid))
    assert torch.equal(again.points(torch.tensor([4]), again.X), grid.X[4:5])
    assert torch.equal(copy.deepcopy(grid).X, grid.X)
