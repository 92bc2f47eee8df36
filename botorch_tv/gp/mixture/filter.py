"""The posterior of a bank of candidate processes, updated by each measurement.

A history of a member is a Gaussian process: f = m + g with a constant m. Drift, jumps, merged
histories and outliers all leave it in the span of m and of the kernel at the measured points x_1
... x_n,

    mean = cᵀ a,   covariance = k(x, x') + 1 - cᵀ M c',   c = [1, k(x_1, x), ..., k(x_n, x)],

in units of the scale s, which is integrated out. Let own(x) be the coordinates of a point: a unit
vector for a new point, Q k_x with Q = K⁻¹ for a point that the others represent. With the noise ρ,

    time passes:  M_ij ← α² M_ij, M_0i ← α M_0i, a_i ← α a_i,
    observation:  u = own(x) + 1_0 - M c, S = k + 1 - cᵀ M c + ρ, e = y - cᵀ a,
                  a ← a + u e / S, M ← M + u uᵀ / S,
    jump:         M and a keep their entries for the constant; all others become 0.

Measurements at one time are a block, one observation of a vector, so their order does not matter.
The newest block is held apart from the matrices until a later measurement arrives, because further
measurements at its time change what is learned from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Size, Tensor

from botorch_tv.gp.linalg import leading
from botorch_tv.gp.mixture.bank import BankPrior, MixtureUnits
from botorch_tv.gp.mixture.columns import GROWTH, Columns, gaussian

PROTECTED = 2
"""Number of histories of a member that are never replaced: the histories with the newest jumps."""
WIDER = 2.0
"""Variance of an outlier about the constant m, as a multiple of the variance predicted without
data."""
LIKELY_JUMP = 0.5
"""Probability above which a jump is recorded."""
LARGEST = 1e100
"""Absolute value to which larger standardised measurements and time gaps are reduced, because the
squares of much larger numbers are infinite."""
SHAPE = 2.0
"""Initial parameters A = B of the inverse gamma distribution of s², in units of the spread of the
first measurements.

