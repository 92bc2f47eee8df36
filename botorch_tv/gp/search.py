"""Search for the best point of a box, for many trials at once."""

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
"""Numbers in the largest matrix of a block of raw samples."""
CLIMBING = 12
"""Matrices of points against either where its derivative is computed besides."""

AROUND = 4
"""Times as many points as are wanted are looked at for those nearest to a point in a cube."""
MOST_COLUMNS = 6
"""Up to so many coordinates that takes less time than to look at all of them."""


def raw_points(number: int, dim: int, rounds: int, like: Tensor) -> Tensor:
    """Points that fill the unit cube evenly, other ones in every round, `number x dim`.

    Args:
        number: How many.
        dim: Coordinates of each.
        told: Rounds told.
        like: A tensor of the dtype and device wanted.
    """
    shift = torch.arange(1, dim + 1, dtype=like.dtype, device=like.device).sqrt()
    golden = (math.sqrt(5) - 1) / 2
    return torch.frac(spread(number, dim).like(like) + rounds * shift * golden)


@functools.lru_cache(maxsize=32)
def spread(number: int, dim: int) -> DeviceCopies:
    """Points that fill the unit cube evenly, `number x dim`."""
    return DeviceCopies(even_points(number, dim))


def peaks_of(raw: Tensor, values: Tensor) -> Tensor:
    """Values of raw points that none of the 2 d + 2 nearest to them exceeds, others minus infinity.

    Args:
        raw: As :func:`raw_points` gives them, `M x d`.
        values: `trials x M`.
    """
    near = nearest(raw, min(2 * raw.shape[-1] + 2, len(raw) - 1))
    if not near.shape[-1]:
        return values
    return values.masked_fill(values < values[:, near].amax(-1), -math.inf)


def nearest(raw: Tensor, wanted: int) -> Tensor:
    """The raw points nearest to each of them, in any order, `M x wanted`, int64.

    Raw points of all rounds are the same on a torus. Those near to a point in the cube are near to
    it there, too, so that only these are looked at; and all for points in a corner of the cube,
    whose nearest may not be among them. A device is not waited for, and looks at all.
    """
    number, dim = raw.shape
    some = AROUND * wanted
    if raw.device.type != "cpu" or dim > MOST_COLUMNS or not 0 < some < number:
        return _among_all(raw, slice(None), wanted)
    around, reach = _around(number, dim, some)
    apart = (raw[around] - raw.unsqueeze(1)).square().sum(-1)
    least, place = apart.topk(wanted, largest=False)
    found = around.gather(-1, place)
    sure = 1 - torch.finfo(raw.dtype).eps ** 0.5  # which is nearer could be rounding
    beyond = (least[:, -1] >= sure * reach).nonzero().squeeze(-1)
    if len(beyond):
        found[beyond] = _among_all(raw, beyond, wanted)
    return found


def _among_all(raw: Tensor, rows: Tensor | slice, wanted: int) -> Tensor:
    """The nearest to some of the points, by distances from all of them."""
    return torch.cdist(raw[rows], raw).topk(wanted + 1, largest=False).indices[:, 1:]


@functools.lru_cache(maxsize=16)
def _around(number: int, dim: int, some: int) -> tuple[Tensor, Tensor]:
    """Points nearest on a torus, `number x some`, and the squared distance of the last.

    No distance in the cube is smaller than on the torus.
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
"""Scores points, `trials x q x d -> trials x q`, differentiably if gradients are recorded. If not,
any number of points is processed in blocks, and points expanded over the trials are evaluated once
where possible. The second argument selects the trials of the points, None for all."""


Climbed = Callable[[Tensor, Tensor | None, float], tuple[Tensor, Tensor]]
"""A factor times the score, `trials x q`, and its gradient by the points, `trials x q x d`; other
arguments are as for a score."""


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
    """Score and gradient where derivatives are known; None where PyTorch is to record them."""


class Region(Protocol):
    """The interface of a :class:`~botorch_tv.strategies.Box` for a search."""

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
"""An ascent ends, too, where the best of its trial is ahead by so many times what its next step
promises."""
TOLERANCES = 1e-8, 1e-6
"""Of value and gradient, at which an ascent ends."""


class Uniform(Protocol):
    """Where random numbers of trials come from."""

    def uniform(self, *event_shape: int) -> Tensor:
        """Variates uniform on [0, 1), `batch_shape x event_shape`."""


class Search(ABC):
    """A way to maximise a score over a box."""

    @property
    def fills(self) -> int:
        """Measurements that are to fill the box before a model without prior knowledge chooses."""
        return 0

    @abstractmethod
    def check(self, box: Region) -> None:
        """Raise an ``InputDataError`` unless this search fits the box."""

    @abstractmethod
    def best(self, box: Region, sought: Sought) -> Tensor:
        """The best point of every trial, `trials x d`.

        Args:
            box: Where to search.
            sought: What for.
        """

    def numbers(self, dim: int, looks: Looks, trials: int) -> int:
        """Numbers that :meth:`best` works on.

        Args:
            dim: Dimensions of the box.
            looks: What it looks at.
            trials: Trials searched together.
        """
        return _numbers_of_scores(512 + looks.familiar, looks, trials)

    def among(self, number: int, dim: int) -> tuple[Tensor, Tensor] | None:
        """Points of the unit cube that fill what may be chosen, each `number x dim`, float64.

        Returns:
            A sequence whose first few fill it as well as all do, and others that reach its ends,
            too; None where all of the cube may be chosen.
        """
        return None

    @abstractmethod
    def first(self, box: Region, like: Tensor) -> Tensor:
        """The point to choose if all scores are equal, `d`."""

    @abstractmethod
    def anywhere(self, box: Region, draws: Uniform) -> Tensor:
        """A random point, `batch_shape x d`."""


@dataclass(frozen=True, eq=False)
class DiscreteSearch(Search):
    """Restrict the choice to given points; of those that tie the first wins, as on a grid.

    Args:
        X: `M x d`.
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
        # In single precision a number just below 1 may have been rounded to 1.
        number = (uniform * len(self.X)).long().clamp_max(len(self.X) - 1)
        return self._points.like(uniform)[number]


