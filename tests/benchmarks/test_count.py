"""The least a round needs, by hand; and how many observations and arms are in use."""

import numpy as np
import pytest
import torch
from gpytorch.kernels import RBFKernel

from benchmarks.speed.count import product_flops, round_count, world_count
from benchmarks.speed.figure4 import live_observations
from benchmarks.speed.memory import state_bytes
from benchmarks.speed.runs import STRATEGIES, play, rewards
from benchmarks.speed.shares import distinct, distinct_arms
from botorch_tv.gp.basis import ArmBasis, FeatureBasis, ProductBasis
from botorch_tv.strategies import Grid, gp_ucb

FEATURES = torch.randn(100, 8, dtype=torch.float64)


def test_vectors_over_the_arms_and_the_cheapest_form():
    basis = FeatureBasis(FEATURES)
    vectors, product = 6 * 100, 2 * 100 * 8
    assert round_count(basis, 3, None) == (vectors + 4 * 8, product + 4 * 3 * 8)  # rows
    assert round_count(basis, 50, None) == (vectors + 64, product + 128)  # matrix
    assert round_count(basis, 50, 2) == (vectors + 8, product + 16 + 32)  # arms
    assert world_count(basis) == (200, product)


def test_a_device_moves_and_multiplies_at_once():
    count = round_count(FeatureBasis(FEATURES), 3, None)
    assert count.seconds(8 * count.numbers, 1e12, 8) == 1
    assert count.seconds(1e12, count.flops / 2, 8) == 2


def test_products_one_dimension_after_the_other():
    factors = [torch.randn(20, 3, dtype=torch.float64), torch.randn(10, 4, dtype=torch.float64)]
    basis = ProductBasis(factors, torch.arange(12))
    # 20 x 3 by 3 x 4, then 20 x 4 by 4 x 10; with all features 200 x 12.
    assert product_flops(basis) == 2 * min(20 * 3 * 4 + 20 * 4 * 10, 200 * 12)
    assert product_flops(ArmBasis(torch.eye(5, dtype=torch.float64))) == 0


def test_live_observations_follow_the_resets():
    resets = np.zeros((2, 6), dtype=bool)
    resets[0, [2, 4]] = True  # the observation of a reset is kept
    assert live_observations(resets).tolist() == [[0, 1, 2, 1, 2, 1], [0, 1, 2, 3, 4, 5]]


def test_different_arms_among_the_live_ones():
    indices = torch.tensor([[1, 4], [1, 4], [2, 5], [3, 4]])
    live = torch.tensor([[0, 0], [1, 1], [2, 1], [1, 3]])
    assert distinct(indices, live) == [0, 1, 1, (1 + 2) / 2]


@pytest.mark.parametrize("label", ["GP-UCB", "R-GP-UCB", "SW-GP-UCB"])
def test_a_run_knows_what_it_uses(label):
    world = rewards(points=5, epsilon=0.03, trials=2, seed=0)
    played = play(STRATEGIES[label](), Grid.regular(points=5, dim=2), world, 40)
    rounds = range(40)
    live = {
        "GP-UCB": list(rounds),
        "R-GP-UCB": [number % 29 for number in rounds],
        "SW-GP-UCB": [min(number, 29) for number in rounds],
    }[label]
    assert played.live.T.tolist() == [live, live]
    assert all(one <= most for one, most in zip(distinct_arms(played), live, strict=True))


def test_state_counts_its_own_tensors_once():
    strategy = gp_ucb(kernel=RBFKernel().double(), noise=0.02)
    domain = Grid.regular(points=7, dim=2)
    few, many = (state_bytes(strategy.init(domain, batch_shape=(n,))) for n in (1, 11))
    assert many == 11 * few
    assert few >= 2 * 49 * 8  # mean and variance lost
    state = strategy.init(domain, batch_shape=(1,))
    assert state_bytes(state._replace(data=state.data._replace(first_time=state.time))) == few
