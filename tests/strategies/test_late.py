"""Few states are kept, and what comes late finds one that is not much older."""

import math

import pytest

from botorch_tv.strategies.trial_history import is_kept, oldest_for


@pytest.mark.parametrize("most", [1, 2, 3, 5, 7, 15, 31])
def test_states_are_few_and_one_is_near(most: int) -> None:
    oldest, kept = oldest_for(most), [0]
    for newest in range(1, 200):
        kept = [one for one in [*kept, newest] if is_kept(one, newest, oldest)]
        assert newest in kept
        assert len(kept) <= 4 + math.log2(most)
        for late in range(1, min(most, newest) + 1):
            base = max(one for one in kept if one <= newest - late)
            assert newest - base <= max(3 * late - 2, 1)
            if late == 1:
                assert base == newest - 1
