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
from botorch_tv.inference.basis import Basis
from botorch_tv.inference.losses import most_rows
from botorch_tv.inference.recursion import Belief
from botorch_tv.inference.regression import (
    Evidence,
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


class Prediction(NamedTuple):
    """The posterior of f_now on all arms, for reading before the next prediction is made."""

    mean: Tensor
    """`batch_shape x M`."""
    sd: Tensor
    """Standard deviation, `batch_shape x M`."""
    information_gain: Tensor
    """½ ln det(I + N^(-½) K N^(-½)) of the data in use, `batch_shape`."""
    has_data: Tensor | bool
    """Whether any observation is in use, for all trials or `batch_shape`."""


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
        strategy: The parts: noise, decay, inflation and retention.
    """

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy

    @abstractmethod
    def prior(self, basis: Basis, batch_shape: Size) -> Belief | None:
        """What a state holds besides its log before any observation."""

    @abstractmethod
    def advance(self, before: State, after: State, fired: Tensor | None, *, consume: bool) -> State:
        """The state after a round, whose log is complete, with its belief brought up to date.

        Args:
            before: The state of the round.
            after: The state of the next round, its belief still that of ``before``.
            fired: Trials that forget all but this observation, `batch_shape`.
            consume: Whether the memory of ``before`` may become that of the result.
        """

    @abstractmethod
    def predict(self, state: State, now: Tensor, reference: Tensor) -> Prediction:
        """The posterior on all arms at ``now``, lags counted from ``reference``."""

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

    def advance(self, before: State, after: State, fired: Tensor | None, *, consume: bool) -> State:
        return after

    def predict(self, state: State, now: Tensor, reference: Tensor) -> Prediction:
        evidence = self._evidence(state, now, reference)
        posterior = regress_on_arms(state.basis, evidence)
        prior = _scaled(state.basis.variance, evidence.prior_factor)
        return Prediction(
            mean=posterior.mean,
            sd=(prior - posterior.variance_lost).clamp_min_(0).sqrt_(),
            information_gain=posterior.information_gain,
            has_data=(evidence.precision_root > 0).any(-1),
        )

    def marginal(self, state: State, index: Tensor, now: Tensor, reference: Tensor) -> Marginal:
        evidence = self._evidence(state, now, reference)
        posterior = regress(state.basis, evidence)
        prior = _scaled(state.basis.gram(index), evidence.prior_factor)
        mean = state.basis.inner(posterior.coordinates.unsqueeze(-2), index).squeeze(-1)
        return Marginal(
            mean=mean,
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
        return 4 * horizon

    def _evidence(
        self, state: State, now: Tensor, reference: Tensor, inflation_power: int = 1
    ) -> Evidence:
        parts = self.strategy
        return gather_evidence(
            state,
            noise=parts.noise,
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
        parts = self.strategy
        static = not parts.decay.moves and not parts.retention.slides
        return recursion.prior_belief(basis, batch_shape, static=static)

    def advance(self, before: State, after: State, fired: Tensor | None, *, consume: bool) -> State:
        return after._replace(belief=self._advanced(before, after, fired, consume))

    def predict(self, state: State, now: Tensor, reference: Tensor) -> Prediction:
        belief, scratch = _belief(state), state.basis.scratch
        prior = _scaled(state.basis.variance, self._prior_factor(state, now))
        attenuation = self._attenuation(state, now)
        mean, lost = belief.mean, belief.variance_lost
        sd = scratch.take("sd", lost.shape, lost)
        if attenuation is None:
            torch.sub(prior, lost, out=sd)
        else:
            factor = attenuation.unsqueeze(-1)
            mean = torch.mul(mean, factor, out=scratch.take("mean", mean.shape, mean))
            torch.addcmul(prior, lost, factor.square(), value=-1, out=sd)
        return Prediction(
            mean=mean,
            sd=sd.clamp_min_(0).sqrt_(),
            information_gain=belief.information_gain,
            has_data=state.dropped < state.told,
        )

    def marginal(self, state: State, index: Tensor, now: Tensor, reference: Tensor) -> Marginal:
        belief = recursion.forgotten(
            _belief(state), self._attenuation(state, now), None, consume=False
        )
        prior = _scaled(state.basis.gram(index), self._prior_factor(state, now))
        lost = belief.loss.at(state.basis, index)
        return Marginal(
            mean=belief.mean.gather(-1, index),
            covariance=prior - state.basis.inner(lost, index),
            information_gain=belief.information_gain,
        )

    def doubly_weighted_gain(
        self, state: State, gain: Tensor, now: Tensor, reference: Tensor
    ) -> Tensor:
        return gain

    def numbers_per_trial(self, basis: Basis, horizon: int) -> int:
        rows = min(horizon, most_rows(basis))
        absorbed = 3 * basis.size**2 if horizon > rows else 0
        return 2 * rows * basis.size + absorbed

    def _advanced(self, before: State, after: State, fired: Tensor | None, consume: bool) -> Belief:
        parts, basis, told = self.strategy, after.basis, after.told
        if parts.retention.resets(told):
            return self.prior(basis, after.time.shape)
        if self._refreshes(after):
            index = after.history.index.tensor(after.dropped)
            y = after.history.y.tensor(after.dropped)
            return recursion.refreshed(basis, index, y, parts.noise)
        belief = recursion.forgotten(
            _belief(before),
            self._attenuation(before, after.time),
            None if fired is None else ~fired,
            consume=consume,
        )
        belief = self._observed(belief, after, told - 1, parts.noise)
        for number in range(before.dropped, after.dropped):
            belief = self._observed(belief, after, number, -parts.noise)
        return belief

    def _refreshes(self, state: State) -> bool:
        """Whether a window is computed anew in this round."""
        if not self.strategy.retention.slides or state.dropped == 0:
            return False
        return state.told % REFRESH_ROUNDS == 0

    def _observed(self, belief: Belief, state: State, number: int, noise: float) -> Belief:
        return recursion.observe_(
            belief,
            state.basis,
            state.history.index.row(number),
            state.history.y.row(number),
            noise,
            self._prior_factor(state, state.time),
        )

    def _prior_factor(self, state: State, now: Tensor) -> Tensor | None:
        """Factor on the prior covariance at time ``now``, `batch_shape`; None for 1."""
        if not self.strategy.decay.moves:
            return None
        nothing_kept = state.dropped == state.told
        elapsed = torch.zeros_like(now) if nothing_kept else now - state.origin
        return self.strategy.decay.prior_variance(elapsed).to(state.basis.variance.dtype)

    def _attenuation(self, state: State, now: Tensor) -> Tensor | None:
        """Factor on the covariance since the newest observation, `batch_shape`; None for 1."""
        if not self.strategy.decay.moves:
            return None
        return self.strategy.decay.attenuation(now - state.time).to(state.basis.variance.dtype)


def _belief(state: State) -> Belief:
    assert state.belief is not None
    return state.belief


def _scaled(prior: Tensor, factor: Tensor | None) -> Tensor:
    """A prior variance `M` or covariance `batch_shape x q x q`, times a factor per trial."""
    if factor is None:
        return prior
    dims = 1 if prior.dim() == 1 else 2
    return factor.view(*factor.shape, *[1] * dims) * prior
