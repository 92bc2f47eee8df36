"""Periods, windows, counts of side queries and tail constants by hand."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from botorch_tv.forgetting import ExponentialWeights
from botorch_tv.forgetting.sparq_windows import ENDLESS
from botorch_tv.theory import (
    analysis_block,
    budget_period,
    discount,
    is_window_start,
    necessary_side_queries,
    next_window_start,
    reset_period,
    rexp3_period,
    side_queries,
    squared_exponential_tails,
    sufficient_side_queries,
    total_side_queries,
    window_count,
    window_starts,
)


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


def integer_root(value: int, degree: int) -> int:
    """⌊value^(1/degree)⌋ by bisection on integers."""
    low, high = 0, value
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**degree <= value else (low, middle - 1)
    return low


def test_starts_by_hand() -> None:
    assert window_starts(90, 1.0, 0.25) == (*range(1, 17, 2), *range(17, 83, 3), 83, 87)


@pytest.mark.parametrize(
    ("alpha", "alpha_tilde", "ratio"),
    [
        (1.0, 0.25, Fraction(1, 4)),
        (1.0, 0.0, Fraction(0)),
        (0.75, 0.25, Fraction(1, 3)),  # 0.25 / 0.75 is below 1/3 as a float, so 27 would give 2
        (0.9, 0.3, Fraction(1, 3)),
        (0.5, 0.25, Fraction(1, 2)),
        (2, 0.2, Fraction(1, 10)),
        (0.3, 0.25, Fraction(5, 6)),
        (0.1, 0.25, Fraction(5, 2)),
    ],
)
def test_starts_are_exact_and_satisfy_equation_32(
    alpha: float, alpha_tilde: float, ratio: Fraction
) -> None:
    p, q = ratio.numerator, ratio.denominator
    starts = window_starts(5000, alpha, alpha_tilde)
    following = next_window_start(starts[-1], alpha, alpha_tilde)
    assert starts[0] == 1
    assert starts[-1] <= 5000 < following
    for start, end in zip(starts, (*starts[1:], following)):
        length = end - start
        assert length == integer_root(start**p, q) + 1
        assert length**q > start**p >= (length - 1) ** q  # t^(p/q) < length <= t^(p/q) + 1


def test_any_decimal_serves() -> None:
    alpha = 0.8731264917
    for start in (1, 7, 1000, 123456):
        expected = start + math.floor(start ** (0.25 / alpha)) + 1
        assert next_window_start(start, alpha, 0.25) == expected
    assert next_window_start(2, 1e-12, 0.25) == 2 + ENDLESS + 1


def test_asking_round_by_round_agrees_with_the_list() -> None:
    starts = window_starts(700, 1.0, 0.25)
    assert tuple(t for t in range(1, 701) if is_window_start(t, 1.0, 0.25)) == starts
    assert window_count(700, 1.0, 0.25) == len(starts)
    assert window_starts(1, 1.0, 0.25) == (1,)
    assert window_starts(2, 1.0, 0.25) == (1,)


def test_side_queries_by_hand() -> None:
    assert side_queries(1, 1) == 1  # ln 2 = 0.69
    assert side_queries(99, 1) == 5  # ln 100 = 4.61
    assert side_queries(99, 2) == 22  # 21.2
    assert side_queries(99, 2, constant=0.5) == 11
    assert total_side_queries(range(1, 4), 1) == 1 + 2 + 2  # ln 2, ln 3, ln 4
    assert total_side_queries(window_starts(5, 1.0, 0.25), 1) == 1 + 2 + 2  # 1, 3 and 5
    sparq = total_side_queries(range(1, 501), 1)
    assert total_side_queries(window_starts(500, 1.0, 0.25), 1) < 0.25 * sparq


def test_thresholds_by_hand() -> None:
    T = torch.tensor([1.0, 16.0, 81.0], dtype=torch.float64)
    np.testing.assert_allclose(necessary_side_queries(T, 3.0), [1, 8, 27])
    sufficient = sufficient_side_queries(T, 1.0, 0.25, 2)
    np.testing.assert_allclose(sufficient, [0, 8 * math.log(16) ** 2, 27 * math.log(81) ** 2])
    table_2 = 10_000 ** ((4 * 0.8 - 1) / (4 * 0.8)) * math.log(10_000)
    assert float(sufficient_side_queries(10_000, 0.8, 0.25, 1)) == pytest.approx(table_2)


def test_tails_by_hand() -> None:
    tails = squared_exponential_tails(0.5, r=math.pi)
    assert tails == pytest.approx((3, math.sqrt(2), 1 + 2 * math.sqrt(3), 2 * math.sqrt(2)))


def test_tails_in_several_dimensions():
    """The tails follow from bounds E on mean suprema, found here by another integration."""
    l, r, d = 0.4, 1.0, 2
    u = np.linspace(0, 12, 2_000_001)

    def mean(s: float) -> float:
        return float(
            np.trapezoid(np.minimum(1, (0.5 + r * s / (2 * math.pi)) * np.exp(-(u**2) / 2)), u)
        )

    E = d * mean(1 / l), mean(math.sqrt(3) / l) + (d - 1) * mean(1 / l)
    tails = squared_exponential_tails(l, r, d)
    assert tails.a0 == pytest.approx(2 * math.exp(E[0] ** 2 / 2), rel=1e-6)
    assert tails.a1 == pytest.approx(2 * math.exp(E[1] ** 2 / 2), rel=1e-6)
    assert (tails.b0, tails.b1) == (2, 2 / l)


def test_tails_beyond_float64_are_refused():
    with pytest.raises(OverflowError):
        squared_exponential_tails(1e-3, 1.0, 20)


def test_period_of_rexp3():
    """(K ln K)^(1/3) (T / V)^(2/3), the balance of its regret over Δ."""
    assert rexp3_period(200, 46, 5.0) == math.ceil((46 * math.log(46) * (200 / 5) ** 2) ** (1 / 3))
    assert rexp3_period(84, 50, 0.1) == 84
    assert rexp3_period(10, 2, 1e9) == 1
    assert rexp3_period(10, 1, 1.0) == 1
    # T / Δ periods with the regret bound of Exp3, and 2 V Δ for change within them: the paper's Δ
    # balances both but for constants, which would give (√(e - 1) / 2)^(2/3) times as much.
    T, K, V = 100_000, 46, 30.0

    def regret(period: int) -> float:
        exp3 = 2 * math.sqrt(math.e - 1) * math.sqrt(period * K * math.log(K))
        return T / period * exp3 + 2 * V * period

    best = min(range(1, 5000), key=regret)
    assert rexp3_period(T, K, V) == pytest.approx(best * (4 / (math.e - 1)) ** (1 / 3), rel=2e-3)
