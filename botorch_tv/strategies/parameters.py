"""Parameters in their own units, and their mapping to the unit interval."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from botorch_tv.validation import require, settle_integer, settle_number, shown

DIGITS = {torch.float64: 9, torch.float32: 5}
"""Decimal digits to which values are rounded, relative to the side (or the value, on a logarithmic
scale). Fewer than the dtype has, so that mapping a value to its place and back returns it."""


class BoxParameter(ABC):
    """A numeric parameter; its place in the unit cube is a fraction of its range.

    Attributes:
        low: Smallest value.
        high: Largest value.
        log: Whether the scale is logarithmic: places are then fractions of the logarithm's range.
    """

    low: float
    high: float
    log: bool
    whole: ClassVar[bool]
    """Whether values are integers."""

    def place(self, value: float) -> float:
        """Position of a value in its range, 0 at ``low`` and 1 at ``high``."""
        low, high = self.scaled(self.low), self.scaled(self.high)
        return min(max((self.scaled(value) - low) / (high - low), 0.0), 1.0)

    def value(self, place: float, dtype: torch.dtype) -> float:
        """The value at a place, to the precision that a dtype allows."""
        low, high = self.scaled(self.low), self.scaled(self.high)
        value = low + (high - low) * place
        return self.rounded(math.exp(value) if self.log else value, dtype)

    def __repr__(self) -> str:
        log = ", log=True" if self.log else ""
        return f"{type(self).__name__}({self.low:.12g}, {self.high:.12g}{log})"

    @abstractmethod
    def rounded(self, value: float, dtype: torch.dtype) -> float:
        """A value between ``low`` and ``high``, rounded as it is stored."""

    def scaled(self, value: float) -> float:
        """The value on the parameter's scale: itself, or its logarithm."""
        return math.log(value) if self.log else value

    def _check(self) -> None:
        kind, least = type(self).__name__, 1 if self.whole else 0
        require(
            self.low < self.high,
            f"{kind}: low is {self.low:g} and high {self.high:g}, but low must be below; leave out "
            "parameters that are fixed.",
        )
        require(
            isinstance(self.log, bool), f"{kind}: log is {shown(self.log)}; give True or False."
        )
        require(
            not self.log or (self.low >= least if self.whole else self.low > least),
            f"{kind}: low is {self.low:g}, but on a logarithmic scale it must be "
            f"{'at least 1' if self.whole else 'positive'}; use log=False, or another unit.",
        )


@dataclass(frozen=True, repr=False)
class Float(BoxParameter):
    """A real-valued parameter.

    Args:
        low: Smallest value.
        high: Largest value.
        log: Whether the scale is logarithmic: 0.001 to 0.01 is then as far as 0.01 to 0.1.

    Raises:
        ValueError: If ``low`` is not below ``high``, the two are equal to five digits or not
            finite, or ``low`` is not positive on a logarithmic scale.

    Example:
        >>> rate = Float(1e-5, 1e-1, log=True)
    """

    low: float
    high: float
    log: bool = False
    whole: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            settle_number(self, name, "(-1e150, 1e150)", "choose another unit.")
            object.__setattr__(self, name, float(getattr(self, name)))
        self._check()
        ends = self.scaled(self.low), self.scaled(self.high)
        require(
            ends[1] - ends[0] >= 1e-5 * max(map(abs, ends)),
            f"Float: low is {self.low!r} and high {self.high!r}, which are equal to five digits; "
            "count from an origin of your own.",
        )

    def rounded(self, value: float, dtype: torch.dtype) -> float:
        size = self.scaled(self.high) - self.scaled(self.low)
        digits = DIGITS[dtype] - math.ceil(math.log10(min(size, 1.0) if self.log else size))
        value = float(f"{value:.{digits}g}") if self.log else round(value, digits)
        return min(max(value, self.low), self.high)


@dataclass(frozen=True, repr=False)
class Integer(BoxParameter):
    """An integer parameter; only integers are considered when a point is chosen.

    Args:
        low: Smallest value.
        high: Largest value.
        log: Whether the scale is logarithmic: 1 to 10 is then as far as 10 to 100.

    Raises:
        ValueError: If ``low`` is not below ``high``, they are not integers of at most 10⁶ in size,
            or ``low`` is below 1 on a logarithmic scale.

    Example:
        >>> layers = Integer(1, 8)
    """

    low: int
    high: int
    log: bool = False
    whole: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            settle_integer(self, name, -(10**6), "give a whole number, or use Float.")
            require(
                getattr(self, name) <= 10**6,
                f"Integer: {name} is {getattr(self, name)}, but whole numbers go up to a million; "
                "use Float.",
            )
        self._check()

    def rounded(self, value: float, dtype: torch.dtype) -> int:
        return min(max(round(value), self.low), self.high)


@dataclass(frozen=True, init=False)
class Choice:
    """A categorical parameter: one of several values, in no order.

    Any two values are as far apart as the ends of a range, see
    :class:`~botorch_tv.strategies.mixed.space.Axis`; k values take k - 1 coordinates of the unit
    cube.

    Args:
        choices: The values; a box needs two or more, all different.

    Example:
        >>> kind = Choice("sand", "salt", "soap")
    """

    choices: tuple[Any, ...]

    def __init__(self, *choices: Any) -> None:
        object.__setattr__(self, "choices", choices)

    def __repr__(self) -> str:
        return f"Choice({', '.join(map(repr, self.choices))})"

    @property
    def single(self) -> bool:
        """Whether there is only one value."""
        return len(self.choices) == 1

    def index(self, value: Any) -> int:
        """Position of a value, distinguished from equal ones of other types, such as True and 1.

        Raises:
            ValueError: If it is not among the choices.
        """
        for number, one in enumerate(self.choices):
            both_nan = one != one and value != value
            if one is value or (type(one) is type(value) and (one == value or both_nan)):
                return number
        return self.choices.index(value)
