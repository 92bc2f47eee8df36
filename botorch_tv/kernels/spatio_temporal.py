"""One kernel over arms and time: the product of a spatial and a temporal factor."""

from __future__ import annotations

import torch
from gpytorch.kernels import Kernel
from linear_operator import to_dense
from torch import Tensor

from botorch_tv.kernels.batching import BatchedKernel
from botorch_tv.validation import require

FEWEST_SHARED = 64
"""Points from which on it pays to see whether they share a time."""


class SpatioTemporalKernel(BatchedKernel):
    r"""The covariance of a time-varying objective, one column of whose input is time.

    .. math:: k((x, t), (x', t')) = k_{space}(x, x')\, k_{time}(t, t')

    Fused rather than a ``ProductKernel`` of two kernels with ``active_dims``: batches of it may be
    expanded and indexed, and BoTorch's pathwise sampling knows its features.

    Args:
        spatial: Kernel over the columns other than time. Its own ``active_dims`` count these.
        temporal: Kernel over the column of time; None where time does not matter, that is for an
            objective that stands still.
        time_dim: Which of the columns is time; counted among ``active_dims`` where these are given.
        active_dims: Columns of the input to use; all of them where None.

    Raises:
        ValueError: If ``temporal`` picks columns: it is given the one of time.

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
        require(
            temporal is None or temporal.active_dims is None,
            "SpatioTemporalKernel: the temporal kernel has active_dims, but it is given the column "
            "of time and nothing else; name that column by time_dim.",
        )
        self.spatial = spatial
        self.temporal = temporal
        self.time_dim = time_dim

    @property
    def is_stationary(self) -> bool:
        """Whether the covariance depends on differences of inputs alone."""
        return bool(
            self.spatial.is_stationary and (self.temporal is None or self.temporal.is_stationary)
        )

    @property
    def lengthscale(self) -> Tensor | None:
        """That of the spatial kernel, also inside a ``ScaleKernel``, `... x 1 x (d - 1)` with ARD.

        For code such as TuRBO's that shapes a region by it. None where that kernel has none of its
        own, as a sum or a product of others.
        """
        return self._inner().lengthscale  # type: ignore[no-any-return]

    @lengthscale.setter
    def lengthscale(self, value: Tensor | float) -> None:
        inner = self._inner()
        if not inner.has_lengthscale:
            raise RuntimeError(
                f"SpatioTemporalKernel: {type(inner).__name__} has no lengthscale; set those of "
                "the kernels it is made of."
            )
        inner.lengthscale = value

    def _inner(self) -> Kernel:
        """The spatial kernel without scales around it."""
        kernel = self.spatial
        while not kernel.has_lengthscale and hasattr(kernel, "base_kernel"):
            kernel = kernel.base_kernel
        return kernel

    def num_outputs_per_input(self, x1: Tensor, x2: Tensor) -> int:
        return self.spatial.num_outputs_per_input(x1, x2)  # type: ignore[no-any-return]

    def split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs `... x n x d` as arms `... x n x (d - 1)` and times `... x n x 1`."""
        time = self.time_dim % x.shape[-1]
        if time == x.shape[-1] - 1:
            return x[..., :-1], x[..., -1:]
        return torch.cat([x[..., :time], x[..., time + 1 :]], -1), x[..., time : time + 1]

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, last_dim_is_batch: bool = False
    ) -> Tensor:
        """Covariance of inputs, `... x n x m`, or `... x n` with ``diag``.

        Args:
            x1: Inputs, `... x n x d`.
            x2: Inputs, `... x m x d`.
            diag: Whether only pairs of the same index are wanted.
            last_dim_is_batch: Not possible: the columns play different parts.

        Raises:
            RuntimeError: If ``last_dim_is_batch``.
        """
        if last_dim_is_batch:
            raise RuntimeError(
                "SpatioTemporalKernel: last_dim_is_batch is not possible, because one column is "
                "time and the others are not; put the additive structure into the spatial kernel."
            )
        (arms1, times1), (arms2, times2) = self.split(x1), self.split(x2)
        covariance: Tensor = to_dense(self.spatial(arms1, arms2, diag=diag))
        if self.temporal is None:
            return covariance
        if not diag and not times2.requires_grad and _one_time(times2):
            times2 = times2[..., :1, :]  # the decay of all columns is that of the first
        decay: Tensor = to_dense(self.temporal(times1, times2, diag=diag))
        return covariance * decay


def _one_time(times: Tensor) -> bool:
    """Whether many points share a time, as candidates of the present do."""
    return times.shape[-2] >= FEWEST_SHARED and bool((times == times[..., :1, :]).all())
