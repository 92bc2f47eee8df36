"""From change to parameters: by hand."""

import math

import pytest

from botorch_tv.forgetting import ExponentialWeights
from botorch_tv.theory import analysis_block, budget_period, discount, reset_period


@pytest.mark.parametrize(
    ("epsilon", "period"), [(0.001, 68), (0.01, 38), (0.03, 29), (0.05, 26), (0.1, 22), (0, 200)]
)
def test_periods_that_the_papers_print(epsilon: float, period: int) -> None:
    """[ET] Table 4 for three of them."""
    assert reset_period(epsilon, 200) == period


def test_reset_period_by_hand() -> None:
    assert reset_period(0.001, 50) == 50
    assert reset_period(1.0, 200) == 12
    assert reset_period(0.0001, 200, constant=3) == 30
    # Matérn, d = 1, ν = 2.5: c = 2/7, 4 - c = 26/7, 0.01^(-7/26) = 3.4546, times 24
    assert reset_period(0.01, 200, nu=2.5, dim=1) == math.ceil(24 * 100 ** (7 / 26)) == 83


def test_analysis_block_by_hand() -> None:
    assert analysis_block(0.001, 200) == 10
    assert analysis_block(0.01, 200) == 5  # 4.64
    assert analysis_block(1.0, 200) == 1
    assert analysis_block(1e-9, 200) == 200
    assert analysis_block(0.0, 200) == 200
    assert analysis_block(0.001, 200, nu=2.5, dim=1) == 13  # 1000^(7/19) = 12.74


def test_budget_rules_by_hand() -> None:
    assert budget_period(400, 4.0, 16.0) == 20
    assert budget_period(400, 4.1, 16.0) == 20  # 19.75
    assert budget_period(10, 1e9, 16.0) == 1
    assert discount(400, 16.0, 4.0) == pytest.approx(0.95)
    assert discount(400, 16.0) == pytest.approx(0.975)


def test_discount_stays_inside_its_interval() -> None:
    for value in (discount(1, 1e-6, 1e6), discount(10**15, 1e300, 1e-300)):
        assert 0 < value < 1
        ExponentialWeights(value)
