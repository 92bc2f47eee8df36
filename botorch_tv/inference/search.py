"""Many small minimisations within bounds, advancing together.

A projected BFGS method: coordinates held at a bound by the gradient are taken out of the step, the
rest move by the inverse Hessian built so far, and the step is shortened until the function falls
enough (Armijo). Every problem keeps its own matrix and step length, so a batch gives what its
problems would give alone; all are evaluated at once, and those that are done are left out. A GPU
is waited for only to see whether there are such, and given few operations to do.
"""

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
from botorch_tv.inference.costs import CLIMBING, SEARCH_NUMBERS
from botorch_tv.inference.device_copies import DeviceCopies
from botorch_tv.inference.linalg import TIE_TOLERANCE, first_maximum
from botorch_tv.inference.protocol import Looks
from botorch_tv.inference.scratch import Scratch
from botorch_tv.validation import settle_integer

Objective = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Takes points, `m x p`, or `m x k x p` of groups of k, and the numbers of the problems or groups
they belong to, `m`; gives values, `m` or `m x k`, and gradients like the points."""

SUFFICIENT_DECREASE = 1e-4
CURVATURE = 1e-10
"""A pair of step and change of gradient enters the matrix if their cosine is at least this."""
FIRST_STEP = 0.1
"""Length of the first step of each problem."""
BETWEEN_LOOKS = 4
"""Least evaluations from one look at which problems are done to the next, where looking means
waiting; later a third of those so far."""
SHORTEST_STEP = 1e-12
"""A line search that came down to this share of its step ends the problem."""


class Minimum(NamedTuple):
    """Where problems ended."""

    x: Tensor
    """`n x p`."""
    value: Tensor
    """`n`."""
    evaluations: int
    """How often the function was evaluated."""


def minimize(
    function: Objective,
    start: Tensor,
    lower: Tensor | float,
    upper: Tensor | float,
    *,
    evaluations: int = 200,
    value_tolerance: float = 1e-9,
    gradient_tolerance: float = 1e-6,
) -> Minimum:
    """Local minima of independent problems within bounds.

    Coordinates should be scaled so that a step of 0.1 is a modest one.

    Args:
        function: Value and gradient. Where one is not finite it counts as worse than elsewhere.
        start: Where to start, `n x p`; moved into the bounds.
        lower: Lower bounds, broadcastable with ``start``.
        upper: Upper bounds.
        evaluations: How often the function may be evaluated.
        value_tolerance: A problem is done when a step changes its value by no more than this,
            relative to the larger of the value's size and 1.
        gradient_tolerance: Or when no coordinate of the projected gradient is larger than this.

    Returns:
        The best points met.
    """
    descent = Descent(function, start, lower, upper)
    descent.go(evaluations, value_tolerance, gradient_tolerance)
    return Minimum(descent.x, descent.value, descent.evaluations)


class Descent:
    """Minimisations on their way, alone or in groups, of which some may be given up.

    Args:
        function: As for :func:`minimize`; evaluated once.
        start: Where to start, `n x p`, or `n x k x p` for groups of k, which are evaluated until
            all in them are done; moved into the bounds.
        lower: Lower bounds, broadcastable with ``start``.
        upper: Upper bounds.

    Attributes:
        x: The best points met, like ``start``.
        value: The function there, `n` or `n x k`.
        evaluations: How often the function was evaluated.
    """

    def __init__(
        self, function: Objective, start: Tensor, lower: Tensor | float, upper: Tensor | float
    ) -> None:
        lower, upper = (_expanded(bound, start) for bound in (lower, upper))
        x = start.clamp(lower, upper)
        self._function, self._rows = function, torch.arange(len(x), device=x.device)
        value, gradient = _finite(*function(x, self._rows))
        self.x, self.value, self.evaluations = x.clone(), value.clone(), 1
        self._run = _Run(x, value, gradient, lower, upper)

    def go(
        self,
        evaluations: int,
        value_tolerance: float,
        gradient_tolerance: float,
        *,
        futile: float = math.inf,
        blindly: bool = False,
    ) -> None:
        """Go on until all are done, or the function was evaluated so often in all.

        Args:
            evaluations: How often.
            value_tolerance: As for :func:`minimize`.
            gradient_tolerance: As for :func:`minimize`.
            futile: One is done, too, where the best of its group is lower by more than so many
                times what its next step promises by its slope.
            blindly: Whether not to look who is done where looking means waiting.
        """
        run = self._run
        next_look = _next_look(self.evaluations)
        while self.evaluations < evaluations and len(self._rows):
            trial = run.trial()
            value, gradient = self._function(trial, self._rows)
            self.evaluations += 1
            run.take(trial, value, gradient, value_tolerance, gradient_tolerance)
            if futile < math.inf:
                run.give_up(futile)
            if self._sees or (not blindly and self.evaluations >= next_look):
                next_look = _next_look(self.evaluations)
                self._look()
        self._write_down()

    def go_on_with(self, some: Tensor) -> None:
        """Give up all but some of every group, `n x j`, which are put in that order.

        What is given up is no longer among ``x`` and ``value`` either.
        """
        self._write_down()
        self.x, self.value = (_of_groups(part, some) for part in (self.x, self.value))
        if not len(self._rows):
            return
        self._run.keep_within(some.index_select(0, self._rows))
        if self._sees:
            self._look()

    def _write_down(self) -> None:
        if not len(self._rows):
            return
        if len(self._rows) == len(self.x):
            self.x, self.value = self._run.x, self._run.value
        else:
            self.x[self._rows], self.value[self._rows] = self._run.x, self._run.value

    @property
    def _sees(self) -> bool:
        """Whether looking who is done takes no waiting."""
        return self.x.device.type == "cpu"

    def _look(self) -> None:
        """Leave the problems, or groups, where they are that are done, if those are the most."""
        going = self._run.going
        if going.dim() > 1:
            going = going.any(-1)
        left = int(going.sum())
        if left > len(self._rows) // 2:
            return
        self._write_down()
        if not left:
            self._rows = self._rows[:0]
            return
        # Those that go on, in their order; how many these are need not be asked again.
        rows = going.to(torch.uint8).argsort(stable=True, descending=True)[:left]
        self._rows = self._rows[rows]
        self._run.keep(rows)


def _next_look(evaluations: int) -> int:
    """After how many evaluations it is time to look who is done."""
    return evaluations + max(BETWEEN_LOOKS, evaluations // 3)


def _of_groups(part: Tensor, some: Tensor) -> Tensor:
    """Some of every group, `n x k x *` and `n x j` to `n x j x *`."""
    index = some.view(*some.shape, *[1] * (part.dim() - 2)).expand(*some.shape, *part.shape[2:])
    return part.gather(1, index)


def _expanded(bound: Tensor | float, like: Tensor) -> Tensor:
    """A bound as a tensor of the shape, dtype and device of another."""
    # A number made into a tensor elsewhere would have to be copied to a GPU.
    bound = bound.to(like) if isinstance(bound, Tensor) else like.new_full((), bound)
    return bound.expand_as(like)


def _finite(value: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Values and gradients that spoil no others: infinite and 0 where one is not finite."""
    # A finite number less itself is 0, any other NaN: half as many operations as isfinite().
    total = value + (gradient - gradient).sum(-1)
    bad = total - total != 0
    return value.masked_fill(bad, math.inf), gradient.masked_fill(bad.unsqueeze(-1), 0.0)


