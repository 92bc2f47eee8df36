"""The search over mixed parameters: numbers, listed values, and limits on the values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.even_points import even_points
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
from botorch_tv.strategies.subspace import Subspace

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
DRAWN = 64
"""Number of random points among which the first that keeps all limits is chosen."""
FEW = 8
"""Number of steps that move continuous parameters after a change of another parameter."""

CHANGES = 4
"""Largest number of changes of listed values after each ascent, if there are limits."""


@dataclass(frozen=True, eq=False)
class MixedSearch(Search):
    """A search that alternates ascent in continuous parameters with changes of listed values.

    The search considers only listed values, because rounding after the search may give a poor
    point. A numeric parameter with more than 64 values is not listed: it is searched as continuous,
    and rounded after the search. If there are limits on the values of parameters, the ascents are
    SLSQP of SciPy, and only points that keep the limits after rounding are chosen. Trials are
    searched one by one.

    Args:
        space: The parameters, and the limits on their values.
        fixed: Values of the parameters that are held and not searched, indexed by name.
        ranges: Ranges of parameters to which the search is restricted; see :class:`Subspace`.
    """

    space: Space
    fixed: Mapping[str, Any] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @cached_property
    def inner(self) -> Subspace:
        """The points that the search may choose."""
        return Subspace(self.space, self.fixed, self.ranges)

    @property
    def fills(self) -> int:
        """Number of first measurements that fill the space; 0 if no parameter has categories."""
        return FILLS if any(axis.number is None for axis in self.space.axes) else 0

    def check(self, box: Region) -> None:
        """Raise an error if no point of the box, which is always a unit cube, can be chosen.

        Args:
            box: The box.

        Raises:
            InputDataError: If no point is found that keeps all limits, or if a held value lies
                outside the range of the search.
        """
        for name in self.fixed.keys() & self.ranges.keys():
            (low, high), value = self.ranges[name], self.fixed[name]
            if not low <= self.space.by_name[name].position(value) <= high:
                raise InputDataError(
                    f"{name} is held at {value!r}, but a limited step allows only values from "
                    f"{low:g} to {high:g}; hold another value, or allow a larger step."
                )
        if self.space.limits:
            self.inner.some  # noqa: B018

    def best(self, box: Region, problem: SearchProblem) -> Tensor:
        observed, inner = problem.observed, self.inner
        if len(observed) != 1:
            if problem.whole:
                raise InputDataError(
                    f"there are {len(observed)} trials, but with this exploration a search over "
                    "categories or within limits takes a single trial; run each trial separately, "
                    "or use a Grid of all combinations."
                )
            return torch.cat([self.best(box, problem.of(trial)) for trial in range(len(observed))])
        number, seen = observed.shape[1], observed[0, problem.live[0]]

        def value(X: Tensor) -> Tensor:
            parts = torch.split(X, max(1, BLOCK // max(1, number)))
            with torch.no_grad():
                return torch.cat([problem.score(part.unsqueeze(0), None)[0] for part in parts])

        raw = self.filling(box, RAW, problem.rounds, observed)
        measured = inner.held(seen.clamp(0, 1))
        if inner.limited:
            measured = inner.snapped(measured)
            measured = measured[inner.allowed(measured)]
        points = torch.cat([raw, measured])
        values = value(points)
        best = min(len(measured), STARTS // 3)
        fresh = values[: len(raw)].topk(min(STARTS - best, len(raw))).indices
        X = points[torch.cat([fresh, values[len(raw) :].topk(best).indices + len(raw)])]
        slopes = slopes_of(problem)

        def climb(x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
            values, by = slopes(x.reshape(1, -1, x.shape[-1]), None, -1 / problem.unit)
            return values.view(x.shape[:-1]), by.view_as(x)

        if inner.limited:
            return self._best_within_limits(X, value, climb)
        free = not self.fixed and not self.ranges
        if free and all(axis.levels is None for axis in self.space.axes):
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
        reaching = self.inner.spread((EDGES * (even - 0.5) + 0.5).clamp(0, 1))
        if not self.inner.limited:
            return self.inner.spread(even), reaching
        found = self.inner.inside(number, 0, like)
        moved, good = self.inner.repaired(self.inner.snapped(reaching))
        return found, torch.cat([found, moved[good]])

    def held(self, X: Tensor) -> Tensor:
        X, inner = self.inner.held(X), self.inner
        if not inner.limited:
            return X
        X = inner.snapped(X)
        rows, some = X.reshape(-1, X.shape[-1]), inner.some.to(X)
        moved, good = inner.repaired(rows)
        apart = torch.cdist(rows, some)
        best = apart.argmin(-1)
        near = (moved - rows).norm(dim=-1) <= apart.amin(-1)
        found = torch.where((good & near).unsqueeze(-1), moved, some[best])
        tight = ~inner.roomy(found)  # rounding of such points may violate a limit
        if bool(tight.any()):
            found[tight] = inner.rounded(found[tight], found[tight])
        return found.view_as(X)

    def unused(self, number: int, seed: int, pending: Collection[Any]) -> Tensor:
        """The first of some evenly spread points, from ``number`` on, that is not pending, `D`.

        If the next ``AHEAD`` points are pending, the result is the first of them.

        Args:
            number: Index of the point in a sequence that fills the space, counted from 0.
            seed: Seed of the sequence.
            pending: Points that are pending, as tuples.
        """
        # If there are limits, each point is the first allowed point of a block of the sequence.
        block = AHEAD if self.inner.limited else 1
        U = even_points(AHEAD * block, len(self.space.axes), seed=seed, first=number * block)
        even = self.held(self._first_allowed(self.inner.spread(U).view(AHEAD, block, -1)))
        return next((X for X in even if tuple(X.tolist()) not in pending), even[0])

    def filling(self, box: Region, number: int, rounds: int, like: Tensor) -> Tensor:
        return self.inner.inside(number, rounds, like)

    def first(self, box: Region, like: Tensor) -> Tensor:
        return self.held(self.inner.spread(like.new_full((1, len(self.space.axes)), 0.5))[0])

    def anywhere(self, box: Region, draws: Uniform) -> Tensor:
        drawn = DRAWN if self.inner.limited else 1
        uniform = draws.uniform(drawn, len(self.space.axes))
        X = self.inner.spread(uniform.flatten(0, -2)).view(*uniform.shape[:-1], -1)
        return self.held(self.space.rounded(self._first_allowed(X)))

    def _first_allowed(self, X: Tensor) -> Tensor:
        """The first of points `* x q x D` that keeps all limits, or the first point, `* x D`."""
        X = self.inner.snapped(X)
        first = self.inner.roomy(X).to(X).argmax(-1)
        return X.take_along_dim(first[..., None, None], -2).squeeze(-2)

    # ---------------------------------------------------------------- without limits

    def _climbed(self, X: Tensor, climb: Objective, evaluations: int) -> Tensor:
        """The end points of ascents from ``X`` in the continuous columns, `q x D`."""
        free = self.inner.free.to(X.device)
        if not bool(free.any()):
            return X
        lower, upper = (torch.where(free, end.to(X), X) for end in self.inner.ends)
        return minimize(climb, X, lower, upper, evaluations=evaluations, value_tolerance=1e-8).x

    def _changed(self, X: Tensor, value: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """Points after the best change of at most one listed value, `q x D`; their scores, `q`.

        The other parameters follow if a limit requires it.
        """
        every = self._options(X)
        flat, good = every.flatten(0, 1), None
        if self.inner.limited:
            flat, good = self.inner.repaired(flat, FEW)
        values = value(flat)
        if good is not None:
            values = values.masked_fill(~good, -torch.inf)
        every, values = flat.view_as(every), values.view(every.shape[:2])
        best = values.argmax(-1)
        rows = torch.arange(len(X), device=X.device)
        return every[rows, best], values[rows, best]

    def _options(self, X: Tensor) -> Tensor:
        """Each point, followed by the points with another listed value, `q x M x D`."""
        options = [X.unsqueeze(1)]
        for at, rows in zip(self.space.places, self.inner.rows):
            if rows is not None and len(rows) > 1:
                others = X.unsqueeze(1).repeat(1, len(rows), 1)
                others[..., at] = rows.to(X)
                options.append(others)
        return torch.cat(options, 1)

    # ---------------------------------------------------------------- with limits

    def _best_within_limits(
        self, X: Tensor, value: Callable[[Tensor], Tensor], climb: Objective
    ) -> Tensor:
        """The best point that keeps all limits, `1 x D`.

        Args:
            X: Allowed points, `q x D`.
            value: A function that computes scores.
            climb: A function that computes negated scores and their gradients.
        """
        free, stepped = self.inner.free, self.inner.stepped
        for evaluations, remaining in SWEEPS:
            X = self._ascended(X, value, climb, evaluations, free)
            for _ in range(CHANGES):
                before, (X, values) = X, self._changed(X, value)
                if torch.equal(X, before):
                    break
            X = X[values.topk(min(remaining, len(X))).indices]
        return self._ascended(X, value, climb, SWEEPS[-1][0], free & ~stepped)

    def _ascended(
        self,
        X: Tensor,
        value: Callable[[Tensor], Tensor],
        climb: Objective,
        evaluations: int,
        free: Tensor,
    ) -> Tensor:
        """Allowed points after ascents from allowed points in some columns, `q x D`."""
        ends = self._ascents(X, climb, evaluations, free) if bool(free.any()) else X
        ends = self.inner.rounded(self.inner.snapped(ends), X)
        return torch.where((value(ends) >= value(X)).unsqueeze(-1), ends, X)

    def _ascents(self, X: Tensor, climb: Objective, evaluations: int, free: Tensor) -> Tensor:
        """The end points of ascents by SLSQP, `q x D`, as one problem with a sum as its score."""
        from scipy.optimize import minimize as slsqp  # type: ignore[import-untyped]

        columns = free.nonzero().squeeze(-1).to(X.device)
        (q, k), m = (len(X), len(columns)), len(self.space.limits)

        def at(u: np.ndarray) -> Tensor:
            return X.index_copy(-1, columns, X.new_tensor(u).view(q, k))

        def score(u: np.ndarray) -> tuple[float, np.ndarray]:
            heights, by = climb(at(u).unsqueeze(0), columns)
            return float(heights.sum()), by[0][:, columns].flatten().double().cpu().numpy()

        def room(u: np.ndarray) -> np.ndarray:
            return -self.inner.excess(at(u)).flatten().double().cpu().numpy()

        def by_room(u: np.ndarray) -> np.ndarray:
            whole = np.zeros((q, m, q, k))
            by = -self.inner.slopes(at(u))[1][..., columns].double().cpu().numpy()
            whole[range(q), :, range(q)] = by
            return whole.reshape(q * m, q * k)

        lower, upper = (end[free].repeat(q).numpy() for end in self.inner.ends)
        found = slsqp(
            score,
            X[:, columns].flatten().double().cpu().numpy(),
            jac=True,
            method="SLSQP",
            bounds=np.stack([lower, upper], -1),
            constraints={"type": "ineq", "fun": room, "jac": by_room},
            options={"maxiter": evaluations, "ftol": 1e-9},
        )
        ends = at(np.clip(found.x, lower, upper))
        return torch.where(ends.isfinite().all(-1, keepdim=True), ends, X)
