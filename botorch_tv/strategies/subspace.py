"""The part of a space of parameters that a search may choose from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.gp.search import raw_points
from botorch_tv.strategies.parameters import DIGITS, Space

TOLERANCE = 1e-12
"""Rounding error of a limit's formula, relative to its largest value."""
SOME = 1024
"""Largest number of points that represent all points that keep the limits."""
TRIED, MOST_TRIED = 16, 2**17
"""Number of points per such point among which these are sought, and number of points among which
any such point is sought."""
REPAIRS = 60
"""Number of steps that move a point until it keeps all limits."""
OVERSHOOT = 1.5
"""Length of such a step, relative to a step that just keeps a limit."""
INWARD = (0.0, 1e-9, 1e-7, 1e-5, 1e-3, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Shares of the way to an allowed point, at which an allowed point is sought."""


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
    def parts(self) -> list[tuple[str, Any, slice, Tensor | None]]:
        """Name, parameter, columns, and listed values, `k x columns` or None, of each parameter."""
        found = []
        for name, axis, at in self.space.parts:
            rows, (lower, upper) = axis.levels, (end[at] for end in self.ends)
            if name in self.fixed:
                rows = lower.new_tensor([axis.unit(self.fixed[name])])
            elif name in self.ranges and torch.equal(lower, upper):
                rows = lower.unsqueeze(0)
            elif name in self.ranges and rows is not None:
                rows = rows[((rows >= lower - 1e-9) & (rows <= upper + 1e-9)).all(-1)]
            found.append((name, axis, at, rows))
        return found

    @cached_property
    def ends(self) -> tuple[Tensor, Tensor]:
        """Smallest and largest coordinate in each column of a numeric parameter, `D` each."""
        lower = torch.zeros(self.space.columns, dtype=torch.float64, device="cpu")
        upper = torch.ones_like(lower)
        for name, axis, at in self.space.parts:
            if name in self.ranges and axis.number is not None:
                low, high = map(axis.number.unit, self.ranges[name])
                lower[at], upper[at] = lower.new_tensor(low), lower.new_tensor(high)
        return lower, upper

    @cached_property
    def continuous(self) -> set[str]:
        """The names of the parameters that are neither held, nor listed, nor have steps."""
        return {
            name
            for name, axis, _, rows in self.parts
            if rows is None and axis.columns and not axis.number.step
        }

    def columns(self, *, stepped: bool) -> Tensor:
        """Which columns are not listed, `D`, bool.

        Args:
            stepped: Whether columns that have steps count.
        """
        every = [
            name in self.continuous or (stepped and rows is None)
            for name, axis, _, rows in self.parts
            for _ in range(axis.columns)
        ]
        return torch.tensor(every, dtype=torch.bool, device="cpu")

    def listed(self, most: int) -> Tensor | None:
        """All points, `M x D`; None if a parameter is continuous, or there are more than ``most``.

        Args:
            most: Largest number of points before limits.
        """
        every = [rows for *_, rows in self.parts if rows is not None]
        total = math.prod(len(rows) for rows in every)
        if len(every) < len(self.parts) or total > most or not self.space.columns:
            return None
        X = torch.empty(1, 0, dtype=torch.float64, device="cpu")
        for rows in every:
            X = torch.cat([X.repeat_interleave(len(rows), 0), rows.repeat(len(X), 1)], -1)
        return X[(self.excess(X) <= TOLERANCE).all(-1)] if self.limited else X

    def spread(self, U: Tensor) -> Tensor:
        """Map points of a unit cube with one coordinate per parameter to the space, `q x D`.

        If the values of a parameter are listed, each value gets an interval of equal length. Limits
        are ignored.

        Args:
            U: Points with a coordinate for each parameter, `q x p`.
        """
        found = []
        lower, upper = (end.to(U) for end in self.ends)
        for (_, _, at, rows), u in zip(self.parts, U.unbind(-1)):
            if rows is None:
                found.append(lower[at] + (upper[at] - lower[at]) * u.unsqueeze(-1))
            else:
                row = (u * len(rows)).long().clamp_max(len(rows) - 1)
                found.append(rows.to(U)[row])
        return torch.cat(found, -1)

    def snapped(self, X: Tensor) -> Tensor:
        """Points `* x D`, with held values and in the ranges; limits are ignored.

        If there are limits, all coordinates are moved to listed values, steps and ranges.
        """
        found = []
        lower, upper = (end.to(X) for end in self.ends)
        for name, axis, at, rows in self.parts:
            part = X[..., at]
            if not self.limited and name not in self.fixed and name not in self.ranges:
                pass
            elif rows is None:
                if self.limited and axis.number.step:
                    part = axis.number.stepped(axis.number.along(part)).unsqueeze(-1)
                part = part.clamp(lower[at], upper[at])
            else:
                rows = rows.to(X)
                row = torch.cdist(part.reshape(-1, part.shape[-1]), rows).argmin(-1)
                part = rows[row].view_as(part)
            found.append(part)
        return torch.cat(found, -1)

    # ---------------------------------------------------------------- limits

    def excess(self, X: Tensor) -> Tensor:
        """How far limits are exceeded, `* x m`, relative to their largest value; at most 0 if kept.

        Args:
            X: Points, `* x D`.
        """
        return self._beyond(X) / self._scales.to(X)

    def slopes(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """The :meth:`excess` at points `q x D`, `q x m`, and its gradient, `q x m x D`.

        The gradient in the columns of a :class:`Choice` is 0.

        Args:
            X: The points.
        """
        with torch.enable_grad():
            x = X.detach().requires_grad_()
            excess, none = self.excess(x), 0 * x.sum()  # a limit may not depend on any coordinate
            found = [
                torch.autograd.grad(each.sum() + none, x, retain_graph=True)[0]
                for each in excess.unbind(-1)
            ]
        return excess.detach(), torch.stack(found, -2)

    def roomy(self, X: Tensor) -> Tensor:
        """Whether points `* x D` keep all limits even after they are rounded, `*`, bool."""
        return (self.excess(X) <= -self._margin(X)).all(-1)

    def held(self, X: Tensor) -> Tensor:
        """The nearest points `* x D` with held values, in the ranges, that keep all limits.

        If there are limits, these are kept exactly after values are rounded to the stored digits.
        A point moves away from limits that it exceeds, and then toward an allowed point.

        Args:
            X: The points.
        """
        if not self.fixed and not self.ranges and not self.limited:
            return X
        X = self.snapped(X)
        if not self.limited:
            return X
        found = X.reshape(-1, X.shape[-1]).clone()
        good, tight = self.roomy(found), (self.excess(found) <= TOLERANCE).all(-1)
        for row in (tight & ~good).nonzero().flatten().tolist():
            found[row], good[row] = self._exact(found[row])
        if not bool(good.all()):
            bad, some = found[~good], self.some.to(X)
            shares = X.new_tensor(INWARD).view(-1, 1, 1)
            inside = some[torch.cdist(bad, some).argmin(-1)]
            way = self.snapped(torch.lerp(self.pushed(bad), inside, shares))
            first = self.roomy(way).to(torch.uint8).argmax(0)
            found[~good] = way[first, torch.arange(len(bad), device=X.device)]
        return found.view_as(X)

    def pushed(self, X: Tensor, steps: int = REPAIRS) -> Tensor:
        """Move points that exceed limits, by cyclic projections, `q x D`; some may still do so.

        In each step, a point moves along the gradient of its most exceeded limit. Listed values
        stay; steps are rounded, and then only continuous parameters move.

        Args:
            X: Points with listed values, `q x D`.
            steps: Number of steps.
        """
        rows, margin = torch.arange(len(X), device=X.device), 2 * self._margin(X).clamp_min(0)
        for stepped in (True, False):
            free = self.columns(stepped=stepped).to(X.device)
            lower, upper = (torch.where(free, end.to(X), X) for end in self.ends)
            for _ in range(steps if bool(free.any()) else 0):
                excess, slopes = self.slopes(X)
                worst, limit = (excess + margin).max(-1, keepdim=True)
                if not bool((worst > 0).any()):
                    break
                by = torch.where(free, slopes[rows, limit.squeeze(-1)], 0.0)
                squared = by.square().sum(-1, keepdim=True).clamp_min(torch.finfo(X.dtype).tiny)
                step = OVERSHOOT * worst.clamp_min(0) / squared * by
                X = (X - step.nan_to_num(0.0, 0.0, 0.0)).clamp(lower, upper)
            X = self.snapped(X)
        return X

    def even(self, number: int, rounds: int, like: Tensor) -> Tensor:
        """Points that fill the subspace evenly, `q x D` with 1 ≤ q ≤ ``number``.

        Args:
            number: Number of points.
            rounds: Number of past rounds; other rounds have other points, as far as limits permit.
            like: A tensor of the dtype and device of the result.

        Raises:
            InputDataError: If no point is found that keeps all limits.
        """
        if self.limited:
            return self.some.to(like).roll(-number * rounds, 0)[:number]
        return self.spread(raw_points(number, len(self.space.axes), rounds, like))

    @cached_property
    def some(self) -> Tensor:
        """Points that keep all limits and fill the subspace evenly, `q x D`, float64."""
        like, found = torch.empty((), dtype=torch.float64, device="cpu"), self.listed(MOST_TRIED)
        for tried in (TRIED * SOME, MOST_TRIED) if found is None else ():
            X = self.snapped(self.spread(raw_points(tried, len(self.space.axes), 0, like)))
            good = self.roomy(X)
            moved = self.pushed(X[~good][: max(0, SOME - int(good.sum()))])
            found = torch.cat([X[good], moved[self.roomy(moved)]])[:SOME]
            if len(found):
                return found
        if found is not None and len(found):
            generator = torch.Generator("cpu").manual_seed(0)
            return found[torch.randperm(len(found), generator=generator, device="cpu")[:SOME]]
        texts = ", ".join(repr(limit.text) for limit in self.space.limits)
        held = {**self.fixed, **self.ranges}
        where = f" with {', '.join(f'{name}={value}' for name, value in held.items())}"
        raise InputDataError(
            f"constraints: no point{where if held else ' of the box'} was found that keeps "
            f"{texts}; loosen a limit, widen the ranges of the parameters, or hold fewer."
        )

    def _exact(self, point: Tensor) -> tuple[Tensor, bool]:
        """A point `D`, rounded to the stored digits, and whether it then keeps all limits."""
        values = self.space.read(point) | dict(self.fixed)
        keeps = [limit.keeps(limit.expression.value(values)) for limit in self.space.limits]
        rounded = point.new_tensor(self.space.point(values))
        return rounded, all(good or not own for good, own in zip(keeps, self._rounds.tolist()))

    def _beyond(self, X: Tensor) -> Tensor:
        """How far limits are exceeded in their own units, `* x m`; infinite if undefined."""
        names = {name for limit in self.space.limits for name in limit.names}
        values, found = self.space.numbers_at(X, names), []
        for limit in self.space.limits:
            value = limit.expression.value(values)
            found.append(value - limit.bound if limit.upper else limit.bound - value)
        return torch.stack(found, -1).nan_to_num(math.inf, math.inf)

    @cached_property
    def _scales(self) -> Tensor:
        """The largest absolute value of each limit's formula or bound, `m`."""
        like = torch.empty((), dtype=torch.float64, device="cpu")
        X = self.spread(raw_points(64, len(self.space.axes), 0, like))
        bounds = [limit.bound for limit in self.space.limits]
        beyond = self._beyond(X).abs().nan_to_num(0.0, 0.0, 0.0).amax(0)
        return torch.maximum(beyond, like.new_tensor(bounds).abs()).clamp_min(1e-300)

    @cached_property
    def _rounds(self) -> Tensor:
        """Whether each limit has a continuous parameter, whose values are rounded, `m`, bool."""
        every = [not self.continuous.isdisjoint(limit.names) for limit in self.space.limits]
        return torch.tensor(every, dtype=torch.bool, device="cpu")

    def _margin(self, like: Tensor) -> Tensor:
        """How far each limit is kept by points that are rounded later, `m`."""
        return torch.where(self._rounds, 10.0 ** (1 - DIGITS[like.dtype]), -TOLERANCE).to(like)
