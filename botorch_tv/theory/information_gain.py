"""Information gain of given observations, in nats.

For noise variances N it is ½ ln det(I + N^(-½) K N^(-½)). [M] writes its γ_T without the factor ½:
its quantity is twice ours.
"""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_tv.forgetting.base import Inflation
from botorch_tv.forgetting.inflation import ExponentialWeights
from botorch_tv.inference.covariance import EVALUATED_TOLERANCE
from botorch_tv.theory.arguments import Number, check
from botorch_tv.validation import require


def running_information_gain(covariance: Tensor, noise: Number) -> Tensor:
    """Gain of the first 0, 1, ..., n observations, [B16] (12) and [C17] (10)-(11).

    One Cholesky factor gives all: the square of its entry i is n_i + var_{i-1}(x_i).

    Args:
        covariance: Kernel on all pairs of the points observed, in their order,
            `batch_shape x n x n`; with temporal decay multiplied in, the gain is [B16] (14).
        noise: Noise variances of the observations, a positive number or `batch_shape x n`.

    Returns:
        `batch_shape x (n + 1)`, starting at 0.

    Raises:
        ValueError: If a noise variance is not positive and finite, or the covariance is none: not
            square, not finite, not symmetric, or indefinite beyond the noise.
    """
    require(
        covariance.dim() >= 2 and covariance.shape[-1] == covariance.shape[-2],
        f"running_information_gain: covariance has shape {tuple(covariance.shape)}, but must be "
        "batch_shape x n x n, one row and one column per observation.",
    )
    require(
        covariance.is_floating_point() and bool(covariance.isfinite().all()),
        f"running_information_gain: covariance is {covariance.dtype} or not finite everywhere; "
        "check the kernel, or give covariance.double().",
    )
    # A factor reads one half of the matrix.
    apart, largest = (covariance - covariance.mT).abs(), covariance.abs()
    require(
        apart.numel() == 0 or bool(apart.max() <= EVALUATED_TOLERANCE * largest.max()),
        "running_information_gain: covariance is not symmetric; give that of the points with "
        "themselves, in one order, or (K + K.mT) / 2.",
    )
    variances = torch.as_tensor(noise, dtype=covariance.dtype, device=covariance.device)
    require(
        bool(((variances > 0) & variances.isfinite()).all()),
        "running_information_gain: noise is not positive and finite everywhere; "
        "without noise the gain is infinite.",
    )
    variances = variances.expand(covariance.shape[:-1])
    factor, failed = torch.linalg.cholesky_ex(covariance + torch.diag_embed(variances))
    require(
        not bool(failed.any()),
        "running_information_gain: covariance is indefinite even with the noise added; check the "
        "kernel.",
    )
    pivots = factor.diagonal(dim1=-2, dim2=-1)
    steps = pivots.log() - 0.5 * variances.log()
    return torch.nn.functional.pad(steps.cumsum(-1), (1, 0))


def information_gain(covariance: Tensor, noise: Number) -> Tensor:
    """Gain of all n observations, `batch_shape`; as :func:`running_information_gain`."""
    return running_information_gain(covariance, noise)[..., -1]


def aged_information_gain(covariance: Tensor, noise: float, inflation: Inflation) -> Tensor:
    """Information gain of observations one round apart whose noise grows with age.

    With :class:`UncertaintyInjection` it is half of the logarithm in [M] (12).

    Args:
        covariance: Kernel on the points observed, oldest first, `batch_shape x n x n`.
        noise: Noise variance of the newest observation, positive.
        inflation: How noise grows with the lag n - 1, ..., 1, 0.

    Returns:
        `batch_shape`.

    Raises:
        ValueError: If ``noise`` is not positive and finite.
    """
    check("aged_information_gain", noise=noise)
    lag = torch.arange(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
    return information_gain(covariance, noise * inflation.log_factor(lag.flip(0)).exp())


def weighted_information_gain(
    covariance: Tensor, noise: float, gamma: float, *, double: bool = True
) -> Tensor:
    """Gain with weights γ^(-s): the quantity maximised in [W22] eq. (5).

    With weights and regularisation multiplied out, noise is λ γ^(-2 lag), or λ γ^(-lag) for the
    single-weighted gain.

    Args:
        covariance: Kernel on the points observed, oldest first, `batch_shape x n x n`.
        noise: λ, positive.
        gamma: Discount γ in (0, 1].
        double: Whether weights enter twice, as in the width, or once.

    Returns:
        `batch_shape`.

    Raises:
        ValueError: If ``noise`` or ``gamma`` is out of range.
    """
    discount = ExponentialWeights(gamma)
    if double:
        discount = ExponentialWeights(gamma**2)
    return aged_information_gain(covariance, noise, discount)
