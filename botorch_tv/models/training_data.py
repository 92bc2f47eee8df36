"""Validation of a model's data."""

from __future__ import annotations

import math
import warnings
from copy import deepcopy

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from botorch.exceptions.warnings import InputDataWarning
from botorch.models.transforms.input import InputTransform
from gpytorch.settings import min_variance
from torch import Tensor

from botorch_tv.validation import largest, latest, require, require_trials


def check_inputs(X: Tensor, columns: int | None = None) -> None:
    """Raise unless ``X`` is `... x n x d`; if ``columns`` is given, d must equal ``columns``.

    Raises:
        BotorchTensorDimensionError: If the shape differs.
    """
    if X.dim() < 2 or (columns is not None and X.shape[-1] != columns):
        raise BotorchTensorDimensionError(
            f"X is {tuple(X.shape)}, but inputs are batch_shape x n x {columns or 'd'}, including "
            "the time column; add the time of each row, or wrap acquisition functions in "
            "at_present."
        )


def column_of_time(X: Tensor, time_dim: int) -> int:
    """Index of the time column, counted from 0.

    Raises:
        BotorchTensorDimensionError: If ``X`` is not `... x n x d`.
        ValueError: If ``X`` has no column ``time_dim``.
    """
    check_inputs(X)
    require(
        -X.shape[-1] <= time_dim < X.shape[-1],
        f"time_dim is {time_dim}, but train_X has {X.shape[-1]} columns; give the index of the "
        "time column.",
    )
    return time_dim % X.shape[-1]


def check_rows(X: Tensor, Y: Tensor, Yvar: Tensor | None, outputs: int | None = None) -> None:
    """Raise unless ``Y`` and ``Yvar`` match ``X`` in rows and, for a new model, in batch shape.

    Args:
        X: Inputs, `... x n x d`.
        Y: Observations, `... x n x m`.
        Yvar: Noise variances of the observations, shape of ``Y``; None if they are learned.
        outputs: Number m of outputs of an existing model, or None for a new model. With an
            existing model, the batch shapes of X and Y may differ if they broadcast.

    Raises:
        BotorchTensorDimensionError: If shapes do not match.
    """
    same = X.shape[:-1] if outputs is None else X.shape[-2:-1]
    for name, value in (("Y", Y), ("its noise", Yvar)):
        if value is not None and (
            value.dim() < 2
            or value.shape[-1 - len(same) : -1] != same
            or outputs not in (None, value.shape[-1])
        ):
            raise BotorchTensorDimensionError(
                f"{name} is {tuple(value.shape)}, but X is {tuple(X.shape)}; give batch_shape x "
                f"{X.shape[-2]} x {outputs or 'm'}, one row for each row of X."
            )


def check_data(
    X: Tensor, Y: Tensor, *, columns: int | None = None, time_dim: int | None = None
) -> None:
    """Raise unless ``X`` and ``Y`` have equal dtypes and values within the limits of the dtype.

    Args:
        X: Inputs, `... x n x d`.
        Y: Observations, `... x n x m`.
        columns: Number d of columns of an existing model; None for a new model.
        time_dim: Index of the time column; None to omit the check of the resolution of times.

    Raises:
        BotorchTensorDimensionError: If ``X`` has fewer than two dimensions, or if its last
            dimension is not ``columns``.
        InputDataError: If dtypes differ, if a time is not finite, or if a value is NaN or so large
            that sums of squares may overflow.
    """
    check_inputs(X, columns)
    if X.dtype != Y.dtype:
        raise InputDataError(f"X is {X.dtype} and Y {Y.dtype}; give both the same dtype.")
    check_values("X", X)
    check_values("Y", Y)
    if time_dim is not None and X.numel():
        newest = X[..., time_dim].abs().max().item()
        if newest > latest(X.dtype):
            raise InputDataError(
                f"A time is {newest:.0f} in {X.dtype}, which does not represent all whole numbers "
                "of this size; count time from a later origin, or use float64."
            )


def check_values(name: str, value: Tensor) -> None:
    """Raise unless all entries are so small that sums of squares do not overflow.

    Args:
        name: What the entries are.
        value: The entries, `... x n x d`.

    Raises:
        InputDataError: If an entry is NaN or too large.
    """
    limit = largest(value.dtype)
    bad = ~(value.abs() <= limit)  # too large, or NaN
    if bool(bad.any()):
        rows, columns = (sorted(set(bad.nonzero()[:, dim].tolist())) for dim in (-2, -1))
        raise InputDataError(
            f"{name} contains {value[bad][0].item():g} in rows {rows[:8]} (from 0; {len(rows)} in "
            f"total), columns {columns}, but values must lie within ±{limit:g} in {value.dtype} to "
            "keep sums of squares finite; remove these rows, or use a larger unit."
        )


