"""A round that is to be decided: what a strategy knows of f now, and what it chooses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.acquisition import DoublyWeighted, Exploration, UniformChoice, Width, WidthContext
from botorch_tv.identity.source import is_ours
from botorch_tv.inference.arms import ArmInference, ArmRegression, per_trial
from botorch_tv.inference.basis import Basis
from botorch_tv.inference.costs import FEW_ARMS
from botorch_tv.inference.data import Data, Present
from botorch_tv.inference.factor import Inference as Method
from botorch_tv.inference.mixture.inference import PointMixture
from botorch_tv.inference.mixture.prior import BankPrior
from botorch_tv.inference.point_posterior import PointPosterior
from botorch_tv.inference.points import PointInference
from botorch_tv.inference.process import Process
from botorch_tv.inference.protocol import Inference, Joint, Looks
from botorch_tv.inference.recursion import ArmRecursion
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.candidates.arms import ArmCandidates
from botorch_tv.strategies.candidates.points import BoxCandidates, Functions
from botorch_tv.strategies.candidates.round import Round
from botorch_tv.strategies.checks import as_width, require_choice
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.strategies.draws import Draws, leading_normals
from botorch_tv.strategies.state import State


class Choice(NamedTuple):
    """A point and what is predicted there, for every trial."""

    choice: Tensor
    """The arm, `batch_shape`, or the point with its context, `batch_shape x (d + c)`."""
    mean: Tensor
    """`batch_shape`."""
    sd: Tensor
    """`batch_shape`."""
    sqrt_beta: float | Tensor
    """√beta, a number or `batch_shape`."""


@dataclass(frozen=True)
class Decision:
    """A round that is to be decided.

    Attributes:
        process: What a posterior depends on besides the data.
        inference: How it is computed.
        width: The confidence schedule.
        sign: 1 where the largest value is wanted, -1 where the smallest is.
        state: All that has been told.
        data: What is left of it now.
        present: When it is decided.
        context: What is known before the choice, `batch_shape x c`; None where nothing is.
    """

    process: Process
    inference: Inference
    width: Width
    sign: int
    state: State
    data: Data
    present: Present
    context: Tensor | None = None

    def chosen(self, exploration: Exploration, draws: Draws) -> Choice:
        """The choice of an exploration."""
        on_arms = isinstance(self.state.domain, Grid)
        candidates, offset = (self._arms if on_arms else self._points)(exploration, draws)
        choice = exploration.choose(candidates)
        if not is_ours(type(exploration).choose):
            require_choice(exploration, choice, self.state)
            choice = choice.clone()  # the next may come in the same memory
        mean, sd = candidates.predicted(choice)
        unit = self.inference.unit(self.data)
        if unit is not None:
            mean, sd = mean * unit, sd * unit
        if isinstance(offset, Tensor) or offset != 0:
            mean = mean + offset
        if self.context is not None:
            choice = torch.cat([choice, self.context], -1)
        return Choice(choice, mean, sd, candidates.of.sqrt_beta)

    def joint(self, choice: Tensor) -> Joint:
        """The joint posterior within groups of arms or points; see :meth:`Inference.joint`."""
        return self.inference.joint(self.data, choice, self.present)

    def at(self, choice: Tensor) -> Choice:
        """A choice made otherwise, as a log keeps it, and what is predicted there."""
        dims = self.present.now.dim()
        mean, covariance, gain = self.joint(choice.unsqueeze(dims).unsqueeze(dims))
        sd = covariance[..., 0, 0, 0].clamp_min(0).sqrt()
        return Choice(choice, mean[..., 0, 0], sd, self.sqrt_beta(gain))

    def arm_means(self) -> Tensor:
        """The posterior mean on all arms of a grid, `batch_shape x M`."""
        inference = self.inference
        assert isinstance(inference, ArmInference)
        posterior = inference.predict(self.data, self.present)
        unit = inference.unit(self.data)
        mean = posterior.mean if unit is None else posterior.mean * unit.unsqueeze(-1)
        return mean + per_trial(posterior.offset)

    def sqrt_beta(self, gain: Tensor) -> float | Tensor:
        """√beta of the width, a number or `batch_shape`; ``gain`` is that of the data in use."""
        doubly, width = None, self.width
        if isinstance(width.gain, DoublyWeighted):
            doubly = gain
            if self.process.ages:
                doubly = self.inference.doubly_weighted_gain(self.data, self.present)
        context = WidthContext(
            t=self.state.told + 1,
            dim=self.state.domain.dim,
            information_gain=gain,
            weighted_information_gain=doubly,
        )
        return as_width(width, width.sqrt_beta(context), gain)

    def _arms(self, exploration: Exploration, draws: Draws) -> tuple[ArmCandidates, Tensor | float]:
        inference, prior = self.inference, self.data.prior
        assert isinstance(inference, ArmInference)
        assert isinstance(prior, (Basis, BankPrior))
        normal, room = None, max(prior.arms, prior.normals)
        if exploration.samples:
            normal = leading_normals(draws, prior.normals, room)
        posterior = inference.predict(self.data, self.present, normal)
        of = self._round(posterior.information_gain, posterior.offset, draws)
        return ArmCandidates(of, posterior, normal), posterior.offset

    def _points(
        self, exploration: Exploration, draws: Draws
    ) -> tuple[BoxCandidates, Tensor | float]:
        inference, box, shape = self.inference, self.state.domain, self.present.now.shape
        assert isinstance(inference, (PointInference, PointMixture))
        assert isinstance(box, Box)
        expert = self.state.expert
        most = self.state.told + (0 if expert is None else expert.y.shape[-1])
        plain = (self.data, self.present)

        def with_function() -> PointPosterior:
            return inference.predict(*plain, draws.normal, most)

        posterior = with_function() if exploration.samples else inference.predict(*plain)
        offset = inference.prior_mean(posterior.offset)
        offset = offset.view(shape) if isinstance(offset, Tensor) else offset
        of = self._round(posterior.information_gain.view(shape), offset, draws)
        known = None if self.context is None else self.context.reshape(-1, box.columns - box.dim)
        candidates = BoxCandidates(of, Functions(posterior, with_function, known, []), box)
        return candidates, offset

    def _noise(self) -> Tensor:
        noise, unit = believed_noise(self.inference, self.data), self.inference.unit(self.data)
        return noise if unit is None else noise / unit.square()

    def _round(self, gain: Tensor, offset: Tensor | float, draws: Draws) -> Round:
        return Round(
            data=self.data,
            number=self.state.told + 1,
            sign=self.sign,
            noise=self._noise,
            sqrt_beta=self.sqrt_beta(gain),
            offset=offset,
            unit=self.inference.unit(self.data),
            memory=self.state.memory.exploration,
            draws=draws,
        )


def believed_noise(inference: Inference, data: Data) -> Tensor:
    """Noise variance of a new observation, as learned or given, `batch_shape`."""
    given = torch.full_like(data.time, inference.process.noise).to(data.prior.variance)
    return inference.believed_noise(data, given)


def arm_inference(process: Process, method: Method, *, samples: bool) -> ArmInference:
    """How the posterior of a process is computed on a grid."""
    recursive = method != "exact" and ArmRecursion.serves(process)
    return (ArmRecursion if recursive else ArmRegression)(process, samples=samples)


def regresses_on_few(inference: Inference, domain: Domain) -> bool:
    """Whether every round solves for all data anew, and soon for more of them than arms."""
    few = isinstance(domain, Grid) and len(domain) <= FEW_ARMS
    return few and not isinstance(inference, ArmRecursion)


def numbers_of_search(exploration: Exploration, domain: Domain, looks: Looks, trials: int) -> int:
    """Numbers per trial that a search of a box works on, of ``trials`` together; 0 on a grid."""
    if not isinstance(domain, Box) or type(exploration) is UniformChoice:
        return 0
    return -(-domain.search.numbers(domain.dim, looks, trials) // trials)
