"""Objectives with oscillating coefficients, the same in every trial."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import count

import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.inference.covariance import describe_kernel
from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds.base import GridWorld
from botorch_tv.strategies.domains import Grid
from botorch_tv.validation import require, require_integer, require_number


class SineWorld(GridWorld):
    """f_t = Σ_i a_i(t) k(·, c_i), a(t) = (scale / λ_max) u(t) / |u(t)|, [M] §4.1.

    u_i(t) = sin(frequency t + i) for i = 1, ..., n, and λ_max is the largest eigenvalue of the
    kernel among the centers. Trials differ in their noise alone. The norm of f_t in the kernel's
    space is at most scale / √λ_max, which is below the paper's bound, scale, only where λ_max >= 1;
    with the paper's own parameters λ_max is 0.71 and the norm reaches 5.48 in its 500 rounds.

    With evenly spaced centers f is a wave that travels along the line at a constant speed,
    ``frequency`` times their distance per round. Measurements therefore lose their value at a
    constant rate. At the paper's speed a memory of two rounds works well, so this world does not
    test whether a strategy detects that its data are outdated.

    Args:
        domain: The arms.
        kernel: A GPyTorch kernel, not a matrix, because centers need not be arms.
        centers: The points c_i, `n x d`, or the number n of evenly spaced ones from the first to
            the last arm of a one-dimensional domain.
        scale: 5 in the paper, at least 0.
        frequency: 0.3 in the paper, radians per round.
        noise: Variance of the observation noise.

    Attributes:
        centers: The points c_i, `n x d`.

    Raises:
        ValueError: If a parameter is out of range or not finite.
        InputDataError: If ``centers`` do not fit the domain, or ``kernel`` is a matrix.
    """

    def __init__(
        self,
        domain: Grid,
        *,
        kernel: Kernel,
        centers: int | Tensor = 20,
        scale: float = 5.0,
        frequency: float = 0.3,
        noise: float,
    ) -> None:
        super().__init__(domain, noise)
        scale = require_number("SineWorld: scale", scale, "[0, 1e100]", "the paper uses 5.")
        frequency = require_number(
            "SineWorld: frequency", frequency, "(-inf, inf)", "the paper uses 0.3."
        )
        if not isinstance(kernel, Kernel):
            raise InputDataError(
                f"SineWorld: kernel is a {type(kernel).__name__}, but it must be evaluated between "
                "arms and centers; give a GPyTorch kernel."
            )
        self.kernel = copy.deepcopy(kernel)
        self.centers = _points(centers, domain)
        self.scale = scale
        self.frequency = frequency

    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        arms, centers = (X.double().to(stream.device) for X in (self.domain.X, self.centers))
        covariance = _evaluated(self.kernel, arms, centers)
        largest = self._largest_eigenvalue()
        values = covariance.new_empty(stream.trials, len(arms), dtype=stream.dtype)
        number = _numbers(centers)
        for t in count(1):
            yield values.copy_(covariance @ self._coefficients(t, number, largest))

    def norm(self, rounds: int) -> float:
        """The largest norm of f_1, ..., f_rounds in the kernel's space."""
        among = _evaluated(self.kernel, self.centers, self.centers)
        number, largest = _numbers(self.centers), self._largest_eigenvalue()
        times = range(1, rounds + 1)
        a = torch.stack([self._coefficients(t, number, largest) for t in times])
        return float(((a @ among) * a).sum(-1).max().sqrt())

    def _coefficients(self, t: int, number: Tensor, largest: float) -> Tensor:
        """a(t) for the centers with these numbers, `n`."""
        u = torch.sin(self.frequency * t + number)
        unit: Tensor = u / u.norm()
        return self.scale / largest * unit

    def _largest_eigenvalue(self) -> float:
        among = _evaluated(self.kernel, self.centers, self.centers)
        return float(torch.linalg.eigvalsh(among)[-1])

    def __repr__(self) -> str:
        return (
            f"SineWorld(kernel={describe_kernel(self.kernel)}, centers={len(self.centers)}, "
            f"scale={self.scale}, frequency={self.frequency}, noise={self.noise})"
        )


def _numbers(centers: Tensor) -> Tensor:
    return torch.arange(1, len(centers) + 1, dtype=centers.dtype, device=centers.device)


def _evaluated(kernel: Kernel, first: Tensor, second: Tensor) -> Tensor:
    with torch.no_grad():
        # A copy, because Module.to() moves the module in place.
        matrix: Tensor = copy.deepcopy(kernel).to(first)(first, second).to_dense()
    return matrix


def _points(centers: int | Tensor, domain: Grid) -> Tensor:
    if isinstance(centers, Tensor):
        if centers.dim() != 2 or centers.shape[0] < 1 or centers.shape[1] != domain.dim:
            raise InputDataError(
                f"SineWorld: centers has shape {tuple(centers.shape)}; give points like the arms, "
                f"n x {domain.dim} with n >= 1."
            )
        if not bool(centers.isfinite().all()):
            raise InputDataError(
                "SineWorld: centers has entries that are NaN or infinite; give finite numbers."
            )
        return centers.detach().cpu().double().clone()
    centers = require_integer("SineWorld: centers", centers, 1, "the paper uses 20.")
    require(
        domain.dim == 1,
        f"SineWorld: centers is {centers}, but a domain of {domain.dim} dimensions has no evenly "
        "spaced order; give the points themselves, n x d.",
    )
    ends = domain.X.double()
    return torch.linspace(
        float(ends.min()), float(ends.max()), centers, dtype=torch.float64, device="cpu"
    ).unsqueeze(-1)
