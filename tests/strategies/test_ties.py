"""Which arm is played where several are the best: the first, or one by chance."""

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import RBFKernel

from botorch_tv.acquisition import ExpectedImprovement, UpperConfidence
from botorch_tv.acquisition.exploration import BestMean
from botorch_tv.gp.linalg import random_maximum
from botorch_tv.strategies import Box, GPStrategy, Grid

D = torch.float64
POINTS = torch.arange(12, dtype=D).unsqueeze(-1)
LINE = Grid(POINTS)
TRIALS = 6_000


def apart(exploration):
    return GPStrategy(kernel=torch.eye(12, dtype=D), noise=0.1, exploration=exploration)


def frequencies(arms):
    return torch.bincount(arms, minlength=12).double() / len(arms)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_every_one_of_those_that_tie_is_as_likely(dtype):
    score = torch.tensor([0.0, 2.0, 1.0, 2.0 - 5e-7, 2.0 - 3e-6, 2.0], dtype=dtype)
    uniform = (torch.arange(TRIALS, dtype=dtype) + 0.5) / TRIALS
    chosen = random_maximum(score.expand(TRIALS, -1), 1e-6, uniform)
    assert torch.bincount(chosen, minlength=6).tolist() == [0, 2000, 0, 2000, 0, 2000]


def test_the_ends_of_chance():
    score = torch.tensor([1.0, 0.0, 1.0])
    ends = torch.tensor([0.0, 1.0])  # single precision rounds numbers below 1 to it
    assert random_maximum(score.expand(2, -1), 0.1, ends).tolist() == [0, 2]


@pytest.mark.parametrize("exploration", [UpperConfidence, ExpectedImprovement, BestMean])
def test_the_first_arm_is_any(exploration):
    strategy = apart(exploration(ties="random"))
    state = strategy.init(LINE, batch_shape=(TRIALS,))
    assert strategy.draws
    generator = torch.Generator().manual_seed(3)
    share = frequencies(strategy.ask(state, generator=generator).index)
    assert (share - 1 / 12).abs().max() < 5 * (1 / 12 / TRIALS) ** 0.5
    first = apart(exploration())
    assert not first.draws
    assert first.ask(first.init(LINE)).index == 0


def test_a_box_cannot_list_those_that_tie():
    strategy = GPStrategy(
        kernel=RBFKernel().double(), noise=0.1, exploration=UpperConfidence(ties="random")
    )
    state = strategy.init(Box(torch.tensor([[0.0], [1.0]], dtype=D)))
    with pytest.raises(InputDataError, match='use ties="first" on a Box'):
        strategy.ask(state)
