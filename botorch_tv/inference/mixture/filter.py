"""The posterior of the members that share a lengthscale, and what an observation does to it.

Coordinates are whitened features and, behind them, one more for the constant m, which neither
decays nor jumps. Everything is in units of the scale s, which is integrated out.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.inference.linalg import leading
from botorch_tv.inference.mixture.bank import Members

PROTECTED = 2
"""Number of newest histories that are never replaced, however unlikely."""
WIDER = 2.0
"""Variance of a wrong reading about the level, in units of that predicted without data."""


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


class Passage(NamedTuple):
    """How the objective may have moved since the last observation."""

    attenuation: Tensor
    """a, `T x K`."""
    jump: Tensor
    """H, `T x K`."""


class Datum(NamedTuple):
    """An observation of every trial."""

    features: Tensor
    """φ, the constant's behind, `T x (r + 1)`."""
    residual: Tensor
    """Prior variance that the features leave out, `T`."""
    y: Tensor
    """In units of the starts, `T`."""
    noise: Tensor
    """ρ times what it was told with, `T x K`."""
    time: Tensor
    """`T`, float64."""
    good: Tensor
    """Whether there is anything to learn from, `T`, bool."""
    log_wrong: Tensor
    """Logarithm of the odds that the reading is wrong, times its density then, `T`."""


def kept(factor: Tensor, like: Tensor) -> Tensor:
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
    passage: Passage,
    told: Datum,
    shape: Tensor,
    members: Members,
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
        passage: Since the observation before.
        told: The new one.
        shape: A of the inverse gamma on s² before it, `T`.
        members: Whose histories these are.
        consume: Whether the covariance of ``group`` may become that of the new one.

    Returns:
        The group, and what the observation told, ½ ln(S / noise) in nats, `T x K`.
    """
    good, phi, A = told.good.unsqueeze(-1), told.features.unsqueeze(-2), shape.unsqueeze(-1)
    H = torch.where(good, passage.jump, 0.0)
    own = told.residual.unsqueeze(-1) + torch.where(good, told.noise, 1.0)
    left = kept(torch.where(good, passage.attenuation, 1.0), group.mean)
    fresh = 1 - left.square()
    z, P, learned = group.mean * left, group.covariance, good.to(phi)
    # P of now times φ, without P of now; a row times a matrix is read once, and at twice the speed.
    g = torch.addcmul(left * ((left * phi).unsqueeze(-2) @ P).squeeze(-2), fresh, phi)
    S, e = (g * phi).sum(-1) + own, told.y.unsqueeze(-1) - (z * phi).sum(-1)
    # A wrong reading says nothing of the objective: a history goes on as it was, with the share r.
    wrong = told.log_wrong.unsqueeze(-1)
    either = torch.logaddexp(log_student(e, S, A, group.scale), wrong)
    r, drift = (wrong - either).exp(), torch.log1p(-H) + either
    jump, jumping = None, slice(members.still, None)
    if H.shape[-1] > members.still:
        before = Group(*(part[:, jumping] for part in group))
        jump = after_jump(before, H[:, jumping], own[:, jumping], told, shape, members.histories)
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
    nats = 0.5 * (1 - r) * torch.where(good, S / told.noise, 1.0).log()
    if jump is not None:
        _take_in(after, jump, members)
    return after, nats


def after_jump(
    group: Group, H: Tensor, own: Tensor, told: Datum, shape: Tensor, histories: int
) -> Group:
    """One history per member, whose newest jump came just before an observation.

    Args:
        group: Histories before, next to each other member by member, `T x (J · histories)`.
        H: Their chances of a jump since, of the same shape.
        own: Variance of the observation besides that of the features, of the same shape.
        told: The observation.
        shape: A before it, `T`.
        histories: Per member.

    Returns:
        The group of J histories; weights are minus infinity where there can be no jump.
    """
    phi, A = told.features.unsqueeze(-2), shape.unsqueeze(-1)
    corner, level = group.covariance[..., -1, -1], group.mean[..., -1]
    g = torch.cat([phi[..., :-1].expand(*corner.shape, -1), corner.unsqueeze(-1)], -1)
    S, e = (g * phi).sum(-1) + own, told.y.unsqueeze(-1) - level
    jumps = H > 0
    log_weight = group.log_weight + torch.where(jumps, H, 1.0).log()
    log_weight = log_weight + log_student(e, S, A, group.scale)

    def by_member(part: Tensor) -> Tensor:
        return _by_member(part, histories)

    logs = by_member(log_weight)
    share, possible = logs.softmax(-1), by_member(jumps).any(-1)
    total = torch.where(possible, logs.logsumexp(-1), -torch.inf)
    z = g * (e / S).unsqueeze(-1)
    z[..., -1] += level
    z = by_member(z)
    mean = (share.unsqueeze(-1) * z).sum(-2)
    scale = (share * by_member(group.scale + 0.5 * e.square() / S)).sum(-1)
    apart = z - mean.unsqueeze(-2)
    rows = torch.cat([by_member(g), apart], -2)
    spread = (A + 0.5) / scale
    weight = torch.cat([-share / by_member(S), share * spread.unsqueeze(-1)], -1)
    covariance = (rows * weight.unsqueeze(-1)).mT @ rows
    covariance.diagonal(dim1=-2, dim2=-1)[..., :-1].add_(1.0)
    covariance[..., -1, -1] += (share * by_member(corner)).sum(-1)
    return Group(mean, covariance, scale, total, told.time.unsqueeze(-1).expand_as(total))


def _by_member(part: Tensor, histories: int) -> Tensor:
    """`T x (J · histories) x * -> T x J x histories x *`."""
    return part.reshape(part.shape[0], -1, histories, *part.shape[2:])


def _take_in(after: Group, jump: Group, members: Members) -> None:
    """Put histories of a new jump in the places of others, where there can have been one."""
    still, histories = members.still, members.histories
    logs = _by_member(after.log_weight[:, still:].clone(), histories)
    since = _by_member(after.since[:, still:].clone(), histories)
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
