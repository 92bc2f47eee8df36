"""Batched minimisation of many small problems within bounds.

The method is projected BFGS. Coordinates that the gradient pushes against a bound are fixed, and
the other coordinates move by the current inverse Hessian. The step is shortened until the function
falls enough (Armijo). Every problem has its own matrix and step length, so the result of a problem
does not depend on the batch. All problems are evaluated together, and finished problems are
removed. The method waits for a GPU only to detect finished problems.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

Objective = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""A function of points, `m x p`, and of the numbers of their problems, `m`. It returns values, `m`,
and gradients, `m x p`. If problems form groups of k, points and gradients are `m x k x p`, values
are `m x k`, and the numbers are those of the groups, `m`."""

SUFFICIENT_DECREASE = 1e-4
CURVATURE = 1e-10
"""Smallest cosine of the angle between a step and the resulting change of the gradient at which the
inverse Hessian is updated."""
FIRST_STEP = 0.1
"""Length of the first step of each problem."""
BETWEEN_LOOKS = 4
"""Smallest number of evaluations between two checks for finished problems on a GPU. The number
between two later checks is a third of the evaluations so far, if this third is larger."""
SHORTEST_STEP = 1e-12
"""Smallest length of a step, as a share of the first length in its line search; a problem ends if
its step becomes shorter."""


def minimize(
    function: Objective,
    start: Tensor,
    lower: Tensor | float,
    upper: Tensor | float,
    *,
    evaluations: int = 200,
    value_tolerance: float = 1e-9,
    gradient_tolerance: float = 1e-6,
) -> Descent:
    """Local minima of independent problems within bounds.

    Coordinates should be scaled such that a step of 0.1 is moderate.

    Args:
        function: A function that returns the value to minimise and its gradient; a result that is
            not finite counts as infinitely bad.
        start: Starting points, `n x p`; clamped to the bounds.
        lower: Lower bounds, broadcastable with ``start``.
        upper: Upper bounds, broadcastable with ``start``.
        evaluations: Largest number of evaluations of the function.
        value_tolerance: A problem ends after a step that lowers the value by at most this
            tolerance, relative to max(|value|, 1).
        gradient_tolerance: A problem also ends when no coordinate of the projected gradient exceeds
            this tolerance in absolute value.

    Returns:
        The finished descent; its attribute ``x`` contains the best points.
    """
    descent = Descent(function, start, lower, upper, value_tolerance, gradient_tolerance)
    descent.go(evaluations)
    return descent


