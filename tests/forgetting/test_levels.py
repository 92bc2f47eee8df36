"""Levels of a trigger that are known in advance, against the paper's formula."""

import copy
import math
import pickle

import pytest
import torch

from botorch_tv.forgetting.change_detection import FIRST_LEVELS, ErrorLevels

ROUNDS = [1, 2, 3, 10, FIRST_LEVELS - 1, FIRST_LEVELS, 2 * FIRST_LEVELS, 1000]


@pytest.mark.parametrize("delta", [0.1, 1e-300, 0.9])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_levels_are_those_of_the_paper(delta: float, dtype: torch.dtype) -> None:
    levels, like = ErrorLevels(delta), torch.zeros((), dtype=dtype)
    for most in ROUNDS:
        since = torch.tensor([[1, most]])
        found = pickle.loads(pickle.dumps(levels)).at(since, most, like)
        assert found.dtype == dtype
        assert torch.equal(levels.at(since, most, like), found)
        for t, one in zip(since.flatten().tolist(), found.flatten().tolist()):
            pi = math.pi**2 * t**2 / 6
            expected = math.sqrt(2 * (math.log(2 * pi) - math.log(delta)))
            assert one == pytest.approx(expected, rel=4 * torch.finfo(dtype).eps)


def test_a_copy_knows_the_same() -> None:
    levels, like = ErrorLevels(0.1), torch.zeros((), dtype=torch.float64)
    since = torch.tensor([5])
    assert torch.equal(copy.deepcopy(levels).at(since, 5, like), levels.at(since, 5, like))
