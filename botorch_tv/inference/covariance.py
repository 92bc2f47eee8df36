"""A kernel, however it was given, as a matrix over the arms of a domain."""

from __future__ import annotations

import copy
import warnings

import torch
from botorch.exceptions import InputDataError
from botorch.exceptions.warnings import InputDataWarning
from gpytorch.kernels import Kernel, MaternKernel
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
        # A copy: moving a module changes it, and this one is another's.
        matrix: Tensor = copy.deepcopy(kernel).to(points)(points).to_dense()
    return 0.5 * (matrix + matrix.T)


def warn_of_rounded_parameters(kernel: Kernel | Tensor, dtype: torch.dtype) -> None:
    """Warn where hyperparameters carry fewer digits than the computation they enter."""
    tensors = [kernel] if isinstance(kernel, Tensor) else list(kernel.parameters())
    if dtype == torch.float64 and any(tensor.dtype == torch.float32 for tensor in tensors):
        warnings.warn(
            "the kernel's parameters are float32 in a float64 run: a lengthscale of 0.2 is then "
            "0.20000000298. Call torch.set_default_dtype(torch.float64) before making it.",
            InputDataWarning,
            stacklevel=4,
        )


def describe_kernel(kernel: Kernel | Tensor) -> str:
    """A kernel with its hyperparameters on one line, such as ``RBFKernel(lengthscale=0.2)``."""
    if isinstance(kernel, Tensor):
        return f"covariance matrix of {len(kernel)} arms"
    parts = [f"nu={kernel.nu}"] if isinstance(kernel, MaternKernel) else []
    for raw, _ in kernel.named_parameters(recurse=False):
        name = raw.removeprefix("raw_")
        numbers = getattr(kernel, name).detach().flatten().tolist()
        shown = ", ".join(f"{number:.10g}" for number in numbers)
        parts.append(f"{name}={shown}" if len(numbers) == 1 else f"{name}=[{shown}]")
    for name, child in kernel.named_children():
        if isinstance(child, Kernel):
            parts.append(f"{name}={describe_kernel(child)}")
        elif isinstance(child, torch.nn.ModuleList):
            parts += [describe_kernel(one) for one in child if isinstance(one, Kernel)]
    return f"{type(kernel).__name__}({', '.join(parts)})"
