"""The posterior on all arms of a grid, advanced by a rank-one step per round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Size, Tensor

from botorch_tv.forgetting.static import is_static
from botorch_tv.inference import recursion
from botorch_tv.inference.basis import Basis, FeatureBasis
from botorch_tv.inference.losses import ArmLoss, RootLoss, RowLoss
from botorch_tv.inference.recursion import Belief
from botorch_tv.inference.regression import constant_mean, numbers_of_regression
from botorch_tv.strategies.arms import (
    AT_ONCE,
    ArmEngine,
    Prediction,
    arm_basis,
    log_numbers,
    per_trial,
    scaled,
)
from botorch_tv.strategies.engines import Marginal
from botorch_tv.strategies.state import State
from botorch_tv.strategies.surface import Surface

if TYPE_CHECKING:
    from botorch_tv.strategies.core import Strategy

LEAST_NOISE = 1 / 64
"""Noise variance, as a share of the largest prior variance k, from which on rounding stays small
where a step amplifies it by (k / noise)²: when an observation is left out of a window, and in the
inverse over the arms played. Below, a window is computed anew in every round, and rows take the
place of the inverse.

Measured against a regression in every round on 6 x 6 points: for windows of 2 to 40 over 150
rounds, squared exponential and Matérn kernels of lengthscales 0.2 and 0.5 and noise 1e-4 k to k, an
error of at most 500 eps (k / noise)²; for the inverse, squared exponential kernels of lengthscales
0.2 to 10, noise 0.003 k to 0.1 k and arms at random over 500 rounds, of at most 1,800 eps
(k / noise)². So 4.5e-10 and 1.6e-9 at this noise. In single precision no usual noise is enough."""
REFRESH_ROUNDS = 32
"""A window is computed anew at least this often, so that rounding does not pile up."""
SMALL_RANK = 64
"""Up to this many features a step on all of them is cheaper than one on the arms played."""


class Recursion(ArmEngine):
    """A rank-one step per round, whose cost does not grow with the rounds told."""

    @staticmethod
    def serves(parts: Strategy) -> bool:
        """Whether a rank-one step per round is enough for these parts.

        A decay that is not Markovian has no state that a step could start from; noise that ages
        changes every row at every round; rows dropped by time leave at moments
        that differ by trial; and a window over a moving prior drops rows that no observation made
        now can cancel.
        """
        slides_while_moving = parts.retention.slides and not is_static(parts.decay)
        return (
            parts.decay.markovian
            and is_static(parts.inflation)
            and not parts.retention.uses_time
            and not slides_while_moving
        )

    def prior(self, basis: Basis | Surface, batch_shape: Size) -> Belief:
        assert isinstance(basis, Basis)
        return recursion.prior_belief(
            basis,
            batch_shape,
            self._first_variance(basis),
            form=self._form(basis),
            visits=self.strategy.exploration.uses_incumbent,
            trend=self.known_mean is None,
        )

    def advance(
        self,
        before: State,
        after: State,
        fired: Tensor | None,
        ok: Tensor | None,
        *,
        consume: bool,
    ) -> State:
        return after._replace(belief=self._advanced(before, after, fired, ok, consume))

    def predict(
        self, state: State, now: Tensor, reference: Tensor, normal: Tensor | None = None
    ) -> Prediction:
        belief, basis, scratch = _belief(state), arm_basis(state), arm_basis(state).scratch
        mean, sd = belief.mean, scratch.take("sd", belief.mean.shape, belief.mean)
        loss, trend, prior = belief.loss, belief.trend, None
        estimate = None
        if trend is not None:
            estimate = constant_mean(trend.cross, trend.weight)
            mean = mean - estimate.unsqueeze(-1) * trend.response
        if not is_static(self.strategy.decay):
            attenuation, before, prior = self._motion(state, state.time, state, now)
            factor, square = attenuation.unsqueeze(-1), attenuation.square()
            mean = torch.mul(mean, factor, out=scratch.take("mean", mean.shape, mean))
            torch.mul(belief.variance, square.unsqueeze(-1), out=sd)
            sd.addcmul_((prior - square * before).unsqueeze(-1), basis.variance).clamp_min_(0)
            loss = loss.decayed(square) if normal is not None else loss
        else:
            torch.clamp(belief.variance, min=0, out=sd)
        return Prediction(
            mean=mean,
            sd=sd.sqrt_(),
            information_gain=belief.information_gain,
            has_data=belief.number > 0,
            offset=self.prior_mean(estimate),
            sample=None if normal is None else basis.expand(loss.draw(basis, prior, normal)),
        )

    def observed(self, state: State, now: Tensor, reference: Tensor) -> Tensor:
        visits = _belief(state).visits
        assert visits is not None
        return visits > 0

    def at_arms(self, state: State, index: Tensor, now: Tensor, reference: Tensor) -> Marginal:
        basis, belief, prior = arm_basis(state), _belief(state), None
        mean, loss, trend = belief.mean.gather(-1, index), belief.loss, belief.trend
        estimate = None
        if trend is not None:
            # Both series decay alike, so the estimate may be taken off before time passes.
            estimate = constant_mean(trend.cross, trend.weight)
            mean = mean - estimate.unsqueeze(-1) * trend.response.gather(-1, index)
        if not is_static(self.strategy.decay):
            attenuation, _, prior = self._motion(state, state.time, state, now)
            mean, loss = mean * attenuation.unsqueeze(-1), loss.decayed(attenuation.square())
        lost = basis.inner(loss.at(basis, index), index)
        return Marginal(
            mean=mean + per_trial(self.prior_mean(estimate)),
            covariance=scaled(basis.gram(index), prior) - lost,
            information_gain=belief.information_gain,
        )

    def doubly_weighted_gain(
        self, state: State, gain: Tensor, now: Tensor, reference: Tensor
    ) -> Tensor:
        return gain

    def numbers_per_trial(self, state: State, horizon: int, trials: int) -> int:
        basis, form, kept = arm_basis(state), self._form(arm_basis(state)), self.most_kept(horizon)
        if not self.strategy.retention.slides:
            lost = form.numbers(basis, kept)
        else:
            # A row for what is told and one for what is left out, until a regression replaces them.
            lost = RowLoss.numbers(basis, min(2 * horizon - kept, kept + 2 * REFRESH_ROUNDS))
            often = _amplifies(self.strategy.noise, basis)
            if horizon > kept and (often or horizon >= REFRESH_ROUNDS):
                none = RowLoss.numbers(basis, 0)
                regression = numbers_of_regression(basis, kept, moves=False)
                lost = max(lost, none + max(regression, none + kept * basis.size))
        # What all trials begin with is made once for a single one.
        template = -(-(basis.size**2) // trials) if form is RootLoss else 0
        return AT_ONCE * basis.arms + log_numbers(horizon) + lost + template

    def _form(self, basis: Basis) -> type[ArmLoss | RowLoss | RootLoss]:
        """How the covariance lost is held; the same in all trials, whatever they play."""
        parts = self.strategy
        if not is_static(parts.decay) or parts.retention.slides:
            return RowLoss
        small = isinstance(basis, FeatureBasis) and basis.size <= SMALL_RANK
        if small or parts.exploration.samples:
            return RootLoss
        # In single precision the inverse would put a mean off by whole units within 200 rounds.
        return RowLoss if _amplifies(parts.noise, basis) else ArmLoss

    def _advanced(
        self,
        before: State,
        after: State,
        fired: Tensor | None,
        ok: Tensor | None,
        consume: bool,
    ) -> Belief:
        parts, basis, told = self.strategy, arm_basis(after), after.told
        if parts.retention.resets(told):
            return self.prior(basis, after.time.shape)
        if self._refreshes(after):
            y = after.history.y.tensor(after.dropped)
            return recursion.refreshed(
                _belief(before),
                basis,
                after.history.choice.tensor(after.dropped),
                y - (self.known_mean or 0.0),
                after.history.noise.tensor(after.dropped),
            )
        belief = _belief(before) if consume else recursion.copied(_belief(before))
        if isinstance(belief.loss, ArmLoss) and _amplifies(after.least_noise, basis):
            belief = belief._replace(loss=belief.loss.as_rows(basis))
        prior = None
        if not is_static(parts.decay):
            attenuation, earlier, prior = self._motion(before, before.time, after, after.time)
            belief = recursion.moved_(belief, basis, attenuation, earlier, prior)
        if fired is not None:
            belief = recursion.cleared_(belief, self._first_variance(basis), fired)
        belief = self._observed(belief, after, told - 1, prior, ok)
        for number in range(before.dropped, after.dropped):
            noise = after.history.noise.row(number)
            belief = self._observed(belief, after, number, prior, noise.isfinite(), leave_out=True)
        if self.strategy.retention.slides:
            # Of a window without data only rounding is left, and a ratio of it would be any number.
            belief = recursion.cleared_(belief, basis.variance, belief.number == 0)
        return belief

    def _refreshes(self, state: State) -> bool:
        """Whether a window is computed anew in this round."""
        if not self.strategy.retention.slides or state.dropped == 0:
            return False
        return state.told % REFRESH_ROUNDS == 0 or _amplifies(state.least_noise, arm_basis(state))

    def _observed(
        self,
        belief: Belief,
        state: State,
        number: int,
        prior: Tensor | None,
        ok: Tensor | None,
        leave_out: bool = False,
    ) -> Belief:
        history, mean = state.history, self.known_mean
        y = history.y.row(number)
        return recursion.observe_(
            belief,
            arm_basis(state),
            history.choice.row(number),
            y - mean if mean else y,
            history.noise.row(number),
            prior,
            ok=ok,
            leave_out=leave_out,
        )

    def _first_variance(self, basis: Basis) -> Tensor:
        """Of the prior at the origin of time, `M`."""
        origin = basis.variance.new_zeros((), dtype=torch.float64)
        return basis.variance * self.strategy.decay.prior_variance(origin).to(basis.variance)

    def _motion(
        self, early: State, then: Tensor, late: State, now: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Attenuation from then to now, and the factors on the prior variance then and now."""
        decay, dtype = self.strategy.decay, arm_basis(early).variance.dtype
        start, end = _elapsed(early, then), _elapsed(early, now)
        attenuation = decay.transition(start, end).to(dtype)
        before = decay.prior_variance(start).to(dtype)
        return attenuation, before, decay.prior_variance(_elapsed(late, now)).to(dtype)


def _amplifies(least_noise: float, basis: Basis) -> bool:
    """Whether steps that amplify rounding by (k / noise)² would lose digits that matter."""
    if basis.variance.dtype != torch.float64:
        return True
    return least_noise < LEAST_NOISE * basis.scale**2


def _elapsed(state: State, time: Tensor) -> Tensor:
    """Time since the first observation since the last reset, 0 before it, `batch_shape`."""
    return (time - state.origin).clamp_min(0)


def _belief(state: State) -> Belief:
    assert state.belief is not None
    return state.belief
