"""The posterior of a bank of candidate processes, updated by each measurement.

The coordinates of a member are whitened features and a last coordinate for the constant m, which
neither decays nor jumps. All quantities are in units of the scale s, which is integrated out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Size, Tensor

from botorch_tv.gp.linalg import leading
from botorch_tv.gp.mixture.bank import BankPrior, MixtureUnits

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


class RunningMixture(NamedTuple):
    """The posterior of all members: K histories for each of L lengthscales."""

    mean: tuple[Tensor, ...]
    """Means z of the coordinates, per lengthscale `batch_shape x K x (r + 1)`."""
    covariance: tuple[Tensor, ...]
    """Covariances P of the coordinates in units of s², per lengthscale
    `batch_shape x K x (r + 1) x (r + 1)`."""
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
    units: MixtureUnits
    information_gain: Tensor
    """Information gain of the measurements in nats, `batch_shape`."""
    jumped: Tensor
    """Time of the first measurement after the newest jump with probability above ½ given a later
    measurement; NaN for none, `batch_shape`, float64."""
    jumped_with: Tensor
    """Probability that the newest jump came just before ``jumped``, when it last exceeded ½,
    `batch_shape`."""
    settled: bool
    """Whether the units of all trials are final."""

    @property
    def weights(self) -> Tensor:
        """The weights of all members, `batch_shape x L x K`."""
        return self.log_weight.flatten(-2).softmax(-1).view_as(self.log_weight)

    @property
    def variances(self) -> Tensor:
        """Mean of s² per member, B / (A - 1), `batch_shape x L x K`; A always exceeds 1."""
        return self.scale / (self.shape[..., None, None] - 1)

    def member_weights(self, prior: BankPrior) -> Tensor:
        """The weight of every member, `batch_shape x L x C`.

        The last dimension has an entry for each combination of rate, hazard and noise ratio.
        """
        share = self.weights
        total = share.new_zeros(*share.shape[:-1], int(prior.member.max()) + 1)
        return total.index_add(-1, prior.member, share)

    def jump_chance(self, time: Tensor) -> Tensor:
        """Probability that the newest jump came just before ``time``, `batch_shape`."""
        return (self.weights * (self.since == time[..., None, None])).sum((-2, -1))

    def newest_jump(self) -> tuple[Tensor, Tensor]:
        """Most probable time of the newest jump, and the probability of this time.

        The time of a jump is the time of the first measurement after the jump. If it is most
        probable that no jump has occurred, the returned time is -infinity. Both results are
        `batch_shape`.
        """
        since, share = self.since.flatten(-2), self.weights.flatten(-2)
        chance = ((since.unsqueeze(-1) == since.unsqueeze(-2)) * share.unsqueeze(-2)).sum(-1)
        likeliest = chance.argmax(-1, keepdim=True)
        return since.gather(-1, likeliest).squeeze(-1), chance.gather(-1, likeliest).squeeze(-1)

    def _each(self, function: Callable[[Tensor], Tensor]) -> RunningMixture:
        return _mapped(function, self)

    def flat(self) -> RunningMixture:
        """The posterior with the batch shape flattened to one dimension of trials."""
        dims, trials = self.shape.dim(), self.shape.numel()
        return self._each(lambda part: part.reshape((trials, *part.shape[dims:])))

    def view(self, shape: Size) -> RunningMixture:
        """The posterior with the batch shape restored."""
        return self._each(lambda part: part.reshape((*shape, *part.shape[1:])))

    def expanded(self, shape: Size) -> RunningMixture:
        """The posterior broadcast to a batch shape."""
        dims = self.shape.dim()
        return self._each(lambda part: part.expand(Size((*shape, *part.shape[dims:]))))


def _mapped(function: Callable[..., Tensor], *parts: Any) -> Any:
    """Apply a function to corresponding tensors of nested tuples."""
    if isinstance(parts[0], Tensor):
        return function(*parts)
    if not isinstance(parts[0], tuple):
        return parts[0]
    inside = [_mapped(function, *some) for some in zip(*parts)]
    return type(parts[0])(*inside) if hasattr(parts[0], "_fields") else tuple(inside)


def mixture_prior(prior: BankPrior, batch_shape: Size) -> RunningMixture:
    """The posterior before any data."""
    like, trials, sizes = prior.variance, batch_shape.numel(), prior.sizes
    number = torch.arange(len(prior.rate), device=like.device) - prior.never_jumping
    # Before any jump a member has one history; its other histories have weight 0.
    waiting = (number > 0) & (number % prior.bank.histories > 0)
    flat = like.new_zeros(trials, len(sizes), len(number))
    zero, context = like.new_zeros(trials), like.new_zeros(trials, prior.context_dim)
    time, lead = zero.double(), (trials, len(number))
    return RunningMixture(
        mean=tuple(like.new_zeros(*lead, size) for size in sizes),
        covariance=tuple(
            torch.eye(size, dtype=like.dtype, device=like.device).repeat(*lead, 1, 1)
            for size in sizes
        ),
        scale=flat + SHAPE,
        log_weight=flat.masked_fill(waiting, -torch.inf),
        since=flat.double() - torch.inf,
        shape=zero + SHAPE,
        time=time,
        units=MixtureUnits(zero, zero + 1, time + 1, context, context + 1, zero.bool()),
        information_gain=zero,
        jumped=time + torch.nan,
        jumped_with=zero,
        settled=False,
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
    fresh = mixture_prior(prior, where.shape)._replace(units=running.units)

    def chosen(old: Tensor, new: Tensor) -> Tensor:
        return torch.where(leading(where, old.dim()), new, old)

    return _mapped(chosen, running, fresh)


def with_constants(factor: Tensor, like: Tensor) -> Tensor:
    """Factors on all coordinates of a member; the factor on the constant is 1.

    Args:
        factor: Factor on the features, `T x K`.
        like: A tensor of the shape of the result, `T x K x (r + 1)`.
    """
    each = torch.ones_like(like)
    each[..., :-1] = factor.unsqueeze(-1)
    return each


def observed(
    prior: BankPrior,
    running: RunningMixture,
    passage: tuple[Tensor, Tensor],
    features: Sequence[tuple[Tensor, Tensor]],
    y: Tensor,
    noise: Tensor,
    time: Tensor,
    good: Tensor,
    log_wrong: Tensor,
    *,
    consume: bool = False,
) -> tuple[RunningMixture, Tensor]:
    """The posterior of all members after time has passed and an observation was made.

    Every history continues without a jump. With probability r the observation is an outlier, which
    contains no information. A single Gaussian with the mean and covariance over both cases, outlier
    or not, replaces the two cases. If a member may jump, all its histories also merge into a new
    history, which has their common mean and covariance and whose newest jump is now. From the time
    before the jump, the new history retains only the constant. The new history replaces the least
    probable history of the member. The two newest histories are not replaced, because later
    observations have yet to support or refute them.

    Args:
        prior: The prior of the members.
        running: The posterior before the observation.
        passage: Two tensors for the time since the last observation, `T x K` each: the attenuation
            a, and log(1 - H), where H is the probability of a jump.
        features: Two tensors per lengthscale: the features of the point, with the constant last,
            `T x 1 x (r + 1)`; and the prior variance that these features do not represent, `T x 1`.
        y: The observation in standardised units, `T`.
        noise: Noise variance in units of s²: ρ times the noise ratio of this observation, `T x K`.
        time: Time of the observation, `T`, float64.
        good: Which trials learn from the observation, `T`, bool.
        log_wrong: Logarithm of a product, `T`: the prior odds of an outlier, times the density of y
            if y is an outlier.
        consume: Whether the covariances of ``running`` may be overwritten.

    Returns:
        Two results: the posterior of all members; and the information gain of the observation, ½ (1
        - r) ln(S / noise) in nats, where S is the predictive variance, `T x L x K`.
    """
    learns, y, A = good.unsqueeze(-1), y[:, None, None], running.shape[:, None, None]
    log_stays = torch.where(learns, passage[1], 0.0)
    own_noise = torch.where(learns, noise, 1.0)[:, None]
    own = torch.stack([attenuations for _, attenuations in features], 1) + own_noise
    attenuation, moved = torch.where(learns, passage[0], 1.0), []
    for mean, P, (phi, _) in zip(running.mean, running.covariance, features):
        attenuations = with_constants(attenuation, mean)
        fresh, z = 1 - attenuations.square(), mean * attenuations
        # The decayed P times φ is computed from the old P, so that P is read a single time.
        g = torch.addcmul(
            attenuations * ((attenuations * phi).unsqueeze(-2) @ P).squeeze(-2), fresh, phi
        )
        moved.append((attenuations, fresh, z, g))
    S = own + _dots([g for *_, g in moved], features)
    e = y - _dots([z for _, _, z, _ in moved], features)
    # r is the probability of an outlier, which leaves a history unchanged.
    wrong, learned = log_wrong[:, None, None], learns.unsqueeze(-1).to(S)
    either = torch.logaddexp(log_student(e, S, A, running.scale), wrong)
    r, drift = (wrong - either).exp(), log_stays.unsqueeze(-2) + either
    jump = None
    if log_stays.shape[-1] > prior.never_jumping:
        H, phis = -torch.expm1(log_stays), [phi for phi, _ in features]
        jump = _after_jump(prior, running, H, own, phis, y, time)
    # In place, because passes over the memory of covariances dominate the time.
    spread = running.scale / A
    scale = running.scale + 0.5 * learned * ((1 - r) * (e.square() / S) + r * spread)
    weight = learned * (1 - r) * (r * (e.square() / S) * (A + 0.5) / scale - 1) / S
    step, means, covariances = learned * (1 - r) * e / S, [], []
    for number, (P, (attenuations, fresh, z, g)) in enumerate(zip(running.covariance, moved)):
        covariance = _scaled(P, attenuations, fresh, consume=consume)
        by = (g * weight[:, number].unsqueeze(-1)).unsqueeze(-1)
        covariances.append(covariance.addcmul_(by, g.unsqueeze(-2)))
        means.append(z + g * step[:, number].unsqueeze(-1))
    after = running._replace(
        mean=tuple(means),
        covariance=tuple(covariances),
        scale=scale,
        log_weight=running.log_weight + torch.where(learns.unsqueeze(-1), drift, 0.0),
    )
    ratio = torch.where(learns.unsqueeze(-1), S / noise.unsqueeze(-2), 1.0)
    if jump is not None:
        after = _taken_in(prior, after, jump)
    return after, 0.5 * (1 - r) * ratio.log()


def _dots(rows: list[Tensor], features: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Inner products of rows, `T x K x (r + 1)`, and features, per lengthscale, `T x L x K`."""
    return torch.stack([(row * phi).sum(-1) for row, (phi, _) in zip(rows, features)], 1)


