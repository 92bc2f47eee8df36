"""Levels of a trigger that are known in advance, against the paper's formula."""

import math

import pytest
import torch

from botorch_tv.forgetting.change_detection import FIRST_LEVELS, known_level

ROUNDS = [1, 2, 3, 10, FIRST_LEVELS - 1, FIRST_LEVELS, 2 * FIRST_LEVELS, 1000]


@pytest.mark.parametrize("delta", [0.1, 1e-300, 0.9])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_levels_are_those_of_the_paper(delta: float, dtype: torch.dtype) -> None:
    like = torch.zeros((), dtype=dtype)
    for most in ROUNDS:
        since = torch.tensor([[1, most]])
        found = known_level(since, most, delta, like)
        assert found.dtype == dtype
        for t, one in zip(since.flatten().tolist(), found.flatten().tolist()):
            pi = math.pi**2 * t**2 / 6
            expected = math.sqrt(2 * (math.log(2 * pi) - math.log(delta)))
            assert one == pytest.approx(expected, rel=4 * torch.finfo(dtype).eps)
