"""Kernels over arms and time: a product of two factors, and a kernel with weights by age."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from botorch.exceptions import UnsupportedError
from gpytorch.kernels import Kernel
from linear_operator import to_dense
from torch import Tensor, nn

from botorch_tv.forgetting import Inflation
from botorch_tv.kernels.declared import BatchedKernel
from botorch_tv.kernels.temporal import MarkovKernel

if TYPE_CHECKING:
    from botorch.sampling.pathwise.features.maps import KernelFeatureMap


FEWEST_SHARED = 64
"""Smallest number of points for which it pays to check whether they share a time."""


class SpatioTemporalKernel(BatchedKernel):
    r"""The covariance of a time-varying objective over inputs with a column of time.

    .. math:: k((x, t), (x', t')) = k_{space}(x, x')\, k_{time}(t, t')

    Unlike a ``ProductKernel`` of two kernels with ``active_dims``, this kernel has batches that can
    be expanded and indexed, and works with BoTorch's pathwise sampling.

    Args:
        spatial: Kernel over the columns other than time; its ``active_dims`` are indices among
            these columns.
        temporal: Kernel over the column of time; None for a static objective.
        time_dim: Index of the column of time, among ``active_dims`` if these are given.
        active_dims: Columns of the input to use; None for all.

    Example:
        >>> kernel = SpatioTemporalKernel(RBFKernel(ard_num_dims=2), MarkovKernel(epsilon=0.03))
        >>> kernel(torch.rand(5, 3)).to_dense()  # x0, x1, t
    """

    def __init__(
        self,
        spatial: Kernel,
        temporal: Kernel | None,
        time_dim: int = -1,
        active_dims: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__(active_dims=active_dims)
        _register_random_features()
        self.spatial, self.temporal, self.time_dim = spatial, temporal, time_dim

    @property
    def is_stationary(self) -> bool:
        """Whether the covariance depends on differences of inputs only."""
        return bool(
            self.spatial.is_stationary and (self.temporal is None or self.temporal.is_stationary)
        )

    @property
    def lengthscale(self) -> Tensor | None:
        """The lengthscale of the spatial kernel, `... x 1 x (d - 1)` with ARD.

        Code such as TuRBO's reads the attribute ``lengthscale``. The attribute is None if the
        spatial kernel has no lengthscale, for example if it is a sum or a product.
        """
        return self._inner().lengthscale

    @lengthscale.setter
    def lengthscale(self, value: Tensor | float) -> None:
        self._inner().lengthscale = value

    def _inner(self) -> Kernel:
        """The spatial kernel without any ``ScaleKernel`` around it."""
        kernel = self.spatial
        while not kernel.has_lengthscale and hasattr(kernel, "base_kernel"):
            kernel = kernel.base_kernel
        return kernel

    def split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Split inputs into arms, `... x n x (d - 1)`, and times, `... x n x 1`.

        Args:
            x: Inputs, `... x n x d`.
        """
        time = self.time_dim % x.shape[-1]
        return torch.cat([x[..., :time], x[..., time + 1 :]], -1), x[..., time : time + 1]

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, last_dim_is_batch: bool = False
    ) -> Tensor:
        """Covariance of inputs, `... x n x m`, or `... x n` with ``diag``.

        Args:
            x1: Inputs, `... x n x d`.
            x2: Inputs, `... x m x d`.
            diag: Whether to compute only the pairs of inputs with the same index.
            last_dim_is_batch: Must be False, because the columns of the inputs have different
                meanings.

        Raises:
            RuntimeError: If ``last_dim_is_batch`` is True.
        """
        if last_dim_is_batch:
            raise RuntimeError(
                "last_dim_is_batch is True, but a kernel with a column of time is not additive "
                "over its columns; use an additive spatial kernel instead."
            )
        (arms1, times1), (arms2, times2) = self.split(x1), self.split(x2)
        covariance: Tensor = to_dense(self.spatial(arms1, arms2, diag=diag))
        if self.temporal is None:
            return covariance
        if not diag and not times2.requires_grad and _share_time(times2):
            times2 = times2[..., :1, :]  # all points in times2 have the same decay
        decay: Tensor = to_dense(self.temporal(times1, times2, diag=diag))
        return covariance * decay