def _after_jump(
    prior: BankPrior,
    running: RunningMixture,
    H: Tensor,
    own: Tensor,
    features: list[Tensor],
    y: Tensor,
    time: Tensor,
) -> RunningMixture:
    """For each member, a history with its newest jump just before an observation.

    Args:
        prior: The prior of the members; entries for the histories of one member are consecutive.
        running: The posterior before the observation.
        H: Probabilities of a jump since the last observation, `T x K`.
        own: Variance of the observation without the part due to the features, `T x L x K`.
        features: Features per lengthscale, `T x 1 x (r + 1)`.
        y: The observation, `T x 1 x 1`.
        time: Time of the observation, `T`.

    Returns:
        A history per lengthscale for each of the J members that jump; log-weights are -infinity
        where no jump is possible.
    """
    some = slice(prior.never_jumping, None)
    jumps, scale = H[:, some].unsqueeze(-2) > 0, running.scale[..., some]
    A = running.shape[:, None, None]
    corner = torch.stack([part[:, some, -1, -1] for part in running.covariance], 1)
    level = torch.stack([part[:, some, -1] for part in running.mean], 1)
    rows = [
        torch.cat([phi[..., :-1].expand(*edge.shape, -1), edge.unsqueeze(-1)], -1)
        for phi, edge in zip(features, corner.unbind(1))
    ]
    S = torch.stack([(g * phi).sum(-1) for g, phi in zip(rows, features)], 1) + own[..., some]
    e = y - level
    log_weight = running.log_weight[..., some] + torch.where(jumps, H[:, None, some], 1.0).log()
    log_weight = log_weight + log_student(e, S, A, scale)

    by_member = *log_weight.shape[:2], -1, prior.bank.histories
    logs = log_weight.reshape(by_member)
    share, possible = logs.softmax(-1), jumps.reshape(len(H), 1, *by_member[2:]).any(-1)
    total = torch.where(possible, logs.logsumexp(-1), -torch.inf)
    B = (share * (scale + 0.5 * e.square() / S).reshape(by_member)).sum(-1)
    lost, between = -share / S.reshape(by_member), share * ((A + 0.5) / B).unsqueeze(-1)
    constant = (share * corner.reshape(by_member)).sum(-1)
    means, covariances = [], []
    for number, g in enumerate(rows):
        z = g * (e / S)[:, number].unsqueeze(-1)
        z[..., -1] += level[:, number]
        z = z.reshape(len(H), *by_member[2:], z.shape[-1])
        mean = (share[:, number].unsqueeze(-1) * z).sum(-2)
        both = torch.cat([g.reshape_as(z), z - mean.unsqueeze(-2)], -2)
        weight = torch.cat([lost[:, number], between[:, number]], -1)
        covariance = (both * weight.unsqueeze(-1)).mT @ both
        covariance.diagonal(dim1=-2, dim2=-1)[..., :-1].add_(1.0)
        covariance[..., -1, -1] += constant[:, number]
        means.append(mean)
        covariances.append(covariance)
    return running._replace(
        mean=tuple(means),
        covariance=tuple(covariances),
        scale=B,
        log_weight=total,
        since=time[:, None, None].expand_as(total),
    )


