"""A kernel is looked at once before it is used: whatever is no covariance is refused in words."""

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

from botorch_tv.gp.covariance import evaluated, factor, require_semidefinite
from botorch_tv.strategies import Box, Grid, gp_ucb

D = torch.float64
LINE = Grid(torch.linspace(0, 1, 12, dtype=D).unsqueeze(-1))
SQUARE = Grid.regular(points=4, dim=2)
BOX = Box(torch.tensor([[0.0], [1.0]], dtype=D))
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


def spoilt(x, z, value):
    """The squared exponential, but for one pair of points."""
    return torch.where((x * z > 0.95) & (x != z), value, torch.exp(-0.5 * ((x - z) / 0.3) ** 2))


NO_COVARIANCE = {
    "indefinite": (
        lambda x, z: torch.cos(9 * (x - z)) - 0.5 * torch.cos(3 * (x - z)),
        "indefinite",
    ),
    "negative": (lambda x, z: -torch.exp(-0.5 * (x - z) ** 2), "indefinite|variance"),
    "asymmetric": (lambda x, z: torch.exp(-0.5 * (x - z) ** 2) + 0.1 * x, "not symmetric"),
    "zero": (lambda x, z: 0 * x * z, "eigenvalues run from 0 to 0|variance is 0"),
    "NaN": (lambda x, z: torch.exp(-0.5 * (x - z) ** 2) / (x + z - x - z), "NaN or infinite"),
    "infinite": (lambda x, z: 1 / (x - z).abs(), "NaN or infinite"),
}


@pytest.mark.parametrize("inference", ENGINES)
@pytest.mark.parametrize("name", NO_COVARIANCE)
def test_a_kernel_that_is_none_on_a_grid(name, inference):
    formula, said = NO_COVARIANCE[name]
    with pytest.raises(InputDataError, match=said):
        gp_ucb(kernel=Formula(formula), noise=0.1, inference=inference).init(LINE)


@pytest.mark.parametrize("name", NO_COVARIANCE)
def test_a_kernel_that_is_none_on_a_box(name):
    formula, said = NO_COVARIANCE[name]
    with pytest.raises(InputDataError, match=said):
        gp_ucb(kernel=Formula(formula), noise=0.1).init(BOX)


@pytest.mark.parametrize("inference", ENGINES)
def test_one_bad_entry_is_found(inference):
    X = torch.cat([LINE.X, torch.full((1, 1), 0.999, dtype=D)])
    for value in (torch.nan, torch.inf):
        kernel = Formula(lambda x, z, value=value: spoilt(x, z, value))
        with pytest.raises(InputDataError, match=r"has 2 entries .* the first at \[11, 12\]"):
            gp_ucb(kernel=kernel, noise=0.1, inference=inference).init(Grid(X))


def with_lowest(share, M, rank, seed=0):
    """A covariance of a rank, but for one eigenvalue that is minus a share of the largest."""
    random = np.random.default_rng(seed)
    vectors = np.linalg.qr(random.standard_normal((M, M)))[0]
    values = np.zeros(M)
    values[:rank] = np.linspace(1, 0.1, rank)
    values[-1] = -share
    return torch.as_tensor((vectors * values) @ vectors.T)


@pytest.mark.parametrize("rank", [3, 39], ids=["low rank", "high rank"])
@pytest.mark.parametrize("inference", ENGINES)
def test_the_limit_is_the_same_in_all_representations(inference, rank):
    """Low ranks are told by what a factor leaves over, high ones by a Cholesky factorisation."""
    for share, refused in ((0.0, False), (3e-9, False), (3e-8, True), (1e-3, True)):
        K = with_lowest(share, 40, rank)
        K = 0.5 * (K + K.T)
        for matrix in (K, 1e-6 * K, 1e6 * K):
            if refused:
                with pytest.raises(InputDataError, match=r"indefinite.*clip negative eigenvalues"):
                    factor(matrix, (40,), inference)
            else:
                factor(matrix, (40,), inference)


def test_products_over_a_grid_are_told_by_their_axes():
    axis = with_lowest(0.4, 4, 3)
    axis = axis / axis[0, 0]
    K = torch.kron(axis, torch.eye(4, dtype=D) + 0.5)
    K = K / K[0, 0]
    assert float(torch.linalg.eigvalsh(K)[0]) < -1e-3
    with pytest.raises(InputDataError, match="indefinite"):
        factor(K, (4, 4), "auto")