def _share_time(times: Tensor) -> bool:
    """Whether there are many points, all at the same time, such as candidates at the present."""
    return times.shape[-2] >= FEWEST_SHARED and bool((times == times[..., :1, :]).all())


@functools.cache
def _register_random_features() -> None:
    """Make BoTorch's pathwise sampling find the random features, with a slow import."""
    from botorch.sampling.pathwise.features.generators import GenKernelFeatures

    GenKernelFeatures.register(SpatioTemporalKernel)(_random_features)


def _random_features(
    kernel: SpatioTemporalKernel, *, num_inputs: int, num_outputs: int
) -> KernelFeatureMap:
    """Fourier features of the product kernel, with the frequencies of both factors side by side.

    The covariance of the Markov model is exp(-c |Δt|) with c = -log1p(-ε) / 2. This covariance is
    the characteristic function of a Cauchy distribution of scale c. Frequencies in time are drawn
    from this distribution. A random walk is not stationary, so no distribution of frequencies
    exists for it.
    """
    from botorch.sampling.pathwise.features.generators import gen_kernel_features
    from botorch.sampling.pathwise.features.maps import KernelFeatureMap

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


class WeightedKernel(BatchedKernel):
    r"""A kernel times the square roots of the weights of both inputs, see [W22] App. C.

    .. math:: k_w(x, x') = \sqrt{w(x)}\, k(x, x')\, \sqrt{w(x')}

    Regression on √w(x) y with this kernel and constant noise λ equals regression on y with noise
    λ / w(x), for any positive weights. :class:`AgeNoiseLikelihood` computes the regression on y;
    this kernel can be combined with other kernels.

    Args:
        base_kernel: The kernel k.
        log_weight: Function that maps inputs `... x n x d` to ln w, `... x n`. Logarithms are used
            because weights such as γ^(-t) exceed every floating-point range. If ``log_weight`` is a
            module, its parameters are learned.
        active_dims: Columns of the input for ``base_kernel`` and ``log_weight``; None for all.
    """

    def __init__(
        self,
        base_kernel: Kernel,
        log_weight: Callable[[Tensor], Tensor],
        active_dims: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__(active_dims=active_dims)
        self.base_kernel, self.log_weight = base_kernel, log_weight

    @property
    def is_stationary(self) -> bool:
        return False

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, last_dim_is_batch: bool = False
    ) -> Tensor:
        """Weighted covariance, `... x n x m`, or `... x n` with ``diag``.

        Args:
            x1: Inputs, `... x n x d`.
            x2: Inputs, `... x m x d`.
            diag: Whether to compute only the pairs of inputs with the same index.
            last_dim_is_batch: Passed to the base kernel. The weight of an input is computed from
                all columns of the input, so all its columns have the same weight.
        """
        base: Tensor = to_dense(
            self.base_kernel(x1, x2, diag=diag, last_dim_is_batch=last_dim_is_batch)
        )
        first, second = 0.5 * self.log_weight(x1), 0.5 * self.log_weight(x2)
        if last_dim_is_batch:
            first, second = first.unsqueeze(-2), second.unsqueeze(-2)
        if diag:
            return torch.exp(first + second) * base
        return torch.exp(first).unsqueeze(-1) * base * torch.exp(second).unsqueeze(-2)


class AgeWeight(nn.Module):
    """The weight of an observation of some age: the inverse of the factor by which its noise grows.

    For ``ExponentialWeights(gamma)`` the weight is γ^(now - t). The weight γ^(now - t) is 1 at
    ``now``; it equals the weight γ^(-t) of [W22] up to a constant factor that cancels.

    Args:
        inflation: The inflation, which says how the noise variance grows with the lag.
        now: The present. Observations at this time or later have lag 0.
        time_dim: Index of the column of time.
    """

    def __init__(self, inflation: Inflation, now: float, time_dim: int = -1) -> None:
        super().__init__()
        self.inflation, self.now, self.time_dim = inflation, now, time_dim

    def forward(self, X: Tensor) -> Tensor:
        """Log-weight of inputs, `... x n`.

        Args:
            X: Inputs, `... x n x d`.
        """
        return -self.inflation.log_factor((self.now - X[..., self.time_dim]).clamp_min(0.0))