The first measurements therefore count twice: they set the units, and they are data. With the
scale-free density 1 / s² instead, a strategy explores for longer; see
benchmarks/results/ablations.md."""
SMALLEST_FACTOR = 1e-3
"""Factor on a matrix below which the matrix itself is multiplied."""


class Summary(NamedTuple):
    """The posterior of K histories for each of L lengthscales, apart from the matrices M."""

    columns: tuple[Columns, ...]
    """Measured points per lengthscale, in n slots."""
    mean: tuple[Tensor, ...]
    """Coordinates a of the means, per lengthscale `batch_shape x K x (n + 1)`; the constant comes
    first."""
    factor: tuple[Tensor, ...]
    """Factor q by which entries of a stored matrix are multiplied for each index other than 0, per
    lengthscale `batch_shape x K`."""
    scale: Tensor
    """Parameter B of the inverse gamma distribution of s², `batch_shape x L x K`."""
    log_weight: Tensor
    """Logarithm of the marginal likelihood times the prior weight, `batch_shape x L x K`."""
    since: Tensor
    """Time of the first observation after the newest jump, -infinity without a jump,
    `batch_shape x L x K`, float64."""
    shape: Tensor
    """Parameter A of the inverse gamma distribution of s², `batch_shape`."""
    time: Tensor
    """The time of the newest measurement used, `batch_shape`, float64."""
    information_gain: Tensor
    """Information gain of the measurements in nats, `batch_shape`."""


class Block(NamedTuple):
    """Measurements at the newest time, and what they add to the matrices of the histories."""

    points: Tensor
    """Measured points of the unit cube, `batch_shape x q x d`."""
    y: Tensor
    """Measurements in standardised units, `batch_shape x q`."""
    ratio: Tensor
    """Noise variances relative to the default, `batch_shape x q`."""
    good: Tensor
    """Which of the measurements a trial has and learns from, `batch_shape x q`, bool."""
    steps: tuple[Tensor, ...]
    """Vectors u, per lengthscale `batch_shape x K x (n + 1) x q`."""
    weights: Tensor
    """W, so that the block adds u W uᵀ to a matrix M, `batch_shape x L x K x q x q`."""
    coordinates: tuple[Tensor, ...]
    """Coordinates of the constant and of the measured points, per lengthscale
    `batch_shape x (n + 1) x (q + 1)`."""
    jumped: Tensor
    """Matrix of the history with a jump just before the block, in ``coordinates``, for each of J
    members that jump, `batch_shape x L x J x (q + 1) x (q + 1)`."""
    place: Tensor
    """Index of the history that this history replaces, `batch_shape x L x J`, int64."""
    replaces: Tensor
    """Whether it does: not without a possible jump, `batch_shape x L x J`, bool."""


class RunningMixture(NamedTuple):
    """The posterior of all members: K histories for each of L lengthscales."""

    now: Summary
    """The posterior, apart from the matrices."""
    before: Summary
    """The posterior before the newest block; its time is that of the block before."""
    matrices: tuple[Tensor, ...]
    """Matrices M before the newest block, divided by the factors in ``before``, per lengthscale
    `batch_shape x K x (n + 1) x (n + 1)`."""
    rows: tuple[Tensor, ...]
    """On a grid of M arms, the covariances of the measured points with all arms, per lengthscale
    `batch_shape x n x M`; empty on a box."""
    block: Block
    units: MixtureUnits
    jumped: Tensor
    """Time of the first measurement after the newest jump with probability above ½ given a later
    measurement; NaN for none, `batch_shape`, float64."""
    jumped_with: Tensor
    """Probability that the newest jump came just before ``jumped``, when it last exceeded ½,
    `batch_shape`."""
    settled: bool
    """Whether the units of all trials are final."""
    used: tuple[int, ...]
    """Upper bounds of the numbers of slots in use before the block, one per lengthscale."""

    @property
    def time(self) -> Tensor:
        """The time of the newest measurement used, `batch_shape`, float64."""
        return self.now.time

    @property
    def weights(self) -> Tensor:
        """The weights of all members, `batch_shape x L x K`."""
        return weights_of(self.now)

    @property
    def variances(self) -> Tensor:
        """Mean of s² per member, B / (A - 1), `batch_shape x L x K`; A always exceeds 1."""
        return self.now.scale / (self.now.shape[..., None, None] - 1)

    def member_weights(self, prior: BankPrior) -> Tensor:
        """The weight of every member, `batch_shape x L x C`.

        The last dimension has an entry for each combination of rate, hazard and noise ratio.
        """
        share = self.weights
        total = share.new_zeros(*share.shape[:-1], int(prior.member.max()) + 1)
        return total.index_add(-1, prior.member, share)

    def jump_chance(self, time: Tensor) -> Tensor:
        """Probability that the newest jump came just before ``time``, `batch_shape`."""
        return (self.weights * (self.now.since == time[..., None, None])).sum((-2, -1))

    def newest_jump(self) -> tuple[Tensor, Tensor]:
        """Most probable time of the newest jump, and the probability of this time.

        The time of a jump is the time of the first measurement after the jump. If it is most
        probable that no jump has occurred, the returned time is -infinity. Both results are
        `batch_shape`.
        """
        since, share = self.now.since.flatten(-2), self.weights.flatten(-2)
        chance = ((since.unsqueeze(-1) == since.unsqueeze(-2)) * share.unsqueeze(-2)).sum(-1)
        likeliest = chance.argmax(-1, keepdim=True)
        return since.gather(-1, likeliest).squeeze(-1), chance.gather(-1, likeliest).squeeze(-1)

    def _each(self, function: Callable[[Tensor], Tensor]) -> RunningMixture:
        return _mapped(function, self)

    def flat(self) -> RunningMixture:
        """The posterior with the batch shape flattened to one dimension of trials."""
        dims, trials = self.time.dim(), self.time.numel()
        return self._each(lambda part: part.reshape((trials, *part.shape[dims:])))

    def view(self, shape: Size) -> RunningMixture:
        """The posterior with the batch shape restored."""
        return self._each(lambda part: part.reshape((*shape, *part.shape[1:])))

    def expanded(self, shape: Size) -> RunningMixture:
        """The posterior broadcast to a batch shape."""
        dims = self.time.dim()
        return self._each(lambda part: part.expand(Size((*shape, *part.shape[dims:]))))

    # ------------------------------------------------------------- the matrices after the block

    def replaced(self) -> Tensor:
        """Which histories the history with the newest jump replaces, `T x L x K`, bool."""
        place, replaces = self.block.place, self.block.replaces
        return torch.zeros_like(self.now.scale, dtype=torch.bool).scatter_(-1, place, replaces)

    def total(self, number: int, weights: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Weighted sums of the matrices M of a lengthscale, `T x P x (n + 1) x (n + 1)`.

        Args:
            number: Index of the lengthscale.
            weights: P weights of every history, `T x P x K` each: for entries between points,
                between points and the constant, and of the constant.
        """
        M, q, block = self.matrices[number], self.now.factor[number].unsqueeze(1), self.block
        replaced = self.replaced()[:, number].unsqueeze(1)
        points, edges, corner = (part.masked_fill(replaced, 0.0) for part in weights)
        total = ((points * q.square()) @ M.flatten(-2)).view(*points.shape[:2], *M.shape[-2:])
        edge = (edges * q) @ M[..., 0, :]
        edge[..., 0] = (corner @ M[..., 0, 0].unsqueeze(-1)).squeeze(-1)
        u = block.steps[number]
        weighed = u @ block.weights[:, number]
        rows, others = (part.movedim(2, 1).flatten(-2) for part in (weighed, u))
        each = points.repeat_interleave(u.shape[-1], -1).unsqueeze(-2)
        total = total + (rows.unsqueeze(1) * each) @ others.unsqueeze(1).mT
        first = (weighed[..., :1, :] * u).sum(-1)
        edge = edge + edges @ first
        edge[..., 0] += ((corner - edges) @ first[..., 0].unsqueeze(-1)).squeeze(-1)
        total[..., 0, :], total[..., 0] = edge, edge
        place, small = block.place[:, number], block.jumped[:, number].flatten(-2)
        if place.shape[-1]:
            at = place.unsqueeze(1).expand(-1, points.shape[1], -1)
            zero = ~block.replaces[:, number].unsqueeze(1)
            own = [part.gather(-1, at).masked_fill(zero, 0.0) for part in weights]
            inner = block.jumped.shape[-1]
            points, edges, corner = (
                (part @ small).view(*part.shape[:2], inner, inner) for part in own
            )
            points[..., 0, :], points[..., 0] = edges[..., 0, :], edges[..., 0]
            points[..., 0, 0] = corner[..., 0, 0]
            outer = block.coordinates[number].unsqueeze(1)
            total = total + outer @ points @ outer.mT
        return total

    def matrix(self, number: int, trial: Tensor, member: Tensor) -> Tensor:
        """Matrices M of single histories of a lengthscale, `m x (n + 1) x (n + 1)`.

        Args:
            number: Index of the lengthscale.
            trial: Indices of trials, `m`, int64.
            member: Indices of histories, `m`, int64.
        """
        at, block = (trial, member), self.block
        M = _multiplied(self.matrices[number][at], self.now.factor[number][at])
        u = block.steps[number][at]
        M = M + u @ block.weights[:, number][at] @ u.mT
        if block.place.shape[-1]:
            same = (block.place[:, number][trial] == member.unsqueeze(-1)) & block.replaces[
                :, number
            ][trial]
            small = block.jumped[:, number][trial, same.view(torch.uint8).argmax(-1)]
            outer = block.coordinates[number][trial]
            M = torch.where(same.any(-1)[:, None, None], outer @ small @ outer.mT, M)
        return M


