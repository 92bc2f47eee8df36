"""Mean and variance of the mixture at any point, from a mean and a matrix per lengthscale.

Members of one lengthscale share their features, so that the moments of their mixture are those of
one Gaussian: what a point costs does not depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.inference.mixture.bank import Members
from botorch_tv.inference.mixture.filter import Group, Passage, kept


class Moments(NamedTuple):
    """Moments of the members that share a lengthscale, in units of the starts, of T trials."""

    weight: Tensor
    """All of theirs, `T`."""
    mean: Tensor
    """`T x (r + 1)`."""
    covariance: Tensor
    """`T x (r + 1) x (r + 1)`."""
    residual: Tensor
    """s², by which what the features leave out is multiplied, `T`."""

    def at(self, phi: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance, `T x q`, where features are `T x q x (r + 1)` or `q x (r + 1)`."""
        mean = (phi @ self.mean.unsqueeze(-1)).squeeze(-1)
        variance = ((phi @ self.covariance) * phi).sum(-1)
        return mean, variance + self.residual.unsqueeze(-1) * residual


NEGLIGIBLE = 1e-13
"""Weight of a lengthscale below which its contribution is rounding."""


def relevant_lengthscales(groups: tuple[Group, ...]) -> tuple[int, ...]:
    """Indices of the lengthscales with a weight in any trial.

    All of them on a device, which is not waited for.
    """
    share = weights(groups).sum(-1)
    if share.device.type != "cpu":
        return tuple(range(len(groups)))
    return tuple((share > NEGLIGIBLE).any(0).nonzero().flatten().tolist())


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


def moments(
    groups: tuple[Group, ...], passages: Sequence[Passage], shape: Tensor
) -> list[tuple[Moments, ...]]:
    """The mixture after time has passed, as often as there are ways in which it may have.

    Args:
        groups: What the members believe after the newest observation.
        passages: What may have happened since then; covariances are read once for all of these.
        shape: A of the inverse gamma, `T`.

    Returns:
        For every passage, the moments of every group.
    """
    total = torch.stack([one.log_weight.logsumexp(-1) for one in groups], -1).softmax(-1)
    each = [_of_group(one, passages, shape, w) for one, w in zip(groups, total.unbind(-1))]
    return list(zip(*each))


def _of_group(
    group: Group, passages: Sequence[Passage], shape: Tensor, weight: Tensor
) -> list[Moments]:
    w, s2 = group.log_weight.softmax(-1), scales(group, shape)
    worth, P = w * s2, group.covariance
    squares = torch.stack([worth * (1 - H) * a.square() for a, H in passages], -2)
    blocks = (squares @ P.flatten(-2)).view(*squares.shape[:-1], *P.shape[-2:])
    along = torch.stack([worth * (1 - H) * a for a, H in passages], -2)
    edges = along @ P[..., -1]
    edges[..., -1] = (worth * P[..., -1, -1]).sum(-1, keepdim=True)
    both = zip(passages, blocks.unbind(1), edges.unbind(1))
    return [Moments(weight, *_passed(group, w, worth, *one), worth.sum(-1)) for one in both]


def _passed(
    group: Group, w: Tensor, worth: Tensor, passage: Passage, block: Tensor, edge: Tensor
) -> tuple[Tensor, Tensor]:
    """Mean and covariance, from that of the features kept and the constant's row."""
    left, stays = (kept(one, group.mean) for one in (passage.attenuation, 1 - passage.jump))
    before = left * group.mean
    now, share = stays * before, w.unsqueeze(-1)
    mean = (share * now).sum(-2)
    fresh = (worth.unsqueeze(-1) * (1 - stays * left.square())).sum(-2)
    # A jump since, and members that differ, add what lies between their means.
    jumped = (share * stays * (1 - stays)).sqrt() * before
    rows = torch.cat([jumped, share.sqrt() * (now - mean.unsqueeze(-2))], -2)
    covariance = block.contiguous()
    covariance[:, -1], covariance[..., -1] = edge, edge
    covariance.diagonal(dim1=-2, dim2=-1).add_(fresh)
    return mean, covariance.baddbmm_(rows.mT, rows)


def mixed(weight: Tensor, means: Tensor, variances: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of a mixture over the first dimension, `L x T x q`; weights `L x T`."""
    share = weight.unsqueeze(-1)
    mean = (share * means).sum(0)
    variance = (share * (variances + (means - mean).square())).sum(0)
    return mean, variance
