"""Points that fill a cube evenly."""

import torch

from botorch_tv.even_points import even_points


def test_powers_of_two_fill_every_part_of_each_axis():
    points = even_points(64, 3)
    assert points.dtype == torch.float64
    parts = (64 * points).long().sort(0).values
    assert torch.equal(parts, torch.arange(64)[:, None].expand(64, 3))


def test_a_sequence_continues():
    whole = even_points(20, 2, seed=5)
    for first in (0, 1, 13):
        assert torch.equal(even_points(7, 2, seed=5, first=first), whole[first : first + 7])
    assert not torch.equal(even_points(20, 2, seed=6), whole)


def test_global_random_numbers_do_not_change():
    before = torch.get_rng_state()
    even_points(8, 4)
    assert torch.equal(torch.get_rng_state(), before)
