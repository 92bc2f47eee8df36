"""Functions drawn from a Gaussian process, as sums of waves.

A stationary kernel is the mean of cos(ω(x - x')) over frequencies ω of its spectral density: normal
ones for the squared exponential, those of a Student distribution with 2ν degrees of freedom for the
Matérn kind (Rahimi and Recht, 2007). A function is then a sum of cosines and sines with normal
weights, and one that changes with time has weights that do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_tv.inference.point_kernel import PointKernel, Stationary
from botorch_tv.inference.tensors import OfTrials
from botorch_tv.validation import require

FREQUENCIES = 512
"""Waves per function; the covariance is then off by about 1 / sqrt(FREQUENCIES)."""


@dataclass(frozen=True)
class FourierFeatures(OfTrials):
    """Random features of a kernel.

    Attributes:
        kernel: Whose they are.
        frequency: `trials x F x d`, for coordinates in units of the lengthscale.
    """

    kernel: Stationary
    frequency: Tensor

    def at(self, X: Tensor) -> Tensor:
        """Features φ with E[φ(x) φ(x')ᵀ] = k(x, x'), `trials x q x d -> trials x q x 2F`."""
        phase = self.kernel.scaled(X) @ self.frequency.mT
        amplitude = (self.kernel.outputscale / self.frequency.shape[-2]).sqrt()
        return torch.cat([phase.cos(), phase.sin()], -1) * amplitude


def spectral_normals(kernel: PointKernel) -> int:
    """Standard normal variates needed per frequency besides one per coordinate.

    Raises:
        ValueError: If the kernel has no known spectrum.
    """
    require(
        isinstance(kernel, Stationary),
        f"no spectrum is known for {getattr(kernel, 'kernel', kernel)!r}; Thompson sampling on a "
        "box takes an RBFKernel or a MaternKernel, scaled or not. Use a Grid for others.",
    )
    assert isinstance(kernel, Stationary)
    return 0 if kernel.smoothness == math.inf else round(2 * kernel.smoothness)


def waves(kernel: PointKernel, normal: Tensor) -> FourierFeatures:
    """Random features.

    Args:
        kernel: Of the squared exponential or Matérn kind.
        normal: Standard normal variates, `trials x F x (d + spectral_normals(kernel))`, d being the
            number of coordinates that the kernel looks at.
    """
    further = spectral_normals(kernel)
    assert isinstance(kernel, Stationary)
    d = normal.shape[-1] - further
    frequency = normal[..., :d]
    if further:
        chi_square = normal[..., d:].square().sum(-1, keepdim=True)
        frequency = frequency * (further / chi_square).sqrt()
    return FourierFeatures(kernel, frequency)