class _Run:
    """The problems still worked on."""

    def __init__(
        self, x: Tensor, value: Tensor, gradient: Tensor, lower: Tensor, upper: Tensor
    ) -> None:
        self.x, self.value, self.gradient = x, value, gradient
        self.lower, self.upper = lower, upper
        self.step = torch.ones_like(value)
        self.going = torch.ones_like(value, dtype=torch.bool)
        self.fresh = torch.ones_like(self.going)
        self.identity = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
        self.inverse = self.identity.expand(*value.shape, -1, -1)
        self.uphill: Tensor
        self._turn()
        length = self.uphill.norm(dim=-1).clamp_min(torch.finfo(x.dtype).tiny)
        factor = (FIRST_STEP / length).unsqueeze(-1)
        self.inverse, self.uphill = self.inverse * factor.unsqueeze(-1), self.uphill * factor

    def _turn(self) -> None:
        """Set the direction from the gradient and the matrix."""
        # A coordinate at the bound that it is driven to is held.
        self.free = torch.where(self.gradient > 0, self.lower, self.upper) != self.x
        self.slope = self.gradient * self.free
        self.uphill = (self.inverse @ self.slope.unsqueeze(-1)).squeeze(-1) * self.free

    def trial(self) -> Tensor:
        """The points to evaluate next."""
        moved = torch.addcmul(self.x, self.step.unsqueeze(-1), self.uphill, value=-1)
        return moved.clamp_(self.lower, self.upper)

    def take(
        self,
        trial: Tensor,
        value: Tensor,
        gradient: Tensor,
        value_tolerance: float,
        gradient_tolerance: float,
    ) -> None:
        """Accept or shorten the steps just evaluated."""
        moved = trial - self.x
        promised = (self.gradient * moved).sum(-1)
        total = gradient.sum(-1) + value
        # A finite number less itself is 0, any other NaN: where one is not finite, so is the gain.
        gained = self.value - value + (total - total)
        # Cut off at the bounds, a step may point upwards: then the value must not rise at least.
        enough = gained.add(promised.clamp_max(0), alpha=SUFFICIENT_DECREASE) >= 0
        accepted = enough & self.going
        # The minimum of the parabola through both values and the first slope.
        shorter = (0.5 * promised).div_(promised + gained)
        # 0 / 0 where a problem that is done stands still; its points are evaluated all the same.
        shorter = shorter.nan_to_num_(0.1, 0.1, 0.1).clamp_(0.1, 0.5)
        self.step = shorter.mul_(self.step).masked_fill_(accepted, 1.0)
        gradient = torch.where(accepted.unsqueeze(-1), gradient, self.gradient)
        self._learn(moved, gradient - self.gradient)
        small = gained <= value_tolerance * self.value.abs().clamp_min_(1)
        self.x = torch.where(accepted.unsqueeze(-1), trial, self.x)
        self.value = torch.where(accepted, value, self.value)
        self.gradient = gradient
        self._turn()
        flat = torch.linalg.vector_norm(self.slope, math.inf, -1) <= gradient_tolerance
        # One just accepted has a whole step before it.
        done = flat | (self.step < SHORTEST_STEP) | (accepted & small)
        self.going = self.going > done

    def give_up(self, futile: float) -> None:
        """End problems far above the best of their group that have little left to gain."""
        promised = (self.slope * self.uphill).sum(-1)
        within = self.value.amin(-1, keepdim=True).add(promised, alpha=futile)
        # The first step has a length that promises nothing.
        hopeless = (self.value > within) > self.fresh
        self.going = self.going > hopeless

    def _learn(self, s: Tensor, y: Tensor) -> None:
        """The BFGS update, H <- (I - ρ s yᵀ) H (I - ρ y sᵀ) + ρ s sᵀ with ρ = 1 / sᵀy.

        Args:
            s: Steps.
            y: Changes of the gradient; nothing is learned where these are 0.
        """
        y = y * (s != 0)
        both = torch.stack([s, y], -2)
        products = both @ both.mT
        product, lengths = products[..., 0, 1], products.diagonal(dim1=-2, dim2=-1).sqrt()
        useless = product <= CURVATURE * lengths.prod(-1)
        first = self.fresh > useless
        scale = product / products[..., 1, 1].clamp_min(torch.finfo(s.dtype).tiny)
        rescaled = scale[..., None, None] * self.identity
        inverse = torch.where(first[..., None, None], rescaled, self.inverse)
        self.fresh = self.fresh & useless
        rho = product.reciprocal().masked_fill_(useless, 0.0).unsqueeze(-1)
        # With h = H y and u = h - ½ (1 + ρ yᵀh) s it is H - ρ (s uᵀ + u sᵀ).
        h = (inverse @ y.unsqueeze(-1)).squeeze(-1)
        u = torch.addcmul(h, 1 + rho * (y * h).sum(-1, keepdim=True), s, value=-0.5)
        outer = (rho * s).unsqueeze(-1) * u.unsqueeze(-2)
        self.inverse = inverse - outer - outer.mT

    def keep(self, left: Tensor) -> None:
        """Leave out all but some problems, or groups, given by number."""
        for name in OF_PROBLEMS:
            setattr(self, name, getattr(self, name).index_select(0, left))

    def keep_within(self, some: Tensor) -> None:
        """Leave out all but some of every group, `m x j`."""
        for name in OF_PROBLEMS:
            setattr(self, name, _of_groups(getattr(self, name), some))


