"""Random features of an objective that walks: steps at random times."""

from __future__ import annotations

import math
from typing import Any

import torch
from botorch.sampling.pathwise.features.maps import FeatureMap, KernelFeatureMap
from torch import Size, Tensor

from botorch_tv.kernels.spatio_temporal import SpatioTemporalKernel

SHARE_WITHIN = 0.75
"""Share of the steps before the horizon; the others reach as far as ``REACH`` times it."""
REACH = 100.0


class WalkFeatureMap(FeatureMap):  # type: ignore[misc]
    r"""Features of k(x, x') (1 + σ_w² min(τ, τ')), τ the time since the origin.

    .. math:: \min(\tau, \tau') = E_u[ 1(u < \tau)\, 1(u < \tau') / q(u) ], \quad u \sim q

    Each frequency in space has a time u of its own, after which it counts with one more weight:
    the features are those in space, and these again times σ_w 1(u < τ) / √q(u). Times u are spread
    evenly up to the horizon and thinner beyond it, where paths walk on.

    Args:
        kernel: The fused kernel, its temporal factor a ``WienerKernel``.
        arms: Features of its spatial factor.
        horizon: Time since the origin up to which steps are dense, broadcastable with
            `batch_shape x 1 x 1`, at least 0.
    """

    input_transform = None
    output_transform = None

    def __init__(
        self, kernel: SpatioTemporalKernel, arms: KernelFeatureMap, horizon: Tensor
    ) -> None:
        super().__init__()
        self.kernel = kernel
        self.arms = arms
        rows = arms.weight.shape[-2]
        uniform = stratified(Size([*kernel.batch_shape, 1, rows]), arms.weight)
        span = torch.where(horizon > 0, horizon, 1.0).to(arms.weight)
        beyond = (uniform - SHARE_WITHIN) / (1 - SHARE_WITHIN)
        step = torch.where(beyond < 0, uniform / SHARE_WITHIN, REACH ** beyond.clamp_min(0.0))
        # 1 / q: even within the horizon, even in ln u beyond.
        thin = step * (math.log(REACH) / (1 - SHARE_WITHIN))
        self.register_buffer("steps", span * step)  # batch_shape x 1 x rows
        self.register_buffer("weights", span * torch.where(beyond < 0, 1 / SHARE_WITHIN, thin))

    @property
    def num_outputs(self) -> int:
        """Number of features."""
        return 2 * int(self.arms.num_outputs)

    @property
    def batch_shape(self) -> Size:
        """Batch shape of the kernel."""
        return self.kernel.batch_shape  # type: ignore[no-any-return]

    def forward(self, values: Tensor) -> Tensor:
        """Features `... x n x num_outputs` at inputs `... x n x d`."""
        if self.kernel.active_dims is not None:
            values = values.index_select(-1, self.kernel.active_dims)
        arms, times = self.kernel.split(values)
        standing: Tensor = self.arms(arms)
        walk: Any = self.kernel.temporal
        begun = (times - walk.origin).clamp_min(0.0) > self.steps
        moved = torch.where(begun, (walk.sigma_w2 * self.weights).sqrt(), 0.0)
        copies = standing.shape[-1] // moved.shape[-1]  # a sine and a cosine for each frequency
        walking = standing * torch.cat([moved] * copies, -1)
        return torch.cat([standing.expand_as(walking), walking], -1)


def stratified(shape: Size, like: Tensor) -> Tensor:
    """Numbers in (0, 1), one from each of as many equal strata, in random order.

    Args:
        shape: `... x rows`.
        like: A tensor of the dtype and device wanted.
    """
    draws = torch.rand(2, *shape, dtype=like.dtype, device=like.device)
    return (draws[0].argsort(-1) + draws[1]) / shape[-1]
