"""Subsets of points that tell much and repeat little: k-determinantal point processes.

P(Z) = det K_ZZ / Σ_{|Z'| = Q} det K_Z'Z', |Z| = Q, [M] Definition 3.1. Many trials are drawn at
once, each with points, a number of points and a Q of its own.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.experts.counter import draw_keys
from botorch_tv.experts.eigen import sample_by_eigenvalues
from botorch_tv.experts.swaps import swap_chain
from botorch_tv.strategies.draws import Draws, Generators, draws_for
from botorch_tv.validation import require_integer, require_trials

Steps = int | Literal["exact"] | None
"""Proposals of the swap chain; None for :func:`default_steps`; or the exact sampler instead."""

AFFORDABLE_STEPS = 2**15
"""Longer default chains are cut to n Q ln n where that is shorter."""
TIE_TOLERANCE = 1e-9
"""Residual variances this close in float64, as a share of the largest variance, are equal."""


def require_steps(name: str, steps: Steps) -> Steps:
    """Raise a ``ValueError`` unless ``steps`` is a number of proposals, ``"exact"`` or None."""
    if steps is None or (isinstance(steps, str) and steps == "exact"):
        return steps
    return require_integer(f"{name}: steps", steps, 0, "or give 'exact', or None.")


class Subset(NamedTuple):
    """A subset of the points of every trial.

    Attributes:
        index: Their places among the points, `batch_shape x Q`, int64.
        mask: Which entries count, bool; a trial uses its first ones.
    """

    index: Tensor  # type: ignore[assignment]
    mask: Tensor


class GreedySubset(NamedTuple):
    """Points in the order in which greedy choice takes them."""

    index: Tensor  # type: ignore[assignment]
    """Places, `batch_shape x count`, int64."""
    variance: Tensor
    """Variance of each given those before it, `batch_shape x count`; 0 once all are taken."""
    columns: Tensor
    """C with K ≈ C Cᵀ, exact on the points taken, `batch_shape x n x count`."""


def rank_tolerance(dtype: torch.dtype) -> float:
    """Residual variance below which a point counts as known, as a share of the largest variance.

    ε^(2/3) of the precision in which K was computed: 4e-11 in float64. Determinant ratios, whose
    digits are lost in proportion to the inverse, then keep a third of theirs.
    """
    return float(torch.finfo(dtype).eps ** (2 / 3))


def tie_tolerance(dtype: torch.dtype) -> float:
    """How close residual variances are equal, as a share of the largest variance.

    Those of points that are alike differ by the rounding of K, which is not the same on every
    processor; in float32 it is far above that of the float64 in which they are computed.
    """
    return max(TIE_TOLERANCE, 8 * torch.finfo(dtype).eps)


def default_steps(points: Tensor, size: Tensor) -> Tensor:
    """Length of the swap chain: ⌈8 n ln n⌉, or ⌈n Q ln n⌉ where the former is not affordable.

    Args:
        points: Number n of points, `batch_shape`.
        size: Number Q of points to draw, `batch_shape`.
    """
    n = points.double()
    per_factor = n * n.clamp_min(1).log()
    long = torch.ceil(8 * per_factor)
    short = torch.minimum(long, torch.ceil(size * per_factor))
    return torch.where(long <= AFFORDABLE_STEPS, long, short)


def greedy_map(
    covariance: Tensor,
    count: int,
    points: Tensor | None = None,
    *,
    tie: float | None = None,
) -> GreedySubset:
    """The greedy approximation of the most probable subset.

    Each point taken has the largest variance given those before it, so that the determinant grows
    by the largest factor; of equal ones the first, where an equal has half of it at least. This is
    Cholesky factorisation with complete pivoting, O(n Q²), and its pivots tell the numerical rank.

    Args:
        covariance: K, `batch_shape x n x n`.
        count: How many points to take, at least 1.
        points: Which of the n points there are, `batch_shape x n`, bool; all unless given.
        tie: How close variances are equal; :func:`tie_tolerance` of K's dtype unless given.
    """
    tie = tie_tolerance(covariance.dtype) if tie is None else tie
    left = covariance.diagonal(dim1=-2, dim2=-1)
    left = left.clone() if points is None else torch.where(points, left, 0.0)
    unit = left.amax(-1, keepdim=True)
    columns = torch.zeros(*left.shape, count, dtype=left.dtype, device=left.device)
    free = torch.ones_like(left, dtype=torch.bool) if points is None else points.clone()
    index, variance = [], []
    for number in range(count):
        open_ = torch.where(free, left, -1.0)
        best = open_.amax(-1, keepdim=True)
        # What is known but for rounding is no equal of what tells a little.
        near_best = open_ >= torch.maximum(best - tie * unit, 0.5 * best)
        place = near_best.to(torch.uint8).argmax(-1, keepdim=True)
        pivot = open_.gather(-1, place).clamp_min(0)
        at = place.unsqueeze(-1)
        row = covariance.gather(-2, at.expand(*at.shape[:-1], left.shape[-1])).squeeze(-2)
        before = columns.gather(-2, at.expand(*at.shape[:-1], count))
        column = row - (columns @ before.mT).squeeze(-1)
        column = torch.where(pivot > 0, column / pivot.sqrt().clamp_min(1e-300), 0.0)
        columns[..., number] = column
        left = (left - column.square()).clamp_min(0)
        free = free.scatter(-1, place, False)
        index.append(place.squeeze(-1))
        variance.append(pivot.squeeze(-1))
    return GreedySubset(torch.stack(index, -1), torch.stack(variance, -1), columns)


def numerical_rank(greedy: GreedySubset, tolerance: float) -> Tensor:
    """How many points, at most those taken, still tell something new, `batch_shape`."""
    known = greedy.variance <= tolerance * greedy.variance[..., :1]
    return (known.long().cumsum(-1) == 0).sum(-1)


def k_dpp(
    covariance: Tensor,
    size: int,
    draws: Generators | Draws | None,
    *,
    points: Tensor | None = None,
    steps: Steps = None,
    clip: bool = False,
) -> Subset:
    """Draw a subset of every trial's points with probability proportional to its determinant.

    A greedy start is followed by the swap chain; on 8 points its default length leaves a total
    variation distance below 0.01. All is computed in float64. The device is waited for once at the
    start where ``clip`` is False, and now and then while the chain runs.

    Args:
        covariance: K, symmetric positive semi-definite, `batch_shape x n x n`.
        size: Points Q to draw, at least 1.
        draws: Where random numbers come from: a ``torch.Generator``, one per trial in a list,
            anything with ``uniform`` and ``normal``, or None for PyTorch's own. One key per trial
            is drawn, however long the chain.
        points: Which of the n points there are, `batch_shape x n`, bool; all unless given.
        steps: Proposals that the chain makes, or ``"exact"`` for the sampler by eigenvalues.
        clip: Whether trials with fewer points, or of a lower numerical rank, draw fewer instead of
            being refused; ``size`` may then exceed n.

    Returns:
        The subsets, `batch_shape x Q`.

    Raises:
        InputDataError: If shapes do not fit, entries are not finite, or a trial has fewer points
            than it should draw, or a lower numerical rank, or generators are not one per trial.
        ValueError: If ``size`` or ``steps`` is below its limit.
    """
    size = require_integer("k_dpp: size", size, 1, "give the number of points to be drawn.")
    steps = require_steps("k_dpp", steps)
    _check(covariance, points)
    shape, n = covariance.shape[:-2], covariance.shape[-1]
    tolerance, tie = rank_tolerance(covariance.dtype), tie_tolerance(covariance.dtype)
    K = covariance.double().reshape(math.prod(shape), n, n)
    if points is None:
        there = torch.ones(K.shape[:-1], dtype=torch.bool, device=K.device)
    else:
        there = points.reshape(K.shape[:-1])
        K = K * (there.unsqueeze(-1) & there.unsqueeze(-2))
    most = min(size, n)
    if steps == "exact":
        greedy = _factored(K, most, there, tolerance, tie)
    else:
        greedy = greedy_map(K, most, there, tie=tie)
    full_rank = numerical_rank(greedy, tolerance)
    rank = full_rank.clamp_max(most)
    if not clip:
        _check_size(covariance, there, rank, size, shape)
    used = torch.arange(most, device=K.device) < rank.unsqueeze(-1)
    numbers = draws_for(draws, shape, dtype=K.dtype, device=K.device)
    key = draw_keys(numbers).reshape(-1)
    if steps == "exact":
        index = sample_by_eigenvalues(greedy.columns, full_rank, rank, most, key)
    else:
        number = there.sum(-1)
        length = default_steps(number, rank) if steps is None else number * 0 + steps
        index = swap_chain(K, greedy.index, rank, there, length, key)
    return Subset(*(part.view(*shape, most) for part in (index, used)))


def _factored(
    covariance: Tensor, size: int, points: Tensor, tolerance: float, tie: float
) -> GreedySubset:
    """Greedy choice carried on until nothing is left to know; the host looks how far that is."""
    n = covariance.shape[-1]
    count = min(n, 2 * size + 16)
    while True:
        greedy = greedy_map(covariance, count, points, tie=tie)
        rest = greedy.variance[..., -1] > tolerance * greedy.variance[..., 0]
        if count == n or not bool(rest.any()):
            # What is below the tolerance is rounding.
            known = greedy.variance <= tolerance * greedy.variance[..., :1]
            columns = greedy.columns.masked_fill(known.unsqueeze(-2), 0.0)
            return greedy._replace(columns=columns)
        count = min(n, 2 * count)


def _check(covariance: Tensor, points: Tensor | None) -> None:
    if covariance.dim() < 2 or covariance.shape[-1] != covariance.shape[-2]:
        raise InputDataError(
            f"k_dpp: covariance has shape {tuple(covariance.shape)}, but must be "
            "batch_shape x n x n."
        )
    if points is not None and (points.dtype != torch.bool or points.shape != covariance.shape[:-1]):
        raise InputDataError(
            f"k_dpp: points is {points.dtype} of shape {tuple(points.shape)}; pass a bool tensor "
            f"of shape {tuple(covariance.shape[:-1])}, True where there is a point."
        )


def _check_size(
    covariance: Tensor, there: Tensor, rank: Tensor, size: int, shape: tuple[int, ...]
) -> None:
    finite = covariance.isfinite().all(-1).all(-1)
    require_trials(
        finite,
        (~covariance.isfinite()).sum((-2, -1)),
        "entries of covariance are not finite",
        "repair them.",
    )
    number = there.sum(-1).view(shape)
    require_trials(
        number >= size,
        number,
        f"points are fewer than the size = {size} to be drawn",
        "draw fewer, or pass clip=True.",
    )
    # Greedy choice stops at ``size`` pivots, so a full count only says that the rank suffices.
    require_trials(
        rank.view(shape) >= size,
        rank.view(shape),
        f"is the numerical rank of the covariance, below the size = {size} to be drawn",
        "all larger subsets have determinant 0; draw fewer, or pass clip=True.",
    )
