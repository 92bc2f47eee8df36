"""What a model refuses, before anything is changed."""

from __future__ import annotations

import math
import warnings
from copy import deepcopy

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from botorch.exceptions.warnings import InputDataWarning
from botorch.models.transforms.input import AffineInputTransform, InputTransform
from gpytorch.settings import min_variance
from torch import Tensor

from botorch_tv.validation import largest, require, require_trials


def check_inputs(X: Tensor, columns: int | None = None) -> None:
    """Raise unless ``X`` is `... x n x d` with ``columns`` columns, where these are known.

    Raises:
        BotorchTensorDimensionError: If it is not.
    """
    if X.dim() < 2 or (columns is not None and X.shape[-1] != columns):
        raise BotorchTensorDimensionError(
            f"X is {tuple(X.shape)}, but inputs are batch_shape x n x {columns or 'd'}, one column "
            "of which is time; add the time of each row, or ask acquisition functions by "
            "at_present."
        )


def column_of_time(X: Tensor, time_dim: int) -> int:
    """The column of time, counted from 0.

    Raises:
        BotorchTensorDimensionError: As :func:`check_inputs`.
        ValueError: If there is no such column.
    """
    check_inputs(X)
    require(
        -X.shape[-1] <= time_dim < X.shape[-1],
        f"time_dim is {time_dim}, but train_X has {X.shape[-1]} columns; name the one of time.",
    )
    return time_dim % X.shape[-1]


def check_rows(X: Tensor, Y: Tensor, Yvar: Tensor | None, outputs: int | None = None) -> None:
    """Raise if observations or their variances belong to other rows or trials than ``X``.

    Args:
        X: Inputs, `... x n x d`.
        Y: Observations, `... x n x m`.
        Yvar: Their variances.
        outputs: m, where a model says it; batch shapes then need only broadcast.

    Raises:
        BotorchTensorDimensionError: If so.
    """
    same = X.shape[:-1] if outputs is None else X.shape[-2:-1]
    for name, value in (("Y", Y), ("its noise", Yvar)):
        if value is not None and (
            value.dim() < 2
            or value.shape[-1 - len(same) : -1] != same
            or outputs not in (None, value.shape[-1])
        ):
            raise BotorchTensorDimensionError(
                f"{name} is {tuple(value.shape)}, but X {tuple(X.shape)}; give batch_shape x "
                f"{X.shape[-2]} x {outputs or 'm'}, a row for each of X."
            )


def check_data(
    X: Tensor, Y: Tensor, *, columns: int | None = None, time_dim: int | None = None
) -> None:
    """Raise unless ``X`` and ``Y`` can be computed with.

    Args:
        X: Inputs, `... x n x d`.
        Y: Observations, any shape.
        columns: d, where a model says it.
        time_dim: The column of time, where there is one to be looked at.

    Raises:
        BotorchTensorDimensionError: If columns do not fit.
        InputDataError: If dtypes differ, a time is not finite, a value is NaN or so large that
            sums of squares may overflow.
    """
    check_inputs(X, columns)
    if X.dtype != Y.dtype:
        raise InputDataError(f"X is {X.dtype} and Y {Y.dtype}; give both the same dtype.")
    if time_dim is not None:
        times = X[..., time_dim]
        if not bool(times.isfinite().all()):
            raise InputDataError(
                f"A time is {times[~times.isfinite()][0].item()}, but times are finite numbers."
            )
        if times.dtype == torch.float32 and times.numel() and float(times.abs().max()) > 2**24:
            raise InputDataError(
                f"A time is {float(times.abs().max()):.0f} in float32, which cannot tell it from "
                "the next second; count time from an origin of your own, or use float64."
            )
    limit = largest(X.dtype)
    for name, value in (("X", X), ("Y", Y)):
        beyond = value[~(value.abs() <= limit)]  # or NaN
        if beyond.numel():
            raise InputDataError(
                f"{name} contains {beyond[0].item():g}, but values lie within ±{limit:g} in "
                f"{value.dtype}, whose squares can still be summed; use a larger unit, or leave "
                "out what was not measured."
            )


