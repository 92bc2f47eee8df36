"""Generators draw where they are, whatever device the trials are on."""

import pytest
import torch

from botorch_tv.gp.random import draws_for, leading_normals

NOWHERE = torch.device("meta")
ONE = torch.ones((), dtype=torch.float64)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_a_generator_of_the_host_serves_trials_elsewhere(several: bool, kind: str) -> None:
    made = [torch.Generator().manual_seed(seed) for seed in range(3)]
    draws = draws_for(
        made if several else made[0], (3,), torch.empty(0, dtype=torch.float64, device=NOWHERE)
    )
    numbers = getattr(draws, kind)(2)
    assert (numbers.shape, numbers.dtype, numbers.device) == ((3, 2), torch.float64, NOWHERE)
    untouched = torch.Generator().manual_seed(0)
    assert not torch.equal(made[0].get_state(), untouched.get_state())


def test_how_many_numbers_are_used_does_not_move_later_ones() -> None:
    later = []
    for count in (3, 4):
        generator = torch.Generator().manual_seed(1)
        draws = draws_for(generator, (2,), ONE)
        first = leading_normals(draws, count, 8)
        assert first.shape == (2, count)
        later.append((first[:, :3], draws.normal(5)))
    torch.testing.assert_close(later[0], later[1], rtol=0, atol=0)
