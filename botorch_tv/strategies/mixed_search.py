"""The search over mixed parameters: numbers, and values that are listed."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.gp.process import SearchSizes
from botorch_tv.gp.quasi_newton import Objective, minimize
from botorch_tv.gp.search import (
    MultiStart,
    Region,
    Search,
    SearchProblem,
    Uniform,
    highest,
    raw_points,
    slopes_of,
)
from botorch_tv.strategies.parameters import Space

RAW = 256
"""Number of new points that are scored before the first ascent."""
STARTS = 8
FILLS = 8
"""Number of first measurements that fill the space if a parameter has categories."""
AHEAD = 16
"""Number of evenly spread points among which the first that is not pending is suggested."""
SWEEPS = ((12, 3), (30, 1))
"""For each sweep, the number of evaluations per ascent, and how many points the sweep retains."""
EDGES = 1.3
"""Factor by which points are spread from the centre, to reach the ends of ranges."""
BLOCK = 2**20
"""Largest product of the number of points that are scored together and the number of observations.
"""


@dataclass(frozen=True, eq=False)
class MixedSearch(Search):
    """A search that alternates ascent in continuous parameters with changes of listed values.

    The search considers only listed values, because rounding after the search may give a poor
    point. A numeric parameter with more than 64 values is not listed: it is searched as continuous,
    and rounded after the search. The search serves a single trial.

    Args:
        space: The parameters.
        fixed: Values of the parameters that are held and not searched, indexed by name.
    """

    space: Space
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fills(self) -> int:
        """Number of first measurements that fill the space; 0 if no parameter has categories."""
        return FILLS if any(axis.number is None for axis in self.space.axes) else 0

    def check(self, box: Region) -> None:
        """Accept every box; no check is needed, because the box is always a unit cube."""

    def best(self, box: Region, problem: SearchProblem) -> Tensor:
        observed = problem.observed
        if len(observed) != 1:
            raise InputDataError(
                f"there are {len(observed)} trials, but a search over categories takes a single "
                "trial; run each trial separately, or use a Grid of all combinations."
            )
        number, seen = observed.shape[1], observed[0, problem.live[0]]

        def value(X: Tensor) -> Tensor:
            parts = torch.split(X, max(1, BLOCK // max(1, number)))
            with torch.no_grad():
                return torch.cat([problem.score(part.unsqueeze(0), None)[0] for part in parts])

        raw = self.filling(box, RAW, problem.rounds, observed)
        points = torch.cat([raw, self.held(seen.clamp(0, 1))])
        values = value(points)
        best = min(len(seen), STARTS // 3)
        fresh = values[: len(raw)].topk(min(STARTS - best, len(raw))).indices
        X = points[torch.cat([fresh, values[len(raw) :].topk(best).indices + len(raw)])]
        slopes = slopes_of(problem)

        def climb(x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
            values, by = slopes(x.reshape(1, -1, x.shape[-1]), None, -1 / problem.unit)
            return values.view(x.shape[:-1]), by.view_as(x)

        if not self.fixed and all(axis.levels is None for axis in self.space.axes):
            X = highest(climb, X.unsqueeze(0), sum(evaluations for evaluations, _ in SWEEPS))
        else:
            for evaluations, remaining in SWEEPS:
                X, values = self._changed(self._climbed(X, climb, evaluations), value)
                X = X[values.topk(min(remaining, len(X))).indices]
        X = self.held(self.space.rounded(X))
        return X[value(X).argmax()].unsqueeze(0)

    def numbers(self, dim: int, sizes: SearchSizes, trials: int) -> int:
        return MultiStart(RAW).numbers(dim, sizes, trials)

    def among(self, number: int, dim: int) -> tuple[Tensor, Tensor]:
        like = torch.empty((), dtype=torch.float64, device="cpu")
        even = raw_points(number, len(self.space.axes), 0, like)
        reaching = (EDGES * (even - 0.5) + 0.5).clamp(0, 1)
        return self.space.spread(even), self.space.spread(reaching)

    def held(self, X: Tensor) -> Tensor:
        values = self._values.to(X)
        return torch.where(values.isnan(), X, values)

    @cached_property
    def _values(self) -> Tensor:
        """The coordinates of the held parameters, NaN for the others, `D`."""
        row = torch.full((self.space.columns,), math.nan, dtype=torch.float64, device="cpu")
        for (name, axis), at in zip(self.space.by_name.items(), self.space.places):
            if name in self.fixed:
                row[at] = row.new_tensor(axis.unit(self.fixed[name]))
        return row

    def unused(self, number: int, seed: int, pending: Collection[Any]) -> Tensor:
        """The first point of :meth:`Space.filling` from ``number`` on that is not pending, `D`.

        If the next ``AHEAD`` points are pending, the result is the first of them.
        """
        every = range(number, number + AHEAD)
        even = [self.held(self.space.filling(each, seed)) for each in every]
        return next((X for X in even if tuple(X.tolist()) not in pending), even[0])

    def filling(self, box: Region, number: int, rounds: int, like: Tensor) -> Tensor:
        raw = raw_points(number, len(self.space.axes), rounds, like)
        return self.held(self.space.spread(raw))

    def first(self, box: Region, like: Tensor) -> Tensor:
        return self.held(self.space.spread(like.new_full((1, len(self.space.axes)), 0.5))[0])

    def anywhere(self, box: Region, draws: Uniform) -> Tensor:
        uniform = draws.uniform(len(self.space.axes))
        points = self.space.spread(uniform.reshape(-1, uniform.shape[-1]))
        return self.held(self.space.rounded(points).view(*uniform.shape[:-1], -1))

    def _climbed(self, X: Tensor, climb: Objective, evaluations: int) -> Tensor:
        """The end points of ascents from ``X`` in the continuous columns, `q x D`."""
        fixed = ~self._values.to(X).isnan()
        for axis, at in zip(self.space.axes, self.space.places):
            fixed[at] |= axis.levels is not None
        if bool(fixed.all()):
            return X
        lower, upper = (torch.where(fixed, X, end) for end in (0.0, 1.0))
        return minimize(climb, X, lower, upper, evaluations=evaluations, value_tolerance=1e-8).x

    def _changed(self, X: Tensor, value: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """Points after the best change of at most one listed value, `q x D`; their scores, `q`."""
        options = [X.unsqueeze(1)]
        for (name, axis), at in zip(self.space.by_name.items(), self.space.places):
            if axis.levels is not None and name not in self.fixed:
                others = X.unsqueeze(1).repeat(1, len(axis.levels), 1)
                others[..., at] = axis.levels.to(X)
                options.append(others)
        every = torch.cat(options, 1)
        values = value(every.flatten(0, 1)).view(every.shape[:2])
        best = values.argmax(-1)
        rows = torch.arange(len(X), device=X.device)
        return every[rows, best], values[rows, best]
