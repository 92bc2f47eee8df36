"""The posterior of a bank, advanced by each measurement.

A member's coordinates are whitened features and, behind them, one more for the constant m, which
neither decays nor jumps. Everything is in units of the scale s, which is integrated out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Size, Tensor

from botorch_tv.gp.linalg import leading
from botorch_tv.gp.mixture.bank import BankPrior, Members, MixtureUnits

PROTECTED = 2
"""Number of newest histories that are never replaced, however unlikely."""
WIDER = 2.0
"""Variance of a wrong reading about the level, in units of that predicted without data."""
LIKELY = 0.5
"""From this chance on a jump is noted."""
LARGEST = 1e100
"""Most standard deviations from the mean of the first: squares of more are infinite."""
SHAPE = 2.0
"""A = B of the inverse gamma on s² at first, in units of the starts' spread.

The starts so count twice, here and as measurements; with the density of no unit, 1 / s², a scale
known less is explored for longer. See benchmarks/results/ablations.md."""


class Group(NamedTuple):
    """The posterior of the members of one lengthscale, as K histories, of T trials."""

    mean: Tensor
    """z, `T x K x (r + 1)`."""
    covariance: Tensor
    """P, in units of s², `T x K x (r + 1) x (r + 1)`."""
    scale: Tensor
    """B of the inverse gamma on s², `T x K`."""
    log_weight: Tensor
    """Logarithm of the marginal likelihood times the prior weight, `T x K`."""
    since: Tensor
    """Time of the first observation after the newest jump, minus infinity where there was none,
    `T x K`, float64."""


def weights(groups: tuple[Group, ...]) -> Tensor:
    """The weights of all members, `T x L x K`."""
    log_weight = torch.stack([one.log_weight for one in groups], -2)
    return log_weight.flatten(-2).softmax(-1).view_as(log_weight)


def member_weights(groups: tuple[Group, ...], members: Members) -> Tensor:
    """The weights of all combinations of lengthscale, rate, hazard and noise ratio, `T x L x C`."""
    share = weights(groups)
    total = share.new_zeros(*share.shape[:-1], int(members.member.max()) + 1)
    return total.index_add(-1, members.member, share)


def jump_chance(groups: tuple[Group, ...], time: Tensor) -> Tensor:
    """Chance that the newest jump came just before the measurement at some time, `T -> T`."""
    since = torch.stack([one.since for one in groups], -2)
    return (weights(groups) * (since == time[:, None, None])).sum((-2, -1))


def newest_jump(groups: tuple[Group, ...]) -> tuple[Tensor, Tensor]:
    """Time of the first measurement after the newest jump, the likeliest, and its chance, `T`.

    The time is minus infinity for no jump at all.
    """
    since = torch.stack([one.since for one in groups], -2).flatten(-2)
    share = weights(groups).flatten(-2)
    chance = ((since.unsqueeze(-1) == since.unsqueeze(-2)) * share.unsqueeze(-2)).sum(-1)
    likeliest = chance.argmax(-1, keepdim=True)
    return since.gather(-1, likeliest).squeeze(-1), chance.gather(-1, likeliest).squeeze(-1)


def scales(group: Group, shape: Tensor) -> Tensor:
    """E s² of the members, `T x K`, where A is ``shape``, `T`, above 1."""
    return group.scale / (shape.unsqueeze(-1) - 1)


class RunningMixture(NamedTuple):
    """The posterior of all members."""

    groups: tuple[Group, ...]
    """Per lengthscale, each tensor with leading `batch_shape`."""
    shape: Tensor
    """A of the inverse gamma on s², `batch_shape`."""
    time: Tensor
    """The time of the newest measurement learned from, `batch_shape`, float64."""
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
    """Whether all trials are known to have their units, which time has made final."""

    def _each(self, function: Callable[[Tensor], Tensor]) -> RunningMixture:
        return _mapped(function, self)  # type: ignore[no-any-return]

    def flat(self) -> RunningMixture:
        """With one dimension of trials."""
        dims, trials = self.shape.dim(), self.shape.numel()
        return self._each(lambda part: part.reshape((trials, *part.shape[dims:])))

    def view(self, shape: Size) -> RunningMixture:
        """The same with the dimensions of trials restored."""
        return self._each(lambda part: part.reshape((*shape, *part.shape[1:])))

    def expanded(self, shape: Size) -> RunningMixture:
        """With more trials that know the same; its own dimensions broadcast to ``shape``."""
        dims = self.shape.dim()
        return self._each(lambda part: part.expand(Size((*shape, *part.shape[dims:]))))


def _mapped(function: Callable[..., Tensor], *parts: Any) -> Any:
    """Tuples within tuples of tensors with a function applied to those at the same place."""
    if isinstance(parts[0], Tensor):
        return function(*parts)
    if not isinstance(parts[0], tuple):
        return parts[0]
    inside = [_mapped(function, *some) for some in zip(*parts)]
    return type(parts[0])(*inside) if hasattr(parts[0], "_fields") else tuple(inside)


def mixture_prior(prior: BankPrior, batch_shape: Size) -> RunningMixture:
    """Before any data."""
    members, like, trials = prior.members, prior.variance, batch_shape.numel()
    number = torch.arange(len(members.rate), device=like.device) - members.still
    # Before any jump a member has one history; the others wait for their jumps.
    waiting = (number > 0) & (number % members.histories > 0)
    flat = like.new_zeros(trials, len(number))
    groups = tuple(
        Group(
            mean=like.new_zeros(*flat.shape, size),
            covariance=torch.eye(size, dtype=like.dtype, device=like.device)
            .expand(*flat.shape, size, size)
            .clone(),
            scale=flat + SHAPE,
            log_weight=flat.masked_fill(waiting, -torch.inf),
            since=flat.double() - torch.inf,
        )
        for size in prior.sizes
    )
    zero = like.new_zeros(trials)
    time, context = zero.double(), like.new_zeros(trials, prior.context_dim)
    return RunningMixture(
        groups=groups,
        shape=zero + SHAPE,
        time=time,
        units=MixtureUnits(zero, zero + 1, time + 1, context, context + 1, zero.bool()),
        number=zero.long(),
        information_gain=zero,
        jumped=time + torch.nan,
        jumped_with=zero,
        settled=False,
    ).view(batch_shape)


def passages(prior: BankPrior, gap: Tensor) -> tuple[Tensor, Tensor]:
    """How the objective may move in a time `T` of 0 or more, in units of the clock.

    Returns:
        Its attenuation a and the chance H of a jump for every member, `T x K`.
    """
    elapsed = gap.to(prior.members.rate).unsqueeze(-1)
    attenuation = torch.exp(0.5 * elapsed * torch.log1p(-prior.members.rate))
    return attenuation, -torch.expm1(elapsed * torch.log1p(-prior.members.hazard))


def restarted(prior: BankPrior, running: RunningMixture, where: Tensor) -> RunningMixture:
    """Flat trials of which some are reset to the prior, keeping their units."""
    fresh = mixture_prior(prior, where.shape)._replace(units=running.units, number=running.number)

    def chosen(old: Tensor, new: Tensor) -> Tensor:
        return torch.where(leading(where, old.dim()), new, old)

    return _mapped(chosen, running, fresh)  # type: ignore[no-any-return]


def with_constants(factor: Tensor, like: Tensor) -> Tensor:
    """By what every coordinate is multiplied where features decay, and the constant does not.

    Args:
        factor: Of the features, `T x K`.
        like: Gives the number of coordinates, `T x K x (r + 1)`.
    """
    each = torch.ones_like(like)
    each[..., :-1] = factor.unsqueeze(-1)
    return each


def observed(
    group: Group,
    passage: tuple[Tensor, Tensor],
    shape: Tensor,
    members: Members,
    phi: Tensor,
    residual: Tensor,
    y: Tensor,
    noise: Tensor,
    time: Tensor,
    good: Tensor,
    log_wrong: Tensor,
    *,
    consume: bool = False,
) -> tuple[Group, Tensor]:
    """The group after time has passed and an observation was made.

    Every history goes on without a jump. With some chance r the reading is wrong and says nothing:
    both cases are collapsed into one Gaussian by its mean and covariance. The histories of a member
    that may jump besides end in a common one whose newest jump is now, by their mean and
    covariance: of what was before it only the constant is left. It takes the place of the least
    likely history; not of the two newest, which have had no chance yet to show.

    Args:
        group: Before.
        passage: Attenuation a and chance H of a jump since the observation before, `T x K` each.
        shape: A of the inverse gamma on s² before it, `T`.
        members: Whose histories these are.
        phi: Features of the point, the constant's behind, `T x (r + 1)`.
        residual: Prior variance that the features leave out, `T`.
        y: The observation in units of the starts, `T`.
        noise: ρ times the ratio of this observation, `T x K`.
        time: When, `T`, float64.
        good: Which trials learn from it, `T`, bool.
        log_wrong: Logarithm of the odds that the reading is wrong, times its density then, `T`.
        consume: Whether the covariance of ``group`` may become that of the new one.

    Returns:
        The group, and the information of the observation, ½ ln(S / noise) in nats, `T x K`.
    """
    good, phi, A = good.unsqueeze(-1), phi.unsqueeze(-2), shape.unsqueeze(-1)
    H = torch.where(good, passage[1], 0.0)
    own = residual.unsqueeze(-1) + torch.where(good, noise, 1.0)
    left = with_constants(torch.where(good, passage[0], 1.0), group.mean)
    fresh = 1 - left.square()
    z, P, learned = group.mean * left, group.covariance, good.to(phi)
    # P of now times φ, without P of now; a row times a matrix is read once, and at twice the speed.
    g = torch.addcmul(left * ((left * phi).unsqueeze(-2) @ P).squeeze(-2), fresh, phi)
    S, e = (g * phi).sum(-1) + own, y.unsqueeze(-1) - (z * phi).sum(-1)
    # A wrong reading says nothing of the objective: a history goes on as it was, with the share r.
    wrong = log_wrong.unsqueeze(-1)
    either = torch.logaddexp(log_student(e, S, A, group.scale), wrong)
    r, drift = (wrong - either).exp(), torch.log1p(-H) + either
    jump, jumping = None, slice(members.still, None)
    if H.shape[-1] > members.still:
        before = Group(*(part[:, jumping] for part in group))
        rest = (H[:, jumping], own[:, jumping], phi, y, time, A, members.histories)
        jump = _after_jump(before, *rest)
    covariance = _scaled(P, left, fresh, consume=consume)
    # In place, and not as a product of matrices: of a covariance every pass over memory counts.
    squared, spread = e.square() / S, group.scale / A
    scale = group.scale + 0.5 * learned * ((1 - r) * squared + r * spread)
    weight = learned * (1 - r) * (r * squared * (A + 0.5) / scale - 1) / S
    covariance.addcmul_((g * weight.unsqueeze(-1)).unsqueeze(-1), g.unsqueeze(-2))
    after = Group(
        mean=z + g * (learned * (1 - r) * e / S).unsqueeze(-1),
        covariance=covariance,
        scale=scale,
        log_weight=group.log_weight + torch.where(good, drift, 0.0),
        since=group.since.clone(),
    )
    nats = 0.5 * (1 - r) * torch.where(good, S / noise, 1.0).log()
    if jump is not None:
        _take_in(after, jump, members)
    return after, nats


def _after_jump(
    group: Group,
    H: Tensor,
    own: Tensor,
    phi: Tensor,
    y: Tensor,
    time: Tensor,
    A: Tensor,
    histories: int,
) -> Group:
    """One history per member, whose newest jump came just before an observation.

    Args:
        group: Histories before, next to each other member by member, `T x (J · histories)`.
        H: Their chances of a jump since, of the same shape.
        own: Variance of the observation besides that of the features, of the same shape.
        phi: `T x 1 x (r + 1)`.
        y: `T`.
        time: `T`.
        A: Of the inverse gamma before it, `T x 1`.
        histories: Per member.

    Returns:
        The group of J histories; weights are minus infinity where there can be no jump.
    """
    corner, level = group.covariance[..., -1, -1], group.mean[..., -1]
    g = torch.cat([phi[..., :-1].expand(*corner.shape, -1), corner.unsqueeze(-1)], -1)
    S, e = (g * phi).sum(-1) + own, y.unsqueeze(-1) - level
    jumps = H > 0
    log_weight = group.log_weight + torch.where(jumps, H, 1.0).log()
    log_weight = log_weight + log_student(e, S, A, group.scale)

    by_member = len(H), -1, histories
    logs = log_weight.reshape(by_member)
    share, possible = logs.softmax(-1), jumps.reshape(by_member).any(-1)
    total = torch.where(possible, logs.logsumexp(-1), -torch.inf)
    z = g * (e / S).unsqueeze(-1)
    z[..., -1] += level
    z = z.reshape(*by_member, z.shape[-1])
    mean = (share.unsqueeze(-1) * z).sum(-2)
    scale = (share * (group.scale + 0.5 * e.square() / S).reshape(by_member)).sum(-1)
    apart = z - mean.unsqueeze(-2)
    rows = torch.cat([g.reshape(*by_member, g.shape[-1]), apart], -2)
    spread = (A + 0.5) / scale
    weight = torch.cat([-share / S.reshape(by_member), share * spread.unsqueeze(-1)], -1)
    covariance = (rows * weight.unsqueeze(-1)).mT @ rows
    covariance.diagonal(dim1=-2, dim2=-1)[..., :-1].add_(1.0)
    covariance[..., -1, -1] += (share * corner.reshape(by_member)).sum(-1)
    return Group(mean, covariance, scale, total, time.unsqueeze(-1).expand_as(total))


def _take_in(after: Group, jump: Group, members: Members) -> None:
    """Put histories of a new jump in the places of others, where there can have been one."""
    still, histories = members.still, members.histories
    logs, since = (
        part[:, still:].clone().view(len(part), -1, histories)
        for part in (after.log_weight, after.since)
    )
    newest = since.topk(PROTECTED, -1).values[..., -1:]
    spared = (since >= newest) & (logs > -torch.inf)
    place = logs.masked_fill(spared, torch.inf).argmin(-1)
    # The others inherit its weight, so that a member loses none by being remembered in part.
    left = logs.scatter(-1, place.unsqueeze(-1), -torch.inf).logsumexp(-1)
    trial = torch.arange(len(place), device=place.device).unsqueeze(-1)
    column = still + place + histories * torch.arange(place.shape[-1], device=place.device)
    possible = jump.log_weight > -torch.inf
    inherited = torch.where(possible, logs.logsumexp(-1) - left, 0.0)
    after.log_weight[:, still:] += inherited.repeat_interleave(histories, -1)
    # On a CPU it shows that all were, and nothing of what is replaced need be read.
    every = possible.device.type == "cpu" and bool(possible.all())
    for old, new in zip(after, jump):
        where = leading(possible, new.dim())
        old[trial, column] = new if every else torch.where(where, new, old[trial, column])


def log_student(e: Tensor, S: Tensor, A: Tensor, B: Tensor) -> Tensor:
    """Log density at e of Student's t with 2A degrees of freedom and squared scale (B / A) S."""
    normaliser = torch.lgamma(A + 0.5) - torch.lgamma(A) - 0.5 * torch.log(2 * torch.pi * B * S)
    return normaliser - (A + 0.5) * torch.log1p(e.square() / (2 * B * S))


