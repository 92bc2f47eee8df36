"""Local maxima in a box, many at once, to machine precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

_FLOOR = 1e-12
"""Least curvature divided by, relative to the largest; less is noise in float64."""


_PROMISE = 1e-15
"""Promised gain, relative to the value, that is lost in rounding: the ascent is over."""
_STEPS = 60
"""At most so many; near a maximum convergence is quadratic."""


class Local(NamedTuple):
    """A function's value `n`, gradient `n x d` and second derivatives `n x d x d` at n points."""

    value: Tensor
    gradient: Tensor
    hessian: Tensor


class Climbed(NamedTuple):
    """Points `n x d` and the values `n` there."""

    X: Tensor
    value: Tensor


Derivatives = Callable[[Tensor], Local]


def climb(derivatives: Derivatives, X: Tensor, bounds: Tensor) -> Climbed:
    """Maximise from every point of ``X`` by damped Newton steps, projected onto the box.

    Coordinates at a bound which the gradient presses outward are held. In the others a step
    divides the gradient by the absolute curvature along each principal direction, so it climbs
    away from saddles, and it shrinks until the value rises: no point ends lower than it began.

    Args:
        derivatives: Of the function, whose n points do not influence each other.
        X: Starting points in the box, `n x d`.
        bounds: Of the box, `2 x d`.
    """
    lower, upper = bounds
    here = derivatives(X)
    damping = torch.full_like(here.value, 1e-3)
    for _ in range(_STEPS):
        low, high = lower >= X, upper <= X
        held = (low & (here.gradient < 0)) | (high & (here.gradient > 0))
        trial = torch.clamp(X + _step(here, held, damping), lower, upper)
        promised = (here.gradient * (trial - X)).sum(-1)
        if bool((promised <= _PROMISE * here.value.abs()).all()):
            break
        there = derivatives(trial)
        better = there.value > here.value
        X = torch.where(better.unsqueeze(-1), trial, X)
        here = Local(*(torch.where(_like(better, a), a, b) for a, b in zip(there, here)))
        damping = torch.where(better, damping / 10, damping.clamp(min=1e-3) * 10)
    return Climbed(X, here.value)


def derivatives_of(function: Callable[[Tensor], Tensor]) -> Derivatives:
    """Value, gradient and second derivatives by automatic differentiation.

    Args:
        function: From `n x d` to `n`, each value depending on its own point alone.
    """

    def evaluate(X: Tensor) -> Local:
        with torch.enable_grad():
            X = X.detach().requires_grad_(True)
            value = function(X)
            (gradient,) = torch.autograd.grad(value.sum(), X, create_graph=True)
            rows = [
                torch.autograd.grad(gradient[:, j].sum(), X, retain_graph=True)[0]
                for j in range(X.shape[-1])
            ]
        return Local(value.detach(), gradient.detach(), torch.stack(rows, dim=-2))

    return evaluate


def _step(here: Local, held: Tensor, damping: Tensor) -> Tensor:
    gradient = here.gradient.masked_fill(held, 0.0)
    blocked = held.unsqueeze(-1) | held.unsqueeze(-2)
    hessian = here.hessian.masked_fill(blocked, 0.0)
    curvature, directions = torch.linalg.eigh(hessian)
    curvature = curvature.abs()
    largest = curvature.amax(-1, keepdim=True)
    # A flat function has no largest curvature either; the least positive number stands in.
    least = (largest * _FLOOR).clamp(min=torch.finfo(largest.dtype).tiny)
    divisor = (curvature + damping.unsqueeze(-1) * largest).clamp(min=least)
    along = (directions.mT @ gradient.unsqueeze(-1)).squeeze(-1) / divisor
    step: Tensor = (directions @ along.unsqueeze(-1)).squeeze(-1)
    return step.masked_fill(held, 0.0)


def _like(mask: Tensor, target: Tensor) -> Tensor:
    return mask.reshape(mask.shape + (1,) * (target.dim() - mask.dim()))