def _taken_in(prior: BankPrior, after: RunningMixture, jump: RunningMixture) -> RunningMixture:
    """Replace one history per member by the history of a new jump, where a jump is possible."""
    first, histories = prior.never_jumping, prior.bank.histories
    logs, since = (
        part[..., first:].reshape(*part.shape[:2], -1, histories)
        for part in (after.log_weight, after.since)
    )
    newest = since.topk(PROTECTED, -1).values[..., -1:]
    spared = (since >= newest) & (logs > -torch.inf)
    place = logs.masked_fill(spared, torch.inf).argmin(-1)
    # The retained histories inherit the weight of the replaced history, so the weight of the member
    # does not change.
    retained = logs.scatter(-1, place.unsqueeze(-1), -torch.inf).logsumexp(-1)
    column = first + place + histories * torch.arange(place.shape[-1], device=place.device)
    possible = jump.log_weight > -torch.inf
    inherited = torch.where(possible, logs.logsumexp(-1) - retained, 0.0)
    grown = (logs + inherited.unsqueeze(-1)).flatten(-2)
    grown = torch.cat([after.log_weight[..., :first], grown], -1)
    # If all jumps are possible, the replaced histories need not be read. On a GPU this is not
    # checked, because the check would have to wait for the device.
    every = possible.device.type == "cpu" and bool(possible.all())
    trial = torch.arange(len(place), device=place.device).unsqueeze(-1)
    for olds, news in ((after.mean, jump.mean), (after.covariance, jump.covariance)):
        for number, (old, new) in enumerate(zip(olds, news)):
            at, where = (trial, column[:, number]), leading(possible[:, number], new.dim())
            old[at] = new if every else torch.where(where, new, old[at])

    def put(old: Tensor, new: Tensor) -> Tensor:
        return old.scatter(-1, column, torch.where(possible, new, old.gather(-1, column)))

    return after._replace(
        scale=put(after.scale, jump.scale),
        log_weight=put(grown, jump.log_weight),
        since=put(after.since, jump.since),
    )


