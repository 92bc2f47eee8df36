"""The posterior of a mixture of candidate processes at any point, on grids and boxes.

Members with the same lengthscale share their features, so one mean and one covariance represent
their mixture, and the cost of a point does not depend on the number of members. Lengthscale l has
features φ_l, weight w_l, mean m_l and covariance C_l (with the constant). The features capture a
part ‖φ_l‖² of the prior variance, which is 1; the remaining part is multiplied by s_l². Then

    mean = Σ w_l mean_l,   mean_l = m_lᵀ φ_l,
    variance = Σ w_l (φ_lᵀ C_l φ_l + s_l² max(1 - ‖φ_l‖², 0) + (mean_l - mean)²).

The derivatives with respect to φ_l are w_l m_l for the mean and 2 w_l (C_l φ_l - s_l² φ_l + (mean_l
- mean) m_l) for the variance. The derivative of the standard deviation is the derivative of the
variance divided by twice the standard deviation. Derivatives are explicit because a search of a box
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
from botorch_tv.gp.mixture.bank import BankPrior, checks_clock, units_now
from botorch_tv.gp.mixture.features import WELL_APPROXIMATED, StackedInducing, StackedProducts
from botorch_tv.gp.mixture.filter import (
    RunningMixture,
    advanced,
    mixture_prior,
    passages,
    restarted,
    with_constants,
)
from botorch_tv.gp.points import SMALLEST_VARIANCE, PointPosterior, Pull, beside
from botorch_tv.gp.process import Inference, Joint, Normal, Process

NEWEST = 128
"""Largest number of measurements from which a search starts. Only the newest are used, so the cost
per round is constant."""
AT_ONCE = 2**20
"""Number of entries in a block of the products of features and covariances."""
PASSES = 5
"""Number of copies of a covariance in memory during a step."""


class Moments(NamedTuple):
    """Means and covariances of T trials per lengthscale, in standardised units."""

    weight: Tensor
    """Total weight of the members of each lengthscale, `T x L`."""
    mean: tuple[Tensor, ...]
    """Mean per lengthscale, `T x (r + 1)`."""
    covariance: tuple[Tensor, ...]
    """Covariance per lengthscale, `T x (r + 1) x (r + 1)`."""
    residual: Tensor
    """Factor s² on the prior variance that the features do not represent, `T x L`."""

    def at(self, features: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Mean and variance of the mixture, `T x q`.

        Args:
            features: Two tensors per lengthscale: the features, `T x q x (r + 1)` or `q x (r + 1)`;
                and the prior variance that these features do not represent, `T x q` or `q`.
        """
        means, variances = [], []
        every = zip(features, self.mean, self.covariance, self.residual.unbind(-1))
        for (phi, missing), mean, covariance, residual in every:
            means.append((phi @ mean.unsqueeze(-1)).squeeze(-1))
            together = max(1, AT_ONCE // phi.numel()) if phi.dim() == 2 else len(mean)
            blocks = torch.split(covariance, together)
            variance = torch.cat([((phi @ block) * phi).sum(-1) for block in blocks])
            variances.append(variance + residual.unsqueeze(-1) * missing)
        share, mean = self.weight.unsqueeze(-1), torch.stack(means, 1)
        total = (share * mean).sum(1)
        apart = (mean - total.unsqueeze(1)).square()
        return total, (share * (torch.stack(variances, 1) + apart)).sum(1)


def moments(running: RunningMixture, passages: Sequence[tuple[Tensor, Tensor]]) -> list[Moments]:
    """The moments of T trials after a gap in time, one result per pair in ``passages``.

    Args:
        running: The posterior after the newest observation.
        passages: Pairs (attenuation, log-probability of no jump) for the time since the newest
            observation, `T x K` each. Each covariance is read only once, whatever the number of
            pairs.
    """
    total = running.log_weight.logsumexp(-1).softmax(-1)
    share, s2 = running.log_weight.softmax(-1), running.variances
    every = zip(running.mean, running.covariance, share.unbind(1), s2.unbind(1))
    parts = [_of_lengthscale(*part, passages) for part in every]
    worth = (share * s2).sum(-1)
    found = []
    for own in zip(*parts):
        means, covariances = zip(*own)
        found.append(Moments(total, means, covariances, worth))
    return found


def _of_lengthscale(
    z: Tensor, P: Tensor, w: Tensor, s2: Tensor, passages: Sequence[tuple[Tensor, Tensor]]
) -> list[tuple[Tensor, Tensor]]:
    """Mean and covariance of the members of a lengthscale with weights w and scales s², `T x K`."""
    worth, share, found = w * s2, w.unsqueeze(-1), []
    passages = [(a, log_stays.exp()) for a, log_stays in passages]
    squares = torch.stack([worth * stays * a.square() for a, stays in passages], -2)
    blocks = (squares @ P.flatten(-2)).view(*squares.shape[:-1], *P.shape[-2:])
    along = torch.stack([worth * stays * a for a, stays in passages], -2)
    edges = along @ P[..., -1]
    edges[..., -1] = (worth * P[..., -1, -1]).sum(-1, keepdim=True)
    for passage, block, edge in zip(passages, blocks.unbind(1), edges.unbind(1)):
        lasting, stays = (with_constants(part, z) for part in passage)
        before = lasting * z
        now = stays * before
        mean = (share * now).sum(-2)
        # Means differ before and after a possible jump, and between members, which adds variance.
        jumped = (share * stays * (1 - stays)).sqrt() * before
        rows = torch.cat([jumped, share.sqrt() * (now - mean.unsqueeze(-2))], -2)
        covariance = block.contiguous()
        covariance[:, -1], covariance[..., -1] = edge, edge
        fresh = (worth.unsqueeze(-1) * (1 - stays * lasting.square())).sum(-2)
        covariance.diagonal(dim1=-2, dim2=-1).add_(fresh)
        found.append((mean, covariance.baddbmm_(rows.mT, rows)))
    return found


class StackedMoments:
    """Moments and their derivatives for T trials and L lengthscales with r features in total."""

    def __init__(self, parts: Moments) -> None:
        weight = parts.weight.unsqueeze(-2)
        by_weight = zip(parts.covariance, parts.weight.unbind(-1))
        shared = [part * share[:, None, None] for part, share in by_weight]
        owners = [part.new_ones(part.shape[-1] - 1, 1) for part in parts.mean]
        # Membership of features in lengthscales, 1 or 0, `r x L`.
        self._owner = torch.block_diag(*owners)  # type: ignore[no-untyped-call]
        own = torch.cat([part[:, :-1] for part in parts.mean], -1).unsqueeze(-1) * self._owner
        levels = torch.stack([part[:, -1:] for part in parts.mean], -1)
        mean, level = ((weight * part).sum(-1, keepdim=True) for part in (own, levels))
        corner = torch.stack([part[:, -1:, -1:] for part in shared]).sum(0)
        # w_l, and w_l s_l², `T x 1 x L`.
        self._weight = weight
        self._worth = weight * parts.residual.unsqueeze(-2)
        # w_l C_l among the features of each lengthscale, and between features and the constant.
        self._blocks = tuple(part[:, :-1, :-1].contiguous() for part in shared)
        self._edges = tuple(part[:, -1:, :-1] for part in shared)
        # ``_line`` contains coefficients of quantities that are linear in the features,
        # `T x r x (L + 2)`: the mean; the mean of each lengthscale minus the mean; and the
        # covariances with the constant, Σ w_l C_l. ``_level`` contains the values of these
        # quantities at zero features, `T x 1 x (L + 2)`.
        self._line = torch.cat([mean, own - mean, torch.cat(self._edges, -1).mT], -1)
        self._level = torch.cat([level, levels - level, corner], -1)

    def slopes(
        self, U: Tensor, features: StackedProducts | StackedInducing
    ) -> tuple[Tensor, Tensor, Pull]:
        """Three results: the mean, the standard deviation, and a ``Pull`` for their derivatives.

        The points ``U`` are `T x q x d`; the mean and the standard deviation are `T x q`.
        """
        phi, pull_features = features.at(U)
        own = torch.split(phi, [block.shape[-1] for block in self._blocks], -1)
        covered = zip(self._edges, own, self._blocks)
        slope = torch.cat([torch.baddbmm(*part) for part in covered], -1)
        linear = torch.baddbmm(self._level, phi, self._line)
        mean, apart, beyond = linear[..., 0], linear[..., 1:-1], linear[..., -1]
        tilt, missing_share = self._weight * apart, 1 - phi.square() @ self._owner
        between = torch.addcmul(self._worth * missing_share.clamp_min(0), tilt, apart)
        variance = (slope * phi).sum(-1) + between.sum(-1) + beyond
        sd = variance.clamp_min(SMALLEST_VARIANCE).sqrt_()

        def pull(by_mean: Tensor | float, by_sd: Tensor | float) -> Tensor:
            half = (by_sd / sd * (variance >= SMALLEST_VARIANCE)).unsqueeze(-1)
            missing = (self._worth * (missing_share > 0)) @ self._owner.T
            curved = torch.baddbmm(slope, tilt, self._line[..., 1:-1].mT)
            curved = curved.addcmul_(phi, missing, value=-1)
            straight = beside(by_mean) * self._line[..., 0].unsqueeze(-2)
            return pull_features(torch.addcmul(straight, half, curved))

        return mean, sd, pull


def drawn(
    running: RunningMixture, passage: tuple[Tensor, Tensor], normal: Tensor
) -> tuple[Tensor, ...]:
    """A sample per trial: first a member is drawn, then a function of this member.

    The scale s² of the drawn member is replaced by its mean.

    Draws do not distinguish whether a jump has occurred since the newest observation. As in
    predictions, the drawn function has the mean and covariance of the mixture of two cases: a jump,
    and no jump.

    Args:
        running: The posterior of T trials after the newest observation.
        passage: Two tensors for the time since the newest observation, `T x K` each: the
            attenuation, and the log-probability that no jump has occurred.
        normal: Standard normal variates, `T x (1 + r + 1)`.

    Returns:
        Weights of features per lengthscale, `T x (r + 1)`; zero except for the lengthscale of the
        drawn member.
    """
    cumulative, members = running.weights.flatten(-2).cumsum(-1), running.scale.shape[-1]
    uniform = torch.special.ndtr(normal[:, :1]) * cumulative[:, -1:]
    member = (cumulative < uniform).sum(-1).clamp_max(cumulative.shape[-1] - 1)
    trial = torch.arange(len(normal), device=normal.device)
    own, parts = (trial, member % members), []
    a, log_stays = (part.expand(len(trial), members)[own].unsqueeze(1) for part in passage)
    every = zip(running.mean, running.covariance, running.variances.unbind(1))
    for number, (mean, covariance, s2) in enumerate(every):
        z, P, scale = (part[own].unsqueeze(1) for part in (mean, covariance, s2))
        ((centre, C),) = _of_lengthscale(z, P, torch.ones_like(scale), scale, [(a, log_stays)])
        C = C / scale.unsqueeze(-1)
        # Raise the diagonal: many measurements make the covariance singular up to rounding.
        C.diagonal(dim1=-2, dim2=-1).add_(1e-10)
        root = torch.linalg.cholesky_ex(C).L
        noise = (root @ normal[:, 1 : 1 + C.shape[-1]].unsqueeze(-1)).squeeze(-1)
        value = centre + scale.sqrt() * noise
        is_drawn = (member // members == number).unsqueeze(-1)
        parts.append(torch.where(is_drawn, value, 0.0))
    return tuple(parts)


@dataclass(frozen=True)
class MixturePosterior(PointPosterior):
    """Posteriors of some trials at any points of a box, in standardised units.

    Attributes:
        prior: The prior, with features.
        parts: Moments from which choices are computed.
        expected: Moments from which predictions are computed.
        X: The newest points measured, `T x n x (d + c)`.
        live: Whether each measurement succeeded, `T x n`.
        offset: Mean of the first measurements, `T`.
        context: Centre and spread of the context, `T x c` each.
        information_gain: Information gain of the measurements, `T`.
        path: A sample, if requested: weights of features per lengthscale.
    """

    shared = ("prior",)

    prior: BankPrior
    parts: Moments
    expected: Moments
    X: Tensor
    live: Tensor
    offset: Tensor
    context: tuple[Tensor, Tensor]
    information_gain: Tensor
    path: tuple[Tensor, ...] | None = None

    def at(self, X: Tensor) -> tuple[Tensor, Tensor]:
        # Features of points that all trials share are computed once.
        same = X.stride(0) == 0 and not self.prior.context_dim
        return self._at(X[0] if same else X, self.parts)

    def slopes(self, X: Tensor) -> tuple[Tensor, Tensor, Pull]:
        # Derivatives are with respect to the chosen coordinates only. The context comes last and is
        # not chosen.
        dim, U = len(self.prior.lower), self.prior.unit(X, *self.context)
        mean, sd, pull = self._stacked.slopes(U, self.prior.stacked)
        return mean, sd, lambda *by: self.prior.by_chosen(pull(*by)[..., :dim])

    def expected_at(self, X: Tensor) -> tuple[Tensor, Tensor]:
        return self._at(X, self.expected)

    def mean_at(self, X: Tensor) -> Tensor:
        return (self.parts.weight.mT.unsqueeze(-1) * self._linear(X, self.parts.mean)).sum(0)

    def sample_at(self, X: Tensor) -> Tensor:
        assert self.path is not None
        return self._linear(X, self.path).sum(0) - self.mean_at(X)

    def _at(self, X: Tensor, parts: Moments) -> tuple[Tensor, Tensor]:
        mean, variance = parts.at(self.prior.at(X, *self.context))
        return mean, variance.clamp_min(SMALLEST_VARIANCE).sqrt()

    def _linear(self, X: Tensor, weights: Sequence[Tensor]) -> Tensor:
        """Features times weights `T x (r + 1)`, per lengthscale, `L x T x q`."""
        every = zip(weights, self.prior.at(X, *self.context))
        return torch.stack([(phi @ own.unsqueeze(-1)).squeeze(-1) for own, (phi, _) in every])

    @cached_property
    def _stacked(self) -> StackedMoments:
        return StackedMoments(self.parts)


class MixtureInference(Inference):
    """Inference with the mixture of candidate processes, on any domain.

    Args:
        process: The process; its rules must retain all observations.
        samples: Whether every round draws samples, as for :class:`Inference`.
        starts: Number of measurements that set the units.
        choosing: True for moments from which choices are computed, False for moments from which
            predictions are computed. Moments for choices assume that no jump has occurred since the
            newest measurement. In more than three coordinates, the features do not represent a
            large part of the prior variance. If there are more than three coordinates, moments for
            choices ignore the prior variance that the features do not represent, because no
            measurement reduces this variance.
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
        first = rounds - 1 if anew is None else 0
        for number in range(first, rounds):
            choice, y, time, noise = (
                part.row(number)
                for part in (history.choice, history.y, history.time, history.noise)
            )
            ratio = noise.reshape(-1)
            takes = running.units.ready if anew is None or number == rounds - 1 else anew
            running = advanced(
                bank_prior(after),
                running,
                choice.reshape(len(ratio), *choice.shape[after.time.dim() :]),
                y.reshape(-1),
                time.reshape(-1),
                ratio,
                ratio.isfinite() & takes,
                # Intermediate posteriors are not shared, so their memory may be reused.
                consume=consume or number > first,
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
            part.tensor().reshape(len(running.shape), n) for part in (log.y, log.time, log.noise)
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
        return self._for_choosing(moments(running, [passage])[0], bank_prior(data))

    def _for_choosing(self, parts: Moments, prior: BankPrior) -> Moments:
        """The moments, without missing variance if they are for choices in many coordinates."""
        if not self.choosing or len(prior.lower) + prior.context_dim <= WELL_APPROXIMATED:
            return parts
        return parts._replace(residual=torch.zeros_like(parts.residual))

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
        return running_mixture(data).information_gain

    def joint(self, data: Data, choice: Tensor, present: Present) -> Joint:
        running, shape = running_mixture(data).flat(), data.time.shape
        units, trials = running.units, len(running.shape)
        groups, q, *columns = choice.shape[len(shape) :]
        with torch.no_grad():
            parts = self.moments(data, present.now)
        means, covariances = [], []
        every = bank_prior(data).at(
            choice.reshape(trials, groups * q, *columns), units.context_centre, units.context_spread
        )
        for n, (phi, missing) in enumerate(every):
            each = phi.view(trials, groups, q, -1)
            means.append((each @ parts.mean[n][:, None, :, None]).squeeze(-1))
            rest = parts.residual[:, n, None, None] * missing.view(trials, groups, q)
            within = each @ parts.covariance[n].unsqueeze(1) @ each.mT
            covariances.append(within + torch.diag_embed(rest))
        weight = parts.weight.mT.view(-1, trials, 1, 1)
        mean = (weight * torch.stack(means)).sum(0)
        apart = torch.stack(means) - mean
        outer = apart.unsqueeze(-1) * apart.unsqueeze(-2)
        covariance = (weight.unsqueeze(-1) * (torch.stack(covariances) + outer)).sum(0)
        unit, centre = units.spread[:, None, None], units.centre[:, None, None]
        return (
            (mean * unit + centre).view(*shape, groups, q),
            (covariance * unit.unsqueeze(-1).square()).view(*shape, groups, q, q),
            running_mixture(data).information_gain,
        )

    def _assumed_passage(self, data: Data, now: Tensor) -> tuple[Tensor, Tensor]:
        """Attenuation, and log-probability of no jump (0 for choices), since the newest data."""
        passage = _passage_by(data, now)
        return (passage[0], passage[1] * 0) if self.choosing else passage

    def numbers_per_trial(self, data: Data, horizon: int, trials: int, search: int) -> int:
        prior = bank_prior(data)
        squares = len(prior.rate) * sum(size**2 for size in prior.sizes)
        arms = 8 * prior.arms + (-(-AT_ONCE // trials) if prior.tables is not None else 0)
        return PASSES * squares + arms + log_numbers(horizon) + search


class ArmMixture(MixtureInference, ArmInference):
    """The mixture on the arms of a grid."""

    def predict(self, data: Data, present: Present, normal: Tensor | None = None) -> ArmPosterior:
        running, tables = running_mixture(data), bank_prior(data).tables
        assert tables is not None
        mean, variance = self.moments(data, present.now).at(tables)
        shape = (*data.time.shape, mean.shape[-1])

        def draw(normal: Tensor) -> Tensor:
            passage = self._assumed_passage(data, present.now)
            every = zip(drawn(running.flat(), passage, normal.reshape(len(mean), -1)), tables)
            values = [(table @ own.unsqueeze(-1)).squeeze(-1) for own, (table, _) in every]
            return (torch.stack(values).sum(0) - mean).view(shape)

        return ArmPosterior(
            mean=mean.view(shape),
            sd=variance.clamp_min(0).sqrt().view(shape),
            information_gain=running.information_gain,
            offset=running.units.centre,
            draw=draw,
        )


class PointMixture(MixtureInference):
    """The mixture at points of a box."""

    def predict(
        self, data: Data, present: Present, normal: Normal | None = None, most: int = 0
    ) -> MixturePosterior:
        """The posterior at present in standardised units, with trials flattened to one dimension.

        The moments for predictions always include possible jumps, and the prior variance that the
        features do not represent.

        Args:
            data: The observations.
            present: The time of the decision.
            normal: Random numbers for a sample; None for no sample.
            most: Not used by this inference.
        """
        prior, running = bank_prior(data), running_mixture(data).flat()
        trials, first = len(running.shape), max(0, data.rounds - NEWEST)
        rows = data.rounds - first
        X = data.history.choice.tensor(first)
        live = data.history.noise.tensor(first).isfinite()
        path, passage = None, self._assumed_passage(data, present.now)
        if normal is not None:
            path = drawn(running, passage, normal(prior.normals).reshape(trials, -1))
        ways = [passage, _passage_by(data, present.now)]
        parts, expected = moments(running, ways)
        return MixturePosterior(
            prior=prior,
            parts=self._for_choosing(parts, prior),
            expected=expected,
            X=X.reshape(trials, rows, X.shape[-1]),
            live=live.reshape(trials, rows),
            offset=running.units.centre,
            context=(running.units.context_centre, running.units.context_spread),
            information_gain=running.information_gain,
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
