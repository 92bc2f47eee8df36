"""Learnable parameters of a decay or an inflation, declared once, beside its formula.

Parameters are learned in a unit of time taken from the data, the median time between observations.
Initial values, bounds and priors then mean the same whether times are in milliseconds or in years.
For this each parameter declares how its value depends on the unit.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from gpytorch.priors import Prior
from torch import Tensor

Values = Mapping[str, Tensor]
Part = TypeVar("Part")


@dataclass(frozen=True, eq=False)
class Parameter:
    """A learnable parameter of a decay or an inflation.

    Bounds and priors are in the unit of time in which it is learned.

    Args:
        lower: Lower bound.
        upper: Upper bound.
        power: The power of time in its unit: -1 for a rate, 1 for a duration, 0 for a pure number;
            or a function of the values of the other parameters.
        share: ``"lost"`` for the fraction lost per unit of time, such as ε, or ``"kept"`` for the
            fraction kept, such as γ; ``power`` is then that of -ln(1 - ε) or -ln γ.
        prior: Its prior, or that of 1 - γ for a fraction kept; None for no prior.
        beside_scale: Its prior in models of standardised outcomes that also learn the variance;
            ``prior`` if None.
        fastest: The bound of the search by :class:`~botorch_tv.learning.Refit` towards fast change,
            lower for a fraction kept, else upper; the parameter's own bound if None.
        uncorrelated_beyond: Value beyond which an observation is uncorrelated with the next, so
            that the gradient vanishes and a search cannot leave; None if there is none.
        fast_start: Initial value of a search that would start beyond that, and of the second search
            of a strategy.

    Example:
        >>> class Seasonal(Decay):
        ...     parameters = {"rate": Parameter(power=-1), "period": Parameter(power=1)}
    """

    lower: float = 0.0
    upper: float = math.inf
    power: float | Callable[[Values], float | Tensor] = 0.0
    share: Literal["lost", "kept"] | None = None
    prior: Prior | None = None
    beside_scale: Prior | None = None
    fastest: float | None = None
    uncorrelated_beyond: float | None = None
    fast_start: float | None = None

    @property
    def grows_from_zero(self) -> bool:
        """Whether its natural value is 0 without change and positive otherwise."""
        return self.share is not None or self.lower == 0

    def natural(self, value: Tensor) -> Tensor:
        """The quantity that scales with a power of the unit: -ln(1 - ε), -ln γ, or the value."""
        if self.share is None:
            return value
        return -torch.log1p(-value) if self.share == "lost" else -torch.log(value)

    def value(self, natural: Tensor) -> Tensor:
        """The inverse of :meth:`natural`."""
        if self.share is None:
            return natural
        return -torch.expm1(-natural) if self.share == "lost" else torch.exp(-natural)

    def number(self, value: float) -> float:
        """The natural value of a number."""
        return float(self.natural(torch.tensor(value, dtype=torch.float64, device="cpu")))

    def natural_bounds(self) -> tuple[float, float]:
        """Bounds of the natural value, taking ``fastest`` into account."""
        low, high = self.lower, self.upper
        if self.share == "kept":
            low = low if self.fastest is None else self.fastest
            return self.number(high), self.number(low)
        high = high if self.fastest is None else self.fastest
        return self.number(low), self.number(high)

    def presumed(self, value: Tensor) -> Tensor:
        """The quantity that priors refer to, the value or the fraction lost; its own inverse."""
        return 1 - value if self.share == "kept" else value

    def stretch(self, factor: Tensor, others: Values) -> Tensor:
        """Factor on the natural value when the unit of time grows by a factor.

        Args:
            factor: Positive, any shape.
            others: Values of all parameters, in any unit, for a power that depends on them.
        """
        power = self.power(others) if callable(self.power) else self.power
        return factor**-power

    def natural_counted(self, value: Tensor, factor: Tensor, others: Values) -> Tensor:
        """The natural value in a unit of time ``factor`` times as long."""
        return self.natural(value) * self.stretch(factor, others)

    def counted(self, value: Tensor, factor: Tensor, others: Values) -> Tensor:
        """The value in a unit of time ``factor`` times as long."""
        if not callable(self.power) and self.power == 0:
            return value
        return torch.where(
            factor == 1, value, self.value(self.natural_counted(value, factor, others))
        )


def with_values(part: Part, values: Mapping[str, Any]) -> Part:
    """A copy of a decay or an inflation with other parameter values, numbers or tensors."""
    made = copy.copy(part)
    for name, value in values.items():
        object.__setattr__(made, name, value)  # frozen, and checked where it was made
    return made
