"""Find local maxima in a box, many at once, to machine precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

_FLOOR = 1e-12
"""Smallest curvature used as a divisor, relative to the largest; less is rounding in float64."""
_TOLERANCE = 1e-15
"""The ascent stops when the predicted gain, relative to the value, falls below this."""
_STEPS = 60
"""Largest number of steps; convergence near a maximum is quadratic."""


class Local(NamedTuple):
    """A function's value `n`, gradient `n x d` and second derivatives `n x d x d` at n points."""

    value: Tensor
    gradient: Tensor
    hessian: Tensor


class Climbed(NamedTuple):
    """Points `n x d` and their values `n`."""

    X: Tensor
    value: Tensor


Derivatives = Callable[[Tensor], Local]


def climb(derivatives: Derivatives, X: Tensor, bounds: Tensor) -> Climbed:
    """Maximise from every point of ``X`` by damped Newton steps, projected onto the box.

    Coordinates at a bound are held if the gradient points outward. In the others a step divides the
    gradient by the absolute curvature along each principal direction, so that it leaves saddle
    points. The damping grows until the value rises, so that no point ends below its start.

    Args:
        derivatives: Derivatives of the function; each value depends on its own point alone.
        X: Starting points in the box, `n x d`.
        bounds: Bounds of the box, `2 x d`.
    """
    lower, upper = bounds
    here = derivatives(X)
    damping = torch.full_like(here.value, 1e-3)
    for _ in range(_STEPS):
        low, high = lower >= X, upper <= X
        held = (low & (here.gradient < 0)) | (high & (here.gradient > 0))
        trial = torch.clamp(X + _step(here, held, damping), lower, upper)
        predicted_gain = (here.gradient * (trial - X)).sum(-1)
        if bool((predicted_gain <= _TOLERANCE * here.value.abs()).all()):
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
        function: Maps `n x d` to `n`; each value depends on its own point alone.
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
    # If the function is flat, the smallest positive number avoids a division by zero.
    least = (largest * _FLOOR).clamp(min=torch.finfo(largest.dtype).tiny)
    divisor = (curvature + damping.unsqueeze(-1) * largest).clamp(min=least)
    along = (directions.mT @ gradient.unsqueeze(-1)).squeeze(-1) / divisor
    step: Tensor = (directions @ along.unsqueeze(-1)).squeeze(-1)
    return step.masked_fill(held, 0.0)


def _like(mask: Tensor, target: Tensor) -> Tensor:
    return mask.reshape(mask.shape + (1,) * (target.dim() - mask.dim()))
