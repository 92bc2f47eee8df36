"""What an exploration sees is called alike wherever it looks."""

import inspect
from abc import ABC

import pytest

from botorch_tv.acquisition import Candidates
from botorch_tv.strategies import candidates

KINDS = [
    kind
    for kind in vars(candidates).values()
    if inspect.isclass(kind) and issubclass(kind, Candidates) and kind is not Candidates
]


@pytest.mark.parametrize("name", ["sample", "argmax", "uniform", "at", "where"])
def test_arguments_and_defaults_are_those_of_the_contract(name: str) -> None:
    assert len(KINDS) > 3
    promised = inspect.signature(getattr(Candidates, name)).parameters.values()
    for kind in KINDS:
        if ABC in kind.__bases__ and name in kind.__abstractmethods__:
            continue
        taken = inspect.signature(getattr(kind, name)).parameters.values()
        for one, other in zip(promised, taken, strict=True):
            assert (one.name, one.kind, one.default) == (other.name, other.kind, other.default)
