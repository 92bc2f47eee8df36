"""A table of measurements, and what a bank learns from it."""

from __future__ import annotations

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from torch import Size, Tensor

from botorch_tv.inference.mixture.bank import BankPrior
from botorch_tv.inference.mixture.filter import RunningMixture, advanced
from botorch_tv.models.checks import check_inputs, check_magnitude, check_times

OUTSIDE = 1e-6
"""Share of a side by which measurements may lie outside the bounds."""
BEYOND = 0.25
"""The same of points asked about. BoTorch looks a tenth of the baseline's range past its ends for
the least value that an objective may have; further away bounds or units are wrong."""
MOST_NUMBERS = 2**28
"""Most numbers of all covariances, 2 GiB: every trial and fantasy has a matrix per member."""


def check_measurements(X: Tensor, Y: Tensor, time_dim: int) -> None:
    """Raise unless ``X``, `... x n x d`, and ``Y``, `... x n x 1`, are measurements.

    Raises:
        BotorchTensorDimensionError: If shapes do not fit.
        InputDataError: If a number is not finite or too large, or not in float64.
    """
    check_inputs(X)
    if Y.dim() < 2 or Y.shape[-2:] != (X.shape[-2], 1):
        raise BotorchTensorDimensionError(
            f"Y is {tuple(Y.shape)} and X {tuple(X.shape)}, but Y has a row for each of X, and one "
            "column."
        )
    for name, value in (("X", X), ("Y", Y)):
        if value.dtype != torch.float64:
            raise InputDataError(
                f"{name} is {value.dtype}, but covariances that are updated measurement by "
                "measurement lose too many digits in it; use torch.float64."
            )
        if bool(value.isnan().any()):
            raise InputDataError(f"{name} contains NaN; leave out what was not measured.")
    check_times(X[..., time_dim])
    check_magnitude("X", X)
    check_magnitude("Y", Y)


def check_points(
    prior: BankPrior, points: Tensor, time: Tensor, newest: Tensor, beyond: float = OUTSIDE
) -> None:
    """Raise unless points lie within the bounds and no earlier than what was learned from.

    Args:
        prior: Of the bank.
        points: `... x q x d`.
        time: `... x q`.
        newest: Broadcast with it.
        beyond: Share of a side by which they may lie outside.

    Raises:
        InputDataError: If not.
    """
    U = (points.detach() - prior.lower) / (prior.upper - prior.lower)
    out = ~((U - 0.5).abs() <= 0.5 + beyond)
    if bool(out.any()):
        raise InputDataError(
            f"a point has {points[out][0].item():g} in a column that goes from "
            f"{prior.lower.expand_as(U)[out][0].item():g} to "
            f"{prior.upper.expand_as(U)[out][0].item():g}; give bounds that hold all points, "
            "adaptive_model(..., bounds=bounds)."
        )
    early = ~(time.detach() >= newest)
    if bool(early.any()):
        raise InputDataError(
            f"a point has time {time[early][0].item():g}, but the newest measurement was made at "
            f"{newest.expand_as(time)[early][0].item():g}, and a bank knows what holds from then "
            "on; ask at the present by at_present or fixed_features, and for late measurements "
            "make the model anew."
        )


def check_room(prior: BankPrior, shape: Size) -> None:
    """Raise if covariances of so many trials would not fit.

    Raises:
        UnsupportedError: If so.
    """
    per_trial = len(prior.members.rate) * sum(size**2 for size in prior.sizes)
    if shape.numel() * per_trial > MOST_NUMBERS:
        raise UnsupportedError(
            f"{shape.numel()} trials or fantasies of {per_trial} numbers each are more than the "
            f"{MOST_NUMBERS} that a model may hold; use fewer, or a smaller bank, such as "
            "Bank(features=64)."
        )


def in_order(X: Tensor, Y: Tensor, time_dim: int) -> tuple[Tensor, Tensor]:
    """Rows in order of time; those of the same time as they are."""
    order = X[..., time_dim].argsort(stable=True, dim=-1).unsqueeze(-1)
    return X.gather(-2, order.expand_as(X)), Y.gather(-2, order)


def split(X: Tensor, time_dim: int) -> tuple[Tensor, Tensor]:
    """The columns other than time, `... x (d - 1)`, and time, `...`."""
    points = torch.cat([X[..., :time_dim], X[..., time_dim + 1 :]], -1)
    return points, X[..., time_dim]


def learned(
    prior: BankPrior, running: RunningMixture, points: Tensor, time: Tensor, Y: Tensor
) -> RunningMixture:
    """The posterior of flat trials once all rows have been learned from, in their order.

    Args:
        prior: Of the bank.
        running: Before, in units that are known.
        points: `batch_shape x n x d`.
        time: `batch_shape x n`.
        Y: `batch_shape x n x 1`.
    """
    rows, trials = points.shape[-2], len(running.shape)
    X, when, y = points.reshape(trials, rows, -1), time.reshape(trials, rows), Y.reshape(trials, -1)
    one = torch.ones_like(running.shape)
    for row in range(rows):
        running = advanced(prior, running, X[:, row], y[:, row], when[:, row], one, one.bool())
    return running._replace(number=running.number + rows)