class Descent:
    """A batch of descents: single problems, or groups of problems whose members may be dropped.

    Args:
        function: A function that returns the value to minimise and its gradient, as for
            :func:`minimize`; the constructor calls this function once.
        start: Starting points, `n x p`, or `n x k x p` for groups of k; clamped to the bounds. A
            group is evaluated until all its members have ended.
        lower: Lower bounds, broadcastable with ``start``.
        upper: Upper bounds, broadcastable with ``start``.
        value_tolerance: A problem ends after a step that lowers the value by at most this
            tolerance, as for :func:`minimize`.
        gradient_tolerance: A problem also ends if its projected gradient does not exceed this
            tolerance, as for :func:`minimize`.
        futile: A member of a group also ends if its value is far above the best value of the group:
            by more than ``futile`` times the decrease that the gradient predicts for the member's
            next step.

    Attributes:
        x: The best points, of the shape of ``start``.
        value: Values of the function at ``x``, `n` or `n x k`.
        evaluations: Number of evaluations of the function.
    """

    def __init__(
        self,
        function: Objective,
        start: Tensor,
        lower: Tensor | float,
        upper: Tensor | float,
        value_tolerance: float,
        gradient_tolerance: float,
        futile: float = math.inf,
    ) -> None:
        self._tolerances, self._futile = (value_tolerance, gradient_tolerance), futile
        # A number becomes a tensor on the device, without a copy from the host.
        bounds = [
            bound.to(start) if isinstance(bound, Tensor) else start.new_full((), bound)
            for bound in (lower, upper)
        ]
        self._lower, self._upper = (bound.expand_as(start) for bound in bounds)
        self._at = start.clamp(self._lower, self._upper)
        self._function, self._rows = function, torch.arange(len(start), device=start.device)
        value, gradient = function(self._at, self._rows)
        bad = ~(value + (gradient - gradient).sum(-1)).isfinite()
        self._height = value.masked_fill(bad, math.inf)
        self._gradient = gradient.masked_fill(bad.unsqueeze(-1), 0.0)
        self.x, self.value, self.evaluations = self._at.clone(), self._height.clone(), 1
        self._step = torch.ones_like(value)
        self._going = torch.ones_like(value, dtype=torch.bool)
        self._fresh = torch.ones_like(self._going)
        self._identity = torch.eye(start.shape[-1], dtype=start.dtype, device=start.device)
        self._inverse = self._identity.expand(*value.shape, -1, -1)
        self._uphill: Tensor
        self._turn()
        length = self._uphill.norm(dim=-1).clamp_min(torch.finfo(start.dtype).tiny)
        factor = (FIRST_STEP / length).unsqueeze(-1)
        self._inverse, self._uphill = self._inverse * factor.unsqueeze(-1), self._uphill * factor

    def go(self, evaluations: int, *, blindly: bool = False) -> None:
        """Descend until all problems have ended or ``evaluations`` is reached.

        Args:
            evaluations: Largest total number of evaluations.
            blindly: On a GPU, whether to skip the checks that detect finished problems.
        """
        on_cpu, next_look = self.x.device.type == "cpu", _next_look(self.evaluations)
        while self.evaluations < evaluations and len(self._rows):
            trial = torch.addcmul(self._at, self._step.unsqueeze(-1), self._uphill, value=-1)
            trial.clamp_(self._lower, self._upper)
            value, gradient = self._function(trial, self._rows)
            self.evaluations += 1
            self._take(trial, value, gradient)
            if self._futile < math.inf:
                promised = (self._slope * self._uphill).sum(-1)
                within = self._height.amin(-1, keepdim=True).add(promised, alpha=self._futile)
                # The length of the first step is arbitrary, so the first step promises no decrease.
                self._going = self._going > ((self._height > within) > self._fresh)
            if on_cpu or (not blindly and self.evaluations >= next_look):
                next_look = _next_look(self.evaluations)
                self._look()
        self._write_down()

    def go_on_with(self, some: Tensor) -> None:
        """Retain j members of every group, those that ``some`` lists, `n x j`, in this order."""
        self._write_down()
        self.x, self.value = (members_of(part, some) for part in (self.x, self.value))
        own = some.index_select(0, self._rows)
        for name in OF_PROBLEMS:
            setattr(self, name, members_of(getattr(self, name), own))
        if self.x.device.type == "cpu":
            self._look()

    def _write_down(self) -> None:
        if len(self._rows) == len(self.x):
            self.x, self.value = self._at, self._height
        else:
            self.x[self._rows], self.value[self._rows] = self._at, self._height

    def _look(self) -> None:
        """Remove finished problems or groups from the batch when they are the majority."""
        going = self._going.any(-1) if self._going.dim() > 1 else self._going
        remaining = int(going.sum())
        if remaining > len(self._rows) // 2:
            return
        self._write_down()
        # Select the remaining rows in their order. The number of remaining rows is already on the
        # host.
        rows = going.to(torch.uint8).argsort(stable=True, descending=True)[:remaining]
        for name in ("_rows", *OF_PROBLEMS):
            setattr(self, name, getattr(self, name).index_select(0, rows))

    def _turn(self) -> None:
        """Set the direction of the next step from the gradient and the inverse Hessian."""
        # A coordinate that is pushed against its bound is fixed.
        free = torch.where(self._gradient > 0, self._lower, self._upper) != self._at
        self._slope = self._gradient * free
        self._uphill = (self._inverse * self._slope.unsqueeze(-2)).sum(-1) * free

    def _take(self, trial: Tensor, value: Tensor, gradient: Tensor) -> None:
        """Accept or shorten the steps just evaluated."""
        value_tolerance, gradient_tolerance = self._tolerances
        moved = trial - self._at
        promised = (self._gradient * moved).sum(-1)
        total = gradient.sum(-1) + value
        # x - x is 0 for finite x and NaN otherwise, so the gain is NaN if anything is not finite.
        gained = self._height - value + (total - total)
        # A step that is clamped to the bounds may point uphill, but the value must not increase.
        enough = gained.add(promised.clamp_max(0), alpha=SUFFICIENT_DECREASE) >= 0
        accepted = enough & self._going
        # Step length at the minimum of the parabola through the values at both ends of the step and
        # the slope at its start.
        shorter = (0.5 * promised).div_(promised + gained)
        # A finished problem does not move, so its ``shorter`` is 0 / 0.
        shorter = shorter.nan_to_num_(0.1, 0.1, 0.1).clamp_(0.1, 0.5)
        self._step = shorter.mul_(self._step).masked_fill_(accepted, 1.0)
        gradient = torch.where(accepted.unsqueeze(-1), gradient, self._gradient)
        self._learn(moved, gradient - self._gradient)
        small = gained <= value_tolerance * self._height.abs().clamp_min_(1)
        self._at = torch.where(accepted.unsqueeze(-1), trial, self._at)
        self._height = torch.where(accepted, value, self._height)
        self._gradient = gradient
        self._turn()
        flat = torch.linalg.vector_norm(self._slope, math.inf, -1) <= gradient_tolerance
        # An accepted step resets the step length to 1.
        done = flat | (self._step < SHORTEST_STEP) | (accepted & small)
        self._going = self._going > done

    def _learn(self, s: Tensor, y: Tensor) -> None:
        """The BFGS update, H <- (I - ρ s yᵀ) H (I - ρ y sᵀ) + ρ s sᵀ with ρ = 1 / sᵀy.

        Args:
            s: Steps.
            y: Changes of the gradient; zero changes do not update H.
        """
        y = y * (s != 0)
        product, square = (s * y).sum(-1), y.square().sum(-1)
        useless = product <= CURVATURE * (s.square().sum(-1) * square).sqrt_()
        first = self._fresh > useless
        inverse = self._inverse
        if s.device.type != "cpu" or bool(first.any()):
            scale = product / square.clamp_min(torch.finfo(s.dtype).tiny)
            rescaled = scale[..., None, None] * self._identity
            inverse = torch.where(first[..., None, None], rescaled, inverse)
            self._fresh = self._fresh & useless
        rho = product.reciprocal().masked_fill_(useless, 0.0).unsqueeze(-1)
        # With h = H y and u = h - ½ (1 + ρ yᵀh) s the update is H - ρ (s uᵀ + u sᵀ).
        h = (inverse * y.unsqueeze(-2)).sum(-1)
        u = torch.addcmul(h, 1 + rho * (y * h).sum(-1, keepdim=True), s, value=-0.5)
        outer = (rho * s).unsqueeze(-1) * u.unsqueeze(-2)
        self._inverse = (inverse - outer).sub_(outer.mT)


OF_PROBLEMS = (
    "_at", "_height", "_gradient", "_lower", "_upper", "_step", "_going", "_fresh", "_inverse",
    "_slope", "_uphill",
)  # fmt: skip
"""Names of the attributes that contain the state of each remaining problem."""


def _next_look(evaluations: int) -> int:
    """Number of evaluations at the next check for finished problems."""
    return evaluations + max(BETWEEN_LOOKS, evaluations // 3)


def members_of(part: Tensor, some: Tensor) -> Tensor:
    """Select members of every group, `n x k x *`, by their numbers, `n x j`: `n x j x *`."""
    index = some.view(*some.shape, *[1] * (part.dim() - 2)).expand(*some.shape, *part.shape[2:])
    return part.gather(1, index)
