"""What can be learned of a decay or an inflation, declared once, beside its formula.

A model learns time-varying parameters in the unit of time that its data suggest, the median time
between observations: then where a search starts, how far it goes and what a prior presumes mean the
same whether times are told in milliseconds or in years. For this a parameter says how its value
depends on the unit.
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

    Bounds and priors are meant in the unit of time that it is learned in.

    Args:
        lower: Smallest value that can be learned.
        upper: Largest.
        power: The power of time in its unit: -1 for a rate, 1 for a duration, 0 for a pure number;
            or a function of the values of the other parameters.
        share: ``"lost"`` for the share that every unit of time takes, such as ε, or ``"kept"`` for
            what it leaves, such as γ; ``power`` then is that of -ln(1 - ε) or -ln γ.
        prior: What is presumed of it, of 1 - γ for a share kept; None to presume nothing.
        beside_scale: The same in models of standardised outcomes, which learn the variance beside
            it; ``prior`` where None.
        fastest: The furthest that a :class:`~botorch_tv.learning.Refit` looks for it, upwards, or
            downwards for a share kept; the bound where None.
        deaf: Value beyond which nothing of one observation is left at the next, so that no search
            finds away; None where there is none.
        restless: Value from which a search starts there, and from which the second search of a
            strategy does.

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
    deaf: float | None = None
    restless: float | None = None

    @property
    def grows_from_zero(self) -> bool:
        """Whether its natural value is 0 where nothing changes, and positive else."""
        return self.share is not None or self.lower == 0

    def natural(self, value: Tensor) -> Tensor:
        """What is proportional to a power of the unit of time: -ln(1 - ε), -ln γ, or itself."""
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
        """Those of the natural value, ``fastest`` among them."""
        low, high = self.lower, self.upper
        if self.share == "kept":
            low = low if self.fastest is None else self.fastest
            return self.number(high), self.number(low)
        high = high if self.fastest is None else self.fastest
        return self.number(low), self.number(high)

    def presumed(self, value: Tensor) -> Tensor:
        """What priors are priors of, the value or the share lost; its own inverse."""
        return 1 - value if self.share == "kept" else value

    def stretch(self, factor: Tensor, others: Values) -> Tensor:
        """What multiplies the natural value as the unit of time grows by a factor.

        Args:
            factor: Positive, any shape.
            others: Values of all parameters, in any unit, for a power that depends on them.
        """
        power = self.power(others) if callable(self.power) else self.power
        return factor**-power

    def natural_counted(self, value: Tensor, factor: Tensor, others: Values) -> Tensor:
        """The natural value of a value where time counts in a unit ``factor`` times as long."""
        return self.natural(value) * self.stretch(factor, others)

    def counted(self, value: Tensor, factor: Tensor, others: Values) -> Tensor:
        """The value where time counts in a unit that is ``factor`` times as long."""
        if not callable(self.power) and self.power == 0:
            return value
        return torch.where(
            factor == 1, value, self.value(self.natural_counted(value, factor, others))
        )


def with_values(part: Part, values: Mapping[str, Any]) -> Part:
    """A copy of a decay or an inflation with other values, which its formula broadcasts."""
    made = copy.copy(part)
    for name, value in values.items():
        object.__setattr__(made, name, value)  # frozen, and checked where it was made
    return made
