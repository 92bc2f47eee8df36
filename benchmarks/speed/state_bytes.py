"""Memory of a state."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from botorch_tv.gp.basis import Basis
from botorch_tv.strategies import Grid, State


def state_bytes(state: State) -> int:
    """Bytes of the tensors of a state, with room for later rounds.

    The arms and the factored kernel are not counted, because all trials share them.
    """
    storages = map(Tensor.untyped_storage, _tensors(state))
    return sum({each.data_ptr(): each.nbytes() for each in storages}.values())


def _tensors(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (Basis, Grid)):
        return
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _tensors(part)
    else:
        for part in getattr(value, "__dict__", {}).values():
            yield from _tensors(part)
        for name in getattr(value, "__slots__", ()):
            yield from _tensors(getattr(value, name))
