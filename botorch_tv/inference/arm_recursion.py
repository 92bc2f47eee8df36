"""The posterior on all arms of a grid, advanced by a rank-one step per round."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_tv.inference.arms import (
    ArmInference,
    ArmPosterior,
    log_numbers,
    per_trial,
    scaled,
)
from botorch_tv.inference.basis import Basis, FeatureBasis
from botorch_tv.inference.costs import AT_ONCE, REFRESH_ROUNDS, SMALL_RANK
from botorch_tv.inference.data import Data
from botorch_tv.inference.losses import ArmLoss, RootLoss, RowLoss
from botorch_tv.inference.protocol import Joint, basis_of
from botorch_tv.inference.recursive import Recursion, amplifies, belief_of
from botorch_tv.inference.regression import constant_mean, numbers_of_regression


class ArmRecursion(Recursion, ArmInference):
    """A rank-one step on all arms per round."""

    def predict(
        self, data: Data, now: Tensor, reference: Tensor, normal: Tensor | None = None
    ) -> ArmPosterior:
        belief, basis, scratch = belief_of(data), basis_of(data), basis_of(data).scratch
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
        basis, belief, prior = basis_of(data), belief_of(data), None
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

    def numbers_per_trial(self, data: Data, horizon: int, trials: int, search: int) -> int:
        basis, process = basis_of(data), self.process
        form, kept = self._form(basis), process.most_kept(horizon)
        if not process.slides:
            lost = form.numbers(basis, kept)
        else:
            # A row for what is told and one for what is left out, until a regression replaces them.
            lost = RowLoss.numbers(basis, min(2 * horizon - kept, kept + 2 * REFRESH_ROUNDS))
            often = amplifies(process.noise, basis)
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
        return RowLoss if amplifies(process.noise, basis) else ArmLoss