OF_PROBLEMS = (
    "x", "value", "gradient", "lower", "upper", "step", "going", "fresh", "inverse", "free",
    "slope", "uphill",
)  # fmt: skip
"""What is known of each problem."""


AROUND = 4
"""Times as many points as are wanted are looked at for those nearest to a point in a cube."""
MOST_COLUMNS = 6
"""Up to so many coordinates that takes less time than to look at all of them.

On a CPU the nearest of 512 points are found in 0.05 instead of 0.9 ms in one dimension, 0.3 instead
of 1.1 in two, 0.5 instead of 3 in three and 1.7 instead of 2.9 in six."""


def raw_points(number: int, dim: int, told: int, like: Tensor) -> Tensor:
    """Points that fill the unit cube evenly, other ones in every round, `number x dim`.

    Args:
        number: How many.
        dim: Coordinates of each.
        told: Rounds told.
        like: A tensor of the dtype and device wanted.
    """
    shift = torch.arange(1, dim + 1, dtype=like.dtype, device=like.device).sqrt()
    golden = (math.sqrt(5) - 1) / 2
    return torch.frac(spread(number, dim).like(like) + told * shift * golden)


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
    for side in points.T:
        away = side.unsqueeze(-1) - side
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
    told: int
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
promises. Of 480 searches in one to six dimensions none ended lower for it; with 10, two did, on
Matérn kernels in six."""
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
        if not isinstance(self.X, Tensor) or not self.X.is_floating_point():
            given = self.X.dtype if isinstance(self.X, Tensor) else type(self.X).__name__
            raise InputDataError(
                f"DiscreteSearch: X is {given}, but it must be a floating-point tensor of shape "
                "M x d; pass X.double(), or torch.tensor(X, dtype=torch.float64)."
            )
        if self.X.dim() != 2 or self.X.shape[1] != box.dim or len(self.X) == 0:
            raise InputDataError(
                f"DiscreteSearch: X has shape {tuple(self.X.shape)}, but {box!r} needs "
                f"M x {box.dim}; pass at least one point per row."
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
        return box.from_unit(highest(_Climb(box, sought), start, self.evaluations))

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
        raw = raw_points(self.raw_samples, box.dim, sought.told, observed)
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
        known = min(restarts // 3, seen.shape[1], number.shape[1])
        fresh, last = torch.split(number, [number.shape[1] - known, known], -1)
        # The last peaks give way to observations, as far as this trial, not another, has them.
        heights, rows = seen.topk(known)
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
    ascent = Descent(climb, start, 0.0, 1.0)
    ascent.go(min(SCOUTING, evaluations), *TOLERANCES, futile=FUTILE, blindly=True)
    # Mirror images tie up to rounding; the first, that of the better raw sample, is taken.
    rank = (ascent.value / TIE_TOLERANCE).round().argsort(stable=True)
    ascent.go_on_with(rank[:, : math.ceil(starts / 3)])
    ascent.go(evaluations, *TOLERANCES, futile=FUTILE)
    best = first_maximum(-ascent.value, TIE_TOLERANCE, Scratch()).unsqueeze(-1)
    return _at(ascent.x, best).squeeze(1)


def _at(points: Tensor, number: Tensor) -> Tensor:
    """Some points of each trial, `trials x M x d` and `trials x k` to `trials x k x d`."""
    return points.gather(1, number.unsqueeze(-1).expand(-1, -1, points.shape[-1]))


class _Climb:
    """Minus the score in its unit, and its gradient, at points of the unit cube."""

    def __init__(self, box: Region, sought: Sought) -> None:
        self.box, self.sought = box, sought
        self.trials = len(sought.observed)

    def __call__(self, x: Tensor, trials: Tensor) -> tuple[Tensor, Tensor]:
        every, points = len(trials) == self.trials, x
        if self.sought.whole and not every:
            points = x.new_full((self.trials, *x.shape[1:]), 0.5).index_copy_(0, trials, x)
        some = None if every or self.sought.whole else trials
        values, gradient = self._climbed(points, some, -1 / self.sought.unit)
        if len(points) > len(x):
            return values.index_select(0, trials), gradient.index_select(0, trials)
        return values, gradient

    def _climbed(
        self, points: Tensor, trials: Tensor | None, factor: float
    ) -> tuple[Tensor, Tensor]:
        """A factor times the score, and its gradient."""
        if self.sought.climbed is not None:
            values, by = self.sought.climbed(self.box.from_unit(points), trials, factor)
            return values, self.box.by_unit(by)
        with torch.enable_grad():
            points = points.detach().requires_grad_()
            values = self.sought.score(self.box.from_unit(points), trials)
            # Given weights as a tensor, autograd would import SymPy: .4 s in a new process.
            (gradient,) = torch.autograd.grad(factor * values.sum(), points)
        return values.detach() * factor, gradient


def _numbers_of_scores(points: int, looks: Looks, trials: int) -> int:
    """Numbers that scoring so many points of every trial works on."""
    whole = trials * max(1, looks.compared)
    block = min(points, max(1, SEARCH_NUMBERS // whole))
    return block * (looks.matrices * whole + trials * looks.besides)
