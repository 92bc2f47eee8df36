"""Every decay, inflation, retention, mean, width and exploration together, against the textbook."""

import pytest
from conformance.combinations import check

# Random parts fit each other seldom.
pytestmark = pytest.mark.filterwarnings("ignore::botorch_tv.validation.MisfitWarning")
TOLERANCE = 1e-8
TOGETHER = 25


def worst(first: int, cases: int) -> float:
    return max(check(number) for number in range(first, first + cases))


@pytest.mark.parametrize("first", range(0, 300, TOGETHER))
def test_random_combinations(first: int) -> None:
    assert worst(first, TOGETHER) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("first", range(300, 3300, 10 * TOGETHER))
def test_many_more_random_combinations(first: int) -> None:
    assert worst(first, 10 * TOGETHER) < TOLERANCE
