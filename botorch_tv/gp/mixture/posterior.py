"""The posterior of a mixture of candidate processes at any point, on grids and boxes.

Members with the same lengthscale share their measured points, so one mean and one matrix represent
their mixture, and the cost of a point does not depend on the number of members. Lengthscale l has
weight w_l, coordinates a_l of its mean, a matrix M_l, a mean scale s_l² and the covariances c_l of
a point with the constant, which come first, and with the measured points. Then

    mean = Σ w_l mean_l,   mean_l = a_lᵀ c_l,
    variance = Σ w_l (2 s_l² - c_lᵀ M_l c_l + (mean_l - mean)²).

The derivatives with respect to c_l are w_l a_l for the mean and 2 w_l (-M_l c_l + (mean_l - mean)
a_l) for the variance. The derivative of the standard deviation is the derivative of the variance
divided by twice the standard deviation. Derivatives are explicit because a search of a box
evaluates few points many times, and automatic differentiation would dominate the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Size, Tensor

from botorch_tv.gp.arms import ArmInference, ArmPosterior, log_numbers
from botorch_tv.gp.data import Change, Data, Present, Prior
from botorch_tv.gp.mixture.bank import BankPrior, MixtureUnits, checks_clock, units_now
from botorch_tv.gp.mixture.columns import FREQUENCIES, GROWTH, gaussian, waves
from botorch_tv.gp.mixture.filter import (
    RunningMixture,
    advanced,
    blocks,
    mixture_prior,
    passages,
    restarted,
    with_constant,
)
from botorch_tv.gp.points import SMALLEST_VARIANCE, PointPosterior, Pull, beside
from botorch_tv.gp.process import Inference, Joint, Normal, Process

NEWEST = 128
"""Largest number of measurements from which a search starts. Only the newest are used, so the cost
per round is constant."""
AT_ONCE = 2**20
"""Number of entries in a block of products with matrices."""
PASSES = 5
"""Number of copies of a matrix in memory during a step."""


class Moments(NamedTuple):
    """Means and covariances of T trials per lengthscale, in standardised units."""

    weight: Tensor
    """Total weight of the members of each lengthscale, `T x L`."""
    mean: tuple[Tensor, ...]
    """Coordinates of the mean, the constant first, per lengthscale `T x (n + 1)`."""
    reduction: tuple[Tensor, ...]
    """Matrix M of the prior covariance minus the covariance, `T x (n + 1) x (n + 1)` per
    lengthscale."""
    worth: Tensor
    """Mean scale s², `T x L`; the prior variance of f is 2 s²."""

    def at(self, rows: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Mean and variance of the mixture, `T x q`.

        Args:
            rows: Covariances with the measured points per lengthscale, `T x n x q`.
        """
        means, variances = [], []
        for k, mean, M, worth in zip(rows, self.mean, self.reduction, self.worth.unbind(-1)):
            means.append(mean[:, :1] + (mean[:, None, 1:] @ k).squeeze(-2))
            edge, block, parts = 2 * M[:, 1:, :1], M[:, 1:, 1:], []
            for some in torch.split(k, max(1, AT_ONCE // max(1, k[..., 0].numel())), -1):
                parts.append((torch.baddbmm(edge, block, some) * some).sum(-2))
            prior = (2 * worth - M[:, 0, 0]).unsqueeze(-1)
            variances.append(prior - torch.cat(parts, -1))
        share, mean = self.weight.unsqueeze(-1), torch.stack(means, 1)
        total = (share * mean).sum(1)
        apart = (mean - total.unsqueeze(1)).square()
        return total, (share * (torch.stack(variances, 1) + apart)).sum(1)


def moments(running: RunningMixture, passages: Sequence[tuple[Tensor, Tensor]]) -> list[Moments]:
    """The moments of T trials after a gap in time, one result per pair in ``passages``.

    Args:
        running: The posterior after the newest observation.
        passages: Pairs (attenuation, log-probability of no jump) for the time since the newest
            observation, `T x K` each. Each matrix is read only once, whatever the number of pairs.
    """
    log_weight = running.now.log_weight
    total, share = log_weight.logsumexp(-1).softmax(-1), log_weight.softmax(-1)
    worth = share * running.variances
    parts = [
        _of_lengthscale(running, number, *part, passages)
        for number, part in enumerate(zip(share.unbind(1), worth.unbind(1)))
    ]
    found = []
    for own in zip(*parts):
        means, reductions = zip(*own)
        found.append(Moments(total, means, reductions, worth.sum(-1)))
    return found


def _of_lengthscale(
    running: RunningMixture,
    number: int,
    share: Tensor,
    worth: Tensor,
    passages: Sequence[tuple[Tensor, Tensor]],
) -> list[tuple[Tensor, Tensor]]:
    """Mean and matrix M of the members of a lengthscale.

    Args:
        running: The posterior.
        number: Index of the lengthscale.
        share: Weights w of the histories, which sum to 1, `T x K`.
        worth: Weights times mean scales, w s², `T x K`.
        passages: As for :func:`moments`.
    """
    z, found = running.now.mean[number], []
    passages = [(a, log_stays.exp()) for a, log_stays in passages]
    points = torch.stack([worth * stays * a.square() for a, stays in passages], -2)
    edges = torch.stack([worth * stays * a for a, stays in passages], -2)
    total = running.total(number, (points, edges, worth.unsqueeze(-2).expand_as(points)))
    share = share.unsqueeze(-1)
    for (a, stays), M in zip(passages, total.unbind(1)):
        mean, rows = _after(z, a, stays, share)
        found.append((mean, M - rows.mT @ rows))
    return found


def _after(z: Tensor, a: Tensor, stays: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """The common mean of histories after a gap, and rows whose outer products add to covariances.

    Args:
        z: Coordinates of the means, `T x K x (n + 1)`.
        a: Attenuation, `T x K`.
        stays: Probability that no jump has occurred, `T x K`.
        share: Weights, `T x K x 1`.
    """
    lasting, stays = (
        with_constant(part.unsqueeze(-1).expand(*part.shape, z.shape[-1] - 1))
        for part in (a, stays)
    )
    before = lasting * z
    now = stays * before
    mean = (share * now).sum(-2)
    # Means differ before and after a possible jump, and between members, which adds variance.
    jumped = (share * stays * (1 - stays)).sqrt() * before
    return mean, torch.cat([jumped, share.sqrt() * (now - mean.unsqueeze(-2))], -2)


class StackedMoments:
    """Moments and their derivatives for T trials and L lengthscales with R points in total.

    Args:
        parts: The moments.
        points: Measured points in the unit cube per lengthscale, `T x n x d`.
        lengthscales: The lengthscales.
    """

    def __init__(
        self, parts: Moments, points: Sequence[Tensor], lengthscales: Sequence[float]
    ) -> None:
        sizes = [part.shape[-2] for part in points]
        self._points = torch.cat([*points], -2)
        precision = [
            part.new_full((size,), at**-2) for part, size, at in zip(points, sizes, lengthscales)
        ]
        self._precision = torch.cat(precision)
        self._weighed = self._points * self._precision.unsqueeze(-1)
        self._square = (self._weighed * self._points).sum(-1).unsqueeze(-2)
        weight = parts.weight.unsqueeze(-2)
        by_weight = zip(parts.reduction, parts.weight.unbind(-1))
        shared = [part * -share[:, None, None] for part, share in by_weight]
        # Membership of points in lengthscales, 1 or 0, `R x L`.
        owners = [part.new_ones(size, 1) for part, size in zip(points, sizes)]
        owner = torch.block_diag(*owners)  # type: ignore[no-untyped-call]
        own = torch.cat([part[:, 1:] for part in parts.mean], -1).unsqueeze(-1) * owner
        levels = torch.stack([part[:, :1] for part in parts.mean], -1)
        mean, level = ((weight * part).sum(-1, keepdim=True) for part in (own, levels))
        prior = 2 * (weight * parts.worth.unsqueeze(-2)).sum(-1, keepdim=True)
        corner = prior + torch.stack([part[:, :1, :1] for part in shared]).sum(0)
        self._weight = weight
        # -w_l M_l among the points of each lengthscale, and between points and the constant.
        self._blocks = tuple(part[:, 1:, 1:].contiguous() for part in shared)
        self._edges = tuple(part[:, :1, 1:] for part in shared)
        # ``_line`` contains coefficients of quantities that are linear in the covariances,
        # `T x R x (L + 2)`: the mean; the mean of each lengthscale minus the mean; and -Σ w_l M_l
        # between points and the constant. ``_level`` contains the values of these quantities at
        # covariances of 0, `T x 1 x (L + 2)`.
        self._line = torch.cat([mean, own - mean, torch.cat(self._edges, -1).mT], -1)
        self._level = torch.cat([level, levels - level, corner], -1)

    def slopes(self, U: Tensor) -> tuple[Tensor, Tensor, Pull]:
        """Three results: the mean, the standard deviation, and a ``Pull`` for their derivatives.

        The points ``U`` are `T x q x d`; the mean and the standard deviation are `T x q`.
        """
        square = U.square().sum(-1, keepdim=True) * self._precision + self._square
        square = torch.baddbmm(square, U, self._weighed.mT, alpha=-2).clamp_min_(0)
        k = square.mul_(-0.5).exp_()
        own = torch.split(k, [block.shape[-1] for block in self._blocks], -1)
        covered = zip(self._edges, own, self._blocks)
        slope = torch.cat([torch.baddbmm(*part) for part in covered], -1)
        linear = torch.baddbmm(self._level, k, self._line)
        mean, apart, beyond = linear[..., 0], linear[..., 1:-1], linear[..., -1]
        tilt = self._weight * apart
        variance = (slope * k).sum(-1) + (tilt * apart).sum(-1) + beyond
        sd = variance.clamp_min(SMALLEST_VARIANCE).sqrt_()

        def pull(by_mean: Tensor | float, by_sd: Tensor | float) -> Tensor:
            half = (by_sd / sd * (variance >= SMALLEST_VARIANCE)).unsqueeze(-1)
            curved = torch.baddbmm(slope, tilt, self._line[..., 1:-1].mT)
            straight = beside(by_mean) * self._line[..., 0].unsqueeze(-2)
            by = torch.addcmul(straight, half, curved).mul_(k)
            return by @ self._weighed - (by @ self._precision).unsqueeze(-1) * U

        return mean, sd, pull


class SampledPath(NamedTuple):
    """A function per trial, drawn from the posterior, in standardised units.

    A prior function, a sum of random Fourier features, is corrected so that its values at the
    measured points have the posterior distribution (Matheron's rule; Wilson et al., ICML 2020).
    """

    lengthscale: Tensor
    """Lengthscale of the drawn member, `T`."""
    constant: Tensor
    """The constant m, `T`."""
    weights: Tensor
    """Weights of the random Fourier features, `T x 2 F`."""
    points: Tensor
    """Measured points in the unit cube, `T x n x d`."""
    coordinates: Tensor
    """Weights of the kernel columns of the measured points, `T x n`."""

    def at(self, U: Tensor) -> Tensor:
        """Values at points of the unit cube, `T x q x d -> T x q`."""
        lengthscale = self.lengthscale[:, None, None]
        value = waves(U, lengthscale) @ self.weights.unsqueeze(-1)
        columns = gaussian(U, self.points, lengthscale) @ self.coordinates.unsqueeze(-1)
        return (value + columns).squeeze(-1) + self.constant.unsqueeze(-1)


def drawn(
    prior: BankPrior, running: RunningMixture, passage: tuple[Tensor, Tensor], normal: Tensor
) -> SampledPath:
    """A sample per trial: first a member is drawn, then a function of this member.

    The scale s² of the drawn member is replaced by its mean.

    Draws do not distinguish whether a jump has occurred since the newest observation. As in
    predictions, the drawn function has the mean and covariance of the mixture of two cases: a jump,
    and no jump.

    Args:
        prior: The prior of the candidate processes.
        running: The posterior of T trials after the newest observation.
        passage: Two tensors for the time since the newest observation, `T x K` each: the
            attenuation, and the log-probability that no jump has occurred.
        normal: Standard normal variates, `T x normals`, see :attr:`BankPrior.normals`.
    """
    cumulative, members = running.weights.flatten(-2).cumsum(-1), running.now.scale.shape[-1]
    uniform = torch.special.ndtr(normal[:, :1]) * cumulative[:, -1:]
    member = (cumulative < uniform).sum(-1).clamp_max(cumulative.shape[-1] - 1)
    trial = torch.arange(len(normal), device=normal.device)
    own, found = (trial, member % members), []
    a, stays = (part.expand(len(trial), members)[own].unsqueeze(1) for part in passage)
    stays, weights = stays.exp(), normal[:, 1 : 1 + 2 * FREQUENCIES]
    most = max(M.shape[-1] for M in running.matrices) - 1
    for number, lengthscale in enumerate(prior.lengthscales):
        columns, s = running.now.columns[number], running.variances[:, number][own].sqrt()
        z = running.now.mean[number][own].unsqueeze(1)
        mean, rows = _after(z, a, stays, torch.ones_like(z[..., :1]))
        lasts = with_constant(a.expand(len(trial), z.shape[-1] - 1))
        M = running.matrix(number, *own) * lasts.unsqueeze(-1) * lasts.unsqueeze(-2)
        M[:, 1:] *= stays.unsqueeze(-1)
        M[:, 0, 1:] *= stays
        rows = rows / s[:, None, None]
        root = columns.root(M - rows.mT @ rows)
        size = root.shape[-1]
        noise = (root @ normal[:, -size:].unsqueeze(-1)).squeeze(-1)
        before = waves(columns.points, lengthscale) @ weights.unsqueeze(-1)
        noise[:, 1:] -= (columns.inverse @ before).squeeze(-1)
        value, more = mean + s.unsqueeze(-1) * noise, most + 1 - size
        found.append(
            (
                torch.full_like(s, lengthscale),
                value[:, 0],
                s.unsqueeze(-1) * weights,
                torch.nn.functional.pad(columns.points, (0, 0, 0, more)),
                torch.nn.functional.pad(value[:, 1:], (0, more)),
            )
        )
    place = member // members
    return SampledPath(*(torch.stack(parts, 1)[trial, place] for parts in zip(*found)))


@dataclass(frozen=True)
class MixturePosterior(PointPosterior):
    """Posteriors of some trials at any points of a box, in standardised units.

    Attributes:
        prior: The prior.
        parts: Moments from which choices are computed.
        expected: Moments from which predictions are computed.
        points: Measured points in the unit cube per lengthscale, `T x n x (d + c)`.
        X: The newest points measured, `T x n x (d + c)`.
        live: Whether each measurement succeeded, `T x n`.
        offset: Mean of the first measurements, `T`.
        units: The units of the trials.
        information_gain: Information gain of the measurements, `T`.
        path: A sample, if requested.
    """

    shared = ("prior",)

    prior: BankPrior
    parts: Moments
    expected: Moments
    points: tuple[Tensor, ...]
    X: Tensor
    live: Tensor
    offset: Tensor
    units: MixtureUnits
    information_gain: Tensor
    path: SampledPath | None = None

    def at(self, X: Tensor) -> tuple[Tensor, Tensor]:
        return self._at(X, self.parts)

    def slopes(self, X: Tensor) -> tuple[Tensor, Tensor, Pull]:
        # Derivatives are with respect to the chosen coordinates only. The context comes last and is
        # not chosen.
        dim = len(self.prior.lower)
        mean, sd, pull = self._stacked.slopes(self.prior.at(X, self.units))
        return mean, sd, lambda *by: self.prior.by_chosen(pull(*by)[..., :dim])

    def expected_at(self, X: Tensor) -> tuple[Tensor, Tensor]:
        return self._at(X, self.expected)

    def mean_at(self, X: Tensor) -> Tensor:
        return self._at(X, self.parts)[0]

    def sample_at(self, X: Tensor) -> Tensor:
        assert self.path is not None
        return self.path.at(self.prior.at(X, self.units)) - self.mean_at(X)

    def _at(self, X: Tensor, parts: Moments) -> tuple[Tensor, Tensor]:
        U = self.prior.at(X, self.units)
        pairs = zip(self.points, self.prior.lengthscales)
        mean, variance = parts.at([gaussian(points, U, own) for points, own in pairs])
        return mean, variance.clamp_min(SMALLEST_VARIANCE).sqrt()

    @cached_property
    def _stacked(self) -> StackedMoments:
        return StackedMoments(self.parts, self.points, self.prior.lengthscales)


class MixtureInference(Inference):
    """Inference with the mixture of candidate processes, on any domain.

    Args:
        process: The process; its rules must retain all observations.
        samples: Whether every round draws samples, as for :class:`Inference`.
        starts: Number of measurements that set the units.
        choosing: True for moments from which choices are computed, False for moments from which
            predictions are computed. Moments for choices assume that no jump has occurred since the
            newest measurement.
    """

    def __init__(
        self, process: Process, *, samples: bool = False, starts: int, choosing: bool = False
    ) -> None:
        super().__init__(process, samples=samples)
        self.starts, self.choosing = starts, choosing

    def start(self, prior: Prior, batch_shape: Size) -> RunningMixture:
        assert isinstance(prior, BankPrior)
        return mixture_prior(prior, batch_shape)

    def observe(self, before: Data, after: Data, change: Change, *, consume: bool) -> Data:
        running, rounds, history = running_mixture(before).flat(), after.rounds, after.history
        running, anew = self._in_units(after, running)
        first, trials = rounds - 1 if anew is None else 0, len(running.time)
        choice, y, noise, time = (part.tensor(first) for part in history)
        choice = choice.reshape(trials, *choice.shape[after.time.dim() :])
        y, ratio, time = (part.reshape(trials, -1) for part in (y, noise, time))
        good = ratio.isfinite()
        if anew is None:
            good = good & running.units.ready.unsqueeze(-1)
        else:
            good[:, :-1] &= anew.unsqueeze(-1)
            good[:, -1] &= running.units.ready
        for rows in blocks(time):
            running = advanced(
                bank_prior(after),
                running,
                *(choice[:, rows], y[:, rows], time[:, rows.start]),
                *(ratio[:, rows], good[:, rows]),
                # Intermediate posteriors are not shared, so their memory may be reused.
                consume=consume or rows.start > 0,
            )
        return after._replace(running=running.view(after.time.shape))

    def _in_units(
        self, data: Data, running: RunningMixture
    ) -> tuple[RunningMixture, Tensor | None]:
        """Update the units of a posterior.

        Returns:
            Two results: the posterior in the updated units; and the trials that must process all
                data again, `T`, bool, or None if there are none.
        """
        log, n, prior = data.history, data.rounds, bank_prior(data)
        if running.settled and not checks_clock(n):
            return running, None
        y, time, noise = (
            part.tensor().reshape(len(running.time), n) for part in (log.y, log.time, log.noise)
        )
        context = y.new_zeros(*y.shape, prior.context_dim)
        if prior.context_dim:
            context = log.choice.tensor().reshape(*y.shape, -1)[..., len(prior.lower) :]
        measured = y, noise.isfinite(), time, context
        units, settled, anew = units_now(running.units, running.settled, measured, self.starts)
        running = running._replace(units=units, settled=settled)
        return (restarted(prior, running, anew), anew) if bool(anew.any()) else (running, None)

    def moments(self, data: Data, now: Tensor) -> Moments:
        """Moments at time ``now``, `batch_shape`, with trials flattened to one dimension."""
        running, passage = running_mixture(data).flat(), self._assumed_passage(data, now)
        return moments(running, [passage])[0]

    def unit(self, data: Data) -> Tensor:
        return running_mixture(data).units.spread

    def prior_mean(self, estimate: Tensor | None) -> Tensor | float:
        assert estimate is not None
        return estimate

    def model_noise(self, data: Data, noise: Tensor) -> Tensor:
        prior, running = bank_prior(data), running_mixture(data).flat()
        own = (running.weights * running.variances * prior.noise).sum((-2, -1))
        own = own * running.units.spread.square()
        return noise * own.view_as(noise)

    def doubly_weighted_gain(self, data: Data, present: Present) -> Tensor:
        return running_mixture(data).now.information_gain

    def joint(self, data: Data, choice: Tensor, present: Present) -> Joint:
        running, shape, prior = running_mixture(data).flat(), data.time.shape, bank_prior(data)
        units, trials = running.units, len(running.time)
        groups, q, *columns = choice.shape[len(shape) :]
        with torch.no_grad():
            parts = self.moments(data, present.now)
        U = prior.at(choice.reshape(trials, groups * q, *columns), units)
        each = U.view(trials, groups, q, -1)
        means, covariances = [], []
        for n, lengthscale in enumerate(prior.lengthscales):
            k = gaussian(U, running.now.columns[n].points, lengthscale)
            c = with_constant(k).view(trials, groups, q, -1)
            means.append((c @ parts.mean[n][:, None, :, None]).squeeze(-1))
            spatial = gaussian(each, each, lengthscale) + 1
            known = c @ parts.reduction[n].unsqueeze(1) @ c.mT
            covariances.append(parts.worth[:, n, None, None, None] * spatial - known)
        weight = parts.weight.mT.view(-1, trials, 1, 1)
        mean = (weight * torch.stack(means)).sum(0)
        apart = torch.stack(means) - mean
        outer = apart.unsqueeze(-1) * apart.unsqueeze(-2)
        covariance = (weight.unsqueeze(-1) * (torch.stack(covariances) + outer)).sum(0)
        unit, centre = units.spread[:, None, None], units.centre[:, None, None]
        return (
            (mean * unit + centre).view(*shape, groups, q),
            (covariance * unit.unsqueeze(-1).square()).view(*shape, groups, q, q),
            running_mixture(data).now.information_gain,
        )

    def _assumed_passage(self, data: Data, now: Tensor) -> tuple[Tensor, Tensor]:
        """Attenuation, and log-probability of no jump (0 for choices), since the newest data."""
        passage = _passage_by(data, now)
        return (passage[0], passage[1] * 0) if self.choosing else passage

    def numbers_per_trial(self, data: Data, horizon: int, trials: int, search: int) -> int:
        prior = bank_prior(data)
        L, K, arms = len(prior.lengthscales), len(prior.rate), prior.arms
        size = min(horizon, prior.bank.points) + 2 * GROWTH
        return L * size * (PASSES * K * size + 2 * arms) + log_numbers(horizon) + search


class ArmMixture(MixtureInference, ArmInference):
    """The mixture on the arms of a grid."""

    def predict(self, data: Data, present: Present, normal: Tensor | None = None) -> ArmPosterior:
        running, prior = running_mixture(data), bank_prior(data)
        flat = running.flat()
        mean, variance = self.moments(data, present.now).at(flat.rows)
        shape = (*data.time.shape, mean.shape[-1])

        def draw(normal: Tensor) -> Tensor:
            passage = self._assumed_passage(data, present.now)
            path = drawn(prior, flat, passage, normal.reshape(len(mean), -1))
            assert prior.points is not None
            return (path.at(prior.points.expand(len(mean), -1, -1)) - mean).view(shape)

        return ArmPosterior(
            mean=mean.view(shape),
            sd=variance.clamp_min(0).sqrt().view(shape),
            information_gain=running.now.information_gain,
            offset=running.units.centre,
            draw=draw,
        )


class PointMixture(MixtureInference):
    """The mixture at points of a box."""

    def predict(
        self, data: Data, present: Present, normal: Normal | None = None, most: int = 0
    ) -> MixturePosterior:
        """The posterior at present in standardised units, with trials flattened to one dimension.

        The moments for predictions always include possible jumps.

        Args:
            data: The observations.
            present: The time of the decision.
            normal: Random numbers for a sample; None for no sample.
            most: Not used by this inference.
        """
        prior, running = bank_prior(data), running_mixture(data).flat()
        trials, first = len(running.time), max(0, data.rounds - NEWEST)
        rows = data.rounds - first
        X = data.history.choice.tensor(first)
        live = data.history.noise.tensor(first).isfinite()
        path, passage = None, self._assumed_passage(data, present.now)
        if normal is not None:
            path = drawn(prior, running, passage, normal(prior.normals).reshape(trials, -1))
        ways = [passage, _passage_by(data, present.now)]
        parts, expected = moments(running, ways)
        return MixturePosterior(
            prior=prior,
            parts=parts,
            expected=expected,
            points=tuple(columns.points for columns in running.now.columns),
            X=X.reshape(trials, rows, X.shape[-1]),
            live=live.reshape(trials, rows),
            offset=running.units.centre,
            units=running.units,
            information_gain=running.now.information_gain,
            path=path,
        )


def bank_prior(data: Data) -> BankPrior:
    """The prior of the candidate processes on the domain."""
    assert isinstance(data.prior, BankPrior)
    return data.prior


def running_mixture(data: Data) -> RunningMixture:
    """The posterior of the candidate processes."""
    assert isinstance(data.running, RunningMixture)
    return data.running


def _passage_by(data: Data, now: Tensor) -> tuple[Tensor, Tensor]:
    """Attenuation and log-probability of no jump from the newest measurement to ``now``."""
    prior, running = bank_prior(data), running_mixture(data).flat()
    gap = (now.reshape(-1) - running.time) / running.units.clock
    return passages(prior, torch.where(running.units.ready, gap.clamp_min(0), 0.0))