def log_student(e: Tensor, S: Tensor, A: Tensor, B: Tensor) -> Tensor:
    """Logarithm of the density of Student's t distribution at the deviation ``e``.

    The distribution has mean 0, 2A degrees of freedom and the squared scale (B / A) S.
    """
    normaliser = torch.lgamma(A + 0.5) - torch.lgamma(A) - 0.5 * torch.log(2 * torch.pi * B * S)
    return normaliser - (A + 0.5) * torch.log1p(e.square() / (2 * B * S))


def _scaled(P: Tensor, attenuations: Tensor, fresh: Tensor, *, consume: bool) -> Tensor:
    """The covariances P after coordinates have decayed and their variances have increased.

    Args:
        P: The covariances, `T x K x (r + 1) x (r + 1)`.
        attenuations: Factor per coordinate, equal for all features and 1 for the constant,
            `T x K x (r + 1)`.
        fresh: Added variance per coordinate, 0 for the constant, `T x K x (r + 1)`.
        consume: Whether P is overwritten.
    """
    # One pass scales all entries; then the row and column of the constant are corrected.
    edge, factor = P[..., -1] * attenuations, attenuations[..., :1].square().unsqueeze(-1)
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
    """The posterior of T trials after a measurement.

    Args:
        prior: The prior of the candidate processes.
        running: The posterior before the measurement, with its units already set.
        choice: Arms, `T`, int64; or points, `T x (d + c)`.
        y: Measurements in the units of the data, `T`.
        time: Times, not before the previous measurement, `T`, float64.
        ratio: Noise variances relative to the default, `T`.
        good: Which trials learn from their measurement, `T`, bool.
        consume: Whether the memory of ``running`` may be reused.
    """
    units, fresh = running.units, running.shape == SHAPE
    gap = (time - running.time) / units.clock
    passage = passages(prior, torch.where(good & ~fresh, gap.clamp_min(0), 0.0))
    y = ((y - units.centre) / units.spread).clamp(-LARGEST, LARGEST)
    noise, share = ratio.unsqueeze(-1) * prior.noise, running.weights
    every = prior.at(choice.unsqueeze(1), units.context_centre, units.context_spread)
    log_wrong = _log_wrong(prior, running, share, y)
    reading = every, y, noise, time, good, log_wrong
    after, nats = observed(prior, running, passage, *reading, consume=consume)
    jump, chance = after.newest_jump()
    jumps = good & (chance > LIKELY_JUMP) & (jump < time)  # a first reading may be an outlier
    jump = torch.where(jump > -torch.inf, jump, torch.nan)
    return after._replace(
        jumped=torch.where(jumps, jump, running.jumped),
        jumped_with=torch.where(jumps, chance, running.jumped_with),
        shape=running.shape + 0.5 * good,
        time=torch.where(good, time, running.time),
        information_gain=running.information_gain + (share * nats).sum((-2, -1)),
    )


def _log_wrong(prior: BankPrior, running: RunningMixture, share: Tensor, y: Tensor) -> Tensor:
    """Logarithm of the odds of an outlier times the density of y as an outlier, `T`.

    The density is Student's t with 4 degrees of freedom, centred at the mean of m. The density is
    the same for all members, so an outlier does not change their weights.

    Args:
        prior: The prior of the candidate processes.
        running: The posterior before the measurement.
        share: Weights of the members, `T x L x K`.
        y: The measurement, `T`.
    """
    outliers = prior.bank.outliers
    if not outliers:
        return torch.full_like(y, -math.inf)
    levels = torch.stack([part[..., -1] for part in running.mean], 1)
    flat = 1 + prior.noise + torch.stack([part[..., -1, -1] for part in running.covariance], 1)
    level, variance = (share * levels).sum((-2, -1)), share * running.variances * flat
    shape = torch.full_like(y, SHAPE)
    density = log_student(y - level, WIDER * variance.sum((-2, -1)), shape, shape)
    return math.log(outliers / (1 - outliers)) + density
