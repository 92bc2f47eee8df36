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
from botorch_tv.gp.process import Looks
from botorch_tv.gp.quasi_newton import Descent, Objective
from botorch_tv.gp.tensors import DeviceCopies, Scratch
from botorch_tv.validation import settle_integer

SEARCH_NUMBERS = 2**22
"""Number of entries in the largest matrix of a block of raw samples."""
CLIMBING = 12
"""Number of matrices of points against observations in memory while a score is differentiated."""

AROUND = 4
"""Number of candidates for the nearest points, as a multiple of the points required."""
MOST_COLUMNS = 6
"""Largest number of coordinates for which candidates are faster than a search of all points."""


def raw_points(number: int, dim: int, rounds: int, like: Tensor) -> Tensor:
    """Points that fill the unit cube evenly and differ between rounds, `number x dim`.

    Args:
        number: Number of points.
        dim: Number of coordinates.
        rounds: Number of past rounds.
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
    """Values of raw points that are at least those of their 2 d + 2 neighbours; else -infinity.

    Args:
        raw: Points from :func:`raw_points`, `M x d`.
        values: Their values, `trials x M`.
    """
    near = nearest(raw, min(2 * raw.shape[-1] + 2, len(raw) - 1))
    if not near.shape[-1]:
        return values
    return values.masked_fill(values < values[:, near].amax(-1), -math.inf)


def nearest(raw: Tensor, wanted: int) -> Tensor:
    """The nearest neighbours of each raw point, in any order, `M x wanted`, int64.

    On a torus, the raw points of all rounds are translations of each other, and neighbours in the
    cube are also close on the torus. The candidates are the neighbours on the torus. If the
    neighbours of a point may not be among its candidates, or the device is not a CPU, all points
    are searched.
    """
    number, dim = raw.shape
    some = AROUND * wanted
    if raw.device.type != "cpu" or dim > MOST_COLUMNS or not 0 < some < number:
        return _among_all(raw, slice(None), wanted)
    around, reach = _around(number, dim, some)
    apart = (raw[around] - raw.unsqueeze(1)).square().sum(-1)
    least, place = apart.topk(wanted, largest=False)
    found = around.gather(-1, place)
    sure = 1 - torch.finfo(raw.dtype).eps ** 0.5  # closer distances may differ by rounding only
    beyond = (least[:, -1] >= sure * reach).nonzero().squeeze(-1)
    if len(beyond):
        found[beyond] = _among_all(raw, beyond, wanted)
    return found


def _among_all(raw: Tensor, rows: Tensor | slice, wanted: int) -> Tensor:
    """The nearest neighbours of some points, among all points."""
    return torch.cdist(raw[rows], raw).topk(wanted + 1, largest=False).indices[:, 1:]


@functools.lru_cache(maxsize=16)
def _around(number: int, dim: int, some: int) -> tuple[Tensor, Tensor]:
    """Nearest neighbours on a torus, `number x some`, and the squared distance of the last.

    A distance in the cube is at least the distance on the torus.
    """
    points = even_points(number, dim)
    apart = points.new_zeros(number, number)
    for column in points.T:
        away = column.unsqueeze(-1) - column
        apart += (away - away.round()).square()
    apart.fill_diagonal_(math.inf)
    least, place = apart.topk(some, largest=False)
    return place.contiguous(), least.amax(-1)


Score = Callable[[Tensor, Tensor | None], Tensor]
"""Scores points, `trials x q x d -> trials x q`, differentiably if gradients are recorded. Without
gradients, points are processed in blocks, and points expanded over the trials are evaluated once
where possible. The second argument gives the trials of the points, None for all."""


Climbed = Callable[[Tensor, Tensor | None, float], tuple[Tensor, Tensor]]
"""A factor times the score, `trials x q`, and its gradient by the points, `trials x q x d`; the
first two arguments are those of a score."""


class Sought(NamedTuple):
    """The problem of a search: the highest score of every trial."""

    score: Score
    observed: Tensor
    """Measured points from which a search may start, `trials x n x d`."""
    live: Tensor
    """Which of these are in use, `trials x n`, bool."""
    rounds: int
    """Number of rounds so far, so that different rounds try different points."""
    unit: float
    """Unit of scores, for ties and progress."""
    whole: bool = False
    """Whether the score must be evaluated for all trials at once."""
    climbed: Climbed | None = None
    """Score and gradient by explicit derivatives; None for automatic differentiation."""


class Region(Protocol):
    """The attributes and methods of a :class:`~botorch_tv.strategies.Box` that a search uses."""

    @property
    def dim(self) -> int:
        """Dimension d of its points."""

    def from_unit(self, U: Tensor) -> Tensor:
        """Map points of the unit cube to the box, `* x d`."""

    def to_unit(self, X: Tensor) -> Tensor:
        """Map points of the box to the unit cube, `* x d`."""

    def by_unit(self, by: Tensor) -> Tensor:
        """Derivatives by points of the unit cube, from those by points of the box, `* x d`."""

    def center(self, like: Tensor) -> Tensor:
        """The centre, `d`."""

    def require_inside(self, X: Tensor, name: str = "X") -> None:
        """Raise an ``InputDataError`` unless all points `* x d` lie in the box."""


SCOUTING = 12
"""Evaluations after which only the best ascents of a trial continue."""
FUTILE = 100.0
"""An ascent ends if the best ascent of its trial leads by more than this many times the increase
that its next step promises."""
TOLERANCES = 1e-8, 1e-6
"""Tolerances of value and gradient at which an ascent ends."""


class Uniform(Protocol):
    """A source of random numbers for trials."""

    def uniform(self, *event_shape: int) -> Tensor:
        """Variates uniform on [0, 1), `batch_shape x event_shape`."""


class Search(ABC):
    """A way to maximise a score over a box."""

    @property
    def fills(self) -> int:
        """Number of space-filling measurements before a model without prior knowledge chooses."""
        return 0

    @abstractmethod
    def check(self, box: Region) -> None:
        """Raise unless this search fits the box.

        Args:
            box: The box.

        Raises:
            InputDataError: If it does not fit.
        """

    @abstractmethod
    def best(self, box: Region, sought: Sought) -> Tensor:
        """The best point of every trial, `trials x d`.

        Args:
            box: The box to search.
            sought: The score, the observations and their units.
        """

    def numbers(self, dim: int, looks: Looks, trials: int) -> int:
        """Numbers in memory in :meth:`best`.

        Args:
            dim: Dimension of the box.
            looks: Sizes of the search.
            trials: Number of trials searched together.
        """
        return _numbers_of_scores(512 + looks.familiar, looks, trials)

    def among(self, number: int, dim: int) -> tuple[Tensor, Tensor] | None:
        """Points of the unit cube that fill the feasible set, each `number x dim`, float64.

        Args:
            number: Number of points.
            dim: Dimension of the cube.

        Returns:
            A sequence whose first points also fill the set evenly, and points that reach its
            boundary; None if the whole cube is feasible.
        """
        return None

    @abstractmethod
    def first(self, box: Region, like: Tensor) -> Tensor:
        """The point to choose if all scores are equal, `d`.

        Args:
            box: The box.
            like: A tensor of the dtype and device of the result, any shape.
        """

    @abstractmethod
    def anywhere(self, box: Region, draws: Uniform) -> Tensor:
        """A random point, `batch_shape x d`.

        Args:
            box: The box.
            draws: The source of random numbers.
        """


@dataclass(frozen=True, eq=False)
class DiscreteSearch(Search):
    """Restrict the choice to given points; of tied points the first is chosen, as on a grid.

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

    def best(self, box: Region, sought: Sought) -> Tensor:
        X = self._points.like(sought.observed)
        with torch.no_grad():
            values = sought.score(X.expand(len(sought.observed), *X.shape), None)
        return X[first_maximum(values, TIE_TOLERANCE * sought.unit, Scratch())]

    def numbers(self, dim: int, looks: Looks, trials: int) -> int:
        return _numbers_of_scores(len(self.X), looks, trials)

    def first(self, box: Region, like: Tensor) -> Tensor:
        return self._points.like(like)[0]

    def anywhere(self, box: Region, draws: Uniform) -> Tensor:
        uniform = draws.uniform()
        # In single precision the number may be rounded to 1.
        number = (uniform * len(self.X)).long().clamp_max(len(self.X) - 1)
        return self._points.like(uniform)[number]