def test_semidefinite_as_eigenvalues_say():
    """The factorisation decides as the eigenvalues do, on both sides of the limit."""
    for seed in range(20):
        share = 10.0 ** np.random.default_rng(seed).uniform(-10, -6)
        K = with_lowest(share, 15, 12, seed)
        K = 0.5 * (K + K.T)
        spectrum = np.linalg.eigvalsh(K.numpy())
        if abs(spectrum[0] / spectrum[-1] + 1e-8) < 1e-14:
            continue
        if spectrum[0] < -1e-8 * spectrum[-1]:
            with pytest.raises(InputDataError):
                require_semidefinite(K)
        else:
            require_semidefinite(K)


ARD3, ARD2 = RBFKernel(ard_num_dims=3), RBFKernel(ard_num_dims=2)
MISFITS = [
    (ARD3, "3 lengthscales for 2 columns; give ard_num_dims=2"),
    (ScaleKernel(MaternKernel(ard_num_dims=3)), "3 lengthscales for 2 columns"),
    (ScaleKernel(MaternKernel(ard_num_dims=2, active_dims=[0])), "2 lengthscales for 1 columns"),
    (RBFKernel(active_dims=[2]), "cannot be evaluated on points of 2 coordinates"),
    (ProductKernel(ARD3, RBFKernel()), "3 lengthscales"),
    (AdditiveKernel(ScaleKernel(ARD3), RBFKernel()), "3 lengthscales"),
    (ScaleKernel(AdditiveKernel(ARD3, RBFKernel())), "3 lengthscales"),
    (RBFKernel(batch_shape=torch.Size([3])), r"makes \(3, .*without batch shape"),
    (AdditiveKernel(RBFKernel(batch_shape=torch.Size([3])), RBFKernel()), "without batch shape"),
    (RBFKernelGrad(), "give a kernel of one output"),
    (PeriodicKernel(ard_num_dims=3), "3 lengthscales"),
]


@pytest.mark.parametrize(("kernel", "said"), MISFITS, ids=[str(n) for n in range(len(MISFITS))])
@pytest.mark.parametrize(
    "domain", [SQUARE, Box(torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D))], ids=["grid", "box"]
)
def test_a_kernel_for_other_points(kernel, said, domain):
    with pytest.raises(InputDataError, match=said):
        gp_ucb(kernel=kernel.double(), noise=0.1).init(domain)


@pytest.mark.parametrize("domain", [LINE, BOX], ids=["grid", "box"])
def test_several_lengthscales_on_a_line_do_not_broadcast(domain):
    for kernel in (ARD2, ScaleKernel(ARD2), ScaleKernel(AdditiveKernel(ARD2, RBFKernel()))):
        with pytest.raises(InputDataError, match="2 lengthscales for 1 columns"):
            gp_ucb(kernel=kernel.double(), noise=0.1).init(domain)


@pytest.mark.parametrize(
    "kernel",
    [
        RBFKernel(ard_num_dims=2, active_dims=[2, 0]),
        ScaleKernel(RBFKernel(ard_num_dims=2, active_dims=[2, 0])),
        ScaleKernel(RBFKernel(), active_dims=[0, 2]),
        RBFKernel(active_dims=[1]) + ScaleKernel(LinearKernel()),
        RBFKernel(batch_shape=torch.Size([1])),
    ],
)
def test_what_fits_is_evaluated(kernel):
    points = torch.rand(5, 3, dtype=D, generator=torch.Generator().manual_seed(0))
    kernel = kernel.double()
    wanted = kernel(points).to_dense().reshape(5, 5).detach()
    torch.testing.assert_close(evaluated(kernel, points), wanted, rtol=0, atol=1e-12)


def test_arms_that_repeat_are_no_asymmetry():
    """The distance of a point from its twin is 0 up to the root of rounding."""
    X = torch.rand(30, 2, dtype=D, generator=torch.Generator().manual_seed(0))
    kernel = MaternKernel(nu=0.5).double()
    gp_ucb(kernel=kernel, noise=0.1).init(Grid(torch.cat([1e3 + X, 1e3 + X])))
