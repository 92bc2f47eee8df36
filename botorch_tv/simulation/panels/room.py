"""Whether what a file holds fits into memory, asked before it is unpacked."""

from __future__ import annotations

import torch

from botorch_tv.memory import free_bytes
from botorch_tv.validation import require

UNASKED = 2**26
"""So many bytes are there without asking."""


def require_room(file: str, needed: int) -> None:
    """Raise a ``ValueError`` if something needs more memory than is free.

    Args:
        file: Where it comes from.
        needed: Bytes.
    """
    if needed <= UNASKED:
        return
    free = free_bytes(torch.device("cpu"))
    require(
        needed <= free,
        f"{file} takes {needed / 1e9:.3g} GB of memory or more as it is read, but {free / 1e9:.3g} "
        "GB are free; it may be no panel at all, and if it is, keep fewer rows or columns in it.",
    )
