"""Many small minimisations within bounds, advancing together.

A projected BFGS method: coordinates held at a bound by the gradient are taken out of the step, the
rest move by the inverse Hessian built so far, and the step is shortened until the function falls
enough (Armijo). Every problem keeps its own matrix and step length, so a batch gives what its
problems would give alone; all are evaluated at once, and those that are done are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

Objective = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Takes points, `m x p`, and the numbers of the problems they belong to, `m`; gives values, `m`,
and gradients, `m x p`."""

SUFFICIENT_DECREASE = 1e-4
CURVATURE = 1e-10
"""A pair of step and change of gradient enters the matrix if their cosine is at least this."""
FIRST_STEP = 0.1
"""Length of the first step of each problem."""
BETWEEN_LOOKS = 4
"""Evaluations from one look at which problems are done to the next, where looking means waiting."""
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
    """Minimisations on their way, of which some may be given up.

    Args:
        function: As for :func:`minimize`; evaluated once.
        start: Where to start, `n x p`; moved into the bounds.
        lower: Lower bounds, broadcastable with ``start``.
        upper: Upper bounds.

    Attributes:
        x: The best points met, `n x p`.
        value: The function there, `n`.
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

    def go(self, evaluations: int, value_tolerance: float, gradient_tolerance: float) -> None:
        """Go on until all are done, or the function was evaluated so often in all."""
        run, looks = self._run, self.x.device.type == "cpu"
        while self.evaluations < evaluations and len(self._rows):
            trial = run.trial()
            value, gradient = _finite(*self._function(trial, self._rows))
            self.evaluations += 1
            going = run.take(trial, value, gradient, value_tolerance, gradient_tolerance)
            if not looks and self.evaluations % BETWEEN_LOOKS:
                continue
            if int(going.sum()) <= len(self._rows) // 2:
                self._leave(going)
        self.x[self._rows], self.value[self._rows] = run.x, run.value

    def give_up(self, others: Tensor) -> None:
        """Go on with no more than some problems, `n`, bool."""
        self._leave(self._run.going & others[self._rows])

    def _leave(self, going: Tensor) -> None:
        """Leave all but some of the problems worked on where they are, bool."""
        self.x[self._rows], self.value[self._rows] = self._run.x, self._run.value
        left = going.nonzero().squeeze(-1)
        self._rows = self._rows[left]
        self._run.keep(left)


def _expanded(bound: Tensor | float, like: Tensor) -> Tensor:
    """A bound as a tensor of the shape, dtype and device of another."""
    # A number made into a tensor elsewhere would have to be copied to a GPU.
    bound = bound.to(like) if isinstance(bound, Tensor) else like.new_full((), bound)
    return bound.expand_as(like)


def _finite(value: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Values and gradients that spoil no others: infinite and 0 where one is not finite."""
    # A finite number less itself is 0, any other NaN: half as many operations as isfinite().
    bad = (value - value + (gradient - gradient).sum(-1)) != 0
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
        identity = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
        self.inverse = identity.expand(len(x), -1, -1).clone()
        self._turn()
        length = self.direction.norm(dim=-1).clamp_min(torch.finfo(x.dtype).tiny)
        self._stretch(FIRST_STEP / length)

    def _stretch(self, factor: Tensor) -> None:
        self.inverse.mul_(factor[:, None, None])
        self.direction.mul_(factor[:, None])

    def _turn(self) -> None:
        """Set the direction from the gradient and the matrix."""
        held = ((self.x <= self.lower) & (self.gradient > 0)) | (
            (self.x >= self.upper) & (self.gradient < 0)
        )
        self.free = ~held
        self.slope = self.gradient * self.free
        self.direction = -(self.inverse @ self.slope.unsqueeze(-1)).squeeze(-1) * self.free

    def trial(self) -> Tensor:
        """The points to evaluate next."""
        moved = self.x + self.step.unsqueeze(-1) * self.direction
        return torch.minimum(torch.maximum(moved, self.lower), self.upper)

    def take(
        self,
        trial: Tensor,
        value: Tensor,
        gradient: Tensor,
        value_tolerance: float,
        gradient_tolerance: float,
    ) -> Tensor:
        """Accept or shorten the steps just evaluated; which problems go on, bool."""
        moved = trial - self.x
        promised = (self.gradient * moved).sum(-1)
        gained = self.value - value
        # Cut off at the bounds, a step may point upwards: then the value must not rise at least.
        enough = gained >= -SUFFICIENT_DECREASE * promised.clamp_max(0)
        accepted = enough & (value < math.inf) & self.going
        # The minimum of the parabola through both values and the first slope.
        shorter = -0.5 * promised / (-gained - promised)
        # 0 / 0 where a problem that is done stands still; its points are evaluated all the same.
        shorter = shorter.nan_to_num(0.1, 0.1, 0.1).clamp_(0.1, 0.5)
        self.step = torch.where(accepted, 1.0, self.step * shorter)
        self._learn(accepted, moved, gradient)
        small = gained <= value_tolerance * self.value.abs().clamp_min(1)
        self.x = torch.where(accepted.unsqueeze(-1), trial, self.x)
        self.value = torch.where(accepted, value, self.value)
        self.gradient = torch.where(accepted.unsqueeze(-1), gradient, self.gradient)
        self._turn()
        flat = self.slope.abs().amax(-1) <= gradient_tolerance
        stuck = ~accepted & (self.step < SHORTEST_STEP)
        self.going = self.going & ~(flat | stuck | (accepted & small))
        return self.going

    def _learn(self, accepted: Tensor, moved: Tensor, gradient: Tensor) -> None:
        """The BFGS update, H <- (I - ρ s yᵀ) H (I - ρ y sᵀ) + ρ s sᵀ with ρ = 1 / sᵀy."""
        s = moved
        y = (gradient - self.gradient) * (s != 0)
        product = (s * y).sum(-1)
        lengths = s.norm(dim=-1) * y.norm(dim=-1)
        learns = accepted & (product > CURVATURE * lengths)
        safe = torch.where(learns, product, 1.0)
        scale = torch.where(learns & self.fresh, safe / y.square().sum(-1).clamp_min(1e-300), 1.0)
        identity = torch.eye(s.shape[-1], dtype=s.dtype, device=s.device)
        rescaled = scale[:, None, None] * identity
        inverse = torch.where((learns & self.fresh)[:, None, None], rescaled, self.inverse)
        self.fresh = self.fresh & ~learns
        rho = (learns / safe)[:, None, None]
        s_column = s.unsqueeze(-1)
        hy = inverse @ y.unsqueeze(-1)
        bend = 1 + rho * (y.unsqueeze(-2) @ hy)
        cross = hy @ s_column.mT
        self.inverse = inverse + rho * (bend * (s_column @ s_column.mT) - cross - cross.mT)

    def keep(self, left: Tensor) -> None:
        """Leave out all but some problems, given by number."""
        for name in (
            "x", "value", "gradient", "lower", "upper", "step", "going", "fresh", "inverse",
            "free", "slope", "direction",
        ):  # fmt: skip
            setattr(self, name, getattr(self, name).index_select(0, left))