def warn_of_small_outputs(Y: Tensor) -> None:
    """Warn if the spread of observations is close to the smallest variance that GPyTorch allows.

    In float64, GPyTorch raises every variance below 1e-10 to 1e-10, in the units of Y. BoTorch does
    not standardise outcomes with a standard deviation below 1e-8.

    Args:
        Y: Observations, `... x n x m`.
    """
    if Y.shape[-2] < 2:
        return
    sd, least = Y.std(-2), 10 * min_variance.value(Y.dtype) ** 0.5
    # No warning for constant outputs; outputs that differ only by rounding count as constant.
    constant = sd <= 100 * torch.finfo(Y.dtype).eps * Y.abs().amax(-2)
    smallest = sd.masked_fill(constant, torch.inf).min().item()
    if smallest < least:
        warnings.warn(
            f"train_Y has a standard deviation of {smallest:.2g}; below {least:.0e} GPyTorch "
            "raises small variances, so predicted intervals are too wide. Use a smaller unit, such "
            f"as 1e{math.ceil(-math.log10(smallest))} * train_Y.",
            InputDataWarning,
            stacklevel=3,
        )


FEWEST = 8
"""Minimum number of rows for the check of the order of times."""


def warn_of_no_time(X: Tensor, time: int) -> None:
    """Warn if the time column looks like a parameter: unordered values in [0, 1].

    Args:
        X: Inputs, `... x n x d`.
        time: Index of the time column.
    """
    times = X[..., time]
    between = times.shape[-1] >= FEWEST and bool(((times >= 0) & (times <= 1)).all())
    if between and float((times.diff(dim=-1) < 0).double().mean()) > 0.25:
        warnings.warn(
            f"column {time} of train_X is used as time, but its values are unordered in [0, 1], "
            "like those of a parameter; append the time of each row, torch.cat([x, time], -1), or "
            "set time_dim.",
            InputDataWarning,
            stacklevel=3,
        )


def check_now(now: Tensor, newest: Tensor) -> None:
    """Raise unless ``now`` is finite and no observation is later than ``now``.

    Args:
        now: Present time, `batch_shape`.
        newest: Time of the newest observation, `batch_shape`; minus infinity without data.

    Raises:
        InputDataError: If ``now`` is not finite, or if an observation is later than ``now``.
    """
    now, newest = torch.broadcast_tensors(now, newest)  # type: ignore[no-untyped-call]
    require_trials(now.isfinite(), now, "is given as now", "the present time must be finite.")
    require_trials(
        now >= newest,
        now,
        "is now, but an observation was made later, at time",
        "call set_now with a time no earlier than the data, or leave now=None to follow the data.",
        limit=newest,
    )


def check_transform(transform: InputTransform | None, X: Tensor, time: int) -> None:
    """Raise if an input transform changes time, or mixes it into other columns.

    One copy of the transform is fitted to the data. Another copy is fitted to the data with every
    time replaced by a number that is not an integer and lies outside [0, 1]. The two copies of the
    transform must preserve times, and give equal values in all columns other than time.

    Args:
        transform: The transform, which is not changed; None for no transform.
        X: Training inputs, `... x n x d`.
        time: Index of the time column, counted from 0.

    Raises:
        InputDataError: If the transform changes the times, or if other columns depend on time.
    """
    if transform is None or not X.shape[-2]:
        return
    elsewhere, seen = X.clone(), []
    elsewhere[..., time] = 1.6180339887498949 * (1 + X[..., time].abs())
    for given in (X, elsewhere):
        tried = deepcopy(transform).to(X)
        with torch.no_grad():
            tried.train()(given)  # fits the transform
            seen.append(tried.eval()(given))
    good = seen[0].shape == X.shape
    if good:
        wanted = seen[0].clone()
        wanted[..., time] = elsewhere[..., time]
        good = torch.equal(seen[1], wanted)
    if not good:
        raise InputDataError(
            f"{type(transform).__name__} changes the time column, or mixes it into other columns; "
            f"exclude column {time}, as in Normalize(d={X.shape[-1]}, "
            f"indices={[i for i in range(X.shape[-1]) if i != time]})."
        )
