"""How many numbers PyTorch holds at a time while something runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode


class LiveNumbers(TorchDispatchMode):
    """Counts the memory of all tensors made meanwhile, of this thread, in numbers of 8 bytes.

    Attributes:
        most: The largest number alive at once.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.most = 0
        self._known: dict[int, tuple[StorageWeakRef, int]] = {}
        self._bytes = 0  # of all that are known, also of those that are gone

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        new = [one for one in _storages(made) if one._cdata not in self._known]
        if new:  # what is given and not counted was there before
            given = {one._cdata for one in _storages((args, kwargs))}
            for storage in new:
                if storage._cdata not in given:
                    self._known[storage._cdata] = (
                        StorageWeakRef(storage),  # type: ignore[no-untyped-call]
                        storage.nbytes(),
                    )
                    self._bytes += storage.nbytes()
            if self._bytes // 8 > self.most:  # looking for those that are gone takes long
                self._forget_what_is_gone()
                self.most = max(self.most, self._bytes // 8)
        return made

    def _forget_what_is_gone(self) -> None:
        known = self._known.items()
        self._known = {key: one for key, one in known if not _gone(one[0])}
        self._bytes = sum(size for _, size in self._known.values())


def _gone(reference: StorageWeakRef) -> bool:
    return bool(reference.expired())  # type: ignore[no-untyped-call]


def _storages(nested: Any) -> list[torch.UntypedStorage]:
    if isinstance(nested, torch.Tensor):
        return [nested.untyped_storage()]
    if isinstance(nested, dict):
        nested = nested.values()
    elif not isinstance(nested, (list, tuple)):
        return []
    return [storage for part in nested for storage in _storages(part)]
