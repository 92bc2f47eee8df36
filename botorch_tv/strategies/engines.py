"""Two ways to the same posterior: step by step, or from the log.

Both answer the same four questions: what is believed before any data, what an observation changes,
what is predicted on all arms, and what jointly at a few of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Size, Tensor

from botorch_tv.inference import recursion
from botorch_tv.inference.basis import Basis, FeatureBasis
from botorch_tv.inference.losses import ArmLoss, RootLoss, RowLoss, most_rows
from botorch_tv.inference.recursion import Belief
from botorch_tv.inference.regression import (
    Evidence,
    constant_mean,
    information_gain,
    regress,
    regress_on_arms,
)
from botorch_tv.strategies.evidence import gather_evidence
from botorch_tv.strategies.state import State

if TYPE_CHECKING:
    from botorch_tv.strategies.core import Strategy

REFRESH_ROUNDS = 32
"""A window is computed anew this often: leaving an observation out amplifies rounding by up to
(k / noise)², which must not pile up."""


SMALL_RANK = 64
"""Up to this many features a step on all of them is cheaper than one on the arms played."""


class Prediction(NamedTuple):
    """The posterior of f_now on all arms, for reading before the next prediction is made."""

    mean: Tensor
    """Without the prior mean, `batch_shape x M`."""
    sd: Tensor
    """Standard deviation, `batch_shape x M`."""
    information_gain: Tensor
    """½ ln det(I + N^(-½) K N^(-½)) of the data in use, `batch_shape`."""
    has_data: Tensor
    """Whether any observation is in use, `batch_shape`."""
    offset: Tensor | float
    """The prior mean, known or estimated, a number or `batch_shape`."""
    sample: Tensor | None = None
    """A draw from the posterior covariance, `batch_shape x M`; None unless one was asked for."""


class Marginal(NamedTuple):
    """The joint posterior of f_now at q arms."""

    mean: Tensor
    """`batch_shape x q`."""
    covariance: Tensor
    """`batch_shape x q x q`."""
    information_gain: Tensor
    """As in :class:`Prediction`."""


class Engine(ABC):
    """How a strategy's posterior is computed.

    Args:
        strategy: The parts: noise, mean, decay, inflation and retention.
    """

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy

    @property
    def known_mean(self) -> float | None:
        """The prior mean; None where it is to be estimated."""
        mean = self.strategy.mean
        return None if isinstance(mean, str) else mean

    def prior_mean(self, estimate: Tensor | None) -> Tensor | float:
        """The prior mean: what is known, or else the estimate, `batch_shape`."""
        known = self.known_mean
        if known is not None:
            return known
        assert estimate is not None
        return estimate

    @abstractmethod
    def prior(self, basis: Basis, batch_shape: Size) -> Belief | None:
        """What a state holds besides its log before any observation."""

    @abstractmethod
    def advance(
        self,
        before: State,
        after: State,
        fired: Tensor | None,
        ok: Tensor | None,
        *,
        consume: bool,
    ) -> State:
        """The state after a round, whose log is complete, with its belief brought up to date.

        Args:
            before: The state of the round.
            after: The state of the next round, its belief still that of ``before``.
            fired: Which trials forgot all but the newest observation, `batch_shape`; None if the
                retention never looks at data.
            ok: Whether the newest observation is good, `batch_shape`; None where all are.
            consume: Whether the memory of ``before`` may be reused.
        """

    @abstractmethod
    def predict(
        self, state: State, now: Tensor, reference: Tensor, normal: Tensor | None = None
    ) -> Prediction:
        """The posterior on all arms at time ``now``, lags counted from ``reference``.

        Args:
            state: All that has been told.
            now: The present, `batch_shape`.
            reference: Time from which lags are counted, `batch_shape`.
            normal: Standard normal variates to make a sample of, `batch_shape x r`.
        """

    @abstractmethod
    def observed(self, state: State, now: Tensor, reference: Tensor) -> Tensor:
        """Which arms have observations in use, `batch_shape x M`, bool."""

    @abstractmethod
    def marginal(self, state: State, index: Tensor, now: Tensor, reference: Tensor) -> Marginal:
        """The joint posterior at some arms, `batch_shape x q`."""

    @abstractmethod
    def doubly_weighted_gain(
        self, state: State, gain: Tensor, now: Tensor, reference: Tensor
    ) -> Tensor:
        """The gain ``gain`` with the factor on the noise squared, `batch_shape`."""

    @abstractmethod
    def numbers_per_trial(self, basis: Basis, horizon: int) -> int:
        """Numbers held and worked on per trial by round ``horizon``, arms aside."""


class FromLog(Engine):
    """Regression on the log at every round: any combination of parts."""

    def prior(self, basis: Basis, batch_shape: Size) -> None:
        return None

    def advance(
        self,
        before: State,
        after: State,
        fired: Tensor | None,
        ok: Tensor | None,
        *,
        consume: bool,
    ) -> State:
        return after

    def predict(
        self, state: State, now: Tensor, reference: Tensor, normal: Tensor | None = None
    ) -> Prediction:
        evidence = self._evidence(state, now, reference)
        posterior = regress_on_arms(state.basis, evidence, normal)
        prior = _scaled(state.basis.variance, evidence.prior_factor)
        return Prediction(
            mean=posterior.mean,
            sd=(prior - posterior.variance_lost).clamp_min_(0).sqrt_(),
            information_gain=posterior.information_gain,
            has_data=(evidence.precision_root > 0).any(-1),
            offset=self.prior_mean(posterior.offset),
            sample=posterior.sample,
        )

    def observed(self, state: State, now: Tensor, reference: Tensor) -> Tensor:
        evidence = self._evidence(state, now, reference)
        counts = evidence.index.new_zeros(*state.time.shape, state.basis.arms)
        return counts.scatter_add_(-1, evidence.index, (evidence.precision_root > 0).long()) > 0

    def marginal(self, state: State, index: Tensor, now: Tensor, reference: Tensor) -> Marginal:
        evidence = self._evidence(state, now, reference)
        posterior = regress(state.basis, evidence)
        prior = _scaled(state.basis.gram(index), evidence.prior_factor)
        mean = state.basis.inner(posterior.coordinates.unsqueeze(-2), index).squeeze(-1)
        return Marginal(
            mean=mean + _per_trial(self.prior_mean(posterior.offset)),
            covariance=prior - posterior.covariance_lost(state.basis, index),
            information_gain=posterior.information_gain,
        )

    def doubly_weighted_gain(
        self, state: State, gain: Tensor, now: Tensor, reference: Tensor
    ) -> Tensor:
        if self.strategy.inflation.constant:
            return gain
        return information_gain(
            state.basis, self._evidence(state, now, reference, inflation_power=2)
        )

    def numbers_per_trial(self, basis: Basis, horizon: int) -> int:
        # The regression itself runs on small blocks of trials; only the log grows with each.
        return 5 * horizon

    def _evidence(
        self, state: State, now: Tensor, reference: Tensor, inflation_power: int = 1
    ) -> Evidence:
        parts = self.strategy
        return gather_evidence(
            state,
            mean=self.known_mean,
            decay=parts.decay,
            inflation=parts.inflation,
            retention=parts.retention,
            now=now,
            reference=reference,
            inflation_power=inflation_power,
        )


class Recursion(Engine):
    """A rank-one step per round, whose cost does not grow with the rounds told."""

    @staticmethod
    def serves(parts: Strategy) -> bool:
        """Whether a rank-one step per round is enough for these parts.

        Noise that ages changes every row at every round; rows dropped by time leave at moments
        that differ by trial; and a window over a moving prior drops rows that no observation made
        now can cancel.
        """
        slides_while_moving = parts.retention.slides and parts.decay.moves
        return (
            parts.inflation.constant and not parts.retention.uses_time and not slides_while_moving
        )

    def prior(self, basis: Basis, batch_shape: Size) -> Belief:
        return recursion.prior_belief(
            basis,
            batch_shape,
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
        belief, basis, scratch = _belief(state), state.basis, state.basis.scratch
        mean, sd = belief.mean, scratch.take("sd", belief.mean.shape, belief.mean)
        loss, trend, prior = belief.loss, belief.trend, None
        estimate = None
        if trend is not None:
            estimate = constant_mean(trend.cross, trend.weight)
            mean = mean - estimate.unsqueeze(-1) * trend.response
        if self.strategy.decay.moves:
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

    def marginal(self, state: State, index: Tensor, now: Tensor, reference: Tensor) -> Marginal:
        basis, belief, prior = state.basis, _belief(state), None
        mean, loss, trend = belief.mean.gather(-1, index), belief.loss, belief.trend
        estimate = None
        if trend is not None:
            # Both series decay alike, so the estimate may be taken off before time passes.
            estimate = constant_mean(trend.cross, trend.weight)
            mean = mean - estimate.unsqueeze(-1) * trend.response.gather(-1, index)
        if self.strategy.decay.moves:
            attenuation, _, prior = self._motion(state, state.time, state, now)
            mean, loss = mean * attenuation.unsqueeze(-1), loss.decayed(attenuation.square())
        lost = basis.inner(loss.at(basis, index), index)
        return Marginal(
            mean=mean + _per_trial(self.prior_mean(estimate)),
            covariance=_scaled(basis.gram(index), prior) - lost,
            information_gain=belief.information_gain,
        )

    def doubly_weighted_gain(
        self, state: State, gain: Tensor, now: Tensor, reference: Tensor
    ) -> Tensor:
        return gain

    def numbers_per_trial(self, basis: Basis, horizon: int) -> int:
        size, rows = basis.size, min(horizon, most_rows(basis))
        if self._form(basis) is RootLoss:
            return size**2 + 5 * horizon
        absorbed = 3 * size**2 if horizon > rows else 0
        return 2 * rows * size + absorbed + 5 * horizon

    def _form(self, basis: Basis) -> type[ArmLoss | RowLoss | RootLoss]:
        """How the covariance lost is held; the same in all trials, whatever they play."""
        parts = self.strategy
        if parts.decay.moves or parts.retention.slides:
            return RowLoss
        small = isinstance(basis, FeatureBasis) and basis.size <= SMALL_RANK
        if small or parts.exploration.samples:
            return RootLoss
        # The inverse over the arms loses a thousand times more digits than rows do: too many of
        # single precision, in which a mean would be off by whole units within 200 rounds.
        return ArmLoss if basis.variance.dtype == torch.float64 else RowLoss

    def _advanced(
        self,
        before: State,
        after: State,
        fired: Tensor | None,
        ok: Tensor | None,
        consume: bool,
    ) -> Belief:
        parts, basis, told = self.strategy, after.basis, after.told
        if parts.retention.resets(told):
            return self.prior(basis, after.time.shape)
        if self._refreshes(after):
            y = after.history.y.tensor(after.dropped)
            return recursion.refreshed(
                _belief(before),
                basis,
                after.history.index.tensor(after.dropped),
                y - (self.known_mean or 0.0),
                after.history.noise.tensor(after.dropped),
            )
        belief = _belief(before) if consume else recursion.copied(_belief(before))
        prior = None
        if parts.decay.moves:
            attenuation, earlier, prior = self._motion(before, before.time, after, after.time)
            belief = recursion.moved_(belief, basis, attenuation, earlier, prior)
        if fired is not None:
            belief = recursion.cleared_(belief, basis, fired)
        belief = self._observed(belief, after, told - 1, prior, ok)
        for number in range(before.dropped, after.dropped):
            noise = after.history.noise.row(number)
            belief = self._observed(belief, after, number, prior, noise.isfinite(), leave_out=True)
        return belief

    def _refreshes(self, state: State) -> bool:
        """Whether a window is computed anew in this round."""
        if not self.strategy.retention.slides or state.dropped == 0:
            return False
        return state.told % REFRESH_ROUNDS == 0

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
            state.basis,
            history.index.row(number),
            y - mean if mean else y,
            history.noise.row(number),
            prior,
            ok=ok,
            leave_out=leave_out,
        )

    def _motion(
        self, early: State, then: Tensor, late: State, now: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Attenuation from then to now, and the factors on the prior variance then and now."""
        decay, dtype = self.strategy.decay, early.basis.variance.dtype
        # Before the first observation the clock stands at 0, and now may lie before that.
        attenuation = decay.attenuation((now - then).clamp_min(0)).to(dtype)
        before = decay.prior_variance(_elapsed(early, then)).to(dtype)
        return attenuation, before, decay.prior_variance(_elapsed(late, now)).to(dtype)


def _elapsed(state: State, time: Tensor) -> Tensor:
    """Time since the first observation since the last reset, 0 before it, `batch_shape`."""
    return (time - state.origin).clamp_min(0)


def _belief(state: State) -> Belief:
    assert state.belief is not None
    return state.belief


def _per_trial(offset: Tensor | float) -> Tensor | float:
    return offset.unsqueeze(-1) if isinstance(offset, Tensor) else offset


def _scaled(prior: Tensor, factor: Tensor | None) -> Tensor:
    """A prior variance `M` or covariance `batch_shape x q x q`, times a factor per trial."""
    if factor is None:
        return prior
    dims = 1 if prior.dim() == 1 else 2
    return factor.view(*factor.shape, *[1] * dims) * prior
