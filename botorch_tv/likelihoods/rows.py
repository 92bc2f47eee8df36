"""Rows of data one after the other."""

from __future__ import annotations

import torch
from torch import Tensor


def stacked(first: Tensor, second: Tensor, dim: int) -> Tensor:
    """Two tensors one after the other along ``dim``, the dimensions before it broadcast.

    Args:
        first: `batch_shape x n x ...`.
        second: `batch_shape' x q x ...`.
        dim: The dimension of n and q, negative.
    """
    shape = torch.broadcast_shapes(first.shape[:dim], second.shape[:dim])  # type: ignore[no-untyped-call]
    return torch.cat(
        [first.expand(shape + first.shape[dim:]), second.expand(shape + second.shape[dim:])], dim
    )


def joined(
    old: Tensor | None, new: Tensor | None, rows: int, added: int, like: Tensor
) -> Tensor | None:
    """Noise variances of all rows, NaN where they are learned; None where none is known.

    Args:
        old: Those of the rows before, `batch_shape x rows`.
        new: Those of the rows added, `batch_shape x added`.
        rows: Rows before.
        added: Rows added.
        like: Of the dtype and device wanted.
    """
    if old is None and new is None:
        return None
    unknown = like.new_full((), torch.nan)
    old = unknown.expand(rows) if old is None else old
    return stacked(old, unknown.expand(added) if new is None else new, -1)
