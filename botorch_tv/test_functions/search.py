"""Search for the best points in a box, by damped Newton ascents from many points at once."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from botorch_tv.even_points import even_points

_FLOOR = 1e-12
"""Smallest curvature by which a gradient is divided in a Newton step, relative to the largest
curvature; smaller curvatures are rounding errors."""
_TOLERANCE = 1e-15
"""Smallest predicted relative increase of the value with which an ascent continues."""
_STEPS = 60
"""Largest number of Newton steps of an ascent; few suffice, because convergence is quadratic."""


Derivatives = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]
"""Type of a function that maps points `n x d` to three tensors: values `n`, gradients `n x d` and
second derivatives `n x d x d`."""


def climb(derivatives: Derivatives, X: Tensor, bounds: Tensor) -> tuple[Tensor, Tensor]:
    """Maximise from every point of ``X`` by damped Newton steps, projected onto the box.

    In a step, a coordinate at a bound is fixed if the gradient points out of the box. In the
    coordinates that are not fixed, the step along each principal direction of the curvature is the
    gradient divided by the absolute curvature. Because the absolute curvature is used, ascents move
    away from saddle points. The damping is increased until the value increases, so no ascent ends
    below the value at its starting point.

    Args:
        derivatives: Function that returns value and derivatives at points; the results for a point
            depend on no other point.
        X: Starting points in the box, `n x d`.
        bounds: Bounds of the box, `2 x d`.

    Returns:
        Points `n x d` and their values `n`.
    """
    lower, upper = bounds
    value, gradient, hessian = derivatives(X)
    damping = torch.full_like(value, 1e-3)
    for _ in range(_STEPS):
        held = ((lower >= X) & (gradient < 0)) | ((upper <= X) & (gradient > 0))
        trial = torch.clamp(X + _step(gradient, hessian, held, damping), lower, upper)
        predicted_gain = (gradient * (trial - X)).sum(-1)
        if bool((predicted_gain <= _TOLERANCE * value.abs()).all()):
            break
        there, slope, curvature = derivatives(trial)
        better = there > value
        X = torch.where(better.unsqueeze(-1), trial, X)
        value = torch.where(better, there, value)
        gradient = torch.where(better.unsqueeze(-1), slope, gradient)
        hessian = torch.where(better[:, None, None], curvature, hessian)
        damping = torch.where(better, damping / 10, damping.clamp(min=1e-3) * 10)
    return X, value


def climb_best(derivatives: Derivatives, starts: Tensor, bounds: Tensor) -> tuple[Tensor, Tensor]:
    """The best of several ascents, for each of several functions.

    Args:
        derivatives: Function that returns values and derivatives at m · k points. The first k
            points belong to the first of the m functions, the next k points to the second function,
            and so on.
        starts: Starting points of each function, `m x k x d`.
        bounds: Bounds of the box, `2 x d`.

    Returns:
        Points `m x d` and their values `m`.
    """
    X, reached = climb(derivatives, starts.flatten(0, 1), bounds)
    values, winner = reached.reshape(starts.shape[:2]).max(-1)
    rows = torch.arange(len(winner), device=winner.device)
    return X.reshape(starts.shape)[rows, winner], values


def derivatives_of(function: Callable[[Tensor], Tensor]) -> Derivatives:
    """A function that returns value, gradient and Hessian; undefined derivatives are set to 0.

    Args:
        function: A function of points `n x d` that returns values `n`; each value depends only on
            its own point.
    """

    def evaluate(X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with torch.enable_grad():
            X = X.detach().requires_grad_(True)
            value = function(X)
            (gradient,) = torch.autograd.grad(value.sum(), X, create_graph=True)
            rows = [
                torch.autograd.grad(gradient[:, j].sum(), X, retain_graph=True)[0]
                for j in range(X.shape[-1])
            ]
        gradient, hessian = gradient.detach(), torch.stack(rows, dim=-2)
        # At points without derivatives, derivatives are set to 0, so the ascent stops.
        kink = ~(gradient.isfinite().all(-1) & hessian.isfinite().flatten(1).all(-1))
        gradient = gradient.masked_fill(kink.unsqueeze(-1), 0.0)
        return value.detach(), gradient, hessian.masked_fill(kink[:, None, None], 0.0)

    return evaluate


def _step(gradient: Tensor, hessian: Tensor, held: Tensor, damping: Tensor) -> Tensor:
    gradient = gradient.masked_fill(held, 0.0)
    hessian = hessian.masked_fill(held.unsqueeze(-1) | held.unsqueeze(-2), 0.0)
    curvature, directions = torch.linalg.eigh(hessian)
    curvature = curvature.abs()
    largest = curvature.amax(-1, keepdim=True)
    # If the function is flat, all curvatures are 0; the smallest positive number avoids a division
    # by 0.
    least = (largest * _FLOOR).clamp(min=torch.finfo(largest.dtype).tiny)
    divisor = (curvature + damping.unsqueeze(-1) * largest).clamp(min=least)
    along = (directions.mT @ gradient.unsqueeze(-1)).squeeze(-1) / divisor
    step: Tensor = (directions @ along.unsqueeze(-1)).squeeze(-1)
    return step.masked_fill(held, 0.0)


_POINTS = 2**16
"""Largest number of candidates for the optimum."""

_SPACING = 6
"""Number of grid points per lengthscale, along each coordinate of the grid of candidates."""

_STARTS = 32
"""Number of best candidates from which ascents start for each function."""

_CHUNK = 4096
"""Largest number of candidates that are evaluated together, and of ascents that run together; it
limits the memory."""


def candidates(bounds: Tensor, lengthscale: Tensor) -> Tensor:
    """Points that cover a box, `n x d`.

    The points are a grid with six points per lengthscale, including the edges, if this grid has at
    most 65,536 points. The grid is small enough if each lengthscale, divided by the range of its
    coordinate, is at least 1/42 in 2 dimensions, 1/6 in 3 dimensions and 1/2.5 in 4 dimensions. If
    the grid would have more than 65,536 points, the points are 65,536 points of a scrambled Sobol
    sequence.
    """
    lower, upper = bounds
    counts = [
        max(2, math.ceil(_SPACING * side) + 1) for side in ((upper - lower) / lengthscale).tolist()
    ]
    if math.prod(counts) <= _POINTS:
        axes = [torch.linspace(0, 1, count, dtype=bounds.dtype) for count in counts]
        share = torch.cartesian_prod(*axes).reshape(-1, len(counts))
    else:
        share = even_points(_POINTS, len(counts))
    return torch.clamp(lower + (upper - lower) * share.to(bounds), lower, upper)


def waves(X: Tensor, frequencies: Tensor) -> Tensor:
    """Features cos ωᵀx and sin ωᵀx, `... x n x 2F`; x is `... x n x d`, and ω is `... x F x d`."""
    angle = X @ frequencies.mT
    return torch.cat([angle.cos(), angle.sin()], dim=-1)


def maximize(
    weights: Tensor, frequencies: Tensor, bounds: Tensor, points: Tensor
) -> tuple[Tensor, Tensor]:
    """The best point found for each of several functions Σ_i w_i φ_i(x) with the same features φ.

    Args:
        weights: Weights of the features, `m x 2F`.
        frequencies: Angular frequencies ω of the features, `F x d`.
        bounds: Bounds of the box, `2 x d`.
        points: Candidates, `n x d`; ascents start from the best 32 candidates of each function.

    Returns:
        Points `m x d` and values `m`.
    """
    starts = _best_candidates(weights, frequencies, points)
    found = []
    together = max(1, _CHUNK // starts.shape[1])
    for some, start in zip(torch.split(weights, together), torch.split(starts, together)):
        own = some.repeat_interleave(start.shape[1], dim=0)
        found.append(climb_best(_derivatives(own, frequencies), start, bounds))
    places, best = zip(*found)
    return torch.cat(places), torch.cat(best)


def _best_candidates(weights: Tensor, frequencies: Tensor, points: Tensor) -> Tensor:
    """The best 32 of all candidates for each function, `m x k x d`."""
    best = weights.new_full((len(weights), 0), -math.inf)
    index = torch.empty_like(best, dtype=torch.int64)
    for first in range(0, len(points), _CHUNK):
        value = weights @ waves(points[first : first + _CHUNK], frequencies).mT
        number = torch.arange(first, first + value.shape[1], device=value.device)
        best = torch.cat([best, value], dim=1)
        index = torch.cat([index, number.expand_as(value)], dim=1)
        best, retained = best.topk(min(_STARTS, best.shape[1]), dim=1)
        index = index.gather(1, retained)
    return points[index]


def _derivatives(weights: Tensor, frequencies: Tensor) -> Derivatives:
    """Value and derivatives of function i, Σ_j a_ij cos ω_jᵀx + b_ij sin ω_jᵀx, at point i."""
    count, dim = frequencies.shape
    a, b = weights[:, :count], weights[:, count:]
    outer = (frequencies.unsqueeze(-1) * frequencies.unsqueeze(-2)).reshape(count, dim * dim)

    def evaluate(X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        angle = X @ frequencies.mT
        cosine, sine = angle.cos(), angle.sin()
        wave = a * cosine + b * sine
        gradient = (b * cosine - a * sine) @ frequencies
        return wave.sum(-1), gradient, -(wave @ outer).reshape(-1, dim, dim)

    return evaluate
