"""Search for the best point of a random-feature function in a box."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from botorch_tv.even_points import even_points
from botorch_tv.test_functions.ascent import Climbed, Derivatives, Local, climb

_POINTS = 2**16
"""Largest number of candidates."""

_SPACING = 6
"""Grid points per lengthscale."""

_STARTS = 32
"""Candidates of each function from which ascent starts."""

_CHUNK = 4096
"""Candidates evaluated together, and points ascended together; bounds the memory."""


def candidates(bounds: Tensor, lengthscale: Tensor) -> Tensor:
    """Points that cover a box, `n x d`.

    A grid with six points per lengthscale, edges included, if that has at most 65,536 points (in
    two dimensions down to a lengthscale of 1/43 of the side, in three 1/7, in four 1/2.5);
    otherwise 65,536 points of a scrambled Sobol sequence.
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
    """Features cos ωᵀx and sin ωᵀx, `... x n x 2F`, of points `... x n x d` for `... x F x d`."""
    angle = X @ frequencies.mT
    return torch.cat([angle.cos(), angle.sin()], dim=-1)


def maximize(weights: Tensor, frequencies: Tensor, bounds: Tensor, points: Tensor) -> Climbed:
    """The best point found for each of several functions Σ_i w_i φ_i(x) with the same features.

    Args:
        weights: Weights of the features, `m x 2F`.
        frequencies: ω, `F x d`.
        bounds: Bounds of the box, `2 x d`.
        points: Candidates, `n x d`; ascent starts from the best 32 of each function.

    Returns:
        Points `m x d` and values `m`.
    """
    starts = _best_candidates(weights, frequencies, points)
    found = []
    together = max(1, _CHUNK // starts.shape[1])
    for some, start in zip(torch.split(weights, together), torch.split(starts, together)):
        m, k, d = start.shape
        own = some.repeat_interleave(k, dim=0)
        climbed = climb(_derivatives(own, frequencies), start.reshape(m * k, d), bounds)
        value, winner = climbed.value.reshape(m, k).max(-1)
        place = climbed.X.reshape(m, k, d)[torch.arange(m, device=winner.device), winner]
        found.append(Climbed(place, value))
    return Climbed(*(torch.cat(parts) for parts in zip(*found)))


def _best_candidates(weights: Tensor, frequencies: Tensor, points: Tensor) -> Tensor:
    """The best 32 of all points for each function, `m x k x d`."""
    best = weights.new_full((len(weights), 0), -math.inf)
    index = torch.empty_like(best, dtype=torch.int64)
    for first in range(0, len(points), _CHUNK):
        value = weights @ waves(points[first : first + _CHUNK], frequencies).mT
        number = torch.arange(first, first + value.shape[1], device=value.device)
        best = torch.cat([best, value], dim=1)
        index = torch.cat([index, number.expand_as(value)], dim=1)
        best, kept = best.topk(min(_STARTS, best.shape[1]), dim=1)
        index = index.gather(1, kept)
    return points[index]


def _derivatives(weights: Tensor, frequencies: Tensor) -> Derivatives:
    """Derivatives at point i of function i, Σ_j a_ij cos ω_jᵀx + b_ij sin ω_jᵀx."""
    count, dim = frequencies.shape
    a, b = weights[:, :count], weights[:, count:]
    outer = (frequencies.unsqueeze(-1) * frequencies.unsqueeze(-2)).reshape(count, dim * dim)

    def evaluate(X: Tensor) -> Local:
        angle = X @ frequencies.mT
        cosine, sine = angle.cos(), angle.sin()
        wave = a * cosine + b * sine
        gradient = (b * cosine - a * sine) @ frequencies
        return Local(wave.sum(-1), gradient, -(wave @ outer).reshape(-1, dim, dim))

    return evaluate
