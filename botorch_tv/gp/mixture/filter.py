"""The posterior of a bank of candidate processes, updated by each measurement.

A history of a member is a Gaussian process: f = m + g with a constant m. Drift, jumps, merged
histories and outliers all leave it in the span of m and of the kernel at the measured points,

    mean = cᵀ a,   covariance = s² (k(x, x') + 1 - cᵀ M c'),   c = [1, φ(x)],

with the scale s, which is integrated out, and the orthonormal coordinates φ of a ``Span``, so
φ(x)ᵀ φ(x') = k(x, x') at measured points. With the noise ratio ρ and the attenuation α,

    time passes:  M_ij ← α² M_ij, M_0i ← α M_0i, a_i ← α a_i,
    observation:  u = c - M c, S = 2 - cᵀ M c + ρ, e = y - cᵀ a,
                  a ← a + u e / S, M ← M + u uᵀ / S,
    jump:         M and a retain their entries for the constant; all others become 0.

Measurements at one time are a block, one observation of a vector, so their order does not matter.
The newest block is held apart from the matrices until a later measurement arrives, because further
measurements at its time change what is learned from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from botorch_tv.gp.linalg import leading
from botorch_tv.gp.mixture.bank import BankPrior
from botorch_tv.gp.mixture.running import (
    SHAPE,
    RunningMixture,
    Summary,
    chosen,
    enlarged,
    mixture_prior,
)
from botorch_tv.gp.mixture.span import GROWTH, gaussian

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
FEW = 4
"""Largest number of columns whose outer products are added one after another."""
SMALLEST_FACTOR = 1e-3
"""Factor on a matrix below which the matrix itself is multiplied."""
TIED = 1e-12
"""Smallest loss by which points are compared; of smaller losses rounding would select a point."""


def passages(prior: BankPrior, gap: Tensor) -> tuple[Tensor, Tensor]:
    """For each trial and member, the attenuation and the log-probability of no jump over a gap.

    The time gaps, `T`, are in units of the clock, and at least 0.

    Returns:
        Two tensors, `T x K` each: for every member, the attenuation α, and log(1 - H), where H is
        the probability of a jump. The logarithm stays finite for gaps after which H rounds to 1.
    """
    elapsed = gap.to(prior.rate).clamp_max(LARGEST).unsqueeze(-1)
    return torch.exp(0.5 * elapsed * prior.log_lasts), elapsed * prior.log_stays


def restarted(prior: BankPrior, running: RunningMixture, where: Tensor) -> RunningMixture:
    """Reset the trials that the mask ``where``, `T`, selects; their units do not change."""
    fresh = mixture_prior(
        prior, len(where), running.block.y.shape[-1], running.matrices.shape[-1] - 1
    )
    return chosen(where, fresh._replace(units=running.units), running)


def advanced(
    prior: BankPrior,
    running: RunningMixture,
    choice: Tensor,
    y: Tensor,
    time: Tensor,
    variance: Tensor,
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
        variance: Given noise variances in squared units of the data, `T x q`; 0 if the noise of a
            measurement is that of the candidate process.
        good: Which measurements a trial learns from, `T x q`, bool.
        consume: Whether the memory of ``running`` may be reused.
    """
    looks, units, newest = good.device.type == "cpu", running.units, running.now
    if looks and not bool(good.any()):
        return running
    learns, block, most = good.any(-1), running.block, prior.bank.points
    goes_on = ~learns
    if looks:
        fits = block.good.sum(-1) + good.sum(-1) <= most
        goes_on = goes_on | (fits & (time == newest.time) & (newest.shape > SHAPE))
    several = looks and bool(goes_on.any())
    y = ((y - units.centre.unsqueeze(-1)) / units.spread.unsqueeze(-1)).clamp(-LARGEST, LARGEST)
    variance = (variance / units.spread.unsqueeze(-1) ** 2).clamp_max(LARGEST)
    parts: tuple[Tensor, ...] = (prior.at(choice, units), y, variance, good)
    if several:
        old = block.points, block.y, block.variance, block.good & goes_on.unsqueeze(-1)
        parts = tuple(torch.cat(pair, 1) for pair in zip(old, parts))
    if looks and parts[-1].shape[-1] > 1:
        parts = _in_order(*parts)
    where = ~goes_on if several or not looks else None
    absorbed = _absorbed(prior, running, where, parts[-1].shape[-1], consume)
    after = _with_block(prior, absorbed, torch.where(learns, time, newest.time), *parts)
    if not looks:
        after = chosen(learns, after, absorbed._replace(rows=after.rows))
    jump, chance = after.newest_jump()
    jumps = learns & (chance > LIKELY_JUMP) & (jump < time)  # a first reading may be an outlier
    jump = torch.where(jump > -torch.inf, jump, torch.nan)
    return after._replace(
        jumped=torch.where(jumps, jump, running.jumped),
        jumped_with=torch.where(jumps, chance, running.jumped_with),
    )


