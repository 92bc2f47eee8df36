"""The posterior on all arms of a grid."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_tv.inference.costs import AT_ONCE, DECAYS_AT_ONCE, JOINTLY
from botorch_tv.inference.data import Data, Present
from botorch_tv.inference.linalg import scaled
from botorch_tv.inference.protocol import Inference, Joint, basis_of
from botorch_tv.inference.regression import (
    information_gain,
    most_numbers_of_block,
    regress,
    regress_on_arms,
)
from botorch_tv.inference.tensors import room_for


@dataclass(frozen=True)
class ArmPosterior:
    """The posterior of f_now on all arms, for reading before the next one is computed.

    Attributes:
        mean: Without the prior mean, `batch_shape x M`.
        sd: Standard deviation, `batch_shape x M`.
        information_gain: ½ ln det(I + N^(-½) K N^(-½)) of the data in use, `batch_shape`.
        offset: The prior mean, known or estimated, a number or `batch_shape`.
        draw: Makes a draw from the posterior covariance, `batch_shape x M`, of standard normal
            variates, `batch_shape x p`.
    """

    mean: Tensor
    sd: Tensor
    information_gain: Tensor
    offset: Tensor | float
    draw: Callable[[Tensor], Tensor]


class ArmInference(Inference):
    """An inference over finitely many arms."""

    @abstractmethod
    def predict(self, data: Data, present: Present, normal: Tensor | None = None) -> ArmPosterior:
        """The posterior on all arms at present.

        Args:
            data: The observations.
            present: When.
            normal: What ``draw`` will be asked to make a draw of, where that is known already.
        """

    @abstractmethod
    def at_arms(self, data: Data, index: Tensor, present: Present) -> Joint:
        """As :meth:`joint`, for one group of arms, `batch_shape x q`, without its dimension."""

    def joint(self, data: Data, choice: Tensor, present: Present) -> Joint:
        q = choice.shape[-1]
        together = max(1, JOINTLY // q)
        means, blocks, gain = [], [], None
        for part in torch.split(choice, together, dim=-2):
            number = part.shape[-2]
            mean, covariance, gain = self.at_arms(data, part.flatten(-2), present)
            lead = mean.shape[:-1]
            means.append(mean.reshape(*lead, number, q))
            square = covariance.reshape(*lead, number, q, number, q)
            # Dimensions are now group, member, group, member; a group with itself is wanted.
            blocks.append(square.diagonal(dim1=-4, dim2=-2).movedim(-1, -3))
        assert gain is not None
        return Joint(torch.cat(means, -2), torch.cat(blocks, -3), gain)

    def doubly_weighted_gain(self, data: Data, present: Present) -> Tensor:
        return information_gain(basis_of(data), self.observations(data, present, inflation_power=2))


class ArmRegression(ArmInference):
    """Regression on the log at every round: any process."""

    def predict(self, data: Data, present: Present, normal: Tensor | None = None) -> ArmPosterior:
        basis, observations = basis_of(data), self.observations(data, present)
        posterior = regress_on_arms(basis, observations, normal)
        prior = scaled(basis.variance, observations.prior_factor)

        def draw(wanted: Tensor) -> Tensor:
            known = posterior if wanted is normal else regress_on_arms(basis, observations, wanted)
            assert known.sample is not None
            return known.sample

        return ArmPosterior(
            mean=posterior.mean,
            sd=(prior - posterior.variance_reduction).clamp_min_(0).sqrt_(),
            information_gain=posterior.information_gain,
            offset=self.prior_mean(posterior.offset),
            draw=draw,
        )

    def at_arms(self, data: Data, index: Tensor, present: Present) -> Joint:
        basis, observations = basis_of(data), self.observations(data, present)
        posterior = regress(basis, observations)
        prior = scaled(basis.gram(index), observations.prior_factor)
        mean = basis.inner(posterior.coordinates.unsqueeze(-2), index).squeeze(-1)
        return Joint(
            mean=mean + per_trial(self.prior_mean(posterior.offset)),
            covariance=prior - posterior.covariance_reduction(basis, index),
            information_gain=posterior.information_gain,
        )

    def numbers_per_trial(self, data: Data, horizon: int, trials: int, search: int) -> int:
        basis, moves = basis_of(data), self.process.moves
        kept = self.process.most_kept(horizon)
        block = most_numbers_of_block(basis, kept, trials, moves)
        at_work = -(-block // trials)
        if moves:  # temporal factors of all trials are made, and then stay
            at_work = max(DECAYS_AT_ONCE * kept**2, kept**2 + at_work)
        return AT_ONCE * basis.arms + log_numbers(horizon) + at_work


def log_numbers(horizon: int) -> int:
    """Numbers per trial of a log: choice, observation, noise and time of every round."""
    return 4 * room_for(horizon) + 4 * horizon


def per_trial(offset: Tensor | float) -> Tensor | float:
    """A prior mean per trial, ready to be added to `batch_shape x q`."""
    return offset.unsqueeze(-1) if isinstance(offset, Tensor) else offset
