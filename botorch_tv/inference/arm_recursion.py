"""The posterior on all arms of a grid, advanced by a rank-one step per round."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_tv.inference.arm_reduction import ArmReduction
from botorch_tv.inference.arms import (
    ArmInference,
    ArmPosterior,
    log_numbers,
    per_trial,
)
from botorch_tv.inference.basis import Basis, FeatureBasis
from botorch_tv.inference.costs import AT_ONCE, REFRESH_ROUNDS, SMALL_RANK
from botorch_tv.inference.data import Data, Present
from botorch_tv.inference.linalg import scaled
from botorch_tv.inference.protocol import Joint, basis_of
from botorch_tv.inference.recursion import Recursion, amplifies, running_of
from botorch_tv.inference.reductions import Reduction, RootReduction, RowReduction
from botorch_tv.inference.regression import numbers_of_regression


class ArmRecursion(Recursion, ArmInference):
    """A rank-one step on all arms per round."""

    def predict(self, data: Data, present: Present, normal: Tensor | None = None) -> ArmPosterior:
        running, basis, scratch = running_of(data), basis_of(data), basis_of(data).scratch
        mean, sd = running.mean, scratch.take("sd", running.mean.shape, running.mean)
        trend, prior, square = running.trend, None, None
        estimate = None
        if trend is not None:
            estimate = trend.constant
            mean = mean - estimate.unsqueeze(-1) * trend.response
        if self.process.moves:
            attenuation, grown, prior = self._motion(data, data.time, data, present.now)
            factor, square = attenuation.unsqueeze(-1), attenuation.square()
            mean = torch.mul(mean, factor, out=scratch.take("mean", mean.shape, mean))
            torch.mul(running.variance, square.unsqueeze(-1), out=sd)
            sd.addcmul_(grown.unsqueeze(-1), basis.variance).clamp_min_(0)
        else:
            torch.clamp(running.variance, min=0, out=sd)

        def draw(normal: Tensor) -> Tensor:
            reduction = running.reduction if square is None else running.reduction.decayed(square)
            return basis.expand(reduction.draw(basis, prior, normal))

        return ArmPosterior(
            mean=mean,
            sd=sd.sqrt_(),
            information_gain=running.information_gain,
            offset=self.prior_mean(estimate),
            draw=draw,
        )

    def at_arms(self, data: Data, index: Tensor, present: Present) -> Joint:
        basis = basis_of(data)
        mean, reduction, prior, estimate = self._moved_to(data, present.now, index)
        return Joint(
            mean=mean + per_trial(self.prior_mean(estimate)),
            covariance=scaled(basis.gram(index), prior)
            - basis.inner(reduction.at(basis, index), index),
            information_gain=running_of(data).information_gain,
        )

    def numbers_per_trial(self, data: Data, horizon: int, trials: int, search: int) -> int:
        basis, process = basis_of(data), self.process
        form, kept = self._form(basis), process.most_kept(horizon)
        if not process.slides:
            numbers = form.numbers(basis, kept)
            if process.returns:
                regression = numbers_of_regression(basis, kept, moves=process.moves)
                numbers = max(numbers, form.numbers(basis, 0) + regression)
        else:
            # A row for what is told and one for what is left out, until a regression replaces them.
            numbers = RowReduction.numbers(
                basis, min(2 * horizon - kept, kept + 2 * REFRESH_ROUNDS)
            )
            often = amplifies(process.noise, basis)
            if horizon > kept and (often or horizon >= REFRESH_ROUNDS):
                none = RowReduction.numbers(basis, 0)
                regression = numbers_of_regression(basis, kept, moves=False)
                numbers = max(numbers, none + max(regression, none + kept * basis.size))
        # What all trials begin with is made once for a single one.
        template = -(-(basis.size**2) // trials) if form is RootReduction else 0
        return AT_ONCE * basis.arms + log_numbers(horizon) + numbers + template

    def _form(self, basis: Basis) -> type[Reduction]:
        """How reductions are held; the same in all trials, whatever they play."""
        process = self.process
        if process.moves or process.slides or process.returns:
            return RowReduction
        small = isinstance(basis, FeatureBasis) and basis.size <= SMALL_RANK
        if small or self.samples:
            return RootReduction
        # In single precision the inverse would put a mean off by whole units within 200 rounds.
        return RowReduction if amplifies(process.noise, basis) else ArmReduction
