"""Weights on observations, as a factor on the kernel: √w(x) k(x, x') √w(x')."""

from __future__ import annotations

from collections.abc import Callable

import torch
from gpytorch.kernels import Kernel
from linear_operator import to_dense
from torch import Tensor, nn

from botorch_tv.forgetting import Inflation
from botorch_tv.kernels.batching import BatchedKernel


class WeightedKernel(BatchedKernel):
    r"""A kernel weighted at both ends, the kernel form of exponential weights in [W22] App. C.

    .. math:: k_w(x, x') = \sqrt{w(x)}\, k(x, x')\, \sqrt{w(x')}

    Regression on √w(x) y with this kernel and constant noise λ is regression on y with noise
    λ / w(x), for any positive weights. The noise form is what :class:`AgeNoiseLikelihood` computes;
    this form is here to be combined with other kernels and to be tested against.

    Args:
        base_kernel: The kernel k.
        log_weight: Maps inputs `... x n x d` to ln w, `... x n`; logarithms because weights such
            as γ^(-t) leave every floating-point range. A module's parameters are learned along.
        active_dims: Columns of the input that both ``base_kernel`` and ``log_weight`` see; all of
            them where None.
    """

    def __init__(
        self,
        base_kernel: Kernel,
        log_weight: Callable[[Tensor], Tensor],
        active_dims: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__(active_dims=active_dims)
        self.base_kernel = base_kernel
        self.log_weight = log_weight

    @property
    def is_stationary(self) -> bool:
        return False

    def num_outputs_per_input(self, x1: Tensor, x2: Tensor) -> int:
        return self.base_kernel.num_outputs_per_input(x1, x2)  # type: ignore[no-any-return]

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, last_dim_is_batch: bool = False
    ) -> Tensor:
        """Weighted covariance, `... x n x m`, or `... x n` with ``diag``.

        Args:
            x1: Inputs, `... x n x d`.
            x2: Inputs, `... x m x d`.
            diag: Whether only pairs of the same index are wanted.
            last_dim_is_batch: Passed to the base kernel; the weights see all columns and are
                the same for each.
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
    """The weight of an observation by its age: the inverse of an inflation of its noise.

    For ``ExponentialWeights(gamma)`` it is γ^(now - t): 1 at ``now``, [W22]'s γ^(-t) up to the
    factor that cancels.

    Args:
        inflation: How noise grows with the lag.
        now: Time that lags count back from; later times have lag 0.
        time_dim: Column of the input that holds time.
    """

    def __init__(self, inflation: Inflation, now: float, time_dim: int = -1) -> None:
        super().__init__()
        self.inflation = inflation
        self.now = now
        self.time_dim = time_dim

    def forward(self, X: Tensor) -> Tensor:
        """Log-weight of inputs `... x n x d`: `... x n`."""
        return -self.inflation.log_factor((self.now - X[..., self.time_dim]).clamp_min(0.0))
