"""Pathwise samples of time-varying models.

Importing this registers it with BoTorch's ``draw_kernel_feature_paths``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from botorch.sampling.pathwise.features import gen_kernel_features
from botorch.sampling.pathwise.paths import GeneralizedLinearPath
from botorch.sampling.pathwise.prior_samplers import DrawKernelFeaturePaths
from gpytorch.models import ExactGP

from botorch_tv.kernels import SpatioTemporalKernel, WienerKernel
from botorch_tv.models.aging_gp import AgingGP


@DrawKernelFeaturePaths.register(AgingGP)  # type: ignore[untyped-decorator]
def _draw_kernel_feature_paths(model: AgingGP, **kwargs: Any) -> GeneralizedLinearPath:
    """As for any exact model; the features of a random walk are told how long it has walked."""
    kernel = model.covar_module
    if isinstance(kernel, SpatioTemporalKernel) and isinstance(kernel.temporal, WienerKernel):
        now = model.now[..., None] if model.num_outputs > 1 else model.now
        elapsed = now[..., None, None] - kernel.temporal.origin
        kwargs.setdefault("map_generator", partial(gen_kernel_features, horizon=elapsed))
    return DrawKernelFeaturePaths.dispatch(ExactGP)(model, **kwargs)
