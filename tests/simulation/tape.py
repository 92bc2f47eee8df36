"""A record of operations on the CPU that obeys the rules of a CUDA graph.

Replayed, every operation reads the memory that it read and writes the memory that it wrote when it
was recorded: nothing is allocated, no Python runs, and no number is another one. What a graph
cannot hold is refused, and recording does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

WAITS = ("_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero", "_unique2")
BROUGHT = ("lift_fresh", "_to_copy_from_host")


def tensors(tree: object) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def place(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


class Tape(TorchDispatchMode):
    """Operations in order, as they were called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any], list[Tensor]]] = []
        self._own: set[int] = set()
        self._kept: list[Any] = []  # or another tensor might get a storage's place
        self._before: dict[int, tuple[Tensor, Tensor]] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, func._schema.name.partition("::")[2]
        if name in WAITS:
            raise RuntimeError(f"operation not permitted when stream is capturing: {name} waits")
        if name in BROUGHT:
            raise RuntimeError(f"operation not permitted when stream is capturing: {name}")
        given = tensors((args, kwargs))
        if func._schema.is_mutable:
            for item in given:
                if place(item) not in self._own and place(item) not in self._before:
                    whole = item.new_empty(0).set_(item.untyped_storage())
                    self._before[place(item)] = whole, whole.clone()
        result = func(*args, **kwargs)
        places = {place(item) for item in given}
        fresh = [tensor for tensor in tensors(result) if place(tensor) not in places]
        self._own.update(map(place, fresh))
        self._kept.append((args, kwargs, result))
        if fresh or func._schema.is_mutable:  # and not a view
            self.calls.append((func, args, kwargs, fresh))
        return result

    def undo(self) -> None:
        """Recording is not doing."""
        for whole, before in self._before.values():
            whole.copy_(before)

    def replay(self) -> None:
        for func, args, kwargs, places in self.calls:
            result = func(*args, **kwargs)
            if func._schema.is_mutable:
                continue
            for where, place in zip(places, tensors(result)):
                where.copy_(place)


def taped(work: Callable[[], None]) -> Callable[[], None]:
    """Record work as ``cuda_graph`` does."""
    tape = Tape()
    with tape:
        work()
    tape.undo()
    return tape.replay
