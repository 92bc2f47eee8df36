"""A kernel, however it was given, as a matrix over the arms of a domain."""

from __future__ import annotations

import warnings

import torch
from botorch.exceptions import InputDataError
from botorch.exceptions.warnings import InputDataWarning
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.inference.factor import checked


def covariance_matrix(kernel: Kernel | Tensor, X: Tensor) -> Tensor:
    """The kernel on all pairs of arms.

    Args:
        kernel: A GPyTorch kernel without batch shape, or the matrix itself, `M x M`.
        X: The arms, `M x d`.

    Returns:
        `M x M`, float64 on the device of ``X``.

    Raises:
        InputDataError: If a matrix does not fit the arms or is no covariance.
    """
    if isinstance(kernel, Tensor):
        if kernel.shape != (len(X), len(X)):
            raise InputDataError(
                f"the kernel matrix has shape {tuple(kernel.shape)}, but the domain has "
                f"{len(X)} arms; it must be {len(X)} x {len(X)}."
            )
        return checked(kernel.detach().to(device=X.device, dtype=torch.float64))
    if kernel.batch_shape.numel() != 1:
        raise InputDataError(
            f"the kernel has batch shape {tuple(kernel.batch_shape)}; give one kernel, all trials "
            "share it."
        )
    points = X.double()
    with torch.no_grad():
        matrix = kernel.to(points)(points).to_dense()
    return 0.5 * (matrix + matrix.T)


def warn_of_rounded_parameters(kernel: Kernel | Tensor, dtype: torch.dtype) -> None:
    """Warn where hyperparameters carry fewer digits than the computation they enter."""
    tensors = [kernel] if isinstance(kernel, Tensor) else list(kernel.parameters())
    if dtype == torch.float64 and any(tensor.dtype == torch.float32 for tensor in tensors):
        warnings.warn(
            "the kernel's parameters are float32 in a float64 run: a lengthscale of 0.2 is then "
            "0.20000000298. Make the kernel with .double() before setting its parameters.",
            InputDataWarning,
            stacklevel=4,
        )
