"""Random features of the product kernel, for BoTorch's pathwise sampling.

Importing this module registers them with ``gen_kernel_features``, which does not support products.
The first ``SpatioTemporalKernel`` imports it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from botorch.exceptions import UnsupportedError
from botorch.sampling.pathwise.features.generators import GenKernelFeatures, gen_kernel_features
from botorch.sampling.pathwise.features.maps import FeatureMap, KernelFeatureMap
from torch import Tensor, nn

from botorch_tv.kernels.spatio_temporal import SpatioTemporalKernel
from botorch_tv.kernels.temporal import MarkovKernel


class _ArmsAndTime(nn.Module):
    """Transforms the columns of the arms for the spatial features; time comes last."""

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
    kernel: SpatioTemporalKernel, *, num_inputs: int, num_outputs: int
) -> FeatureMap:
    """Fourier features of the product: the frequencies of both factors side by side.

    The covariance of the Markov model is exp(-c |Δt|) with c = -log1p(-ε) / 2, the characteristic
    function of a Cauchy distribution of scale c: frequencies in time are drawn from that. A random
    walk has none.
    """
    if kernel.active_dims is not None:
        num_inputs = len(kernel.active_dims)
    if type(kernel) is not SpatioTemporalKernel:
        raise UnsupportedError(
            f"{type(kernel).__name__} extends SpatioTemporalKernel and may be another function, "
            "for which random features are not available; draw exact samples on a grid instead."
        )
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
    if type(temporal) is not MarkovKernel or bool(temporal.log_retained.isinf().any()):
        raise UnsupportedError(
            f"Random features are not available for {type(temporal).__name__}, nor for epsilon = "
            "1; draw exact samples from the posterior on a grid instead."
        )
    # Stratified uniform numbers in random order.
    draws = torch.rand(2, *like.shape[:-1], dtype=like.dtype, device=like.device)
    uniform = ((draws[0].argsort(-1) + draws[1]) / like.shape[-2]).unsqueeze(-1)
    return -0.5 * temporal.log_retained * torch.tan(math.pi * (uniform - 0.5))
