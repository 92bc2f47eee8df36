"""What an input transform may not do where ages are read from a column of time."""

from __future__ import annotations

from copy import deepcopy

import torch
from botorch.exceptions import InputDataError
from botorch.models.transforms.input import AffineInputTransform, InputTransform
from torch import Tensor

LATER = 0.6180339887498949
"""Units of time later; a fraction that no rounding keeps."""


def check_transform(transform: InputTransform, X: Tensor, time: int) -> None:
    """Raise if an input transform changes time, or mixes it into other columns.

    A copy is fitted to the data and tried on it as it is and a fraction of a unit of time later:
    rounding leaves whole numbers as they are, but not the times between them.

    Args:
        transform: The transform, left as it is.
        X: Training inputs, `... x n x d`, n > 0.
        time: Column of time, counted from 0.

    Raises:
        InputDataError: If so.
    """
    fix = (
        "ages are read from the column of time, which no transform may touch; leave it out, as in "
        f"Normalize(d={X.shape[-1]}, indices={[i for i in range(X.shape[-1]) if i != time]})."
    )
    name = type(transform).__name__
    for part in transform.modules():
        # Bounds learned from times in [0, 1] leave them as they are, until the next data.
        if isinstance(part, AffineInputTransform):
            indices = getattr(part, "indices", range(X.shape[-1]))
            if time in [int(index) % X.shape[-1] for index in indices]:
                raise InputDataError(
                    f"{type(part).__name__} transforms column {time}, which is time; {fix}"
                )
    with torch.no_grad():
        tried = deepcopy(transform).to(X)
        tried(X)  # in training mode, as construction will: bounds are learned here
        tried.eval()
        later = X.clone()
        later[..., time] += LATER
        now_seen, later_seen = tried(X), tried(later)
    if now_seen.shape != X.shape:
        raise InputDataError(
            f"{name} makes {tuple(now_seen.shape)} of {tuple(X.shape)}, but rows and columns must "
            "stay as they are for time to be found; do it before the model."
        )
    touched = not torch.equal(now_seen[..., time], X[..., time])
    touched |= not torch.equal(later_seen[..., time], later[..., time])
    now_seen[..., time] = later_seen[..., time] = 0.0
    if touched or not torch.equal(now_seen, later_seen):
        raise InputDataError(f"{name} changes time or depends on it; {fix}")
