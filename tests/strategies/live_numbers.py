"""The largest number of numbers that PyTorch holds at once during a computation."""

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode


class LiveNumbers(TorchDispatchMode):
    """Counts the memory of all tensors that this thread makes meanwhile, in numbers of 8 bytes.

    Attributes:
        most: The largest number alive at once.
    """

    def __init__(self):
        super().__init__()
        self.most = 0
        self._counted = {}
        self._bytes = 0  # of all tensors counted, freed ones included

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        new = [each for each in _storages(made) if each._cdata not in self._counted]
        if new:  # an argument that is not counted existed before
            given = {each._cdata for each in _storages((args, kwargs))}
            for storage in new:
                if storage._cdata not in given:
                    self._counted[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
                    self._bytes += storage.nbytes()
            if self._bytes // 8 > self.most:  # the search for freed tensors is slow
                counted = self._counted.items()
                self._counted = {key: each for key, each in counted if not each[0].expired()}
                self._bytes = sum(size for _, size in self._counted.values())
                self.most = max(self.most, self._bytes // 8)
        return made


def _storages(nested):
    if isinstance(nested, torch.Tensor):
        return [nested.untyped_storage()]
    if isinstance(nested, dict):
        nested = nested.values()
    elif not isinstance(nested, (list, tuple)):
        return []
    return [storage for part in nested for storage in _storages(part)]