def _scaled(P: Tensor, left: Tensor, fresh: Tensor, *, consume: bool) -> Tensor:
    """P once coordinates have decayed and gained variances of their own.

    Args:
        P: `T x K x (r + 1) x (r + 1)`.
        left: What is left of each, the same of all features, and 1 of the constant,
            `T x K x (r + 1)`.
        fresh: What each gains, 0 for the constant, `T x K x (r + 1)`.
        consume: Whether P is overwritten.
    """
    # In one pass over memory; the constant's row and column are put right afterwards.
    edge, factor = P[..., -1] * left, left[..., :1].square().unsqueeze(-1)
    out = P.mul_(factor) if consume else P * factor
    out[..., -1], out[..., -1, :] = edge, edge
    out.diagonal(dim1=-2, dim2=-1).add_(fresh)
    return out


def advanced(
    prior: BankPrior,
    running: RunningMixture,
    choice: Tensor,
    y: Tensor,
    time: Tensor,
    ratio: Tensor,
    good: Tensor,
    *,
    consume: bool = False,
) -> RunningMixture:
    """The posterior of flat trials once a measurement has been learned from.

    Args:
        prior: Of the bank.
        running: Before, in units that are known.
        choice: Arms, `T`, int64, or points, `T x (d + c)`.
        y: Measurements in the units of the data, `T`.
        time: When, no earlier than those before, `T`, float64.
        ratio: Noise variances in units of the usual one, `T`.
        good: Which trials learn from theirs, `T`, bool.
        consume: Whether the memory of ``running`` may be reused.
    """
    units, fresh = running.units, running.shape == SHAPE
    gap = (time - running.time) / units.clock
    passage = passages(prior, torch.where(good & ~fresh, gap.clamp_min(0), 0.0))
    y = ((y - units.centre) / units.spread).clamp(-LARGEST, LARGEST)
    share = weights(running.groups)
    noise = ratio.unsqueeze(-1) * prior.members.noise
    log_wrong = _log_wrong(prior, running, share, y)
    every = prior.at(choice.unsqueeze(1), units.context_centre, units.context_spread)
    groups, gain = [], []
    for group, (phi, left) in zip(running.groups, every):
        before = group, passage, running.shape, prior.members
        reading = phi.squeeze(1), left.squeeze(1), y, noise, time, good, log_wrong
        after, nats = observed(*before, *reading, consume=consume)
        groups.append(after)
        gain.append(nats)
    nats = (share * torch.stack(gain, -2)).sum((-2, -1))
    jump, chance = newest_jump(tuple(groups))
    jumps = good & (chance > LIKELY)
    jump = torch.where(jump > -torch.inf, jump, torch.nan)
    return running._replace(
        jumped=torch.where(jumps, jump, running.jumped),
        jumped_with=torch.where(jumps, chance, running.jumped_with),
        groups=tuple(groups),
        shape=running.shape + 0.5 * good,
        time=torch.where(good, time, running.time),
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