def warn_of_small_outputs(Y: Tensor) -> None:
    """Warn of observations that differ so little that floors of variances hide what is known.

    GPyTorch takes variances below a floor, 1e-10 in float64, for that floor, in the units of Y;
    and outcomes that vary by less than 1e-8 are not standardised by BoTorch.

    Args:
        Y: Observations, `... x n x m`.
    """
    if Y.shape[-2] < 2:
        return
    sd, size = Y.std(-2), Y.abs().amax(-2)
    least = 10 * min_variance.value(Y.dtype) ** 0.5
    # Those that differ by rounding alone are constant.
    small = sd[(sd < least) & (sd > 100 * torch.finfo(Y.dtype).eps * size)]
    if small.numel():
        digits = math.ceil(-math.log10(small.min().item()))
        warnings.warn(
            f"train_Y has a standard deviation of {small.min().item():.2g}, but where it is below "
            f"{least:.0e} predictions look less sure than they are, as GPyTorch takes variances "
            f"below {min_variance.value(Y.dtype):g} for that; use a smaller unit, such as "
            f"1e{digits} * train_Y.",
            InputDataWarning,
            stacklevel=3,
        )


FEWEST = 8
"""Rows from which on it can be told that a column is in no order."""


def warn_of_no_time(X: Tensor, time: int) -> None:
    """Warn of a column that is taken for time, but looks like one of a parameter.

    Args:
        X: Inputs, `... x n x d`.
        time: Column of time.
    """
    times = X[..., time]
    if times.shape[-1] < FEWEST or not bool(((times >= 0) & (times <= 1)).all()):
        return
    falls = (times.diff(dim=-1) < 0).double().mean()
    if float(falls) > 0.25:
        warnings.warn(
            f"column {time} of train_X is taken for time, but it lies from 0 to 1 and in no order, "
            "as a parameter does; put the time of each row behind its x, torch.cat([x, time], -1), "
            "or name its column by time_dim.",
            InputDataWarning,
            stacklevel=3,
        )


def check_now(now: Tensor, newest: Tensor) -> None:
    """Raise unless ``now`` is finite and no observation lies after it.

    Args:
        now: `batch_shape`.
        newest: Newest time told, `batch_shape`; minus infinity without data.

    Raises:
        InputDataError: If not.
    """
    now, newest = torch.broadcast_tensors(now, newest)  # type: ignore[no-untyped-call]
    require_trials(now.isfinite(), now, "is no time for now", "it must be finite.")
    require_trials(
        now >= newest,
        now,
        "is now, but an observation was made later, at time",
        "call set_now with a time no earlier than the data, or leave now=None to follow it.",
        limit=newest,
    )


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
        f"{type(transform).__name__} changes time, from which ages are read, or mixes it into "
        f"others; leave out column {time}, as in Normalize(d={X.shape[-1]}, "
        f"indices={[i for i in range(X.shape[-1]) if i != time]})."
    )
    for part in transform.modules():
        # Bounds learned from times in [0, 1] leave them as they are, until the next data.
        if isinstance(part, AffineInputTransform):
            indices = getattr(part, "indices", range(X.shape[-1]))
            if time in [int(index) % X.shape[-1] for index in indices]:
                raise InputDataError(fix)
    with torch.no_grad():
        tried = deepcopy(transform).to(X)
        tried(X)  # in training mode, as construction will: bounds are learned here
        tried.eval()
        later = X.clone()
        later[..., time] += LATER
        before, after = tried(X), tried(later)
    same = before.shape == X.shape
    for given, seen in ((X, before), (later, after)):
        same = same and torch.equal(seen[..., time], given[..., time])
        seen[..., time] = 0.0
    if not (same and torch.equal(before, after)):
        raise InputDataError(fix)
