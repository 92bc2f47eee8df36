"""Bytes in and out of every operation of a computation, and its products.

Counted at the dispatcher: every operation reads its inputs from memory and writes its results
there. Data that stay in a cache between operations are counted all the same; copies made inside an
operation are not counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

UNTOUCHED = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
UNTOUCHED |= {"_unsafe_view", "set_", "resize_", "_local_scalar_dense"}
"""Operations that allocate, rename or fetch a single number."""
OVERWRITTEN = {
    "copy_",
    "fill_",
    "zero_",
    "normal_",
    "random_",
    "uniform_",
    "index_copy_",
    "scatter_",
}
"""Operations in place that do not read the old values."""
PICKED = {"gather", "index", "index_select", "embedding"}
"""Operations that read as much of their first input as they return."""
PLACED = {"index_copy_": 3, "index_put_": 2, "scatter_": 3, "scatter_add_": 3}
"""Operations that touch as much of their first input as the argument of this number has."""
PRODUCTS = {"mm": 0, "bmm": 0, "mv": 0, "dot": 0, "addmm": 1, "baddbmm": 1}
"""Matrix products, by the position of their first factor."""
WAITS = {"_local_scalar_dense", "nonzero", "masked_select", "equal"}
"""Operations whose result the host awaits."""


class Traffic(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations while it is entered; entered again, it adds to its counts.

    Attributes:
        bytes: Read and written. Views are free; repeats of an expanded tensor are read once; an
            operation in place reads and writes, an operation that fills memory writes.
        flops: Of matrix products, two for every multiplication.
        operations: Number of operations that touched memory, each a kernel on a device.
        waits: How often the host awaited a result; on a CPU this costs nothing.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = 0
        self.flops = 0
        self.operations = 0
        self.waits = 0

    def __torch_dispatch__(
        self,
        func: OpOverload[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run an operation and count it."""
        given = kwargs or {}
        result = func(*args, **given)
        name = func.overloadpacket.__name__
        self.waits += name in WAITS or _comes_home(name, args, result)
        if name not in UNTOUCHED and not _is_view(func):
            self.bytes += _bytes(func, name, args, given, result)
            self.operations += 1
            if name in PRODUCTS:
                self.flops += 2 * result.numel() * args[PRODUCTS[name]].shape[-1]
        return result


def distinct_bytes(tensor: Tensor) -> int:
    """Bytes of the distinct memory locations of a tensor."""
    sizes = (size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride)
    return math.prod(sizes) * tensor.element_size() if tensor.numel() else 0


def _bytes(
    func: OpOverload[..., Any],
    name: str,
    args: Sequence[Any],
    given: Mapping[str, Any],
    result: Any,
) -> int:
    returned = sum(map(distinct_bytes, _tensors(result)))
    moved = 0
    for number, argument in enumerate(func._schema.arguments):
        value = args[number] if number < len(args) else given.get(argument.name)
        size = sum(map(distinct_bytes, _tensors(value)))
        if number == 0 and name in PICKED:
            size = returned
        elif number == 0 and name in PLACED:
            size = sum(map(distinct_bytes, _tensors(args[PLACED[name]])))
        if not _written(argument) or argument.is_out or name in OVERWRITTEN:
            moved += size
        else:
            moved += 2 * size
    fresh = not any(_written(value) for value in func._schema.returns)
    return moved + (returned if fresh else 0)


def _written(value: Any) -> bool:
    return value.alias_info is not None and value.alias_info.is_write


def _is_view(func: OpOverload[..., Any]) -> bool:
    return any(
        value.alias_info is not None and not value.alias_info.is_write
        for value in func._schema.returns
    )


def _comes_home(name: str, args: Sequence[Any], result: Any) -> bool:
    """Whether a tensor was copied from a device to the host."""
    return (
        name in {"_to_copy", "copy_"}
        and result.device.type == "cpu"
        and any(tensor.device.type != "cpu" for tensor in _tensors(args))
    )


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _tensors(part)
