"""Growing tensors that successive states share without copying and without seeing each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Size, Tensor

FIRST_ROWS = 16
"""Rows for which there is room at first, unless more are asked for."""


def room_for(rows: int, first: int = FIRST_ROWS) -> int:
    """Rows for which there is room once so many have been appended one by one.

    Args:
        rows: How many.
        first: Rows for which there was room at first.
    """
    return first << max(0, -(-rows // first) - 1).bit_length()


@dataclass(slots=True, eq=False)
class _Storage:
    """Room for rows, and how many of them some state has already written."""

    tensor: Tensor  # batch_shape x capacity x event_shape
    written: int


class Rows:
    """An immutable sequence of rows, `batch_shape x n x event_shape`, that appends in O(1).

    Appending writes behind the rows that this object shows, in memory shared with the result. An
    object never shows a row that it did not have when it was made, and a second append to the same
    object copies, so both futures of one state are its own: the interface is purely functional.
    """

    __slots__ = ("_batch_dim", "_length", "_storage")

    def __init__(self, storage: _Storage, length: int, batch_dim: int) -> None:
        self._storage, self._length, self._batch_dim = storage, length, batch_dim

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
        """No rows yet, each to be of shape `batch_shape x event_shape`."""
        shape = (*batch_shape, capacity, *event_shape)
        storage = _Storage(torch.zeros(shape, dtype=dtype, device=device), written=0)
        return cls(storage, 0, len(batch_shape))

    @classmethod
    def of(cls, tensor: Tensor, batch_dim: int) -> Rows:
        """The rows of a tensor, `batch_shape x n x event_shape`, which is not copied."""
        length = tensor.shape[batch_dim]
        return cls(_Storage(tensor, written=length), length, batch_dim)

    def replaced(self, tensor: Tensor) -> Rows:
        """Other rows of the same kind, `batch_shape x n x event_shape`, which are not copied."""
        return Rows.of(tensor, self._batch_dim)

    def __len__(self) -> int:
        return self._length

    def tensor(self, first: int = 0) -> Tensor:
        """All rows from number ``first`` on, `batch_shape x (n - first) x event_shape`: a view."""
        return self._storage.tensor.narrow(self._batch_dim, first, self._length - first)

    def row(self, number: int) -> Tensor:
        """Row ``number``, `batch_shape x event_shape`: a view."""
        if not 0 <= number < self._length:
            raise IndexError(f"row {number} of {self._length}")
        return self._storage.tensor.select(self._batch_dim, number)

    def append(self, row: Tensor) -> Rows:
        """These rows and one more, `batch_shape x event_shape`."""
        return append_together((self,), (row,))[0]

    def __reduce__(self) -> tuple[object, tuple[Tensor, int]]:
        return Rows.of, (self.tensor().clone(), self._batch_dim)


def append_together(sequences: Sequence[Rows], rows: Sequence[Tensor]) -> list[Rows]:
    """Each sequence and a row more, where that is one operation of a device for all of them."""
    longer, places, given = [], [], []
    for one, row in zip(sequences, rows):
        storage, length, dim = one._storage, one._length, one._batch_dim
        capacity = storage.tensor.shape[dim]
        if length == capacity or storage.written > length:
            shape = list(storage.tensor.shape)
            shape[dim] = max(capacity, 2 * length, FIRST_ROWS)
            wider = storage.tensor.new_zeros(shape)
            wider.narrow(dim, 0, length).copy_(one.tensor())
            storage = _Storage(wider, length)
        storage.written = length + 1
        longer.append(Rows(storage, length + 1, dim))
        place = storage.tensor.select(dim, length)
        places.append(place)
        given.append(row.expand_as(place))
    torch._foreach_copy_(places, given)
    return longer
