"""The posterior on all arms of a grid, advanced by a rank-one step per round."""

from __future__ import annotations

import torch
from torch import Size, Tensor

from botorch_tv.inference import recursion
from botorch_tv.inference.arms import (
    ArmInference,
    ArmPosterior,
    arm_basis,
    log_numbers,
    per_trial,
    scaled,
)
from botorch_tv.inference.basis import Basis, FeatureBasis
from botorch_tv.inference.costs import AT_ONCE, LEAST_NOISE, REFRESH_ROUNDS, SMALL_RANK
from botorch_tv.inference.data import Change, Data
from botorch_tv.inference.losses import ArmLoss, RootLoss, RowLoss
from botorch_tv.inference.process import Process
from botorch_tv.inference.protocol import Joint
from botorch_tv.inference.recursion import Belief
from botorch_tv.inference.regression import constant_mean, numbers_of_regression
from botorch_tv.inference.surface import Surface


class ArmRecursion(ArmInference):
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

    def start(self, prior: Basis | Surface, batch_shape: Size) -> Belief:
        return self._prior(prior, batch_shape, read_only=False)

    def _prior(self, prior: Basis | Surface, batch_shape: Size, *, read_only: bool) -> Belief:
        assert isinstance(prior, Basis)
        return recursion.prior_belief(
            prior,
            batch_shape,
            self._first_variance(prior),
            form=self._form(prior),
            trend=self.process.known_mean is None,
            read_only=read_only,
        )

    def observe(self, before: Data, after: Data, change: Change, *, consume: bool) -> Data:
        process, basis = self.process, arm_basis(after)
        if after.dropped == after.rounds:
            return self._emptied(after, read_only=False)
        restarts = change.restarts and process.moves
        if change.any_rows or restarts or self._refreshes(after, change):
            return self._anew(after)
        belief = _belief(before) if consume else recursion.copied(_belief(before))
        if isinstance(belief.loss, ArmLoss) and _amplifies(after.least_noise, basis):
            belief = belief._replace(loss=belief.loss.as_rows(basis))
        prior = None
        if process.moves:
            attenuation, earlier, prior = self._motion(before, before.time, after, after.time)
            belief = recursion.moved_(belief, basis, attenuation, earlier, prior)
        kept = before.mask
        if change.cleared is not None:
            belief = recursion.cleared_(belief, self._first_variance(basis), change.cleared)
            kept = before.kept & ~change.cleared.unsqueeze(-1)
        belief = self._observed(belief, after, after.rounds - 1, prior)
        for number in change.leaving:
            among = None if kept is None else kept[..., number - before.dropped]
            belief = self._observed(belief, after, number, prior, leaving=True, among=among)
        if change.leaving:
            # Of a window without data only rounding is left, and a ratio of it would be any number.
            belief = recursion.cleared_(belief, basis.variance, belief.number == 0)
        return after._replace(belief=belief)

    def keep(self, before: Data, after: Data, change: Change) -> Data:
        if after.dropped == after.rounds > before.dropped:
            return self._emptied(after, read_only=True)
        restarts = change.restarts and self.process.moves
        changed = change.leaving or change.any_rows or change.cleared is not None
        return self._anew(after) if changed or restarts else after

    def predict(
        self, data: Data, now: Tensor, reference: Tensor, normal: Tensor | None = None
    ) -> ArmPosterior:
        belief, basis, scratch = _belief(data), arm_basis(data), arm_basis(data).scratch
        mean, sd = belief.mean, scratch.take("sd", belief.mean.shape, belief.mean)
        trend, prior, square = belief.trend, None, None
        estimate = None
        if trend is not None:
            estimate = constant_mean(trend.cross, trend.weight)
            mean = mean - estimate.unsqueeze(-1) * trend.response
        if self.process.moves:
            attenuation, before, prior = self._motion(data, data.time, data, now)
            factor, square = attenuation.unsqueeze(-1), attenuation.square()
            mean = torch.mul(mean, factor, out=scratch.take("mean", mean.shape, mean))
            torch.mul(belief.variance, square.unsqueeze(-1), out=sd)
            sd.addcmul_((prior - square * before).unsqueeze(-1), basis.variance).clamp_min_(0)
        else:
            torch.clamp(belief.variance, min=0, out=sd)

        def draw(normal: Tensor) -> Tensor:
            loss = belief.loss if square is None else belief.loss.decayed(square)
            return basis.expand(loss.draw(basis, prior, normal))

        return ArmPosterior(
            mean=mean,
            sd=sd.sqrt_(),
            information_gain=belief.information_gain,
            offset=self.prior_mean(estimate),
            draw=draw,
        )

    def at_arms(self, data: Data, index: Tensor, now: Tensor, reference: Tensor) -> Joint:
        basis, belief, prior = arm_basis(data), _belief(data), None
        mean, loss, trend = belief.mean.gather(-1, index), belief.loss, belief.trend
        estimate = None
        if trend is not None:
            # Both series decay alike, so the estimate may be taken off before time passes.
            estimate = constant_mean(trend.cross, trend.weight)
            mean = mean - estimate.unsqueeze(-1) * trend.response.gather(-1, index)
        if self.process.moves:
            attenuation, _, prior = self._motion(data, data.time, data, now)
            mean, loss = mean * attenuation.unsqueeze(-1), loss.decayed(attenuation.square())
        lost = basis.inner(loss.at(basis, index), index)
        return Joint(
            mean=mean + per_trial(self.prior_mean(estimate)),
            covariance=scaled(basis.gram(index), prior) - lost,
            information_gain=belief.information_gain,
        )

    def doubly_weighted_gain(self, data: Data, now: Tensor, reference: Tensor) -> Tensor:
        return _belief(data).information_gain

    def numbers_per_trial(self, data: Data, horizon: int, trials: int, search: int) -> int:
        basis, process = arm_basis(data), self.process
        form, kept = self._form(basis), process.most_kept(horizon)
        if not process.slides:
            lost = form.numbers(basis, kept)
        else:
            # A row for what is told and one for what is left out, until a regression replaces them.
            lost = RowLoss.numbers(basis, min(2 * horizon - kept, kept + 2 * REFRESH_ROUNDS))
            often = _amplifies(process.noise, basis)
            if horizon > kept and (often or horizon >= REFRESH_ROUNDS):
                none = RowLoss.numbers(basis, 0)
                regression = numbers_of_regression(basis, kept, moves=False)
                lost = max(lost, none + max(regression, none + kept * basis.size))
        # What all trials begin with is made once for a single one.
        template = -(-(basis.size**2) // trials) if form is RootLoss else 0
        return AT_ONCE * basis.arms + log_numbers(horizon) + lost + template

    def _form(self, basis: Basis) -> type[ArmLoss | RowLoss | RootLoss]:
        """How the covariance lost is held; the same in all trials, whatever they play."""
        process = self.process
        if process.moves or process.slides:
            return RowLoss
        small = isinstance(basis, FeatureBasis) and basis.size <= SMALL_RANK
        if small or self.samples:
            return RootLoss
        # In single precision the inverse would put a mean off by whole units within 200 rounds.
        return RowLoss if _amplifies(process.noise, basis) else ArmLoss

    def _anew(self, data: Data) -> Data:
        """The data with a belief computed from the rows kept, at the time of the newest of all."""
        evidence = self.evidence(data, data.time, data.time)
        return data._replace(belief=recursion.from_evidence(arm_basis(data), evidence))

    def _emptied(self, data: Data, *, read_only: bool) -> Data:
        """The data with the belief of no row at all, at the time of the newest of all."""
        belief = self._prior(data.prior, data.time.shape, read_only=read_only)
        if self.process.moves:  # rows may have left without a reset, so that time counts on
            elapsed = _elapsed(data, data.time).unsqueeze(-1)
            prior = self.process.decay.prior_variance(elapsed).to(belief.variance)
            belief = belief._replace(variance=prior * arm_basis(data).variance)
        return data._replace(belief=belief)

    def _refreshes(self, data: Data, change: Change) -> bool:
        """Whether rows that leave are left out by computing all anew."""
        if not change.leaving:
            return False
        often = self.process.moves or _amplifies(data.least_noise, arm_basis(data))
        return often or data.rounds % REFRESH_ROUNDS == 0

    def _observed(
        self,
        belief: Belief,
        data: Data,
        number: int,
        prior: Tensor | None,
        *,
        leaving: bool = False,
        among: Tensor | None = None,
    ) -> Belief:
        history, mean = data.history, self.process.known_mean
        y, noise = history.y.row(number), history.noise.row(number)
        if among is not None:
            noise = torch.where(among, noise, torch.inf)
        return recursion.observe_(
            belief,
            arm_basis(data),
            history.choice.row(number),
            y - mean if mean else y,
            noise,
            prior,
            leave_out=leaving,
        )

    def _first_variance(self, basis: Basis) -> Tensor:
        """Of the prior at the origin of time, `M`."""
        origin = basis.variance.new_zeros((), dtype=torch.float64)
        return basis.variance * self.process.decay.prior_variance(origin).to(basis.variance)

    def _motion(
        self, early: Data, then: Tensor, late: Data, now: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Attenuation from then to now, and the factors on the prior variance then and now."""
        decay, dtype = self.process.decay, arm_basis(early).variance.dtype
        start, end = _elapsed(early, then), _elapsed(early, now)
        attenuation = decay.transition(start, end).to(dtype)
        before = decay.prior_variance(start).to(dtype)
        return attenuation, before, decay.prior_variance(_elapsed(late, now)).to(dtype)


def _amplifies(least_noise: float, basis: Basis) -> bool:
    """Whether steps that amplify rounding by (k / noise)² would lose digits that matter."""
    if basis.variance.dtype != torch.float64:
        return True
    return least_noise < LEAST_NOISE * basis.scale**2


def _elapsed(data: Data, time: Tensor) -> Tensor:
    """Time since the first observation since the last reset, 0 before it, `batch_shape`."""
    return (time - data.origin).clamp_min(0)


def _belief(data: Data) -> Belief:
    assert data.belief is not None
    return data.belief
