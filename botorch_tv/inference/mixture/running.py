"""The posterior of a bank, advanced by each measurement, and the units it is in."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Size, Tensor

from botorch_tv.forgetting.unit import median_gap
from botorch_tv.inference.linalg import leading
from botorch_tv.inference.mixture.filter import Group, Passage
from botorch_tv.inference.mixture.prior import BankPrior

SHAPE = 2.0
"""A = B of the inverse gamma on s² at first, in units of the starts' spread.

The starts so count twice, here and as measurements, and who begins with some that are alike by
chance takes the world to be as flat for a dozen rounds. The density of no unit, 1 / s², counts them
once. Tried on 30 x 30 arms, on functions other than those reported, it did not lose less over 100
rounds (static +.005 ± .015 of .352 a round, one abrupt change +.003 ± .019 of .515, narrow peaks
+.04 ± .06 of 1.78), and more on two peaks of which one moves (+.15 ± .06 of 1.82): a scale known
less is explored for longer. Together with noise ratios of 0.005, 0.02 and 0.08 it lost less over
400 rounds of a static world (-.030 ± .010 of .112), and again more on the two peaks (+.19 ± .05);
neither alone did so beyond the errors of 24 functions."""


FIRST = 4
"""Measurements that set the units unless said. Each costs about a round of random search. More
of them find narrow peaks more often where little is explored; at the usual width the band does."""


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


class RunningMixture(NamedTuple):
    """The posterior of all members."""

    groups: tuple[Group, ...]
    """Per lengthscale, each tensor with leading `batch_shape`."""
    shape: Tensor
    """A of the inverse gamma on s², `batch_shape`."""
    time: Tensor
    """Of the newest measurement learned from, `batch_shape`, float64."""
    units: MixtureUnits
    number: Tensor
    """Measurements that did not fail, `batch_shape`, int64."""
    information_gain: Tensor
    """Nats that they told, `batch_shape`."""
    jumped: Tensor
    """Time of the first measurement after the newest jump that was more likely than not; NaN for
    none, `batch_shape`, float64."""
    jumped_with: Tensor
    """Chance that the newest jump came just before it, as it was when last above ½,
    `batch_shape`."""
    settled: bool
    """Whether all trials are known to have their units."""

    def flat(self) -> RunningMixture:
        """With one dimension of trials."""
        dims, trials = self.shape.dim(), self.shape.numel()
        return self._mapped(lambda part: part.reshape((trials, *part.shape[dims:])))

    def view(self, shape: Size) -> RunningMixture:
        """What was flat, with dimensions of trials as they were."""
        return self._mapped(lambda part: part.reshape((*shape, *part.shape[1:])))

    def expanded(self, shape: Size) -> RunningMixture:
        """With more trials that know the same; its own dimensions broadcast to ``shape``."""
        dims = self.shape.dim()
        return self._mapped(lambda part: part.expand(Size((*shape, *part.shape[dims:]))))

    def _mapped(self, function: Callable[[Tensor], Tensor]) -> RunningMixture:
        """The same with a function applied to every tensor."""
        return RunningMixture(
            groups=tuple(Group(*map(function, one)) for one in self.groups),
            shape=function(self.shape),
            time=function(self.time),
            units=MixtureUnits(*map(function, self.units)),
            number=function(self.number),
            information_gain=function(self.information_gain),
            jumped=function(self.jumped),
            jumped_with=function(self.jumped_with),
            settled=self.settled,
        )


def first_groups(prior: BankPrior, trials: int) -> tuple[Group, ...]:
    """Before any data, of so many trials."""
    members, like = len(prior.members.rate), prior.variance
    flat = like.new_zeros(trials, members)
    # Before any jump a member has one history; the others wait for their jumps.
    waiting = torch.arange(members, device=like.device) - prior.members.still
    waiting = (waiting > 0) & (waiting % prior.members.histories > 0)
    return tuple(
        Group(
            mean=like.new_zeros(trials, members, size),
            covariance=torch.eye(size, dtype=like.dtype, device=like.device)
            .expand(trials, members, size, size)
            .clone(),
            scale=flat + SHAPE,
            log_weight=flat.masked_fill(waiting, -torch.inf),
            since=flat.double() - torch.inf,
        )
        for size in prior.sizes
    )


def mixture_prior(prior: BankPrior, batch_shape: Size) -> RunningMixture:
    """Before any data."""
    like, trials = prior.variance, batch_shape.numel()
    zero = torch.zeros(trials, dtype=like.dtype, device=like.device)
    time = zero.double()
    context = zero.unsqueeze(-1).expand(-1, prior.context_dim)
    units = MixtureUnits(
        zero, zero + 1, time + 1, context, context + 1, torch.zeros_like(zero, dtype=torch.bool)
    )
    return RunningMixture(
        groups=first_groups(prior, trials),
        shape=zero + SHAPE,
        time=time,
        units=units,
        number=torch.zeros_like(zero, dtype=torch.int64),
        information_gain=zero,
        jumped=time + torch.nan,
        jumped_with=zero,
        settled=False,
    ).view(batch_shape)


def passages(prior: BankPrior, gap: Tensor) -> Passage:
    """What may happen in some time, `T`, in units of the clock; 0 or more."""
    rate, hazard = prior.members.rate, prior.members.hazard
    elapsed = gap.to(rate).unsqueeze(-1)
    return Passage(
        attenuation=torch.exp(0.5 * elapsed * torch.log1p(-rate)),
        jump=-torch.expm1(elapsed * torch.log1p(-hazard)),
    )


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


def first_known(units: MixtureUnits, found: MixtureUnits) -> MixtureUnits:
    """The units of trials that have them already, and what was found for the others."""
    where = units.known
    return MixtureUnits(
        *(torch.where(leading(where, new.dim()), old, new) for old, new in zip(units, found))
    )


def looks_again(number: int) -> bool:
    """Whether the clock is compared with all that was told after so many rounds: 8, 16, 32, ..."""
    return number >= 2 * FIRST and number & (number - 1) == 0


def clock_again(units: MixtureUnits, time: Tensor, good: Tensor) -> tuple[MixtureUnits, Tensor]:
    """Units whose clock is that of all measurements so far, where it was far from it.

    A trial run in seconds before a night of hours, or the first suggestions that take no time to
    compute, would else count rates in a unit in which no drift that matters is slow enough.

    Args:
        units: Before.
        time: Of all measurements, `T x n`.
        good: Which of them did not fail, `T x n`, bool.

    Returns:
        The units, and which trials have another clock, `T`, bool. What these learned counts in the
        old one and is to be learned anew.
    """
    found = median_gap(time, good)
    ratio = found / units.clock
    apart = units.known & ((ratio > APART) | (ratio < 1 / APART))
    return units._replace(clock=torch.where(apart, found, units.clock)), apart


def begun_anew(prior: BankPrior, running: RunningMixture, where: Tensor) -> RunningMixture:
    """Flat trials, some of which have learned nothing yet, in the units that they have."""
    fresh = mixture_prior(prior, where.shape)

    def chosen(old: Tensor, new: Tensor) -> Tensor:
        return torch.where(leading(where, old.dim()), new, old)

    pairs = zip(running.groups, fresh.groups)
    return running._replace(
        groups=tuple(Group(*map(chosen, one, new)) for one, new in pairs),
        shape=chosen(running.shape, fresh.shape),
        time=chosen(running.time, fresh.time),
        information_gain=chosen(running.information_gain, fresh.information_gain),
        jumped=chosen(running.jumped, fresh.jumped),
        jumped_with=chosen(running.jumped_with, fresh.jumped_with),
    )