def weights_of(summary: Summary) -> Tensor:
    """The weights of all histories, `batch_shape x L x K`."""
    return summary.log_weight.flatten(-2).softmax(-1).view_as(summary.log_weight)


def _multiplied(M: Tensor, factor: Tensor) -> Tensor:
    """Matrices, `* x (n + 1) x (n + 1)`, multiplied by a factor, `*`, for each index except 0."""
    each = with_constant(factor.unsqueeze(-1).expand(*factor.shape, M.shape[-1] - 1))
    return M * each.unsqueeze(-1) * each.unsqueeze(-2)


def with_constant(rest: Tensor) -> Tensor:
    """A first entry 1 before the entries `* x n`."""
    return torch.nn.functional.pad(rest, (1, 0), value=1.0)


def _mapped(function: Callable[..., Tensor], *parts: Any) -> Any:
    """Apply a function to corresponding tensors of nested tuples."""
    if isinstance(parts[0], Tensor):
        return function(*parts)
    if not isinstance(parts[0], tuple):
        return parts[0]
    inside = [_mapped(function, *some) for some in zip(*parts)]
    return type(parts[0])(*inside) if hasattr(parts[0], "_fields") else tuple(inside)


def mixture_prior(prior: BankPrior, batch_shape: Size, q: int = 1) -> RunningMixture:
    """The posterior before any data, with a block of q measurements that no trial has."""
    like, T, L = prior.variance, batch_shape.numel(), len(prior.lengthscales)
    K, d = len(prior.rate), len(prior.lower) + prior.context_dim
    number = torch.arange(K, device=like.device) - prior.never_jumping
    # Before any jump a member has one history; its other histories have weight 0.
    waiting = (number > 0) & (number % prior.bank.histories > 0)
    J = (K - prior.never_jumping) // prior.bank.histories
    slots, zero, context = q, like.new_zeros(T), like.new_zeros(T, prior.context_dim)
    flat, time = like.new_zeros(T, L, K), like.new_zeros(T).double()
    columns = Columns(like.new_zeros(T, slots, d), like.new_zeros(T, slots, slots))
    nothing = Summary(
        columns=(columns,) * L,
        mean=(like.new_zeros(T, K, slots + 1),) * L,
        factor=(like.new_ones(T, K),) * L,
        scale=flat + SHAPE,
        log_weight=flat.masked_fill(waiting, -torch.inf),
        since=flat.double() - torch.inf,
        shape=zero + SHAPE,
        time=time,
        information_gain=zero,
    )
    block = Block(
        points=like.new_zeros(T, q, d),
        y=like.new_zeros(T, q),
        ratio=like.new_ones(T, q),
        good=like.new_zeros(T, q, dtype=torch.bool),
        steps=(like.new_zeros(T, K, slots + 1, q),) * L,
        weights=like.new_zeros(T, L, K, q, q),
        coordinates=(like.new_zeros(T, slots + 1, q + 1),) * L,
        jumped=like.new_zeros(T, L, J, q + 1, q + 1),
        place=torch.zeros(T, L, J, dtype=torch.int64, device=like.device),
        replaces=like.new_zeros(T, L, J, dtype=torch.bool),
    )
    on_grid = prior.points is not None
    return RunningMixture(
        now=nothing,
        before=nothing,
        matrices=tuple(like.new_zeros(T, K, slots + 1, slots + 1) for _ in range(L)),
        rows=tuple(like.new_zeros(T, slots, prior.arms) for _ in range(L * on_grid)),
        block=block,
        units=MixtureUnits(zero, zero + 1, time + 1, context, context + 1, zero.bool()),
        jumped=time + torch.nan,
        jumped_with=zero,
        settled=False,
        used=(0,) * L,
    ).view(batch_shape)


