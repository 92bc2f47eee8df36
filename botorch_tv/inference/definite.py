"""Whether a matrix is a covariance: finite, symmetric, and without negative eigenvalues."""

from __future__ import annotations

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

INDEFINITE_TOLERANCE = 1e-8
"""A matrix is refused when its lowest eigenvalue is below minus this share of its largest."""
EVALUATED_TOLERANCE = 1e-6
"""Share of its largest entry by which an evaluated kernel may be asymmetric: the distance of a
point from its twin is the root of what rounding leaves of its square."""


def checked(covariance: Tensor) -> Tensor:
    """The matrix itself, once it has proved to be a covariance up to rounding.

    Args:
        covariance: `M x M`.

    Raises:
        InputDataError: If it is not square, not finite, not symmetric, or indefinite beyond -1e-8
            of its largest eigenvalue.
    """
    require_symmetric(covariance)
    require_semidefinite(covariance)
    return covariance


def require_symmetric(covariance: Tensor, tolerance: float = INDEFINITE_TOLERANCE) -> None:
    """Raise unless a matrix is square, finite and symmetric.

    Args:
        covariance: `M x M`.
        tolerance: Largest difference between mirrored entries, as a share of the largest entry.

    Raises:
        InputDataError: If it is not.
    """
    if covariance.dim() != 2 or covariance.shape[0] != covariance.shape[1]:
        raise InputDataError(
            f"the kernel matrix has shape {tuple(covariance.shape)}; it must be M x M, one row and "
            "one column per arm."
        )
    wrong = ~covariance.isfinite()
    if bool(wrong.any()):
        row, column = wrong.nonzero()[0].tolist()
        raise InputDataError(
            f"the kernel matrix has entries that are NaN or infinite, {int(wrong.sum())} of "
            f"{wrong.numel()}, the first in row {row} and column {column}; it must be finite: "
            "check the kernel's parameters and the points."
        )
    asymmetry = float((covariance - covariance.T).abs().max())
    limit = tolerance * float(covariance.abs().max())
    if asymmetry > limit:
        raise InputDataError(
            f"the kernel matrix is not symmetric: entries differ by {asymmetry:.3g}, the limit is "
            f"{limit:.3g}; pass (K + K.T) / 2."
        )


def require_semidefinite(covariance: Tensor) -> None:
    """Raise if a symmetric matrix has a negative eigenvalue.

    A Cholesky factorisation of the matrix, raised by a little less than what is tolerated, takes a
    quarter of the time that eigenvalues take; only where it fails these decide.

    Args:
        covariance: `M x M`, finite.

    Raises:
        InputDataError: As :func:`require_spectrum`.
    """
    largest = float(covariance.diagonal().max())  # of the diagonal: no eigenvalue is above all
    if largest > 0:
        raised = covariance.clone()
        raised.diagonal().add_(INDEFINITE_TOLERANCE * largest)
        if not bool(torch.linalg.cholesky_ex(raised).info):
            return
    require_spectrum(torch.linalg.eigvalsh(covariance))


def require_spectrum(eigenvalues: Tensor) -> None:
    """Raise unless eigenvalues are those of a covariance up to rounding.

    Args:
        eigenvalues: `M`.

    Raises:
        InputDataError: If none is positive, or the lowest is below -1e-8 of the largest.
    """
    lowest, largest = float(eigenvalues.min()), float(eigenvalues.max())
    if largest <= 0 or lowest < -INDEFINITE_TOLERANCE * largest:
        raise InputDataError(
            f"the kernel matrix is indefinite: its eigenvalues run from {lowest:.3g} to "
            f"{largest:.3g}, the limit is -1e-8 of the largest, which must be positive; clip the "
            "negative ones at zero, or give another kernel."
        )
