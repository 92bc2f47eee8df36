"""Memories of parts are brought to where a state is, whatever holds the tensors."""

from typing import NamedTuple

import pytest
import torch
from botorch.exceptions import InputDataError

from botorch_tv.forgetting import Part
from botorch_tv.forgetting.base import as_memory

LIKE, PAIR = torch.zeros((), dtype=torch.float64), torch.Size([2])


class Pair(NamedTuple):
    count: torch.Tensor
    level: torch.Tensor


def test_floats_take_the_dtype_and_counts_stay_counts():
    counts, levels = torch.tensor([1, 2]), torch.tensor([0.5, 1.5])
    for memory in (
        {"count": counts, "level": levels},
        Pair(counts, levels),
        [counts, (levels, {"again": levels})],
    ):
        made = as_memory(Part(), memory, None, LIKE, PAIR)
        assert type(made) is type(memory)
        assert "[0.5000, 1.5000], dtype=torch.float64" in str(made)
        assert "tensor([1, 2])" in str(made)
    assert as_memory(Part(), None, None, LIKE, PAIR) is None


def test_what_was_remembered_is_not_lost_without_a_word():
    with pytest.raises(InputDataError, match=r"Part\.update returned None"):
        as_memory(Part(), None, torch.zeros(2), LIKE, PAIR)
