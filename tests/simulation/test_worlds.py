import itertools

import pytest
import torch
from gpytorch.kernels import MaternKernel

from botorch_tv.simulation import MarkovWorld
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.streams import BLOCK, Stream
from botorch_tv.strategies import Grid

CPU = {"dtype": torch.float64, "device": torch.device("cpu")}


def paths(world: MarkovWorld, trials: int, rounds: int, seed: int = 0) -> torch.Tensor:
    stream = Stream(seed, "world", 0, trials, **CPU)
    return torch.stack([f.clone() for f in itertools.islice(world.rounds(stream), rounds)])


@pytest.mark.parametrize("rough", [False, True])
def test_covariance_in_space_and_time_is_the_models(rough: bool) -> None:
    """cov(f_s(x), f_t(x')) = (1 - ε)^(|t - s| / 2) k(x, x'), within five standard errors."""
    grid = Grid.regular(5, 2)
    kernel = unit_kernel("se", 0.3)
    if rough:
        kernel = MaternKernel(nu=0.5).double()
        kernel.lengthscale = torch.tensor(0.3, dtype=torch.float64)
    trials, epsilon = 20_000, 0.2
    f = paths(MarkovWorld(grid, kernel=kernel, epsilon=epsilon, noise=0.0), trials, 4)
    K = kernel(grid.X).to_dense().detach()
    for s, t in ((0, 0), (3, 3), (0, 1), (0, 3)):
        expected = (1 - epsilon) ** ((t - s) / 2) * K
        product = f[s].unsqueeze(-1) * f[t].unsqueeze(-2)
        error = product.std(0) / trials**0.5
        assert bool(((product.mean(0) - expected).abs() <= 5 * error).all())


def test_a_world_that_does_not_move_repeats_itself() -> None:
    world = MarkovWorld(Grid.regular(4, 2), kernel=unit_kernel("se", 0.3), epsilon=0.0, noise=0.1)
    f = paths(world, 3, 5)
    assert torch.equal(f[0], f[4])


def test_a_trial_draws_the_same_whatever_it_runs_with() -> None:
    whole = Stream(7, "world", 0, 2 * BLOCK + 5, **CPU)
    part = Stream(7, "world", BLOCK - 2, 9, **CPU)
    for _ in range(3):
        assert torch.equal(whole.normal(4)[BLOCK - 2 : BLOCK + 7], part.normal(4))


def test_seeds_and_purposes_are_apart() -> None:
    draws = [Stream(s, p, 0, 8, **CPU).normal() for s, p in ((0, "a"), (1, "a"), (0, "b"))]
    assert len({tuple(draw.tolist()) for draw in draws}) == 3


def test_float32_runs_see_the_float64_numbers() -> None:
    single = Stream(0, "a", 0, 8, dtype=torch.float32, device=torch.device("cpu")).normal(3)
    assert single.dtype == torch.float32
    assert torch.equal(single, Stream(0, "a", 0, 8, **CPU).normal(3).float())


@pytest.mark.parametrize(("name", "value"), [("epsilon", 1.5), ("epsilon", -0.1), ("noise", -1.0)])
def test_parameters_out_of_range(name: str, value: float) -> None:
    parameters = {"epsilon": 0.1, "noise": 0.1, name: value}
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        MarkovWorld(Grid.regular(3, 2), kernel=unit_kernel("se", 0.3), **parameters)
