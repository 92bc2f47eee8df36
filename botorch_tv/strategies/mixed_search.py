"""How the best point of numbers and categories is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.inference.process import Looks
from botorch_tv.inference.quasi_newton import Objective, minimize
from botorch_tv.inference.search import (
    MultiStart,
    Region,
    Search,
    Sought,
    Uniform,
    highest,
    raw_points,
    slopes_of,
)
from botorch_tv.strategies.parameters import Choice, Space

RAW = 256
"""Points scored in the first place."""
STARTS = 8
FILLS = 8
"""Measurements that fill a space with categories."""
SWEEPS = ((12, 3), (30, 1))
"""Evaluations per ascent, and how many points go on after it."""
EDGES = 1.3
"""By how much points are pulled apart that are to reach the ends of ranges."""
BLOCK = 2**20
"""Points times observations scored together."""


@dataclass(frozen=True, eq=False)
class MixedSearch(Search):
    """Ascent in what is continuous, and the best of all single changes in what is not, in turns.

    A score is only asked about points that values have, but for numbers of very many values, which
    are rounded in the end: a point rounded after the search may be a poor one. Serves one loop.

    Args:
        space: The parameters.
        fixed: Columns that are not searched, and what they are; None where all are.
    """

    space: Space
    fixed: tuple[slice, Tensor] | None = None

    @property
    def fills(self) -> int:
        """More where there are categories, of which the first few points leave out some."""
        return FILLS if any(isinstance(axis.of, Choice) for axis in self.space.axes) else 0

    def check(self, box: Region) -> None:
        """The box is the unit cube of the space."""

    def best(self, box: Region, sought: Sought) -> Tensor:
        observed = sought.observed
        if len(observed) != 1:
            raise InputDataError(
                f"there are {len(observed)} trials, but categories are searched for one at a time; "
                "play them one by one, or use a Grid of all that may be chosen."
            )
        number, seen = observed.shape[1], observed[0, sought.live[0]]

        def value(X: Tensor) -> Tensor:
            parts = torch.split(X, max(1, BLOCK // max(1, number)))
            with torch.no_grad():
                return torch.cat([sought.score(part.unsqueeze(0), None)[0] for part in parts])

        raw = self._raw(sought.told, observed)
        points = torch.cat([raw, seen])
        if self.fixed is not None:
            points[:, self.fixed[0]] = self.fixed[1].to(points)
        values = value(points)
        known = min(len(seen), STARTS // 3)
        fresh = values[: len(raw)].topk(min(STARTS - known, len(raw))).indices
        X = points[torch.cat([fresh, values[len(raw) :].topk(known).indices + len(raw)])]
        slopes = slopes_of(sought)

        def climb(x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
            values, by = slopes(x.reshape(1, -1, x.shape[-1]), None, -1 / sought.unit)
            return values.view(x.shape[:-1]), by.view_as(x)

        if all(axis.levels is None for axis in self.space.axes):
            X = highest(climb, X.unsqueeze(0), sum(evaluations for evaluations, _ in SWEEPS))
        else:
            for evaluations, left in SWEEPS:
                X, values = self._changed(self._climbed(X, climb, evaluations), value)
                X = X[values.topk(min(left, len(X))).indices]
        X = self.space.rounded(X)
        return X[value(X).argmax()].unsqueeze(0)

    def numbers(self, dim: int, looks: Looks, trials: int) -> int:
        return MultiStart(RAW).numbers(dim, looks, trials)

    def among(self, number: int, dim: int) -> tuple[Tensor, Tensor]:
        like = torch.empty((), dtype=torch.float64, device="cpu")
        even = raw_points(number, len(self.space.axes), 0, like)
        reaching = (EDGES * (even - 0.5) + 0.5).clamp(0, 1)
        return self.space.spread(even), self.space.spread(reaching)

    def first(self, box: Region, like: Tensor) -> Tensor:
        return self.space.spread(like.new_full((1, len(self.space.axes)), 0.5))[0]

    def anywhere(self, box: Region, draws: Uniform) -> Tensor:
        uniform = draws.uniform(len(self.space.axes))
        points = self.space.spread(uniform.reshape(-1, uniform.shape[-1]))
        return self.space.rounded(points).view(*uniform.shape[:-1], -1)

    def _raw(self, told: int, like: Tensor) -> Tensor:
        """Points that fill the space evenly, other ones in every round, `RAW x D`."""
        return self.space.spread(raw_points(RAW, len(self.space.axes), told, like))

    def _climbed(self, X: Tensor, climb: Objective, evaluations: int) -> Tensor:
        """Where ascents in the continuous columns end, `q x D`."""
        fixed = torch.zeros(X.shape[-1], dtype=torch.bool, device=X.device)
        for axis, at in zip(self.space.axes, self.space.places):
            fixed[at] = axis.levels is not None
        if bool(fixed.all()):
            return X
        lower, upper = (torch.where(fixed, X, end) for end in (0.0, 1.0))
        return minimize(climb, X, lower, upper, evaluations=evaluations, value_tolerance=1e-8).x

    def _changed(self, X: Tensor, value: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """Points after the best change of one listed value, or none, and scores, `q x D`, `q`."""
        options = [X.unsqueeze(1)]
        for axis, at in zip(self.space.axes, self.space.places):
            if axis.levels is not None and (self.fixed is None or at != self.fixed[0]):
                others = X.unsqueeze(1).repeat(1, len(axis.levels), 1)
                others[..., at] = axis.levels.to(X)
                options.append(others)
        every = torch.cat(options, 1)
        values = value(every.flatten(0, 1)).view(every.shape[:2])
        best = values.argmax(-1)
        rows = torch.arange(len(X), device=X.device)
        return every[rows, best], values[rows, best]
