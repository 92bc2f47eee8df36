"""The parts of both k-DPP samplers against determinants, without random numbers.

Uniform numbers come from a net of 2^14 points that fills the cube evenly, which estimates
probabilities to about 1e-3.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from botorch_tv.experts.dpp import (
    _consider,
    _inverse,
    _swap_,
    log_polynomials_without_each,
    sample_by_eigenvalues,
)

Array = NDArray[np.float64]
NET = 2**14


def net(dim: int) -> torch.Tensor:
    engine = torch.quasirandom.SobolEngine(dim, scramble=True, seed=4)
    return engine.draw(NET, dtype=torch.float64)


def line(points: int, lengthscale: float) -> Array:
    x = np.linspace(0.0, 1.0, points)
    return np.exp(-0.5 * ((x[:, None] - x) / lengthscale) ** 2)


def det(K: Array, rows: tuple[int, ...]) -> float:
    return float(np.linalg.det(K[np.ix_(rows, rows)]))


def shares(rows: list[tuple[int, ...]]) -> dict[tuple[int, ...], float]:
    counts: dict[tuple[int, ...], float] = {}
    for row in rows:
        counts[row] = counts.get(row, 0.0) + 1 / len(rows)
    return counts


@pytest.mark.parametrize("size", [0, 1, 3, 4])
def test_polynomials_without_each_value(size: int) -> None:
    """Sums of products over all subsets of the others, values of 0 among them."""
    values = [2.0, 0.9, 0.7, 0.2, 0.0]
    found = log_polynomials_without_each(
        torch.tensor([values, values[::-1]], dtype=torch.float64).log(), torch.tensor([size] * 2), 5
    ).exp()
    for place in range(5):
        others = values[:place] + values[place + 1 :]
        wanted = sum(map(math.prod, itertools.combinations(others, size)))
        assert found[0, place] == pytest.approx(wanted, rel=1e-12)
        assert found[1, 4 - place] == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("columns", [3, 6])
def test_points_come_in_every_order_as_determinants(size: int, columns: int) -> None:
    """P(z_1, ..., z_k) = det K_Z / k! Σ det K_Z': in any order, also where k is K's rank."""
    factor = np.random.default_rng(2).standard_normal((6, columns))
    whole, kernel = torch.from_numpy(factor).expand(NET, 6, columns), factor @ factor.T
    item = torch.ones(NET, dtype=torch.int64)
    seen = shares(
        [
            tuple(row)
            for row in sample_by_eigenvalues(whole, columns * item, size * item, net(size)).tolist()
        ]
    )
    orders = list(itertools.permutations(range(6), size))
    assert set(seen) <= set(orders)
    sizes = {order: det(kernel, order) for order in orders}
    for order in orders:
        wanted = sizes[order] / sum(sizes.values())
        assert seen.get(order, 0.0) == pytest.approx(wanted, abs=2e-3)


def test_ratios_of_all_swaps_are_ratios_of_determinants() -> None:
    """ρ = det K_Z' / det K_Z; the second trial has a single point and unused entries."""
    K = 0.7 * line(7, 0.3) + 0.1 * np.eye(7)
    sizes, chosen = [3, 1], torch.tensor([[5, 0, 2], [4, 0, 0]])
    used = torch.arange(3) < torch.tensor(sizes).unsqueeze(-1)
    covariance = torch.from_numpy(K).expand(2, 7, 7)
    inverse = _inverse(covariance, chosen, used)
    for trial, size in enumerate(sizes):
        subset = chosen[trial, :size].tolist()
        np.testing.assert_allclose(
            inverse[trial, :size, :size], np.linalg.inv(K[np.ix_(subset, subset)]), rtol=1e-9
        )
        for place, into in itertools.product(range(size), set(range(7)) - set(subset)):
            entering, leaving = torch.tensor([[into]]), torch.tensor([[place]])
            item = slice(trial, trial + 1)
            ratio, u = _consider(
                covariance[item], inverse[item], chosen[item], used[item], entering, leaving
            )
            after = list(subset)
            after[place] = into
            wanted = det(K, tuple(after)) / det(K, tuple(subset))
            assert float(ratio) == pytest.approx(wanted, rel=1e-9)
            # The swap is made: the inverse is that of the new subset; elsewhere nothing moves.
            for moves in (True, False):
                fresh = inverse[item].clone()
                _swap_(fresh, u[:, 0], ratio[:, 0], leaving[0], torch.tensor([moves]))
                now = after if moves else subset
                np.testing.assert_allclose(
                    fresh[0, :size, :size], np.linalg.inv(K[np.ix_(now, now)]), rtol=1e-8
                )
