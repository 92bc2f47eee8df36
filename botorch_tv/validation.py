"""One way to refuse: checks that name the value, the limit and the fix."""

from __future__ import annotations

import torch
from botorch.exceptions import InputDataError
from torch import Tensor


def require(condition: bool, message: str) -> None:
    """Raise a ``ValueError`` with ``message`` unless ``condition`` holds (NaN never does)."""
    if not condition:
        raise ValueError(message)


def require_integer(name: str, value: float, least: int, fix: str) -> None:
    """Raise unless ``value`` is an integer no smaller than ``least``; 29.0 counts as one."""
    whole = isinstance(value, (int, float)) and not isinstance(value, bool) and value % 1 == 0
    if not whole or value < least:
        raise ValueError(
            f"{name} is {value!r}, but it must be an integer of at least {least}; {fix}"
        )


def require_trials(
    good: Tensor, value: Tensor, what: str, fix: str, limit: Tensor | None = None
) -> None:
    """Raise an ``InputDataError`` naming the first trial for which ``good`` is false.

    Args:
        good: A bool per trial, `batch_shape`.
        value: The offending values, `batch_shape`.
        what: What is wrong, in words that follow the value.
        fix: What the caller can do.
        limit: What each value was held against, `batch_shape`; named after ``what``.
    """
    if bool(good.all()):
        return
    position = (~good).nonzero()[0].tolist()
    trial = (
        f" of trial {position[0] if len(position) == 1 else tuple(position)}" if position else ""
    )
    held = "" if limit is None else f" {limit[tuple(position)].item()}"
    raise InputDataError(f"{value[tuple(position)].item()}{trial} {what}{held}; {fix}")


def require_floating(dtype: torch.dtype) -> None:
    """Raise unless ``dtype`` is float64 or float32."""
    if dtype not in (torch.float64, torch.float32):
        raise InputDataError(
            f"dtype is {dtype}, but inference needs torch.float64 or torch.float32."
        )
