"""Random Fourier features of a stationary kernel."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from torch import Tensor


class Spectrum(NamedTuple):
    """A stationary kernel by its spectrum.

    Attributes:
        variance: k(x, x).
        lengthscale: Of each coordinate, `d`.
        smoothness: ν of a Matérn kernel; infinite for the squared exponential.
    """

    variance: float
    lengthscale: Tensor
    smoothness: float

    def frequencies(self, *shape: int, generator: torch.Generator) -> Tensor:
        """Angular frequencies drawn from the kernel's spectral density, `shape x d`, float64.

        By Bochner's theorem k(x, x') / k(x, x) = E cos(ωᵀ(x − x')). ω is normal with standard
        deviation 1 / lengthscale for the squared exponential, and Student's t with 2ν degrees of
        freedom on the same scale for Matérn: a normal over √(χ²_{2ν} / 2ν).
        """
        dim = len(self.lengthscale)
        normal = torch.randn(*shape, dim, generator=generator, dtype=torch.float64, device="cpu")
        if math.isfinite(self.smoothness):
            # 2ν is an odd integer for the smoothnesses allowed, so χ² is a sum of squares.
            freedom = round(2 * self.smoothness)
            squares = torch.randn(
                *shape, freedom, generator=generator, dtype=torch.float64, device="cpu"
            )
            normal = normal / squares.square().mean(-1, keepdim=True).sqrt()
        return normal / self.lengthscale


def spectrum_of(kernel: Kernel, dim: int) -> Spectrum:
    """The spectrum of a squared-exponential or Matérn kernel, scaled or not.

    Args:
        kernel: ``RBFKernel``, or ``MaternKernel`` with ν = 1.5 or 2.5, on all coordinates, with one
            lengthscale or d of them, possibly inside a ``ScaleKernel``.
        dim: The number d of coordinates.

    Raises:
        InputDataError: If ``kernel`` is anything else.
    """
    variance, inner = 1.0, kernel
    if isinstance(kernel, ScaleKernel) and kernel.outputscale.numel() == 1:
        variance, inner = kernel.outputscale.item(), kernel.base_kernel
    supported = type(inner) is RBFKernel or (type(inner) is MaternKernel and inner.nu > 1)
    if not supported or inner.active_dims is not None or len(inner.batch_shape) > 0:
        raise InputDataError(
            f"kernel is {kernel}, but its random features are known for an RBFKernel or a "
            "MaternKernel of nu 1.5 or 2.5 on all coordinates, without batch shape, possibly in a "
            "ScaleKernel. For others draw on a grid with botorch_tv.simulation.MarkovWorld."
        )
    lengthscale = inner.lengthscale.detach().double().flatten().cpu()
    if len(lengthscale) not in (1, dim):
        raise InputDataError(
            f"kernel has {len(lengthscale)} lengthscales, but there are {dim} coordinates; give it "
            f"ard_num_dims={dim}, or one lengthscale for all."
        )
    smoothness = inner.nu if isinstance(inner, MaternKernel) else math.inf
    return Spectrum(variance, lengthscale.expand(dim).clone(), smoothness)
