"""Some of many trials."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.gp.tensors import OfTrials


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


@dataclass(frozen=True)
class Inner(OfTrials):
    value: Tensor


@dataclass(frozen=True)
class Outer(OfTrials):
    shared = ("common",)

    common: Tensor
    inner: Inner
    pairs: tuple[Pair, ...]
    more: list[Tensor]
    none: Tensor | None = None


def test_every_part_is_that_of_the_trials_wanted() -> None:
    value = torch.arange(12.0).view(4, 3)
    whole = Outer(value, Inner(value), (Pair(value, -value),), [value + 1])
    some = whole.select(torch.tensor([2, 0]))
    wanted = value[[2, 0]]
    assert some.common is value
    assert torch.equal(some.inner.value, wanted)
    assert isinstance(some.pairs[0], Pair)
    assert torch.equal(some.pairs[0].second, -wanted)
    assert torch.equal(some.more[0], wanted + 1)
    assert some.none is None
    assert torch.equal(whole.inner.value, value)
