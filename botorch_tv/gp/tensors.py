"""Containers of tensors: reusable buffers, copies per device, growing sequences and trial data.

A round reads and writes vectors over all arms a dozen times. If every operation
allocated new memory, the operating system would first fill the new memory with zeros. On a CPU,
filling memory with zeros takes several times as long as the arithmetic. Buffers are reused to avoid
the cost of new memory.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, ParamSpec, Self, TypeVar

import torch
from torch import Size, Tensor


class Scratch:
    """Named buffers for each thread; a later :meth:`take` with the same name reuses the buffer.

    Buffers are never saved or copied: a saved or copied ``Scratch`` is empty.
    """

    __slots__ = ("_local",)

    def __init__(self) -> None:
        self._local = threading.local()

    def take(
        self,
        name: str,
        shape: Size | tuple[int, ...],
        like: Tensor,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """A contiguous tensor with arbitrary contents.

        Args:
            name: Name of the buffer.
            shape: Shape of the tensor.
            like: A tensor that defines the device, and the dtype if ``dtype`` is None.
            dtype: Dtype of the tensor; None for the dtype of ``like``.
        """
        dtype = like.dtype if dtype is None else dtype
        views: dict[str, Tensor] = self._local.__dict__
        view = views.get(name)
        if view is not None and view.dtype == dtype and view.device == like.device:
            if view.shape == shape:
                return view
            storage = view.untyped_storage()
            numbers = math.prod(shape)
            if storage.nbytes() >= numbers * view.element_size():
                whole = view.new_empty(0).set_(storage)
                views[name] = whole[:numbers].view(shape)
                return views[name]
        views[name] = torch.empty(shape, dtype=dtype, device=like.device)
        return views[name]

    def __reduce__(self) -> tuple[type[Scratch], tuple[()]]:
        return Scratch, ()


class DeviceCopies:
    """A tensor that is copied once per dtype and device.

    Constants of a domain, such as the arms, are required in every round. A new copy in every round
    would wait until the GPU has finished its work.

    Args:
        value: The tensor. Do not modify this tensor later: existing copies would not change.
    """

    def __init__(self, value: Tensor) -> None:
        self._value = value
        self._copies: dict[tuple[torch.dtype, torch.device], Tensor] = {}

    def on(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """The tensor in a dtype and on a device."""
        key = (dtype, device)
        if key not in self._copies:
            self._copies[key] = self._value.to(dtype=dtype, device=device)
        return self._copies[key]

    def like(self, other: Tensor) -> Tensor:
        """The tensor in the dtype and on the device of another tensor."""
        found = self._copies.get((other.dtype, other.device))
        return self.on(other.dtype, other.device) if found is None else found

    def __reduce__(self) -> tuple[type[DeviceCopies], tuple[Tensor]]:
        return DeviceCopies, (self._value,)


def repeated(value: float, shape: Size, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A read-only tensor of one repeated number.

    All entries share one cached number in memory, so PyTorch refuses to write to them. A
    tensor with at most one entry has its own memory and can be written to.
    """
    if shape.numel() <= 1:
        return torch.full(shape, value, dtype=dtype, device=device)
    return _number(value, dtype, device).expand(shape)