def passages(prior: BankPrior, gap: Tensor) -> tuple[Tensor, Tensor]:
    """For each trial and member, the attenuation and the log-probability of no jump over a gap.

    The time gaps, `T`, are in units of the clock, and at least 0.

    Returns:
        Two tensors, `T x K` each: for every member, the attenuation a, and log(1 - H), where H is
        the probability of a jump. The logarithm stays finite for gaps after which H rounds to 1.
    """
    elapsed = gap.to(prior.rate).clamp_max(LARGEST).unsqueeze(-1)
    attenuation = torch.exp(0.5 * elapsed * torch.log1p(-prior.rate))
    return attenuation, elapsed * torch.log1p(-prior.hazard)


def restarted(prior: BankPrior, running: RunningMixture, where: Tensor) -> RunningMixture:
    """Reset the trials that the mask ``where``, `T`, selects; their units do not change."""
    fresh = mixture_prior(prior, where.shape, running.block.y.shape[-1])
    for number, M in enumerate(running.matrices):
        fresh = _enlarged(fresh, number, M.shape[-1] - fresh.matrices[number].shape[-1])
    return _chosen(where, fresh._replace(units=running.units, settled=running.settled), running)


def _chosen(where: Tensor, first: Any, second: Any) -> Any:
    """The values of ``first`` in trials that a mask, `T`, selects, otherwise of ``second``."""
    return _mapped(
        lambda one, other: torch.where(leading(where, one.dim()), one, other), first, second
    )


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
    """The posterior of T trials after q measurements at one time.

    Measurements at the time of the newest block join this block, up to ``Bank.points`` of them. On
    a device other than a CPU, where the host would wait for the comparison of times, they begin a
    new block.

    Args:
        prior: The prior of the candidate processes.
        running: The posterior before the measurements, with its units already set.
        choice: Arms, `T x q`, int64; or points, `T x q x (d + c)`.
        y: Measurements in the units of the data, `T x q`.
        time: Times, not before the previous measurement, `T`, float64.
        ratio: Noise variances relative to the default, `T x q`.
        good: Which measurements a trial learns from, `T x q`, bool.
        consume: Whether the memory of ``running`` may be reused.
    """
    looks, units, newest = good.device.type == "cpu", running.units, running.now
    if looks and not bool(good.any()):
        return running
    learns, block, most = good.any(-1), running.block, prior.bank.points
    goes_on = ~learns
    if block.y.shape[-1] + y.shape[-1] <= most:
        goes_on = goes_on | ((time == newest.time) & (newest.shape > SHAPE))
    several = looks and bool(goes_on.any())
    absorbed = _absorbed(
        prior, running, ~goes_on if several or not looks else None, y.shape[-1], consume
    )
    y = ((y - units.centre.unsqueeze(-1)) / units.spread.unsqueeze(-1)).clamp(-LARGEST, LARGEST)
    parts: tuple[Tensor, ...] = (prior.at(choice, units), y, ratio, good)
    if several:
        old = block.points, block.y, block.ratio, block.good & goes_on.unsqueeze(-1)
        parts = tuple(torch.cat(pair, 1) for pair in zip(old, parts))
    if looks and parts[-1].shape[-1] > 1:
        parts = _in_order(*parts)
    after = _with_block(prior, absorbed, torch.where(learns, time, newest.time), *parts)
    if not looks:
        after = _chosen(learns, after, absorbed._replace(rows=after.rows))
    jump, chance = after.newest_jump()
    jumps = learns & (chance > LIKELY_JUMP) & (jump < time)  # a first reading may be an outlier
    jump = torch.where(jump > -torch.inf, jump, torch.nan)
    return after._replace(
        jumped=torch.where(jumps, jump, running.jumped),
        jumped_with=torch.where(jumps, chance, running.jumped_with),
    )


def blocks(time: Tensor) -> Iterator[slice]:
    """The rows of each block, given the times of all rows in order, `T x n`.

    On a device other than a CPU, where the host would wait, every row is a block.
    """
    n = time.shape[-1]
    ends = list(range(1, n + 1))
    if time.device.type == "cpu":
        goes_on = (time[:, 1:] == time[:, :-1]).all(0).tolist()
        ends = [*(row for row, same in enumerate(goes_on, 1) if not same), n]
    first = 0
    for end in ends:
        yield slice(first, end)
        first = end


