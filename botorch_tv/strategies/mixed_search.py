"""The search over mixed parameters: numbers, listed values, and limits on the values."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
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
from botorch_tv.strategies.subspace import TRIED, Subspace

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
class MixedSearch(Subspace, Search):
    """A search that alternates ascent in continuous parameters with changes of listed values.

    The search considers only listed values, because rounding after the search may give a poor
    point. A numeric parameter with more than 64 values is not listed: it is searched as continuous,
    and rounded after the search. If there are limits on the values of parameters, the ascents are
    SLSQP of SciPy, and only points that keep the limits after rounding are chosen. Trials are
    searched one by one.

    Args:
        space, fixed, ranges: The points that the search may choose; see :class:`Subspace`.
    """

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
        if self.limited:
            self.some  # noqa: B018

    def best(self, box: Region, problem: SearchProblem) -> Tensor:
        observed = problem.observed
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

        raw = self.even(RAW, problem.rounds, observed)
        measured = self.held(seen.clamp(0, 1))
        points = torch.cat([raw, measured])
        values = value(points)
        best = min(len(measured), STARTS // 3)
        fresh = values[: len(raw)].topk(min(STARTS - best, len(raw))).indices
        X = points[torch.cat([fresh, values[len(raw) :].topk(best).indices + len(raw)])]
        slopes = slopes_of(problem)

        def climb(x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
            values, by = slopes(x.reshape(1, -1, x.shape[-1]), None, -1 / problem.unit)
            return values.view(x.shape[:-1]), by.view_as(x)

        free = not self.fixed and not self.ranges and not self.limited
        if free and all(axis.levels is None for axis in self.space.axes):
            X = highest(climb, X.unsqueeze(0), sum(evaluations for evaluations, _ in SWEEPS))
        else:
            for evaluations, remaining in SWEEPS:
                X = self._climbed(X, value, climb, evaluations)
                for _ in range(CHANGES if self.limited else 1):
                    before, (X, values) = X, self._changed(X, value)
                    if torch.equal(X, before):
                        break
                X = X[values.topk(min(remaining, len(X))).indices]
        if self.limited:
            return self._climbed(X, value, climb, SWEEPS[-1][0], stepped=False)
        X = self.held(self.space.rounded(X))
        return X[value(X).argmax()].unsqueeze(0)

    def numbers(self, dim: int, sizes: SearchSizes, trials: int) -> int:
        return MultiStart(RAW).numbers(dim, sizes, trials)

    def among(self, number: int, dim: int) -> tuple[Tensor, Tensor]:
        like = torch.empty((), dtype=torch.float64, device="cpu")
        even = raw_points(number, len(self.space.axes), 0, like)
        edges = self.inside((EDGES * (even - 0.5) + 0.5).clamp(0, 1), number)
        even = self.even(number, 0, like)
        return even, torch.cat([even, edges]) if self.limited else edges

    def unused(self, number: int, seed: int, pending: Collection[Any]) -> Tensor:
        """The first of some evenly spread points, from ``number`` on, that is not pending, `D`.

        If the next ``AHEAD`` points are pending, the result is the first of them.

        Args:
            number: Index of the point in a sequence that fills the space, counted from 0.
            seed: Seed of the sequence.
            pending: Points that are pending, as tuples.
        """
        first, tried, wanted = number, AHEAD, AHEAD
        if self.limited:  # only some points of the sequence are allowed
            first, wanted = 0, number + AHEAD
            tried = TRIED * wanted
        U = even_points(tried, len(self.space.axes), seed=seed, first=first)
        even = self.inside(U, wanted).roll(first - number, 0)[:AHEAD]
        return next((X for X in self.held(even) if tuple(X.tolist()) not in pending), even[0])

    def filling(self, box: Region, number: int, rounds: int, like: Tensor) -> Tensor:
        return self.even(number, rounds, like)

    def first(self, box: Region, like: Tensor) -> Tensor:
        return self.held(self.spread(like.new_full((1, len(self.space.axes)), 0.5))[0])

    def anywhere(self, box: Region, draws: Uniform) -> Tensor:
        uniform = draws.uniform(DRAWN if self.limited else 1, len(self.space.axes))
        each = uniform.view(-1, *uniform.shape[-2:])
        X = (
            torch.cat([self.inside(U, 1) for U in each])
            if self.limited
            else self.spread(each[:, 0])
        )
        return self.held(self.space.rounded(X)).view(*uniform.shape[:-2], -1)

    def _climbed(
        self,
        X: Tensor,
        value: Callable[[Tensor], Tensor],
        climb: Objective,
        evaluations: int,
        *,
        stepped: bool = True,
    ) -> Tensor:
        """The end points of ascents from ``X`` in unlisted columns, `q x D`.

        If there are limits, ``X`` and the end points keep them, and no score decreases.

        Args:
            X: Starting points, `q x D`.
            value: A function that computes scores.
            climb: A function that computes negated scores and their gradients.
            evaluations: Largest number of evaluations per ascent.
            stepped: Whether to change columns that have steps.
        """
        free = self.columns(stepped=stepped).to(X.device)
        if not bool(free.any()):
            return X
        lower, upper = (torch.where(free, end.to(X), X) for end in self.ends)
        if not self.limited:
            return minimize(climb, X, lower, upper, evaluations=evaluations, value_tolerance=1e-8).x
        ends = self.held(self._slsqp(X, climb, evaluations, free), X)
        return torch.where((value(ends) >= value(X)).unsqueeze(-1), ends, X)

    def _changed(self, X: Tensor, value: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """Points after the best change of at most one listed value, `q x D`; their scores, `q`.

        The other parameters follow if a limit requires it.
        """
        options = [X.unsqueeze(1)]
        for (_, _, at), rows in zip(self.space.parts, self.rows):
            if rows is not None and len(rows) > 1:
                others = X.unsqueeze(1).repeat(1, len(rows), 1)
                others[..., at] = rows.to(X)
                options.append(others)
        every = torch.cat(options, 1)
        if self.limited:
            every[:, 1:] = self.pushed(every[:, 1:].flatten(0, 1), FEW).view_as(every[:, 1:])
        values = value(every.flatten(0, 1)).view(every.shape[:2])
        if self.limited:
            values[:, 1:].masked_fill_(~self.roomy(every[:, 1:]), -torch.inf)
        best = values.argmax(-1)
        rows = torch.arange(len(X), device=X.device)
        return every[rows, best], values[rows, best]

    def _slsqp(self, X: Tensor, climb: Objective, evaluations: int, free: Tensor) -> Tensor:
        """The end points of ascents by SLSQP, `q x D`, as one problem with a sum as its score."""
        from scipy.optimize import minimize as slsqp  # type: ignore[import-untyped]

        columns, (lower, upper) = free.nonzero().squeeze(-1), self.ends

        def at(u: np.ndarray) -> Tensor:
            return X.index_copy(-1, columns, X.new_tensor(u).view(len(X), -1))

        def array(part: Tensor) -> np.ndarray:
            return part.double().cpu().numpy()

        def score(u: np.ndarray) -> tuple[float, np.ndarray]:
            heights, by = climb(at(u).unsqueeze(0), columns)
            return float(heights.sum()), array(by[0][:, columns].flatten())

        def by_room(u: np.ndarray) -> np.ndarray:
            return array(torch.block_diag(*-self.slopes(at(u))[1][..., columns]))

        bounds = np.tile(array(torch.stack([lower, upper], -1)[free.cpu()]), (len(X), 1))
        room = {
            "type": "ineq",
            "fun": lambda u: array(-self.excess(at(u)).flatten()),
            "jac": by_room,
        }
        found = slsqp(
            score,
            array(X[:, columns].flatten()),
            jac=True,
            method="SLSQP",
            bounds=bounds,
            constraints=room,
            options={"maxiter": evaluations, "ftol": 1e-9},
        )
        ends = at(np.clip(found.x, *bounds.T))
        return torch.where(ends.isfinite().all(-1, keepdim=True), ends, X)
