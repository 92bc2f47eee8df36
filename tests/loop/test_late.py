"""Few states are kept, and what comes late finds one that is not much older."""

import math

import pytest

from botorch_tv.loop.log import is_retained as is_kept
from botorch_tv.loop.log import oldest_for


@pytest.mark.parametrize("most", [1, 2, 3, 5, 7, 15, 31])
def test_states_are_few_and_one_is_near(most: int) -> None:
    oldest, retained = oldest_for(most), [0]
    for newest in range(1, 200):
        retained = [one for one in [*retained, newest] if is_kept(one, newest, oldest)]
        assert newest in retained
        assert len(retained) <= 4 + math.log2(most)
        for late in range(1, min(most, newest) + 1):
            base = max(one for one in retained if one <= newest - late)
            assert newest - base <= max(3 * late - 2, 1)
            if late == 1:
                assert base == newest - 1
