"""Memory for intermediate results, used again round after round.

A round passes over vectors of all arms a dozen times. Where each pass writes to fresh memory, the
operating system hands out and zeroes pages faster than the arithmetic consumes them: on a CPU that
costs several times what the arithmetic does.
"""

from __future__ import annotations

import math
import threading

import torch
from torch import Size, Tensor


class Scratch:
    """Named buffers, one set per thread. What is in them lasts until the name is taken again.

    It is no part of any value: saving or copying it gives an empty one.
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
            name: What it is for.
            shape: Its shape.
            like: Gives the device, and the dtype unless ``dtype`` does.
            dtype: Of its entries.
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
