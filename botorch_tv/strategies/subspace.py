"""The part of a space of parameters that a search may choose from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.gp.search import raw_points
from botorch_tv.strategies.parameters import DIGITS, BoxParameter, Space

TOLERANCE = 1e-12
"""Rounding error of a limit's formula, relative to its largest value."""
SOME = 256
"""Number of allowed points among which the nearest to any point is found."""
TRIED, MOST_TRIED = 16, 2**17
"""Number of points per point wanted among which points that keep all limits are sought, and number
of points among which any such point is sought."""
REPAIRS = 60
"""Number of steps that move a point until it keeps all limits."""
OVERSHOOT = 1.5
"""Length of such a step, relative to a step that just keeps a limit."""
INWARD = (1e-9, 1e-7, 1e-5, 1e-3, 0.01, 0.03, 0.1, 0.3)
"""Shares of the way to an allowed point, at which a rounded point is tried."""


@dataclass(frozen=True, eq=False)
class Subspace:
    """The points of a space that have held values, lie in given ranges, and keep all limits.

    Args:
        space: The parameters, and the limits on their values.
        fixed: Values of the parameters that are held, indexed by name.
        ranges: Smallest and largest value that some numeric parameters may have, indexed by name;
            positions of values for ordered choices. Both ends are values of the parameter.
    """

    space: Space
    fixed: Mapping[str, Any] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def limited(self) -> bool:
        """Whether there are limits."""
        return bool(self.space.limits)

    @cached_property
    def rows(self) -> list[Tensor | None]:
        """The coordinates of the listed values of each parameter, `k x columns`; None if none."""
        found: list[Tensor | None] = []
        for name, axis in self.space.by_name.items():
            levels, number = axis.levels, axis.number
            if name in self.fixed:
                levels = self._row(axis.unit(self.fixed[name]))
            elif name in self.ranges and number is not None:
                low, high = self.ranges[name]
                lower, upper = number.unit(low), number.unit(high)
                if lower == upper:
                    levels = self._row(lower)
                elif levels is not None:
                    inside = (levels >= lower[0] - 1e-9) & (levels <= upper[0] + 1e-9)
                    levels = levels[inside.squeeze(-1)]
            found.append(levels)
        return found

    @cached_property
    def ends(self) -> tuple[Tensor, Tensor]:
        """Smallest and largest coordinate in each column that is not listed, `D` each."""
        lower = torch.zeros(self.space.columns, dtype=torch.float64, device="cpu")
        upper = lower + 1
        for name, axis, at, rows in self._axes:
            if rows is None and name in self.ranges and axis.number is not None:
                low, high = self.ranges[name]
                lower[at] = lower.new_tensor(axis.number.unit(low))
                upper[at] = upper.new_tensor(axis.number.unit(high))
        return lower, upper

    @cached_property
    def free(self) -> Tensor:
        """Which columns are not listed, `D`, bool."""
        free = torch.zeros(self.space.columns, dtype=torch.bool, device="cpu")
        for _, _, at, rows in self._axes:
            free[at] = rows is None
        return free

    @cached_property
    def stepped(self) -> Tensor:
        """Which columns are not listed, but have steps, `D`, bool."""
        stepped = torch.zeros_like(self.free)
        for _, axis, at, rows in self._axes:
            stepped[at] = rows is None and axis.number is not None and bool(axis.number.step)
        return stepped

    def spread(self, U: Tensor) -> Tensor:
        """Map points of a unit cube with one coordinate per parameter to the space, `q x D`.

        If the values of a parameter are listed, each value gets an interval of equal length. Limits
        are ignored.

        Args:
            U: Points with a coordinate for each parameter, `q x p`.
        """
        parts = []
        lower, upper = (end.to(U) for end in self.ends)
        for (_, _, at, rows), u in zip(self._axes, U.unbind(-1)):
            if rows is None:
                parts.append(lower[at] + (upper[at] - lower[at]) * u.unsqueeze(-1))
            else:
                row = (u * len(rows)).long().clamp_max(len(rows) - 1)
                parts.append(rows.to(U)[row])
        return torch.cat(parts, -1)

    def held(self, X: Tensor) -> Tensor:
        """Points `* x D`, with held values and in the ranges; without limits, no other changes.

        If there are limits, which are not checked, every listed parameter gets its nearest value.
        """
        if not self.fixed and not self.ranges and not self.limited:
            return X
        lower, upper = (end.to(X) for end in self.ends)
        parts = []
        for name, _, at, rows in self._axes:
            part = X[..., at]
            if rows is None and name in self.ranges:
                part = part.clamp(lower[at], upper[at])
            elif rows is not None and (self.limited or name in self.fixed or name in self.ranges):
                rows = rows.to(X)
                row = torch.cdist(part.reshape(-1, part.shape[-1]), rows).argmin(-1)
                part = rows[row].view_as(part)
            parts.append(part)
        return torch.cat(parts, -1)

    def listed(self, most: int) -> Tensor | None:
        """All points, `M x D`; None if a parameter is continuous, or there are more than ``most``.

        Args:
            most: Largest number of points before limits.
        """
        sizes = [0 if rows is None else len(rows) for rows in self.rows]
        return self._every if 0 < math.prod(sizes) <= min(most, MOST_TRIED) else None

    @cached_property
    def _every(self) -> Tensor | None:
        """All points that keep the limits, if all parameters are listed, `M x D`."""
        X = torch.empty(1, 0, dtype=torch.float64, device="cpu")
        for rows in self.rows:
            assert rows is not None
            X = torch.cat([X.repeat_interleave(len(rows), 0), rows.repeat(len(X), 1)], -1)
        if not X.numel():
            return None
        return X[self.allowed(X)] if self.limited else X

    # ---------------------------------------------------------------- limits

    def excess(self, X: Tensor) -> Tensor:
        """How far limits are exceeded, `* x m`, relative to their largest value; at most 0 if kept.

        Args:
            X: Points, `* x D`.
        """
        return self._beyond(X) / self._scales.to(X)

    def slopes(self, X: Tensor, *, worst: bool = False) -> tuple[Tensor, Tensor]:
        """The :meth:`excess` at points `q x D`, `q x m`, and its gradient, `q x m x D`.

        The gradient in the columns of a :class:`Choice` is 0.

        Args:
            X: The points.
            worst: Whether to return only the most exceeded limit of each point, m = 1.
        """
        with torch.enable_grad():
            x = X.detach().requires_grad_()
            excess, none = self.excess(x), 0 * x.sum()  # a limit may not depend on any coordinate
            if worst:
                excess = excess.amax(-1, keepdim=True)
            found = [
                torch.autograd.grad(each.sum() + none, x, retain_graph=True)[0]
                for each in excess.unbind(-1)
            ]
        return excess.detach(), torch.stack(found, -2)

    def allowed(self, X: Tensor, margin: Tensor | float = -TOLERANCE) -> Tensor:
        """Whether points `* x D` keep all limits, `*`, bool.

        Args:
            X: The points.
            margin: How far limits are kept at least, relative to their largest value.
        """
        if not self.limited:
            return torch.ones(X.shape[:-1], dtype=torch.bool, device=X.device)
        return (self.excess(X) <= -margin).all(-1)

    def roomy(self, X: Tensor) -> Tensor:
        """Whether points `* x D` keep all limits even after they are rounded, `*`, bool."""
        return self.allowed(X, self._margin(X))

    def inside(self, number: int, rounds: int, like: Tensor) -> Tensor:
        """Allowed points that fill the subspace evenly, `q x D` with 1 ≤ q ≤ ``number``.

        Args:
            number: Number of points.
            rounds: Number of past rounds; different numbers of rounds give different points.
            like: A tensor of the dtype and device of the result.

        Raises:
            InputDataError: If no point is found.
        """
        if not self.limited:
            return self.spread(raw_points(number, len(self.space.axes), rounds, like))
        found = self._sought(number, TRIED * number, rounds, like)
        return found if len(found) else self.some.to(like)[:number]

    @cached_property
    def some(self) -> Tensor:
        """Allowed points, of which some are near any other allowed point, `q x D`, float64."""
        like = torch.empty((), dtype=torch.float64, device="cpu")
        for tried in (TRIED * SOME, MOST_TRIED):
            found = self._sought(SOME, tried, 0, like)
            if len(found):
                return found
        texts = ", ".join(repr(limit.text) for limit in self.space.limits)
        held = {**self.fixed, **self.ranges}
        where = f" with {', '.join(f'{name}={value}' for name, value in held.items())}"
        raise InputDataError(
            f"constraints: no point{where if held else ' of the box'} was found that keeps "
            f"{texts}; loosen a limit, widen the ranges of the parameters, or hold fewer."
        )

    def _sought(self, number: int, tried: int, rounds: int, like: Tensor) -> Tensor:
        """Allowed points among evenly spread points, and repaired points, if these are too few."""
        listed = self.listed(MOST_TRIED)
        if listed is not None:
            every = max(1, -(-len(listed) // number))
            return listed.to(like)[rounds % every :: every][:number]
        X = self.snapped(self.spread(raw_points(tried, len(self.space.axes), rounds, like)))
        good = self.roomy(X)
        found = X[good][:number]
        if len(found) < number:
            others, good = self.repaired(X[~good][:number])
            found = torch.cat([found, others[good]])[:number]
        return found

    def repaired(
        self, X: Tensor, steps: int = REPAIRS, *, inward: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Move points until they keep all limits, by cyclic projections.

        In each step, a point moves along the gradient of its most exceeded limit. Listed values
        stay, and so do allowed points.

        Args:
            X: Points with listed values, `q x D`.
            steps: Number of steps.
            inward: Whether to move allowed points that may not be allowed after rounding.

        Returns:
            Two tensors: points, `q x D`; and whether they are allowed, `q`, bool.
        """
        good, margin = (self.roomy if inward else self.allowed)(X), self._margin(X).amax()
        before, X = X, X[~good]
        for free in (self.free, self.free & ~self.stepped) if len(X) else ():
            free = free.to(X.device)
            for _ in range(steps if bool(free.any()) else 0):
                worst, by = self.slopes(X, worst=True)
                exceeded = (worst + 2 * margin.clamp_min(0)).clamp_min(0)
                if not bool(exceeded.any()):
                    break
                by = torch.where(free, by.squeeze(-2), 0.0)
                squared = by.square().sum(-1, keepdim=True).clamp_min(torch.finfo(X.dtype).tiny)
                step = OVERSHOOT * exceeded / squared * by
                X = self._clamped(X - step.nan_to_num(0.0, 0.0, 0.0), free)
            X = self.snapped(X)
        after = before.clone()
        after[~good] = X
        return after, good | self.roomy(after)

    def snapped(self, X: Tensor) -> Tensor:
        """Points, `* x D`, with columns that have steps rounded to a step in the range."""
        if not bool(self.stepped.any()):
            return X
        lower, upper = (end.to(X) for end in self.ends)
        parts = []
        for _, axis, at, rows in self._axes:
            part, number = X[..., at], axis.number
            if rows is None and number is not None and number.step:
                steps = ((number.along(part) - number.low) / number.step).round().unsqueeze(-1)
                value, ends = number.low + steps * number.step, (number.low, number.high)
                low, high = (number.scaled(end) for end in ends)
                value = value.clamp(*ends)
                part = ((value.log() if number.log else value) - low) / (high - low)
                part = part.clamp(lower[at], upper[at])
            parts.append(part)
        return torch.cat(parts, -1)

    def rounded(self, X: Tensor, inside: Tensor) -> Tensor:
        """Points, rounded to values of the parameters, that are allowed; `q x D`.

        Where rounding violates a limit, the point moves away from it, else toward an allowed point.

        Args:
            X: Points with listed values, `q x D`.
            inside: An allowed point for each point, with the same listed values, `q x D`.
        """
        found = []
        for end, start, away in zip(X, inside, self.repaired(X, inward=True)[0]):
            back = (self.snapped(torch.lerp(end, start, share)) for share in INWARD)
            every = map(self._values, chain([end, away], back))
            values = next(filter(self._keeps, every), None)
            found.append(start.tolist() if values is None else self.space.point(values))
        return X.new_tensor(found).view_as(X)

    def _values(self, point: Tensor) -> dict[str, Any]:
        """The values at a point `D`, rounded to the stored digits, and in the ranges."""
        values = self.space.params(point)
        for name, axis in self.space.by_name.items():
            if isinstance(axis, BoxParameter) and name not in self.fixed:
                values[name] = axis.rounded(values[name], point.dtype)
                if name in self.ranges:
                    low, high = self.ranges[name]
                    values[name] = min(max(values[name], low), high)
        return values | dict(self.fixed)

    def _keeps(self, values: Mapping[str, Any]) -> bool:
        """Whether values keep all limits, without a tolerance if a parameter is continuous."""
        every = zip(self.space.limits, self._scales.tolist(), self._continuous.tolist())
        for limit, scale, continuous in every:
            rounding = 0.0 if continuous else TOLERANCE * scale
            bound = limit.bound + (rounding if limit.upper else -rounding)
            if not limit.with_bound(bound).keeps(limit.expression.value(values)):
                return False
        return True

    @cached_property
    def _axes(self) -> Sequence[tuple[str, Any, slice, Tensor | None]]:
        """Name, parameter, columns and listed values of each parameter."""
        by_name = self.space.by_name.items()
        pairs = zip(by_name, self.space.places, self.rows)
        return [(name, axis, at, rows) for (name, axis), at, rows in pairs]

    @cached_property
    def _scales(self) -> Tensor:
        """The largest absolute value of each limit's formula or bound, `m`."""
        like = torch.empty((), dtype=torch.float64, device="cpu")
        X = self.spread(raw_points(64, len(self.space.axes), 0, like))
        bounds = [limit.bound for limit in self.space.limits]
        beyond = self._beyond(X).abs().nan_to_num(0.0, 0.0, 0.0).amax(0)
        return torch.maximum(beyond, like.new_tensor(bounds).abs()).clamp_min(1e-300)

    def _beyond(self, X: Tensor) -> Tensor:
        """How far limits are exceeded in their own units, `* x m`; infinite if undefined."""
        names = {name for limit in self.space.limits for name in limit.names}
        values, found = self.space.numbers_at(X, names), []
        for limit in self.space.limits:
            value = limit.expression.value(values)
            found.append(value - limit.bound if limit.upper else limit.bound - value)
        return torch.stack(found, -1).nan_to_num(math.inf, math.inf)

    @cached_property
    def _continuous(self) -> Tensor:
        """Whether each limit has a parameter without steps that is not held, `m`, bool."""
        unlisted = self.free & ~self.stepped
        names = {name for name, _, at, _ in self._axes if bool(unlisted[at].any())}
        every = [not names.isdisjoint(limit.names) for limit in self.space.limits]
        return torch.tensor(every, dtype=torch.bool, device="cpu")

    def _margin(self, like: Tensor) -> Tensor:
        """How far each limit is kept by points that are rounded later, `m`."""
        margin = 10.0 ** (1 - DIGITS[like.dtype])
        return torch.where(self._continuous, margin, -TOLERANCE).to(like)

    def _row(self, coordinates: Sequence[float]) -> Tensor:
        return torch.tensor([coordinates], dtype=torch.float64, device="cpu")

    def _clamped(self, X: Tensor, free: Tensor) -> Tensor:
        lower, upper = (end.to(X) for end in self.ends)
        return torch.where(free, X.clamp(lower, upper), X)
