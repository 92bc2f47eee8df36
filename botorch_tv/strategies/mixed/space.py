"""Numbers and categories as points of the unit cube, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from botorch_tv.even_points import even_points
from botorch_tv.strategies.parameters import Choice

MOST_LEVELS = 64
"""A number with more values than this is searched as if it had all, and rounded in the end."""


@dataclass(frozen=True)
class Number:
    """A number from a range, both ends included.

    Args:
        low: Lower end, positive where ``log``.
        high: Upper end.
        log: Whether ratios count, not differences.
        step: From one value to the next; None where all between are values.
    """

    low: int | float
    high: int | float
    log: bool = False
    step: int | float | None = None

    @property
    def single(self) -> bool:
        """Whether there is nothing to choose."""
        return self.low == self.high or (self.step is not None and self.values == 1)

    @property
    def values(self) -> int | None:
        """How many values it has; None for infinitely many."""
        return None if self.step is None else round((self.high - self.low) / self.step) + 1

    def value_of(self, step: int) -> int | float:
        """The value after so many steps."""
        assert self.step is not None
        return min(max(self.low + step * self.step, self.low), self.high)

    def scaled(self, value: int | float) -> int | float:
        """On the scale on which differences count; whole numbers of any size stay exact."""
        return math.log(value) if self.log else value

    def covers(self, value: int | float) -> bool:
        """Whether a value lies between the ends, but for rounding."""
        slack = 1e-9 * (self.high - self.low)
        return bool(self.low - slack <= value <= self.high + slack)


@dataclass(frozen=True)
class Axis:
    """A parameter and its columns in the cube.

    A number takes one column, from 0 at the lower end of its range to 1 at the upper, in its
    logarithm where ratios count.

    Categories are the corners of a regular simplex of side 1, in one column fewer than there are
    categories. Any two of them are as far apart as the ends of a number, and a kernel of the
    distance, k(r), becomes k(sqrt(r² + [different])); the Gaussian one exp(-r²/2l²)
    exp(-[different]/2l²), a product with the overlap kernel. A single column would put an order
    among them, and one for each (one-hot) makes the same distances of more columns.

    Args:
        name: Of the parameter.
        of: Its values.
    """

    name: str
    of: Number | Choice

    @property
    def columns(self) -> int:
        """How many it takes; none where there is nothing to choose."""
        if self.of.single:
            return 0
        return len(self.of.choices) - 1 if isinstance(self.of, Choice) else 1

    @cached_property
    def levels(self) -> Tensor | None:
        """The points that its values have, `k x columns`; None where they are too many to list."""
        if isinstance(self.of, Choice):
            return simplex(len(self.of.choices))
        number = self.of.values
        if number is None or number > MOST_LEVELS:
            return None
        rows = [self.unit(self.of.value_of(step)) for step in range(number)]
        return torch.tensor(rows, dtype=torch.float64, device="cpu").view(number, self.columns)

    def unit(self, value: Any) -> list[float]:
        """The columns of a value."""
        if self.of.single:
            return []
        if isinstance(self.of, Choice):
            return self._corners[self.of.index(value)]
        low, high, at = (self.of.scaled(each) for each in (self.of.low, self.of.high, value))
        return [min(max((at - low) / (high - low), 0.0), 1.0)]

    def covers(self, value: Any) -> bool:
        """Whether a value has columns of its own: one beyond a range would get those of its end."""
        return isinstance(self.of, Choice) or self.of.covers(value)

    def value(self, columns: list[float]) -> Any:
        """The value nearest to some columns."""
        one = self.of
        if isinstance(one, Choice):
            apart = [math.dist(columns, corner) for corner in self._corners]
            return one.choices[apart.index(min(apart))]
        if one.single:
            return one.low
        if columns[0] in (0.0, 1.0):  # exactly, whatever a logarithm makes of it
            return one.high if columns[0] else one.low
        low, high = one.scaled(one.low), one.scaled(one.high)
        along = columns[0] * (high - low)
        if one.log:
            along = math.exp(low + along) - one.low
        if one.step is not None:
            return one.value_of(round(along / one.step))
        return min(max(one.low + along, one.low), one.high)

    @cached_property
    def _corners(self) -> list[list[float]]:
        """The columns of each category."""
        assert isinstance(self.of, Choice)
        rows: list[list[float]] = simplex(len(self.of.choices)).tolist()
        return rows


class Space:
    """Parameters side by side.

    Args:
        axes: These.
    """

    def __init__(self, axes: Sequence[Axis]) -> None:
        self.axes = list(axes)

    @property
    def columns(self) -> int:
        """Number of coordinates of the cube, D."""
        return sum(axis.columns for axis in self.axes)

    @cached_property
    def places(self) -> list[slice]:
        """The columns of each axis."""
        ends = (
            torch.tensor([0, *(axis.columns for axis in self.axes)], device="cpu")
            .cumsum(0)
            .tolist()
        )
        return [slice(start, end) for start, end in pairwise(ends)]

    def covers(self, params: Mapping[str, Any]) -> bool:
        """Whether values lie in their ranges, so that their point tells them apart from others."""
        return all(axis.covers(params[axis.name]) for axis in self.axes)

    def point(self, params: Mapping[str, Any]) -> tuple[float, ...]:
        """Values as a point, `D` numbers."""
        return tuple(number for axis in self.axes for number in axis.unit(params[axis.name]))

    def params(self, point: Tensor) -> dict[str, Any]:
        """The values nearest to a point `D`."""
        row = point.tolist()
        return {axis.name: axis.value(row[at]) for axis, at in zip(self.axes, self.places)}

    def rounded(self, X: Tensor) -> Tensor:
        """Points that values have nearest to some, `q x D`."""
        return X.new_tensor([self.point(self.params(point)) for point in X])

    def filling(self, number: int, seed: int) -> Tensor:
        """A point of a sequence that fills the space, `D`.

        Args:
            number: Which, from 0 on.
            seed: Of the sequence.
        """
        return self.spread(even_points(1, len(self.axes), seed=seed, first=number))[0]

    def spread(self, U: Tensor) -> Tensor:
        """Points of the cube of one coordinate per axis, `q x axes`, brought to this, `q x D`.

        Where values are listed every one of them gets an equal share.
        """
        parts = []
        for axis, u in zip(self.axes, U.unbind(-1)):
            levels = axis.levels
            if levels is None:
                parts.append(u.unsqueeze(-1))
            else:
                row = (u * len(levels)).long().clamp_max(len(levels) - 1)
                parts.append(levels.to(U)[row])
        return torch.cat(parts, -1)


def simplex(corners: int) -> Tensor:
    """Corners of a regular simplex of side 1 in the unit cube, `corners x (corners - 1)`."""
    X = torch.zeros(corners, corners - 1, dtype=torch.float64, device="cpu")
    for corner in range(1, corners):
        X[corner] = X[:corner].mean(0)
        side = float((X[corner] - X[0]).square().sum())
        X[corner, corner - 1] = math.sqrt(1 - side)
    return X
