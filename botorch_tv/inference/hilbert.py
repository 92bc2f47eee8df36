"""Functions on a box: waves with fixed ends.

On a cube of side L that is wider than the unit cube, a stationary kernel of spectral density S is

    k(x, x') ≈ Σ_j S(ω_j) φ_j(x) φ_j(x'),   φ_j(x) = ∏_i √(2/L) sin(ω_ji (x_i + (L - 1)/2)),

with ω_ji = π n_ji / L and n_ji = 1, 2, ... (Solin and Särkkä, 2020). Walls cost a mirror image of
the kernel at the distance L - 1, waves left out their share of the variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from botorch_tv.validation import require

MOST_PRODUCTS = 2**22
"""Products of waves that are looked at, at most, to find those that matter."""


@dataclass(frozen=True, eq=False)
class BoxFeatures:
    """Waves on the unit cube.

    Attributes:
        number: n, `r x d`, int64, from 1 on.
        side: L, above 1.
    """

    number: Tensor
    side: float

    def at(self, U: Tensor) -> Tensor:
        """φ at points of the unit cube, `* x d -> * x r`; differentiable."""
        points, features = U.reshape(-1, U.shape[-1]), U.new_ones(())
        for dim, (number, last) in enumerate(zip(self.number.T, self._last)):
            waves = torch.arange(1, last + 1, dtype=U.dtype, device=U.device)
            frequency = (waves * math.pi / self.side).unsqueeze(-1)
            one = (frequency * (points[:, dim] + (self.side - 1) / 2)).sin()
            # A wave is a row: whole rows are copied several times as fast as columns are.
            features = features * (one * math.sqrt(2 / self.side)).index_select(0, number - 1)
        return features.T.reshape(*U.shape[:-1], -1)

    @cached_property
    def _last(self) -> list[int]:
        """The largest n of every coordinate, once: a device is waited for to find them."""
        last: list[int] = self.number.amax(0).tolist()
        return last

    def density(self, lengthscale: float) -> Tensor:
        """Prior variances S(ω) of a squared exponential kernel of variance 1, `r`, float64."""
        dim = self.number.shape[-1]
        square = (lengthscale * math.pi / self.side) ** 2 * self.number.square().sum(-1).double()
        return math.pow(math.sqrt(2 * math.pi) * lengthscale, dim) * torch.exp(-0.5 * square)


def box_features(lengthscale: float, dim: int, tolerance: float) -> BoxFeatures:
    """As few waves as keep the error of a squared exponential kernel below a tolerance.

    Walls stand so far away that images of the kernel make up half of it; of all products of waves
    those are left out whose prior variances add up to no more than the other half.

    Args:
        lengthscale: ℓ of a kernel of variance 1, in sides of the cube; positive.
        dim: Dimension d of the cube.
        tolerance: Of the kernel, between 0 and 1.

    Raises:
        ValueError: If there would be too many waves.
    """
    share = tolerance / (2 * dim)
    side = 1 + lengthscale * math.sqrt(2 * math.log(1 / share))
    # In one dimension (2/π) ∫ S beyond ω is 2 erfc(ωℓ/√2) <= 2 exp(-ω²ℓ²/2).
    last = math.ceil(side / math.pi * math.sqrt(2 * math.log(2 / share)) / lengthscale)
    require(
        last**dim <= MOST_PRODUCTS,
        f"a kernel of lengthscale {lengthscale:g} of the sides takes {last}^{dim} waves for an "
        f"error of {tolerance:g}, more than {MOST_PRODUCTS}; allow a larger one.",
    )
    numbers = torch.cartesian_prod(*[torch.arange(1, last + 1, device="cpu")] * dim).view(-1, dim)
    variance = BoxFeatures(numbers, side).density(lengthscale) * (2 / side) ** dim
    order = variance.argsort()
    left_out = (variance[order].cumsum(-1) <= tolerance / 2).sum()
    return BoxFeatures(numbers[order[left_out:].sort().values], side)
