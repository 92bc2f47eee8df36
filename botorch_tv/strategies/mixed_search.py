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
from botorch_tv.strategies.subspace import SOME, Subspace

RAW = 256
"""Number of new points that are scored before the first ascent, if there are no limits."""
STARTS = 8
"""Number of ascents; within limits, there are twice as many."""
FILLS = 8
"""Number of first measurements that fill the space if a parameter has categories."""
AHEAD = 16
"""Number of evenly spread points among which the first that is not pending is suggested."""
SWEEPS = ((12, 3), (30, 1))
"""For each sweep, the number of evaluations per ascent, and how many points the sweep retains."""
EDGES = 1.3
"""Factor by which points are spread from the centre, to reach the ends of ranges."""
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
        slopes = slopes_of(problem)

        @torch.no_grad()
        def value(X: Tensor) -> Tensor:
            return problem.score(X.unsqueeze(0), None)[0]

        def climb(x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
            values, by = slopes(x.reshape(1, -1, x.shape[-1]), None, -1 / problem.unit)
            return values.view(x.shape[:-1]), by.view_as(x)

        raw = self.even(SOME if self.limited else RAW, problem.rounds, observed)
        measured = self.held(observed[0, problem.live[0]].clamp(0, 1))
        points = torch.cat([raw, measured])
        values = value(points)
        many = 2 if self.limited else 1  # limits make local maxima
        best = min(len(measured), many * STARTS // 3)
        fresh = values[: len(raw)].topk(min(many * STARTS - best, len(raw))).indices
        X = points[torch.cat([fresh, values[len(raw) :].topk(best).indices + len(raw)])]
        free = not self.fixed and not self.ranges and not self.limited
        if free and all(axis.levels is None for axis in self.space.axes):
            X = highest(climb, X.unsqueeze(0), sum(evaluations for evaluations, _ in SWEEPS))
        else:
            for evaluations, remaining in SWEEPS:
                X = self._climbed(X, climb, evaluations)
                for _ in range(CHANGES if self.limited else 1):
                    before, (X, values) = X, self._changed(X, value)
                    if torch.equal(X, before):
                        break
                X = X[values.topk(min(many * remaining, len(X))).indices]
        if self.limited:
            X = self._climbed(X, climb, SWEEPS[-1][0], stepped=False)
        else:
            X = self.held(self.space.rounded(X))
        return X[value(X).argmax()].unsqueeze(0)

    def numbers(self, dim: int, sizes: SearchSizes, trials: int) -> int:
        return MultiStart(RAW).numbers(dim, sizes, trials)

    def among(self, number: int, dim: int) -> tuple[Tensor, Tensor]:
        like = torch.empty((), dtype=torch.float64, device="cpu")
        U = EDGES * (raw_points(number, len(self.space.axes), 0, like) - 0.5) + 0.5
        even, edges = self.even(number, 0, like), self.held(self.spread(U.clamp(0, 1)))
        return even, torch.cat([even, edges]) if self.limited else edges

    def unused(self, number: int, seed: int, pending: Collection[Any]) -> Tensor:
        """The first of some evenly spread points, from ``number`` on, that is not pending, `D`.

        If the next ``AHEAD`` points are pending, the result is the first of them.

        Args:
            number: Index of the point in a sequence that fills the space, counted from 0.
            seed: Seed of the sequence.
            pending: Points that are pending, as tuples.
        """
        if self.limited:
            even = self.some.roll(-number - seed % len(self.some), 0)[:AHEAD]
        else:
            U = even_points(AHEAD, len(self.space.axes), seed=seed, first=number)
            even = self.held(self.spread(U))
        return next((X for X in even if tuple(X.tolist()) not in pending), even[0])

    def filling(self, box: Region, number: int, rounds: int, like: Tensor) -> Tensor:
        return self.even(number, rounds, like)

    def first(self, box: Region, like: Tensor) -> Tensor:
        return self.held(self.spread(like.new_full((1, len(self.space.axes)), 0.5))[0])

    def anywhere(self, box: Region, draws: Uniform) -> Tensor:
        U = draws.uniform(1, len(self.space.axes))
        X = self.space.rounded(self.spread(U.flatten(0, -2)))
        if self.limited:
            row = (draws.uniform() * len(self.some)).long().clamp_max(len(self.some) - 1)
            X = torch.where(self.roomy(X).unsqueeze(-1), X, self.some.to(X)[row.flatten()])
        return self.held(X).view(*U.shape[:-2], -1)

    def _climbed(
        self, X: Tensor, climb: Objective, evaluations: int, *, stepped: bool = True
    ) -> Tensor:
        """The end points of ascents from ``X`` in unlisted columns, `q x D`.

        If there are limits, ``X`` and the end points keep them, and no score decreases.

        Args:
            X: Starting points, `q x D`.
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
        ends = self.held(self._slsqp(X, climb, evaluations, free))
        before, after = climb(torch.stack([X, ends]), free)[0]
        return torch.where((after <= before).unsqueeze(-1), ends, X)

    def _changed(self, X: Tensor, value: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """Points after the best change of at most one listed value, `q x D`; their scores, `q`.

        The other parameters follow if a limit requires it.
        """
        options = [X.unsqueeze(1)]
        for _, _, at, rows in self.parts:
            if rows is not None and len(rows) > 1:
                others = X.unsqueeze(1).repeat(1, len(rows), 1)
                others[..., at] = rows.to(X)
                options.append(others)
        every = torch.cat(options, 1)
        flat = every[:, 1:].flatten(0, 1)
        if self.limited:
            flat = self.pushed(flat, FEW)
            every[:, 1:] = flat.view_as(every[:, 1:])
        values = value(every.flatten(0, 1)).view(every.shape[:2])
        if self.limited:
            values[:, 1:].masked_fill_(~self.roomy(every[:, 1:]), -torch.inf)
        best, rows = values.argmax(-1), torch.arange(len(X), device=X.device)
        return every[rows, best], values[rows, best]

    def _slsqp(self, X: Tensor, climb: Objective, evaluations: int, free: Tensor) -> Tensor:
        """The end points of ascents by SLSQP, `q x D`, as one problem with a sum as its score."""
        from scipy.optimize import minimize as slsqp  # type: ignore[import-untyped]

        columns = free.nonzero().squeeze(-1)

        def array(part: Tensor) -> np.ndarray:
            return part.double().cpu().numpy()

        def at(u: np.ndarray) -> Tensor:
            return X.index_copy(-1, columns, X.new_tensor(u).view(len(X), -1))

        def score(u: np.ndarray) -> tuple[float, np.ndarray]:
            heights, by = climb(at(u).unsqueeze(0), columns)
            return float(heights.sum()), array(by[0][:, columns].flatten())

        def room(u: np.ndarray) -> np.ndarray:
            return array(-self.excess(at(u)).flatten())

        def by_room(u: np.ndarray) -> np.ndarray:
            return array(torch.block_diag(*-self.slopes(at(u))[1][..., columns]))  # type: ignore[no-untyped-call]

        bounds = np.tile(array(torch.stack(self.ends, -1)[free.cpu()]), (len(X), 1))
        start, limits = X[:, columns].flatten(), {"type": "ineq", "fun": room, "jac": by_room}
        options = {"maxiter": evaluations, "ftol": 1e-9}
        usual = {"jac": True, "method": "SLSQP", "bounds": bounds, "constraints": limits}
        ends = at(np.clip(slsqp(score, array(start), **usual, options=options).x, *bounds.T))
        return torch.where(ends.isfinite().all(-1, keepdim=True), ends, X)
