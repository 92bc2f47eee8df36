"""A kernel is checked before use: whatever is not a covariance is refused."""

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import (
    AdditiveKernel,
    Kernel,
    LinearKernel,
    MaternKernel,
    PeriodicKernel,
    ProductKernel,
    RBFKernel,
    RBFKernelGrad,
    ScaleKernel,
)

from botorch_tv.gp.covariance import evaluated, factor
from botorch_tv.strategies import Box, Grid, gp_ucb

D = torch.float64
LINE = Grid(torch.linspace(0, 1, 12, dtype=D).unsqueeze(-1))
DOMAINS = [
    (LINE, Grid.regular(points=4, dim=2)),
    (Box([(0.0, 1.0)]), Box([(0.0, 1.0), (0.0, 1.0)])),
]
ENGINES = ["auto", "exact", "features"]


class Formula(Kernel):
    """k(x, x') of one coordinate by any formula, a covariance or not."""

    def __init__(self, formula):
        super().__init__()
        self.formula = formula

    def forward(self, x1, x2, diag=False, last_dim_is_batch=False):
        if diag:
            return self.formula(x1[..., 0], x2[..., 0])
        return self.formula(x1[..., :1], x2[..., :1].mT)


def bell(x, z):
    return torch.exp(-0.5 * (x - z) ** 2)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        (lambda x, z: torch.cos(9 * (x - z)) - 0.5 * torch.cos(3 * (x - z)), "indefinite"),
        (lambda x, z: -bell(x, z), "indefinite|variance"),
        (lambda x, z: bell(x, z) + 0.1 * x, "not symmetric"),
        (lambda x, z: 0 * x * z, "eigenvalues run from 0 to 0|variance is 0"),
        (lambda x, z: bell(x, z) / (x + z - x - z), "NaN or infinite"),
        (lambda x, z: 1 / (x - z).abs(), "NaN or infinite"),
    ],
)
def test_a_kernel_that_is_not_a_covariance(formula, message):
    for inference in (*ENGINES, "box"):
        parts = {} if inference == "box" else {"inference": inference}
        with pytest.raises(InputDataError, match=message):
            gp_ucb(kernel=Formula(formula), noise=0.1, **parts).init(DOMAINS[inference == "box"][0])


def with_lowest(share, M, rank):
    """A covariance of a rank, but for one eigenvalue that is minus a share of the largest."""
    random = np.random.default_rng(0)
    vectors = np.linalg.qr(random.standard_normal((M, M)))[0]
    values = np.zeros(M)
    values[:rank] = np.linspace(1, 0.1, rank)
    values[-1] = -share
    K = torch.as_tensor((vectors * values) @ vectors.T)
    return 0.5 * (K + K.T)


@pytest.mark.parametrize("rank", [3, 39], ids=["low rank", "high rank"])
@pytest.mark.parametrize("inference", ENGINES)
@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e6])
def test_the_limit_is_the_same_in_all_representations(inference, rank, unit):
    for share in (0.0, 3e-9, 9.9e-9):
        factor(unit * with_lowest(share, 40, rank), (40,), inference)
    for share in (1.01e-8, 3e-8, 1e-3):
        with pytest.raises(InputDataError, match=r"indefinite.*clip negative eigenvalues"):
            factor(unit * with_lowest(share, 40, rank), (40,), inference)


def test_an_indefinite_product_over_a_grid():
    axis = with_lowest(0.4, 4, 3)
    K = torch.kron(axis / axis[0, 0], torch.eye(4, dtype=D) + 0.5)
    with pytest.raises(InputDataError, match="indefinite"):
        factor(K / K[0, 0], (4, 4), "auto")


ARD3, ARD2 = RBFKernel(ard_num_dims=3), RBFKernel(ard_num_dims=2)
BATCH = torch.Size([3])
OTHER_POINTS = [  # dimension, kernel, message
    (2, ARD3, "3 lengthscales for 2 columns; give ard_num_dims=2"),
    (2, ScaleKernel(MaternKernel(ard_num_dims=2, active_dims=[0])), "lengthscales for 1 columns"),
    (2, RBFKernel(active_dims=[2]), "cannot be evaluated on points of 2 coordinates"),
    (2, ProductKernel(ARD3, RBFKernel()), "3 lengthscales"),
    (2, ScaleKernel(AdditiveKernel(ARD3, RBFKernel())), "3 lengthscales"),
    (2, RBFKernel(batch_shape=BATCH), r"returns shape \(3, .*without batch shape"),
    (2, AdditiveKernel(RBFKernel(batch_shape=BATCH), RBFKernel()), "without batch shape"),
    (2, RBFKernelGrad(), "kernel with one output"),
    (2, PeriodicKernel(ard_num_dims=3), "3 lengthscales"),
    (1, ScaleKernel(ARD2), "2 lengthscales for 1 columns"),
]


@pytest.mark.parametrize("domains", DOMAINS, ids=["grid", "box"])
def test_a_kernel_for_other_points(domains):
    for dim, kernel, message in OTHER_POINTS:
        with pytest.raises(InputDataError, match=message):
            gp_ucb(kernel=kernel.double(), noise=0.1).init(domains[dim - 1])


def test_kernels_that_fit_are_evaluated():
    points = torch.rand(5, 3, dtype=D, generator=torch.Generator().manual_seed(0))
    for kernel in (
        ScaleKernel(RBFKernel(ard_num_dims=2, active_dims=[2, 0])),
        ScaleKernel(RBFKernel(), active_dims=[0, 2]),
        RBFKernel(active_dims=[1]) + ScaleKernel(LinearKernel()),
        RBFKernel(batch_shape=torch.Size([1])),
    ):
        wanted = kernel.double()(points).to_dense().reshape(5, 5).detach()
        torch.testing.assert_close(evaluated(kernel, points), wanted, rtol=0, atol=1e-12)


def test_repeated_arms_are_no_asymmetry():
    """The computed distance of equal points is as large as the root of rounding."""
    X = torch.rand(30, 2, dtype=D, generator=torch.Generator().manual_seed(0))
    kernel = MaternKernel(nu=0.5).double()
    gp_ucb(kernel=kernel, noise=0.1).init(Grid(torch.cat([1e3 + X, 1e3 + X])))
