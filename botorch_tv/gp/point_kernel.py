"""Evaluation of a kernel at points, in many small batches.

GPyTorch evaluates kernels through lazy operators. For a single bandit, lazy operators cost more
than the arithmetic. This file implements squared exponential and Matérn kernels directly and calls
GPyTorch for all other kernels.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from gpytorch.kernels import Kernel, ScaleKernel
from torch import Tensor

from botorch_tv.kernels.stationary import SMALLEST_SQUARE, profile, profile_slope, smoothness_of
from botorch_tv.validation import require

Covariance = Callable[[Tensor], Tensor]
"""Maps points, `trials x q x d`, to their covariances with n fixed points, `trials x q x n`."""


@dataclass(frozen=True)
class Stationary:
    """outputscale * k(‖(x - x') / lengthscale‖) with k squared exponential or Matérn.

    Attributes:
        smoothness: ν of a Matérn kernel, 1/2, 3/2 or 5/2; infinite for the squared exponential.
        lengthscale: Lengthscales, `1 x d` or `trials x 1 x d`; d is 1 for a shared lengthscale.
        outputscale: Output scale, `1 x 1` or `trials x 1 x 1`.
        columns: Columns that the kernel uses; None for all.
    """

    smoothness: float
    lengthscale: Tensor
    outputscale: Tensor
    columns: Tensor | None = None

    def covariance(self, X1: Tensor, X2: Tensor) -> Tensor:
        """Covariances of points `trials x q x d` with points `trials x n x d`: `trials x q x n`."""
        return self.against(X2)(X1)

    def against(self, X2: Tensor) -> Covariance:
        """A function that computes covariances with fixed points ``X2``, `trials x n x d`.

        If the smoothness of the kernel exceeds 1, the result is a :class:`CrossCovariance`, which
        also computes derivatives.
        """
        if self.smoothness > 1:
            return CrossCovariance(self, X2)
        second = self.scaled(X2)

        # Near zero this kernel is linear in the distance, so the distance must be accurate.
        def covariance(X1: Tensor) -> Tensor:
            away = self.scaled(X1).unsqueeze(-2) - second.unsqueeze(-3)
            square = away.square().sum(-1).clamp_min(SMALLEST_SQUARE)
            return self.outputscale * profile(square, self.smoothness)

        return covariance

    def variance(self, X: Tensor) -> Tensor:
        """Prior variances, `trials x q x d -> trials x q`."""
        return self.outputscale.squeeze(-1).expand(X.shape[:-1])

    def waves(self, X: Tensor, frequency: Tensor) -> Tensor:
        """Random features φ with E[φ(x) φ(x')ᵀ] = k(x, x'), `trials x q x 2F`.

        Args:
            X: Points, `trials x q x d`.
            frequency: Frequencies, `trials x F x d`, for coordinates in units of the lengthscale.
        """
        phase = self.scaled(X) @ frequency.mT
        amplitude = (self.outputscale / frequency.shape[-2]).sqrt()
        return torch.cat([phase.cos(), phase.sin()], -1) * amplitude

    def select(self, trials: Tensor) -> Stationary:
        """The kernel of some trials."""
        return replace(
            self,
            lengthscale=_selected(self.lengthscale, trials),
            outputscale=_selected(self.outputscale, trials),
        )

    def scaled(self, X: Tensor) -> Tensor:
        """The columns that the kernel uses, in units of the lengthscale."""
        X = X if self.columns is None else X.index_select(-1, self.columns)
        return X / self.lengthscale


class CrossCovariance:
    """Computes covariances with fixed points, prepared once, under a smooth stationary kernel.

    Args:
        kernel: A kernel whose smoothness exceeds 1.
        X2: The points, `trials x n x d`.
    """

    def __init__(self, kernel: Stationary, X2: Tensor) -> None:
        second = kernel.scaled(X2)
        # Centred coordinates reduce cancellation.
        self._kernel, self._centre = kernel, second.detach().mean(-2, keepdim=True)
        self._around = second - self._centre
        self._squares = self._around.square().sum(-1).unsqueeze(-2)

    def __call__(self, X1: Tensor) -> Tensor:
        """Covariances of points, `trials x q x d`, with the fixed points: `trials x q x n`."""
        square = self._square(self._kernel.scaled(X1) - self._centre)
        return self._kernel.outputscale * profile(square, self._kernel.smoothness)

    def slopes(self, X1: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Covariances, `trials x q x n`, and a function for their derivatives.

        The returned function maps derivatives with respect to the covariances, `trials x q x n`, to
        derivatives with respect to X1, `trials x q x d`. The derivatives are computed explicitly,
        which is faster than automatic differentiation.

        Args:
            X1: Points, `trials x q x d`.
        """
        kernel = self._kernel
        first = kernel.scaled(X1) - self._centre
        square = self._square(first)
        covariance = kernel.outputscale * profile(square, kernel.smoothness)

        def pull(by: Tensor) -> Tensor:
            if kernel.smoothness == math.inf:
                by = by * covariance
            else:
                by = by * (-2 * kernel.outputscale * profile_slope(square, kernel.smoothness))
            # Σ by · (around - first), the derivative of -½ ‖first - around‖².
            own = torch.baddbmm(by.sum(-1, keepdim=True) * first, by, self._around, beta=-1)
            own = own / kernel.lengthscale
            if kernel.columns is None:
                return own
            return torch.zeros_like(X1).index_copy_(-1, kernel.columns, own)

        return covariance, pull

    def _square(self, first: Tensor) -> Tensor:
        """Squared distances between centred points and the fixed points."""
        sizes = first.square().sum(-1, keepdim=True) + self._squares
        return torch.baddbmm(sizes, first, self._around.mT, alpha=-2).clamp_min(SMALLEST_SQUARE)


@dataclass(frozen=True)
class General:
    """Any GPyTorch kernel without batch shape."""

    kernel: Kernel

    def covariance(self, X1: Tensor, X2: Tensor) -> Tensor:
        """Covariances of points `trials x q x d` with points `trials x n x d`: `trials x q x n`."""
        covariance: Tensor = self.kernel(X1, X2).to_dense()
        return covariance.to(X1)  # a user's kernel may return another dtype

    def against(self, X2: Tensor) -> Covariance:
        """A function that computes covariances with the fixed points ``X2``, `trials x n x d`."""
        return lambda X1: self.covariance(X1, X2)

    def variance(self, X: Tensor) -> Tensor:
        """Prior variances, `trials x q x d -> trials x q`."""
        variance: Tensor = self.kernel(X, diag=True)
        return variance.to(X)

    def select(self, trials: Tensor) -> General:
        """The kernel of some trials: this kernel itself, because all trials share it."""
        return self


PointKernel = Stationary | General


def point_kernel(kernel: Kernel) -> PointKernel:
    """A GPyTorch kernel, prepared for evaluation at points.

    Args:
        kernel: A kernel without batch shape, or with one batch member per trial.

    Returns:
        A :class:`Stationary` for a squared exponential or Matérn kernel, scaled or not; a
        :class:`General` for others.

    Raises:
        ValueError: If a kernel that is neither squared exponential nor Matérn has a batch shape.
    """
    plain = _stationary(kernel)
    if plain is not None:
        return plain
    if kernel.batch_shape.numel() != 1:
        raise ValueError(
            f"{type(kernel).__name__} has batch shape {tuple(kernel.batch_shape)}; one kernel per "
            "trial works for RBFKernel and MaternKernel, alone or in a ScaleKernel."
        )
    return General(kernel)


def formula(kernel: Kernel) -> str | None:
    """A text that is equal for two kernels with the same formula and parameters, in float64.

    Returns:
        A text with formula and parameters, if the kernel is squared exponential or Matérn. None for
        a kernel that is neither squared exponential nor Matérn: compare two such kernels by their
        covariances.
    """
    plain = _stationary(copy.deepcopy(kernel).double())
    if plain is None:
        return None
    parts = (plain.lengthscale, plain.outputscale, plain.columns)
    numbers = [None if part is None else part.tolist() for part in parts]
    return f"{plain.smoothness} {numbers}"


def _stationary(kernel: Kernel) -> Stationary | None:
    if type(kernel) is ScaleKernel:
        base = _stationary(kernel.base_kernel)
        if base is None:
            return None
        scale = kernel.outputscale[..., None, None]  # `1 x 1`, or `trials x 1 x 1`
        # A ScaleKernel copies the active_dims of its base kernel; only the ScaleKernel selects
        # columns.
        return replace(base, outputscale=base.outputscale * scale, columns=kernel.active_dims)
    smoothness = smoothness_of(kernel)
    if smoothness is None:
        return None
    return Stationary(
        smoothness=smoothness,
        lengthscale=kernel.lengthscale,
        outputscale=kernel.lengthscale.new_ones(1, 1),
        columns=kernel.active_dims,
    )


def _selected(parameter: Tensor, trials: Tensor) -> Tensor:
    return parameter[trials] if parameter.dim() == 3 and len(parameter) > 1 else parameter


FREQUENCIES = 512
"""Number of waves in a sampled function; the error of the covariance is about 1 /
sqrt(FREQUENCIES)."""


def spectral_normals(kernel: PointKernel) -> int:
    """Number of normal variates that a frequency requires in addition to one per coordinate.

    Raises:
        ValueError: If the spectrum of the kernel is not available.
    """
    require(
        isinstance(kernel, Stationary),
        f"the spectrum of {getattr(kernel, 'kernel', kernel)!r} is not available; Thompson "
        "sampling on a box requires an RBFKernel or a MaternKernel, scaled or not. Use a Grid for "
        "other kernels.",
    )
    assert isinstance(kernel, Stationary)
    return 0 if kernel.smoothness == math.inf else round(2 * kernel.smoothness)


def frequencies(kernel: PointKernel, normal: Tensor) -> Tensor:
    """Frequencies of random features, `trials x F x d`, for :meth:`Stationary.waves`.

    Args:
        kernel: A squared exponential or Matérn kernel.
        normal: Standard normal variates, `trials x F x (d + spectral_normals(kernel))`, with d the
            number of columns that the kernel uses.
    """
    further = spectral_normals(kernel)
    if not further:
        return normal
    d = normal.shape[-1] - further
    chi_square = normal[..., d:].square().sum(-1, keepdim=True)
    return normal[..., :d] * (further / chi_square).sqrt()
