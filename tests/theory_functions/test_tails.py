"""Tail constants of the squared exponential kernel."""

import math

import pytest

from botorch_tv.theory import squared_exponential_tails


def test_by_hand() -> None:
    tails = squared_exponential_tails(0.5, r=math.pi)
    assert tails == pytest.approx((3, math.sqrt(2), 1 + 2 * math.sqrt(3), 2 * math.sqrt(2)))
