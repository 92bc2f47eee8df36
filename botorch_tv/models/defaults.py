"""Kernel and noise of a model whose rate of change is learned from standardised outcomes.

Standardised data have variance 1 whatever the objective's is: a few dozen rows of a slow drift show
but a part of what the objective would do in time, and less of its mean. Held to a prior variance
of 1 a fit then explains the rest by a drift several times too fast. The scale is learned beside it
instead, and noise may be as large as it is. What the priors of both and of the rate of change
(``RatePrior``) presume was chosen on simulated data, and tried on others, by
``benchmarks/statistics/default_rate.py``.
"""

from __future__ import annotations

import math

import torch
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import Kernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.priors import LogNormalPrior

from botorch_tv.likelihoods.noise import SMALLEST_LEARNED_NOISE

SCALE_MODE, SCALE_SPREAD = 3.5, 0.7
"""Most plausible variance of an objective in units of that of its data, deviation of its log."""
NOISE_MODE, NOISE_SPREAD = math.exp(-4.0), 1.5
"""The same of the noise; BoTorch's own, e⁻⁵ and 1, calls larger noise change."""


def space(columns: int, batch_shape: torch.Size, *, scaled: bool) -> Kernel:
    """A kernel over the columns other than time: BoTorch's, with an output scale where asked for.

    Args:
        columns: How many there are.
        batch_shape: Of the parameters.
        scaled: Whether there is an output scale; it starts at 1.
    """
    kernel = get_covar_module_with_dim_scaled_prior(ard_num_dims=columns, batch_shape=batch_shape)
    if not scaled:
        return kernel
    return ScaleKernel(
        kernel,
        batch_shape=batch_shape,
        outputscale_prior=_log_normal(SCALE_MODE, SCALE_SPREAD),
        outputscale_constraint=GreaterThan(1e-4, transform=None, initial_value=1.0),
    )


def noise_prior() -> LogNormalPrior:
    """The prior of the noise variance beside a learned output scale."""
    return _log_normal(NOISE_MODE, NOISE_SPREAD)


def noise(batch_shape: torch.Size) -> GaussianLikelihood:
    """One noise variance to learn beside such a scale.

    Args:
        batch_shape: Of the parameter.
    """
    return GaussianLikelihood(
        noise_prior=noise_prior(), noise_constraint=noise_bounds(), batch_shape=batch_shape
    )


def noise_bounds() -> GreaterThan:
    """Bounds of the noise, BoTorch's, and where it starts, likewise."""
    return GreaterThan(SMALLEST_LEARNED_NOISE, transform=None, initial_value=math.exp(-5.0))


def _log_normal(mode: float, spread: float) -> LogNormalPrior:
    return LogNormalPrior(math.log(mode) + spread**2, spread)
