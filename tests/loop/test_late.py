"""Few states are retained, and late answers find a recent one."""

import math

import pytest

from botorch_tv.loop.log import is_retained as is_retained
from botorch_tv.loop.log import oldest_for


@pytest.mark.parametrize("most", [1, 2, 3, 5, 7, 15, 31])
def test_states_are_few_and_a_near_state_exists(most):
    oldest, retained = oldest_for(most), [0]
    for newest in range(1, 200):
        retained = [item for item in [*retained, newest] if is_retained(item, newest, oldest)]
        assert newest in retained
        assert len(retained) <= 4 + math.log2(most)
        for late in range(1, min(most, newest) + 1):
            base = max(stamp for stamp in retained if stamp <= newest - late)
            assert newest - base <= max(3 * late - 2, 1)
            if late == 1:
                assert base == newest - 1
