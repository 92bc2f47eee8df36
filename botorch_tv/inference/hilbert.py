"""Functions on a box in coordinates that serve kernels of any lengthscale: waves with fixed ends.

On a box of side L that is wider than the unit cube, a stationary kernel of spectral density S is

    k(x, x') ≈ Σ_j S(ω_j) φ_j(x) φ_j(x'),   φ_j(x) = ∏_i √(2/L_i) sin(ω_ji (x_i + (L_i - 1)/2)),

with ω_ji = π n_ji / L_i and n_ji = 1, 2, ... (Solin and Särkkä, 2020). The waves do not depend on
the kernel, which is its prior variances alone. Walls cost a mirror image of the kernel at the
distance L - 1, waves left out their share of the variance.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_tv.inference.point_kernel import profile
from botorch_tv.validation import require

MOST_PRODUCTS = 2**22
"""Products of waves that are looked at, at most, to find those that matter."""
MEASURED_POINTS = 400
"""Points, about, at which the error of a kernel is measured."""


@dataclass(frozen=True, eq=False)
class BoxFeatures:
    """Waves on the unit cube, the same for all kernels.

    Attributes:
        number: n, `r x d`, int64, from 1 on.
        side: L, `d`, above 1.
    """

    number: Tensor
    side: Tensor

    @property
    def size(self) -> int:
        """Number r of features."""
        return len(self.number)

    @property
    def frequencies(self) -> Tensor:
        """ω, `r x d`."""
        return self.number * (math.pi / self.side)

    def at(self, U: Tensor) -> Tensor:
        """φ at points of the unit cube, `* x d -> * x r`; differentiable."""
        features = U.new_ones(())
        for dim, (side, number) in enumerate(zip(self.side, self.number.T)):
            waves = torch.arange(1, int(number.max()) + 1, dtype=U.dtype, device=U.device)
            phase = (U[..., dim] + (side - 1) / 2).unsqueeze(-1) * (waves * (math.pi / side))
            one = (phase.sin() * (2 / side).sqrt()).index_select(-1, number - 1)
            features = features * one
        return features

    def density(
        self, lengthscale: Tensor, smoothness: float = math.inf, outputscale: Tensor | float = 1.0
    ) -> Tensor:
        """Prior variances of the features, S(ω), `* x r`.

        Args:
            lengthscale: In sides of the box, `* x d`, or `* x 1` for all coordinates alike.
            smoothness: ν of a Matérn kernel; infinite for the squared exponential.
            outputscale: Variance of the kernel, a number or `*`.
        """
        lengths = lengthscale.expand(*lengthscale.shape[:-1], len(self.side))
        square = (lengths.unsqueeze(-2) * self.frequencies).square().sum(-1)
        scale = _density(square, smoothness, len(self.side)) * lengths.prod(-1, keepdim=True)
        return scale * (
            outputscale.unsqueeze(-1) if isinstance(outputscale, Tensor) else outputscale
        )

    def error(self, lengthscale: Tensor, smoothness: float = math.inf) -> Tensor:
        """Largest |k - φ S φᵀ| of kernels of variance 1 among points of the cube, `*`.

        Measured on a regular grid that has the corners, where the walls are felt the most.

        Args:
            lengthscale: `* x d` or `* x 1`.
            smoothness: As in :meth:`density`.
        """
        dim = len(self.side)
        per_side = max(2, round(MEASURED_POINTS ** (1 / dim)))
        line = torch.linspace(0, 1, per_side, dtype=self.side.dtype, device=self.side.device)
        U = torch.cartesian_prod(*[line] * dim).view(-1, dim)
        phi = self.at(U)
        worst = []
        for one in lengthscale.reshape(-1, lengthscale.shape[-1]):
            square = (U / one).unsqueeze(-2).sub(U / one).square().sum(-1)
            approximate = (phi * self.density(one, smoothness)) @ phi.T
            worst.append((profile(square, smoothness) - approximate).abs().amax())
        return torch.stack(worst).view(lengthscale.shape[:-1])


def box_features(
    lengthscale: Tensor, *, smoothness: float = math.inf, tolerance: float
) -> BoxFeatures:
    """As few waves as keep the errors of some kernels, of variance 1, below a tolerance.

    Walls stand so far away that images of the kernel make up half of it; of all products of waves
    those are left out whose prior variances add up to no more than the other half.

    Args:
        lengthscale: Of the kernels to be served, in sides of the box, `* x d`; the longest ones
            decide on the walls, the shortest ones on the waves. Kernels between are served, too.
        smoothness: ν of a Matérn kernel, infinite for the squared exponential.
        tolerance: Of the kernel, between 0 and 1.

    Raises:
        ValueError: If a lengthscale is not positive, the tolerance not between 0 and 1, or there
            would be too many waves.
    """
    require(0 < tolerance < 1, f"tolerance is {tolerance}, but it must be between 0 and 1.")
    require(
        bool((lengthscale > 0).all()), f"lengthscales are {lengthscale}, but they must be positive."
    )
    kernels = lengthscale.reshape(-1, lengthscale.shape[-1])
    dim = kernels.shape[-1]
    share = tolerance / (2 * dim)
    side = 1 + kernels.amax(0) * _reach(share, smoothness)
    shortest = kernels.amin(0)
    last = [
        math.ceil(float(long) / math.pi * _cutoff(share, smoothness) / float(short))
        for long, short in zip(side, shortest)
    ]
    require(
        math.prod(last) <= MOST_PRODUCTS,
        f"kernels of lengthscales down to {shortest.tolist()} of the sides take "
        f"{' x '.join(map(str, last))} waves for an error of {tolerance:g}, more than "
        f"{MOST_PRODUCTS}; allow a larger one.",
    )
    numbers = [torch.arange(1, most + 1, device=side.device) for most in last]
    every = BoxFeatures(torch.cartesian_prod(*numbers).view(-1, dim), side)
    # Kernels between may put more on a wave than those at the ends do.
    corners = torch.stack(
        [
            torch.stack(ends)
            for ends in itertools.product(*zip(shortest, kernels.amax(0), strict=True))
        ]
    )
    variance = every.density(torch.cat([kernels, corners]), smoothness) * (2 / side).prod()
    order = variance.amax(0).argsort()
    left_out = (variance[:, order].cumsum(-1) <= tolerance / 2).all(0).sum()
    return BoxFeatures(every.number[order[left_out:].sort().values], side)


def _density(square: Tensor, smoothness: float, dim: int) -> Tensor:
    """Spectral density of a kernel of lengthscale 1 at |ω|²."""
    if smoothness == math.inf:
        return math.pow(2 * math.pi, dim / 2) * torch.exp(-0.5 * square)
    power = smoothness + dim / 2
    factor = math.pow(2 * math.sqrt(math.pi), dim) * math.pow(2 * smoothness, smoothness)
    ratio = math.exp(math.lgamma(power) - math.lgamma(smoothness))
    return factor * ratio * (2 * smoothness + square).pow(-power)


def _reach(share: float, smoothness: float) -> float:
    """Distance in lengthscales beyond which a kernel is below ``share``."""
    if smoothness == math.inf:
        return math.sqrt(2 * math.log(1 / share))
    low, high = 0.0, 1.0
    while _beyond(high, smoothness) > share:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _beyond(middle, smoothness) > share else (low, middle)
    return high


def _beyond(distance: float, smoothness: float) -> float:
    return float(profile(torch.tensor(distance**2, dtype=torch.float64), smoothness))


def _cutoff(share: float, smoothness: float) -> float:
    """ω of a kernel of lengthscale 1 beyond which (2/π) ∫ S, in one dimension, is below ``share``.

    Squared exponential: 2 erfc(ω/√2) <= 2 exp(-ω²/2). Matérn: S(ω) <= c ω^-(2ν + 1).
    """
    if smoothness == math.inf:
        return math.sqrt(2 * math.log(2 / share))
    ratio = math.exp(math.lgamma(smoothness + 0.5) - math.lgamma(smoothness))
    constant = 2 * math.sqrt(math.pi) * ratio * math.pow(2 * smoothness, smoothness)
    return math.pow(constant / (math.pi * smoothness * share), 1 / (2 * smoothness))
