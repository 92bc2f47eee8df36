"""What is presumed of a rate of change before there is data."""

from __future__ import annotations

import math
from typing import Any

import torch
from gpytorch.priors import Prior
from torch import Tensor
from torch.distributions import constraints
from torch.nn import Module as TorchModule

USUAL = 0.02
"""The most plausible rate, per step from one observation to the next."""
SPREAD = 1.0
"""Deviation of its logarithm: 95 % between a seventh and seven times as much."""
STILL = 1e-4
"""Rates below it count as none: there the density levels off, and is positive at 0."""


class RatePrior(Prior):  # type: ignore[misc]
    r"""A rate of change in a unit in which the usual ones lie around a few hundredths.

    .. math:: p(r) \propto \exp\left(-\frac{(\ln(r + c) - \ln m)^2}{2 s^2}\right)

    on [0, upper): the density of ln r, but for c, which admits standstill. Its highest point is at
    r = m - c. A density that is flat near 0 instead leaves a few dozen observations free to call
    a slow drift none at all, and a drift seen through a wrong lengthscale a storm.

    Args:
        mode: m, positive.
        spread: s, positive.
        still: c, positive.
        upper: Upper end of the support, infinite unless given.
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012 (a name of PyTorch's)

    def __init__(
        self,
        mode: float = USUAL,
        spread: float = SPREAD,
        still: float = STILL,
        upper: float = math.inf,
    ) -> None:
        TorchModule.__init__(self)
        super().__init__(validate_args=False)
        self._upper = upper
        # r + c is log-normal, cut off: its normal has this location and scale.
        for name, value in (
            ("loc", math.log(mode) + spread**2),
            ("scale", spread),
            ("still", still),
        ):
            self.register_buffer(name, torch.tensor(float(value)))

    @property
    def support(self) -> constraints.Constraint:
        """[0, upper)."""
        if math.isinf(self._upper):
            return constraints.nonnegative
        return constraints.interval(0.0, self._upper)  # type: ignore[no-untyped-call]

    def log_prob(self, value: Tensor) -> Tensor:
        """Logarithm of the density, the shape of ``value``."""
        loc, scale, still = (one.to(value) for one in (self.loc, self.scale, self.still))
        log = torch.log(value + still)
        low, high = self._cut(loc, scale, still)
        normal = -0.5 * ((log - loc) / scale).square() - scale.log() - 0.5 * math.log(2 * math.pi)
        density: Tensor = normal - log - torch.log(high - low)
        return density

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008 (immutable)
        """Draws of the given shape."""
        low, high = self._cut(self.loc, self.scale, self.still)
        uniform = torch.rand(torch.Size(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        normal = torch.special.ndtri(low + (high - low) * uniform)
        drawn: Tensor = torch.exp(self.loc + self.scale * normal) - self.still
        end = None if math.isinf(self._upper) else math.nextafter(self._upper, 0.0)
        return drawn.clamp(0.0, end)

    def expand(self, batch_shape: Any, _instance: Any = None) -> RatePrior:
        """Itself: it has no batch."""
        return self

    def _cut(self, loc: Tensor, scale: Tensor, still: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities of the log-normal below both ends of the support."""
        low = torch.special.ndtr((still.log() - loc) / scale)
        if math.isinf(self._upper):
            return low, torch.ones_like(low)
        return low, torch.special.ndtr(((self._upper + still).log() - loc) / scale)
