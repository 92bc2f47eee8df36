"""Named parameters, mapped to the coordinates of a unit cube."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, cast

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.strategies.parameters import (
    Axis,
    BoxParameter,
    Choice,
    Float,
    Integer,
    Number,
    Space,
)
from botorch_tv.validation import decimal_comma, did_you_mean, shown

Parameter = BoxParameter | Choice


class Parameters(Mapping[str, Parameter]):
    """Named parameters, mapped in their order to the coordinates of a unit cube.

    Args:
        bounds: By name, a :class:`Float`, an :class:`Integer`, a :class:`Choice`, or a tuple
            ``(low, high)`` for a float.

    Attributes:
        space: The coordinates of all parameters; a number takes one.
        mixed: Whether any parameter is a choice.

    Raises:
        InputDataError: If there are no parameters, a name is not a string, or bounds are of
            another type; the error names the parameter.
    """

    def __init__(self, bounds: Mapping[str, Parameter | tuple[float, float]]) -> None:
        if not bounds:
            raise InputDataError("no parameters are given; give {name: (low, high), ...}.")
        self._parameters = {name: _as_parameter(name, one) for name, one in bounds.items()}
        every = self._parameters.values()
        self._whole = [n for n, one in enumerate(every) if isinstance(one, Integer)]
        self.mixed = any(isinstance(one, Choice) for one in every)
        self.space = Space([Axis(name, _values(one)) for name, one in self._parameters.items()])

    def __getitem__(self, name: str) -> Parameter:
        return self._parameters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def __repr__(self) -> str:
        return repr(self._parameters)

    @property
    def all_float(self) -> bool:
        """Whether all parameters are floats, so that every point of the cube is a valid point."""
        return not self._whole and not self.mixed

    @property
    def columns(self) -> int:
        """Number d of coordinates of the cube."""
        return self.space.columns

    def named(self, place: Tensor) -> dict[str, Any]:
        """The values of the parameters at a point of the cube, `d`, rounded as they are stored."""
        row, values = place.tolist(), {}
        for (name, one), axis, at in zip(self.items(), self.space.axes, self.space.places):
            if isinstance(one, Choice):
                values[name] = axis.value(row[at])
            else:
                values[name] = one.value(row[at.start], place.dtype)
        return values

    def place(self, point: object, like: Tensor, name: str = "X") -> Tensor:
        """The coordinates of a point in the cube, `d`, in the dtype and on the device of ``like``.

        Args:
            point: A value for each parameter.
            like: A tensor with the dtype and device wanted.
            name: Name of the point in errors.

        Raises:
            InputDataError: If parameters are missing or unknown, or a value lies outside or is not
                whole.
        """
        if not isinstance(point, Mapping):
            raise InputDataError(
                f"{name} is {shown(point)}, but parameters have names here; give "
                f"{{{', '.join(f'{one!r}: ...' for one in self)}}}."
            )
        for one in point:
            if one not in self._parameters:
                raise InputDataError(
                    f"{name} has {one!r}, but the parameters are {', '.join(self)}; leave it out."
                    + did_you_mean(one, [each for each in self if each not in point])
                )
        missing = [one for one in self if one not in point]
        if missing:
            raise InputDataError(f"{name} lacks {', '.join(missing)}; give all parameters.")
        columns: list[float] = []
        for (one, kind), axis in zip(self.items(), self.space.axes):
            if isinstance(kind, Choice):
                columns += axis.unit(kind.choices[_which(one, kind, point[one])])
            else:
                columns.append(kind.place(_value(one, kind, point[one], like.dtype)))
        return like.new_tensor(columns)

    def rounded(self, U: Tensor) -> Tensor:
        """The nearest coordinates at which all parameters have valid values, `* x d`."""
        return self.space.rounded(U.reshape(-1, U.shape[-1])).view_as(U)

    def from_uniform(self, U: Tensor) -> Tensor:
        """Coordinates in the cube, from those of a cube in which integers have equal shares.

        The gradient is that of the map without rounding, up to a factor per parameter, so that
        gradient ascent does not stop at integers.

        Args:
            U: `* x d`, from 0 to 1.
        """
        columns = list(U.unbind(-1))
        for number in self._whole:
            one, low, high = self._ends(number)
            scaled = low + (high - low) * columns[number].detach()
            value = (scaled.exp() if one.log else scaled).round().clamp(one.low, one.high)
            ends = one.scaled(one.low), one.scaled(one.high)
            place = ((value.log() if one.log else value) - ends[0]) / (ends[1] - ends[0])
            columns[number] = place.clamp(0, 1) + (columns[number] - columns[number].detach())
        return torch.stack(columns, -1)

    def to_uniform(self, X: Tensor) -> Tensor:
        """Inverse of :meth:`from_uniform`, `* x d`: each integer lies within its share."""
        columns = list(X.unbind(-1))
        for number in self._whole:
            one, low, high = self._ends(number)
            ends = one.scaled(one.low), one.scaled(one.high)
            columns[number] = (ends[0] + (ends[1] - ends[0]) * columns[number] - low) / (high - low)
        return torch.stack(columns, -1)

    def data(self) -> dict[str, dict[str, Any]]:
        """The parameters as JSON-compatible data."""
        return {name: {"type": type(one).__name__} | asdict(one) for name, one in self.items()}  # type: ignore[arg-type]

    @classmethod
    def from_data(cls, data: Mapping[str, Mapping[str, Any]]) -> Parameters:
        """Inverse of :meth:`data`.

        Raises:
            KeyError, TypeError, ValueError, InputDataError: If they are damaged.
        """
        kinds: dict[str, Callable[..., Parameter]]
        kinds = {"Float": Float, "Integer": Integer, "Choice": _choice}
        own = {name: dict(one) for name, one in data.items()}
        return cls({name: kinds[one.pop("type")](**one) for name, one in own.items()})

    def _ends(self, number: int) -> tuple[BoxParameter, float, float]:
        """An integer parameter, and the range of values rounded to its integers, on its scale."""
        one = list(self._parameters.values())[number]
        assert isinstance(one, Integer)
        return one, one.scaled(one.low - 0.5), one.scaled(one.high + 0.5)


def _value(name: str, one: BoxParameter, value: object, dtype: torch.dtype) -> float:
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InputDataError(
            f"{name} is {shown(value)}, but it must be one number; give one from {one.low:g} to "
            f"{one.high:g}.{decimal_comma(value)}"
        )
    number = float(value)
    # Values computed elsewhere may lie outside by rounding errors.
    if not one.low - 1e-9 * abs(one.low) <= number <= one.high + 1e-9 * abs(one.high):
        raise InputDataError(
            f"{name} is {number:g}, but it lies from {one.low:g} to {one.high:g}; leave it "
            "out, or widen the bounds."
        )
    if one.whole and number % 1:
        raise InputDataError(
            f"{name} is {number:g}, but it is a whole number; give {round(number)}, or make it "
            "a Float."
        )
    return one.rounded(min(max(number, one.low), one.high), dtype)


def _which(name: str, one: Choice, value: object) -> int:
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    try:
        return one.index(value)
    except ValueError as error:
        raise InputDataError(
            f"{name} is {shown(value)}, but it must be one of {', '.join(map(repr, one.choices))}; "
            "give one of these."
            + did_you_mean(str(value), [each for each in one.choices if isinstance(each, str)])
        ) from error


def _choice(choices: list[Any]) -> Choice:
    return Choice(*choices)


def _values(one: Parameter) -> Number | Choice:
    if isinstance(one, Choice):
        return one
    return Number(one.low, one.high, one.log, 1 if one.whole else None)


def _checked(name: str, one: Choice) -> Choice:
    """A choice, after checking that its values are distinct and can be saved.

    Raises:
        InputDataError: If they are not.
    """
    kinds = (str, bool, int, float, type(None))
    odd = [each for each in one.choices if type(each) not in kinds or each != each]
    if odd:
        listed = len(one.choices) == 1 and isinstance(odd[0], (list, tuple))
        fix = f"give {Choice(*odd[0])!r}." if listed else "give a name for it."
        raise InputDataError(
            f"{name} has the choice {shown(odd[0])}, but choices are strings, numbers, True, False "
            f"or None, so that a file can hold them; {fix}"
        )
    if len(one.choices) < 2 or len(set(one.choices)) < len(one.choices):
        raise InputDataError(
            f"{name} is {one!r}, but it takes two or more choices, all different; leave out "
            "parameters that are fixed."
        )
    return one


def _as_parameter(name: object, bounds: object) -> Parameter:
    if not isinstance(name, str) or not name:
        raise InputDataError(f"{name!r} is no name of a parameter; give a string.")
    if isinstance(bounds, Choice):
        return _checked(name, bounds)
    if isinstance(bounds, BoxParameter):
        return bounds
    meant = _meant(bounds)
    if meant:
        raise InputDataError(f"{name} is {shown(bounds)}, which are no bounds; give {meant}.")
    try:
        low, high = cast(tuple[float, float], bounds)
        return Float(low, high)
    except (TypeError, ValueError) as error:
        reason = f" ({error})" if str(error).startswith("Float") else ""
        raise InputDataError(
            f"{name} is {shown(bounds)}{reason}; give (low, high) with low below high, "
            "Float(low, high, log=True), Integer(low, high) or Choice('a', 'b')."
        ) from error


def _meant(bounds: object) -> str:
    """A valid form of invalid bounds; empty if none can be guessed."""
    if bounds is bool:
        return "Choice(True, False)"
    if not isinstance(bounds, (list, tuple, set, range)) or not bounds:
        return ""
    listed = f"Choice({', '.join(map(repr, bounds))})"
    if any(isinstance(one, str) for one in bounds):
        return f"{listed}, or count what has an order, Integer(1, {max(len(bounds), 2)})"
    if all(isinstance(one, bool) for one in bounds):
        return "Choice(True, False)"
    if isinstance(bounds, range):
        return f"Integer({min(bounds)}, {max(bounds)})"
    if len(bounds) > 2 and all(isinstance(one, numbers.Real) for one in bounds):
        return f"the least and the largest, ({min(bounds)}, {max(bounds)}), or {listed}"
    return ""
