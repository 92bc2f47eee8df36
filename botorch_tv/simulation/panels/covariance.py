"""The covariance across arms that a record shows."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import torch

from botorch_tv.inference.definite import checked
from botorch_tv.inference.factor import RANK_TOLERANCE
from botorch_tv.simulation.parallel import torch_threads
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
        readings: Training rows, `rounds x arms`; NaN where there is none.
        center: ``"all"`` for one mean of all readings, ``"arm"`` for one per arm.
        standardize: False leaves the unit of the readings, a scale of 1.

    Raises:
        ValueError: If the readings never differ from their mean.
    """
    mean = np.nanmean(readings, axis=0 if center == "arm" else None)
    deviation = float(np.sqrt(np.nanmean((readings - mean) ** 2)))
    require(
        deviation > 0,
        "the training rows never differ from their mean, so nothing can be learned from them; "
        "train on other rows.",
    )
    return Scaling(np.asarray(mean), deviation if standardize else 1.0)


class Eigendecomposition(NamedTuple):
    """A covariance across arms by its positive eigenvalues: Q Λ Qᵀ.

    Args:
        eigenvalues: The diagonal of Λ, `r`.
        vectors: Q, `arms x r`.
    """

    eigenvalues: np.ndarray
    vectors: np.ndarray

    def less(self, noise: float) -> Eigendecomposition:
        """This covariance without noise of a variance below the largest eigenvalue."""
        kept = self.eigenvalues > noise
        return Eigendecomposition(self.eigenvalues[kept] - noise, self.vectors[:, kept])

    def matrix(self) -> np.ndarray:
        """The covariance, `arms x arms`."""
        return _gram((self.vectors * np.sqrt(self.eigenvalues)).T)


def sample_covariance(values: np.ndarray) -> np.ndarray:
    """Covariance across arms about zero.

    Args:
        values: Centred readings, `rounds x arms`; NaN where there is none.

    Returns:
        `arms x arms`, positive semi-definite up to rounding: with gaps negative eigenvalues are
        clipped at zero.
    """
    if np.isnan(values).any():
        return sample_spectrum(values).matrix()
    return _gram(values) / len(values)


def sample_spectrum(values: np.ndarray) -> Eigendecomposition:
    """The positive eigenvalues of :func:`sample_covariance`, and their eigenvectors.

    Without gaps they are singular values of the readings, which is accurate and, with fewer rows
    than arms, fast. With gaps the covariance of two arms is taken from the rows that have both, and
    is 0 if there are none; such a matrix can have negative eigenvalues, which are left out.

    Args:
        values: Centred readings, `rounds x arms`; NaN where there is none.
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
        InputDataError: If it is no covariance; eigenvalues down to -1e-8 of the largest pass.
    """
    return _positive(*_eigen(checked(torch.as_tensor(covariance, device="cpu").double()).numpy()))


def _gram(rows: np.ndarray) -> np.ndarray:
    """The products of all pairs of columns.

    One thread, here and below: with more, the last bits depend on how many there are, and a study
    that is resumed would not know its own world again. And a copy in PyTorch's memory, which begins
    where NumPy's need not: on some processors that decides the last bits too.
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
