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
from botorch_tv.inference.point_posterior import SMALLEST_VARIANCE


class StackedMoments(NamedTuple):
    """Moments of L lengthscales with r features in all; T trials."""

    weight: Tensor
    """w_l, `T x 1 x L`."""
    worth: Tensor
    """w_l s_l², `T x 1 x L`."""
    line: Tensor
    """m_l, each in the rows of its own features, `T x r x L`."""
    level: Tensor
    """Means of the constant, `T x 1 x L`."""
    blocks: tuple[Tensor, ...]
    """w_l C_l of the features of each lengthscale, `T x r_l x r_l`."""
    edge: Tensor
    """w_l C_l between the features and the constant, `T x 1 x r`."""
    corner: Tensor
    """Σ w_l C_l of the constant, `T x 1`."""
    owner: Tensor
    """1 for the lengthscale of every feature, `r x L`."""

    @classmethod
    def of(cls, parts: Sequence[Moments]) -> StackedMoments:
        weight = torch.stack([part.weight for part in parts], -1).unsqueeze(-2)
        shared = [part.covariance * part.weight[:, None, None] for part in parts]
        ones = [part.mean.new_ones(part.mean.shape[-1] - 1, 1) for part in parts]
        owner = torch.block_diag(*ones)  # type: ignore[no-untyped-call]
        mean = torch.cat([part.mean[:, :-1] for part in parts], -1)
        return cls(
            weight=weight,
            worth=weight * torch.stack([part.residual for part in parts], -1).unsqueeze(-2),
            line=mean.unsqueeze(-1) * owner,
            level=torch.stack([part.mean[:, -1:] for part in parts], -1),
            blocks=tuple(one[:, :-1, :-1].contiguous() for one in shared),
            edge=torch.cat([one[:, -1:, :-1] for one in shared], -1),
            corner=torch.stack([one[:, -1:, -1] for one in shared]).sum(0),
            owner=owner,
        )

    def at(self, U: Tensor, features: StackedFeatures) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation, `T x q`, at points `T x q x d`, once differentiable."""
        mean, sd = _MixtureMoments.apply(U, features, self)  # type: ignore[no-untyped-call]
        return mean, sd


class _MixtureMoments(torch.autograd.Function):
    """Forwards as above; backwards through all lengthscales at once."""

    @staticmethod
    def forward(
        ctx: Any, U: Tensor, features: StackedFeatures, moments: StackedMoments
    ) -> tuple[Tensor, Tensor]:
        phi, pull = features.at(U)
        own = torch.split(phi, [block.shape[-1] for block in moments.blocks], -1)
        covered = torch.cat([part @ block for part, block in zip(own, moments.blocks)], -1)
        means = torch.baddbmm(moments.level, phi, moments.line)
        mean = (means * moments.weight).sum(-1)
        apart, left = means - mean.unsqueeze(-1), 1 - phi.square() @ moments.owner
        slope = covered + moments.edge
        between = moments.weight * apart.square() + moments.worth * left.clamp_min(0)
        variance = ((slope + moments.edge) * phi).sum(-1) + between.sum(-1) + moments.corner
        sd = variance.clamp_min(SMALLEST_VARIANCE).sqrt_()
        ctx.moments, ctx.pull, ctx.phi = moments, pull, phi
        ctx.slope, ctx.apart, ctx.leaves = slope, apart, left > 0
        ctx.sd, ctx.varies = sd.clone(), variance >= SMALLEST_VARIANCE
        return mean, sd

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, by_mean: Tensor, by_sd: Tensor) -> tuple[Tensor, None, None]:
        moments, twice = ctx.moments, (by_sd * ctx.varies / ctx.sd).unsqueeze(-1)
        missing = (moments.worth * ctx.leaves) @ moments.owner.T
        by_means = moments.weight * (by_mean.unsqueeze(-1) + twice * ctx.apart)
        by = twice * torch.addcmul(ctx.slope, ctx.phi, missing, value=-1)
        return ctx.pull(torch.baddbmm(by, by_means, moments.line.mT)), None, None
