"""The posterior of a bank at any point, and the bank as an inference on grids and boxes.

Members of one lengthscale share their features, so that the moments of their mixture are those of
one Gaussian: what a point costs does not depend on how many there are. With features φ_l of
lengthscale l, its weight w_l, mean m_l and covariance C_l, constants included, and the prior
variance of 1 that φ_l captures only in part, these are

    mean = Σ w_l mean_l,   mean_l = m_lᵀ φ_l,
    variance = Σ w_l (φ_lᵀ C_l φ_l + s_l² max(1 - ‖φ_l‖², 0) + (mean_l - mean)²),

so that their derivatives by φ_l are w_l m_l and 2 w_l (C_l φ_l - s_l² φ_l + (mean_l - mean) m_l),
and that of the standard deviation is the latter over twice itself. A search of a box evaluates a
few points many times in a row, where automatic differentiation takes longer than the operations
themselves.
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
"""Number of newest measurements near which a box is searched, for a constant cost per round."""
AT_ONCE = 2**20
"""Numbers in a block of features times matrices."""
PASSES = 5
"""Copies of a covariance that a step works on."""


class Moments(NamedTuple):
    """Moments of the members of each of L lengthscales, in units of the starts, of T trials."""

    weight: Tensor
    """All of theirs, `T x L`."""
    mean: tuple[Tensor, ...]
    """Per lengthscale, `T x (r + 1)`."""
    covariance: tuple[Tensor, ...]
    """Per lengthscale, `T x (r + 1) x (r + 1)`."""
    residual: Tensor
    """s², by which what the features leave out is multiplied, `T x L`."""

    def at(self, features: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Mean and variance of the mixture, `T x q`.

        Args:
            features: Per lengthscale, `T x q x (r + 1)` or `q x (r + 1)`, and the variance they
                leave out.
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
    """The mixture of flat trials after time has passed, for every way in which it may have.

    Args:
        running: The posterior after the newest observation.
        passages: Attenuation and chance of a jump since then, `T x K` each; covariances are read
            once for all of these.
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
    """Mean and covariance of members of one lengthscale with weights w, `T x K`, and scales s²."""
    worth, share, found = w * s2, w.unsqueeze(-1), []
    squares = torch.stack([worth * (1 - H) * a.square() for a, H in passages], -2)
    blocks = (squares @ P.flatten(-2)).view(*squares.shape[:-1], *P.shape[-2:])
    along = torch.stack([worth * (1 - H) * a for a, H in passages], -2)
    edges = along @ P[..., -1]
    edges[..., -1] = (worth * P[..., -1, -1]).sum(-1, keepdim=True)
    for (a, H), block, edge in zip(passages, blocks.unbind(1), edges.unbind(1)):
        lasting, stays = (with_constants(part, z) for part in (a, 1 - H))
        before = lasting * z
        now = stays * before
        mean = (share * now).sum(-2)
        # A jump since, and members that differ, add what lies between their means.
        jumped = (share * stays * (1 - stays)).sqrt() * before
        rows = torch.cat([jumped, share.sqrt() * (now - mean.unsqueeze(-2))], -2)
        covariance = block.contiguous()
        covariance[:, -1], covariance[..., -1] = edge, edge
        fresh = (worth.unsqueeze(-1) * (1 - stays * lasting.square())).sum(-2)
        covariance.diagonal(dim1=-2, dim2=-1).add_(fresh)
        found.append((mean, covariance.baddbmm_(rows.mT, rows)))
    return found


