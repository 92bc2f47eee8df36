"""What a loop accepts of experts."""

from __future__ import annotations

import math
from typing import Any

import torch
from botorch.exceptions import InputDataError


def as_replies(y: object, ok: object, points: int) -> tuple[float | None, ...]:
    """What an expert answered, point by point; None where it did not.

    Args:
        y: The values; anything where ``ok`` is False.
        ok: Which points were answered: one bool for all, one for each, or None for all of them.
        points: How many it was asked about.

    Raises:
        InputDataError: If there is not one value per point, or one of those answered is not finite.
    """
    if ok is None or isinstance(ok, bool):
        good = [ok is not False] * points
    else:
        good = _each("ok", ok, points, "bool")
    if y is None and not any(good):
        return (None,) * points
    if isinstance(y, (list, tuple)):
        y = [math.nan if one is None else one for one in y]
    values = _each("y", y, points, "value")
    for place, (value, counts) in enumerate(zip(values, good)):
        if counts and not math.isfinite(value):
            raise InputDataError(
                f"answer number {place} is {value}, but answers are finite; pass ok=False for "
                "points that the expert did not answer."
            )
    return tuple(float(value) if counts else None for value, counts in zip(values, good))


def _each(name: str, value: object, points: int, kind: str) -> list[Any]:
    """One value per point."""
    fix = f"the expert was asked about {points} points; give one {kind} for each"
    try:
        if kind == "bool":
            each = torch.as_tensor(value).cpu()
            if each.dtype != torch.bool:  # numbers would all be taken for True
                raise TypeError
        else:
            each = torch.as_tensor(value, dtype=torch.float64).cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputDataError(f"{name} is {value!r}, but {fix}.") from error
    if each.numel() != points or each.dim() > 2:
        raise InputDataError(
            f"{name} has shape {tuple(each.shape)}, but {fix}, and ok=False for points without "
            "answer."
        )
    numbers: list[Any] = each.reshape(-1).tolist()
    return numbers
