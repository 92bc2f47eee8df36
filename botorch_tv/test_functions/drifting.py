"""Classical test functions with a moving optimum, and paths along which it moves."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import TypedDict, Unpack

import torch
from botorch.test_functions.synthetic import (
    Ackley,
    Branin,
    Hartmann,
    Rosenbrock,
    SyntheticTestFunction,
)
from torch import Tensor

from botorch_tv.test_functions.base import TimeVaryingTestFunction
from botorch_tv.test_functions.search import climb, derivatives_of
from botorch_tv.validation import require, settle_number


class Motion(ABC):
    """A path of the optimum through the box."""

    @abstractmethod
    def path(self, t: Tensor, start: Tensor, bounds: Tensor) -> Tensor:
        """The position of the optimum at each time.

        Args:
            t: Times, any shape.
            start: Position of the optimum of the static function, `d`, inside the box.
            bounds: Bounds of the box, `2 x d`.

        Returns:
            Points of the box, `t.shape x d`.
        """


@dataclass(frozen=True)
class Orbit(Motion):
    """A smooth path: p_j(t) = c_j + r_j sin(2π (1 + j/d) t / period + φ_j), j = 0, ..., d − 1.

    c is the middle of the box, and r_j = reach · (upper_j − lower_j) / 2. The phases φ_j are chosen
    such that the path starts at the optimum of the static function, or at the nearest point that
    the path can reach. No coordinate moves faster than 4π r_j / period. The coordinates oscillate
    at different rates, and the path closes after d periods. Therefore two optimisation runs
    optimise different functions if their starting times differ, but by less than d · ``period``.

    Args:
        period: Period of the first coordinate.
        reach: Fraction of each coordinate's range that the path covers, in (0, 1].

    Raises:
        ValueError: If a parameter is out of range.
    """

    period: float = 100.0
    reach: float = 0.8

    def __post_init__(self) -> None:
        settle_number(self, "period", "(0, inf)", "100 is usual.")
        settle_number(self, "reach", "(0, 1]", "it is a fraction of each range; 0.8 is usual.")

    def path(self, t: Tensor, start: Tensor, bounds: Tensor) -> Tensor:
        centre, radius = _middle(bounds, self.reach)
        phase = torch.asin(((start - centre) / radius).clamp(-1, 1))
        dim = len(start)
        rate = (1 + torch.arange(dim, dtype=t.dtype, device=t.device) / dim) / self.period
        point = centre + radius * torch.sin(2 * math.pi * rate * t.unsqueeze(-1) + phase)
        # The path is clamped to the box, because rounding could move a point out of the box if the
        # reach is 1.
        return torch.clamp(point, bounds[0], bounds[1])


@dataclass(frozen=True)
class Jumps(Motion):
    """An abrupt path: the optimum jumps at each time of change and is constant in between.

    Until the first change, the function equals the static function. At each change, a new position
    is drawn, with each coordinate uniform on the middle part of its range; this part is a fraction
    ``reach`` of the range.

    Args:
        times: Times of change, in increasing order. At a time of change, the optimum is already at
            its new position.
        reach: Fraction of each coordinate's range from which positions are drawn, in (0, 1].
        seed: Seed of the positions.

    Raises:
        ValueError: If a parameter is out of range.
    """

    times: tuple[float, ...] = (100.0, 200.0)
    reach: float = 0.8
    seed: int = 0

    def __post_init__(self) -> None:
        require(
            all(earlier < later for earlier, later in pairwise((-math.inf, *self.times, math.inf))),
            f"Jumps: times is {self.times}; give finite, increasing times of change.",
        )
        settle_number(self, "reach", "(0, 1]", "it is a fraction of each range; 0.8 is usual.")

    def path(self, t: Tensor, start: Tensor, bounds: Tensor) -> Tensor:
        centre, radius = _middle(bounds, self.reach)
        generator = torch.Generator().manual_seed(self.seed)
        size = (len(self.times), len(start))
        share = torch.rand(size, generator=generator, dtype=torch.float64, device="cpu")
        drawn = torch.clamp(centre + radius * (2 * share - 1).to(start), bounds[0], bounds[1])
        places = torch.cat([start.unsqueeze(0), drawn])
        changes = torch.tensor(self.times, dtype=t.dtype, device=t.device)
        return places[torch.bucketize(t.detach().contiguous(), changes, right=True)]


def _middle(bounds: Tensor, reach: float) -> tuple[Tensor, Tensor]:
    lower, upper = bounds
    return (lower + upper) / 2, reach * (upper - lower) / 2


Bounds = list[tuple[float, float]]


class Moving(TypedDict, total=False):
    """Options of every :class:`DriftingFunction`."""

    motion: Motion | None
    horizon: float
    noise_std: float | None
    negate: bool


class DriftingFunction(TimeVaryingTestFunction):
    """f_t(x) = g(x − p(t) + p*): a static function g, whose optimum moves from p* to p(t).

    The box is fixed and the function moves. If p* is a global optimum of g over all of space, and
    not only over the box, then the best value is exactly g(p*) at all times. The optimum p* is
    global over all of space for :class:`DriftingAckley`, :class:`DriftingBranin`,
    :class:`DriftingHartmann` and :class:`DriftingRosenbrock`.

    Args:
        function: The static function g; its ``noise_std`` and ``negate`` are not used.
        optimizer: The best point p* of g, `d`; by default the first optimum listed by BoTorch.
        motion: The path p of the optimum; an :class:`Orbit` by default.
        horizon: End of the range of times, [0, horizon].
        noise_std: Standard deviation of the observation noise; None for no noise.
        negate: Whether to reverse the sign of the function.

    Raises:
        ValueError: If a parameter is out of range, or if ``optimizer`` is not a point of the box.
    """

    _optimizer: Tensor

    def __init__(
        self,
        function: SyntheticTestFunction,
        *,
        optimizer: Tensor | None = None,
        motion: Motion | None = None,
        horizon: float = 1000.0,
        noise_std: float | None = None,
        negate: bool = False,
    ) -> None:
        super().__init__(function._bounds, horizon=horizon, noise_std=noise_std, negate=negate)
        self._is_minimization_by_default = function._is_minimization_by_default
        self._check_grad_at_opt = function._check_grad_at_opt
        self.motion = Orbit() if motion is None else motion
        self._function = copy.deepcopy(function).to(self.bounds)
        best = self._function.optimizers[0] if optimizer is None else optimizer.to(self.bounds)
        lower, upper = self.spatial_bounds
        require(
            best.shape == lower.shape and bool(((best >= lower) & (best <= upper)).all()),
            f"{type(self).__name__}: optimizer is {best.tolist()}; give a point of the box "
            f"{function._bounds}.",
        )
        self.register_buffer("_optimizer", best)
        # The best value is computed now, because a later change of dtype must not change it.
        self._best = float(self._function._evaluate_true(best))

    def path(self, t: float | Tensor) -> Tensor:
        """The position of the optimum at each time, `t.shape x d`.

        Args:
            t: A scalar time, or times of any shape.

        Raises:
            ValueError: If a time lies outside [0, horizon].
        """
        return self._path(self._times(t))

    def optimizers_at(self, t: float) -> Tensor:
        lower, upper = self.spatial_bounds
        path = self.path(t)
        others = self._other_optimizers() + (path - self._optimizer)
        others = others[((others >= lower) & (others <= upper)).all(-1)]
        return torch.cat([path.unsqueeze(0), others])

    def _other_optimizers(self) -> Tensor:
        """All optimizers of g other than p*, inside and outside the box of g, `k x d`."""
        return self._optimizer.new_empty(0, self.spatial_dim)

    def _path(self, t: Tensor) -> Tensor:
        return self.motion.path(t, self._optimizer.to(t), self.spatial_bounds.to(t))

    def _best_at(self, t: Tensor) -> Tensor:
        return torch.full_like(t, self._best)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        shift = self._path(X[..., -1]) - self._optimizer
        return self._function._evaluate_true(X[..., :-1] - shift)


class DriftingAckley(DriftingFunction):
    """Ackley's function in ``dim`` coordinates; its minimum over all of space is 0.

    Args:
        dim: The number d of coordinates.
        bounds: Bounds of the coordinates; [-32.768, 32.768] each by default.
        **moving: ``motion``, ``horizon``, ``noise_std``, ``negate``; see
            :class:`DriftingFunction`.
    """

    def __init__(
        self, dim: int = 2, *, bounds: Bounds | None = None, **moving: Unpack[Moving]
    ) -> None:
        super().__init__(Ackley(dim=dim, bounds=bounds), **moving)


class DriftingBranin(DriftingFunction):
    """Branin's function, whose minimum is 10 / (8π).

    The function is a square plus 10 + 10 (1 − 1/(8π)) cos x_1, so the function has a minimum of
    value 10 / (8π) at every odd multiple x_1 of π. The minimum of the static function at (π, 2.275)
    moves along the path ``motion``; other minima enter and leave the box. ``optimizers_at`` lists
    all minima inside the box; the first is the minimum on the path ``motion``.

    Args:
        bounds: Bounds of the coordinates; [-5, 10] x [0, 15] by default.
        **moving: ``motion``, ``horizon``, ``noise_std``, ``negate``; see
            :class:`DriftingFunction`.
    """

    def __init__(self, *, bounds: Bounds | None = None, **moving: Unpack[Moving]) -> None:
        minimum = torch.tensor([math.pi, 2.275], dtype=torch.float64)
        super().__init__(Branin(bounds=bounds), optimizer=minimum, **moving)

    def _other_optimizers(self) -> Tensor:
        lower, upper = self.spatial_bounds[:, 0].tolist()
        turns = math.ceil((upper - lower) / math.pi) + 1
        x = math.pi * (1 + 2 * torch.arange(-turns, turns + 1, dtype=torch.float64))
        x = x[x != math.pi]
        y = 5.1 / (4 * math.pi**2) * x.square() - 5 / math.pi * x + 6
        return torch.stack([x, y], dim=-1).to(self._optimizer)


class DriftingHartmann(DriftingFunction):
    """Hartmann's function in 3, 4 or 6 coordinates on the unit cube.

    The minimum over the cube is the minimum over all of space. Up to scale and offset, the function
    is minus a weighted sum of four bumps, whose centres lie in the cube. The value of each bump
    decreases if the distance from the bump's centre increases in any coordinate. Therefore a point
    outside the cube never has a smaller value than its projection onto the cube. BoTorch states the
    minimum with five digits; here the minimum has machine precision.

    Args:
        dim: The number d of coordinates: 3, 4 or 6.
        bounds: Bounds of the coordinates; [0, 1] each by default.
        **moving: ``motion``, ``horizon``, ``noise_std``, ``negate``; see
            :class:`DriftingFunction`.
    """

    def __init__(
        self, dim: int = 6, *, bounds: Bounds | None = None, **moving: Unpack[Moving]
    ) -> None:
        function = Hartmann(dim=dim, bounds=bounds)
        start = torch.tensor(Hartmann(dim=dim)._optimizers, dtype=torch.float64)
        upwards = derivatives_of(lambda X: -function._evaluate_true(X))
        refined = climb(upwards, start, function.bounds.double())[0][0]
        super().__init__(function, optimizer=refined, **moving)


class DriftingRosenbrock(DriftingFunction):
    """Rosenbrock's function in ``dim`` coordinates: a sum of squares, whose minimum 0 is global.

    Args:
        dim: The number d of coordinates, at least 2.
        bounds: Bounds of the coordinates; [-5, 10] each by default.
        **moving: ``motion``, ``horizon``, ``noise_std``, ``negate``; see
            :class:`DriftingFunction`.
    """

    def __init__(
        self, dim: int = 2, *, bounds: Bounds | None = None, **moving: Unpack[Moving]
    ) -> None:
        super().__init__(Rosenbrock(dim=dim, bounds=bounds), **moving)
