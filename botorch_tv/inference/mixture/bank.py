"""Which processes are held possible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.validation import require, require_integer, require_number

PARTS = ("lengthscale", "rate", "hazard", "noise_ratio")
"""The parts in which members differ."""
NEAREST = 3
"""Up to so many coordinates lengthscales are the shares of a side given below; beyond, points are
further apart, and lengthscales grow with the root of the dimension."""
SHARES = {1: (0.05, 0.1, 0.2, 0.4), 2: (0.1, 0.2, 0.4), NEAREST: (0.2, 0.4, 0.8)}


class Members(NamedTuple):
    """The members that share a lengthscale, as K histories of jumps.

    A member that never jumps has one history. One that does has several, which differ in when the
    newest jump came; they lie next to each other, behind the members that never jump.
    """

    rate: Tensor
    """ε, `K`."""
    hazard: Tensor
    """h, `K`."""
    noise: Tensor
    """ρ, `K`."""
    member: Tensor
    """Which combination of (rate, hazard, noise ratio), the last the fastest, `K`, int64."""
    still: int
    """Histories of members that never jump."""
    histories: int
    """Histories of every other member."""


@dataclass(frozen=True)
class Bank:
    """The candidate processes of the adaptive strategy.

    Rates and hazards count per median time between measurements, lengthscales in shares
    of the sides of the domain, noise variances in those of the objective's. All combinations are
    members, equally likely at first.

    Args:
        rates: Rates of change ε, from 0 to below 1.
        hazards: Chances h of a jump, from 0 to below 1.
        lengthscales: Lengthscales ℓ, positive; by the number of coordinates unless given.
        noise_ratios: Noise ratios ρ, positive.
        outliers: Chance that a measurement is wrong and says nothing of the objective, from 0 to
            below 1.
        histories: Histories of jumps that are kept of a member that jumps; the likeliest, and the
            two whose jumps are the newest.
        features: Most features per lengthscale. What they leave out of the prior variance counts
            as noise, and as unknown.
        tolerance: Error of the kernel that features may have where they are enough.

    Raises:
        ValueError: If a list is empty, repeats itself, or holds a number out of range.
    """

    rates: tuple[float, ...] = (0.0, 0.01, 0.03, 0.1)
    hazards: tuple[float, ...] = (0.0, 0.02)
    lengthscales: tuple[float, ...] | None = None
    noise_ratios: tuple[float, ...] = (0.01, 0.05)
    outliers: float = 0.005
    histories: int = 4
    features: int = 320
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        chance = "[0, 1)", "it is a chance per unit of time, 0.01 for one in a hundred."
        positive = "[1e-6, 1e6]", "give a share such as 0.1."
        limits = {
            "rates": chance,
            "hazards": chance,
            "lengthscales": positive,
            "noise_ratios": positive,
        }
        for name, (limit, fix) in limits.items():
            values = getattr(self, name)
            if values is None and name == "lengthscales":
                continue
            object.__setattr__(self, name, _settled(name, values, limit, fix))
        require_number("Bank: outliers", self.outliers, *chance)
        require_integer(
            "Bank: histories", self.histories, 4, "fewer tell jumps from noise too soon."
        )
        require_integer("Bank: features", self.features, 8, "use 320.")
        require_number("Bank: tolerance", self.tolerance, "[1e-10, 0.1]", "use 0.001.")

    def lengthscales_of(self, columns: int) -> tuple[float, ...]:
        """Lengthscales for points of so many coordinates, in shares of the sides."""
        if self.lengthscales is not None:
            return self.lengthscales
        shares = SHARES[min(columns, NEAREST)]
        longer = math.sqrt(max(columns, NEAREST) / NEAREST)
        return tuple(longer * one for one in shares)

    def values(self, columns: int) -> dict[str, tuple[float, ...]]:
        """The values of each part, in the order of weights, for points of ``columns`` numbers."""
        parts = self.lengthscales_of(columns), self.rates, self.hazards, self.noise_ratios
        return dict(zip(PARTS, parts))

    def members(self, like: Tensor) -> Members:
        """The members of every lengthscale, one history behind the other."""
        parts = (self.rates, self.hazards, self.noise_ratios)
        axes = [torch.tensor(part, dtype=like.dtype, device=like.device) for part in parts]
        rate, hazard, noise = (part.reshape(-1) for part in torch.meshgrid(*axes, indexing="ij"))
        still = (hazard == 0).nonzero().squeeze(-1)
        jumping = (hazard > 0).nonzero().squeeze(-1).repeat_interleave(self.histories)
        one = torch.cat([still, jumping])
        return Members(rate[one], hazard[one], noise[one], one, len(still), self.histories)


def _settled(name: str, values: Sequence[float], limit: str, fix: str) -> tuple[float, ...]:
    require(
        isinstance(values, Sequence) and not isinstance(values, str) and len(values) > 0,
        f"Bank: {name} is {values!r}, but it must be a tuple of numbers; {fix}",
    )
    settled = tuple(float(require_number(f"Bank: {name}", one, limit, fix)) for one in values)
    require(
        len(set(settled)) == len(settled),
        f"Bank: {name} is {values!r}, which names a value twice; leave one out.",
    )
    return settled
