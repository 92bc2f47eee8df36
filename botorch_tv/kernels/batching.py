"""Batches of kernels: expansion and indexing that reach every factor and spare ``active_dims``.

GPyTorch's own ``Kernel.expand_batch`` and ``Kernel.__getitem__`` index the buffer of
``active_dims`` as if it had batch dimensions, and leave factors without a batch of their own
unexpanded before indexing them. Kernels of this package use these two instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Self

import torch
from gpytorch.kernels import Kernel
from torch import Tensor, nn


def _tensors(kernel: nn.Module) -> Iterator[Tensor]:
    """The kernel's own parameters and buffers that carry its batch dimensions."""
    yield from kernel.parameters(recurse=False)
    for name, buffer in kernel.named_buffers(recurse=False):
        if name != "active_dims":
            yield buffer


def _batch_dims(kernel: Kernel, tensor: Tensor) -> int:
    """How many leading dimensions of a kernel's tensor are batch dimensions.

    A ``ScaleKernel`` takes over the batch of its base kernel without saying so.
    """
    full = kernel.batch_shape
    return len(full) if tensor.shape[: len(full)] == full else len(kernel._batch_shape)


def _own(kernel: nn.Module) -> list[tuple[Kernel, list[tuple[Tensor, int]]]]:
    """Every kernel of the tree with the tensors it holds, and their numbers of batch dimensions."""
    found = []
    for module in kernel.modules():
        if isinstance(module, Kernel):
            held = [(tensor, _batch_dims(module, tensor)) for tensor in _tensors(module)]
            if held:
                found.append((module, held))
    return found


def like(value: Tensor | float, other: Tensor) -> Tensor:
    """A number as a tensor of the dtype and device of another, without passing float32.

    It is no caller's tensor, which may change in place, as a clock does.
    """
    made = torch.as_tensor(value, dtype=other.dtype, device=other.device)
    return made if isinstance(value, float) else made.clone()


class BatchedKernel(Kernel):  # type: ignore[misc]
    """A kernel whose batches may be expanded and indexed whatever it is made of."""

    def expand_batch(self, *sizes: Any) -> Self:
        """A copy with every parameter expanded to a batch shape.

        Args:
            sizes: The batch shape, as a ``torch.Size`` or as integers; the kernel's own must
                broadcast to it.

        Raises:
            RuntimeError: If it does not.
        """
        given = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
        target = torch.Size(given)
        if target == self.batch_shape:
            return self
        if torch.broadcast_shapes(target, self.batch_shape) != target:  # type: ignore[no-untyped-call]
            raise RuntimeError(
                f"A kernel of batch shape {tuple(self.batch_shape)} cannot be expanded to "
                f"{tuple(target)}."
            )
        expanded = deepcopy(self)
        for kernel, held in _own(expanded):
            for tensor, dims in held:
                tensor.data = tensor.data.expand(target + tensor.shape[dims:])
            kernel.batch_shape = target
        return expanded

    def __getitem__(self, index: Any) -> Self:
        """The kernel of some members of the batch; ``index`` applies to the batch dimensions."""
        if len(self.batch_shape) == 0:
            return self
        index = index if isinstance(index, tuple) else (index,)
        batch_shape = self.batch_shape
        chosen = torch.empty((), device="cpu").expand(batch_shape)[index].shape
        indexed = deepcopy(self)
        for kernel, held in _own(indexed):
            for tensor, dims in held:
                full = tensor.data.expand(batch_shape + tensor.shape[dims:])
                tensor.data = full[index]
            kernel.batch_shape = chosen
        return indexed
