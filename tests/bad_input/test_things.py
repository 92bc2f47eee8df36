"""Domains, worlds and parts of strategies that are none."""

from functools import partial

import numpy as np
import pytest
import torch
from bad_input.rows import INF, NAN, refuses, replacing
from gpytorch.kernels import RBFKernel

from botorch_tv.learning import Refit
from botorch_tv.simulation import MarkovWorld, PanelWorld, run_study
from botorch_tv.strategies import Box, DiscreteSearch, Float, GPStrategy, Grid, Integer, gp_ucb
from botorch_tv.strategies.expressions import Expression, parse_limits, parse_objectives
from botorch_tv.test_functions import MarkovFunction

D = torch.float64
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D)
KERNEL = RBFKernel().double()
COMMON = {"kernel": KERNEL, "noise": 0.02}
PLAYERS = {"GP": gp_ucb(**COMMON)}
WORLD = MarkovWorld(Grid.regular(5, 1), kernel=KERNEL, epsilon=0.1, noise=0.1)
ARMS, ONE, RANGES = "M x d with M, d >= 1", "X.unsqueeze(-1)", "tensor of shape 2 x d"
BELOW, TABLE = "finite and below the upper", np.random.default_rng(0).standard_normal((12, 4))


def box(*rows):
    return Box(torch.tensor(rows, dtype=D))


def among(X):
    return Box(CUBE, search=DiscreteSearch(X))


def panel(name):
    return replacing(partial(PanelWorld, TABLE), name, train=8)


def init(domain, **parts):
    return GPStrategy(**(COMMON | parts)).init(domain)


def by_matrix(entries=(), shape=(3, 3), engine="auto"):
    """Starts two trials on three arms with a covariance matrix, the unit matrix but for entries."""
    matrix = torch.eye(max(shape), dtype=D)[: shape[0], : shape[1]].clone()
    for row, column, value in entries:
        matrix[row, column] = value
    strategy = GPStrategy(kernel=matrix, noise=0.02, inference=engine)
    state = strategy.init(Grid(torch.arange(3, dtype=D).unsqueeze(-1)), batch_shape=(2,))
    strategy.tell(state, strategy.ask(state), torch.tensor([0.1, 0.2], dtype=D))