def _in_order(
    points: Tensor, y: Tensor, ratio: Tensor, good: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The measurements of a block that some trial learns from, in an order that they determine."""
    some = good.any(0)
    points, y, ratio, good = (part[:, some] for part in (points, y, ratio, good))
    order = torch.arange(y.shape[-1], device=y.device).expand_as(y)
    for key in (ratio, y, *points.unbind(-1)[::-1]):
        order = order.gather(1, key.gather(1, order).argsort(dim=1, stable=True))
    points = points.take_along_dim(order.unsqueeze(-1), 1)
    return points, y.gather(1, order), ratio.gather(1, order), good.gather(1, order)


def _absorbed(
    prior: BankPrior, running: RunningMixture, where: Tensor | None, q: int, consume: bool
) -> RunningMixture:
    """The posterior with its block absorbed by the matrices, and with room for q measurements.

    Args:
        prior: The prior of the candidate processes.
        running: The posterior.
        where: Trials that absorb their block, `T`, bool; None for all.
        q: Number of further measurements, for which slots must be free.
        consume: Whether the memory of the matrices may be reused.
    """
    block, looks = running.block, running.time.device.type == "cpu"
    before = running.now if where is None else _chosen(where, running.now, running.before)
    trial = torch.arange(len(running.time), device=running.time.device).unsqueeze(-1)
    matrices, factors = [], []
    for number, M in enumerate(running.matrices):
        M, factor = M if consume else M.clone(), before.factor[number]
        small = factor < SMALLEST_FACTOR
        if not looks or bool(small.any()):
            M = _multiplied(M, torch.where(small, factor, 1.0))
            factor = torch.where(small, 1.0, factor)
        W, replaces = block.weights[:, number], block.replaces[:, number]
        if where is not None:
            W, replaces = W * leading(where, 4), replaces & where.unsqueeze(-1)
        size = M.shape[-1]
        u = block.steps[number] / with_constant(
            factor.unsqueeze(-1).expand(*factor.shape, size - 1)
        ).unsqueeze(-1)
        flat = u.reshape(-1, size, u.shape[-1])
        M.view(-1, size, size).baddbmm_(flat @ W.flatten(0, 1), flat.mT)
        if replaces.shape[-1] and not (looks and not bool(replaces.any())):
            place, outer = block.place[:, number], block.coordinates[number].unsqueeze(1)
            new = outer @ block.jumped[:, number] @ outer.mT
            every = looks and bool(replaces.all())
            M[trial, place] = (
                new if every else torch.where(replaces[..., None, None], new, M[trial, place])
            )
            own = torch.where(replaces, 1.0, factor.gather(-1, place))
            factor = factor.scatter(-1, place, own)
        matrices.append(M)
        factors.append(factor)
    before = before._replace(factor=tuple(factors))
    rows = running.rows if consume else tuple(part.clone() for part in running.rows)
    running = running._replace(before=before, matrices=tuple(matrices), rows=rows)
    return _with_room(prior, running, q if where is None else q + block.y.shape[-1])


def _with_room(prior: BankPrior, running: RunningMixture, room: int) -> RunningMixture:
    """The posterior with at most ``points`` points before the block, and some free slots."""
    most, looks, used = prior.bank.points, running.time.device.type == "cpu", []
    for number, before in enumerate(running.used):
        count = before + running.block.y.shape[-1]
        if looks:
            count = int(running.before.columns[number].used.sum(-1).max())
        for _ in range(count - most):
            running = _without_a_point(prior, running, number)
        used.append(min(count, most))
        missing = used[-1] + room - (running.matrices[number].shape[-1] - 1)
        if missing > 0:
            running = _enlarged(running, number, max(missing, GROWTH))
    return running._replace(used=tuple(used))


def _without_a_point(prior: BankPrior, running: RunningMixture, number: int) -> RunningMixture:
    """Remove the point whose removal changes the mixture least, in trials with too many points.

    The removal of column i loses the part of the posterior along its residual, whose prior variance
    is 1 / Q_ii: the square a_i² / Q_ii of the mean, and the share M_ii / Q_ii of the variance.
    """
    before, M = running.before, running.matrices[number]
    columns, mean, factor = before.columns[number], before.mean[number], before.factor[number]
    used, worth = columns.used, before.scale[:, number] / before.shape.unsqueeze(-1)
    share = weights_of(before)[:, number].unsqueeze(-1)
    learned = M.diagonal(dim1=-2, dim2=-1)[..., 1:] * factor.square().unsqueeze(-1)
    lost = (share * (mean[..., 1:].square() + worth.unsqueeze(-1) * learned)).sum(-2)
    lost = lost / columns.inverse.diagonal(dim1=-2, dim2=-1)
    slot = torch.where(used, lost, torch.inf).argmin(-1)
    columns, moved = columns.removed(slot, used.sum(-1) > prior.bank.points)
    moved = torch.nn.functional.pad(moved, (1, 0)).unsqueeze(-2)  # T x 1 x (n + 1)
    at = (slot + 1)[:, None, None]
    row = M.take_along_dim(at.unsqueeze(-1), -2).squeeze(-2)  # T x K x (n + 1)
    both = row + row.take_along_dim(at, -1) * moved
    every = moved.expand_as(row)
    left, right = torch.stack([every, both], -1), torch.stack([row, every], -2)
    size = M.shape[-1]
    M.view(-1, size, size).baddbmm_(left.flatten(0, 1), right.flatten(0, 1))
    mean = mean + mean.take_along_dim(at, -1) * moved

    def put(parts: tuple[Any, ...], part: Any) -> tuple[Any, ...]:
        return (*parts[:number], part, *parts[number + 1 :])

    return running._replace(
        before=before._replace(columns=put(before.columns, columns), mean=put(before.mean, mean))
    )


def _enlarged(running: RunningMixture, number: int, more: int) -> RunningMixture:
    """The posterior with further free slots for a lengthscale."""

    def longer(parts: tuple[Any, ...], *pads: int) -> tuple[Any, ...]:
        part = parts[number]
        new = part.enlarged(more) if not pads else torch.nn.functional.pad(part, pads)
        return (*parts[:number], new, *parts[number + 1 :])

    def larger(summary: Summary) -> Summary:
        return summary._replace(columns=longer(summary.columns), mean=longer(summary.mean, 0, more))

    block, rows = running.block, running.rows
    return running._replace(
        now=larger(running.now),
        before=larger(running.before),
        matrices=longer(running.matrices, 0, more, 0, more),
        rows=longer(rows, 0, 0, 0, more) if rows else rows,
        block=block._replace(
            steps=longer(block.steps, 0, 0, 0, more),
            coordinates=longer(block.coordinates, 0, 0, 0, more),
        ),
    )


def _with_block(
    prior: BankPrior,
    running: RunningMixture,
    time: Tensor,
    points: Tensor,
    y: Tensor,
    ratio: Tensor,
    good: Tensor,
) -> RunningMixture:
    """The posterior after a block of measurements at one time, which need not be absorbed.

    Every history continues without a jump. Measurement i of the block is an outlier, which contains
    no information, with probability r_i; the r_i come from the posterior before the block. A single
    Gaussian with the mean and covariance over both cases replaces the two cases. If a member may
    jump, all its histories also merge into a new history, which has their common mean and
    covariance and whose newest jump is now. From the time before the jump, the new history retains
    only the constant. The new history replaces the least probable history of the member. The two
    newest histories are not replaced, because later observations have yet to support or refute
    them.

    Args:
        prior: The prior of the members.
        running: The posterior with free slots for the block.
        time: The time of the block, `T`, float64.
        points: Points of the unit cube, `T x q x d`.
        y: Measurements in standardised units, `T x q`.
        ratio: Noise variances relative to the default, `T x q`.
        good: Which measurements a trial has and learns from, `T x q`, bool.
    """
    before, q = running.before, y.shape[-1]
    gap = (time - before.time) / running.units.clock
    started = (before.shape > SHAPE) & good.any(-1)
    attenuation, log_stays = passages(prior, torch.where(started, gap.clamp_min(0), 0.0))
    mask = good.to(y)
    noise = torch.where(good, ratio, 1.0).unsqueeze(1) * prior.noise.unsqueeze(-1)
    columns, means, factors, steps, coordinates, covariances, S, e = [], [], [], [], [], [], [], []
    for number, lengthscale in enumerate(prior.lengthscales):
        own_columns, owns, M = before.columns[number], [], running.matrices[number]
        for i in range(q):
            u = points[:, i : i + 1]
            own_columns, own, slot, new = own_columns.added(
                u, lengthscale, prior.bank.tolerance, good[:, i]
            )
            owns.append(own)
            if running.rows:
                assert prior.points is not None
                _note(running.rows[number], gaussian(u, prior.points[None], lengthscale), slot, new)
        c = with_constant(gaussian(points, own_columns.points, lengthscale)).mT
        own = torch.nn.functional.pad(torch.stack(owns, -1), (0, 0, 1, 0))
        factor = before.factor[number] * attenuation
        mean = before.mean[number] * with_constant(
            attenuation.unsqueeze(-1).expand(*attenuation.shape, c.shape[-2] - 1)
        )
        # The product with M, which is stored without the factor, takes two steps.
        T, K, size, _ = M.shape
        inner = torch.nn.functional.pad(c[:, 1:], (0, 0, 1, 0))
        g = (M.view(T, K * size, size) @ inner).view(T, K, size, q)
        each = factor[..., None, None]
        g = torch.addcmul(M[..., :1], g, each)
        g[..., 1:, :] *= each
        covariance = gaussian(points, points, lengthscale) + 1
        S.append(covariance.unsqueeze(1) - c.mT.unsqueeze(1) @ g)
        e.append(y.unsqueeze(1) - mean @ c)
        own[:, 0] = 1
        steps.append(own.unsqueeze(1) - g)
        own = own * mask.unsqueeze(1)
        own[:, 0] = 0
        first = torch.zeros_like(own[..., :1])
        first[:, 0] = 1
        coordinates.append(torch.cat([first, own], -1))
        columns.append(own_columns)
        means.append(mean)
        factors.append(factor)
        covariances.append(covariance)
    A, B = before.shape[:, None, None], before.scale
    number_of, several = mask.sum(-1)[:, None, None], q > 1
    both = (mask.unsqueeze(-1) * mask.unsqueeze(-2))[:, None, None]
    every = torch.stack(S, 1) + torch.diag_embed(noise).unsqueeze(1)
    every = every * both + torch.diag_embed(1 - mask)[:, None, None]
    errors, mask = torch.stack(e, 1) * mask[:, None, None], mask[:, None, None]
    V = every.diagonal(dim1=-2, dim2=-1)
    log_wrong = _log_wrong(prior, running, y)[:, None, None]
    either = torch.logaddexp(
        log_student(errors.square() / V, V.log(), 1.0, A.unsqueeze(-1), B.unsqueeze(-1)), log_wrong
    )
    # r is the probability of an outlier, which leaves a history unchanged.
    r = (log_wrong - either).exp() * mask
    root = (1 - r).sqrt() * mask
    coupled = every
    if several:
        coupled = every * root.unsqueeze(-1) * root.unsqueeze(-2)
        coupled = coupled - torch.diag_embed(coupled.diagonal(dim1=-2, dim2=-1) - V)
    inverse, logdet = inverted(coupled)
    weighed = root * errors
    solved = (inverse @ weighed.unsqueeze(-1)).squeeze(-1)
    square = (weighed * solved).sum(-1)
    total = (either * mask).sum(-1)
    if several:
        alone = log_student(weighed.square() / V, V.log(), 1.0, A.unsqueeze(-1), B.unsqueeze(-1))
        total = total + log_student(square, logdet, number_of, A, B) - (alone * mask).sum(-1)
    shape = A + 0.5 * number_of
    scale = B + 0.5 * (square + r.sum(-1) * B / A)
    W = inverse * root.unsqueeze(-1) * root.unsqueeze(-2)
    W = W - torch.diag_embed(r * solved.square() * (shape / scale).unsqueeze(-1))
    drift, gains = log_stays.unsqueeze(1) + total, (root * solved).unsqueeze(-1)
    means = [
        mean + (step @ gain).squeeze(-1) for mean, step, gain in zip(means, steps, gains.unbind(1))
    ]
    nats = 0.5 * ((1 - r) * (V.log() - noise.unsqueeze(1).log()) * mask).sum(-1)
    if several:
        nats = nats + 0.5 * (logdet - (V.log() * mask).sum(-1))
    share = weights_of(before)
    now = Summary(
        columns=tuple(columns),
        mean=tuple(means),
        factor=tuple(factors),
        scale=scale,
        log_weight=before.log_weight + drift,
        since=before.since,
        shape=before.shape + 0.5 * number_of[:, 0, 0],
        time=time,
        information_gain=before.information_gain + (share * nats).sum((-2, -1)),
    )
    running = running._replace(
        now=now,
        block=running.block._replace(
            points=points,
            y=y,
            ratio=ratio,
            good=good,
            steps=tuple(steps),
            weights=W,
            coordinates=tuple(coordinates),
        ),
    )
    if log_stays.shape[-1] > prior.never_jumping:
        H, spatial = -torch.expm1(log_stays), torch.stack(covariances, 1) - 1
        running = _with_jumps(prior, running, H, spatial, noise)
    return running


def _note(rows: Tensor, row: Tensor, slot: Tensor, new: Tensor) -> None:
    """Store the covariances of a new point with all arms, `T x 1 x M`, in its slot, in place."""
    at = slot[:, None, None].expand(-1, 1, rows.shape[-1])
    rows.scatter_(-2, at, torch.where(new[:, None, None], row, rows.gather(-2, at)))


def _with_jumps(
    prior: BankPrior, running: RunningMixture, H: Tensor, spatial: Tensor, noise: Tensor
) -> RunningMixture:
    """Add, for each member that jumps, a history with its newest jump just before the block.

    Args:
        prior: The prior of the members; entries for the histories of one member are consecutive.
        running: The posterior after the block without a jump.
        H: Probabilities of a jump since the last observation, `T x K`.
        spatial: Covariances of the block's points, `T x L x q x q`.
        noise: Noise variances in units of s², `T x K x q`.
    """
    some, histories, block = slice(prior.never_jumping, None), prior.bank.histories, running.block
    before, now = running.before, running.now
    jumps, A = H[:, some].unsqueeze(1) > 0, before.shape[:, None, None]
    scale = before.scale[..., some]
    mask = block.good.to(block.y)[:, None, None]
    level = torch.stack([part[:, some, 0] for part in before.mean], 1)
    # What the measurements so far have told of the constant.
    known = torch.stack([part[:, some, 0, 0] for part in running.matrices], 1)
    S = spatial.unsqueeze(2) + (1 - known)[..., None, None]
    S = S + torch.diag_embed(noise[:, some]).unsqueeze(1)
    S = S * mask.unsqueeze(-1) * mask.unsqueeze(-2) + torch.diag_embed(1 - mask)
    e = (block.y[:, None, None] - level.unsqueeze(-1)) * mask
    inverse, logdet = inverted(S)
    solved = (inverse @ e.unsqueeze(-1)).squeeze(-1)
    number_of, square = mask.sum(-1), (e * solved).sum(-1)
    log_weight = before.log_weight[..., some] + torch.where(jumps, H[:, None, some], 1.0).log()
    log_weight = log_weight + log_student(square, logdet, number_of, A, scale)

    by_member = *log_weight.shape[:2], -1, histories
    logs = log_weight.reshape(by_member)
    share, possible = logs.softmax(-1), jumps.reshape(len(H), 1, *by_member[2:]).any(-1)
    total = torch.where(possible, logs.logsumexp(-1), -torch.inf)
    shape, merged = A + 0.5 * number_of, (scale + 0.5 * square).reshape(by_member)
    B = (share * merged).sum(-1)
    # In coordinates of the constant and of the measured points, first per history, then merged.
    first = ((1 - known).unsqueeze(-1) * mask).unsqueeze(-2)
    u = torch.cat([first, torch.diag_embed(mask).expand_as(S)], -2)
    a = (u @ solved.unsqueeze(-1)).squeeze(-1)
    a[..., 0] += level
    M = u @ inverse @ u.mT
    M[..., 0, 0] += known
    a, M = (part.reshape(*by_member[:2], -1, histories, *part.shape[3:]) for part in (a, M))
    mean = (share.unsqueeze(-1) * a).sum(-2)
    apart = a - mean.unsqueeze(-2)
    between = (share * (shape / B).unsqueeze(-1)).unsqueeze(-1) * apart
    M = (share[..., None, None] * M).sum(-3) - between.mT @ apart

    first_place = prior.never_jumping
    logs, since = (part[..., some].reshape(by_member) for part in (now.log_weight, now.since))
    newest = since.topk(PROTECTED, -1).values[..., -1:]
    spared = (since >= newest) & (logs > -torch.inf)
    place = logs.masked_fill(spared, torch.inf).argmin(-1)
    # The retained histories inherit the weight of the replaced history, so the weight of the member
    # does not change.
    retained = logs.scatter(-1, place.unsqueeze(-1), -torch.inf).logsumexp(-1)
    possible = total > -torch.inf
    inherited = torch.where(possible, logs.logsumexp(-1) - retained, 0.0)
    grown = (logs + inherited.unsqueeze(-1)).flatten(-2)
    grown = torch.cat([now.log_weight[..., :first_place], grown], -1)
    column = first_place + place
    column = column + histories * torch.arange(place.shape[-1], device=place.device)

    def put(old: Tensor, new: Tensor) -> Tensor:
        return old.scatter(-1, column, torch.where(possible, new, old.gather(-1, column)))

    means = []
    for number, (old, outer) in enumerate(zip(now.mean, block.coordinates)):
        at = column[:, number].unsqueeze(-1).expand(-1, -1, old.shape[-1])
        new = mean[:, number] @ outer.mT
        new = torch.where(possible[:, number].unsqueeze(-1), new, old.gather(1, at))
        means.append(old.scatter(1, at, new))
    time = now.time[:, None, None].expand_as(total)
    return running._replace(
        now=now._replace(
            mean=tuple(means),
            scale=put(now.scale, B),
            log_weight=put(grown, total),
            since=put(now.since, time),
        ),
        block=block._replace(jumped=M, place=column, replaces=possible),
    )


def inverted(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Inverses and logarithms of determinants of positive definite matrices, `* x q x q`."""
    if matrix.shape[-1] == 1:
        return matrix.reciprocal(), matrix[..., 0, 0].log()
    root = torch.linalg.cholesky_ex(matrix).L
    logdet = 2 * root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return torch.cholesky_inverse(root), logdet


def log_student(
    square: Tensor, logdet: Tensor, number: Tensor | float, A: Tensor, B: Tensor
) -> Tensor:
    """Logarithm of the density of a multivariate Student's t distribution.

    The distribution has 2A degrees of freedom and the squared scales (B / A) S.

    Args:
        square: eᵀ S⁻¹ e with the deviation e from the centre.
        logdet: ln det S.
        number: Dimension of e.
        A: Half the degrees of freedom.
        B: A times the factor on S.
    """
    half = 0.5 * number
    normaliser = torch.lgamma(A + half) - torch.lgamma(A) - half * torch.log(2 * torch.pi * B)
    return normaliser - 0.5 * logdet - (A + half) * torch.log1p(square / (2 * B))


def _log_wrong(prior: BankPrior, running: RunningMixture, y: Tensor) -> Tensor:
    """Logarithm of the odds of an outlier times the density of y as an outlier, `T x q`.

    The density is Student's t with 4 degrees of freedom, centred at the mean of m. The density is
    the same for all members, so an outlier does not change their weights.

    Args:
        prior: The prior of the candidate processes.
        running: The posterior, whose block does not matter.
        y: Measurements in standardised units, `T x q`.
    """
    outliers, before = prior.bank.outliers, running.before
    if not outliers:
        return torch.full_like(y, -math.inf)
    share = weights_of(before)
    levels = torch.stack([part[..., 0] for part in before.mean], 1)
    known = torch.stack([part[..., 0, 0] for part in running.matrices], 1)
    level = (share * levels).sum((-2, -1)).unsqueeze(-1)
    spread = before.scale / (before.shape[:, None, None] - 1)
    variance = (share * spread * (2 - known + prior.noise)).sum((-2, -1)).unsqueeze(-1)
    variance, shape = WIDER * variance, torch.full_like(y, SHAPE)
    density = log_student((y - level).square() / variance, variance.log(), 1.0, shape, shape)
    return math.log(outliers / (1 - outliers)) + density
