"""The adaptive model: a bank of processes conditioned on a dataset."""

from __future__ import annotations

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from botorch_tv.inference.mixture.bank import (
    FIRST,
    MOST_COLUMNS,
    Bank,
    MixtureUnits,
    prior_on_box,
    units_after,
)
from botorch_tv.inference.mixture.filter import mixture_prior
from botorch_tv.kernels.batching import like
from botorch_tv.models.adaptive_model import AdaptiveModel
from botorch_tv.models.checks import check_now, column_of_time, warn_of_no_time
from botorch_tv.models.measurements import (
    check_measurements,
    check_points,
    check_room,
    in_order,
    learned,
    split,
)
from botorch_tv.validation import require


def adaptive_model(
    train_X: Tensor,
    train_Y: Tensor,
    *,
    bounds: Tensor | None = None,
    time_dim: int = -1,
    now: float | Tensor | None = None,
    bank: Bank | None = None,
) -> AdaptiveModel:
    """A model without prior knowledge of rate, lengthscale, noise or scale, and without fitting.

    See :mod:`botorch_tv.inference.mixture` for its members. Observations may be in any units: the
    first four in order of time, with others made at the time of the fourth, or more if these do not
    differ, set the units of y and of time, as in ``adaptive_gp_ucb()``, which has the same
    posterior given the same data. The posterior is a
    mixture; acquisition functions draw a member, then a function. Predictions start at the newest
    observation, so fix time with :func:`~botorch_tv.acquisition.present.at_present`. Several
    outcomes, such as an objective and its constraints, go into ``botorch.models.model.ModelList``.

    Args:
        train_X: Inputs, `batch_shape x n x d`, one column of which is time, in float64.
        train_Y: Observations, `batch_shape x n x 1`.
        bounds: Smallest and largest values of the columns other than time, `2 x (d - 1)`; the unit
            cube by default. Candidate lengthscales are fractions of these sides, whereas
            ``TimeVaryingGP`` learns them in the units of the columns.
        time_dim: Index of the time column.
        now: Present time, a number or `batch_shape`; that of the newest observation if None.
        bank: The candidate processes.

    Raises:
        BotorchTensorDimensionError: If shapes do not fit.
        InputDataError: If a value is not finite, a point lies out of bounds, an observation is
            later than ``now``, all y are the same, dtypes are not float64, or there are more than
            20 columns besides time.
        ValueError: If there is no column ``time_dim``, or bounds are not in order.

    Example:
        >>> model = adaptive_model(train_X, train_Y)
        >>> best = at_present(qUpperConfidenceBound(model, beta=4.0), now=12.0)
        >>> x, _ = optimize_acqf(best, bounds[:, :-1], q=2, num_restarts=4, raw_samples=64)
    """
    time_dim, d = column_of_time(train_X, time_dim), train_X.shape[-1]
    check_measurements(train_X, train_Y, time_dim)
    warn_of_no_time(train_X, time_dim)
    if train_X.shape[:-2] != train_Y.shape[:-2]:
        raise BotorchTensorDimensionError(
            f"train_Y is {tuple(train_Y.shape)} and train_X {tuple(train_X.shape)}, but both need "
            "the same batch shape."
        )
    if not 2 <= d <= MOST_COLUMNS + 1:
        raise InputDataError(
            f"train_X has {d} columns, but a bank serves time and from one to {MOST_COLUMNS} more."
        )
    lower, upper = _corners(bounds, train_X, d - 1)
    prior = prior_on_box(Bank() if bank is None else bank, lower, upper, 0)
    shape = train_X.shape[:-2]
    check_room(prior, shape)
    X, Y = in_order(train_X, train_Y, time_dim)
    points, time = split(X, time_dim)
    check_points(prior, points, time, time.new_full((), -torch.inf))
    running = mixture_prior(prior, shape).flat()
    running = running._replace(
        units=_units(Y.reshape(shape.numel(), -1), time.reshape(shape.numel(), -1)), settled=True
    )
    running = learned(prior, running, points, time, Y)
    if now is not None:
        now = like(now, train_X)
        check_now(now, running.time.view(shape))
        now = now.expand(shape)
    return AdaptiveModel(prior, running, X, Y, time_dim, now)


def _corners(bounds: Tensor | None, like: Tensor, columns: int) -> tuple[Tensor, Tensor]:
    if bounds is None:
        return like.new_zeros(columns), like.new_ones(columns)
    if bounds.shape != (2, columns):
        raise BotorchTensorDimensionError(
            f"bounds are {tuple(bounds.shape)}, but {columns} columns besides time make them "
            f"2 x {columns}."
        )
    lower, upper = bounds.to(like)
    require(
        bool((lower < upper).all()),
        f"bounds are {bounds.tolist()}, but the first row must lie below the second.",
    )
    return lower, upper


def _units(y: Tensor, time: Tensor) -> MixtureUnits:
    """Units of every trial after `T x n` observations, in order of time."""
    n = y.shape[-1]
    units = units_after(
        y, torch.ones_like(y, dtype=torch.bool), time, y.new_zeros(*y.shape, 0), min(n, FIRST)
    )
    if not bool(units.known.all()):
        raise InputDataError(
            f"train_Y holds {n} observations without a spread, from which no unit can be told; add "
            "some that differ."
        )
    return units
