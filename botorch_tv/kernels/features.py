"""Random features of the product kernel, for BoTorch's pathwise sampling.

Importing this registers them with ``gen_kernel_features``, which knows no product of kernels. The
first ``SpatioTemporalKernel`` does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from botorch.exceptions import UnsupportedError
from botorch.sampling.pathwise.features.generators import GenKernelFeatures, gen_kernel_features
from botorch.sampling.pathwise.features.maps import FeatureMap, KernelFeatureMap
from torch import Size, Tensor, nn

from botorch_tv.kernels.spatio_temporal import SpatioTemporalKernel
from botorch_tv.kernels.temporal import MarkovKernel, WienerKernel

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


class _ArmsAndTime(nn.Module):
    """Transforms the columns of the arms as the spatial features want them; time comes last."""

    def __init__(
        self, kernel: SpatioTemporalKernel, transform: Callable[[Tensor], Tensor] | None
    ) -> None:
        super().__init__()
        self.kernel = kernel
        self.transform = transform

    def forward(self, values: Tensor) -> Tensor:
        if self.kernel.active_dims is not None:
            values = values.index_select(-1, self.kernel.active_dims)
        arms, times = self.kernel.split(values)
        if self.transform is not None:
            arms = self.transform(arms)
        return torch.cat([arms, times.expand(*arms.shape[:-1], 1)], -1)


@GenKernelFeatures.register(SpatioTemporalKernel)  # type: ignore[untyped-decorator]
def _gen_kernel_features_spatio_temporal(
    kernel: SpatioTemporalKernel,
    *,
    num_inputs: int,
    num_outputs: int,
    horizon: Tensor | None = None,
) -> FeatureMap:
    """Fourier features of the product: the frequencies of both factors side by side.

    The covariance of the Markov model is exp(-c |Δt|) with c = -log1p(-ε) / 2, the characteristic
    function of a Cauchy distribution of scale c: frequencies in time are drawn from that. A random
    walk has none; its features are steps, see :class:`WalkFeatureMap`.
    """
    if kernel.active_dims is not None:
        num_inputs = len(kernel.active_dims)
    if type(kernel) is not SpatioTemporalKernel:
        raise UnsupportedError(
            f"{type(kernel).__name__} may be another function than the product it extends, whose "
            "random features are known; draw exact samples from the posterior on a grid instead."
        )
    if type(kernel.temporal) is WienerKernel:
        if horizon is None:
            raise UnsupportedError(
                "The features of a random walk (WienerKernel) are spread over the time that has "
                "gone by, which the kernel does not know; draw paths from a TimeVaryingGP, or pass "
                "horizon."
            )
        half = gen_kernel_features(
            kernel.spatial, num_inputs=num_inputs - 1, num_outputs=2 * (num_outputs // 4)
        )
        return WalkFeatureMap(kernel, half, horizon)
    arms = gen_kernel_features(kernel.spatial, num_inputs=num_inputs - 1, num_outputs=num_outputs)
    space = arms.weight.expand(*kernel.batch_shape, *arms.weight.shape[-2:])
    return KernelFeatureMap(
        kernel=kernel,
        weight=torch.cat([space, _frequencies(kernel, space[..., :1])], -1),
        bias=arms.bias,
        input_transform=_ArmsAndTime(kernel, arms.input_transform),
        output_transform=arms.output_transform,
    )


def _frequencies(kernel: SpatioTemporalKernel, like: Tensor) -> Tensor:
    """Frequencies in time, `batch_shape x features x 1`, the shape of ``like``."""
    temporal = kernel.temporal
    if temporal is None:
        return torch.zeros_like(like)
    if type(temporal) is not MarkovKernel:
        raise UnsupportedError(
            f"No random features are known for {type(temporal).__name__}; draw exact samples from "
            "the posterior on a grid instead."
        )
    if bool(temporal.log_kept.isinf().any()):
        raise UnsupportedError(
            "An objective redrawn at every instant (epsilon = 1) has no random features; sample "
            "from the posterior instead."
        )
    uniform = stratified(like.shape[:-1], like).unsqueeze(-1)
    return -0.5 * temporal.log_kept * torch.tan(math.pi * (uniform - 0.5))
