"""Explicit derivatives of the mixture against automatic differentiation."""

import pytest
import torch
from torch import Tensor

from botorch_tv.gp.mixture.bank import with_constant
from botorch_tv.gp.mixture.features import Features, Products, features, features_among, stacked
from botorch_tv.gp.mixture.posterior import Moments, StackedMoments
from botorch_tv.gp.points import SMALLEST_VARIANCE

D = torch.float64
TRIALS = 3


def some_moments(own: tuple[Features, ...], weight: Tensor, generator: torch.Generator) -> Moments:
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


def recorded(U: Tensor, own: tuple[Features, ...], parts: Moments) -> tuple[Tensor, Tensor]:
    mean, variance = parts.at([with_constant(item.at(U)) for item in own])
    return mean, variance.clamp_min(SMALLEST_VARIANCE).sqrt()


def products(columns: int) -> tuple[Features, ...]:
    """Too few, enough, and such that at some points more than all of a variance is theirs."""
    like = torch.zeros((), dtype=D)
    few = features(0.4, columns, 1e-2, 3, like)
    enough = features(0.8, columns, 1e-2, 200, like)
    assert isinstance(enough, Products)
    wide = Products(enough.number, enough.nodes, 1.001 * enough.inverse, enough.lengthscale)
    return few, enough, wide


def among(columns: int) -> tuple[Features, ...]:
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
