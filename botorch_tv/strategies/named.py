"""Named parameters and contexts, which are mapped to the coordinates of a unit cube."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.strategies.parameters import (
    Choice,
    Context,
    Float,
    Integer,
    Parameter,
    Space,
)
from botorch_tv.validation import plain, real, shown


class Parameters(Space, Mapping[str, Parameter]):
    """Named parameters, mapped in the given order to the coordinates of a unit cube.

    A :class:`Context` is no parameter: it is given, not chosen. The coordinates of the contexts
    follow the `d` coordinates of the parameters.

    Args:
        bounds: For each name, a :class:`Float`, an :class:`Integer`, a :class:`Choice`, a tuple
            ``(low, high)`` for a float, or a :class:`Context`.
        constraints: Limits on values, such as ``"a + 2 * b <= 1"``.

    Attributes:
        contexts: The contexts by name.
        given: The contexts, as a space.
        mixed: Whether the parameters are searched by :class:`MixedSearch`: any is a :class:`Choice`
            without an order, or there are limits.

    Raises:
        InputDataError: If there are no parameters, if a name is not a string, or if the bounds of a
            parameter are of another type.
        ValueError: If a limit is invalid, or names an unknown parameter.
    """

    def __init__(
        self,
        bounds: Mapping[str, Parameter | Context | tuple[float, float]],
        constraints: str | Sequence[str] = (),
    ) -> None:
        contexts = {name: axis for name, axis in bounds.items() if isinstance(axis, Context)}
        chosen = {n: _as_parameter(n, b) for n, b in bounds.items() if n not in contexts}
        if not chosen:
            raise InputDataError("no parameters are given; give {name: (low, high), ...}.")
        self.contexts = contexts
        self.given = Space({n: _as_parameter(n, each.axis) for n, each in contexts.items()})
        super().__init__(chosen, constraints)
        numbers = [axis.number for axis in self.axes]
        self._stepped = [n for n, number in enumerate(numbers) if number and number.step]
        self.mixed = None in numbers or bool(self.limits)

    def __getitem__(self, name: str) -> Parameter:
        return self.by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)

    def __repr__(self) -> str:
        return repr({**self.by_name, **self.contexts})

    @property
    def context_columns(self) -> int:
        """Number of coordinates of the contexts, c."""
        return self.given.columns

    def named(self, place: Tensor, *, outside: bool = False) -> dict[str, Any]:
        """The values of the parameters at a point of the cube, rounded to the stored digits.

        Args:
            place: Coordinates in the cube, `d`; or with the contexts, `d + c`.
            outside: Whether numbers may lie outside their ranges, and between their steps.
        """
        rest = place[self.columns :]
        values = self.read(place[: self.columns], outside=outside)
        return values | (self.given.read(rest, outside=True) if len(rest) else {})

    def place(
        self, point: object, like: Tensor, name: str = "X", *, outside: bool = False
    ) -> Tensor:
        """The coordinates of a point in the cube, `d`; or with the contexts, `d + c`.

        Args:
            point: A value for each parameter, or for each parameter and each context.
            like: A tensor of any shape with the dtype and the device of the result.
            name: Name of the point in error messages.
            outside: Whether numbers may lie outside their ranges, and between their steps.

        Raises:
            InputDataError: If parameters are missing or unknown, if a value lies outside its range,
                or if the value of an integer is not whole.
        """
        given: Any = point if isinstance(point, Mapping) else {}
        context = {key: given[key] for key in given if key in self.contexts}
        chosen = {key: given[key] for key in given if key not in context}
        own = chosen if given else point
        X = _placed(self, (name, "the parameters ", ""), own, like, outside)
        return torch.cat([X, self.context_row(context, like)]) if context else X

    def context_row(self, context: object, like: Tensor) -> Tensor:
        """The coordinates of the contexts, `c`.

        Args:
            context: A value for each context.
            like: A tensor of any shape with the dtype and the device of the result.

        Raises:
            InputDataError: If contexts are missing or unknown, or if a value is no finite number,
                or not among the values of a category.
        """
        if not self.contexts:
            raise InputDataError(
                f"the context is {shown(context)}, but no context is declared; omit it, or give "
                "the box {'outside': Context(-10, 40), ...}."
            )
        return _placed(self.given, ("the context", "", "context="), context, like, True)

    def from_uniform(self, U: Tensor) -> Tensor:
        """Map coordinates to the cube, `* x d`; integers and parameters with a step are rounded.

        If a coordinate is uniformly distributed and the scale of its parameter is linear, all
        values of an integer parameter, or of a parameter with a step, are equally probable.
        Rounding has gradient 0, which would stop every ascent. Therefore the gradient for such a
        parameter is defined as 1. Without rounding, it would be a constant above 1.

        Args:
            U: Coordinates, `* x d`, from 0 to 1. For a parameter with a step, coordinate 0 stands
                for ``low`` minus half a step, and coordinate 1 for ``high`` plus half a step.
        """
        columns = list(U.unbind(-1))
        for number in self._stepped:
            axis, (low, high), _ = self._ends(number)
            scaled = low + (high - low) * columns[number].detach()
            place = axis.stepped(scaled.exp() if axis.log else scaled)
            columns[number] = place + (columns[number] - columns[number].detach())
        return torch.stack(columns, -1)

    def to_uniform(self, X: Tensor) -> Tensor:
        """The coordinates, `* x d`, that :meth:`from_uniform` maps to given points of the cube.

        The coordinate of an integer parameter, or of a parameter with a step, lies in the interval
        that :meth:`from_uniform` rounds to its value.

        Args:
            X: Points of the cube, `* x d`.
        """
        columns = list(X.unbind(-1))
        for number in self._stepped:
            _, (low, high), ends = self._ends(number)
            columns[number] = (ends[0] + (ends[1] - ends[0]) * columns[number] - low) / (high - low)
        return torch.stack(columns, -1)

    def data(self) -> dict[str, dict[str, Any]]:
        """The parameters and contexts as JSON-compatible data."""
        found = {}
        for name, axis in (*self.items(), *self.contexts.items()):
            kind = axis.axis if isinstance(axis, Context) else axis
            fields = {
                key: value
                for key, value in asdict(kind).items()
                if key not in ("step", "ordered") or value != getattr(type(kind), key)
            }
            found[name] = {"type": type(axis).__name__} | fields
        return found

    @classmethod
    def from_data(
        cls, data: Mapping[str, Mapping[str, Any]], constraints: Sequence[str] = ()
    ) -> Parameters:
        """Inverse of :meth:`data`.

        Args:
            data: The type and the fields of each parameter, indexed by the parameter's name.
            constraints: Limits on values.

        Raises:
            KeyError, TypeError, ValueError, InputDataError: If ``data`` does not describe valid
                parameters.
        """
        kinds: dict[str, Any] = {kind.__name__: kind for kind in (Float, Integer, Choice, Context)}
        made: dict[str, Any] = {name: dict(fields) for name, fields in data.items()}
        for name, own in made.items():
            kind = kinds[own.pop("type")]
            values = own.pop("choices") if "choices" in own else (own.pop("low"), own.pop("high"))
            made[name] = kind(*values, **own)
        return cls(made, constraints)

    def _ends(self, number: int) -> tuple[Any, tuple[float, float], tuple[float, float]]:
        """Three values for a parameter with a step: the parameter, an interval, and its range.

        Rounding maps the interval to the values of the range. Interval and range are logarithms if
        the scale of the parameter is logarithmic.
        """
        axis: Any = self.axes[number].number
        wide = axis.scaled(axis.low - axis.step / 2), axis.scaled(axis.high + axis.step / 2)
        return axis, wide, (axis.scaled(axis.low), axis.scaled(axis.high))


def moved(
    points: Tensor, old: Parameters, new: Parameters, had: Mapping[str, Any] | None = None
) -> Tensor:
    """Measured points in the coordinates of another space.

    Values are neither rounded to steps nor clipped: a number outside its new range has a coordinate
    beyond [0, 1]. A parameter that was dropped must have had a single value.

    Args:
        points: Points in the old cube, `n x d`; or with the contexts, `n x (d + c)`.
        old: The old parameters and contexts.
        new: The new parameters and contexts.
        had: The value that each new parameter or context had during the measurements.

    Returns:
        The points in the new cube, `n x d'`; with the contexts, `n x (d' + c')`, unless the given
        points lack the old contexts.

    Raises:
        InputDataError: If a value has no place in the new space, or if values in ``had`` are
            missing or unknown.
    """
    had = {} if had is None else dict(had)
    whole = points.shape[-1] > old.columns or not old.contexts
    before, after = (
        Space({**space, **(space.given.by_name if whole else {})}) for space in (old, new)
    )
    added = [name for name in after.by_name if name not in before.by_name]
    if set(added) != set(had):
        raise InputDataError(
            f"the space has the new parameters {', '.join(added) or 'none'}, but values are given "
            f"for {', '.join(had) or 'none'}; give the value that each new parameter had."
        )
    for name, _, at in before.parts:
        if name not in after.by_name and len(torch.unique(points[:, at], dim=0)) > 1:
            raise InputDataError(
                f"{name} is missing in the new space, but it was measured at several values; "
                "leave it in, and hold it by fixed=."
            )
    found = []
    for point in points:
        values = before.read(point, outside=True) | had
        for name, axis in after.by_name.items():
            try:
                value = checked_value(name, axis, values[name], points.dtype, outside=True)
                found += axis.unit(value)
            except InputDataError as error:
                raise InputDataError(
                    f"{name} was measured at {values[name]!r}, which has no place in the new "
                    f"space, {axis!r}; widen it, or start a new loop with the table of the "
                    "measurements that fit."
                ) from error
    return points.new_tensor(found).view(len(points), after.columns)


def _placed(
    space: Space, words: Sequence[str], values: object, like: Tensor, outside: bool
) -> Tensor:
    """The coordinates of values, `D`; ``words`` describe the values in errors.

    Raises:
        InputDataError: If values are missing, unknown or invalid.
    """
    if not isinstance(values, Mapping) or values.keys() != space.by_name.keys():
        own = list(values) if isinstance(values, Mapping) else shown(values)
        example = ", ".join(f"{key!r}: ..." for key in space.by_name)
        raise InputDataError(
            f"{words[0]} is {own}, but it must have a value for each of {words[1]}"
            f"{', '.join(space.by_name)}, and no other; give {words[2]}{{{example}}}."
        )
    dtype, every = like.dtype, space.by_name.items()
    checked = {n: checked_value(n, axis, values[n], dtype, outside=outside) for n, axis in every}
    return like.new_tensor(space.point(checked))


def checked_value(
    name: str, axis: Parameter, value: object, dtype: torch.dtype, *, outside: bool = False
) -> Any:
    """A value of a parameter, converted to the form in which it is stored.

    Args:
        name: Name of the parameter.
        axis: The parameter.
        value: The value.
        dtype: Dtype of the domain, float64 or float32.
        outside: Whether a number may lie outside its range, and between its steps.

    Raises:
        InputDataError: If the parameter cannot have this value.
    """
    if isinstance(axis, Choice):
        try:
            return axis.choices[axis.index(plain(value))]
        except (ValueError, TypeError, ArithmeticError) as error:
            choices = ", ".join(map(repr, axis.choices))
            raise InputDataError(f"{name} is {shown(value)}; choose from {choices}.") from error
    found = real(value)
    number = math.nan if found is None else found
    if outside:
        if not math.isfinite(number) or (axis.log and number <= 0):
            raise InputDataError(
                f"{name} is {shown(value)}, but it must be a number, "
                f"{'positive and ' * axis.log}finite; give the value that was measured."
            )
        return axis.rounded(number, dtype, clipped=False)
    # Values computed elsewhere may lie outside the range by rounding errors.
    inside = axis.low - 1e-9 * abs(axis.low) <= number <= axis.high + 1e-9 * abs(axis.high)
    step, nearest = axis.step, number
    if inside:
        nearest = axis.rounded(min(max(number, axis.low), axis.high), dtype)
        inside = step is None or math.isclose(number, nearest, rel_tol=1e-12, abs_tol=1e-9 * step)
    if not inside:
        fix = "change it, drop the point, or widen the bounds."
        if axis.log and number <= 0:
            fix = "a logarithmic scale has positive values only; drop the point, or give log=False."
        elif step is not None and axis.low <= number <= axis.high:
            fix = f"give {nearest:g}, or a Float without step, which takes every value."
        steps, whole = f" in steps of {step:g}" if step not in (None, 1) else "", type(step) is int
        raise InputDataError(
            f"{name} is {shown(value)}, but it must be a {'whole ' * whole}number from "
            f"{axis.low:g} to {axis.high:g}{steps}; {fix}"
        )
    return nearest


def _as_parameter(name: object, bounds: object) -> Parameter:
    """A parameter of a box; its choices must be distinct and storable in a file."""
    if not isinstance(name, str) or not name:
        raise InputDataError(f"{name!r} is not a valid name of a parameter; give a string.")
    if isinstance(bounds, Choice):
        kinds, choices = (str, bool, int, float, type(None)), bounds.choices
        plain = all(type(choice) in kinds and choice == choice for choice in choices)
        if not plain or len({(type(one), one) for one in choices}) < max(2, len(choices)):
            raise InputDataError(
                f"{name} is {bounds!r}, but the choices must be two or more, all different, each a "
                "string, number, True, False or None; give each as an argument, Choice('a', 'b')."
            )
    if isinstance(bounds, Parameter):
        return bounds
    try:
        # Python's ranges and sets are refused: a range contains whole numbers, and a set has no
        # order.
        pair: Any = () if isinstance(bounds, (range, set)) else bounds
        low, high = pair
        return Float(low, high)
    except (TypeError, ValueError) as error:
        raise InputDataError(
            f"{name} is {shown(bounds)} ({error}); give (low, high) with low below high, "
            "Float(low, high, log=True), Integer(low, high), Context(low, high) or "
            "Choice('a', 'b')."
        ) from error