@dataclass(frozen=True)
class MultiStart(Search):
    """Search a box by gradient ascent from the best of many points.

    Raw samples fill the box evenly and differ between rounds. Projected quasi-Newton ascents start
    from samples that are better than their neighbours, and from the best observations. All ascents
    of all trials run together; after a few steps only the best third of each trial continues. The
    search uses no random numbers.

    Args:
        raw_samples: Number of points scored first, at least 1.
        restarts: Ascents per trial, at least 1; None for 4 + 3 d.
        evaluations: Largest number of steps per ascent, at least 1.

    Raises:
        ValueError: If a number is less than 1 or not whole.
    """

    raw_samples: int = 512
    restarts: int | None = None
    evaluations: int = 60

    def __post_init__(self) -> None:
        settle_integer(self, "raw_samples", 1, "use 512.")
        if self.restarts is not None:
            settle_integer(self, "restarts", 1, "use 4 + 3 d.")
        settle_integer(self, "evaluations", 1, "use 60.")

    def check(self, box: Region) -> None:
        pass

    def best(self, box: Region, sought: Sought) -> Tensor:
        start = self._starts(box, sought)
        return box.from_unit(highest(_climb(box, sought), start, self.evaluations))

    def numbers(self, dim: int, looks: Looks, trials: int) -> int:
        starts = 4 + 3 * dim if self.restarts is None else self.restarts
        points = self.raw_samples + looks.familiar
        together = points if trials == 1 else max(self.raw_samples, looks.familiar)
        scores = _numbers_of_scores(together, looks, trials)
        climbs = trials * starts * (CLIMBING * looks.compared + 2 * looks.besides)
        distances = self.raw_samples**2
        return max(scores, climbs, distances) + trials * points * (dim + 3)

    def _starts(self, box: Region, sought: Sought) -> Tensor:
        """Starting points of the ascents in the unit cube, `trials x starts x d`."""
        observed = sought.observed
        raw = raw_points(self.raw_samples, box.dim, sought.rounds, observed)
        points = torch.cat([raw.expand(len(observed), -1, -1), box.to_unit(observed)], 1)
        with torch.no_grad():
            if len(observed) == 1:  # a single trial scores all points together
                every = sought.score(box.from_unit(points), None)
                values, seen = every[:, : len(raw)], every[:, len(raw) :]
            else:
                values = sought.score(box.from_unit(raw).expand(len(observed), -1, -1), None)
                seen = values[:, :0]
                if observed.shape[1]:
                    seen = sought.score(box.from_unit(points[:, len(raw) :]), None)
        seen = seen.masked_fill(~sought.live, -math.inf)
        peaks = peaks_of(raw, values)
        restarts = 4 + 3 * box.dim if self.restarts is None else self.restarts
        heights, number = peaks.topk(min(restarts, len(raw)))
        # With fewer peaks than starts, the lowest peak is repeated.
        lowest = (heights > -math.inf).sum(-1, keepdim=True) - 1
        number = torch.where(heights > -math.inf, number, number.gather(-1, lowest))
        familiar = min(restarts // 3, seen.shape[1], number.shape[1])
        fresh, last = torch.split(number, [number.shape[1] - familiar, familiar], -1)
        # Observations replace the last peaks, if the trial has enough observations.
        heights, rows = seen.topk(familiar)
        last = torch.where(heights > -math.inf, rows + len(raw), last.flip(-1))
        return _at(points, torch.cat([fresh, last], -1))

    def first(self, box: Region, like: Tensor) -> Tensor:
        return box.center(like)

    def anywhere(self, box: Region, draws: Uniform) -> Tensor:
        return box.from_unit(draws.uniform(box.dim))


def highest(climb: Objective, start: Tensor, evaluations: int) -> Tensor:
    """The end of the best of several ascents, `trials x starts x d -> trials x d`.

    After a few evaluations only the best third of a trial's ascents continues.

    Args:
        climb: Minus the score in its unit, and its gradient, at points of the unit cube.
        start: Starting points, `trials x starts x d`.
        evaluations: Largest number of steps per ascent.
    """
    starts = start.shape[1]
    ascent = Descent(climb, start, 0.0, 1.0, *TOLERANCES, FUTILE)
    ascent.go(min(SCOUTING, evaluations), blindly=True)
    # Mirror images tie up to rounding; the first, from the better raw sample, wins.
    rank = (ascent.value / TIE_TOLERANCE).round().argsort(stable=True)
    ascent.go_on_with(rank[:, : math.ceil(starts / 3)])
    ascent.go(evaluations)
    best = first_maximum(-ascent.value, TIE_TOLERANCE, Scratch()).unsqueeze(-1)
    return _at(ascent.x, best).squeeze(1)


def _at(points: Tensor, number: Tensor) -> Tensor:
    """Some points of each trial, `trials x M x d` and `trials x k` to `trials x k x d`."""
    return points.gather(1, number.unsqueeze(-1).expand(-1, -1, points.shape[-1]))


def slopes_of(sought: Sought) -> Climbed:
    """Score and gradient, by automatic differentiation without explicit derivatives."""

    def recorded(X: Tensor, trials: Tensor | None, factor: float) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            X = X.detach().requires_grad_()
            values = sought.score(X, trials)
            # A sum, because a tensor of weights would make autograd import SymPy.
            (gradient,) = torch.autograd.grad(factor * values.sum(), X)
        return values.detach() * factor, gradient

    return recorded if sought.climbed is None else sought.climbed


def _climb(box: Region, sought: Sought) -> Objective:
    """Minus the score in its unit, and its gradient, at points of the unit cube."""
    every, slopes = len(sought.observed), slopes_of(sought)

    def objective(x: Tensor, trials: Tensor) -> tuple[Tensor, Tensor]:
        part, points = None if len(trials) == every else trials, x
        if part is not None and sought.whole:
            points = x.new_full((every, *x.shape[1:]), 0.5).index_copy_(0, trials, x)
        values, by = slopes(box.from_unit(points), None if sought.whole else part, -1 / sought.unit)
        by = box.by_unit(by)
        if points is not x:
            values, by = values.index_select(0, trials), by.index_select(0, trials)
        return values, by

    return objective


def _numbers_of_scores(points: int, looks: Looks, trials: int) -> int:
    """Numbers in memory while ``points`` points of every trial are scored."""
    whole = trials * max(1, looks.compared)
    block = min(points, max(1, SEARCH_NUMBERS // whole))
    return block * (looks.matrices * whole + trials * looks.besides)