ROWS = {
    "arms None": (lambda: Grid(None), "None", ARMS, "torch.tensor(X)"),
    "arms in a list": (lambda: Grid([[0.0]]), "[[0.0]]", ARMS, "torch.tensor(X)"),
    "one dimension": (lambda: Grid(torch.zeros(5)), "[0., 0., 0.", ARMS, ONE),
    "no arms": (lambda: Grid(torch.zeros(0, 2)), "(0, 2)", ARMS, ONE),
    "no columns": (lambda: Grid(torch.zeros(2, 0)), "(2, 0)", ARMS, ONE),
    "integers": (lambda: Grid(torch.zeros(2, 1).long()), "[[0],", "floating-point", "X.double()"),
    "arm NaN": (lambda: Grid(torch.tensor([[0.0], [NAN]])), "nan", "finite", ONE),
    "arm infinite": (lambda: Grid(torch.tensor([[0.0], [INF]])), "inf", "finite", ONE),
    "one range": (lambda: Grid.regular(3, 2, [(0, 1)]), "[(0, 1)]", "dim is 2", "(low, high)"),
    "no range": (lambda: Grid.regular(3, 2, 5.0), "5.0", RANGES, "[(low, high), ...]"),
    "pairs in a tensor": (lambda: Grid.regular(3, 3, CUBE), "(2, 2)", "dim is 3", "2 x 3"),
    "no pairs": (lambda: Grid.regular(3, 3, (0, 1, 2)), "(0, 1, 2)", "[(low, high)"),
    "corners turned": (lambda: Grid.regular(3, 2, CUBE.flip(0)), "below the upper"),
    "turned": (lambda: Grid.regular(3, 1, [(6, 5)]), "[[6.0], [5.0]]", BELOW, "fixed"),
    "no end": (lambda: Grid.regular(3, 1, [(0, INF)]), "[inf]]", BELOW, "fixed"),
    "box vector": (lambda: Box(CUBE[0]), "[0.0, 0.0]", RANGES, "fixed"),
    "box of three rows": (lambda: Box(torch.zeros(3, 2)), "[[0.0, 0.0], [0", RANGES, "fixed"),
    "box list": (lambda: Box([[0.0], [1.0]]), "[[0.0], [1.0]]", RANGES, "[(low, high), ...]"),
    "box None": (lambda: Box(None), "None", RANGES, "fixed"),
    "box integers": (lambda: Box(CUBE.long()), "[[0, 0], [1, 1]]", "floating-point"),
    "box without columns": (lambda: Box(torch.zeros(2, 0)), "(2, 0)", RANGES),
    "box turned": (lambda: box([1.0], [0.0]), "[[1.0], [0.0]]", BELOW),
    "box of length 0": (lambda: box([1.0], [1.0]), "[[1.0], [1.0]]", BELOW),
    "box infinite": (lambda: box([0.0], [INF]), "inf", BELOW),
    "box NaN": (lambda: box([NAN], [1.0]), "nan", BELOW),
    "box far": (lambda: box([-1e300], [1e300]), "1e+300", "at most 1e+150", "another unit"),
    "box thin": (lambda: box([1.0], [1 + 1e-15]), "[[1.0]", "at least", "count from an"),
    "X outside": (lambda: among(CUBE + 0.1), "1.1", "outside", "widen the bounds"),
    "X NaN": (lambda: among(CUBE * NAN), "nan", "finite", "clamp it"),
    "X of another size": (lambda: among(torch.rand(4, 3)), "(4, 3)", "shape M x 2", "per row"),
    "X empty": (lambda: among(torch.empty(0, 2)), "(0, 2)", "shape M x 2", "per row"),
    "X of integers": (
        lambda: among(CUBE.long()),
        "torch.int64",
        "floating-point",
        "torch.tensor(X",
    ),
    "X a list": (lambda: among([[0.5, 0.5]]), "list", "floating-point", "torch.tensor(X"),
    "retention": (lambda: init(CUBE, retention=None), "None", "a Retention", "KeepAll()"),
    "maximize": (lambda: init(CUBE, maximize=1), "1", "must be a bool", "False to minimise"),
    "inference": (lambda: init(CUBE, inference="magic"), "'magic'", "inference is", "'features'"),
    "mean": (lambda: init(CUBE, mean="fitted"), "'fitted'", "must be finite", "'estimated'"),
    "learning": (lambda: init(WORLD.domain, learning=Refit()), "Grid(5 arms", "Box", "=None"),
    "strategies": (lambda: run_study(WORLD, [PLAYERS]), "strategies is [{", "label", "a dict"),
    "a player": (lambda: run_study(WORLD, {"GP": WORLD}), "'GP' is Markov", "give a strategy"),
    "swapped": (lambda: run_study(PLAYERS, WORLD), "world is {'GP'", "give a world"),
    "a step for log": (lambda: Float(0, 1, 0.1), "log is 0.1", "True or False", "step="),
    "text for log": (lambda: Integer(1, 8, log="no"), "Integer: log is 'no'", "True or False"),
    "a kernel": (
        lambda: init(WORLD.domain, kernel=None),
        "kernel is None",
        "give a GPyTorch kernel",
    ),
    "no strategies": (lambda: run_study(WORLD, {}), "is {}", "at least one", "a dict"),
    "a label": (lambda: run_study(WORLD, {1: PLAYERS["GP"]}), "label 1", "printed", "give text"),
    "center": (lambda: panel("center")("row"), "'row'", "center is", "'all' or 'arm'"),
    "train": (lambda: panel("train")(12), "12", "12 rows"),
    "first_arm": (lambda: panel("first_arm")(4), "is 4", "0 to 3"),
    "bounds": (
        lambda: MarkovFunction(KERNEL, epsilon=0.1, dim=1, horizon=3, bounds=[(1.0, 0.0)]),
        *("(1.0, 0.0)", "finite"),
    ),
}
ROWS |= {
    f"dtype {dtype}": (
        lambda dtype=dtype: gp_ucb(**COMMON).init(Grid.regular(3, 1), dtype=dtype),
        *(f"dtype is {dtype}", "torch.float64 or torch.float32"),
    )
    for dtype in (torch.float16, torch.int64, torch.complex128, "float64", None)
}
MATRICES = {
    "indefinite": ({"entries": [(0, 1, 1.5), (1, 0, 1.5)]}, "-0.5"),
    "not symmetric": ({"entries": [(0, 1, 0.5)]}, "symmetric"),
    "not square": ({"shape": (2, 3)}, "(2, 3)"),
    "larger than the domain": ({"shape": (4, 4)}, "4"),
    "NaN": ({"entries": [(1, 1, NAN)]}, "[1, 1]", "NaN"),
    "infinite": ({"entries": [(1, 1, INF)]}, "inf"),
}
ROWS |= {
    f"matrix {name}, {engine}": (partial(by_matrix, engine=engine, **given), *words)
    for engine in ("auto", "exact", "features")
    for name, (given, *words) in MATRICES.items()
}
SYNTAX, NO_FORMULA = "names, numbers, + - * /", "is not a formula"
FORMULAS = ("", "+a", "a**2", "a//b", "2x", "f(a)", "a,b", "a <= 5", "a if b else c", "1e999 * a")
DEEP = ("(" * 300 + "a" + ")" * 300, "a+" * 3000 + "a")
ROWS |= {
    f"formula {text[:20]}": (partial(Expression, text), repr(text), SYNTAX)
    for text in (*FORMULAS, *DEEP)
}
ROWS |= {
    f"sign {sign}": (partial(Expression, f"a {sign} b"), repr(sign), SYNTAX) for sign in "#;.^%@["
}
ROWS |= {
    "formula 3": (partial(Expression, 3), "3", NO_FORMULA, "'yield'"),
    "another name": (partial(Expression, "a - c", ["a", "b"]), "'c'", "are a, b"),
    "no objective": (lambda: parse_objectives([]), "[]", "'yield'"),
    "objective None": (lambda: parse_objectives(None), "None", "'yield'"),
    "objective without a name": (lambda: parse_objectives("a, 3"), "'3'", "name an outcome"),
    "no limit": (lambda: parse_limits("a + b"), "'a + b'", "<= or >=", "'pressure <= 5'"),
    "limit of numbers": (lambda: parse_limits("1 <= 2"), "'1 <= 2'", "write a name"),
    "limit of one side": (lambda: parse_limits("a <="), "''", NO_FORMULA, SYNTAX),
    "infinite limit": (lambda: parse_limits("a <= 1/0"), "inf", "finite", "such as 5"),
}
ROWS |= {
    f"limit with {sign}": (partial(parse_limits, f"a {sign} 3"), sign, "<= or >=", "4.9 <=")
    for sign in ("=", "==", "!=")
}


@pytest.mark.parametrize("name", ROWS)
def test_refused(name):
    call, *words = ROWS[name]
    refuses(call, *words)
