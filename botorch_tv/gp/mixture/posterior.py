"""The posterior of a mixture of candidate processes at any point, on grids and boxes.

Members with the same lengthscale share their measured points, so one mean and one matrix represent
their mixture, and the cost of a point does not depend on the number of members. Lengthscale l has
weight w_l, coordinates a_l of its mean, a matrix M_l, a mean scale s_l² and the covariances c_l of
a point with the constant, which come first, and with the measured points. Then

    mean = Σ w_l mean_l,   mean_l = a_lᵀ c_l,
    variance = Σ w_l (2 s_l² - c_lᵀ M_l c_l + (mean_l - mean)²).

On a box, a search evaluates few points many times. There, c_l is replaced by the covariances with
the points themselves, so that a point takes a single product, and derivatives are explicit, because
automatic differentiation would dominate the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Size, Tensor

from botorch_tv.gp.arms import ArmInference, ArmPosterior, log_numbers
from botorch_tv.gp.data import Change, Data, Present, Prior
from botorch_tv.gp.mixture.bank import BankPrior, MixtureUnits
from botorch_tv.gp.mixture.filter import advanced, blocks, passages, restarted
from botorch_tv.gp.mixture.running import RunningMixture, mixture_prior
from botorch_tv.gp.mixture.span import FREQUENCIES, GROWTH, Span, gaussian, waves
from botorch_tv.gp.mixture.units import Measured, checks_units, units_now
from botorch_tv.gp.points import SMALLEST_VARIANCE, PointPosterior, Pull
from botorch_tv.gp.process import Inference, Joint, Normal, Process

NEWEST = 128
"""Largest number of measurements from which a search starts. Only the newest are used, so the cost
per round is constant."""
JITTER = 1e-10
"""Number added to the diagonal of a covariance before a factorisation."""
AT_ONCE = 2**20
"""Number of entries in a block of products with matrices."""
PASSES = 5
"""Number of copies of a matrix in memory during a step."""


class Moments(NamedTuple):
    """Means and covariances of T trials per lengthscale, in standardised units."""

    weight: Tensor
    """Total weight of the members of each lengthscale, `T x L`."""
    mean: Tensor
    """Coordinates of the mean, the constant first, `T x L x (n + 1)`."""
    reduction: Tensor
    """Matrix M of the prior covariance minus the covariance, `T x L x (n + 1) x (n + 1)`."""
    worth: Tensor
    """Mean scale s², `T x L`; the prior variance of f is 2 s²."""

    def at(self, phi: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the mixture, `T x q`.

        Args:
            phi: Coordinates of the points, `T x L x n x q`.
        """
        mean, M = self.mean, self.reduction
        means = mean[..., :1] + (mean[..., None, 1:] @ phi).squeeze(-2)
        edge, block, parts = 2 * M[..., 1:, :1], M[..., 1:, 1:], []
        for some in torch.split(phi, max(1, AT_ONCE // max(1, phi[..., 0].numel())), -1):
            parts.append(((block @ some).add_(edge).mul_(some)).sum(-2))
        variances = (2 * self.worth - M[..., 0, 0]).unsqueeze(-1) - torch.cat(parts, -1)
        share = self.weight.unsqueeze(-1)
        total = (share * means).sum(1)
        apart = (means - total.unsqueeze(1)).square()
        return total, (share * (variances + apart)).sum(1)


def moments(running: RunningMixture, passages: Sequence[tuple[Tensor, Tensor]]) -> list[Moments]:
    """The moments of T trials after a gap in time, one result per pair in ``passages``.

    Args:
        running: The posterior after the newest observation.
        passages: Pairs (attenuation, log-probability of no jump) for the time since the newest
            observation, `T x K` each. The matrices are read only once, whatever the number of
            pairs.
    """
    log_weight, z = running.now.log_weight, running.now.mean
    weight, share = log_weight.logsumexp(-1).softmax(-1), log_weight.softmax(-1)
    attenuation, log_stays = (torch.stack(part, 1).unsqueeze(1) for part in zip(*passages))
    each = (share * running.now.variances).unsqueeze(-2)
    stays = log_stays.exp()
    edges = each * stays * attenuation
    total = running.total(edges * attenuation, edges, each.expand_as(edges))
    mean, rows = moved_means(z.unsqueeze(2), attenuation, stays, share.unsqueeze(2))
    reduction, worth = total - rows.mT @ rows, each.sum((-2, -1))
    pairs = zip(mean.unbind(2), reduction.unbind(2))
    return [Moments(weight, *pair, worth) for pair in pairs]


def moved_means(z: Tensor, a: Tensor, stays: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """The common mean of histories after a gap, and rows whose outer products add to covariances.

    Args:
        z: Coordinates of the means, `* x K x (n + 1)`.
        a: Attenuation, `* x K`.
        stays: Probability that no jump has occurred, `* x K`.
        share: Weights, `* x K`.
    """
    a, stays, share = (part.unsqueeze(-1) for part in (a, stays, share))
    before = a * z[..., 1:]
    now = torch.cat([z[..., :1].expand(*before.shape[:-1], 1), stays * before], -1)
    mean = (share * now).sum(-2)
    # Means differ before and after a possible jump, and between members, which adds variance.
    jumped = torch.nn.functional.pad((share * stays * (1 - stays)).sqrt() * before, (1, 0))
    return mean, torch.cat([jumped, share.sqrt() * (now - mean.unsqueeze(-2))], -2)


class Columns(NamedTuple):
    """Means and variances of T trials as functions of the covariances with the measured points.

    With the covariances k_l of a point with the constant, which come first, and with the measured
    points, the mean of lengthscale l is b_lᵀ k_l, and the variance of the mixture is
    Σ k_lᵀ Q_l k_l + w_l (mean_l - mean)².
    """

    weight: Tensor
    """Total weight w_l of the members of each lengthscale, `T x L x 1`."""
    points: Tensor
    """Rows whose inner products with (u, |u|², 1) are the logarithms of the covariances of u,
    `T x L x (n + 1) x (d + 2)`."""
    sums: Tensor
    """Q_l, which contains the factor w_l, followed by the column b_l,
    `T x L x (n + 1) x (n + 2)`."""

    @classmethod
    def of(cls, parts: Moments, span: Span, lengthscales: Tensor) -> Columns:
        """The functions from moments in orthonormal coordinates.

        Args:
            parts: The moments.
            span: The measured points.
            lengthscales: The lengthscales, `L x 1 x 1`.
        """
        pad, precision = torch.nn.functional.pad, lengthscales**-2
        weighed = span.points * precision
        square = (weighed * span.points).sum(-1, keepdim=True)
        rows = torch.cat([weighed, (-0.5 * precision).expand_as(square), -0.5 * square], -1)
        root = pad(span.root, (1, 0, 1, 0))
        root[..., 0, 0] = 1
        Q = root.mT @ (parts.weight[..., None, None] * parts.reduction) @ root
        Q = Q.neg_()
        Q[..., 0, 0] += 2 * parts.weight * parts.worth
        means = root.mT @ parts.mean.unsqueeze(-1)
        return cls(parts.weight.unsqueeze(-1), pad(rows, (0, 0, 1, 0)), torch.cat([Q, means], -1))

    def at(self, U: Tensor) -> tuple[Tensor, Tensor]:
        """The mean and the standard deviation, `T x q`, at points, `T x q x d`."""
        return self.slopes(U)[:2]

    def slopes(self, U: Tensor) -> tuple[Tensor, Tensor, Pull]:
        """The results of :meth:`at`, and a ``Pull`` for their derivatives."""
        each = torch.cat([U, U.square().sum(-1, keepdim=True), torch.ones_like(U[..., :1])], -1)
        k = (each.unsqueeze(1) @ self.points.mT).clamp_max_(0).exp_()
        sums = k @ self.sums
        slope, means = sums[..., :-1], sums[..., -1]
        mean = (self.weight * means).sum(1)
        apart = means - mean.unsqueeze(1)
        tilt = self.weight * apart
        variance = torch.addcmul((slope * k).sum(-1), tilt, apart).sum(1)
        sd = variance.clamp_min(SMALLEST_VARIANCE).sqrt()

        def pull(by_mean: Tensor | float, by_sd: Tensor | float) -> Tensor:
            half = (by_sd / sd * (variance >= SMALLEST_VARIANCE)).unsqueeze(1)
            # With respect to k: by_mean w_l b_l + half (Q_l k + w_l (mean_l - mean) b_l).
            straight = by_mean.unsqueeze(1) if isinstance(by_mean, Tensor) else by_mean
            along = straight * self.weight + half * tilt
            own = self.sums[..., -1].unsqueeze(-2)
            by = torch.addcmul(slope * half.unsqueeze(-1), along.unsqueeze(-1), own).mul_(k)
            back = (by @ self.points[..., :-1]).sum(1)
            return torch.addcmul(back[..., :-1], back[..., -1:], U, value=2)

        return mean, sd, pull


class SampledPath(NamedTuple):
    """A function per trial, drawn from the posterior, in standardised units.

    A prior function, a sum of random Fourier features, is corrected so that its values at the
    measured points have the posterior distribution (Matheron's rule; Wilson et al., ICML 2020).
    """

    lengthscale: Tensor
    """Lengthscale of the drawn member, `T x 1 x 1`."""
    constant: Tensor
    """The constant m, `T x 1`."""
    weights: Tensor
    """Weights of the random Fourier features, `T x 2 F`."""
    points: Tensor
    """Measured points in the unit cube, `T x n x d`."""
    coordinates: Tensor
    """Weights of the kernel columns of the measured points, `T x n`."""

    def at(self, U: Tensor) -> Tensor:
        """Values at points of the unit cube, `T x q x d -> T x q`."""
        value = waves(U, self.lengthscale) @ self.weights.unsqueeze(-1)
        columns = gaussian(U, self.points, self.lengthscale) @ self.coordinates.unsqueeze(-1)
        return (value + columns).squeeze(-1) + self.constant


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
    now = running.now
    cumulative, (L, K) = now.weights.flatten(-2).cumsum(-1), now.scale.shape[1:]
    uniform = torch.special.ndtr(normal[:, :1]) * cumulative[:, -1:]
    member = (cumulative < uniform).sum(-1).clamp_max(L * K - 1)
    trial = torch.arange(len(normal), device=normal.device)
    place, number = member // K, member % K
    a, stays = (part.expand(len(trial), K)[trial, number].unsqueeze(-1) for part in passage)
    stays, s = stays.exp(), now.variances[trial, place, number].sqrt().unsqueeze(-1)
    span, lengthscale = (
        Span(*(part[trial, place] for part in now.span)),
        prior.lengthscales[place],
    )
    z = now.mean[trial, place, number].unsqueeze(-2)
    mean, rows = moved_means(z, a, stays, torch.ones_like(a))
    M = running.matrix(trial, place, number)
    M[:, 1:] *= (a * stays).unsqueeze(-1)
    M[:, 1:, 1:] *= a.unsqueeze(-1)
    M[:, 0, 1:] *= a * stays
    rows = rows / s.unsqueeze(-1)
    root = root_of(M - rows.mT @ rows)
    weights = normal[:, 1 : 1 + 2 * FREQUENCIES]
    first = 1 + 2 * FREQUENCIES
    noise = (root @ normal[:, first : first + root.shape[-1]].unsqueeze(-1)).squeeze(-1)
    before = waves(span.points, lengthscale) @ weights.unsqueeze(-1)
    noise[:, 1:] -= (span.root @ before).squeeze(-1)
    value = mean + s * noise
    coordinates = (value[:, None, 1:] @ span.root).squeeze(-2)
    return SampledPath(lengthscale, value[:, :1], s * weights, span.points, coordinates)


def root_of(M: Tensor) -> Tensor:
    """A root R of the covariance R Rᵀ = I - M, `* x n x n`."""
    C = -M
    # Raise the diagonal: many measurements make the covariance singular up to rounding.
    C.diagonal(dim1=-2, dim2=-1).add_(1 + JITTER)
    return torch.linalg.cholesky_ex(C).L


@dataclass(frozen=True)
class MixturePosterior(PointPosterior):
    """Posteriors of some trials at any points of a box, in standardised units.

    Attributes:
        prior: The prior.
        parts: Functions from which choices are computed.
        expected: Moments from which predictions are computed.
        span: The measured points in the unit cube.
        X: The newest points measured, `T x n x (d + c)`.
        live: Whether each measurement succeeded, `T x n`.
        offset: Mean of the first measurements, `T`.
        units: The units of the trials.
        information_gain: Information gain of the measurements, `T`.
        path: A sample, if requested.
    """

    shared = ("prior",)
    coarse = True

    prior: BankPrior
    parts: Columns
    expected: Moments
    span: Span
    X: Tensor
    live: Tensor
    offset: Tensor
    units: MixtureUnits
    information_gain: Tensor
    path: SampledPath | None = None

    def at(self, X: Tensor) -> tuple[Tensor, Tensor]:
        return self.parts.at(self.prior.at(X, self.units))

    def slopes(self, X: Tensor) -> tuple[Tensor, Tensor, Pull]:
        # Derivatives are with respect to the chosen coordinates only. The context comes last and is
        # not chosen.
        mean, sd, pull = self.parts.slopes(self.prior.at(X, self.units))
        return mean, sd, lambda *by: self.prior.by_chosen(pull(*by), self.units)

    def expected_at(self, X: Tensor) -> tuple[Tensor, Tensor]:
        phi = self.span.at(self.prior.at(X, self.units).unsqueeze(1), self.prior.lengthscales)
        mean, variance = self.expected.at(phi.mT)
        return mean, variance.clamp_min(SMALLEST_VARIANCE).sqrt()

    def mean_at(self, X: Tensor) -> Tensor:
        return self.at(X)[0]

    def sample_at(self, X: Tensor) -> Tensor:
        assert self.path is not None
        return self.path.at(self.prior.at(X, self.units)) - self.mean_at(X)


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
        return mixture_prior(prior, batch_shape.numel())

    def observe(self, before: Data, after: Data, change: Change, *, consume: bool) -> Data:
        running, rounds, history = running_mixture(before), after.rounds, after.history
        running, anew = self._in_units(after, running)
        first, trials = rounds - 1 if anew is None else 0, len(running.jumped)
        choice, y, noise, time = (part.tensor(first) for part in history)
        choice = choice.reshape(trials, *choice.shape[after.time.dim() :])
        y, noise, time = (part.reshape(trials, -1) for part in (y, noise, time))
        good = noise.isfinite()
        if anew is None:
            good = good & running.units.ready.unsqueeze(-1)
        else:
            good[:, :-1] &= anew.unsqueeze(-1)
            good[:, -1] &= running.units.ready
        prior = bank_prior(after)
        for rows in blocks(time, prior.bank.points):
            running = advanced(
                prior,
                running,
                *(choice[:, rows], y[:, rows], time[:, rows.start]),
                *(noise[:, rows], good[:, rows]),
                # Intermediate posteriors are not shared, so their memory may be reused.
                consume=consume or rows.start > 0,
            )
        return after._replace(running=running)

    def _in_units(
        self, data: Data, running: RunningMixture
    ) -> tuple[RunningMixture, Tensor | None]:
        """Update the units of a posterior.

        Returns:
            Two results: the posterior in the updated units; and the trials that must process all
                data again, `T`, bool, or None if there are none.
        """
        log, n, prior = data.history, data.rounds, bank_prior(data)
        if running.settled and not checks_units(n):
            return running, None
        y, time, noise = (
            part.tensor().reshape(len(running.jumped), n) for part in (log.y, log.time, log.noise)
        )
        choice = log.choice.tensor()
        choice = choice.reshape(*y.shape, *choice.shape[data.time.dim() + 1 :])
        measured = Measured(choice, y, noise.isfinite(), time, noise)
        units, settled, anew = units_now(
            prior, running.units, running.settled, measured, self.starts
        )
        running = running._replace(units=units, settled=settled)
        return (restarted(prior, running, anew), anew) if bool(anew.any()) else (running, None)

    def moments(self, data: Data, now: Tensor) -> Moments:
        """Moments at time ``now``, `batch_shape`, with trials flattened to one dimension."""
        running, passage = running_mixture(data), self._assumed_passage(data, now)
        return moments(running, [passage])[0]

    def unit(self, data: Data) -> Tensor:
        return running_mixture(data).units.spread.view(data.time.shape)

    def prior_mean(self, estimate: Tensor | None) -> Tensor | float:
        assert estimate is not None
        return estimate

    def model_noise(self, data: Data, noise: Tensor) -> Tensor:
        prior, running = bank_prior(data), running_mixture(data)
        own = (running.now.weights * running.now.variances * prior.noise).sum((-2, -1))
        own = own * running.units.spread.square()
        return torch.where(noise > 0, noise, own.view_as(noise))

    def doubly_weighted_gain(self, data: Data, present: Present) -> Tensor:
        return running_mixture(data).now.information_gain.view(data.time.shape)

    def joint(self, data: Data, choice: Tensor, present: Present) -> Joint:
        running, shape, prior = running_mixture(data), data.time.shape, bank_prior(data)
        units, trials = running.units, len(running.jumped)
        groups, q, *columns = choice.shape[len(shape) :]
        with torch.no_grad():
            parts = self.moments(data, present.now)
        U = prior.at(choice.reshape(trials, groups * q, *columns), units)
        lengthscales = prior.lengthscales.unsqueeze(1)  # L x 1 x 1 x 1
        each = U.view(trials, 1, groups, q, -1)
        phi = running.now.span.at(U.unsqueeze(1), prior.lengthscales)
        phi = phi.view(*phi.shape[:2], groups, q, -1)
        c = torch.nn.functional.pad(phi, (1, 0), value=1.0)  # T x L x groups x q x (n + 1)
        means = (c @ parts.mean[:, :, None, :, None]).squeeze(-1)
        spatial = gaussian(each, each, lengthscales) + 1
        known = c @ parts.reduction.unsqueeze(2) @ c.mT
        covariances = parts.worth[..., None, None, None] * spatial - known
        weight = parts.weight[..., None, None]
        mean = (weight * means).sum(1)
        apart = means - mean.unsqueeze(1)
        outer = apart.unsqueeze(-1) * apart.unsqueeze(-2)
        covariance = (weight.unsqueeze(-1) * (covariances + outer)).sum(1)
        unit, centre = units.spread[:, None, None], units.centre[:, None, None]
        return (
            (mean * unit + centre).view(*shape, groups, q),
            (covariance * unit.unsqueeze(-1).square()).view(*shape, groups, q, q),
            running.now.information_gain.view(shape),
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
        running, prior, batch = running_mixture(data), bank_prior(data), data.time.shape
        mean, variance = self.moments(data, present.now).at(running.rows)
        shape = (*batch, mean.shape[-1])

        def draw(normal: Tensor) -> Tensor:
            passage = self._assumed_passage(data, present.now)
            path = drawn(prior, running, passage, normal.reshape(len(mean), -1))
            return (path.at(prior.arms_at(running.units)) - mean).view(shape)

        return ArmPosterior(
            mean=mean.view(shape),
            sd=variance.clamp_min(0).sqrt().view(shape),
            information_gain=running.now.information_gain.view(batch),
            offset=running.units.centre.view(batch),
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
        prior, running = bank_prior(data), running_mixture(data)
        trials, first = len(running.jumped), max(0, data.rounds - NEWEST)
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
            parts=Columns.of(parts, running.now.span, prior.lengthscales),
            expected=expected,
            span=running.now.span,
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
    prior, running = bank_prior(data), running_mixture(data)
    gap = (now.reshape(-1) - running.now.time) / running.units.clock
    return passages(prior, torch.where(running.units.ready, gap.clamp_min(0), 0.0))
