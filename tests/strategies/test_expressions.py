"""Objectives and limits as text: values, normal forms, and what a limit allows."""

import copy
import math
import pickle
import random

import pytest
import torch

from botorch_tv.identity import describe
from botorch_tv.strategies.expressions import Expression, parse_limits, parse_objectives

NAMES = {"yield": "yield", "flow rate": "`flow rate`", "lambda": "'lambda'", "T.1": '"T.1"'}


def written(draw, depth):
    """A random formula: in our notation, and in Python's with v[name] for the names."""
    kind = draw.choice("nv-+*/(") if depth else draw.choice("nv")
    if kind == "n":
        return (number := draw.choice(["2", "0.25", ".5", "3e-2", "7."])), number
    if kind == "v":
        name = draw.choice(list(NAMES))
        return NAMES[name], f"v[{name!r}]"
    ours, pythons = written(draw, depth - 1)
    if kind == "(":
        return f"( {ours})", f"({pythons})"
    if kind == "-":
        return f"-{ours}", f"-{pythons}"
    right, pythons_right = written(draw, depth - 1)
    return f"{ours} {kind}{right}", f"{pythons} {kind} {pythons_right}"


def test_random_formulas_have_the_values_of_python():
    draw = random.Random(0)
    for _ in range(200):
        ours, pythons = written(draw, 4)
        numbers = {name: draw.uniform(0.5, 2.0) for name in NAMES}
        tensors = {
            name: torch.tensor([v, v / 2], dtype=torch.float64) for name, v in numbers.items()
        }
        read = Expression(ours)
        again = Expression(read.text)
        assert (again, again.text, again.names) == (read, read.text, read.names)
        for values, close in ((numbers, math.isclose), (tensors, torch.allclose)):
            try:
                expected = eval(pythons, {"v": values})
            except ZeroDivisionError:
                continue
            if not isinstance(expected, torch.Tensor) and values is tensors:
                expected, close = float(expected), math.isclose
            assert close(read.value(values), expected)
            assert close(again.value(values), expected)


def test_names():
    given = ["flow", "flow rate", "T-1", "T", "yield", "2"]
    read = Expression("yield*flow rate - T-1 + `flow`/2 - yield", names=given)
    assert read.names == ("yield", "flow rate", "T-1", "flow")
    assert read.text == "yield * `flow rate` - `T-1` + flow / 2 - yield"
    assert Expression("'2' * 2").value({"2": 3.0}) == 6.0
    assert math.isnan(Expression("a / b").value({"a": 0.0, "b": 0.0}))
    assert Expression("-a / b").value({"a": 2.0, "b": 0.0}) == -math.inf


def test_equal_formulas_have_equal_texts_and_descriptions():
    first, second = Expression("(yield) -0.20*energy"), Expression("`yield` - (0.2 * energy)")
    assert first == second == eval(repr(first))
    assert hash(first) == hash(second)
    assert describe(first, "e") == describe(second, "e") != describe(Expression("yield"), "e")
    assert pickle.loads(pickle.dumps(first)) == copy.deepcopy(first) == first


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("yield", [("yield", True)]),
        ("-cost", [("cost", False)]),
        ("--cost", [("cost", True)]),
        ("-(a + b)", [("a + b", False)]),
        ("-a + b", [("-a + b", True)]),
        ("yield - 0.2 * energy", [("yield - 0.2 * energy", True)]),
        ("a, -b", [("a", True), ("b", False)]),
        (["yield", "-energy"], [("yield", True), ("energy", False)]),
    ],
)
def test_objectives(given, expected):
    read = parse_objectives(given)
    assert [(each.expression.text, each.maximize) for each in read] == expected
    assert parse_objectives([each.text for each in read]) == read


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("pressure <= 5", ["pressure <= 5"]),
        ("5 > pressure", ["pressure <= 5"]),
        ("2 <= pressure < 5.5", ["pressure >= 2", "pressure <= 5.5"]),
        ("a >= b", ["a - b >= 0"]),
        ("a - b <= c + -1", ["a - b - (c + -1) <= 0"]),
        ("x >= -1/4", ["x >= -0.25"]),
        (["a + 300 * b <= 1e3", "-2 < flow rate"], ["a + 300 * b <= 1000", "`flow rate` >= -2"]),
    ],
)
def test_limits(given, expected):
    read = parse_limits(given, names=["pressure", "a", "b", "c", "x", "flow rate"])
    assert [limit.text for limit in read] == expected
    assert parse_limits([limit.text for limit in read]) == read


def test_a_limit_holds_up_to_its_bound():
    at_most, at_least = parse_limits("2 <= p <= 5")[::-1]
    values = torch.tensor([1.0, 2.0, 5.0, 6.0, math.nan])
    assert at_most.keeps(values).tolist() == [True, True, True, False, False]
    assert [at_least.keeps(value) for value in values.tolist()] == [False, True, True, True, False]
    assert at_most.with_bound(4.5) == parse_limits("p <= 4.5")[0]
