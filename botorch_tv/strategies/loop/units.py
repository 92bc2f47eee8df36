"""Conversion of points and times between the user's units and those of a loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import torch
from torch import Tensor

from botorch_tv.strategies.box import Box, Parameters
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.loop.clock import LoopClock
from botorch_tv.strategies.loop.log import Planned, Question, short
from botorch_tv.validation import require

CONTEXT = "(context)"
"""Key of the context beside named parameters in a file."""
TIMES = ("time", "planned_for")
Values = list[float] | dict[str, Any]
"""A point: coordinates, or named parameters in their own units."""


class Units:
    """The names and units of a loop.

    Args:
        parameters: The named parameters; None if coordinates have no names.
        clock: Converts times.
        dtype: The dtype of points in the unit cube.

    Raises:
        ValueError: If a parameter is named as the context is in a file.
    """

    def __init__(self, parameters: Parameters | None, clock: LoopClock, dtype: torch.dtype) -> None:
        require(
            parameters is None or CONTEXT not in parameters,
            f"Loop: a parameter is called {CONTEXT!r}, as the context is in a file; give another "
            "name.",
        )
        self.parameters, self.clock, self.dtype = parameters, clock, dtype

    def point(self, point: Sequence[float]) -> Values:
        """A point in its own units; with named parameters, without the context."""
        if self.parameters is None:
            return [float(one) for one in point]
        return self.parameters.named(self._tensor(point)[: self.parameters.columns])

    def settled(self, X: Tensor) -> Tensor:
        """Points `* x (d + c)`, rounded as values are stored, so that a file restores them."""
        if self.parameters is None:
            return X
        d, rows = self.parameters.columns, X.reshape(-1, X.shape[-1])
        places = [self.parameters.place(self.parameters.named(row[:d]), X) for row in rows]
        return torch.cat([torch.stack(places), rows[:, d:]], -1).view_as(X)

    def said(self, row: Planned | Question) -> str:
        """A suggestion or a consultation in words."""
        if isinstance(row, Question):
            return f"about time {self.clock.said(row.time)}"
        return f"at {self.said_point(row.point)} for time {self.clock.said(row.planned_for)}"

    def said_point(self, point: Sequence[float]) -> str:
        """A point in words."""
        if self.parameters is None:
            return short(point)
        return point_in_words(self.point(point))

    # ---------------------------------------------------------------- rows of a file

    def written(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A row of a file, with names and in the user's units."""
        own = dict(row)
        for name in TIMES:
            if self.clock.start is not None and name in own:
                own[name] = self.clock.shown(own[name]).isoformat()  # type: ignore[union-attr]
        if self.parameters is not None:
            if "point" in own:
                own["point"] = self._named(own["point"])
            if "points" in own:
                own["points"] = [self._named(point) for point in own["points"]]
        return own

    def read(self, row: Any) -> Any:
        """Inverse of :meth:`written`.

        Raises:
            KeyError, TypeError, ValueError, InputDataError: If the row is damaged.
        """
        require(isinstance(row, dict), f"{row!r} is no row")
        own = dict(row)
        for name in TIMES:
            if self.clock.start is not None and name in own:
                require(isinstance(own[name], str), f"{name} is {own[name]!r}, which is no date")
                own[name] = self.clock.number(name, datetime.fromisoformat(own[name]), "")
        if self.parameters is not None:
            if "point" in own:
                own["point"] = self._place(own["point"])
            if "points" in own:
                own["points"] = [self._place(point) for point in own["points"]]
        return own

    def _named(self, point: Sequence[float]) -> dict[str, Any]:
        assert self.parameters is not None
        values = self.point(point)
        assert isinstance(values, dict)
        context = list(point[self.parameters.columns :])
        return {**values, CONTEXT: context} if context else {**values}

    def _place(self, values: Any) -> list[float]:
        assert self.parameters is not None
        require(isinstance(values, dict), f"{values!r} is no point")
        own = dict(values)
        context = own.pop(CONTEXT, [])
        place: list[float] = self.parameters.place(own, self._tensor([])).tolist()
        return place + list(context)

    def _tensor(self, point: Sequence[float]) -> Tensor:
        return torch.tensor(point, dtype=self.dtype, device="cpu")


def point_in_words(values: Values) -> str:
    """A point, to six digits."""
    if isinstance(values, dict):
        return ", ".join(f"{name} {in_digits(value)}" for name, value in values.items())
    return short(values)


def in_digits(value: object) -> str:
    """A value of a point, numbers to six digits."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return f"{value:.6g}" if number else str(value)


def parameters_of(domain: Domain) -> Parameters | None:
    """The named parameters of a domain; None where it has none."""
    return domain.parameters if isinstance(domain, Box) else None
