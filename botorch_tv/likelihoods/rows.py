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
