"""The free memory of a device, and the number of PyTorch's threads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

_MEMINFO = Path("/proc/meminfo")
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def free_bytes(device: torch.device) -> int:
    """The free memory of a device in bytes, including caches that can be released."""
    if device.type == "cuda":
        # PyTorch retains the memory of deleted tensors, and can use or release it.
        retained = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + retained
    with suppress(OSError):
        found = re.search(r"^MemAvailable: +(\d+) kB$", _MEMINFO.read_text(), re.MULTILINE)
        if found is not None:
            return 1024 * int(found[1])
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system reports free memory
        return 2 * 2**30


def bytes_text(size: float) -> str:
    """A number of bytes as text, with a unit."""
    unit = 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.3g} {_UNITS[unit]}" if size < 1000 else f"{size:,.0f} {_UNITS[unit]}"


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Set PyTorch's number of threads per operation within a ``with`` block."""
    before = torch.get_num_threads()
    if before == count:  # the number is already set, perhaps by another thread
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
