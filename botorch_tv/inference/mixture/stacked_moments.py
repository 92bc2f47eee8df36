"""Mean and standard deviation of the mixture for gradient ascent, with explicit derivatives.

With features φ_l of lengthscale l, its weight w_l, mean m_l and covariance C_l, constants included,
and the prior variance of 1 that φ_l captures only in part, these are

    mean = Σ w_l mean_l,   mean_l = m_lᵀ φ_l,
    variance = Σ w_l (φ_lᵀ C_l φ_l + s_l² max(1 - ‖φ_l‖², 0) + (mean_l - mean)²),

so that their derivatives by φ_l are w_l m_l and 2 w_l (C_l φ_l - s_l² φ_l + (mean_l - mean) m_l),
and that of the standard deviation is the latter over twice itself.
A search of a box evaluates a few points many times in a row, where automatic differentiation takes
longer than the operations themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from botorch_tv.inference.mixture.moments import Moments
from botorch_tv.inference.mixture.stacked_features import StackedFeatures
from botorch_tv.inference.point_posterior import SMALLEST_VARIANCE, Slopes, beside


class StackedMoments(NamedTuple):
    """Moments of L lengthscales with r features in all; T trials."""

    weight: Tensor
    """w_l, `T x 1 x L`."""
    worth: Tensor
    """w_l s_l², `T x 1 x L`."""
    line: Tensor
    """Of what is linear in the features, `T x r x (L + 2)`: of the mean, of what the mean of each
    lengthscale is beyond it, and of the constant's covariances, Σ w_l C_l."""
    level: Tensor
    """Of the same, what it is where all features are 0, `T x 1 x (L + 2)`."""
    blocks: tuple[Tensor, ...]
    """w_l C_l of the features of each lengthscale, `T x r_l x r_l`."""
    edges: tuple[Tensor, ...]
    """w_l C_l between the features and the constant, `T x 1 x r_l`."""
    owner: Tensor
    """1 for the lengthscale of every feature, `r x L`."""

    @classmethod
    def of(cls, parts: Sequence[Moments]) -> StackedMoments:
        weight = torch.stack([part.weight for part in parts], -1).unsqueeze(-2)
        shared = [part.covariance * part.weight[:, None, None] for part in parts]
        edges = tuple(one[:, -1:, :-1] for one in shared)
        ones = [part.mean.new_ones(part.mean.shape[-1] - 1, 1) for part in parts]
        owner = torch.block_diag(*ones)  # type: ignore[no-untyped-call]
        own = torch.cat([part.mean[:, :-1] for part in parts], -1).unsqueeze(-1) * owner
        levels = torch.stack([part.mean[:, -1:] for part in parts], -1)
        mean, level = ((weight * one).sum(-1, keepdim=True) for one in (own, levels))
        corner = torch.stack([one[:, -1:, -1:] for one in shared]).sum(0)
        return cls(
            weight=weight,
            worth=weight * torch.stack([part.residual for part in parts], -1).unsqueeze(-2),
            line=torch.cat([mean, own - mean, torch.cat(edges, -1).mT], -1),
            level=torch.cat([level, levels - level, corner], -1),
            blocks=tuple(one[:, :-1, :-1].contiguous() for one in shared),
            edges=edges,
            owner=owner,
        )

    def at(self, U: Tensor, features: StackedFeatures) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation, `T x q`, at points `T x q x d`, once differentiable."""
        mean, sd = _MixtureMoments.apply(U, features, self)  # type: ignore[no-untyped-call]
        return mean, sd

    def slopes(self, U: Tensor, features: StackedFeatures) -> Slopes:
        """The same with their derivatives, which are not recorded."""
        phi, pull_features = features.at(U)
        own = torch.split(phi, [block.shape[-1] for block in self.blocks], -1)
        covered = zip(self.edges, own, self.blocks)
        slope = torch.cat([torch.baddbmm(*one) for one in covered], -1)
        linear = torch.baddbmm(self.level, phi, self.line)
        mean, apart, beyond = linear[..., 0], linear[..., 1:-1], linear[..., -1]
        tilt, left = self.weight * apart, 1 - phi.square() @ self.owner
        between = torch.addcmul(self.worth * left.clamp_min(0), tilt, apart)
        variance = (slope * phi).sum(-1) + between.sum(-1) + beyond
        sd = variance.clamp_min(SMALLEST_VARIANCE).sqrt_()

        def pull(by_mean: Tensor | float, by_sd: Tensor | float) -> Tensor:
            half = (by_sd / sd * (variance >= SMALLEST_VARIANCE)).unsqueeze(-1)
            missing = (self.worth * (left > 0)) @ self.owner.T
            curved = torch.baddbmm(slope, tilt, self.line[..., 1:-1].mT)
            curved = curved.addcmul_(phi, missing, value=-1)
            straight = beside(by_mean) * self.line[..., 0].unsqueeze(-2)
            return pull_features(torch.addcmul(straight, half, curved))

        return Slopes(mean, sd, pull)


class _MixtureMoments(torch.autograd.Function):
    """Forwards as above; backwards through all lengthscales at once."""

    @staticmethod
    def forward(
        ctx: Any, U: Tensor, features: StackedFeatures, moments: StackedMoments
    ) -> tuple[Tensor, Tensor]:
        mean, sd, ctx.pull = moments.slopes(U, features)
        return mean.clone(), sd.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, by_mean: Tensor, by_sd: Tensor) -> tuple[Tensor, None, None]:
        return ctx.pull(by_mean, by_sd), None, None
