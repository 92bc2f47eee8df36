"""Search for the best point of a box, for many trials together."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.even_points import even_points
from botorch_tv.gp.linalg import TIE_TOLERANCE, first_maximum
from botorch_tv.gp.process import SearchSizes
from botorch_tv.gp.quasi_newton import Descent, Objective, members_of
from botorch_tv.gp.tensors import DeviceCopies, Scratch
from botorch_tv.validation import settle_integer

SEARCH_NUMBERS = 2**22
"""Largest number of entries of a matrix while a block of raw samples is scored."""
CLIMBING = 12
"""Number of matrices in memory while a score is differentiated, each with a row per point and a
column per observation."""

AROUND = 4
"""Number of candidates for nearest neighbours, as a multiple of the neighbours required."""
MOST_COLUMNS = 6
"""Largest number of coordinates for which nearest neighbours are found faster among candidates than
among all points."""


def raw_points(number: int, dim: int, rounds: int, like: Tensor) -> Tensor:
    """Points that fill the unit cube evenly and differ between rounds, `number x dim`.

    Args:
        number: Number of points.
        dim: Number of coordinates.
        rounds: Number of past rounds; different numbers of rounds give different points.
        like: A tensor of the dtype and device of the result.
    """
    shift = torch.arange(1, dim + 1, dtype=like.dtype, device=like.device).sqrt()
    golden = (math.sqrt(5) - 1) / 2
    return torch.frac(spread(number, dim).like(like) + rounds * shift * golden)


@functools.lru_cache(maxsize=32)
def spread(number: int, dim: int) -> DeviceCopies:
    """Points that fill the unit cube evenly, `number x dim`."""
    return DeviceCopies(even_points(number, dim))


def peaks_of(raw: Tensor, values: Tensor) -> Tensor:
    """Scores of raw points, `trials x M`; -infinity for a point with a better neighbour.

    The neighbours of a point are the 2 d + 2 nearest raw points.

    Args:
        raw: Points from :func:`raw_points`, `M x d`.
        values: Scores of the raw points, `trials x M`.
    """
    near = nearest(raw, min(2 * raw.shape[-1] + 2, len(raw) - 1))
    if not near.shape[-1]:
        return values
    return values.masked_fill(values < values[:, near].amax(-1), -math.inf)


def nearest(raw: Tensor, wanted: int) -> Tensor:
    """The nearest neighbours of each raw point, in any order, `M x wanted`, int64.

    The candidates are the nearest neighbours on a torus. On the torus, the raw points of different
    rounds are translations of each other, so all rounds have the same candidates. Points that are
    close in the cube are also close on the torus. All points are searched instead of the
    candidates if the candidates may lack a neighbour of a point, if there are few points, if there
    are more than :data:`MOST_COLUMNS` coordinates, or if the device is not a CPU.
    """
    number, dim = raw.shape
    some = AROUND * wanted
    if raw.device.type != "cpu" or dim > MOST_COLUMNS or not 0 < some < number:
        return _among_all(raw, slice(None), wanted)
    around, reach = _around(number, dim, some)
    apart = (raw[around] - raw.unsqueeze(1)).square().sum(-1)
    least, place = apart.topk(wanted, largest=False)
    found = around.gather(-1, place)
    sure = 1 - torch.finfo(raw.dtype).eps ** 0.5  # a factor below 1 allows for rounding errors
    beyond = (least[:, -1] >= sure * reach).nonzero().squeeze(-1)
    if len(beyond):
        found[beyond] = _among_all(raw, beyond, wanted)
    return found


def _among_all(raw: Tensor, rows: Tensor | slice, wanted: int) -> Tensor:
    """Indices of the nearest neighbours of some points, searched among all points."""
    return torch.cdist(raw[rows], raw).topk(wanted + 1, largest=False).indices[:, 1:]


@functools.lru_cache(maxsize=16)
def _around(number: int, dim: int, some: int) -> tuple[Tensor, Tensor]:
    """The nearest neighbours of each of ``number`` points on a torus.

    The distance of two points in the cube is at least their distance on the torus.

    Returns:
        Two tensors: the indices of the neighbours, `number x some`; and the squared distance of the
        farthest of these neighbours, `number`.
    """
    points = even_points(number, dim)
    apart = points.new_zeros(number, number)
    for column in points.T:
        away = column.unsqueeze(-1) - column
        apart += (away - away.round()).square()
    apart.fill_diagonal_(math.inf)
    least, place = apart.topk(some, largest=False)
    return place.contiguous(), least.amax(-1)


PointScore = Callable[[Tensor, Tensor | None], Tensor]
"""A function that maps points, `trials x q x d`, to their scores, `trials x q`. Its second argument
contains the numbers of the trials that the points belong to, None for all trials. If gradients are
recorded, the scores are differentiable. Otherwise points are processed in blocks, and points that
all trials share are evaluated only once if possible."""


Climbed = Callable[[Tensor, Tensor | None, float], tuple[Tensor, Tensor]]
"""A function whose arguments are those of a :data:`PointScore`, followed by a factor. It returns
the score times the factor, `trials x q`, and the gradient of this product with respect to the
points, `trials x q x d`."""


class SearchProblem(NamedTuple):
    """The problem of a search: to find the point with the highest score in every trial."""

    score: PointScore
    observed: Tensor
    """Measured points from which a search may start, `trials x n x d`."""
    live: Tensor
    """Which of the measured points are in use, `trials x n`, bool."""
    rounds: int
    """Number of past rounds; it changes the raw points, so different rounds try different
    points."""
    unit: float
    """Unit of the scores, in which ties and progress are measured."""
    whole: bool = False
    """Whether the score must be evaluated for all trials at once."""
    climbed: Climbed | None = None
    """Score and gradient by explicit derivatives; None for automatic differentiation."""

    def of(self, trial: int) -> SearchProblem:
        """The problem of a single trial; the score must not be evaluated for all trials at once."""
        score, climbed, only = self.score, self.climbed, slice(trial, trial + 1)
        number = torch.tensor([trial], device=self.observed.device)
        return self._replace(
            score=lambda X, _: score(X, number),
            climbed=None if climbed is None else lambda X, _, factor: climbed(X, number, factor),
            observed=self.observed[only],
            live=self.live[only],
        )

    coarse: bool = False
    """Whether differences of 1e-5 units do not matter."""
    brief: bool = False
    """Whether differences of 0.02 units do not matter, because progress is slow: along limits."""


class Region(Protocol):
    """The attributes and methods of a :class:`~botorch_tv.strategies.Box` that a search uses."""

    @property
    def dim(self) -> int:
        """Dimension d of the box."""

    def from_unit(self, U: Tensor) -> Tensor:
        """Map points of the unit cube to the box, `* x d`."""

    def to_unit(self, X: Tensor) -> Tensor:
        """Map points of the box to the unit cube, `* x d`."""

    def by_unit(self, by: Tensor) -> Tensor:
        """Convert derivatives in the box to derivatives in the unit cube, `* x d`."""

    def center(self, like: Tensor) -> Tensor:
        """The centre of the box, `d`, in the dtype and on the device of ``like``."""

    def require_inside(self, X: Tensor, name: str = "X") -> None:
        """Raise an ``InputDataError`` unless all points `* x d` lie in the box."""


SCOUTING = 12
"""Number of evaluations after which, at the latest, only the best ascents of a trial continue."""
FUTILE = 100.0
"""Largest difference between the score of an ascent and the best score in its trial, as a multiple
of the increase that the next step of the ascent promises. An ascent farther behind ends."""
TOLERANCES = 1e-8, 1e-6
"""Tolerances of value and gradient at which an ascent ends."""
USUAL, COARSE = (512, 60, TOLERANCES), (256, 30, (1e-5, 1e-3))
"""Default numbers of raw samples and of evaluations, and tolerances; and the same for scores whose
differences of 1e-5 units do not matter."""
BRIEF = 7
"""Number of evaluations, besides 3 for 2 coordinates, if differences of 0.02 units do not matter.

