"""What a retention answers, checked."""

from __future__ import annotations

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.forgetting.base import Kept
from botorch_tv.validation import shown


def checked(answer: Kept | Tensor, time: Tensor, rows: int) -> Kept:
    """An answer of a rule as such.

    Args:
        answer: What its ``keep`` returned.
        time: Of the newest observation, `batch_shape`.
        rows: How many it was asked about, n.

    Raises:
        InputDataError: If it does not fit these, or contradicts itself.
    """
    kept = Kept(rows=answer) if isinstance(answer, Tensor) else answer
    if not isinstance(kept, Kept):
        raise InputDataError(
            f"a retention answered {shown(answer)}, but keep() returns a Kept, such as "
            "Kept(newest=20), or a bool tensor of shape batch_shape x n."
        )
    masks = (kept.rows, kept.where, kept.aside)
    if isinstance(kept.reset, bool) and all(one is None for one in masks):
        return _counted(kept)
    shape = time.shape
    wanted = {
        "rows": (kept.rows, (*shape, rows)),
        "where": (kept.where, tuple(shape)),
        "aside": (kept.aside, (*shape, rows)),
        "reset": (None if isinstance(kept.reset, bool) else kept.reset, tuple(shape)),
    }
    for name, (tensor, needed) in wanted.items():
        if tensor is not None:
            _require_mask(name, tensor, needed, time.device)
    if kept.rows is not None and (kept.newest is not None or kept.where is not None):
        raise InputDataError(
            "a retention answered with rows= and newest= or where= besides; answer one or the "
            "other, or make two rules of it, since what all keep stays."
        )
    if kept.where is not None and kept.newest is None:
        raise InputDataError(
            "a retention answered with where=, but not how many rows stay there; add newest=0 to "
            "forget all of them, newest=1 to keep the one just made."
        )
    return _counted(kept)


def _require_mask(name: str, value: object, shape: tuple[int, ...], device: torch.device) -> None:
    """Raise unless it is a bool tensor of this shape on this device."""
    given = shown(value)
    if isinstance(value, Tensor):
        if value.dtype == torch.bool and value.shape == shape and value.device == device:
            return
        given = f"{value.dtype} of shape {tuple(value.shape)} on {value.device}"
    raise InputDataError(
        f"a retention answered with {name} {given}, but it must be a bool tensor of shape "
        f"{shape} on {device}; compare log.time, which is batch_shape x n, with "
        "log.now.unsqueeze(-1)."
    )


def _counted(kept: Kept) -> Kept:
    whole = isinstance(kept.newest, int) and not isinstance(kept.newest, bool)
    if kept.newest is not None and not (whole and kept.newest >= 0):
        raise InputDataError(
            f"a retention keeps the newest {shown(kept.newest)} rows, but it must be a whole "
            "number from 0 on; answer rows=, a bool per row, where it differs by trial."
        )
    return kept
