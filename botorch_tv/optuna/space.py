"""Optuna's parameters as points of the unit cube, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch
from botorch.exceptions import InputDataError
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial
from torch import Tensor

from botorch_tv.validation import shown

MOST_LEVELS = 64
"""A number with more values than this is searched as if it had all, and rounded in the end."""


@dataclass(frozen=True)
class Axis:
    """A parameter and its columns in the cube.

    A number takes one column, from 0 at the lower end of its range to 1 at the upper, in its
    logarithm where Optuna is told ``log=True``.

    Categories are the corners of a regular simplex of side 1, in one column fewer than there are
    categories. Any two of them are as far apart as the ends of a number, and a kernel of the
    distance, k(r), becomes k(sqrt(r² + [different])); the Gaussian one exp(-r²/2l²)
    exp(-[different]/2l²), a product with the overlap kernel. A single column would put an order
    among them, and one for each (one-hot) makes the same distances of more columns.

    Args:
        name: Of the parameter.
        distribution: Its values.
    """

    name: str
    distribution: BaseDistribution

    def __post_init__(self) -> None:
        known = (FloatDistribution, IntDistribution, CategoricalDistribution)
        if not isinstance(self.distribution, known):
            raise InputDataError(
                f"{self.name!r} has the distribution {shown(self.distribution)}, but floats, "
                "integers and categories are known; choose among these."
            )

    @property
    def columns(self) -> int:
        """How many it takes; none where there is nothing to choose."""
        if self.distribution.single():
            return 0
        if isinstance(self.distribution, CategoricalDistribution):
            return len(self.distribution.choices) - 1
        return 1

    @cached_property
    def levels(self) -> Tensor | None:
        """The points that its values have, `k x columns`; None where they are too many to list."""
        one = self.distribution
        if isinstance(one, CategoricalDistribution):
            return simplex(len(one.choices))
        number = self._values
        if number is None or number > MOST_LEVELS:
            return None
        rows = [self.unit(self._value_of(step)) for step in range(number)]
        return torch.tensor(rows, dtype=torch.float64).view(number, self.columns)

    def unit(self, value: Any) -> list[float]:
        """The columns of a value."""
        one = self.distribution
        if one.single():
            return []
        if isinstance(one, CategoricalDistribution):
            return self._corners[int(one.to_internal_repr(value))]
        assert isinstance(one, (FloatDistribution, IntDistribution))
        low, high, at = (self._scaled(each) for each in (one.low, one.high, value))
        return [min(max((at - low) / (high - low), 0.0), 1.0)]

    def value(self, columns: list[float]) -> Any:
        """The value nearest to some columns."""
        one = self.distribution
        if isinstance(one, CategoricalDistribution):
            apart = [math.dist(columns, corner) for corner in self._corners]
            return one.choices[apart.index(min(apart))]
        assert isinstance(one, (FloatDistribution, IntDistribution))
        if one.single():
            return one.low
        if columns[0] in (0.0, 1.0):  # exactly, whatever a logarithm makes of it
            return one.high if columns[0] else one.low
        low, high = self._scaled(one.low), self._scaled(one.high)
        at = low + columns[0] * (high - low)
        number = math.exp(at) if one.log else at
        if one.step is not None:
            return self._value_of(round((number - one.low) / one.step))
        return min(max(number, one.low), one.high)

    @cached_property
    def _corners(self) -> list[list[float]]:
        """The columns of each category."""
        assert isinstance(self.distribution, CategoricalDistribution)
        rows: list[list[float]] = simplex(len(self.distribution.choices)).tolist()
        return rows

    @property
    def _values(self) -> int | None:
        """How many values it has; None for infinitely many."""
        one = self.distribution
        assert isinstance(one, (FloatDistribution, IntDistribution))
        return None if one.step is None else round((one.high - one.low) / one.step) + 1

    def _value_of(self, step: int) -> int | float:
        one = self.distribution
        assert isinstance(one, (FloatDistribution, IntDistribution))
        assert one.step is not None
        return min(max(one.low + step * one.step, one.low), one.high)

    def _scaled(self, value: float) -> float:
        one = self.distribution
        assert isinstance(one, (FloatDistribution, IntDistribution))
        return math.log(value) if one.log else float(value)


class Space:
    """Parameters side by side.

    Args:
        distributions: By name.
    """

    def __init__(self, distributions: Mapping[str, BaseDistribution]) -> None:
        self.distributions = dict(distributions)
        self.axes = [Axis(name, one) for name, one in distributions.items()]

    @property
    def columns(self) -> int:
        """Of the cube, D."""
        return sum(axis.columns for axis in self.axes)

    @cached_property
    def places(self) -> list[slice]:
        """The columns of each axis."""
        ends = torch.tensor([0, *(axis.columns for axis in self.axes)]).cumsum(0).tolist()
        return [slice(start, end) for start, end in pairwise(ends)]

    def holds(self, trial: FrozenTrial) -> bool:
        """Whether a trial has chosen a value of each, from the same ones."""
        return all(trial.distributions.get(name) == one for name, one in self.distributions.items())

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
    X = torch.zeros(corners, corners - 1, dtype=torch.float64)
    for corner in range(1, corners):
        X[corner] = X[:corner].mean(0)
        side = float((X[corner] - X[0]).square().sum())
        X[corner, corner - 1] = math.sqrt(1 - side)
    return X
