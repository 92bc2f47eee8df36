"""Memories of parts are moved to the device and dtype of the state."""

from typing import NamedTuple

import torch

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
