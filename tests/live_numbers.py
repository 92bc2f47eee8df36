"""How many numbers PyTorch holds at a time while something runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveNumbers(TorchDispatchMode):
    """Counts the memory of all tensors made meanwhile, of this thread, in numbers of 8 bytes.

    Attributes:
        most: The largest number alive at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.most = 0
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        # What is given and not counted was there before.
        given = {StorageWeakRef(one).cdata for one in _storages((args, kwargs))}
        for storage in _storages(made):
            reference = StorageWeakRef(storage)
            if reference.cdata not in given:
                self._alive[reference.cdata] = (reference, storage.nbytes())
        self._alive = {key: one for key, one in self._alive.items() if not one[0].expired()}
        self.most = max(self.most, sum(size for _, size in self._alive.values()) // 8)
        return made


def _storages(nested: Any) -> list[torch.UntypedStorage]:
    return [one.untyped_storage() for one in tree_leaves(nested) if isinstance(one, torch.Tensor)]