@dataclass(frozen=True)
class MultiStart(Search):
    """Search a box by gradient ascent from the best of many points.

    Raw samples fill the box evenly, other ones in every round. Those that are better than their
    neighbours, and the best observations, start a projected quasi-Newton ascent each; all starts of
    all trials climb together, and after a few steps the best third of a trial's goes on alone. No
    random numbers are used.

    Args:
        raw_samples: Points scored in the first place.
        restarts: Ascents per trial; 4 + 3 d unless given.
        evaluations: Steps per ascent, at most.
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
        """Every box will do."""

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
        """Where ascents begin, in the unit cube, `trials x starts x d`."""
        observed = sought.observed
        raw = raw_points(self.raw_samples, box.dim, sought.rounds, observed)
        points = torch.cat([raw.expand(len(observed), -1, -1), box.to_unit(observed)], 1)
        with torch.no_grad():
            if len(observed) == 1:  # one trial shares its raw samples with none
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
        # Where there are fewer, what is no peak would only be slow to climb to one of them.
        lowest = (heights > -math.inf).sum(-1, keepdim=True) - 1
        number = torch.where(heights > -math.inf, number, number.gather(-1, lowest))
        familiar = min(restarts // 3, seen.shape[1], number.shape[1])
        fresh, last = torch.split(number, [number.shape[1] - familiar, familiar], -1)
        # The last peaks give way to observations, as far as this trial, not another, has them.
        heights, rows = seen.topk(familiar)
        last = torch.where(heights > -math.inf, rows + len(raw), last.flip(-1))
        return _at(points, torch.cat([fresh, last], -1))

    def first(self, box: Region, like: Tensor) -> Tensor:
        return box.center(like)

    def anywhere(self, box: Region, draws: Uniform) -> Tensor:
        return box.from_unit(draws.uniform(box.dim))


def highest(climb: Objective, start: Tensor, evaluations: int) -> Tensor:
    """Where the best of several ascents ends, `trials x starts x d -> trials x d`.

    After a few evaluations the best third of a trial's ascents goes on alone.

    Args:
        climb: Minus the score in its unit, and its gradient, at points of the unit cube.
        start: Where they begin.
        evaluations: Steps per ascent, at most.
    """
    starts = start.shape[1]
    ascent = Descent(climb, start, 0.0, 1.0, *TOLERANCES, FUTILE)
    ascent.go(min(SCOUTING, evaluations), blindly=True)
    # Mirror images tie up to rounding; the first, that of the better raw sample, is taken.
    rank = (ascent.value / TIE_TOLERANCE).round().argsort(stable=True)
    ascent.go_on_with(rank[:, : math.ceil(starts / 3)])
    ascent.go(evaluations)
    best = first_maximum(-ascent.value, TIE_TOLERANCE, Scratch()).unsqueeze(-1)
    return _at(ascent.x, best).squeeze(1)


def _at(points: Tensor, number: Tensor) -> Tensor:
    """Some points of each trial, `trials x M x d` and `trials x k` to `trials x k x d`."""
    return points.gather(1, number.unsqueeze(-1).expand(-1, -1, points.shape[-1]))


def slopes_of(sought: Sought) -> Climbed:
    """Score and gradient, those that PyTorch records where no derivatives are known."""

    def recorded(X: Tensor, trials: Tensor | None, factor: float) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            X = X.detach().requires_grad_()
            values = sought.score(X, trials)
            # Given weights as a tensor, autograd would import SymPy: .4 s in a new process.
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
    """Numbers that scoring so many points of every trial works on."""
    whole = trials * max(1, looks.compared)
    block = min(points, max(1, SEARCH_NUMBERS // whole))
    return block * (looks.matrices * whole + trials * looks.besides)
