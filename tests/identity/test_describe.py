import functools
import json
import math
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from gpytorch.kernels import MaternKernel, PolynomialKernel, RBFKernel, ScaleKernel
from gpytorch.priors import GammaPrior

from botorch_tv.acquisition import Logarithmic
from botorch_tv.forgetting import EventTrigger, KeepAll
from botorch_tv.identity import describe, differences
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Grid, tv_gp_ucb


class Pair(NamedTuple):
    a: int
    b: int


@dataclass(frozen=True, slots=True)
class Slotted:
    a: float


class Thing:
    def __init__(self, a, hidden=0):
        self.a = a
        self._hidden = hidden

    @functools.cached_property
    def derived(self):
        return 2

    def method(self):
        return 1


class OtherThing(Thing):
    pass


class Opaque:
    __slots__ = ()


class Colour(Enum):
    RED = 1
    BLUE = 2


def holding(thing):
    kernel = RBFKernel()
    kernel.shape = thing
    return kernel


def tuned(**attributes):
    kernel = MaternKernel(**attributes).double()
    kernel.lengthscale = 0.3
    return kernel


def adding(number):
    return lambda other: number + other


UNLIKE = {
    "number": (lambda: 0.1, lambda: 0.1 + 1e-17 + 2e-17),
    "flag": (lambda: True, lambda: False),
    "None": (lambda: None, lambda: False),
    "infinity": (lambda: math.inf, lambda: -math.inf),
    "text": (lambda: "a", lambda: "b"),
    "tensor": (lambda: torch.zeros(3), lambda: torch.tensor([0.0, 0.0, 1e-30])),
    "tensor dtype": (lambda: torch.zeros(3), lambda: torch.zeros(3).double()),
    "tensor shape": (lambda: torch.zeros(4), lambda: torch.zeros(2, 2)),
    "array": (lambda: np.arange(3), lambda: np.arange(3)[::-1]),
    "dtype": (lambda: torch.float32, lambda: torch.float64),
    "list": (lambda: [1, 2], lambda: [1, 2, 3]),
    "set": (lambda: {1, 2}, lambda: {1, 3}),
    "mapping": (lambda: {"a": 1}, lambda: {"a": 2}),
    "named tuple": (lambda: Pair(1, 2), lambda: Pair(1, 3)),
    "slots": (lambda: Slotted(1.0), lambda: Slotted(2.0)),
    "attribute": (lambda: Thing(1), lambda: Thing(2)),
    "class": (lambda: Thing(1), lambda: OtherThing(1)),
    "class itself": (lambda: Thing, lambda: OtherThing),
    "function": (lambda: math.sin, lambda: math.cos),
    "lambda": (lambda: Thing(lambda x: x + 1), lambda: Thing(lambda x: x + 2)),
    "nested lambda": (lambda: lambda: lambda x: x, lambda: lambda: lambda x: -x),
    "closure": (lambda: adding(1), lambda: adding(2)),
    "partial": (lambda: functools.partial(int, base=2), lambda: functools.partial(int, base=3)),
    "method": (lambda: Thing(1).method, lambda: Thing(2).method),
    "lengthscale": (lambda: unit_kernel("se", 0.2), lambda: unit_kernel("se", 0.2 + 1e-15)),
    "kernel": (lambda: RBFKernel(), lambda: MaternKernel()),
    "smoothness": (lambda: tuned(nu=1.5), lambda: tuned(nu=2.5)),
    "active dimensions": (lambda: tuned(active_dims=[0]), lambda: tuned(active_dims=[1])),
    "text of an enumeration": (lambda: Colour.RED, lambda: Colour.BLUE),
    "attribute called type": (lambda: {"type": 1}, lambda: {"type": 2}),
    "keys that look alike": (lambda: {1: 2, "1": 3}, lambda: {1: 3, "1": 2}),
    "bytes": (lambda: b"a", lambda: b"b"),
    "cached function": (
        lambda: functools.lru_cache(adding(1)),
        lambda: functools.lru_cache(adding(2)),
    ),
    "tuple of a kernel": (lambda: holding((1, 2)), lambda: holding((1, 3))),
    "tensor of a kernel": (lambda: holding(torch.zeros(2)), lambda: holding(torch.ones(2))),
    "function of a kernel": (lambda: holding(adding(1)), lambda: holding(adding(2))),
    "list of a kernel's part": (
        lambda: ScaleKernel(holding([1])),
        lambda: ScaleKernel(holding([2])),
    ),
    "prior of a kernel": (
        lambda: RBFKernel(lengthscale_prior=GammaPrior(3.0, 6.0)),
        lambda: RBFKernel(lengthscale_prior=GammaPrior(3.0, 7.0)),
    ),
    "power": (lambda: PolynomialKernel(power=2), lambda: PolynomialKernel(power=3)),
    "grid": (lambda: Grid.regular(5, 2), lambda: Grid.regular(5, 2, bounds=[(0, 1), (0, 2)])),
    "trigger": (lambda: EventTrigger(delta=0.1), lambda: EventTrigger(delta=0.2)),
    "width": (lambda: Logarithmic(c1=0.4), lambda: Logarithmic(c1=0.8)),
    "strategy": (
        lambda: tv_gp_ucb(kernel=unit_kernel("se", 0.2), noise=0.02, epsilon=0.03),
        lambda: tv_gp_ucb(kernel=unit_kernel("se", 0.2), noise=0.02, epsilon=0.03, maximize=False),
    ),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_descriptions_differ_exactly_for_different_values(name):
    first, second = UNLIKE[name]
    there = json.loads(json.dumps(describe(first(), "x")))
    assert there == describe(first(), "x")
    assert there != describe(second(), "x")
    assert differences(there, there, "x") == []
    assert all(line.startswith("x") for line in differences(there, describe(second(), "x"), "x"))


def test_private_and_derived_attributes_do_not_count():
    used = Thing(1)
    assert used.derived == 2
    used._count = 5
    assert describe(used, "x") == describe(Thing(1), "x")


def test_a_hidden_argument_of_the_constructor_counts():
    printed = differences(describe(Thing(1, hidden=5), "x"), describe(Thing(1), "x"), "x")
    assert printed == ["x._hidden is 5 there and 0 here"]


def test_use_does_not_change_a_kernel_or_a_grid():
    kernel, grid = unit_kernel("matern52", 0.2), Grid.regular(4, 2)
    before = describe([kernel, grid], "x")
    grid.basis(kernel, "features", dtype=torch.float64, device=torch.device("cpu"))
    kernel.eval()
    assert describe([kernel, grid], "x") == before


def test_objects_without_attributes_are_refused():
    with pytest.raises(ValueError, match=r"world\.a\.b is .*Opaque.* leading underscore"):
        describe(Thing({"b": Opaque()}), "world")


@pytest.mark.parametrize(
    ("there", "here", "printed"),
    [
        (Thing(1), Thing(2), ["a is 1 there and 2 here"]),
        (Thing(KeepAll()), Thing(EventTrigger()), ["a is KeepAll there and EventTrigger here"]),
        (
            Thing([Thing(1), Thing(2)]),
            Thing([Thing(1), Thing(3)]),
            ["a[1].a is 2 there and 3 here"],
        ),
        (Thing((100, 200)), Thing((50,)), ["a is [100, 200] there and [50] here"]),
        (
            torch.zeros(3).double(),
            torch.ones(3).double(),
            [" is float64 3, sha256 9d908ecfb6b256de there and float64 3, sha256"],
        ),
        (
            {"a": 1, "b": 2},
            {"b": 3, "c": 4},
            ["a is 1 there and absent here", "b is", "c is absent"],
        ),
        (Thing(Path("a")), Thing(None), ["a is 'a' there and None here"]),
    ],
)
def test_differences_are_named_by_their_path(there, here, printed):
    found = differences(describe(there, "x"), describe(here, "x"))
    assert len(found) == len(printed)
    for phrase, line in zip(printed, found):
        assert line.startswith(phrase)


def test_long_values_are_cut_short():
    (line,) = differences("a" * 500, "b")
    assert len(line) < 150
