"""Profiles of stationary kernels, and the corresponding kernels of GPyTorch.

For covariances of a few hundred points, GPyTorch's overhead takes longer than the arithmetic. A
stationary kernel is a function of the squared distance r² = Σ_k (x_k - x'_k)² / ℓ_k² only; this
function of r² is the profile of the kernel.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from torch import Tensor

SMALLEST_SQUARE = 1e-30
"""Lower limit of squared distances; roots of positive numbers have a derivative."""


def smoothness_of(kernel: Kernel) -> float | None:
    """ν of a ``MaternKernel``, infinity for an ``RBFKernel``, None for other kernels.

    A subclass of ``MaternKernel`` or ``RBFKernel`` counts as another kernel, because a subclass may
    compute another function.
    """
    if type(kernel) is RBFKernel:
        return math.inf
    return float(kernel.nu) if type(kernel) is MaternKernel else None


def profile(square: Tensor, smoothness: float) -> Tensor:
    """Correlation of two points whose distance r is measured in units of the lengthscale.

    Args:
        square: r², any shape.
        smoothness: ν of a Matérn kernel, 0.5, 1.5 or 2.5; infinity for the squared exponential.
    """
    if smoothness == math.inf:
        return torch.exp(-0.5 * square.clamp_min(0))
    distance, decay = _decayed(square, smoothness)
    if smoothness == 0.5:
        return decay
    if smoothness == 1.5:
        return (1 + distance) * decay
    return (1 + distance + distance.square() / 3) * decay


def profile_slope(square: Tensor, smoothness: float) -> Tensor:
    """Derivative of :func:`profile` with respect to ``square``; the arguments are the same."""
    if smoothness == math.inf:
        return -0.5 * profile(square, smoothness)
    distance, decay = _decayed(square, smoothness)
    if smoothness == 0.5:
        # At distance 0 the derivative is infinite, but it is multiplied by 0; return 0 instead.
        return torch.where(square > 0, -0.5 * decay / distance, 0.0)
    return -1.5 * decay if smoothness == 1.5 else (-5 / 6) * (1 + distance) * decay


def _decayed(square: Tensor, smoothness: float) -> tuple[Tensor, Tensor]:
    """√(2ν) r and exp(-√(2ν) r)."""
    distance = square.clamp_min(SMALLEST_SQUARE).sqrt() * math.sqrt(2 * smoothness)
    return distance, torch.exp(-distance)


class LearnableKernel:
    """A squared exponential or Matérn kernel, possibly scaled, over some columns of the input.

    Args:
        kernel: The user's kernel, which must not have a batch shape.

    Attributes:
        base: The kernel inside a ``ScaleKernel``, or the kernel itself.
        scaled: Whether there is an output scale to learn.
        smoothness: ν of the kernel; see :func:`profile`.
        lengthscales: Number of lengthscales: 1, or the number of columns.

    Raises:
        InputDataError: If the kernel has another type or a batch shape.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.scaled = type(kernel) is ScaleKernel
        self.kernel, self.base = kernel, kernel.base_kernel if self.scaled else kernel
        smoothness = smoothness_of(self.base)
        if smoothness is None or kernel.batch_shape.numel() != 1:
            raise InputDataError(
                f"the kernel is a {type(self.base).__name__} of batch shape "
                f"{tuple(kernel.batch_shape)}, but hyperparameters can be learned only for an "
                "RBFKernel or a MaternKernel, possibly in a ScaleKernel, without a batch; use such "
                "a kernel, or fit a TimeVaryingGP with fit_gpytorch_mll."
            )
        self.smoothness = smoothness
        self.lengthscales = int(self.base.ard_num_dims or 1)

    @property
    def lengthscale(self) -> Tensor:
        """The initial lengthscales, `lengthscales`, float64."""
        return self.base.lengthscale.detach().double().reshape(-1)

    @property
    def variance(self) -> float:
        """The initial variance k(x, x)."""
        return float(self.kernel.outputscale.detach().double()) if self.scaled else 1.0

    def columns(self, X: Tensor) -> Tensor:
        """The columns of an input that the kernel uses, `... x n x d -> ... x n x d'`.

        Raises:
            InputDataError: If the number of columns does not match the number of lengthscales.
        """
        if self.kernel.active_dims is not None:
            X = X.index_select(-1, self.kernel.active_dims.to(X.device))
        if self.lengthscales not in (1, X.shape[-1]):
            raise InputDataError(
                f"X has {X.shape[-1]} columns for the kernel, which has {self.lengthscales} "
                "lengthscales; give a lengthscale per column, or a single lengthscale."
            )
        return X

    def squares(self, X: Tensor) -> Tensor:
        """Squared differences per lengthscale, `b x n x d -> b x lengthscales x n x n`."""
        columns = X.mT  # b x d x n
        squares = (columns.unsqueeze(-1) - columns.unsqueeze(-2)).square()
        return squares if self.lengthscales > 1 else squares.sum(-3, keepdim=True)

    def bounds(self, name: str) -> tuple[float, float]:
        """The bounds that the constraint on ``lengthscale`` or ``outputscale`` allows."""
        holder = self.base if name == "lengthscale" else self.kernel
        constraint: Any = getattr(holder, f"raw_{name}_constraint")
        return float(constraint.lower_bound.max()), float(constraint.upper_bound.min())

    def prior(self, name: str) -> Any:
        """The prior of the kernel for ``lengthscale`` or ``outputscale``, or None."""
        return getattr(self.base if name == "lengthscale" else self.kernel, f"{name}_prior", None)

    def with_parameters(self, lengthscale: Tensor, variance: Tensor) -> Kernel:
        """A copy of the kernel with a batch of parameters.

        Args:
            lengthscale: Lengthscales, `batch_shape x lengthscales`.
            variance: Output scales, `batch_shape`; used if the kernel has an output scale.

        Returns:
            A kernel of batch shape ``batch_shape`` with the dtype and device of the parameters and
            without gradients.
        """
        made = copy.deepcopy(self.kernel).to(lengthscale)
        base = made.base_kernel if self.scaled else made
        _set(base, "lengthscale", lengthscale.unsqueeze(-2))
        base.batch_shape = variance.shape
        if self.scaled:
            _set(made, "outputscale", variance)
            made.batch_shape = variance.shape
        return made.requires_grad_(False)


def _set(kernel: Kernel, name: str, value: Tensor) -> None:
    raw = getattr(kernel, f"raw_{name}_constraint").inverse_transform(value)
    setattr(kernel, f"raw_{name}", torch.nn.Parameter(raw.clone()))