def blocks(time: Tensor, most: int) -> Iterator[slice]:
    """The rows of each block, at most ``most``, given the times of all rows in order, `T x n`.

    On a device other than a CPU, where the host would wait, every row is a block.
    """
    n = time.shape[-1]
    ends = list(range(1, n + 1))
    if time.device.type == "cpu":
        goes_on = (time[:, 1:] == time[:, :-1]).all(0).tolist()
        ends = [*(row for row, same in enumerate(goes_on, 1) if not same), n]
    first = 0
    for end in ends:
        for start in range(first, end, most):
            yield slice(start, min(end, start + most))
        first = end


def _in_order(
    points: Tensor, y: Tensor, variance: Tensor, good: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The measurements of a block that each trial learns from, in an order that they determine."""
    order = torch.arange(y.shape[-1], device=y.device).expand_as(y)
    for key in (variance, y, *points.unbind(-1)[::-1], ~good):
        order = order.gather(1, key.gather(1, order).argsort(dim=1, stable=True))
    order = order[:, : int(good.sum(-1).max())]
    points = points.take_along_dim(order.unsqueeze(-1), 1)
    return points, y.gather(1, order), variance.gather(1, order), good.gather(1, order)


def _absorbed(
    prior: BankPrior, running: RunningMixture, where: Tensor | None, q: int, consume: bool
) -> RunningMixture:
    """The posterior with its block absorbed by the matrices, and with room for a block.

    Args:
        prior: The prior of the candidate processes.
        running: The posterior.
        where: Trials that absorb their block, `T`, bool; None for all.
        q: Number of measurements of the next block, for which slots must be free.
        consume: Whether the memory of the matrices may be reused.
    """
    looks, most = running.jumped.device.type == "cpu", prior.bank.points
    count = running.used + running.block.y.shape[-1]
    if looks:
        used = running.now.span.used
        if where is not None:
            used = chosen(where, used, running.before.span.used)
        count = int(used.sum(-1).max())
    missing = min(count, most) + q - running.matrices.shape[-1] + 1
    if missing > 0:
        running, consume = enlarged(running, max(missing, GROWTH)), True
    block, before, M = running.block, running.now, running.matrices
    W, replaces = block.weights, block.replaces
    if where is not None:
        before = chosen(where, before, running.before)
        W, replaces = W * leading(where, W.dim()), replaces & leading(where, replaces.dim())
    factor = before.factor
    small = factor < SMALLEST_FACTOR
    if not looks or bool(small.any()):
        by = torch.where(small, factor, 1.0)[..., None, None]
        M = M.clone()
        M[..., 1:] *= by
        M[..., 1:, :] *= by
        factor = torch.where(small, 1.0, factor)
    u = block.steps.clone()
    u[..., 1:, :] /= factor[..., None, None]
    M = _plus(M, u @ W, u, in_place=consume)
    if replaces.shape[-1] and not (looks and not bool(replaces.any())):
        outer = block.coordinates.unsqueeze(-3)
        new, at = outer @ block.jumped @ outer.mT, (*_grid(block.place), block.place)
        M[at] = (
            new
            if looks and bool(replaces.all())
            else torch.where(replaces[..., None, None], new, M[at])
        )
        own = torch.where(replaces, 1.0, factor.gather(-1, block.place))
        factor = factor.scatter(-1, block.place, own)
    rows = running.rows if consume else running.rows.clone()
    running = running._replace(before=before._replace(factor=factor), matrices=M, rows=rows)
    for _ in range(count - most):
        running = _without_a_point(prior, running)
    return running._replace(used=min(count, most))


def _plus(M: Tensor, left: Tensor, right: Tensor, *, in_place: bool) -> Tensor:
    """M + left rightᵀ, for `* x n x n` and `* x n x q`."""
    size, q = left.shape[-2:]
    if q > FEW:
        add = torch.Tensor.baddbmm_ if in_place else torch.baddbmm
        flat = left.reshape(-1, size, q), right.reshape(-1, size, q).mT
        return add(M.view(-1, size, size), *flat).view_as(M)
    for i in range(q):  # faster than a product
        pair = left[..., i : i + 1], right[..., i : i + 1].mT
        M = M.addcmul_(*pair) if in_place or i else M.addcmul(*pair)
    return M


def _grid(place: Tensor) -> tuple[Tensor, Tensor]:
    """Indices of the first two dimensions of a tensor, for indexing its last by ``place``."""
    T, L, _ = place.shape
    trial, lengthscale = (torch.arange(n, device=place.device) for n in (T, L))
    return trial[:, None, None], lengthscale[None, :, None]


def _without_a_point(prior: BankPrior, running: RunningMixture) -> RunningMixture:
    """Remove the point whose removal changes the mixture least, where there are too many points.

    Let v be the direction that only a measurement at the point shows, a unit vector. Its removal
    loses the part (vᵀ a)² of the mean, and the part vᵀ M v of the variance (Csató and Opper, 2002).
    """
    before, M = running.before, running.matrices
    mean, share, span = before.mean[..., 1:], before.weights.unsqueeze(-1), before.span
    worth = share.mT * (before.variances * before.factor.square()).unsqueeze(-2)
    learned = (worth @ M.flatten(-2)).view(*M.shape[:2], *M.shape[-2:])[..., 1:, 1:]
    learned = learned + (share * mean).mT @ mean
    lost = (span.root * (learned @ span.root)).sum(-2) / span.root.square().sum(-2)
    slot = torch.where(span.used, lost.clamp_min(TIED), torch.inf).argmin(-1)
    span, w = span.without(slot, span.used.sum(-1) > prior.bank.points)
    rows = running.rows - w.unsqueeze(-1) * (w.unsqueeze(-2) @ running.rows)
    w = torch.nn.functional.pad(w, (1, 0))[:, :, None, :, None]
    mean = before.mean.unsqueeze(-1)
    mean = (mean - w * (w.mT @ mean)).squeeze(-1)
    # H M H = M - w (M w)ᵀ - (M w) wᵀ + (wᵀ M w) w wᵀ
    across = (M.flatten(2, 3) @ w.squeeze(2)).view(*M.shape[:-1], 1)
    across = across - 0.5 * w * (w.mT @ across)
    left, right = (
        torch.cat([-w.expand_as(across), -across], -1),
        torch.cat([across, w.expand_as(across)], -1),
    )
    needed = M.requires_grad or w.requires_grad  # derivatives need the matrices before
    M = _plus(M, left, right, in_place=not needed)
    stays = torch.nn.functional.pad(span.used, (1, 0), value=True).unsqueeze(2)
    trial, lengthscale = (part.squeeze(-1) for part in _grid(slot.unsqueeze(-1)))
    own = stays[..., 0, :].gather(-1, (slot + 1).unsqueeze(-1)).unsqueeze(-1).to(M)
    for at in (
        (trial, lengthscale, slice(None), slot + 1),
        (trial, lengthscale, slice(None), slice(None), slot + 1),
    ):
        M[at] *= own
    before = before._replace(span=span, mean=mean * stays)
    return running._replace(before=before, matrices=M, rows=rows)


def _with_block(
    prior: BankPrior,
    running: RunningMixture,
    time: Tensor,
    points: Tensor,
    y: Tensor,
    variance: Tensor,
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
        variance: Given noise variances in standardised units; 0 if not given, `T x q`.
        good: Which measurements a trial has and learns from, `T x q`, bool.
    """
    before, M, q = running.before, running.matrices, y.shape[-1]
    share = before.weights
    gap = (time - before.time) / running.units.clock
    started = (before.shape > SHAPE) & good.any(-1)
    attenuation, log_stays = passages(prior, torch.where(started, gap.clamp_min(0), 0.0))
    attenuation, log_stays = attenuation.unsqueeze(1), log_stays.unsqueeze(1)  # T x 1 x K
    A, B, number = before.shape[:, None, None], before.scale, good.sum(-1)[:, None, None].to(y)
    mask = good.to(y)[:, None, None]  # T x 1 x 1 x q
    noise = _noise(prior, before, variance, good)

    span, rows = before.span, []
    arms = None if prior.points is None else prior.arms_at(running.units).unsqueeze(1)
    for i in range(q):
        span, phi, across = span.added(
            points[:, i], prior.lengthscales, prior.bank.tolerance, good[:, i]
        )
        rows.append(phi)
        if arms is not None:
            row = gaussian(points[:, None, i : i + 1], arms, prior.lengthscales)
            _note(running.rows, row.squeeze(-2), phi, across)
    phi = torch.stack(rows, -1)  # T x L x n x q
    c = torch.nn.functional.pad(phi, (0, 0, 1, 0), value=1.0)
    factor, mean = before.factor * attenuation, before.mean.clone()
    mean[..., 1:] *= attenuation.unsqueeze(-1)
    # The product of M, which is stored without the factor, with the coordinates of the points.
    g = (M.flatten(2, 3)[..., 1:] @ phi).view(*M.shape[:-1], q)
    g = torch.addcmul(M[..., :1], g, factor[..., None, None])
    g[..., 1:, :] *= factor[..., None, None]
    u, e = c.unsqueeze(2) - g, (y[:, None, None] - mean @ c) * mask
    spatial = torch.ones_like(phi[..., :1, :])
    if q > 1:  # what the coordinates miss of a point is independent of other points
        spatial = phi.mT @ phi
        spatial.diagonal(dim1=-2, dim2=-1).fill_(1.0)
    S = (spatial + 1).unsqueeze(2) - c.mT.unsqueeze(2) @ g

    S = _masked(S + _diagonal(noise), mask)
    V = S.diagonal(dim1=-2, dim2=-1)
    log_wrong = _log_wrong(prior, running, share, y, noise)[:, None, None]
    one = e.new_ones(()), A.unsqueeze(-1), B.unsqueeze(-1)
    logs = log_student(e.square() / V, V.log(), *one)
    either = torch.logaddexp(logs, log_wrong)
    # r is the probability of an outlier, which leaves a history unchanged.
    r = (log_wrong - either).exp() * mask
    root = (1 - r).sqrt() * mask
    weighed, nats = root * e, (1 - r) * (V / noise).log() * mask
    total, nats = (either * mask).sum(-1), 0.5 * nats.sum(-1)
    if q > 1:
        S = S * root.unsqueeze(-1) * root.unsqueeze(-2)
        S = S - torch.diag_embed(S.diagonal(dim1=-2, dim2=-1) - V)
    inverse, logdet = inverted(S)
    solved = (inverse @ weighed.unsqueeze(-1)).squeeze(-1)
    square = (weighed * solved).sum(-1)
    if q > 1:  # the density of all measurements is not the product of their densities
        alone = log_student(weighed.square() / V, V.log(), *one)
        total = total + log_student(square, logdet, number, A, B) - (alone * mask).sum(-1)
        nats = nats + 0.5 * (logdet - (V.log() * mask).sum(-1))
    shape, scale = A + 0.5 * number, B + 0.5 * (square + r.sum(-1) * B / A)
    W = inverse * root.unsqueeze(-1) * root.unsqueeze(-2)
    W = W - _diagonal(r * solved.square() * (shape / scale).unsqueeze(-1))
    now = Summary(
        span=span,
        mean=mean + (u @ (root * solved).unsqueeze(-1)).squeeze(-1),
        factor=factor,
        scale=scale,
        log_weight=before.log_weight + log_stays + total,
        since=before.since,
        shape=shape[:, 0, 0],
        time=time,
        information_gain=before.information_gain + (share * nats).sum((-2, -1)),
    )
    # The coordinates of the constant, and those of the points without the constant.
    coordinates = torch.nn.functional.pad(phi * mask, (1, 0, 1, 0))
    coordinates[..., 0, 0] = 1
    block = running.block._replace(
        points=points,
        y=y,
        variance=variance,
        good=good,
        steps=u,
        weights=W,
        coordinates=coordinates,
    )
    if log_stays.shape[-1] == prior.never_jumping:
        block = block._replace(jumped=W.new_zeros(*W.shape[:2], 0, q + 1, q + 1))
        return running._replace(now=now, block=block)
    running = running._replace(now=now, block=block)
    return _with_jumps(prior, running, log_stays, spatial, noise)


def _noise(prior: BankPrior, before: Summary, variance: Tensor, good: Tensor) -> Tensor:
    """Noise variances of measurements in units of s², `T x L x K x q`.

    A given variance is divided by the mean of s² before the measurements. The result is at least
    the prior variance that points may lack, which is not a part of the model.
    """
    given = variance[:, None, None] / before.variances.unsqueeze(-1)
    given = given.clamp_min(prior.bank.tolerance)
    own = prior.noise.unsqueeze(-1)
    return torch.where((good & (variance > 0))[:, None, None], given, own)


def _diagonal(values: Tensor) -> Tensor:
    """Diagonal matrices, `* x q -> * x q x q`."""
    return values.unsqueeze(-1) if values.shape[-1] == 1 else torch.diag_embed(values)


def _masked(S: Tensor, mask: Tensor) -> Tensor:
    """Covariances `* x q x q`, replaced by 1 or 0 for measurements that a trial does not have."""
    if mask.shape[-1] == 1:
        return torch.where(mask.unsqueeze(-1) > 0, S, 1.0)
    return S * mask.unsqueeze(-1) * mask.unsqueeze(-2) + torch.diag_embed(1 - mask)


def _note(rows: Tensor, row: Tensor, own: Tensor, across: Tensor) -> None:
    """Store the coordinates of all arms for the slot of a new point, in place.

    Args:
        rows: Coordinates of the arms, `T x L x n x M`.
        row: Covariances of the point with the arms, `T x L x M`.
        own: Coordinates of the point, `T x L x n`.
        across: 1 / the coordinate of a new point in its slot, otherwise 0, `T x L x n`.
    """
    new = across > 0
    slot = new.view(torch.uint8).argmax(-1, keepdim=True)
    is_new, inverse = new.any(-1, keepdim=True), across.gather(-1, slot)
    phi = own.masked_fill(new, 0.0)
    row = (row - (phi.unsqueeze(-2) @ rows).squeeze(-2)) * inverse
    at = slot.unsqueeze(-1).expand(*slot.shape, rows.shape[-1])
    row = torch.where(is_new.unsqueeze(-1), row.unsqueeze(-2), rows.gather(-2, at))
    rows.scatter_(-2, at, row)


def _with_jumps(
    prior: BankPrior, running: RunningMixture, log_stays: Tensor, spatial: Tensor, noise: Tensor
) -> RunningMixture:
    """Add, for each member that jumps, a history with its newest jump just before the block.

    Args:
        prior: The prior of the members; entries for the histories of one member are consecutive.
        running: The posterior after the block without a jump.
        log_stays: Log-probabilities of no jump since the last observation, `T x 1 x K`.
        spatial: Covariances of the block's points, `T x L x q x q`.
        noise: Noise variances in units of s², `T x L x K x q`.
    """
    some, block = slice(prior.never_jumping, None), running.block
    before, now = running.before, running.now
    H = -torch.expm1(log_stays[..., some])
    jumps, A, scale = H > 0, before.shape[:, None, None], before.scale[..., some]
    mask = block.good.to(block.y)[:, None, None]
    level, learned = before.mean[..., some, 0], running.matrices[..., some, 0, 0]
    S = spatial.unsqueeze(2) + (1 - learned)[..., None, None]
    S = _masked(S + _diagonal(noise[..., some, :]), mask)
    e = (block.y[:, None, None] - level.unsqueeze(-1)) * mask
    inverse, logdet = inverted(S)
    solved = (inverse @ e.unsqueeze(-1)).squeeze(-1)
    number, square = mask.sum(-1), (e * solved).sum(-1)
    log_weight = before.log_weight[..., some] + torch.where(jumps, H, 1.0).log()
    log_weight = log_weight + log_student(square, logdet, number, A, scale)

    # The histories of a member, in the last dimension, merge into a single history.
    T, L, _ = log_weight.shape
    histories = T, L, -1, prior.bank.histories
    logs = log_weight.view(histories)
    possible = jumps.view(T, 1, *logs.shape[2:]).any(-1)
    share = logs.softmax(-1)
    total = torch.where(possible, logs.logsumexp(-1), -torch.inf)
    B = (share * (scale + 0.5 * square).view(histories)).sum(-1)
    # In coordinates of the constant and of the measured points.
    first = ((1 - learned).unsqueeze(-1) * mask).unsqueeze(-2)
    u = torch.cat([first, _diagonal(mask).expand_as(S)], -2)
    a = (u @ solved.unsqueeze(-1)).squeeze(-1)
    a[..., 0] += level
    M = u @ inverse @ u.mT
    M[..., 0, 0] += learned
    a, M = a.view(*histories, *a.shape[3:]), M.view(*histories, *M.shape[3:])
    mean = (share.unsqueeze(-2) @ a).squeeze(-2)
    apart = a - mean.unsqueeze(-2)
    between = (share * ((A + 0.5 * number) / B).unsqueeze(-1)).unsqueeze(-1) * apart
    M = (share[..., None, None] * M).sum(-3) - between.mT @ apart

    logs, since = (part[..., some].reshape(histories) for part in (now.log_weight, now.since))
    newest = since.topk(PROTECTED, -1).values[..., -1:]
    spared = (since >= newest) & (logs > -torch.inf)
    place = logs.masked_fill(spared, torch.inf).argmin(-1)
    # The retained histories inherit the weight of the replaced history, so the weight of the member
    # does not change.
    retained = logs.scatter(-1, place.unsqueeze(-1), -torch.inf).logsumexp(-1)
    possible = total > -torch.inf
    inherited = torch.where(possible, logs.logsumexp(-1) - retained, 0.0)
    grown = (logs + inherited.unsqueeze(-1)).flatten(-2)
    grown = torch.cat([now.log_weight[..., : prior.never_jumping], grown], -1)
    first_of = torch.arange(place.shape[-1], device=place.device) * prior.bank.histories
    column = prior.never_jumping + first_of + place

    def put(old: Tensor, new: Tensor) -> Tensor:
        return old.scatter(-1, column, torch.where(possible, new, old.gather(-1, column)))

    at = column.unsqueeze(-1).expand(*column.shape, now.mean.shape[-1])
    mean = mean @ block.coordinates.mT
    mean = torch.where(possible.unsqueeze(-1), mean, now.mean.gather(2, at))
    summary = now._replace(
        mean=now.mean.scatter(2, at, mean),
        scale=put(now.scale, B),
        log_weight=put(grown, total),
        since=put(now.since, now.time[:, None, None].expand_as(total)),
    )
    block = block._replace(jumped=M, place=column, replaces=possible)
    return running._replace(now=summary, block=block)


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


def _log_wrong(
    prior: BankPrior, running: RunningMixture, share: Tensor, y: Tensor, noise: Tensor
) -> Tensor:
    """Logarithm of the odds of an outlier times the density of y as an outlier, `T x q`.

    The density is Student's t with 4 degrees of freedom, centred at the mean of m. The density is
    the same for all members, so an outlier does not change their weights.

    Args:
        prior: The prior of the candidate processes.
        running: The posterior, whose block does not matter.
        share: Weights of the histories before the block, `T x L x K`.
        y: Measurements in standardised units, `T x q`.
        noise: Noise variances in units of s², `T x L x K x q`.
    """
    outliers, before = prior.bank.outliers, running.before
    if not outliers:
        return torch.full_like(y, -math.inf)
    flat = (2 - running.matrices[..., 0, 0]).unsqueeze(-1) + noise
    level = (share * before.mean[..., 0]).sum((-2, -1)).unsqueeze(-1)
    variance = WIDER * ((share * before.variances).unsqueeze(-1) * flat).sum((1, 2))
    shape = torch.full_like(y, SHAPE)
    density = log_student((y - level).square() / variance, variance.log(), 1.0, shape, shape)
    return math.log(outliers / (1 - outliers)) + density
