"""A kernel, however it was given, as a matrix over the arms of a domain."""

from __future__ import annotations

import copy
import warnings
from math import isqrt

import torch
from botorch.exceptions import InputDataError
from botorch.exceptions.warnings import InputDataWarning
from gpytorch.kernels import AdditiveKernel, Kernel, MaternKernel, ProductKernel, ScaleKernel
from torch import Tensor

from botorch_tv.inference.definite import EVALUATED_TOLERANCE, require_symmetric
from botorch_tv.memory import bytes_in_words, free_bytes


def covariance_matrix(kernel: Kernel | Tensor, X: Tensor) -> Tensor:
    """The kernel on all pairs of arms.

    Args:
        kernel: A GPyTorch kernel without batch shape, or the matrix itself, `M x M`.
        X: The arms, `M x d`.

    Returns:
        `M x M`, float64 on the device of ``X``.

    Raises:
        InputDataError: If a matrix does not fit the arms, a kernel cannot be evaluated on them,
            memory does not hold it, or what comes out is not finite or not symmetric;
            :func:`~botorch_tv.inference.factor.factor` refuses what is indefinite.
    """
    if isinstance(kernel, Tensor):
        if kernel.shape != (len(X), len(X)):
            raise InputDataError(
                f"the kernel matrix has shape {tuple(kernel.shape)}, but the domain has "
                f"{len(X)} arms; it must be {len(X)} x {len(X)}."
            )
        matrix = kernel.detach().to(device=X.device, dtype=torch.float64)
        require_symmetric(matrix)
        return matrix
    _require_room(len(X))
    points = X.double()
    matrix = evaluated(kernel, points)
    require_symmetric(matrix, EVALUATED_TOLERANCE)
    return 0.5 * (matrix + matrix.T)


def _require_room(arms: int) -> None:
    # The matrix, what it is made from, and its symmetric part.
    needed, free = 3 * 8 * arms**2, free_bytes(torch.device("cpu"))
    if needed > free:
        raise InputDataError(
            f"the domain has {arms:,} arms, whose covariance takes {bytes_in_words(needed)} to "
            f"compute, but {bytes_in_words(free)} of memory are free; give at most "
            f"{isqrt(free // 24):,} arms, or a Box, which needs no covariance of all its points."
        )


def evaluated(kernel: Kernel, points: Tensor) -> Tensor:
    """A GPyTorch kernel on all pairs of points.

    Args:
        kernel: In any dtype, on any device.
        points: `q x d`.

    Returns:
        `q x q`.

    Raises:
        InputDataError: If the kernel has a batch shape, looks at other columns than there are, or
            fails.
    """
    name, columns = describe_kernel(kernel), points.shape[-1]
    if kernel.batch_shape.numel() != 1:
        raise InputDataError(
            f"the kernel has batch shape {tuple(kernel.batch_shape)}; give one kernel without, all "
            "trials share it."
        )
    _require_columns(kernel, columns)
    try:
        with torch.no_grad():
            # Copies: moving a module changes it, and this one is another's, as the points are ours.
            matrix: Tensor = copy.deepcopy(kernel).to(points)(points.clone()).to_dense()
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        raise InputDataError(
            f"the kernel {name} cannot be evaluated on points of {columns} coordinates, those of "
            f"the domain and of its context: {error}; give one that takes {columns} columns."
        ) from error
    number = len(points)
    if matrix.numel() != number**2:
        raise InputDataError(
            f"the kernel {name} makes {tuple(matrix.shape)} of {number} points, but a covariance "
            f"of one objective is {number} x {number}; give a kernel of one output."
        )
    return matrix.reshape(number, number)


def _require_columns(kernel: Kernel, columns: int, picks: bool = True) -> None:
    """Raise where lengthscales are not one for each column: a single column would take them all.

    Args:
        kernel: With those it is made of.
        columns: How many there are.
        picks: Whether it has yet to pick those of its ``active_dims``.
    """
    if picks and kernel.active_dims is not None:
        seen = kernel.active_dims.tolist()
        if seen and max(seen) >= columns:
            raise InputDataError(
                f"the kernel {describe_kernel(kernel)} looks at columns {seen}, but points have "
                f"{columns}, counted from 0; give other active_dims."
            )
        columns = len(seen)
    if kernel.ard_num_dims is not None and kernel.ard_num_dims != columns:
        raise InputDataError(
            f"the kernel {describe_kernel(kernel)} has {kernel.ard_num_dims} lengthscales for "
            f"{columns} columns; give ard_num_dims={columns}, or None for one that all share."
        )
    if isinstance(kernel, ScaleKernel):
        # It takes over the columns of the kernel inside, and picks them itself.
        _require_columns(kernel.base_kernel, columns, picks=False)
    elif isinstance(kernel, (AdditiveKernel, ProductKernel)):
        for part in kernel.kernels:
            _require_columns(part, columns)


def warn_of_rounded_parameters(kernel: Kernel | Tensor, dtype: torch.dtype) -> None:
    """Warn where hyperparameters carry fewer digits than the computation they enter."""
    tensors = [kernel] if isinstance(kernel, Tensor) else list(kernel.parameters())
    if dtype == torch.float64 and any(tensor.dtype == torch.float32 for tensor in tensors):
        warnings.warn(
            "the kernel's parameters are float32 in a float64 run: a lengthscale of 0.2 is then "
            "0.20000000298. Call torch.set_default_dtype(torch.float64) before making it.",
            InputDataWarning,
            stacklevel=5,
        )


def describe_kernel(kernel: Kernel | Tensor) -> str:
    """A kernel with its hyperparameters on one line, such as ``RBFKernel(lengthscale=0.2)``."""
    if isinstance(kernel, Tensor):
        return f"covariance matrix of {len(kernel)} arms"
    parts = [f"nu={kernel.nu}"] if isinstance(kernel, MaternKernel) else []
    for raw, parameter in kernel.named_parameters(recurse=False):
        name = raw.removeprefix("raw_")
        numbers = getattr(kernel, name, parameter).detach().flatten().tolist()
        shown = ", ".join(f"{number:.10g}" for number in numbers)
        parts.append(f"{name}={shown}" if len(numbers) == 1 else f"{name}=[{shown}]")
    for name, child in kernel.named_children():
        if isinstance(child, Kernel):
            parts.append(f"{name}={describe_kernel(child)}")
        elif isinstance(child, torch.nn.ModuleList):
            parts += [describe_kernel(one) for one in child if isinstance(one, Kernel)]
    return f"{type(kernel).__name__}({', '.join(parts)})"