Along a limit, later steps gain little: on the average 0.02 units in six coordinates, less in fewer.
"""


class Uniform(Protocol):
    """A source of random numbers for trials."""

    def uniform(self, *event_shape: int) -> Tensor:
        """Variates uniform on [0, 1), `batch_shape x event_shape`."""


class Search(ABC):
    """A way to maximise a score over a box."""

    @property
    def fills(self) -> int:
        """Number of initial measurements that fill the box if the model has no prior knowledge."""
        return 0

    def check(self, box: Region) -> None:  # noqa: B027 - most searches can be used on any box
        """Raise an ``InputDataError`` unless this search can be used on the box.

        Args:
            box: The box.

        Raises:
            InputDataError: If the search cannot be used on the box.
        """

    @abstractmethod
    def best(self, box: Region, problem: SearchProblem) -> Tensor:
        """The best point of every trial, `trials x d`.

        Args:
            box: The box to search.
            problem: The score to maximise, the observations, and the unit of scores.
        """

    def numbers(self, dim: int, sizes: SearchSizes, trials: int) -> int:
        """Number of values in memory during :meth:`best`.

        Args:
            dim: Dimension of the box.
            sizes: Sizes of the search.
            trials: Number of trials searched together.
        """
        return _numbers_of_scores(512 + sizes.starts, sizes, trials)

    def among(self, number: int, dim: int) -> tuple[Tensor, Tensor] | None:
        """Points of the unit cube that fill the feasible set.

        Args:
            number: Number of points.
            dim: Dimension of the cube.

        Returns:
            Two tensors, each `number x dim`, float64: a sequence of points, whose first points
            alone also fill the set evenly; and points that reach the boundary of the set. None if
            the whole cube is feasible.
        """
        return None

    def held(self, X: Tensor) -> Tensor:
        """Points, `* x d`, with the held coordinates at their values; by default, none is held."""
        return X

    def filling(self, box: Region, number: int, rounds: int, like: Tensor) -> Tensor:
        """Feasible points that fill the box and differ between rounds, `number x d`.

        Args:
            box: The box.
            number: Number of points.
            rounds: Number of past rounds.
            like: A tensor of the dtype and device of the result, any shape.
        """
        return box.from_unit(raw_points(number, box.dim, rounds, like))

    def first(self, box: Region, like: Tensor) -> Tensor:
        """The point to choose if all scores are equal, `d`.

        Args:
            box: The box.
            like: A tensor of the dtype and device of the result, any shape.
        """
        return box.center(like)

    def anywhere(self, box: Region, draws: Uniform) -> Tensor:
        """A random point of the box for every trial, `batch_shape x d`.

        Args:
            box: The box.
            draws: The source of random numbers.
        """
        return box.from_unit(draws.uniform(box.dim))


@dataclass(frozen=True, eq=False)
class DiscreteSearch(Search):
    """Restrict the choice to given points; if points tie, the first point is chosen, as on a grid.

    Args:
        X: The points, `M x d`.
    """

    X: Tensor

    @functools.cached_property
    def _points(self) -> DeviceCopies:
        return DeviceCopies(self.X)

    def check(self, box: Region) -> None:
        X = self.X
        shaped = isinstance(X, Tensor) and X.shape[1:] == (box.dim,) and len(X) > 0
        if not shaped or not X.is_floating_point():
            given = f"{X.dtype} of {tuple(X.shape)}" if isinstance(X, Tensor) else type(X).__name__
            raise InputDataError(
                f"DiscreteSearch: X is {given}, but it must be a floating-point tensor of shape "
                f"M x {box.dim}, one point per row; pass torch.tensor(X, dtype=torch.float64)."
            )
        box.require_inside(self.X, "DiscreteSearch: X")

    def best(self, box: Region, problem: SearchProblem) -> Tensor:
        X = self._points.like(problem.observed)
        with torch.no_grad():
            values = problem.score(X.expand(len(problem.observed), *X.shape), None)
        return X[first_maximum(values, TIE_TOLERANCE * problem.unit, Scratch())]

    def numbers(self, dim: int, sizes: SearchSizes, trials: int) -> int:
        return _numbers_of_scores(len(self.X), sizes, trials)

    def filling(self, box: Region, number: int, rounds: int, like: Tensor) -> Tensor:
        return self._points.like(like)

    def first(self, box: Region, like: Tensor) -> Tensor:
        return self._points.like(like)[0]

    def anywhere(self, box: Region, draws: Uniform) -> Tensor:
        uniform = draws.uniform()
        # In single precision the uniform number may be rounded to 1.
        number = (uniform * len(self.X)).long().clamp_max(len(self.X) - 1)
        return self._points.like(uniform)[number]


@dataclass(frozen=True)
class MultiStart(Search):
    """Search a box by gradient ascent from the best of many points.

    Raw samples fill the box evenly and differ between rounds. Projected quasi-Newton ascents start
    from samples that are better than their neighbours, and from the best observations. All ascents
    of all trials run together; after a few steps only the best third of the ascents of each trial
    continues. The search uses no random numbers.

    Args:
        raw_samples: Number of raw samples, at least 1; None for 512, or 256 for the adaptive
            strategy.
        restarts: Number of ascents per trial, at least 1; None for 4 + 3 d.
        evaluations: Largest number of steps per ascent, at least 1; None for 60, or 30 for the
            adaptive strategy.

    Raises:
        ValueError: If an argument is below 1 or not an integer.
    """

    raw_samples: int | None = None
    restarts: int | None = None
    evaluations: int | None = None

    def __post_init__(self) -> None:
        usual = {"raw_samples": "512", "restarts": "4 + 3 d", "evaluations": "60"}
        for name, value in usual.items():
            if getattr(self, name) is not None:
                settle_integer(self, name, 1, f"use {value}.")

    def best(self, box: Region, problem: SearchProblem) -> Tensor:
        _, evaluations, tolerances = COARSE if problem.coarse else USUAL
        evaluations = BRIEF + 3 * box.dim // 2 if problem.brief else evaluations
        start, evaluations = self._starts(box, problem), self.evaluations or evaluations
        return box.from_unit(highest(_climb(box, problem), start, evaluations, tolerances))

    def numbers(self, dim: int, sizes: SearchSizes, trials: int) -> int:
        starts = 4 + 3 * dim if self.restarts is None else self.restarts
        raw_samples = self.raw_samples or USUAL[0]
        points = raw_samples + sizes.starts
        together = points if trials == 1 else max(raw_samples, sizes.starts)
        scores = _numbers_of_scores(together, sizes, trials)
        climbs = trials * starts * (CLIMBING * sizes.compared + 2 * sizes.besides)
        distances = raw_samples**2
        return max(scores, climbs, distances) + trials * points * (dim + 3)

    def _starts(self, box: Region, problem: SearchProblem) -> Tensor:
        """Starting points of the ascents in the unit cube, `trials x starts x d`."""
        observed = problem.observed
        raw_samples = self.raw_samples or (COARSE if problem.coarse else USUAL)[0]
        raw = raw_points(raw_samples, box.dim, problem.rounds, observed)
        points = torch.cat([raw.expand(len(observed), -1, -1), box.to_unit(observed)], 1)
        with torch.no_grad():
            if len(observed) == 1:  # points of a single trial are scored together
                every = problem.score(box.from_unit(points), None)
                values, seen = every[:, : len(raw)], every[:, len(raw) :]
            else:
                values = problem.score(box.from_unit(raw).expand(len(observed), -1, -1), None)
                seen = values[:, :0]
                if observed.shape[1]:
                    seen = problem.score(box.from_unit(points[:, len(raw) :]), None)
        seen = seen.masked_fill(~problem.live, -math.inf)
        peaks = peaks_of(raw, values)
        restarts = 4 + 3 * box.dim if self.restarts is None else self.restarts
        heights, number = peaks.topk(min(restarts, len(raw)))
        # If there are fewer peaks than starts, the lowest peak is repeated.
        lowest = (heights > -math.inf).sum(-1, keepdim=True) - 1
        number = torch.where(heights > -math.inf, number, number.gather(-1, lowest))
        measured = min(restarts // 3, seen.shape[1], number.shape[1])
        fresh, last = torch.split(number, [number.shape[1] - measured, measured], -1)
        # The best observations replace the lowest peaks. A trial with few observations retains more
        # peaks.
        heights, rows = seen.topk(measured)
        last = torch.where(heights > -math.inf, rows + len(raw), last.flip(-1))
        return members_of(points, torch.cat([fresh, last], -1))


def highest(
    climb: Objective,
    start: Tensor,
    evaluations: int,
    tolerances: tuple[float, float] = TOLERANCES,
) -> Tensor:
    """The end point of each trial's best ascent, `trials x d`.

    After a few evaluations, only the best third of the ascents of a trial continues.

    Args:
        climb: A function that computes the negated score, in the unit of scores, and its gradient
            at points of the unit cube.
        start: Starting points, `trials x starts x d`.
        evaluations: Largest number of steps per ascent.
        tolerances: Tolerances of value and gradient at which an ascent ends.
    """
    starts = start.shape[1]
    ascent = Descent(climb, start, 0.0, 1.0, *tolerances, FUTILE)
    ascent.go(min(SCOUTING, evaluations // 2), blindly=True)
    # Ascents that mirror each other tie up to rounding; then the ascent from the better raw sample
    # wins.
    rank = (ascent.value / TIE_TOLERANCE).round().argsort(stable=True)
    ascent.go_on_with(rank[:, : math.ceil(starts / 3)])
    ascent.go(evaluations)
    best = first_maximum(-ascent.value, TIE_TOLERANCE, Scratch()).unsqueeze(-1)
    return members_of(ascent.x, best).squeeze(1)


def slopes_of(problem: SearchProblem) -> Climbed:
    """A function that computes score and gradient, explicitly if possible, else by autograd."""

    def recorded(X: Tensor, trials: Tensor | None, factor: float) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            X = X.detach().requires_grad_()
            values = problem.score(X, trials)
            # Differentiate a sum, because a tensor of weights would make autograd import SymPy.
            (gradient,) = torch.autograd.grad(factor * values.sum(), X)
        return values.detach() * factor, gradient

    return recorded if problem.climbed is None else problem.climbed


def _climb(box: Region, problem: SearchProblem) -> Objective:
    """A function that computes the negated score, in the unit of scores, and its gradient."""
    every, slopes = len(problem.observed), slopes_of(problem)

    def objective(x: Tensor, trials: Tensor) -> tuple[Tensor, Tensor]:
        part, points = None if len(trials) == every else trials, x
        if part is not None and problem.whole:
            points = x.new_full((every, *x.shape[1:]), 0.5).index_copy_(0, trials, x)
        values, by = slopes(
            box.from_unit(points), None if problem.whole else part, -1 / problem.unit
        )
        by = box.by_unit(by)
        if points is not x:
            values, by = values.index_select(0, trials), by.index_select(0, trials)
        return values, by

    return objective


def _numbers_of_scores(points: int, sizes: SearchSizes, trials: int) -> int:
    """Number of values in memory while ``points`` points of every trial are scored."""
    whole = trials * max(1, sizes.compared)
    block = min(points, max(1, SEARCH_NUMBERS // whole))
    return block * (sizes.matrices * whole + trials * sizes.besides)
