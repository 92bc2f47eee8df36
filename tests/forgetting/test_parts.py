"""Memories of parts are brought to where a state is, whatever holds the tensors."""

from typing import NamedTuple

import torch

from botorch_tv.forgetting.parts import brought

D, CPU = torch.float64, torch.device("cpu")


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
        made = brought(memory, D, CPU)
        assert type(made) is type(memory)
        flat = str(made)
        assert "0.5000, 1.5000], dtype=torch.float64" in flat
        assert "tensor([1, 2])" in flat
    assert brought(None, D, CPU) is None
