"""Keys of trials use all random numbers drawn."""

import torch

from botorch_tv.experts import dpp as counter
from botorch_tv.experts.dpp import KEY_PARTS, draw_keys


def test_numbers_lie_inside_0_and_1_and_as_far_from_both(monkeypatch):
    bits = torch.tensor([0, -1, 2**62, ~(2**62), 12345 << 12, ~(12345 << 12)])
    monkeypatch.setattr(counter, "mixed", lambda word: bits)
    numbers = counter.uniforms(torch.zeros(6, dtype=torch.int64), torch.arange(6))
    assert numbers[:2].tolist() == [2.0**-53, 1 - 2.0**-53]
    assert torch.equal(numbers[::2] + numbers[1::2], torch.ones(3, dtype=torch.float64))


def test_every_number_drawn_counts():
    """Keys that share all numbers but one differ."""

    class Nearly:
        def __init__(self, part):
            self.part = part

        def uniform(self, *event):
            rows = torch.full((2, *event), 0.3, dtype=torch.float64)
            rows[1, self.part] += 2.0**-16
            return rows

    for part in range(KEY_PARTS):
        first, second = draw_keys(Nearly(part)).tolist()
        assert first != second
