"""Random Fourier features of the product kernel, and quadrature features of the RBF kernel.

BoTorch's ``gen_kernel_features``, used for pathwise sampling, does not support products. Importing
this module registers the random features of ``SpatioTemporalKernel`` with BoTorch. The constructor
of ``SpatioTemporalKernel`` imports this module.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from botorch.exceptions import UnsupportedError
from botorch.sampling.pathwise.features.generators import GenKernelFeatures, gen_kernel_features
from botorch.sampling.pathwise.features.maps import FeatureMap, KernelFeatureMap
from gpytorch.kernels import Kernel
from torch import Tensor, nn

from botorch_tv.kernels.spatio_temporal import SpatioTemporalKernel
from botorch_tv.kernels.temporal import MarkovKernel
from botorch_tv.validation import require, require_integer, require_number

__all__ = ["QuadratureFourierKernel", "quadrature_fourier_features"]


class _ArmsAndTime(nn.Module):
    """Transforms arms as the spatial features require, and moves the column of time to the end."""

    def __init__(
        self, kernel: SpatioTemporalKernel, transform: Callable[[Tensor], Tensor] | None
    ) -> None:
        super().__init__()
        self.kernel, self.transform = kernel, transform

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
    """Fourier features of the product kernel, with the frequencies of both factors side by side.

    The covariance of the Markov model is exp(-c |Δt|) with c = -log1p(-ε) / 2. This covariance is
    the characteristic function of a Cauchy distribution of scale c. Frequencies in time are drawn
    from this distribution. A random walk is not stationary, so no distribution of frequencies
    exists for it.
    """
    if kernel.active_dims is not None:
        num_inputs = len(kernel.active_dims)
    if type(kernel) is not SpatioTemporalKernel:
        raise UnsupportedError(
            f"{type(kernel).__name__} extends SpatioTemporalKernel and may change its covariance, "
            "but random features are available only for SpatioTemporalKernel itself; draw exact "
            "samples on a grid instead."
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
    """Random frequencies in time, `batch_shape x features x 1`, the shape of ``like``."""
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


def quadrature_fourier_features(
    X: Tensor, *, points: int, lengthscale: float, dropped: float = 0.0
) -> Tensor:
    """Quadrature Fourier features φ of the squared exponential kernel, [W22] §5.

    Let ρ be the nodes and v the weights of the product of Gauss-Hermite rules, where the weights
    add up to 1. Then φ(x)ᵀφ(x') = Σ v cos(√2 ρᵀ(x - x') / l) approximates exp(-|x - x'|² / (2 l²)).
    A node and its negative have the same cosine, so half of the nodes suffice. The weights v
    printed in [W22] are m̄ times too large in one dimension: their denominator must contain m̄².

    Args:
        X: Points, `batch_shape x d`.
        points: Number m̄ of nodes per dimension, at least 1.
        lengthscale: l, positive, in the units of ``X``.
        dropped: Largest total weight of nodes to omit, in [0, 1); this weight bounds the additional
            error of the kernel. In two or more dimensions most weights are tiny, so most nodes can
            be omitted.

    Returns:
        The features φ of X, `batch_shape x m`, with m = ``points`` to the power d unless nodes are
        omitted. For X in [0, 1]^d, :func:`botorch_tv.theory.quadrature_error` bounds the error of
        the approximated kernel.

    Raises:
        ValueError: If an argument is out of range.
    """
    name = "quadrature_fourier_features"
    require_integer(f"{name}: points", points, 1, "the error falls with their number.")
    require_number(f"{name}: lengthscale", lengthscale, "(0, inf)", "it has the units of X.")
    require(0 <= dropped < 1, f"{name}: dropped is {dropped}, but must be in [0, 1).")
    dim = X.shape[-1]
    rule, share = np.polynomial.hermite.hermgauss(points)
    nodes = np.stack(np.meshgrid(*[rule] * dim, indexing="ij"), -1).reshape(-1, dim)
    shares = np.stack(np.meshgrid(*[share] * dim, indexing="ij"), -1).reshape(-1, dim)
    weights = shares.prod(-1) / math.pi ** (dim / 2)
    half, odd = divmod(len(nodes), 2)  # node i and node -1 - i are opposite
    nodes, weights = nodes[: half + odd], 2 * weights[: half + odd]
    if odd:
        weights[-1] /= 2  # the node at the origin has no opposite node
    ascending = np.argsort(weights)
    retained = ascending[np.cumsum(weights[ascending]) > dropped]
    frequency = torch.as_tensor(nodes[retained], dtype=X.dtype, device=X.device)
    frequency = math.sqrt(2) / lengthscale * frequency
    root = torch.as_tensor(np.sqrt(weights[retained]), dtype=X.dtype, device=X.device)
    phase = X @ frequency.mT
    turning = frequency.abs().amax(-1) > 0  # the sine feature of a node at the origin is 0
    return torch.cat([root * phase.cos(), (root * phase.sin())[..., turning]], -1)


class QuadratureFourierKernel(Kernel):  # type: ignore[misc]
    """φ(x)ᵀφ(x') with quadrature Fourier features φ, the kernel that [W22] §5 analyses.

    With this kernel a preset plays the model of :func:`quadrature_fourier_features`, for example
    ``w_gp_ucb(kernel=QuadratureFourierKernel(26, 0.2), ...)``. The lengthscale is fixed. A round
    costs as much as with other kernels; the cost per round of the recursion
    :class:`botorch_tv.gp.weighted_features.WeightedFeatures` does not depend on the number of
    observations.

    Args:
        points: Number m̄ of nodes per dimension, at least 1.
        lengthscale: Lengthscale l, positive, in the units of the points.
        dropped: Largest total weight of nodes to omit, in [0, 1).

    Raises:
        ValueError: If an argument is out of range.
    """

    is_stationary = True

    def __init__(self, points: int, lengthscale: float, dropped: float = 0.0) -> None:
        super().__init__()
        self.points, self.scale, self.dropped = points, lengthscale, dropped
        self._features(torch.zeros(1, 1, device="cpu"))  # checks the arguments

    def _features(self, X: Tensor) -> Tensor:
        return quadrature_fourier_features(
            X, points=self.points, lengthscale=self.scale, dropped=self.dropped
        )

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: object) -> Tensor:
        """The covariance.

        Args:
            x1: Points, `batch_shape x n x d`.
            x2: Points, `batch_shape x m x d`.
            diag: Whether to return only the diagonal; it requires n = m.
            **params: Not used.

        Returns:
            The covariances, `batch_shape x n x m`, or their diagonal, `batch_shape x n`.
        """
        first, second = self._features(x1), self._features(x2)
        return (first * second).sum(-1) if diag else first @ second.mT
