"""Checks of numbers and their results."""

import numpy as np
import pytest
import torch

from botorch_tv.forgetting import Markov, SlidingWindow
from botorch_tv.strategies import Grid, MultiStart, gp_ts, igp_ucb
from botorch_tv.validation import require_integer, require_number


@pytest.mark.parametrize("whole", [29, 29.0, np.int64(29), np.float32(29), np.uint8(29)])
def test_an_integer_is_returned_as_int(whole):
    number = require_integer("n", whole, 1, "give one.")
    assert type(number) is int
    assert number == 29


def test_a_bool_of_numpy_is_no_number():
    with pytest.raises(ValueError, match=r"n is .*, but it must be an integer of at least 1; fix"):
        require_integer("n", np.bool_(True), 1, "fix")


@pytest.mark.parametrize("value", [0.5, np.float32(0.5), np.float64(0.5)])
def test_a_number_comes_back_as_python_has_it(value):
    number = require_number("p", value, "[0, 1]", "give 0.5.")
    assert type(number) is float
    assert number == 0.5
    assert type(require_number("p", 1, "[0, 1]", "")) is int


@pytest.mark.parametrize(
    ("within", "inside", "outside"),
    [
        ("[0, 1]", (0, 1), (-1e-9, 1.1, np.nan)),
        ("(0, 1)", (1e-9, 0.9), (0, 1)),
        ("(0, inf)", (1e300,), (0, np.inf)),
        ("(-inf, inf)", (-1e300, 0), (-np.inf, np.inf, np.nan)),
        ("[1e-100, 1e100]", (1e-100, 1e100), (0, 1e-101, 1e101)),
    ],
)
def test_ends_of_an_interval(within, inside, outside):
    for value in inside:
        assert require_number("p", value, within, "") == value
    for value in outside:
        with pytest.raises(ValueError, match="p is "):
            require_number("p", value, within, "")


def test_parts_store_python_numbers():
    retained = [SlidingWindow(np.int64(29)).window, MultiStart(raw_samples=29.0).raw_samples]
    assert [type(item) for item in retained] == [int, int]
    assert set(retained) == {29}
    assert type(Markov(np.float32(0.25)).epsilon) is float
    assert len(Grid.regular(points=3.0, dim=2.0)) == 9


def test_thompson_sampling_takes_half_of_a_probability():
    common = {"kernel": torch.eye(3, dtype=torch.float64), "noise": 0.1}
    assert gp_ts(delta=0.1, **common).width.delta == igp_ucb(delta=0.05, **common).width.delta
    with pytest.raises(ValueError, match=r"delta is 1\.5"):
        gp_ts(delta=1.5, **common)
