"""A posterior that is advanced by a rank-one step per round, whatever the domain."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Size, Tensor

from botorch_tv.inference.arm_reduction import ArmReduction
from botorch_tv.inference.basis import Basis
from botorch_tv.inference.costs import FINEST_SHARE, LEAST_NOISE, REFRESH_ROUNDS
from botorch_tv.inference.data import Change, Data, Present
from botorch_tv.inference.prior import Prior
from botorch_tv.inference.process import Process
from botorch_tv.inference.protocol import Inference, basis_of
from botorch_tv.inference.reductions import Reduction, RootReduction, RowReduction
from botorch_tv.inference.running import (
    RunningPosterior,
    cleared_,
    copied,
    from_observations,
    moved_,
    observe_,
    running_prior,
)


class Recursion(Inference):
    """A rank-one step per round, whose cost does not grow with the rounds told."""

    @staticmethod
    def serves(process: Process) -> bool:
        """Whether a rank-one step per round is right, and enough, for a process.

        Noise that ages changes every row at every round, and only of a Markov process the newest
        posterior says all. Rows that leave by time, or out of a window over a moving prior, can be
        followed by computing anew whenever one does, which is no cheaper than a regression.
        """
        slides_while_moving = process.slides and process.moves
        enough = not (process.expires or slides_while_moving)
        return not process.ages and process.decay.markovian and enough

    def start(self, prior: Prior, batch_shape: Size) -> RunningPosterior:
        return self._prior(prior, batch_shape, read_only=False)

    def observe(self, before: Data, after: Data, change: Change, *, consume: bool) -> Data:
        process, basis = self.process, basis_of(after)
        if after.dropped == after.rounds:
            return self._emptied(after, read_only=False)
        restarts = change.restarts and process.moves
        if change.any_rows or restarts or self._refreshes(after, change):
            return self._anew(after)
        running = running_of(before) if consume else copied(running_of(before))
        if isinstance(running.reduction, ArmReduction) and amplifies(after.least_noise, basis):
            running = running._replace(reduction=running.reduction.as_rows(basis))
        prior = None
        if process.moves:
            attenuation, grown, prior = self._motion(before, before.time, after, after.time)
            running = moved_(running, basis, attenuation, grown)
        if change.cleared is not None:
            running = cleared_(running, self._first_variance(basis), change.cleared)
        newest = after.rounds - 1
        running = self._observed(running, after, newest, prior)
        kept = before.mask if change.leaving else None
        if change.leaving and change.cleared is not None:
            kept = before.kept & ~change.cleared.unsqueeze(-1)
        for number in change.leaving:
            among = None if kept is None else kept[..., number - before.dropped]
            running = self._observed(running, after, number, prior, leaving=True, among=among)
        if change.leaving and after.empty is not None:
            # Of a window without data only rounding is left, and a ratio of it would be any number.
            running = cleared_(running, basis.variance, after.empty)
        return after._replace(running=running)

    def keep(self, before: Data, after: Data, change: Change) -> Data:
        if after.dropped == after.rounds > before.dropped:
            return self._emptied(after, read_only=True)
        restarts = change.restarts and self.process.moves
        changed = change.leaving or change.any_rows or change.cleared is not None
        return self._anew(after) if changed or restarts else after

    def doubly_weighted_gain(self, data: Data, present: Present) -> Tensor:
        return running_of(data).information_gain

    @abstractmethod
    def _form(self, basis: Basis) -> type[Reduction]:
        """How reductions are held; the same in all trials, whatever they play."""

    def _located(self, basis: Basis, choice: Tensor) -> Tensor:
        """Choices as the basis takes them."""
        return choice

    def _prior(self, prior: Prior, batch_shape: Size, *, read_only: bool) -> RunningPosterior:
        assert isinstance(prior, Basis)
        return running_prior(
            prior,
            batch_shape,
            self._first_variance(prior),
            form=self._form(prior),
            trend=self.process.known_mean is None,
            read_only=read_only,
        )

    def _anew(self, data: Data) -> Data:
        """The data, its posterior computed from the rows kept, at the time of the newest of all."""
        observations, basis = self.observations(data, Present(data.time, data.time)), basis_of(data)
        observations = observations._replace(choice=self._located(basis, observations.choice))
        running = from_observations(basis, observations)
        if self._form(basis) is RootReduction and not amplifies(data.least_noise, basis):
            assert isinstance(running.reduction, RowReduction)
            # Or every sample would have to take a root.
            running = running._replace(reduction=running.reduction.as_root())
        return data._replace(running=running)

    def _emptied(self, data: Data, *, read_only: bool) -> Data:
        """The data with the posterior of no row at all, at the time of the newest of all."""
        running = self._prior(data.prior, data.time.shape, read_only=read_only)
        if self.process.moves:  # rows may have left without a reset, so that time counts on
            elapsed = _elapsed(data, data.time).unsqueeze(-1)
            prior = self.process.decay.prior_variance(elapsed).to(running.variance)
            running = running._replace(variance=prior * basis_of(data).variance)
        return data._replace(running=running)

    def _refreshes(self, data: Data, change: Change) -> bool:
        """Whether rows that leave are left out by computing all anew."""
        if not change.leaving:
            return False
        often = self.process.moves or amplifies(data.least_noise, basis_of(data))
        return often or data.rounds % REFRESH_ROUNDS == 0

    def _observed(
        self,
        running: RunningPosterior,
        data: Data,
        number: int,
        prior: Tensor | None,
        *,
        leaving: bool = False,
        among: Tensor | None = None,
    ) -> RunningPosterior:
        history, mean = data.history, self.process.known_mean
        y, noise, basis = history.y.row(number), history.noise.row(number), basis_of(data)
        if among is not None:
            noise = torch.where(among, noise, torch.inf)
        return observe_(
            running,
            basis,
            self._located(basis, history.choice.row(number)),
            y - mean if mean else y,
            noise,
            prior,
            leave_out=leaving,
        )

    def _first_variance(self, basis: Basis) -> Tensor:
        """The prior variance at time 0, `M`."""
        if not self.process.moves:
            return basis.variance
        origin = basis.variance.new_zeros((), dtype=torch.float64)
        return basis.variance * self.process.decay.prior_variance(origin).to(basis.variance)

    def _moved_to(
        self, data: Data, now: Tensor, index: Tensor | None = None
    ) -> tuple[Tensor, Reduction, Tensor | None, Tensor | None]:
        """The posterior at time ``now``, of all arms or some, as the recursion holds it.

        Returns:
            Mean less the constant estimated, `batch_shape x q`; reduction; factor on the prior
            covariance, None for 1; and that constant, None where it is known, both `batch_shape`.
        """
        running, prior, estimate = running_of(data), None, None
        mean, reduction, trend = running.mean, running.reduction, running.trend
        if index is not None:
            mean = mean.gather(-1, index)
        if trend is not None:
            # Both series decay alike, so the estimate may be taken off before time passes.
            response = trend.response if index is None else trend.response.gather(-1, index)
            estimate = trend.constant
            mean = mean - estimate.unsqueeze(-1) * response
        if self.process.moves:
            attenuation, _, prior = self._motion(data, data.time, data, now)
            mean = mean * attenuation.unsqueeze(-1)
            reduction = reduction.decayed(attenuation.square())
        return mean, reduction, prior, estimate

    def _motion(
        self, early: Data, then: Tensor, late: Data, now: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """What passes from then to now, each `batch_shape`.

        Returns:
            The factor a on covariances; the prior variance now that a² times that of then leaves,
            as a share of the kernel's; and the prior variance now, None for 1.
        """
        decay, dtype = self.process.decay, basis_of(early).variance.dtype
        start, end = _elapsed(early, then), _elapsed(early, now)
        attenuation = decay.transition(start, end).to(dtype)
        if decay.stationary:
            return attenuation, 1 - attenuation.square(), None
        before = decay.prior_variance(start).to(dtype)
        if late.origin is not early.origin:
            end = _elapsed(late, now)
        prior = decay.prior_variance(end).to(dtype)
        return attenuation, prior - attenuation.square() * before, prior


def amplifies(least_noise: float, basis: Basis) -> bool:
    """Whether steps that amplify rounding by (k / noise)² would lose digits that matter."""
    if basis.variance.dtype != torch.float64:
        return True
    return least_noise < LEAST_NOISE * basis.scale**2


def precise_rounds(inference: Inference, prior: Prior) -> float:
    """Observations kept up to which rounding is small beside what is left of the variance.

    Endless where it does not pile up: a regression computes anew, and a moving prior forgets.
    """
    if not isinstance(inference, Recursion) or inference.process.moves:
        return math.inf
    rounding = torch.finfo(prior.variance.dtype).eps * prior.scale**2
    return inference.process.noise / (FINEST_SHARE * rounding)


def _elapsed(data: Data, time: Tensor) -> Tensor:
    """Time since the first observation since the last reset, 0 before it, `batch_shape`."""
    return (time - data.origin).clamp_min(0)


def running_of(data: Data) -> RunningPosterior:
    """What the data hold in addition to the log."""
    assert isinstance(data.running, RunningPosterior)
    return data.running
