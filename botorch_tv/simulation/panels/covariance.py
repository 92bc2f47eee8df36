"""The sample covariance across the arms of a panel."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import torch

from botorch_tv.inference.definite import checked
from botorch_tv.inference.factor import RANK_TOLERANCE
from botorch_tv.memory import torch_threads
from botorch_tv.validation import require

Center = Literal["all", "arm"]


class Scaling(NamedTuple):
    """How readings become the values that strategies see: (reading - mean) / scale.

    Args:
        mean: One number for all arms, or one per arm, `arms`.
        scale: One number for all arms, positive.
    """

    mean: np.ndarray
    scale: float

    def apply(self, readings: np.ndarray) -> np.ndarray:
        """Readings as values, `rounds x arms`."""
        return np.asarray((readings - self.mean) / self.scale)


def scaling(readings: np.ndarray, center: Center, standardize: bool) -> Scaling:
    """Mean and standard deviation of the training rows.

    Args:
        readings: Training rows, `rounds x arms`; NaN where missing.
        center: ``"all"`` for one mean of all readings, ``"arm"`` for one per arm.
        standardize: False keeps the unit of the readings, a scale of 1.

    Raises:
        ValueError: If all readings equal their mean.
    """
    mean = np.nanmean(readings, axis=0 if center == "arm" else None)
    deviation = float(np.sqrt(np.nanmean((readings - mean) ** 2)))
    require(
        deviation > 0,
        "PanelWorld: the standard deviation of the training rows is 0, but a model needs readings "
        "that vary; train on other rows.",
    )
    return Scaling(np.asarray(mean), deviation if standardize else 1.0)


class Eigendecomposition(NamedTuple):
    """A covariance across arms, Q Λ Qᵀ, with positive eigenvalues only.

    Args:
        eigenvalues: The diagonal of Λ, `r`.
        vectors: Q, `arms x r`.
    """

    eigenvalues: np.ndarray
    vectors: np.ndarray

    def less(self, noise: float) -> Eigendecomposition:
        """This covariance less that of noise, whose variance is below the largest eigenvalue."""
        kept = self.eigenvalues > noise
        return Eigendecomposition(self.eigenvalues[kept] - noise, self.vectors[:, kept])

    def matrix(self) -> np.ndarray:
        """The covariance, `arms x arms`."""
        return _gram((self.vectors * np.sqrt(self.eigenvalues)).T)


def sample_covariance(values: np.ndarray) -> np.ndarray:
    """Covariance across arms about zero.

    Args:
        values: Centred readings, `rounds x arms`; NaN where missing.

    Returns:
        `arms x arms`, positive semi-definite up to rounding: negative eigenvalues, which gaps may
        cause, are clipped at zero.
    """
    if np.isnan(values).any():
        return sample_spectrum(values).matrix()
    return _gram(values) / len(values)


def sample_spectrum(values: np.ndarray) -> Eigendecomposition:
    """The positive eigenvalues of :func:`sample_covariance`, and their eigenvectors.

    Without gaps they come from the singular values of the readings, which is accurate, and fast if
    there are fewer rows than arms. With gaps the covariance of two arms is that of the rows which
    have both, 0 if none has. Such a matrix can have negative eigenvalues, which are dropped.

    Args:
        values: Centred readings, `rounds x arms`; NaN where missing.
    """
    read = ~np.isnan(values)
    if read.all():
        _, singular, transposed = np.linalg.svd(values, full_matrices=False)
        return _positive(singular**2 / len(values), transposed.T)
    known, counted = np.where(read, values, 0.0), read.astype(np.float64)
    return _positive(*_eigen(_gram(known) / np.maximum(_gram(counted), 1.0)))


def spectrum(covariance: np.ndarray) -> Eigendecomposition:
    """The positive eigenvalues of a covariance and their eigenvectors.

    Args:
        covariance: `arms x arms`, symmetric.

    Raises:
        InputDataError: If it is not a covariance; eigenvalues down to -1e-8 of the largest pass.
    """
    return _positive(*_eigen(checked(torch.as_tensor(covariance, device="cpu").double()).numpy()))


def _gram(rows: np.ndarray) -> np.ndarray:
    """The Gram matrix of the columns.

    With several threads, rounding depends on their number, and a resumed study would not recognise
    its own world; hence one thread, here and below. On some processors rounding also depends on
    memory alignment, which a copy in PyTorch's memory fixes.
    """
    with torch_threads(1):
        tensor = torch.tensor(np.ascontiguousarray(rows), device="cpu")
        return (tensor.T @ tensor).numpy()


def _eigen(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    with torch_threads(1):
        eigenvalues, vectors = torch.linalg.eigh(torch.tensor(covariance, device="cpu"))
    return eigenvalues.numpy(), vectors.numpy()


def _positive(eigenvalues: np.ndarray, vectors: np.ndarray) -> Eigendecomposition:
    kept = eigenvalues > RANK_TOLERANCE * eigenvalues.max()
    return Eigendecomposition(eigenvalues[kept], vectors[:, kept])
