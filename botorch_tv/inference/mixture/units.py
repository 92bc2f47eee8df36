"""The units of a bank: a mean and a scale of y and of the context, and a clock.

They come from the first measurements of a trial, so that y, context and time may be in any units.
All that are made at one time count together, so that their order makes no difference.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.forgetting.base import median_gap
from botorch_tv.inference.linalg import leading

FIRST = 4
"""Measurements that set the units unless said. Each costs about a round of random search. More
of them find narrow peaks more often where little is explored; at the usual width the band does."""


TOGETHER = 32
"""Measurements up to which those at the time of the one that completed the units count for them,
too: with each everything is learned anew."""
APART = 3.0
"""How far the clock may be from the median time between all measurements, as a factor; that
between rates that a bank holds possible. Beyond it the rates are no longer those of the data."""


class MixtureUnits(NamedTuple):
    """Found from the first measurements."""

    centre: Tensor
    """Their mean, `batch_shape`."""
    spread: Tensor
    """Their standard deviation, positive, `batch_shape`."""
    clock: Tensor
    """The median time between them, or between all so far where that was looked at again and lay
    far from it, `batch_shape`, float64."""
    context_centre: Tensor
    """Mean of the context, `batch_shape x c`."""
    context_spread: Tensor
    """Its standard deviation, `batch_shape x c`."""
    known: Tensor
    """Whether there were enough, and they differed, `batch_shape`, bool."""


def units_of(y: Tensor, good: Tensor, time: Tensor, context: Tensor, least: int) -> MixtureUnits:
    """Units from all that has been told so far.

    Args:
        y: `T x n`.
        good: Which of them did not fail, `T x n`, bool.
        time: `T x n`.
        context: `T x n x c`.
        least: Measurements that are enough.
    """
    number = good.sum(-1)
    share = good.to(y) / number.clamp_min(1).unsqueeze(-1)
    centre = (share * y).sum(-1)
    spread = (share * (y - centre.unsqueeze(-1)).square()).sum(-1).sqrt()
    # What differs by rounding alone does not differ.
    largest = (good * y.abs()).amax(-1) if y.shape[-1] else torch.zeros_like(centre)
    differs = spread > 1e3 * torch.finfo(y.dtype).eps * largest
    middle = (share.unsqueeze(-1) * context).sum(-2)
    around = (share.unsqueeze(-1) * (context - middle.unsqueeze(-2)).square()).sum(-2).sqrt()
    return MixtureUnits(
        centre=centre,
        spread=torch.where(differs, spread, 1.0),
        clock=median_gap(time, good),
        context_centre=middle,
        context_spread=torch.where(around > 0, around, 1.0),
        known=(number >= least) & differs,
    )


def renewed(
    units: MixtureUnits, y: Tensor, good: Tensor, time: Tensor, context: Tensor, least: int
) -> tuple[MixtureUnits, Tensor]:
    """Units after the newest measurement; they are final once time has moved on.

    Args:
        units: Before it.
        y: `T x n`, like the others as of :func:`units_of`, in order of time.
        good: `T x n`, bool.
        time: `T x n`.
        context: `T x n x c`.
        least: Measurements that are enough.

    Returns:
        The units, and which trials may have others after the next measurement, `T`, bool.
    """
    found = units_of(y, good, time, context, least)
    earlier = units_of(y, good & (time < time[:, -1:]), time, context, least)
    few = good.sum(-1) <= TOGETHER
    moving = ~earlier.known & (~units.known | (found.known & few))
    pairs = zip(found, units)
    return MixtureUnits(
        *(torch.where(leading(moving, new.dim()), new, old) for new, old in pairs)
    ), moving


def checks_clock(number: int) -> bool:
    """Whether the clock is checked after this many rounds: 8, 16, 32, ..."""
    return number >= 2 * FIRST and number & (number - 1) == 0


def checked_clock(units: MixtureUnits, time: Tensor, good: Tensor) -> tuple[MixtureUnits, Tensor]:
    """Units whose clock is replaced by that of all measurements so far, if the two differ much.

    Otherwise a test run of seconds before a night of hours, or the first suggestions, which take
    hardly any time, would set a unit in which no rate is slow enough.

    Args:
        units: Before.
        time: Of all measurements, `T x n`.
        good: Which of them did not fail, `T x n`, bool.

    Returns:
        The units, and which trials have a new clock, `T`, bool; these must relearn everything.
    """
    found = median_gap(time, good)
    ratio = found / units.clock
    apart = units.known & ((ratio > APART) | (ratio < 1 / APART))
    return units._replace(clock=torch.where(apart, found, units.clock)), apart


def units_after(y: Tensor, good: Tensor, time: Tensor, context: Tensor, least: int) -> MixtureUnits:
    """The units of trials that were told these measurements one by one; arguments as above."""
    units = units_of(y[:, :0], good[:, :0], time[:, :0], context[:, :0], least)
    moving = ~units.known
    for told in range(least, y.shape[-1] + 1):
        if bool(moving.any()):
            y_now, good_now, time_now = (part[:, :told] for part in (y, good, time))
            units, moving = renewed(units, y_now, good_now, time_now, context[:, :told], least)
        if checks_clock(told):
            units, _ = checked_clock(units, time[:, :told], good[:, :told])
    return units
