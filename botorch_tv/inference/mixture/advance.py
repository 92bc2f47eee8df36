"""What a measurement does to the posterior of a bank."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.inference.mixture.filter import WIDER, Datum, log_student, observed
from botorch_tv.inference.mixture.moments import newest_jump, scales, weights
from botorch_tv.inference.mixture.prior import BankPrior, with_constant
from botorch_tv.inference.mixture.running import SHAPE, RunningMixture, passages
from botorch_tv.inference.mixture.units import MixtureUnits

LIKELY = 0.5
"""From this chance on a jump is noted."""
LARGEST = 1e100
"""Most standard deviations from the mean of the first: squares of more are infinite."""


class Measurement(NamedTuple):
    """One of every trial, in the units of the data."""

    choice: Tensor
    """Arms, `T`, int64, or points, `T x (d + c)`."""
    y: Tensor
    """`T`."""
    time: Tensor
    """`T`, float64."""
    ratio: Tensor
    """Noise variance in units of the usual one, `T`."""
    good: Tensor
    """Which trials learn from it, `T`, bool."""


def advanced(
    prior: BankPrior, running: RunningMixture, new: Measurement, *, consume: bool = False
) -> RunningMixture:
    """The posterior of flat trials once a measurement has been learned from.

    Args:
        prior: Of the bank.
        running: Before, in units that are known.
        new: No earlier than what was learned before.
        consume: Whether the memory of ``running`` may be reused.
    """
    takes, units = new.good, running.units
    fresh = running.shape == SHAPE
    gap = (new.time - running.time) / units.clock
    passage = passages(prior, torch.where(takes & ~fresh, gap.clamp_min(0), 0.0))
    groups, gain = [], []
    y = ((new.y - units.centre) / units.spread).clamp(-LARGEST, LARGEST)
    share = weights(running.groups)
    log_wrong = _log_wrong(prior, running, share, y)
    for place, group in enumerate(running.groups):
        both = features_at(prior, units, place, new.choice.unsqueeze(1))
        phi, left = (part.squeeze(1) for part in both)
        told = Datum(
            features=phi,
            residual=left,
            y=y,
            noise=new.ratio.unsqueeze(-1) * prior.members.noise,
            time=new.time,
            good=takes,
            log_wrong=log_wrong,
        )
        after, nats = observed(group, passage, told, running.shape, prior.members, consume=consume)
        groups.append(after)
        gain.append(nats)
    nats = (share * torch.stack(gain, -2)).sum((-2, -1))
    jump, chance = newest_jump(tuple(groups))
    jumps = takes & (chance > LIKELY)
    jump = torch.where(jump > -torch.inf, jump, torch.nan)
    return running._replace(
        jumped=torch.where(jumps, jump, running.jumped),
        jumped_with=torch.where(jumps, chance, running.jumped_with),
        groups=tuple(groups),
        shape=running.shape + 0.5 * takes,
        time=torch.where(takes, new.time, running.time),
        information_gain=running.information_gain + nats,
    )


def _log_wrong(prior: BankPrior, running: RunningMixture, share: Tensor, y: Tensor) -> Tensor:
    """Logarithm of the odds that a reading is wrong, times its density then, `T`.

    The density is Student's t with 4 degrees of freedom about the level. It is the same for all
    members, so that a wrong reading says nothing of them either.

    Args:
        prior: Of the bank.
        running: Before the reading.
        share: Weights of its members, `T x L x K`.
        y: The reading, `T`.
    """
    outliers = prior.bank.outliers
    if not outliers:
        return torch.full_like(y, -math.inf)
    level, variance = torch.zeros_like(y), torch.zeros_like(y)
    for own, group in zip(share.unbind(-2), running.groups):
        flat = 1 + prior.members.noise + group.covariance[..., -1, -1]
        level = level + (own * group.mean[..., -1]).sum(-1)
        variance = variance + (own * scales(group, running.shape) * flat).sum(-1)
    shape = torch.full_like(y, SHAPE)
    density = log_student(y - level, WIDER * variance, shape, shape)
    return math.log(outliers / (1 - outliers)) + density


def features_at(
    prior: BankPrior, units: MixtureUnits, number: int, choice: Tensor
) -> tuple[Tensor, Tensor]:
    """Features of a lengthscale, and the variance they leave, at choices of flat trials.

    Args:
        prior: Of the bank.
        units: Of flat trials.
        number: Which lengthscale.
        choice: Arms, `T x q`, or points, `T x q x (d + c)`.

    Returns:
        `T x q x (r + 1)` and `T x q`.
    """
    if prior.tables is not None:
        table, left = prior.tables[number]
        return table[choice], left[choice]
    U = prior.unit(choice, units.context_centre, units.context_spread)
    return with_constant(prior.features[number].at(U))