class StackedMoments:
    """Moments of L lengthscales with r features in all, of T trials, where they are climbed."""

    def __init__(self, parts: Moments) -> None:
        weight = parts.weight.unsqueeze(-2)
        by_weight = zip(parts.covariance, parts.weight.unbind(-1))
        shared = [part * share[:, None, None] for part, share in by_weight]
        owners = [part.new_ones(part.shape[-1] - 1, 1) for part in parts.mean]
        # 1 for the lengthscale of every feature, `r x L`.
        self._owner = torch.block_diag(*owners)  # type: ignore[no-untyped-call]
        own = torch.cat([part[:, :-1] for part in parts.mean], -1).unsqueeze(-1) * self._owner
        levels = torch.stack([part[:, -1:] for part in parts.mean], -1)
        mean, level = ((weight * part).sum(-1, keepdim=True) for part in (own, levels))
        corner = torch.stack([part[:, -1:, -1:] for part in shared]).sum(0)
        # w_l, and w_l s_l², `T x 1 x L`.
        self._weight = weight
        self._worth = weight * parts.residual.unsqueeze(-2)
        # w_l C_l of the features of each lengthscale, and between these and the constant.
        self._blocks = tuple(part[:, :-1, :-1].contiguous() for part in shared)
        self._edges = tuple(part[:, -1:, :-1] for part in shared)
        # Of what is linear in the features, `T x r x (L + 2)`: of the mean, of what the mean of
        # each lengthscale is beyond it, and of the constant's covariances, Σ w_l C_l; and what it
        # is where all features are 0, `T x 1 x (L + 2)`.
        self._line = torch.cat([mean, own - mean, torch.cat(self._edges, -1).mT], -1)
        self._level = torch.cat([level, levels - level, corner], -1)

    def slopes(
        self, U: Tensor, features: StackedProducts | StackedInducing
    ) -> tuple[Tensor, Tensor, Pull]:
        """Mean and standard deviation, `T x q`, at points `T x q x d`, and their derivatives."""
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
    """A function per trial: a member first, then its scale's mean and its function.

    Whether a jump has come since the last observation is drawn as it is predicted: by the mean and
    the variance of both cases.

    Args:
        running: The posterior of flat trials after the newest observation.
        passage: Attenuation and chance of a jump since then, `T x K` each.
        normal: Standard normal variates, `T x (1 + r + 1)`.

    Returns:
        Weights of features per lengthscale, `T x (r + 1)`; zero for the lengthscales not drawn.
    """
    cumulative, members = running.weights.flatten(-2).cumsum(-1), running.scale.shape[-1]
    uniform = torch.special.ndtr(normal[:, :1]) * cumulative[:, -1:]
    member = (cumulative < uniform).sum(-1).clamp_max(cumulative.shape[-1] - 1)
    trial = torch.arange(len(normal), device=normal.device)
    own, parts = (trial, member % members), []
    a, H = (part.expand(len(trial), members)[own].unsqueeze(1) for part in passage)
    every = zip(running.mean, running.covariance, running.variances.unbind(1))
    for number, (mean, covariance, s2) in enumerate(every):
        z, P, scale = (part[own].unsqueeze(1) for part in (mean, covariance, s2))
        ((centre, C),) = _of_lengthscale(z, P, torch.ones_like(scale), scale, [(a, H)])
        C = C / scale.unsqueeze(-1)
        # Where much was measured the covariance is singular to rounding.
        C.diagonal(dim1=-2, dim2=-1).add_(1e-10)
        root = torch.linalg.cholesky_ex(C).L
        noise = (root @ normal[:, 1 : 1 + C.shape[-1]].unsqueeze(-1)).squeeze(-1)
        value = centre + scale.sqrt() * noise
        is_drawn = (member // members == number).unsqueeze(-1)
        parts.append(torch.where(is_drawn, value, 0.0))
    return tuple(parts)


@dataclass(frozen=True)
class MixturePosterior(PointPosterior):
    """Posteriors of some trials at any points of a box, in units of the starts.

    Attributes:
        prior: Features.
        parts: Moments.
        expected: Those that are expected of a choice.
        X: Points measured lately, `T x n x (d + c)`.
        live: Which did not fail, `T x n`.
        offset: The starts' mean, `T`.
        context: Centre and spread of the context, `T x c`.
        information_gain: `T`.
        path: A function drawn, where one was asked for: weights of features per lengthscale.
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
        # Features of points that are the same for all trials are found once.
        same = X.stride(0) == 0 and not self.prior.context_dim
        return self._at(X[0] if same else X, self.parts)

    def slopes(self, X: Tensor) -> tuple[Tensor, Tensor, Pull]:
        # A context, which is not chosen, comes behind.
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
    """What is the same on any domain.

    Args:
        process: Its retention has been checked to keep everything.
        samples: As for all.
        starts: Measurements that set the units.
        choosing: Whether it is to choose by. No jump is then taken to have come since the newest of
            them, and what features leave out, which is much beyond three coordinates, counts as
            known: no measurement ever tells of it.
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
                # The posterior after the measurement before is nobody else's.
                consume=consume or number > first,
            )
        return after._replace(running=running.view(after.time.shape))

    def _in_units(
        self, data: Data, running: RunningMixture
    ) -> tuple[RunningMixture, Tensor | None]:
        """Trials in their units, and which begin anew, as these have changed; None for none."""
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
        """Of flat trials at time ``now``, `batch_shape`."""
        running, passage = running_mixture(data).flat(), self._assumed_passage(data, now)
        return self._for_choosing(moments(running, [passage])[0], bank_prior(data))

    def _for_choosing(self, parts: Moments, prior: BankPrior) -> Moments:
        """Moments for choosing, without the variance that features leave out where it is large."""
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
        """The passage of time assumed for predictions; without jumps when choosing."""
        passage = _passage_by(data, now)
        return (passage[0], passage[1] * 0) if self.choosing else passage

    def numbers_per_trial(self, data: Data, horizon: int, trials: int, search: int) -> int:
        prior = bank_prior(data)
        squares = len(prior.rate) * sum(size**2 for size in prior.sizes)
        arms = 8 * prior.arms + (-(-AT_ONCE // trials) if prior.tables is not None else 0)
        return PASSES * squares + arms + log_numbers(horizon) + search


class ArmMixture(MixtureInference, ArmInference):
    """On the arms of a grid."""

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
    """At points of a box."""

    def predict(
        self, data: Data, present: Present, normal: Normal | None = None, most: int = 0
    ) -> MixturePosterior:
        """The posterior at present, of flattened trials, in units of the starts.

        What is to be expected of a choice takes jumps, and what features leave out, into account
        where it is to choose by, too.

        Args:
            data: The observations.
            present: When; nothing ages.
            normal: Random numbers for a function drawn from it; None for none.
            most: Not looked at.
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
    """The bank's prior on the domain."""
    assert isinstance(data.prior, BankPrior)
    return data.prior


def running_mixture(data: Data) -> RunningMixture:
    """The posterior of its members."""
    assert isinstance(data.running, RunningMixture)
    return data.running


def _passage_by(data: Data, now: Tensor) -> tuple[Tensor, Tensor]:
    """The passage of time from the newest measurement to ``now``, of flat trials."""
    prior, running = bank_prior(data), running_mixture(data).flat()
    gap = (now.reshape(-1) - running.time) / running.units.clock
    return passages(prior, torch.where(running.units.ready, gap.clamp_min(0), 0.0))
