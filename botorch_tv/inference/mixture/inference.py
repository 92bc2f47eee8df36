"""The mixture as an inference, on the arms of a grid and at points of a box."""

from __future__ import annotations

import torch
from torch import Size, Tensor

from botorch_tv.inference.arms import ArmInference, ArmPosterior, log_numbers
from botorch_tv.inference.data import Change, Data, Present, Prior
from botorch_tv.inference.mixture.advance import Measurement, advanced, features_at
from botorch_tv.inference.mixture.drawn import MemberDraw, drawn
from botorch_tv.inference.mixture.features import WELL_APPROXIMATED
from botorch_tv.inference.mixture.filter import Passage
from botorch_tv.inference.mixture.moments import (
    Moments,
    mixed,
    moments,
    relevant_lengthscales,
    scales,
    weights,
)
from botorch_tv.inference.mixture.posterior import MixturePosterior
from botorch_tv.inference.mixture.prior import BankPrior
from botorch_tv.inference.mixture.running import (
    RunningMixture,
    mixture_prior,
    passages,
    restarted,
)
from botorch_tv.inference.mixture.units import checked_clock, checks_clock, renewed
from botorch_tv.inference.process import Process
from botorch_tv.inference.protocol import Inference, Joint, Normal

NEWEST = 128
"""Number of newest measurements near which a box is searched, for a constant cost per round."""
ARMS_AT_ONCE = 2**20
"""Numbers in a block of features times matrices."""
PASSES = 5
"""Copies of a covariance that a step works on."""


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
        prior, running = bank_prior(after), running_mixture(before).flat()
        told = after.rounds
        noise = after.history.noise.row(told - 1).reshape(-1)
        good = noise.isfinite()
        running = running._replace(number=running.number + good)
        anew = None
        if not running.settled:
            running, anew = self._with_units(after, running)
        if checks_clock(told):
            running, anew = self._with_clock(after, running, anew)
        if anew is None:
            takes = good & running.units.known
            running = advanced(
                prior, running, _measurement(after, told - 1, takes), consume=consume
            )
        else:
            for number in range(told):
                row = after.history.noise.row(number).reshape(-1).isfinite()
                takes = anew if number < told - 1 else running.units.known
                # What came out of the measurement before is nobody else's.
                running = advanced(
                    prior,
                    running,
                    _measurement(after, number, row & takes),
                    consume=consume or number > 0,
                )
        return after._replace(running=running.view(after.time.shape))

    def _with_units(
        self, data: Data, running: RunningMixture
    ) -> tuple[RunningMixture, Tensor | None]:
        """Units of trials until these are final, and which learn anew in others; None for none."""
        history, trials = data.history, running.shape.shape[0]
        n, prior = data.rounds, bank_prior(data)
        y, time = (part.tensor().reshape(trials, n) for part in (history.y, history.time))
        good = history.noise.tensor().reshape(trials, n).isfinite()
        context = y.new_zeros(trials, n, prior.context_dim)
        if prior.context_dim:
            context = history.choice.tensor().reshape(trials, n, -1)[..., len(prior.lower) :]
        units, moving = renewed(running.units, y, good, time, context, self.starts)
        running = running._replace(units=units)
        if n < self.starts:
            return running, None
        # A device is waited for in these rounds alone.
        anew = moving & units.known & good[:, -1]
        if not bool(moving.any()):
            return running._replace(settled=True), None
        return (restarted(prior, running, anew), anew) if bool(anew.any()) else (running, None)

    def _with_clock(
        self, data: Data, running: RunningMixture, anew: Tensor | None
    ) -> tuple[RunningMixture, Tensor | None]:
        """Trials in their units, those begun anew whose clock was far off, and which learn anew."""
        history, shape = data.history, (running.shape.shape[0], data.rounds)
        good = history.noise.tensor().reshape(shape).isfinite()
        units, apart = checked_clock(running.units, history.time.tensor().reshape(shape), good)
        if not bool(apart.any()):
            return running, anew
        running = restarted(bank_prior(data), running._replace(units=units), apart)
        return running, apart if anew is None else anew | apart

    def moments(self, data: Data, now: Tensor) -> tuple[Moments, ...]:
        """Per lengthscale, of flat trials, at time ``now``, `batch_shape`."""
        running, passage = running_mixture(data).flat(), self._assumed_passage(data, now)
        found = moments(running.groups, [passage], running.shape)[0]
        return self._for_choosing(found, bank_prior(data))

    def _for_choosing(self, parts: tuple[Moments, ...], prior: BankPrior) -> tuple[Moments, ...]:
        """Moments for choosing, without the variance that features leave out where it is large."""
        if not self.choosing or len(prior.lower) + prior.context_dim <= WELL_APPROXIMATED:
            return parts
        return tuple(one._replace(residual=torch.zeros_like(one.residual)) for one in parts)

    def unit(self, data: Data) -> Tensor:
        return running_mixture(data).units.spread

    def prior_mean(self, estimate: Tensor | None) -> Tensor | float:
        assert estimate is not None
        return estimate

    def believed_noise(self, data: Data, noise: Tensor) -> Tensor:
        prior, running = bank_prior(data), running_mixture(data).flat()
        share = weights(running.groups)
        s2 = torch.stack([scales(one, running.shape) for one in running.groups], -2)
        own = (share * s2 * prior.members.noise).sum((-2, -1)) * running.units.spread.square()
        return noise * own.view_as(noise)

    def doubly_weighted_gain(self, data: Data, present: Present) -> Tensor:
        return running_mixture(data).information_gain

    def joint(self, data: Data, choice: Tensor, present: Present) -> Joint:
        prior, running = bank_prior(data), running_mixture(data).flat()
        with torch.no_grad():
            parts = self.moments(data, present.now)
        shape, trials = data.time.shape, running.shape.shape[0]
        groups, q = choice.shape[len(shape)], choice.shape[len(shape) + 1]
        flat = choice.reshape(trials, groups * q, *choice.shape[len(shape) + 2 :])
        means, covariances = [], []
        for number, part in enumerate(parts):
            phi, left = features_at(prior, running.units, number, flat)
            mean = (phi @ part.mean.unsqueeze(-1)).squeeze(-1)
            each = phi.view(trials, groups, q, -1)
            covariance = each @ part.covariance.unsqueeze(1) @ each.mT
            rest = (part.residual.unsqueeze(-1) * left).view(trials, groups, q)
            covariances.append(covariance + torch.diag_embed(rest))
            means.append(mean.view(trials, groups, q))
        weight = torch.stack([part.weight for part in parts]).view(-1, trials, 1, 1)
        stacked = torch.stack(means)
        mean = (weight * stacked).sum(0)
        apart = stacked - mean
        outer = apart.unsqueeze(-1) * apart.unsqueeze(-2)
        covariance = (weight.unsqueeze(-1) * (torch.stack(covariances) + outer)).sum(0)
        unit, centre = running.units.spread[:, None, None], running.units.centre[:, None, None]
        return Joint(
            (mean * unit + centre).view(*shape, groups, q),
            (covariance * unit.unsqueeze(-1).square()).view(*shape, groups, q, q),
            running_mixture(data).information_gain,
        )

    def _assumed_passage(self, data: Data, now: Tensor) -> Passage:
        """The passage of time assumed for predictions; without jumps when choosing."""
        passage = _passage_by(data, now)
        return passage._replace(jump=passage.jump * 0) if self.choosing else passage

    def _drawn(self, data: Data, now: Tensor, normal: Tensor) -> MemberDraw:
        """A function of a member drawn first, of flat trials."""
        running = running_mixture(data).flat()
        return drawn(running.groups, self._assumed_passage(data, now), running.shape, normal)

    def numbers_per_trial(self, data: Data, horizon: int, trials: int, search: int) -> int:
        prior = bank_prior(data)
        squares = len(prior.members.rate) * sum(size**2 for size in prior.sizes)
        arms = 8 * prior.arms + (-(-ARMS_AT_ONCE // trials) if prior.tables is not None else 0)
        return PASSES * squares + arms + log_numbers(horizon) + search


class ArmMixture(MixtureInference, ArmInference):
    """On the arms of a grid."""

    def predict(self, data: Data, present: Present, normal: Tensor | None = None) -> ArmPosterior:
        prior, running = bank_prior(data), running_mixture(data)
        assert prior.tables is not None
        parts, tables = self.moments(data, present.now), prior.tables
        means, variances = [], []
        for part, (table, left) in zip(parts, tables):
            together = max(1, ARMS_AT_ONCE // table.numel())
            blocks = [
                Moments(*one).at(table, left)
                for one in zip(*(torch.split(tensor, together) for tensor in part))
            ]
            means.append(torch.cat([one for one, _ in blocks]))
            variances.append(torch.cat([one for _, one in blocks]))
        weight = torch.stack([part.weight for part in parts])
        mean, variance = mixed(weight, torch.stack(means), torch.stack(variances))
        shape = (*data.time.shape, prior.arms)

        def draw(normal: Tensor) -> Tensor:
            one = self._drawn(data, present.now, normal.reshape(len(mean), -1))
            values = torch.zeros_like(mean)
            for number, (table, _) in enumerate(tables):
                values = values + one.of(number, table)
            return (values - mean).view(shape)

        return ArmPosterior(
            mean=mean.view(shape),
            sd=variance.clamp_min(0).sqrt().view(shape),
            information_gain=running.information_gain,
            offset=running.units.centre,
            draw=draw,
        )

    def at_arms(self, data: Data, index: Tensor, present: Present) -> Joint:
        joint = self.joint(data, index.unsqueeze(-2), present)
        return Joint(joint.mean.squeeze(-2), joint.covariance.squeeze(-3), joint.information_gain)


class PointMixture(MixtureInference):
    """At points of a box."""

    def predict(
        self,
        data: Data,
        present: Present,
        normal: Normal | None = None,
        most: int = 0,
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
        path, groups = None, running.groups
        if normal is not None:
            path = self._drawn(data, present.now, normal(prior.normals).reshape(trials, -1))
        else:  # after some dozens of rounds most features are of a lengthscale ruled out
            matter = relevant_lengthscales(groups)
            prior, groups = prior.of_lengthscales(matter), tuple(groups[one] for one in matter)
        ways = [self._assumed_passage(data, present.now), _passage_by(data, present.now)]
        parts, expected = moments(groups, ways, running.shape)
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


def _passage_by(data: Data, now: Tensor) -> Passage:
    """The passage of time from the newest measurement to ``now``, of flat trials."""
    prior, running = bank_prior(data), running_mixture(data).flat()
    gap = (now.reshape(-1) - running.time) / running.units.clock
    return passages(prior, torch.where(running.units.known, gap.clamp_min(0), 0.0))


def _measurement(data: Data, number: int, takes: Tensor) -> Measurement:
    """Row ``number`` of the log, of flat trials, from which some of them learn, `T`."""
    history = data.history
    choice = history.choice.row(number)
    return Measurement(
        choice=choice.reshape(len(takes), *choice.shape[data.time.dim() :]),
        y=history.y.row(number).reshape(-1),
        time=history.time.row(number).reshape(-1),
        ratio=history.noise.row(number).reshape(-1),
        good=takes,
    )
