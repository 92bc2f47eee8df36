"""The posterior on all arms of a grid, and the choice it leads to."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Size, Tensor

from botorch_tv.acquisition.exploration import TIE_TOLERANCE
from botorch_tv.forgetting.static import is_static
from botorch_tv.inference.basis import Basis
from botorch_tv.inference.linalg import at_index, first_maximum
from botorch_tv.inference.regression import (
    information_gain,
    numbers_of_block,
    regress,
    regress_on_arms,
)
from botorch_tv.inference.rows import room_for
from botorch_tv.strategies.draws import Draws, leading_normals
from botorch_tv.strategies.engines import Choice, Engine, Marginal
from botorch_tv.strategies.outlook import View
from botorch_tv.strategies.state import State
from botorch_tv.strategies.surface import Surface

AT_ONCE = 8
"""Vectors over all arms that a round works on."""


DECAYS_AT_ONCE = 4
"""Matrices of all pairs of observations that the temporal factors are computed in."""
JOINTLY = 512
"""Arms whose joint covariance is computed at a time."""


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


class ArmEngine(Engine):
    """An inference over finitely many arms."""

    @abstractmethod
    def predict(
        self, state: State, now: Tensor, reference: Tensor, normal: Tensor | None = None
    ) -> Prediction:
        """The posterior on all arms at time ``now``, lags counted from ``reference``.

        Args:
            state: All that has been told.
            now: The present, `batch_shape`.
            reference: Time from which lags are counted, `batch_shape`.
            normal: Standard normal variates to make a sample of, `batch_shape x p`.
        """

    @abstractmethod
    def observed(self, state: State, now: Tensor, reference: Tensor) -> Tensor:
        """Which arms have observations in use, `batch_shape x M`, bool."""

    @abstractmethod
    def at_arms(self, state: State, index: Tensor, now: Tensor, reference: Tensor) -> Marginal:
        """As :meth:`marginal`, for one group of arms, `batch_shape x q`, without its dimension."""

    def marginal(self, state: State, choice: Tensor, now: Tensor, reference: Tensor) -> Marginal:
        q = choice.shape[-1]
        together = max(1, JOINTLY // q)
        means, blocks, gain = [], [], None
        for part in torch.split(choice, together, dim=-2):
            number = part.shape[-2]
            mean, covariance, gain = self.at_arms(state, part.flatten(-2), now, reference)
            lead = mean.shape[:-1]
            means.append(mean.reshape(*lead, number, q))
            square = covariance.reshape(*lead, number, q, number, q)
            # Dimensions are now group, member, group, member; a group with itself is wanted.
            blocks.append(square.diagonal(dim1=-4, dim2=-2).movedim(-1, -3))
        assert gain is not None
        return Marginal(torch.cat(means, -2), torch.cat(blocks, -3), gain)

    def choose(
        self,
        state: State,
        now: Tensor,
        reference: Tensor,
        draws: Draws | None,
        context: Tensor | None,
    ) -> Choice:
        exploration = self.strategy.exploration
        normal = None
        if draws and exploration.samples:
            basis = arm_basis(state)
            normal = leading_normals(draws, basis.normals, basis.arms)
        prediction = self.predict(state, now, reference, normal)
        multiplier = self.multiplier(state, prediction.information_gain, now, reference)
        index = exploration.choose(View(self, state, prediction, multiplier, now, reference, draws))
        mean, sd = at_index(prediction.mean, index), at_index(prediction.sd, index)
        if isinstance(prediction.offset, Tensor) or prediction.offset != 0:
            mean = mean + prediction.offset
        return Choice(index, mean, sd, multiplier)

    def best(self, state: State, now: Tensor, reference: Tensor, context: Tensor | None) -> Tensor:
        mean = self.predict(state, now, reference).mean
        wanted = mean if self.strategy.maximize else -mean
        return first_maximum(
            wanted, TIE_TOLERANCE * arm_basis(state).scale, arm_basis(state).scratch
        )


class FromLog(ArmEngine):
    """Regression on the log at every round: any combination of parts."""

    def prior(self, basis: Basis | Surface, batch_shape: Size) -> None:
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
        evidence = self.evidence(state, now, reference)
        posterior = regress_on_arms(arm_basis(state), evidence, normal)
        prior = scaled(arm_basis(state).variance, evidence.prior_factor)
        return Prediction(
            mean=posterior.mean,
            sd=(prior - posterior.variance_lost).clamp_min_(0).sqrt_(),
            information_gain=posterior.information_gain,
            has_data=(evidence.precision_root > 0).any(-1),
            offset=self.prior_mean(posterior.offset),
            sample=posterior.sample,
        )

    def observed(self, state: State, now: Tensor, reference: Tensor) -> Tensor:
        evidence = self.evidence(state, now, reference)
        counts = evidence.choice.new_zeros(*state.time.shape, arm_basis(state).arms)
        return counts.scatter_add_(-1, evidence.choice, (evidence.precision_root > 0).long()) > 0

    def at_arms(self, state: State, index: Tensor, now: Tensor, reference: Tensor) -> Marginal:
        evidence = self.evidence(state, now, reference)
        posterior = regress(arm_basis(state), evidence)
        prior = scaled(arm_basis(state).gram(index), evidence.prior_factor)
        mean = arm_basis(state).inner(posterior.coordinates.unsqueeze(-2), index).squeeze(-1)
        return Marginal(
            mean=mean + per_trial(self.prior_mean(posterior.offset)),
            covariance=prior - posterior.covariance_lost(arm_basis(state), index),
            information_gain=posterior.information_gain,
        )

    def doubly_weighted_gain(
        self, state: State, gain: Tensor, now: Tensor, reference: Tensor
    ) -> Tensor:
        if is_static(self.strategy.inflation):
            return gain
        return information_gain(
            arm_basis(state), self.evidence(state, now, reference, inflation_power=2)
        )

    def numbers_per_trial(self, state: State, horizon: int, trials: int) -> int:
        basis, kept = arm_basis(state), self.most_kept(horizon)
        moves = not is_static(self.strategy.decay)
        block = numbers_of_block(basis, kept, trials, moves)  # the regression runs on some trials
        times = DECAYS_AT_ONCE * kept**2 if moves else 0
        return AT_ONCE * basis.arms + log_numbers(horizon) + times + -(-block // trials)


def arm_basis(state: State) -> Basis:
    """The kernel factored over the arms."""
    assert isinstance(state.basis, Basis)
    return state.basis


def log_numbers(horizon: int) -> int:
    """Numbers per trial of a log: choice, observation, noise and time of every round."""
    return 4 * room_for(horizon) + 4 * horizon


def per_trial(offset: Tensor | float) -> Tensor | float:
    """A prior mean per trial, ready to be added to `batch_shape x q`."""
    return offset.unsqueeze(-1) if isinstance(offset, Tensor) else offset


def scaled(prior: Tensor, factor: Tensor | None) -> Tensor:
    """A prior variance `M` or covariance `batch_shape x q x q`, times a factor per trial."""
    if factor is None:
        return prior
    dims = 1 if prior.dim() == 1 else 2
    return factor.view(*factor.shape, *[1] * dims) * prior
