"""Named parameters, and their values as points of the unit cube."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor

from botorch_tv.hints import hinted
from botorch_tv.strategies.expressions import parse_limits
from botorch_tv.validation import require, settle_integer, settle_number

DIGITS = {torch.float64: 9, torch.float32: 5}
"""Decimal digits to which values are rounded, relative to the range (or to the value, on a
logarithmic scale). The dtype has more digits, so mapping a value to the cube and back returns the
same value."""


MOST_LEVELS = 64
"""Largest number of values of a numeric parameter that a search lists. A parameter with more values
is searched as continuous, and rounded afterwards."""


@dataclass(frozen=True, repr=False)
class BoxParameter:
    """A numeric parameter with a range, both ends included.

    The parameter has one column of the unit cube: 0 at the lower end of the range, 1 at the upper
    end. Between the ends the column is linear in the value or, if ``log``, in its logarithm. A
    parameter with a single value has no column.

    Attributes:
        low: Smallest value, positive if ``log``.
        high: Largest value.
        log: Whether the scale is logarithmic.
    """

    low: float
    high: float
    log: bool = False

    step: ClassVar[float | None] = None
    """Distance between neighbouring values; None for a continuous range."""

    def __post_init__(self) -> None:
        """Lower the upper end of the range to a step; public classes also check the range."""
        if self._count is not None:
            object.__setattr__(self, "high", self._value_of(self._count - 1))

    def _require_log(self) -> None:
        """Raise a ``ValueError`` unless ``log`` is a bool; a step may be meant instead."""
        fix = "give True or False; a step is given by its name, step=."
        require(type(self.log) is bool, f"{type(self).__name__}: log is {self.log!r}; {fix}")

    def __repr__(self) -> str:
        log = ", log=True" if self.log else ""
        step = f", step={self.step:.12g}" if self.step != type(self).step else ""
        return f"{type(self).__name__}({self.low:.12g}, {self.high:.12g}{log}{step})"

    @property
    def number(self) -> BoxParameter:
        """The parameter itself; an ordered :class:`Choice` has a number for its position."""
        return self

    def position(self, value: float) -> float:
        """The value itself; an ordered :class:`Choice` counts its values from 0."""
        return value

    @property
    def single(self) -> bool:
        """Whether the parameter has a single value."""
        return self.low == self.high or self._count == 1

    @property
    def columns(self) -> int:
        """Number of columns."""
        return int(not self.single)

    @cached_property
    def levels(self) -> Tensor | None:
        """The points of all k values, `k x columns`; None if there are too many values to list."""
        number = self._count
        if number is None or number > MOST_LEVELS:
            return None
        rows = [self.unit(self._value_of(step)) for step in range(number)]
        return torch.tensor(rows, dtype=torch.float64, device="cpu").view(number, self.columns)

    def unit(self, value: float) -> list[float]:
        """The coordinates that represent a value; they lie in [0, 1] if the value is in the range.

        Args:
            value: The value.
        """
        if self.single:
            return []
        low, high, at = (self.scaled(each) for each in (self.low, self.high, value))
        return [(at - low) / (high - low)]

    def value(self, columns: list[float]) -> float:
        """The value whose coordinates are nearest to a point.

        Args:
            columns: The coordinates of the point in the columns of this parameter.
        """
        if self.single:
            return self.low
        if columns[0] in (0.0, 1.0):  # returns the ends exactly; a logarithm would round them
            return self.high if columns[0] else self.low
        low, high = self.scaled(self.low), self.scaled(self.high)
        along = columns[0] * (high - low)
        if self.log:
            along = math.exp(low + along) - self.low
        if self.step is not None:
            return self._value_of(round(along / self.step))
        return min(max(self.low + along, self.low), self.high)

    def along(self, columns: Tensor) -> Tensor:
        """The values at coordinates, neither rounded nor clipped, `*`.

        Args:
            columns: Coordinates, `* x columns`.
        """
        if self.single:
            return columns.new_full(columns.shape[:-1], self.low)
        low, high = self.scaled(self.low), self.scaled(self.high)
        scaled = low + (high - low) * columns.squeeze(-1)
        return scaled.exp() if self.log else scaled

    def rounded(self, value: float, dtype: torch.dtype, *, clipped: bool = True) -> float:
        """A value, rounded to a step or to the stored digits.

        Args:
            value: The value.
            dtype: Dtype of the domain, float64 or float32.
            clipped: Whether the value is clipped to the range. Otherwise it may lie outside the
                range, and between its steps.
        """
        if self.step is not None and clipped:
            return self._value_of(round((value - self.low) / self.step))
        size = self.scaled(self.high) - self.scaled(self.low)
        digits = DIGITS[dtype] - math.ceil(math.log10(min(size, 1.0) if self.log else size))
        value = float(f"{value:.{digits}g}") if self.log else round(value, digits)
        if clipped:
            return min(max(value, self.low), self.high)
        return int(value) if type(self.low) is int and value == int(value) else value

    def stepped(self, values: Tensor) -> Tensor:
        """The coordinates, from 0 to 1, of the steps nearest to values, `*`.

        Args:
            values: The values, `*`.
        """
        assert self.step is not None
        low, high, start = self.scaled(self.low), self.scaled(self.high), self.low % self.step
        values = (((values - start) / self.step).round() * self.step + start).clamp(
            self.low, self.high
        )
        return (((values.log() if self.log else values) - low) / (high - low)).clamp(0, 1)

    def between(self, low: float, high: float, dtype: torch.dtype) -> tuple[float, float]:
        """The smallest and the largest value of this parameter in an interval.

        Args:
            low: Lower end of the interval, at most the largest value.
            high: Upper end of the interval, at least the smallest value.
            dtype: Dtype of the domain, float64 or float32.

        Returns:
            Two values; the first exceeds the second if there are none.
        """
        rounding, ends = 1e-12 * max(abs(low), abs(high)), []
        for end, sign in ((max(low, self.low), 1), (min(high, self.high), -1)):
            most = sign * end - rounding
            if self.step is not None:
                steps = math.ceil((most - sign * self.low) / self.step)
                ends.append(self._value_of(sign * steps))
            elif sign * (value := self.rounded(end, dtype)) >= most:
                ends.append(value)
            else:
                size = abs(end) if self.log else self.high - self.low
                ends.append(self.rounded(end + sign * 10 ** (1 - DIGITS[dtype]) * size, dtype))
        return ends[0], ends[1]

    def scaled(self, value: float) -> float:
        """A value, or its logarithm if the scale is logarithmic; integers of any size stay exact.

        Args:
            value: The value.
        """
        return math.log(value) if self.log else value

    @cached_property
    def _count(self) -> int | None:
        """Number of values; None for infinitely many."""
        if self.step is None:
            return None
        low, high, step = (Decimal(str(each)) for each in (self.low, self.high, self.step))
        return int((high - low) // step) + 1

    def _value_of(self, number: int) -> float:
        """The value that lies a number of steps above the smallest value, as a decimal number."""
        assert self.step is not None
        value = Decimal(str(self.low)) + number * Decimal(str(self.step))
        return type(self.low + self.step)(value)


@hinted
@dataclass(frozen=True, repr=False)
class Float(BoxParameter):
    """A real-valued parameter.

    Args:
        low: Smallest value.
        high: Largest value.
        log: Whether the scale is logarithmic: 0.001 to 0.01 is then as far as 0.01 to 0.1.
        step: Distance between neighbouring values, which start at ``low``; None for all values. If
            ``high`` is not one of these values, the largest value below it replaces it.

    Raises:
        ValueError: If ``high - low`` is at most 1e-5 of the larger absolute bound, if a bound is
            not finite, or if ``low`` is not positive on a logarithmic scale. If the scale is
            logarithmic, the logarithms of the bounds are compared. If ``step`` exceeds the range,
            gives more than a million values, or is combined with ``log``.

    Example:
        >>> rate = Float(1e-5, 1e-1, log=True)
    """

    step: float | None = None  # type: ignore[misc]

    def __post_init__(self) -> None:
        self._require_log()
        for name in ("low", "high"):
            within = "(0, 1e150)" if self.log else "(-1e150, 1e150)"
            settle_number(self, name, within, "choose another unit, or log=False.")
            object.__setattr__(self, name, float(getattr(self, name)))
        low, high = self.scaled(self.low), self.scaled(self.high)
        require(
            high - low > 1e-5 * max(abs(low), abs(high)),
            f"Float: low is {self.low!r} and high {self.high!r}, but high must exceed low (if "
            "log=True, log high must exceed log low) by more than 0.00001 of the larger absolute "
            "value; subtract an offset from the parameter, or omit the parameter if it is "
            "constant.",
        )
        if self.step is not None:
            settle_number(self, "step", "(0, inf)", "omit it for a continuous range.")
            few = self.step >= 1e-7 * (self.high - self.low)  # so that they can be counted
            require(
                few and not self.log and 2 <= (self._count or 0) <= 10**6 + 1,
                f"Float: step is {self.step!r}, but it must be at most {self.high - self.low!r} "
                "(the range), at least a millionth of the range, and without log; omit step or "
                "log.",
            )
        super().__post_init__()


@hinted
@dataclass(frozen=True, repr=False)
class Integer(BoxParameter):
    """An integer parameter; only integers are considered when a point is chosen.

    Args:
        low: Smallest value.
        high: Largest value.
        log: Whether the scale is logarithmic: 1 to 10 is then as far as 10 to 100.
        step: Distance between neighbouring values, which start at ``low``. If ``high`` is not one
            of these values, the largest value below it replaces it.

    Raises:
        ValueError: If ``low`` is not below ``high``, if a bound is not an integer between -10⁶ and
            10⁶, or if ``low`` is below 1 on a logarithmic scale. If ``step`` is not a positive
            integer, exceeds the range, or is combined with ``log``.

    Example:
        >>> layers = Integer(1, 8)
    """

    low: int
    high: int
    step: int = 1  # type: ignore[misc]

    def __post_init__(self) -> None:
        self._require_log()
        for name in ("low", "high"):
            settle_integer(self, name, 1 if self.log else -(10**6), "use log=False, or Float.")
        require(
            self.low < self.high <= 10**6,
            f"Integer: low is {self.low} and high {self.high}, but low must be below high, and "
            "both must lie within ± a million; use Float, or omit the parameter if it is "
            "constant.",
        )
        settle_integer(self, "step", 1, "omit it for all integers.")
        require(
            self.step <= self.high - self.low and not (self.log and self.step > 1),
            f"Integer: step is {self.step}, but it must be at most {self.high - self.low} (the "
            "range), and 1 if log=True; omit step or log.",
        )
        super().__post_init__()


@dataclass(frozen=True)
class Number(BoxParameter):
    """A numeric parameter of Optuna or Ax, with any range and step; the bounds are not checked.

    Args:
        step: Distance between neighbouring values; None for a continuous range.
    """

    step: float | None = None  # type: ignore[misc]


@hinted
@dataclass(frozen=True, init=False)
class Choice:
    """A categorical parameter: a set of values, without an order by default.

    The k values are the corners of a regular simplex of side 1, in k - 1 columns of the unit cube.
    Any two values are at distance 1, like the ends of a range. A kernel k(r) of the distance r in
    the other parameters becomes k(sqrt(r² + [different])), where [different] is 1 for different
    values and 0 for equal values. The Gaussian kernel becomes exp(-r²/2l²) exp(-[different]/2l²), a
    product with the overlap kernel. A single column would impose an order on the values; one-hot
    columns would also give equal distances, but need k columns.

    Args:
        choices: The values; a box needs two or more, all different.
        ordered: Whether the values are given in order, such as "low", "medium", "high". They are
            then equally spaced in a single column, like the values of an :class:`Integer`.

    Raises:
        ValueError: If ``ordered`` is not a bool.

    Example:
        >>> kind = Choice("sand", "salt", "soap")
    """

    choices: tuple[Any, ...]
    ordered: bool = False

    def __init__(self, *choices: Any, ordered: bool = False) -> None:
        require(
            type(ordered) is bool, f"Choice: ordered is {ordered!r}, but it must be True or False."
        )
        object.__setattr__(self, "choices", choices)
        object.__setattr__(self, "ordered", ordered)

    def __repr__(self) -> str:
        order = ", ordered=True" if self.ordered else ""
        return f"Choice({', '.join(map(repr, self.choices))}{order})"

    @cached_property
    def number(self) -> BoxParameter | None:
        """The position of an ordered value among the choices, as a parameter; None if unordered."""
        return Number(0, len(self.choices) - 1, step=1) if self.ordered else None

    @property
    def columns(self) -> int:
        """Number of columns, k - 1; at most 1 if the values are ordered."""
        return len(self.choices) - 1 if self.number is None else self.number.columns

    @cached_property
    def levels(self) -> Tensor | None:
        """The points of all values, `k x columns`; None if there are too many ordered values."""
        return simplex(len(self.choices)) if self.number is None else self.number.levels

    @cached_property
    def _corners(self) -> list[list[float]]:
        return simplex(len(self.choices)).tolist()

    def along(self, columns: Tensor) -> Tensor:
        """The number among the choices that is nearest to each point `* x columns`, `*`.

        Args:
            columns: Coordinates, `* x columns`.
        """
        corners = columns.new_tensor([self.unit(choice) for choice in self.choices])
        index = torch.cdist(columns.reshape(-1, columns.shape[-1]), corners).argmin(-1)
        return columns.new_tensor(self.choices)[index].view(columns.shape[:-1])

    def index(self, value: Any) -> int:
        """Position of a value among the choices; True and 1 are distinct, as their types differ.

        Args:
            value: The value.

        Raises:
            ValueError: If the value is not among the choices.
        """
        for number, choice in enumerate(self.choices):
            both_nan = choice != choice and value != value
            same = type(choice) is type(value) and (choice == value or both_nan)
            if choice is value or same:
                return number
        return self.choices.index(value)

    position = index

    def unit(self, value: Any) -> list[float]:
        """The coordinates in the unit cube that represent a value of this parameter.

        Args:
            value: The value, which must be among the choices.

        Raises:
            ValueError: If the value is not among the choices.
        """
        index = self.index(value)
        return self._corners[index] if self.number is None else self.number.unit(index)

    def value(self, columns: list[float]) -> Any:
        """The value whose coordinates are nearest to a point.

        Args:
            columns: The coordinates of the point in the columns of this parameter.
        """
        if self.number is not None:
            return self.choices[int(self.number.value(columns))]
        apart = [math.dist(columns, corner) for corner in self._corners]
        return self.choices[apart.index(min(apart))]


Parameter = BoxParameter | Choice


@hinted
@dataclass(frozen=True, init=False)
class Context:
    """A condition that is given before each round and not chosen, such as the weather.

    Args:
        values: Two numbers, the range in which the condition usually lies; values outside it are
            allowed. Or the values of a category, such as ``"mon", "tue", "wed"``.
        log: Whether the scale of a range is logarithmic.

    Attributes:
        axis: The condition as a parameter.

    Raises:
        ValueError: If the range is empty, or if there are fewer than two values.

    Example:
        >>> outside = Context(-10, 40)
    """

    axis: Float | Choice

    def __init__(self, *values: Any, log: bool = False) -> None:
        require(
            len(values) > 1,
            f"Context: the values are {values!r}, but there must be two or more; give the ends of "
            "a range, Context(-10, 40), or values, Context('mon', 'tue').",
        )
        numeric = len(values) == 2 and all(type(value) in (int, float) for value in values)
        require(numeric or not log, "Context: log is True, but only a range has a scale.")
        axis = Float(values[0], values[1], log=log) if numeric else Choice(*values)
        object.__setattr__(self, "axis", axis)

    def __repr__(self) -> str:
        return repr(self.axis).replace(type(self.axis).__name__, "Context", 1)


class Space:
    """Several named parameters, each with columns of its own in a unit cube.

    Args:
        parameters: The parameters by name.
        limits: Limits on the values of parameters, such as ``"a + 2 * b <= 1"``.

    Attributes:
        by_name: The parameters by name.
        axes: The parameters.
        limits: The limits.

    Raises:
        ValueError: If a limit is no comparison of formulas, or if it names anything else than
            parameters whose values are numbers.
    """

    def __init__(
        self, parameters: Mapping[str, Parameter], limits: str | Sequence[str] = ()
    ) -> None:
        self.by_name = dict(parameters)
        self.axes = list(self.by_name.values())
        self.limits = parse_limits(limits, list(self.by_name)) if limits else ()
        for limit in self.limits:
            for name in limit.names:
                axis = self.by_name[name]
                require(
                    isinstance(axis, BoxParameter) or {*map(type, axis.choices)} <= {int, float},
                    f"{limit.text!r} limits {name}, which is {axis!r}, but only numbers can be "
                    "limited; name other parameters.",
                )

    @cached_property
    def parts(self) -> list[tuple[str, Parameter, slice]]:
        """Name, parameter, and columns of each parameter."""
        ends = [0, *accumulate(axis.columns for axis in self.axes)]
        places = [slice(start, end) for start, end in pairwise(ends)]
        return list(zip(self.by_name, self.axes, places))

    @property
    def places(self) -> list[slice]:
        """The columns of each parameter."""
        return [at for _, _, at in self.parts]

    @property
    def columns(self) -> int:
        """Number of coordinates of the cube, D."""
        return sum(axis.columns for axis in self.axes)

    def point(self, params: Mapping[str, Any]) -> tuple[float, ...]:
        """The point that represents given values, `D` numbers."""
        return tuple(n for name, axis in self.by_name.items() for n in axis.unit(params[name]))

    def placed(self, values: Mapping[str, Any]) -> tuple[tuple[float, ...], set[str]]:
        """The point of values of which some may be missing; the parameters without a place.

        A number outside its range has a coordinate outside [0, 1]. A parameter whose value is
        missing, or is no value of this space, has the coordinates 0.5.

        Args:
            values: Values by name, which may include other names.
        """
        point, lacking = list[float](), set[str]()
        for name, axis in self.by_name.items():
            try:
                point += axis.unit(values[name])
            except (KeyError, TypeError, ValueError):  # such as 0 on a logarithmic scale
                point += [0.5] * axis.columns
                lacking.add(name)
        return tuple(point), lacking

    def params(self, point: Tensor) -> dict[str, Any]:
        """The values whose point is nearest to a given point, `D`."""
        row = point.tolist()
        return {name: axis.value(row[at]) for name, axis, at in self.parts}

    def read(self, point: Tensor, *, outside: bool = False) -> dict[str, Any]:
        """The values at a point `D`, rounded to the stored digits.

        Args:
            point: The point.
            outside: Whether numbers may lie outside their ranges, and between their steps.
        """
        values = self.params(point)
        for name, axis, at in self.parts:
            if isinstance(axis, BoxParameter):
                value = float(axis.along(point[at])) if outside else values[name]
                values[name] = axis.rounded(value, point.dtype, clipped=not outside)
        return values

    def numbers_at(self, X: Tensor, names: Collection[str]) -> dict[str, Tensor]:
        """The values of some numeric parameters at points `* x D`, `*` each.

        Values are neither rounded nor clipped, and are differentiable in the coordinates of ranges.
        """
        return {name: axis.along(X[..., at]) for name, axis, at in self.parts if name in names}

    def rounded(self, X: Tensor) -> Tensor:
        """Round points, `* x D`: every parameter gets the allowed value nearest to the point."""
        rows = [self.point(self.params(point)) for point in X.reshape(-1, X.shape[-1])]
        return X.new_tensor(rows).view_as(X)


def simplex(corners: int) -> Tensor:
    """Corners of a regular simplex of side 1 in the unit cube, `corners x (corners - 1)`."""
    X = torch.zeros(corners, corners - 1, dtype=torch.float64, device="cpu")
    for corner in range(1, corners):
        X[corner] = X[:corner].mean(0)
        squared = float((X[corner] - X[0]).square().sum())
        X[corner, corner - 1] = math.sqrt(1 - squared)
    return X
