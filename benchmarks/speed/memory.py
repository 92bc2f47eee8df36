"""What a state weighs."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from botorch_tv.gp.basis import Basis
from botorch_tv.strategies import Grid, State


def state_bytes(state: State) -> int:
    """Bytes of memory behind the tensors of a state, room kept for later rounds included.

    The arms and the kernel factored over them are not counted: all trials share them.
    """
    storages = {one.data_ptr(): one.nbytes() for one in map(Tensor.untyped_storage, _held(state))}
    return sum(storages.values())


def _held(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (Basis, Grid)):
        return
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _held(one)
    else:
        for one in getattr(value, "__dict__", {}).values():
            yield from _held(one)
        for name in getattr(value, "__slots__", ()):
            yield from _held(getattr(value, name))
