"""Quadrature Fourier features of the squared exponential kernel, against their formulas."""

import math

import numpy as np
import pytest
import torch
from gpytorch.kernels import LinearKernel
from numpy.testing import assert_allclose

from botorch_tv.acquisition import Constant
from botorch_tv.kernels.features import QuadratureFourierKernel, quadrature_fourier_features
from botorch_tv.strategies import Box, Grid, w_gp_ucb
from botorch_tv.theory import quadrature_error


def largest_error(points: int, lengthscale: float, dim: int, dropped: float = 0.0) -> float:
    side = np.linspace(0, 1, 101 if dim == 1 else 15)
    X = np.stack(np.meshgrid(*[side] * dim), -1).reshape(-1, dim)
    squared = ((X[:, None] - X) ** 2).sum(-1)
    features = quadrature_fourier_features(
        torch.from_numpy(X), points=points, lengthscale=lengthscale, dropped=dropped
    ).numpy()
    return float(np.abs(features @ features.T - np.exp(-squared / (2 * lengthscale**2))).max())


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize(
    ("lengthscale", "points"),
    [(10.0, 1), (1.0, 1), (1.0, 4), (0.5, 6), (0.5, 11), (0.2, 24), (0.2, 27)],
)
def test_kernel_error_is_below_the_bound(lengthscale, points, dim):
    bound = quadrature_error(points, lengthscale=lengthscale, dim=dim)
    error = largest_error(points, lengthscale, dim)
    assert error <= bound + 1e-13  # rounding
    assert error >= bound / 1e3 or points > 20  # neither is trivial


def test_nodes_left_out_cost_their_weight():
    exact = largest_error(24, 0.2, 2)
    X = torch.rand(3, 5, 2, dtype=torch.float64)
    given = {"points": 24, "lengthscale": 0.2}
    assert quadrature_fourier_features(X, **given).shape == (3, 5, 24**2)
    for dropped in (1e-4, 1e-2):
        assert quadrature_fourier_features(X, **given, dropped=dropped).shape[-1] < 24**2 / 2
        assert exact < largest_error(24, 0.2, 2, dropped) <= exact + dropped


@pytest.mark.parametrize("points", [1, 2, 5, 8])
def test_weights_are_hermite_polynomials_of_the_nodes(points):
    # v = 2^(m-1) m! / (m H_{m-1}(rho))^2 at the roots of H_m.
    hermite = np.polynomial.hermite.Hermite
    roots = hermite.basis(points).roots()
    v = (
        2.0 ** (points - 1)
        * math.factorial(points)
        / (points * hermite.basis(points - 1)(roots)) ** 2
    )
    x = np.array([[0.3], [0.9]])
    phi = quadrature_fourier_features(torch.from_numpy(x), points=points, lengthscale=0.7).numpy()
    assert phi.shape == (2, points)
    expected = (v * np.cos(math.sqrt(2) / 0.7 * roots * 0.6)).sum()
    assert_allclose(phi[0] @ phi[1], expected, atol=1e-13)
    assert_allclose((phi**2).sum(-1), 1.0, atol=1e-13)


def test_a_bound_beyond_float64_is_infinite():
    assert quadrature_error(200, lengthscale=1e-4, dim=1) == math.inf
    assert math.isfinite(quadrature_error(5, lengthscale=1e-4, dim=1))


def test_bound_is_that_of_the_paper_up_to_stirlings_series():
    for points, dim in [(1, 1), (5, 2), (40, 2), (70, 1)]:
        printed = dim * 2 ** (dim - 1) / math.sqrt(2) * (math.e / (4 * points * 0.25)) ** points
        excess = quadrature_error(points, lengthscale=0.5, dim=dim) / printed
        assert math.exp(1 / (24 * points + 2)) < excess < math.exp(1 / (24 * points))
    error = largest_error(1, 10.0, 1)
    assert error > math.e / 4 / math.sqrt(2) / 100  # the printed bound, at one node


@pytest.mark.parametrize(
    "wrong", [{"points": 0}, {"lengthscale": 0.0}, {"dropped": 1.0}, {"points": 2.5}]
)
def test_bad_arguments(wrong):
    given = {"points": 3, "lengthscale": 0.5} | wrong
    with pytest.raises(ValueError, match=f"quadrature_fourier_features: {next(iter(wrong))}"):
        quadrature_fourier_features(torch.zeros(2, 1), **given)


GAMMA, LAM, ETA = 0.8, 0.3, 0.6


def hermite_features(x: np.ndarray) -> np.ndarray:
    """φ on a line, with all nodes and their weights, [W22] §5, at l = 0.4."""
    nodes, weights = np.polynomial.hermite.hermgauss(7)
    phase, root = math.sqrt(2) / 0.4 * x * nodes, np.sqrt(weights / math.sqrt(math.pi))
    return np.concatenate([root * np.cos(phase), root * np.sin(phase)], -1)


def linear_kernel() -> LinearKernel:
    kernel = LinearKernel().double()
    kernel.variance = 1.0
    return kernel


@pytest.mark.parametrize("domain", [Grid.regular(5, 1), Box([(0.0, 1.0)])], ids=["grid", "box"])
@pytest.mark.parametrize(
    ("kernel", "phi"),
    [(QuadratureFourierKernel(7, 0.4), hermite_features), (linear_kernel(), lambda x: x)],
    ids=["quadrature", "Remark 1"],
)
def test_wgp_ucb_is_weighted_ridge_regression_in_features(domain, kernel, phi) -> None:
    """[W22] Remark 1: the mean is φ(x)ᵀθ̂ with θ̂ = (Σ w φφᵀ + λ w_n I)⁻¹ Σ w φ y.

    With γ = 1 and √β = η/√λ, as in KernelUCB, the band is η √(φᵀ(Σ φφᵀ + λ I)⁻¹φ).
    """
    X, y = np.array([[0.0], [0.75], [0.5], [1.0]]), np.array([0.2, 1.0, -0.4, 0.6])
    at = torch.tensor([[0.25], [1.0]]).double()
    here = phi(at.numpy())
    for gamma in (GAMMA, 1.0):
        width = Constant(ETA**2 / LAM)
        strategy = w_gp_ucb(kernel=kernel, noise=LAM, gamma=gamma, width=width)
        state = strategy.init(domain)
        for x, value in zip(X, y):
            there = strategy.suggestion_at(state, torch.from_numpy(x))
            state, _ = strategy.tell(state, there, value)
        w, rows = gamma ** -np.arange(4.0), phi(X)
        V = (rows.T * w) @ rows + LAM * w[-1] * np.eye(rows.shape[-1])
        posterior = strategy.posterior(state, at, now=4)
        assert_allclose(
            posterior.mean[:, 0], here @ np.linalg.solve(V, (rows.T * w) @ y), atol=1e-9
        )
        band = width.sqrt_beta(None) * posterior.variance[:, 0].sqrt()
        spread = (here * np.linalg.solve(V, here.T).T).sum(-1) * w[-1]
        assert_allclose(band, ETA * np.sqrt(spread), atol=1e-6)
