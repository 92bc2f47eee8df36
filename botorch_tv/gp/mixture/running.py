"""The posterior of a bank of candidate processes: its parts, before and after the newest block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from botorch_tv.gp.linalg import leading
from botorch_tv.gp.mixture.bank import BankPrior, MixtureUnits
from botorch_tv.gp.mixture.span import Span

SHAPE = 2.0
"""Initial parameters A = B of the inverse gamma distribution of s², in units of the spread of the
first measurements.

The first measurements therefore count twice: they set the units, and they are data. With the
scale-free density 1 / s² instead, a strategy explores for longer; see
benchmarks/results/ablations.md."""


class Summary(NamedTuple):
    """The posterior of K histories for each of L lengthscales, apart from the matrices M."""

    span: Span
    """Measured points, in n slots."""
    mean: Tensor
    """Coordinates a of the means, the constant first, `T x L x K x (n + 1)`."""
    factor: Tensor
    """Factor by which entries of a stored matrix are multiplied for each index other than 0,
    `T x L x K`."""
    scale: Tensor
    """Parameter B of the inverse gamma distribution of s², `T x L x K`."""
    log_weight: Tensor
    """Logarithm of the marginal likelihood times the prior weight, `T x L x K`."""
    since: Tensor
    """Time of the first observation after the newest jump, -infinity without a jump, `T x L x K`,
    float64."""
    shape: Tensor
    """Parameter A of the inverse gamma distribution of s², `T`."""
    time: Tensor
    """The time of the newest measurement used, `T`, float64."""
    information_gain: Tensor
    """Information gain of the measurements in nats, `T`."""

    @property
    def weights(self) -> Tensor:
        """The weights of all histories, `T x L x K`."""
        return self.log_weight.flatten(-2).softmax(-1).view_as(self.log_weight)

    @property
    def variances(self) -> Tensor:
        """Mean of s² per history, B / (A - 1), `T x L x K`; A always exceeds 1."""
        return self.scale / (self.shape[:, None, None] - 1)


class Block(NamedTuple):
    """Measurements at the newest time, and what they add to the matrices of the histories."""

    points: Tensor
    """Measured points of the unit cube, `T x q x d`."""
    y: Tensor
    """Measurements in standardised units, `T x q`."""
    variance: Tensor
    """Given noise variances in standardised units; 0 if not given, `T x q`."""
    good: Tensor
    """Which of the measurements a trial has and learns from, `T x q`, bool."""
    steps: Tensor
    """Vectors u, `T x L x K x (n + 1) x q`."""
    weights: Tensor
    """W, so that the block adds u W uᵀ to a matrix M, `T x L x K x q x q`."""
    coordinates: Tensor
    """Coordinates of the constant and of the measured points, `T x L x (n + 1) x (q + 1)`."""
    jumped: Tensor
    """Matrix of the history with a jump just before the block, in ``coordinates``, for each of J
    members that jump, `T x L x J x (q + 1) x (q + 1)`."""
    place: Tensor
    """Index of the history that this history replaces, `T x L x J`, int64."""
    replaces: Tensor
    """Whether it does: not without a possible jump, `T x L x J`, bool."""


class RunningMixture(NamedTuple):
    """The posterior of all members in T trials: K histories for each of L lengthscales."""

    now: Summary
    """The posterior, apart from the matrices."""
    before: Summary
    """The posterior before the newest block; its time is that of the block before."""
    matrices: Tensor
    """Matrices M before the newest block, divided by the factors in ``before``,
    `T x L x K x (n + 1) x (n + 1)`."""
    rows: Tensor
    """Coordinates of the M arms of a grid, `T x L x n x M`; no arms on a box."""
    block: Block
    units: MixtureUnits
    jumped: Tensor
    """Time of the first measurement after the newest jump with probability above ½ given a later
    measurement; NaN for none, `T`, float64."""
    jumped_with: Tensor
    """Probability that the newest jump came just before ``jumped``, when it last exceeded ½,
    `T`."""
    settled: bool
    """Whether the units of all trials are final."""
    used: int
    """Upper bound of the numbers of slots in use before the block."""

    def member_weights(self, prior: BankPrior) -> Tensor:
        """The weight of every member, `T x L x C`.

        The last dimension has an entry for each combination of rate, hazard and noise ratio.
        """
        share = self.now.weights
        total = share.new_zeros(*share.shape[:-1], int(prior.member.max()) + 1)
        return total.index_add(-1, prior.member, share)

    def jump_chance(self, time: Tensor) -> Tensor:
        """Probability that the newest jump came just before ``time``, `T`."""
        return (self.now.weights * (self.now.since == time[:, None, None])).sum((-2, -1))

    def newest_jump(self) -> tuple[Tensor, Tensor]:
        """Most probable time of the newest jump, and the probability of this time.

        The time of a jump is the time of the first measurement after the jump. If it is most
        probable that no jump has occurred, the returned time is -infinity. Both results are `T`.
        """
        since, share = self.now.since.flatten(-2), self.now.weights.flatten(-2)
        same = since.unsqueeze(-1) == since.unsqueeze(-2)
        chance = (same.to(share) @ share.unsqueeze(-1)).squeeze(-1)
        likeliest = chance.argmax(-1, keepdim=True)
        return since.gather(-1, likeliest).squeeze(-1), chance.gather(-1, likeliest).squeeze(-1)

    def repeated(self, trials: Tensor) -> RunningMixture:
        """The posteriors of some trials, which may repeat, given their indices."""
        return _mapped(lambda part: part[trials], self)

    # ------------------------------------------------------------- the matrices after the block

    def total(self, points: Tensor, edges: Tensor, corner: Tensor) -> Tensor:
        """Weighted sums of the matrices M per lengthscale, `T x L x P x (n + 1) x (n + 1)`.

        Args:
            points: P weights of every history, `T x L x P x K`, for entries between coordinates
                of points.
            edges: Weights for entries between these coordinates and the constant.
            corner: Weights for the entry of the constant.
        """
        M, block, each = self.matrices, self.block, self.now.factor.unsqueeze(-2)
        weights = torch.stack([points, edges, corner])
        replaced = torch.zeros_like(self.now.scale, dtype=torch.bool)
        replaced.scatter_(-1, block.place, block.replaces)
        points, edges, corner = weights.masked_fill(replaced.unsqueeze(-2), 0.0)
        total = (points * each.square()) @ M.flatten(-2)
        total = total.view(*total.shape[:-1], *M.shape[-2:])
        edge = (edges * each) @ M[..., 0, :]
        last = corner @ M[..., 0, :1]
        u, weighed = block.steps, block.steps @ block.weights
        left, right = (part.movedim(-3, -2).flatten(-2) for part in (weighed, u))
        repeats = points.repeat_interleave(u.shape[-1], -1).unsqueeze(-2)
        total = total + (left.unsqueeze(-3) * repeats) @ right.unsqueeze(-3).mT
        first = (u @ weighed[..., :1, :].mT).squeeze(-1)
        edge, last = edge + edges @ first, last + corner @ first[..., :1]
        total[..., 0, :], total[..., 0] = edge, edge
        total[..., :1, 0] = last
        if block.place.shape[-1]:
            at = block.place.unsqueeze(-2).expand(*points.shape[:-1], -1)
            own = weights.gather(-1, at.expand(3, *at.shape))
            own = own.masked_fill(~block.replaces.unsqueeze(-2), 0.0) @ block.jumped.flatten(-2)
            points, edge, last = own.view(*own.shape[:-1], *block.jumped.shape[-2:])
            small = points.clone()
            small[..., 0, :], small[..., 0] = edge[..., 0, :], edge[..., 0, :]
            small[..., 0, 0] = last[..., 0, 0]
            outer = block.coordinates.unsqueeze(-3)
            total = total + outer @ small @ outer.mT
        return total

    def matrix(self, trial: Tensor, lengthscale: Tensor, member: Tensor) -> Tensor:
        """Matrices M of single histories, `m x (n + 1) x (n + 1)`, given three indices, `m`."""
        at, block = (trial, lengthscale, member), self.block
        M, factor = self.matrices[at].clone(), self.now.factor[at][:, None, None]
        M[:, 1:] *= factor
        M[:, :, 1:] *= factor
        u = block.steps[at]
        M = M + u @ block.weights[at] @ u.mT
        if block.place.shape[-1]:
            place, replaces = (part[trial, lengthscale] for part in (block.place, block.replaces))
            same = (place == member.unsqueeze(-1)) & replaces
            small = block.jumped[trial, lengthscale, same.view(torch.uint8).argmax(-1)]
            outer = block.coordinates[trial, lengthscale]
            M = torch.where(same.any(-1)[:, None, None], outer @ small @ outer.mT, M)
        return M


def mixture_prior(prior: BankPrior, trials: int, q: int = 1, slots: int = 1) -> RunningMixture:
    """The posterior before any data, with a block of q measurements that no trial has.

    Args:
        prior: The prior of the candidate processes.
        trials: Number T of trials.
        q: Size of the block, at least 1.
        slots: Number of slots for measured points, at least q.
    """
    T, L, K = trials, len(prior.lengthscales), len(prior.rate)
    d, H = len(prior.lower) + prior.context_dim, prior.bank.histories
    zeros = prior.variance.new_zeros
    number = torch.arange(K, device=prior.variance.device) - prior.never_jumping
    # Before any jump a member has one history; its other histories have weight 0.
    waiting = (number > 0) & (number % H > 0)
    J = (K - prior.never_jumping) // H
    zero, context, flat = zeros(T), zeros(T, prior.context_dim), zeros(T, L, K)
    time = zero.double()
    nothing = Summary(
        span=Span(
            points=zeros(T, L, slots, d),
            root=zeros(T, L, slots, slots),
            used=zeros(T, L, slots, dtype=torch.bool),
        ),
        mean=zeros(T, L, K, slots + 1),
        factor=flat + 1,
        scale=flat + SHAPE,
        log_weight=flat.masked_fill(waiting, -torch.inf),
        since=flat.double() - torch.inf,
        shape=zero + SHAPE,
        time=time,
        information_gain=zero,
    )
    block = Block(
        points=zeros(T, q, d),
        y=zeros(T, q),
        variance=zeros(T, q),
        good=zeros(T, q, dtype=torch.bool),
        steps=zeros(T, L, K, slots + 1, q),
        weights=zeros(T, L, K, q, q),
        coordinates=zeros(T, L, slots + 1, q + 1),
        jumped=zeros(T, L, J, q + 1, q + 1),
        place=zeros(T, L, J, dtype=torch.int64),
        replaces=zeros(T, L, J, dtype=torch.bool),
    )
    return RunningMixture(
        now=nothing,
        before=nothing,
        matrices=zeros(T, L, K, slots + 1, slots + 1),
        rows=zeros(T, L, slots, 0 if prior.points is None else prior.arms),
        block=block,
        units=MixtureUnits(
            zero, zero + 1, time + 1, context, context + 1, zero.bool(), zeros(T, d) + 1
        ),
        jumped=time + torch.nan,
        jumped_with=zero,
        settled=False,
        used=0,
    )


def chosen(where: Tensor, first: Any, second: Any) -> Any:
    """The values of ``first`` in trials that a mask, `T`, selects, otherwise of ``second``."""
    return _mapped(
        lambda other, one: torch.where(leading(where, one.dim()), one, other), second, first
    )


def _mapped(function: Callable[..., Tensor], *parts: Any) -> Any:
    """Apply a function to corresponding tensors of nested tuples."""
    if isinstance(parts[0], Tensor):
        return function(*parts)
    if not isinstance(parts[0], tuple):
        return parts[0]
    return type(parts[0])(*(_mapped(function, *some) for some in zip(*parts)))


def enlarged(running: RunningMixture, more: int) -> RunningMixture:
    """The posterior with further free slots."""
    pad, block = torch.nn.functional.pad, running.block

    def larger(summary: Summary) -> Summary:
        span, mean = summary.span.enlarged(more), pad(summary.mean, (0, more))
        return summary._replace(span=span, mean=mean)

    return running._replace(
        now=larger(running.now),
        before=larger(running.before),
        matrices=pad(running.matrices, (0, more, 0, more)),
        rows=pad(running.rows, (0, 0, 0, more)),
        block=block._replace(
            steps=pad(block.steps, (0, 0, 0, more)),
            coordinates=pad(block.coordinates, (0, 0, 0, more)),
        ),
    )
