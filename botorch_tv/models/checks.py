"""What a model refuses, before anything is changed."""

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
    limit = largest(X.dtype)
    for name, value in (("X", X), ("Y", Y)):
        beyond = value[~(value.abs() <= limit)]  # or NaN
        if beyond.numel():
            raise InputDataError(
                f"{name} contains {beyond[0].item():g}, but values lie within ±{limit:g} in "
                f"{value.dtype}, whose squares can still be summed; use a larger unit, or leave "
                "out what was not measured."
            )
    if time_dim is not None and X.numel():
        newest = X[..., time_dim].abs().max().item()
        if newest > latest(X.dtype):
            raise InputDataError(
                f"A time is {newest:.0f} in {X.dtype}, which cannot tell it from the next whole "
                "one; count time from an origin of your own, or use float64."
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
    sd, least = Y.std(-2), 10 * min_variance.value(Y.dtype) ** 0.5
    # Those that differ by rounding alone are constant.
    constant = sd <= 100 * torch.finfo(Y.dtype).eps * Y.abs().amax(-2)
    smallest = sd.masked_fill(constant, torch.inf).min().item()
    if smallest < least:
        warnings.warn(
            f"train_Y has a standard deviation of {smallest:.2g}, but below {least:.0e} "
            "predictions look less sure than they are, as GPyTorch raises smaller variances; use a "
            f"smaller unit, such as 1e{math.ceil(-math.log10(smallest))} * train_Y.",
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
    between = times.shape[-1] >= FEWEST and bool(((times >= 0) & (times <= 1)).all())
    if between and float((times.diff(dim=-1) < 0).double().mean()) > 0.25:
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


def check_transform(transform: InputTransform, X: Tensor, time: int) -> None:
    """Raise if an input transform changes time, or mixes it into other columns.

    A copy is fitted to the data as it is, and another to the data at other times, which are no
    whole numbers and do not lie from 0 to 1: both leave times, and agree in all other columns.

    Args:
        transform: The transform, left as it is.
        X: Training inputs, `... x n x d`, n > 0.
        time: Column of time, counted from 0.

    Raises:
        InputDataError: If so.
    """
    elsewhere, seen = X.clone(), []
    elsewhere[..., time] = 1.6180339887498949 * (1 + X[..., time].abs())
    for given in (X, elsewhere):
        tried = deepcopy(transform).to(X)
        with torch.no_grad():
            tried.train()(given)  # bounds are learned here
            seen.append(tried.eval()(given))
    good = seen[0].shape == X.shape
    if good:
        wanted = seen[0].clone()
        wanted[..., time] = elsewhere[..., time]
        good = torch.equal(seen[1], wanted)
    if not good:
        raise InputDataError(
            f"{type(transform).__name__} changes time, from which ages are read, or mixes it into "
            f"others; leave out column {time}, as in Normalize(d={X.shape[-1]}, "
            f"indices={[i for i in range(X.shape[-1]) if i != time]})."
        )
