"""Grids, boxes and searches."""

import pytest
import torch
from bad_input.rows import INF, NAN, Parameter, Row, assert_refuses, named, table
from botorch.exceptions import InputDataError

from botorch_tv.loop import Loop
from botorch_tv.strategies import Box, DiscreteSearch, Grid, gp_ucb

D = torch.float64
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D)
WHOLE = (0, -3, 0.5, NAN, INF)
AT_LEAST = "an integer of at least "
NUMBERS = {
    "points": Parameter(lambda v: Grid.regular(v, 2), WHOLE, AT_LEAST + "1", "per dimension"),
    "dim": Parameter(lambda v: Grid.regular(3, v), WHOLE, AT_LEAST + "1", "give the dimension"),
    "context_dim": Parameter(
        lambda v: Box(CUBE, context_dim=v), (-1, 1.5), AT_LEAST + "0", "0 for none"
    ),
    "pending": Parameter(
        lambda v: Loop(
            gp_ucb(kernel=torch.eye(3).double(), noise=0.1), Grid.regular(3, 1), pending=v
        ),
        (0, -1, 1.5),
        AT_LEAST + "1",
        "side by side",
    ),
}
ARMS, ONE, SIDES = "M x d with M, d >= 1", "X.unsqueeze(-1)", "tensor of shape 2 x d"
BELOW, FIXED = "finite and below the upper", "omit coordinates that are fixed"
PAIRS = "give (low, high) for each dimension"


def data(call, value, limit, cure):
    return Row(call, value, limit, cure, InputDataError)


def box(*rows):
    return lambda: Box(torch.tensor(rows, dtype=D))


def among(X):
    return lambda: Box(CUBE, search=DiscreteSearch(X))


GRIDS = {
    "None": data(lambda: Grid(None), "None", ARMS, "torch.tensor(X)"),
    "list": data(lambda: Grid([[0.0]]), "[[0.0]]", ARMS, "torch.tensor(X)"),
    "one dimension": data(lambda: Grid(torch.zeros(5)), "[0., 0., 0.", ARMS, ONE),
    "no arms": data(lambda: Grid(torch.zeros(0, 2)), "(0, 2)", ARMS, ONE),
    "no columns": data(lambda: Grid(torch.zeros(2, 0)), "(2, 0)", ARMS, ONE),
    "integers": data(
        lambda: Grid(torch.zeros(2, 1).long()), "[[0],", "floating-point", "X.double()"
    ),
    "NaN": data(lambda: Grid(torch.tensor([[0.0], [NAN]])), "nan", "finite", ONE),
    "infinite": data(lambda: Grid(torch.tensor([[0.0], [INF]])), "inf", "finite", ONE),
    "sides short": data(lambda: Grid.regular(3, 2, [(0, 1)]), "[(0, 1)]", "dim is 2", PAIRS),
    "sides a number": data(lambda: Grid.regular(3, 2, 5.0), "5.0", SIDES, "[(low, high), ...]"),
    "sides turned": data(lambda: Grid.regular(3, 1, [(6, 5)]), "[[6.0], [5.0]]", BELOW, FIXED),
    "sides infinite": data(lambda: Grid.regular(3, 1, [(0, INF)]), "[inf]]", BELOW, FIXED),
}
BOXES = {
    "vector": data(lambda: Box(CUBE[0]), "[0.0, 0.0]", SIDES, FIXED),
    "three rows": data(lambda: Box(torch.zeros(3, 2)), "[[0.0, 0.0], [0", SIDES, FIXED),
    "list": data(lambda: Box([[0.0], [1.0]]), "[[0.0], [1.0]]", SIDES, "[(low, high), ...]"),
    "None": data(lambda: Box(None), "None", SIDES, FIXED),
    "integers": data(lambda: Box(CUBE.long()), "[[0, 0], [1, 1]]", "floating-point", FIXED),
    "no columns": data(lambda: Box(torch.zeros(2, 0)), "(2, 0)", SIDES, FIXED),
    "turned": data(box([1.0], [0.0]), "[[1.0], [0.0]]", BELOW, FIXED),
    "no side": data(box([1.0], [1.0]), "[[1.0], [1.0]]", BELOW, FIXED),
    "infinite": data(box([0.0], [INF]), "inf", BELOW, FIXED),
    "NaN": data(box([NAN], [1.0]), "nan", BELOW, FIXED),
    "far": data(box([-1e300], [1e300]), "1e+300", "at most 1e+150", "choose another unit"),
    "thin": data(box([1.0], [1 + 1e-15]), "[[1.0]", "ranges at least", "count from an"),
    "X outside": data(
        among(torch.tensor([[0.5, 1.1]], dtype=D)), "1.1", "lies outside Box", "widen the bounds"
    ),
    "X NaN": data(among(torch.tensor([[0.5, NAN]], dtype=D)), "nan", "finite", "clamp it"),
    "X of another size": data(among(torch.rand(4, 3)), "(4, 3)", "shape M x 2", "one point per"),
    "X empty": data(among(torch.empty(0, 2)), "(0, 2)", "shape M x 2", "one point per row"),
    "X of integers": data(
        among(torch.zeros(3, 2).long()), "torch.int64", "floating-point tensor", "torch.tensor(X"
    ),
    "X a list": data(among([[0.5, 0.5]]), "list", "floating-point tensor", "torch.tensor(X"),
}


@pytest.mark.parametrize("row", table(NUMBERS) + named(GRIDS) + named(BOXES))
def test_refused(row):
    assert_refuses(row)


@pytest.mark.parametrize("dtype", [torch.float16, torch.int64, torch.complex128, "float64", None])
def test_a_dtype_that_inference_cannot_use(dtype):
    strategy = gp_ucb(kernel=torch.eye(3).double(), noise=0.1)
    assert_refuses(
        Row(
            lambda: strategy.init(Grid.regular(3, 1), dtype=dtype),
            f"dtype is {dtype}",
            "it must be torch.float64",
            "torch.float64 or torch.float32",
            InputDataError,
        )
    )
