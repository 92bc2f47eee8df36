"""Worlds, studies, panels and test functions."""

import numpy as np
import pytest
import torch
from bad_input.rows import INF, NAN, Parameter, Row, assert_refuses, named, table
from botorch.exceptions import InputDataError
from gpytorch.kernels import RBFKernel

from botorch_tv.simulation import (
    AbruptWorld,
    DriftWorld,
    MarkovWorld,
    PanelWorld,
    SineWorld,
    StaticWorld,
    run_study,
)
from botorch_tv.simulation.panels import make_panel
from botorch_tv.simulation.worlds.grid import (
    GaussianDraw,
    RKHSFunctions,
    SmoothedDraw,
)
from botorch_tv.strategies import Grid, gp_ucb
from botorch_tv.test_functions import DriftingAckley, MarkovFunction

D = torch.float64
LINE = Grid.regular(5, 1)
KERNEL = RBFKernel().double()
DRAW = GaussianDraw(KERNEL)
READINGS = np.random.default_rng(0).standard_normal((12, 4))
WORLD = MarkovWorld(LINE, kernel=KERNEL, epsilon=0.1, noise=0.1)
PLAYERS = {"GP": gp_ucb(kernel=KERNEL, noise=0.1)}

WHOLE, AT_LEAST_ONE = (0, -1, 2.5, NAN, INF), "an integer of at least 1"
NOISE, VARIANCE = (-0.1, NAN, INF, 1e101), "must lie in [0, 1e100]"


def markov(name):
    return lambda v: MarkovWorld(
        LINE, kernel=KERNEL, **({"epsilon": 0.1, "noise": 0.1} | {name: v})
    )


def sine(name):
    return lambda v: SineWorld(LINE, kernel=KERNEL, **({"noise": 0.1} | {name: v}))


def drift(name):
    given = {"functions": DRAW, "horizon": 5, "noise": 0.1}
    return lambda v: DriftWorld(LINE, **(given | {name: v}))


def study(name):
    """With one round asked for of everything else."""
    given = {"trials": 1, "horizon": 1, "progress": False, "chunk": 1, "workers": 1}
    return lambda v: run_study(WORLD, PLAYERS, **(given | {name: v}))


def panel(name):
    return lambda v: PanelWorld(READINGS, **({"train": 8} | {name: v}))


def function(name):
    return lambda v: MarkovFunction(
        KERNEL, **({"epsilon": 0.1, "dim": 1, "horizon": 3} | {name: v})
    )


RATE = (-0.1, 1.1, NAN, INF)
NUMBERS = {
    "MarkovWorld epsilon": Parameter(
        markov("epsilon"), RATE, "must lie in [0, 1]", "0 is a static obj"
    ),
    "MarkovWorld noise": Parameter(markov("noise"), NOISE, VARIANCE, "0 measures exactly"),
    "StaticWorld noise": Parameter(
        lambda v: StaticWorld(LINE, functions=DRAW, noise=v), NOISE, VARIANCE, "0 measures exactly"
    ),
    "AbruptWorld change": Parameter(
        lambda v: AbruptWorld(LINE, functions=DRAW, changes=[v], noise=0.1),
        (1, 2.5),
        "an integer of at least 2",
        "a change is the first round",
    ),
    "DriftWorld horizon": Parameter(drift("horizon"), WHOLE, AT_LEAST_ONE, "rounds of all legs"),
    "DriftWorld legs": Parameter(drift("legs"), WHOLE, AT_LEAST_ONE, "1 joins two"),
    "SineWorld scale": Parameter(
        sine("scale"), NOISE, "must lie in [0, 1e100]", "the paper uses 5"
    ),
    "SineWorld frequency": Parameter(
        sine("frequency"), (NAN, INF), "must be finite", "paper uses 0.3"
    ),
    "RKHSFunctions terms": Parameter(
        lambda v: RKHSFunctions(KERNEL, terms=v), WHOLE, AT_LEAST_ONE, "the paper uses 20"
    ),
    "SmoothedDraw noise": Parameter(
        lambda v: SmoothedDraw(KERNEL, v), (0.0, NAN), "positive and", "GaussianDraw does not"
    ),
    "look rounds": Parameter(lambda v: WORLD.look(v), WHOLE, AT_LEAST_ONE, "number of rounds"),
    "look trials": Parameter(lambda v: WORLD.look(1, v), WHOLE, AT_LEAST_ONE, "number of trials"),
    "run_study trials": Parameter(study("trials"), WHOLE, AT_LEAST_ONE, "number of worlds"),
    "run_study horizon": Parameter(study("horizon"), WHOLE, AT_LEAST_ONE, "number of rounds"),
    "run_study seed": Parameter(
        study("seed"), (-1, 0.5), "an integer of at least 0", "give a seed of 0 or more"
    ),
    "PanelWorld noise_share": Parameter(
        panel("noise_share"), (0.0, 1.1, NAN), "must lie in (0, 1]", "0.05 is usual"
    ),
    "make_panel epsilon": Parameter(
        lambda v: make_panel(epsilon=v), RATE, "must lie in [0, 1]", "0 is a static field"
    ),
    "make_panel gaps": Parameter(
        lambda v: make_panel(gaps=v),
        (-0.1, 1.0, NAN),
        "must lie in [0, 1)",
        "0 removes no reading",
    ),
    "MarkovFunction epsilon": Parameter(
        function("epsilon"), RATE, "must lie in [0, 1]", "0 is a static function"
    ),
    "MarkovFunction horizon": Parameter(function("horizon"), WHOLE, AT_LEAST_ONE, "in rounds"),
    "MarkovFunction features": Parameter(function("features"), WHOLE, AT_LEAST_ONE, "512 is the"),
    "DriftingAckley horizon": Parameter(
        lambda v: DriftingAckley(horizon=v),
        (0, NAN, INF),
        "be positive and finite",
        "1000 is usual",
    ),
}
CURES = {"workers": "computed at once", "chunk": "run together"}
NUMBERS |= {
    f"run_study {name}": Parameter(study(name), WHOLE, AT_LEAST_ONE, cure)
    for name, cure in CURES.items()
}
# None says that the study is to choose.
OPTIONAL = [
    row
    for row in table({k: v for k, v in NUMBERS.items() if k.split()[1] in CURES})
    if "=None" in row.id
]


def data(call, value, limit, cure):
    return Row(call, value, limit, cure, InputDataError)


THINGS = {
    "strategies a list": Row(
        lambda: run_study(WORLD, [PLAYERS]), "strategies is [{", "a dict of labels", "give a dict"
    ),
    "no strategies": Row(lambda: run_study(WORLD, {}), "is {}", "at least one", "give a dict"),
    "a label": Row(
        lambda: run_study(WORLD, {1: PLAYERS["GP"]}), "label 1", "cannot be printed", "give text"
    ),
    "center": Row(lambda: panel("center")("row"), "'row'", "center is", "'all' or 'arm'"),
    "train": Row(lambda: panel("train")(12), "12", "there are 12 rows", "at most 11"),
    "first_arm": Row(lambda: panel("first_arm")(4), "is 4", "numbered 0 to 3", "arms are"),
    "bounds": Row(
        lambda: function("bounds")([(1.0, 0.0)]),
        "(1.0, 0.0)",
        "a larger upper bound",
        "give pairs",
    ),
}


@pytest.mark.parametrize(
    "row", [one for one in table(NUMBERS) if one.id not in {row.id for row in OPTIONAL}]
)
def test_numbers(row):
    assert_refuses(row)


@pytest.mark.parametrize("row", named(THINGS))
def test_things(row):
    assert_refuses(row)
