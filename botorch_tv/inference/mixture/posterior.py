"""The mixture at points of a box."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from botorch_tv.inference.mixture.drawn import MemberDraw
from botorch_tv.inference.mixture.moments import Moments, mixed
from botorch_tv.inference.mixture.prior import BankPrior, with_constant
from botorch_tv.inference.mixture.stacked_moments import StackedMoments
from botorch_tv.inference.point_posterior import SMALLEST_VARIANCE, PointPosterior, Slopes


@dataclass(frozen=True)
class MixturePosterior(PointPosterior):
    """Posteriors of some trials at any points of a box, in units of the starts.

    Attributes:
        prior: Features.
        parts: Moments per lengthscale.
        expected: Those that are expected of a choice.
        X: Points measured lately, `T x n x (d + c)`.
        live: Which did not fail, `T x n`.
        offset: The starts' mean, `T`.
        context: Centre and spread of the context, `T x c`.
        information_gain: `T`.
        path: A function drawn, where one was asked for.
    """

    shared = ("prior",)

    prior: BankPrior
    parts: tuple[Moments, ...]
    expected: tuple[Moments, ...]
    X: Tensor
    live: Tensor
    offset: Tensor
    context: tuple[Tensor, Tensor]
    information_gain: Tensor
    path: MemberDraw | None = None

    @property
    def has_function(self) -> bool:
        return self.path is not None

    def at(self, X: Tensor) -> tuple[Tensor, Tensor]:
        U = self.prior.unit(X, *self.context)
        if U.requires_grad and torch.is_grad_enabled():
            return self._stacked.at(U, self.prior.stacked)
        # Features of points that are the same for all trials are found once.
        same = X.stride(0) == 0 and not self.prior.context_dim
        mean, variance = self._at(U[0] if same else U, self.parts)
        return mean, variance.clamp_min(SMALLEST_VARIANCE).sqrt()

    def slopes(self, X: Tensor) -> Slopes:
        # A context, which is not chosen, comes behind.
        dim, U = len(self.prior.lower), self.prior.unit(X, *self.context)
        mean, sd, pull = self._stacked.slopes(U, self.prior.stacked)
        return Slopes(mean, sd, lambda *by: self.prior.by_chosen(pull(*by)[..., :dim]))

    def expected_at(self, X: Tensor) -> tuple[Tensor, Tensor]:
        mean, variance = self._at(self.prior.unit(X, *self.context), self.expected)
        return mean, variance.clamp_min(SMALLEST_VARIANCE).sqrt()

    def _at(self, U: Tensor, parts: tuple[Moments, ...]) -> tuple[Tensor, Tensor]:
        both = [part.at(*with_constant(one.at(U))) for part, one in zip(parts, self.prior.features)]
        means, variances = (torch.stack(part) for part in zip(*both))
        return mixed(self._weight, means, variances)

    def mean_at(self, X: Tensor) -> Tensor:
        U = self.prior.unit(X, *self.context)
        means = [
            (with_constant(one.at(U))[0] @ part.mean.unsqueeze(-1)).squeeze(-1)
            for part, one in zip(self.parts, self.prior.features)
        ]
        return (self._weight.unsqueeze(-1) * torch.stack(means)).sum(0)

    def sample_at(self, X: Tensor) -> Tensor:
        assert self.path is not None
        U = self.prior.unit(X, *self.context)
        values = [
            self.path.of(number, with_constant(one.at(U))[0])
            for number, one in enumerate(self.prior.features)
        ]
        return torch.stack(values).sum(0) - self.mean_at(X)

    @cached_property
    def _stacked(self) -> StackedMoments:
        return StackedMoments.of(self.parts)

    @property
    def _weight(self) -> Tensor:
        return torch.stack([part.weight for part in self.parts])
