"""Quadrature Fourier features of the squared exponential kernel, against their formulas."""

import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from botorch_tv.kernels.features import quadrature_fourier_features
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