@functools.lru_cache(maxsize=256)
def _number(value: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    # Created outside inference mode, because callers that record gradients also use this tensor.
    with torch.inference_mode(False):
        return torch.full((), value, dtype=dtype, device=device)


FIRST_ROWS = 16
"""Default number of rows for which memory is allocated at first."""


def room_for(rows: int, first: int = FIRST_ROWS) -> int:
    """Number of rows for which memory is allocated after ``rows`` rows were appended one by one.

    Args:
        rows: Number of appended rows.
        first: Number of rows for which memory is allocated at first.
    """
    return first << max(0, -(-rows // first) - 1).bit_length()


class Rows:
    """An immutable sequence of rows, `batch_shape x n x event_shape`; an append takes time O(1).

    An append returns a new object with one more row. The new row is written after the visible rows,
    in memory that the old and the new object share. A second append to the same object copies all
    rows first. An append never changes the visible rows of an existing object.

    Args:
        room: Memory for rows, `batch_shape x capacity x event_shape`.
        length: Number of visible rows.
        batch_dim: Number of dimensions of the batch shape.
        written: A list with one entry, the number of written rows. All objects with the same memory
            ``room`` also have the same list ``written``.
    """

    __slots__ = ("_batch_dim", "_length", "_room", "_written")

    def __init__(
        self, room: Tensor, length: int, batch_dim: int, written: list[int] | None = None
    ) -> None:
        self._room, self._length, self._batch_dim = room, length, batch_dim
        self._written = [length] if written is None else written

    @classmethod
    def empty(
        cls,
        batch_shape: Size,
        event_shape: tuple[int, ...] = (),
        *,
        dtype: torch.dtype,
        device: torch.device,
        capacity: int = FIRST_ROWS,
    ) -> Rows:
        """A sequence without rows; each appended row has shape `batch_shape x event_shape`."""
        shape = (*batch_shape, capacity, *event_shape)
        return cls(torch.zeros(shape, dtype=dtype, device=device), 0, len(batch_shape))

    @classmethod
    def of(cls, tensor: Tensor, batch_dim: int) -> Rows:
        """The rows of a tensor, `batch_shape x n x event_shape`, without a copy."""
        return cls(tensor, tensor.shape[batch_dim], batch_dim)

    def replaced(self, tensor: Tensor) -> Rows:
        """A sequence of new rows, `batch_shape x n x event_shape`, of the present batch shape."""
        return Rows.of(tensor, self._batch_dim)

    def __len__(self) -> int:
        return self._length

    def tensor(self, first: int = 0) -> Tensor:
        """A view of the rows from row ``first`` on, `batch_shape x (n - first) x event_shape`."""
        return self._room.narrow(self._batch_dim, first, self._length - first)

    def row(self, number: int) -> Tensor:
        """A view of the row with index ``number``, `batch_shape x event_shape`."""
        return self._room.select(self._batch_dim, number)

    def append(self, row: Tensor) -> Rows:
        """A sequence with one more row, `batch_shape x event_shape`."""
        return append_together((self,), (row,))[0]

    def __reduce__(self) -> tuple[object, tuple[Tensor, int]]:
        return Rows.of, (self.tensor().clone(), self._batch_dim)


def append_together(
    sequences: Sequence[Rows], rows: tuple[Tensor, ...] | list[Tensor]
) -> list[Rows]:
    """Append a row to each sequence, in one device operation for all sequences."""
    longer, places = [], []
    for one in sequences:
        room, length, dim, written = one._room, one._length, one._batch_dim, one._written
        capacity = room.shape[dim]
        if length == capacity or written[0] > length:
            shape = list(room.shape)
            shape[dim] = max(capacity, 2 * length, FIRST_ROWS)
            room, written = room.new_zeros(shape), [length]
            room.narrow(dim, 0, length).copy_(one.tensor())
        written[0] = length + 1
        longer.append(Rows(room, length + 1, dim, written))
        places.append(room.select(dim, length))
    torch._foreach_copy_(places, rows)
    return longer


class OfTrials:
    """Base class of dataclasses whose tensors have trials as their first dimension.

    A field is a tensor with trials as its first dimension, a tuple or list of such tensors, None,
    or an object with its own method ``select``, such as a kernel with parameters per trial.
    """

    shared: ClassVar[tuple[str, ...]] = ()
    """Names of the fields that all trials share; :meth:`select` does not change these fields."""

    def select(self, trials: Tensor) -> Self:
        """Select the data of the given trials.

        Args:
            trials: Indices of the trials, int64.
        """
        parts = [one.name for one in fields(self) if one.name not in self.shared]  # type: ignore[arg-type]
        return replace(self, **{name: _selected(getattr(self, name), trials) for name in parts})  # type: ignore[type-var]


def _selected(part: Any, trials: Tensor) -> Any:
    if part is None or isinstance(part, Tensor):
        return None if part is None else part[trials]
    if isinstance(part, (tuple, list)):
        inside = [_selected(one, trials) for one in part]
        return type(part)(*inside) if hasattr(part, "_fields") else type(part)(inside)
    return part.select(trials)


P = ParamSpec("P")
R = TypeVar("R")


def outside_inference_mode(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function outside inference mode; it records gradients only if the caller does so."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        if not torch.is_inference_mode_enabled():
            return function(*args, **kwargs)
        with torch.inference_mode(False), torch.no_grad():
            return function(*args, **kwargs)

    return wrapped


def without_gradients(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function under ``no_grad`` and outside inference mode."""
    return outside_inference_mode(torch.no_grad()(function))
