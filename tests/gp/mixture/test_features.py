"""Features of a bank reproduce the kernel; explicit derivatives against automatic ones."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from botorch_tv import Box, Grid, adaptive_gp_ucb
from botorch_tv.gp.mixture.bank import Bank, with_constant
from botorch_tv.gp.mixture.features import (
    LEAST,
    WALLS,
    CubeFeatures,
    Products,
    axis_features,
    features,
    features_among,
    stacked,
)
from botorch_tv.gp.mixture.posterior import Moments, StackedMoments
from botorch_tv.gp.points import SMALLEST_VARIANCE
from botorch_tv.strategies.parameters import Choice, MixedSearch, Number, Space

LISTED = Space({"n": Number(0, 8, step=1), "c": Choice("a", "b")})


def gaussian(X: torch.Tensor, lengthscale: float) -> torch.Tensor:
    apart = torch.cdist(X, X, compute_mode="donot_use_mm_for_euclid_dist")
    return torch.exp(-0.5 * (apart / lengthscale).square())


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("columns", "lengthscale"),
    [(1, 0.05), (1, 0.4), (2, 0.1), (2, 0.4), (3, 0.4), (3, 0.8), (4, 0.924)],
)
def test_kernel_of_the_cube_within_the_tolerance(columns: int, lengthscale: float) -> None:
    generator = torch.Generator().manual_seed(1)
    X = torch.rand(300, columns, dtype=torch.float64, generator=generator)
    X = torch.cat([X, (1.6 * X - 0.3).clamp(0, 1), (1.02 * X - 0.01).clamp(0, 1), X.round()])
    own = features(lengthscale, columns, 1e-3, 320, X)
    phi = own.at(X)
    assert own.size <= (200 if columns < 3 else 300)
    assert_close(phi @ phi.T, gaussian(X, lengthscale), atol=1e-3, rtol=0)


@pytest.mark.parametrize("lengthscale", [0.05, 0.3, 2.0])
def test_features_of_an_axis_are_orthogonal_with_its_variances(lengthscale: float) -> None:
    inner, weight = np.polynomial.legendre.leggauss(300)
    places = np.append((inner + 1) / 2, [0.0, 1.0])
    weight = np.append((1 - WALLS) * weight / 2, [WALLS / 2] * 2)
    apart = (places[:, None] - places) / lengthscale
    root = np.sqrt(weight)
    exact = np.linalg.eigvalsh(root[:, None] * np.exp(-0.5 * apart**2) * root)[::-1]
    _, _, variance = axis_features(lengthscale)
    assert len(variance) == (exact > LEAST).sum()
    np.testing.assert_allclose(variance, exact[: len(variance)], rtol=1e-9, atol=1e-14)
    own = features(lengthscale, 1, 1e-8, 320, torch.zeros((), dtype=torch.float64))
    values = own.at(torch.as_tensor(places).unsqueeze(-1)).numpy()
    integrals = values.T * weight @ values
    np.testing.assert_allclose(integrals, np.diag(exact[: own.size]), atol=1e-9)


@pytest.mark.few("4-remaining0")
@pytest.mark.parametrize(
    ("columns", "remaining"), [(4, (0.05, 1e-3, 1e-3)), (20, (0.89, 0.19, 8e-3))]
)
def test_missing_variance_in_more_coordinates(columns: int, remaining: tuple[float, ...]) -> None:
    X = torch.rand(500, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for lengthscale, most in zip(Bank().lengthscales_of(columns), remaining):
        own = features(lengthscale, columns, 1e-3, 320, X)
        phi, rest = with_constant(own.at(X))
        assert own.size <= 320
        assert float(rest.mean()) <= most
        error = gaussian(X, lengthscale) - phi[:, :-1] @ phi[:, :-1].T
        assert_close(error.diagonal(), rest, atol=1e-9, rtol=0)
        assert float(torch.linalg.eigvalsh(error).min()) > -1e-8


def test_features_found_in_inference_mode_serve_derivatives() -> None:
    X = torch.rand(5, 2, dtype=torch.float64)
    with torch.inference_mode():
        own = features(0.87, 2, 1e-3, 320, X)
    assert features(0.87, 2, 1e-3, 320, X.new_zeros(1)).inverse is own.inverse
    X.requires_grad_()
    own.at(X).square().sum().backward()
    assert bool(X.grad.isfinite().all())
    assert features(0.87, 2, 1e-3, 320, X.float()).at(X.float()).dtype == torch.float32


@pytest.mark.full
def test_a_box_of_listed_values_has_the_posterior_of_a_grid() -> None:
    X = torch.tensor([LISTED.point({"n": n, "c": c}) for c in "ab" for n in range(9)]).double()
    strategy = adaptive_gp_ucb(bank=Bank(tolerance=1e-6))
    cube = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()
    states = [strategy.init(Box(cube, search=MixedSearch(LISTED))), strategy.init(Grid(X))]
    random = torch.Generator().manual_seed(0)
    for n in range(14):
        place = int(torch.randint(18, (), generator=random))
        y = float(torch.randn((), generator=random))
        states = [
            strategy.tell(item, strategy.suggestion_at(item, X[place], now=n + 1.0), y)[0]
            for item in states
        ]
    mine, its = (strategy.posterior(item, X, now=16.0) for item in states)
    assert_close(mine.mean, its.mean, atol=2e-4, rtol=0)
    assert_close(mine.variance, its.variance, atol=2e-4, rtol=0)
    suggestion = strategy.ask(states[1], now=16.0)
    assert_close(suggestion.mean, its.mean[suggestion.index, 0])
    assert_close(suggestion.sd.square(), its.variance[suggestion.index, 0])
    assert_close(strategy.weights(states[0]), strategy.weights(states[1]), atol=2e-4, rtol=0)


D = torch.float64
TRIALS = 3


def some_moments(
    own: tuple[CubeFeatures, ...], weight: Tensor, generator: torch.Generator
) -> Moments:
    sizes = [item.size + 1 for item in own]
    roots = [
        torch.randn(TRIALS, size, size, dtype=D, generator=generator) / size**0.5 for size in sizes
    ]
    return Moments(
        weight=weight,
        mean=tuple(torch.randn(TRIALS, size, dtype=D, generator=generator) for size in sizes),
        covariance=tuple(root @ root.mT for root in roots),
        residual=torch.rand(TRIALS, len(own), dtype=D, generator=generator),
    )


def recorded(U: Tensor, own: tuple[CubeFeatures, ...], parts: Moments) -> tuple[Tensor, Tensor]:
    mean, variance = parts.at([with_constant(item.at(U)) for item in own])
    return mean, variance.clamp_min(SMALLEST_VARIANCE).sqrt()


def products(columns: int) -> tuple[CubeFeatures, ...]:
    """Too few, enough, and such that at some points more than all of a variance is theirs."""
    like = torch.zeros((), dtype=D)
    few = features(0.4, columns, 1e-2, 3, like)
    enough = features(0.8, columns, 1e-2, 200, like)
    assert isinstance(enough, Products)
    wide = Products(enough.number, enough.nodes, 1.001 * enough.inverse, enough.lengthscale)
    return few, enough, wide


def among(columns: int) -> tuple[CubeFeatures, ...]:
    U = torch.rand(200, columns, dtype=D, generator=torch.Generator().manual_seed(2))
    return tuple(features_among(U, item, 1e-3, 40, U) for item in (0.3, 0.9))


@pytest.mark.parametrize(
    ("made", "columns"), [(products, 1), (products, 2), (products, 3), (among, 3)]
)
def test_values_and_derivatives_are_those_that_are_recorded(made, columns):
    generator = torch.Generator().manual_seed(columns)
    own = made(columns)
    weight = torch.rand(TRIALS, len(own), dtype=D, generator=generator).softmax(-1)
    parts = some_moments(own, weight, generator)
    U = torch.rand(TRIALS, 40, columns, dtype=D, generator=generator).requires_grad_()
    wanted = recorded(U, own, parts)
    *found, pull = StackedMoments(parts).slopes(U.detach(), stacked(own))
    torch.testing.assert_close(tuple(found), wanted, rtol=1e-11, atol=1e-11)
    by = torch.randn(2, TRIALS, 40, dtype=D, generator=generator)
    for several in ([by[0], 0 * by[1]], [0 * by[0], by[1]], [*by]):
        slope = pull(*several)
        (oracle,) = torch.autograd.grad(wanted, U, several, retain_graph=True)
        torch.testing.assert_close(slope, oracle, rtol=1e-10, atol=1e-10)
    rest = torch.stack([with_constant(item.at(U))[1] for item in own])
    assert (rest > 1e-3).any()
    assert made is among or (rest == 0).any()


def test_where_nothing_is_unknown_a_deviation_is_the_smallest_and_flat():
    own = products(1)[:1]
    sure = some_moments(own, torch.ones(TRIALS, 1, dtype=D), torch.Generator())
    nothing = torch.zeros_like(sure.covariance[0]), torch.zeros_like(sure.residual)
    moments = StackedMoments(sure._replace(covariance=nothing[:1], residual=nothing[1]))
    _, sd, pull = moments.slopes(torch.full((TRIALS, 2, 1), 0.3, dtype=D), stacked(own))
    assert torch.equal(sd, torch.full_like(sd, SMALLEST_VARIANCE**0.5))
    assert not pull(0.0, 1.0).any()
