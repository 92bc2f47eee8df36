"""Features of what may be chosen tell the kernel there, with fewer of them than for the cube."""

import pytest
import torch

from botorch_tv import Box, Grid, adaptive_gp_ucb
from botorch_tv.inference.mixture.bank import Bank
from botorch_tv.inference.mixture.features import features_among
from botorch_tv.inference.mixture.prior import with_constant
from botorch_tv.strategies.mixed.search import MixedSearch
from botorch_tv.strategies.mixed.space import Axis, Number, Space
from botorch_tv.strategies.parameters import Choice

MIXED = Space([Axis("x", Number(0.0, 1.0)), Axis("c", Choice("a", "b", "c"))])
LISTED = Space([Axis("n", Number(0, 8, step=1)), Axis("c", Choice("a", "b"))])


def gaussian(X: torch.Tensor, lengthscale: float) -> torch.Tensor:
    apart = torch.cdist(X, X, compute_mode="donot_use_mm_for_euclid_dist")
    return torch.exp(-0.5 * (apart / lengthscale).square())


@pytest.mark.parametrize("lengthscale", [0.1, 0.3, 1.0])
def test_kernel_of_the_points_is_told_to_the_tolerance(lengthscale: float) -> None:
    among = MixedSearch(MIXED).among(256, 3)[1]
    own = features_among(among, lengthscale, 1e-3, 320, among)
    phi = own.at(among)
    torch.testing.assert_close(phi @ phi.T, gaussian(among, lengthscale), atol=1.1e-3, rtol=0)
    engine = torch.quasirandom.SobolEngine(2, scramble=True, seed=7)
    others = MIXED.spread(engine.draw(300, dtype=torch.float64))
    told = own.at(others)
    torch.testing.assert_close(told @ told.T, gaussian(others, lengthscale), atol=3e-3, rtol=0)


def test_no_more_features_than_values() -> None:
    among = MixedSearch(LISTED).among(512, 2)[1]
    own = features_among(among, 0.01, 1e-9, 320, among)
    assert own.size == 18
    few = features_among(among, 0.01, 1e-9, 7, among)
    assert few.size == 7


def test_ends_of_ranges_are_told() -> None:
    ends = torch.tensor([MIXED.point({"x": x, "c": c}) for x in (0.0, 1.0) for c in "abc"]).double()
    among = MixedSearch(MIXED).among(1024, 3)[1]
    own = features_among(among, 0.1, 1e-3, 320, among)
    _, left = with_constant(own.at(ends))
    assert float(left.max()) <= 1.1e-3


def test_a_box_of_listed_values_believes_what_a_grid_of_them_does() -> None:
    X = torch.tensor([LISTED.point({"n": n, "c": c}) for c in "ab" for n in range(9)]).double()
    strategy = adaptive_gp_ucb(bank=Bank(tolerance=1e-6))
    cube = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()
    states = [
        strategy.init(Box(cube, search=MixedSearch(LISTED))),
        strategy.init(Grid(X)),
    ]
    random = torch.Generator().manual_seed(0)
    for n in range(14):
        place = int(torch.randint(18, (), generator=random))
        y = float(torch.randn((), generator=random))
        states = [
            strategy.tell(one, strategy.suggestion_at(one, X[place], now=n + 1.0), y)[0]
            for one in states
        ]
    mine, its = (strategy.posterior(one, X, now=16.0) for one in states)
    torch.testing.assert_close(mine.mean, its.mean, atol=2e-4, rtol=0)
    torch.testing.assert_close(mine.variance, its.variance, atol=2e-4, rtol=0)
    torch.testing.assert_close(
        strategy.weights(states[0]), strategy.weights(states[1]), atol=2e-4, rtol=0
    )
