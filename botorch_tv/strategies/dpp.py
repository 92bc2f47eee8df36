"""Draw informative, diverse subsets of points: k-determinantal point processes (k-DPP).

With covariance matrix K, a subset Z of Q points has the probability
P(Z) = det K_ZZ / Σ_{|Z'| = Q} det K_Z'Z', [M] Definition 3.1. The subsets of all trials of a batch
are drawn at once; each trial has its own points and its own Q. There are two samplers.

The exact sampler is Algorithm 1 of Kulesza and Taskar (2011), which decomposes K once per subset.
It first draws Q eigenvectors, from the smallest eigenvalue to the largest. If k eigenvectors are
still to be drawn, it draws the l-th with probability λ_l e_{k-1}(λ_1..λ_{l-1}) / e_k(λ_1..λ_l),
where e_k is the elementary symmetric polynomial of degree k. It then draws one point at a time,
with probability proportional to the squared norm of the point's row of the eigenvectors, after
these rows are projected off the rows of the points drawn before. If eigenvalues are equal, their
eigenvectors are not unique, and processors would draw different subsets. Therefore rows of L with
K = L Lᵀ are scaled by fixed factors that differ by at most :data:`SEPARATION`, so that eigenvalues
differ. If L has r columns, the cost is O(n r² + n Q²).

The swap chain of Burt, Rasmussen and van der Wilk (2020) proposes to replace a uniformly chosen
point of the subset Z by a uniformly chosen point x outside it. The chain accepts the new subset Z'
with probability min(1, det K_Z'Z' / det K_ZZ). Let A = K_ZZ⁻¹, and let x have the coefficients u =
A k_Zx and the residual variance c = k(x, x) - uᵀ k_Zx. If x replaces the i-th point, the ratio of
the determinants is

    ρ = A_ii c + u_i²,

which costs O(Q²). An accepted swap changes the matrix A by two rank-one terms. The matrix A does
not change until a proposal is accepted, so several proposals are evaluated together. The first
accepted proposal is executed; later proposals are evaluated again from the new subset. Random
numbers are indexed by proposal, so the chain does not depend on how many proposals are evaluated
together.

Chains of different trials differ in length. If chains consumed the study's random streams, trials
of a batch would influence each other's later rounds. Therefore only the key of the chain, an
integer, is drawn from the trial's stream. Each random number of a chain is a hash of the chain's
key and a counter (SplitMix64 of Steele, Lea and Flood 2014).
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from botorch_tv.gp.linalg import at_index
from botorch_tv.gp.random import GOLDEN, Draws, Generators, draws_for, mixed, shifted
from botorch_tv.validation import require_integer, require_trials

KEY_PARTS = 4
"""Number of uniform numbers drawn per key; each supplies 16 bits, which float32 holds exactly."""
SEPARATION = 1e-8
"""Largest relative change of a point's feature that separates equal eigenvalues."""
_BITS = 16
_MANTISSA = 52


def draw_keys(draws: Draws) -> Tensor:
    """Draw one key per trial, `batch_shape`, int64."""
    parts = (draws.uniform(KEY_PARTS).double() * 2**_BITS).long()
    key = torch.zeros_like(parts[..., 0])
    for part in parts.unbind(-1):
        key = (key << _BITS) ^ part
    return mixed(key)


def uniforms(key: Tensor, number: Tensor) -> Tensor:
    """Random numbers, uniform on the open interval (0, 1), from keys and counters.

    Args:
        key: Keys from :func:`draw_keys`, int64, any shape.
        number: Counters, int64, of any shape that broadcasts with ``key``. A counter is a position,
            counted from 0, in a key's sequence of random numbers.

    Returns:
        Random numbers, float64, in the joint broadcast shape of ``key`` and ``number``.
    """
    word = mixed(key + (number + 1) * GOLDEN)
    # The offset of half a step excludes 0 and 1, so logarithms are finite.
    return (shifted(word, 64 - _MANTISSA).double() + 0.5) * 2.0**-_MANTISSA


def sample_by_eigenvalues(factor: Tensor, rank: Tensor, size: Tensor, uniform: Tensor) -> Tensor:
    """Draw N subsets by the exact sampler.

    Args:
        factor: Factors L of the covariance matrices K = L Lᵀ, `N x n x r`, float64, with zero rows
            for absent points.
        rank: Number of non-zero columns of L, `N`; these columns are linearly independent.
        size: Number of points to draw for each subset, at most the rank, `N`.
        uniform: Random numbers, `N x (most + r)`, where ``most`` is the largest ``size``: one for
            each point drawn, then one for each eigenvector, in descending order of eigenvalues.

    Returns:
        Indices of the points drawn, `N x most`. Each subset consists of the first ``size`` points
        of its row.
    """
    smallest, columns = torch.finfo(factor.dtype).tiny, factor.shape[-1]
    most = uniform.shape[-1] - columns
    row = torch.arange(1, factor.shape[-2] + 1, dtype=factor.dtype, device=factor.device)
    scale = 1 + SEPARATION * (row.sqrt() % 1)
    # Singular values of L are more precise than eigenvalues of K, and in descending order.
    vectors, roots, _ = torch.linalg.svd(scale.unsqueeze(-1) * factor, full_matrices=False)
    valid = torch.arange(roots.shape[-1], device=roots.device) < rank.unsqueeze(-1)
    # Only ratios of eigenvalues matter, so the largest eigenvalue is scaled to 1.
    log_values = 2 * (roots / roots[..., :1].clamp_min(smallest)).clamp_min(smallest).log()
    log_values = torch.where(valid, log_values, -torch.inf)
    # The chance of the l-th eigenvector, where k are still to be drawn: `N x r x most`.
    sums = log_elementary_polynomials(log_values, most)
    chance = (log_values.unsqueeze(-1) + sums[..., :-1, :-1] - sums[..., 1:, 1:]).exp()
    wanted = torch.nn.functional.pad(uniform[..., most:].unsqueeze(-1) < chance, (1, 0)).long()
    left, chosen = size.unsqueeze(-1), []
    for each in wanted.flip(-2).unbind(-2):
        chosen.append(each.gather(-1, left))
        left = left - chosen[-1]
    taken = torch.cat(chosen[::-1], -1)
    order = taken.argsort(dim=-1, descending=True, stable=True)[..., :most]
    basis = (vectors * taken.unsqueeze(-2)).take_along_dim(order.unsqueeze(-2), -1)
    chance, drawn = basis.square().sum(-1), list[Tensor]()
    directions = torch.zeros_like(basis[..., :most, :])
    for number in range(most):
        upto = chance.cumsum(-1)
        target = uniform[..., number : number + 1] * upto[..., -1:]
        place = torch.searchsorted(upto, target, right=True).clamp_max(upto.shape[-1] - 1)
        drawn.append(place)
        own = basis.take_along_dim(place.unsqueeze(-1), -2)
        for _ in range(2):  # the second time removes the rounding errors of the first
            own = own - (own @ directions.mT) @ directions
        direction = own / own.norm(dim=-1, keepdim=True).clamp_min(smallest)
        directions[..., number : number + 1, :] = direction
        chance = (chance - (basis @ direction.mT).squeeze(-1).square()).clamp_min(0)
        chance = chance.scatter(-1, place, 0.0)
    return torch.cat(drawn, -1)


def log_elementary_polynomials(log_values: Tensor, most: int) -> Tensor:
    """Logarithms of the elementary symmetric polynomials e_k of the first l eigenvalues λ.

    e_k(λ_1..λ_l) = e_k(λ_1..λ_{l-1}) + λ_l e_{k-1}(λ_1..λ_{l-1}); no digits are lost by
    cancellation, because neither term is negative. Logarithms prevent overflow.

    Args:
        log_values: ln λ, `N x n`; -inf for 0.
        most: Largest degree k.

    Returns:
        ln e_k for l = 0..n and k = 0..most, `N x (n + 1) x (most + 1)`.
    """
    row = log_values.new_full((len(log_values), most + 1), -torch.inf)
    row[..., 0] = 0.0
    rows = [row]
    for log_value in log_values.unbind(-1):
        with_it = row[..., :-1] + log_value.unsqueeze(-1)
        row = torch.cat([row[..., :1], torch.logaddexp(row[..., 1:], with_it)], -1)
        rows.append(row)
    return torch.stack(rows, -2)


LOOKAHEAD_NUMBERS = {"cpu": 2**14, "cuda": 2**20}
"""Maximum total number of coefficients u of proposals evaluated together, by device type."""
MOST_TOGETHER = 32
RENEW_TURNS = 64
"""Number of iterations after which the inverse is recomputed, because rank-one updates lose digits.
"""
GLANCE_TURNS = {"cpu": 1, "cuda": 32}
"""Number of iterations between checks of whether all chains have ended; a check synchronises a GPU.
"""


def swap_chain(
    covariance: Tensor, chosen: Tensor, size: Tensor, points: Tensor, steps: Tensor, key: Tensor
) -> Tensor:
    """Run the swap chain from a given subset.

    Args:
        covariance: K, `N x n x n`, float64.
        chosen: Indices of the points of the first subset Z, `N x Q`, int64; a trial uses the first
            ``size`` indices.
        size: Number of points in each subset, `N`.
        points: Whether each of the n points exists, `N x n`, bool.
        steps: Number of proposals, including rejected proposals, `N`.
        key: Keys from :func:`~botorch_tv.strategies.dpp.draw_keys`, `N`.

    Returns:
        The subset after all proposals, `N x Q`.
    """
    device = chosen.device.type
    limit = LOOKAHEAD_NUMBERS.get(device, 2**14) // max(1, chosen.numel())
    together = min(MOST_TOGETHER, max(2, limit))
    used = torch.arange(chosen.shape[-1], device=chosen.device) < size.unsqueeze(-1)
    # Unused entries of ``chosen`` are arbitrary indices, so they must not mark points as occupied.
    occupied = torch.zeros_like(points, dtype=torch.int64).scatter_add_(-1, chosen, used.long())
    free = points & (occupied == 0)
    outside = free.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)
    number = free.sum(-1)
    steps = torch.where((size > 0) & (number > 0), steps, 0)
    # If one of two points of equal variance is drawn, the chain accepts every proposal and
    # alternates between the two points. After a fixed number of proposals, the result would depend
    # on the starting point. Therefore a chain that draws one of two points is shortened by one
    # proposal with probability 1/2. No proposal uses the random number that decides whether to
    # shorten the chain.
    coin = uniforms(key.unsqueeze(-1), 3 * steps.long().unsqueeze(-1)).squeeze(-1) < 0.5
    steps = steps - ((size == 1) & (number == 1) & (steps > 0) & coin).long()
    done, chosen = torch.zeros_like(number), chosen.clone()
    ahead = torch.arange(together, device=chosen.device)
    three = torch.arange(3, device=chosen.device).view(3, 1, 1)
    turn, glance = 0, GLANCE_TURNS.get(device, 1)
    while turn % glance != 0 or bool((done < steps).any()):
        if turn % RENEW_TURNS == 0:
            inverse = _inverse(covariance, chosen, used)
        step = done.unsqueeze(-1) + ahead
        # Each proposal has its own three random numbers.
        out, into, threshold = uniforms(key.unsqueeze(-1), 3 * step + three)
        leaving, entering = _place(out, size), _place(into, number)
        ratio, coefficients = _consider(
            covariance, inverse, chosen, used, outside.gather(-1, entering), leaving
        )
        accepted = (ratio > threshold) & (step < steps.unsqueeze(-1))
        moves, first = accepted.any(-1), accepted.to(torch.uint8).argmax(-1)
        exited = at_index(leaving, first)
        u = coefficients.gather(-2, first.view(-1, 1, 1).expand(-1, 1, chosen.shape[-1]))
        _swap_(inverse, u.squeeze(-2), at_index(ratio, first), exited, moves)
        entered = at_index(entering, first)
        old, new = at_index(chosen, exited), at_index(outside, entered)
        chosen.scatter_(-1, exited.unsqueeze(-1), torch.where(moves, new, old).unsqueeze(-1))
        outside.scatter_(-1, entered.unsqueeze(-1), torch.where(moves, old, new).unsqueeze(-1))
        done = done + torch.where(moves, first + 1, together)
        turn += 1
    return chosen


def _place(uniform: Tensor, count: Tensor) -> Tensor:
    """Convert uniform numbers, `N x m`, to indices below ``count``."""
    places = count.unsqueeze(-1)  # uniform * places may round up to ``count``
    return torch.minimum((uniform * places).long(), (places - 1).clamp_min(0))


def _consider(
    covariance: Tensor,
    inverse: Tensor,
    chosen: Tensor,
    used: Tensor,
    entering: Tensor,
    leaving: Tensor,
) -> tuple[Tensor, Tensor]:
    """Ratios ρ of swaps, `N x m`, and coefficients u, `N x m x Q`.

    Args:
        covariance: K, `N x n x n`.
        inverse: A, `N x Q x Q`.
        chosen: The subset, indices of points, `N x Q`.
        used: Whether each entry of the subset is in use, `N x Q`, bool.
        entering: Indices of the points proposed to enter the subset, `N x m`.
        leaving: Entries of the subset proposed to leave, `N x m`.
    """
    n = covariance.shape[-1]
    flat = covariance.flatten(-2)
    at = entering.unsqueeze(-1) * n + chosen.unsqueeze(-2)
    among = flat.gather(-1, at.flatten(-2)).view(at.shape) * used.unsqueeze(-2)
    coefficients = among @ inverse
    residual = flat.gather(-1, entering * (n + 1)) - (coefficients * among).sum(-1)
    own = coefficients.gather(-1, leaving.unsqueeze(-1)).squeeze(-1)
    diagonal = inverse.diagonal(dim1=-2, dim2=-1).gather(-1, leaving)
    return diagonal * residual.clamp_min(0) + own.square(), coefficients


def _swap_(inverse: Tensor, u: Tensor, ratio: Tensor, leaving: Tensor, moves: Tensor) -> None:
    """Update A in place for one swap in the trials ``moves``.

    With r = A_i / A_ii, the removal of the i-th point is A ← A - A_ii r rᵀ. The addition of x is
    A ← A + (A_ii / ρ) v vᵀ, where v = u - u_i r - e_i contains the coefficients of x given the
    other points, and -1 as its i-th entry.

    Args:
        inverse: A, modified in place, `N x Q x Q`.
        u: Coefficients u of the point that enters the subset, `N x Q`.
        ratio: ρ, `N`.
        leaving: Index i of the entry that leaves the subset, `N`.
        moves: Whether a swap was accepted in each trial, `N`, bool.
    """
    count = inverse.shape[-1]
    row = inverse.gather(-2, leaving.view(-1, 1, 1).expand(-1, 1, count)).squeeze(-2)
    at = leaving.unsqueeze(-1)
    variance = row.gather(-1, at)
    ratio = torch.where(moves, ratio, 1.0).unsqueeze(-1)
    r = row / variance
    v = torch.addcmul(u, u.gather(-1, at), r, value=-1)
    v.scatter_add_(-1, at, -torch.ones_like(variance))
    weight = variance * moves.unsqueeze(-1)
    inverse.addcmul_((weight * r).unsqueeze(-1), r.unsqueeze(-2), value=-1)
    inverse.addcmul_((weight / ratio * v).unsqueeze(-1), v.unsqueeze(-2))


def _inverse(covariance: Tensor, chosen: Tensor, used: Tensor) -> Tensor:
    """The matrix A of a subset, `N x Q x Q`; the identity at unused entries."""
    at = chosen.unsqueeze(-1) * covariance.shape[-1] + chosen.unsqueeze(-2)
    among = covariance.flatten(-2).gather(-1, at.flatten(-2)).view(at.shape)
    among = among * (used.unsqueeze(-1) & used.unsqueeze(-2))
    among.diagonal(dim1=-2, dim2=-1).add_((~used).to(among.dtype))
    return torch.cholesky_inverse(torch.linalg.cholesky_ex(among).L)


Steps = int | Literal["exact"] | None
"""Number of proposals of a swap chain, None for :func:`default_steps`, or ``"exact"`` for the exact
sampler."""

AFFORDABLE_STEPS = 2**15
"""Number of proposals above which a default chain is shortened: the chain then has n Q ln n
proposals if this number is smaller."""
TIE_TOLERANCE = 1e-9
"""Largest difference of float64 variances that count as equal, as a share of the largest
variance."""


def require_steps(name: str, steps: Steps) -> Steps:
    """Raise a ``ValueError`` unless ``steps`` is a number of proposals, ``"exact"`` or None."""
    if steps is None or (isinstance(steps, str) and steps == "exact"):
        return steps
    return require_integer(f"{name}: steps", steps, 0, "'exact' and None are also allowed.")


def default_steps(points: Tensor, size: Tensor) -> Tensor:
    """Length of the swap chain: ⌈8 n ln n⌉, or ⌈n Q ln n⌉ if 8 n ln n exceeds 2^15.

    Args:
        points: Number n of points, `batch_shape`.
        size: Number Q of points to draw, `batch_shape`.

    Returns:
        Number of proposals, `batch_shape`.
    """
    n = points.double()
    per_factor = n * n.clamp_min(1).log()
    long = torch.ceil(8 * per_factor)
    short = torch.minimum(long, torch.ceil(size * per_factor))
    return torch.where(long <= AFFORDABLE_STEPS, long, short)


def greedy_map(
    covariance: Tensor, count: int, points: Tensor | None = None, *, tie: float | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The greedy approximation of the most probable subset.

    Each chosen point has the largest variance given the points chosen before, so it maximises the
    determinant of K over all points chosen so far. Among equal variances the first point is chosen;
    a variance below half the largest never counts as equal to the largest. The greedy algorithm is
    Cholesky factorisation with complete pivoting, O(n Q²). The pivots reveal the numerical rank.

    Args:
        covariance: K, `batch_shape x n x n`.
        count: Number of points to choose, at least 1.
        points: Whether each of the n points exists, `batch_shape x n`, bool; all by default.
        tie: Variances count as equal if they differ by at most ``tie`` times the largest variance;
            the default depends on the dtype of K.

    Returns:
        Three tensors. The indices of the points in the order of choice, `batch_shape x count`,
        int64. The variance of each chosen point given the points chosen before it, `batch_shape x
        count`; 0 after all points are chosen. A matrix C, `batch_shape x n x count`, with
        K ≈ C Cᵀ; the approximation is exact for the rows and columns of chosen points.
    """
    tie = _tie_tolerance(covariance.dtype) if tie is None else tie
    residual = covariance.diagonal(dim1=-2, dim2=-1)
    residual = residual.clone() if points is None else torch.where(points, residual, 0.0)
    unit = residual.amax(-1, keepdim=True)
    columns = torch.zeros(*residual.shape, count, dtype=residual.dtype, device=residual.device)
    free = torch.ones_like(residual, dtype=torch.bool) if points is None else points.clone()
    index, variance = [], []
    for number in range(count):
        open_ = torch.where(free, residual, -1.0)
        best = open_.amax(-1, keepdim=True)
        # A point with less than half of the largest variance is never chosen. Without this rule
        # rounding errors would choose the point if the largest variance is tiny.
        near_best = open_ >= torch.maximum(best - tie * unit, 0.5 * best)
        place = near_best.to(torch.uint8).argmax(-1, keepdim=True)
        pivot = open_.gather(-1, place).clamp_min(0)
        at = place.unsqueeze(-1)
        row = covariance.gather(-2, at.expand(*at.shape[:-1], residual.shape[-1])).squeeze(-2)
        before = columns.gather(-2, at.expand(*at.shape[:-1], count))
        column = row - (columns @ before.mT).squeeze(-1)
        column = torch.where(pivot > 0, column / pivot.sqrt().clamp_min(1e-300), 0.0)
        columns[..., number] = column
        residual = (residual - column.square()).clamp_min(0)
        free = free.scatter(-1, place, False)
        index.append(place.squeeze(-1))
        variance.append(pivot.squeeze(-1))
    return torch.stack(index, -1), torch.stack(variance, -1), columns


def _tie_tolerance(dtype: torch.dtype) -> float:
    """Largest difference of equal residual variances, as a fraction of the largest variance.

    Residual variances of equal points differ by the rounding of K, which depends on the processor
    and on the dtype.
    """
    return max(TIE_TOLERANCE, 8 * torch.finfo(dtype).eps)


def k_dpp(
    covariance: Tensor,
    size: int,
    draws: Generators | Draws | None,
    *,
    points: Tensor | None = None,
    steps: Steps = None,
    clip: bool = False,
) -> tuple[Tensor, Tensor]:
    """Draw a subset Z of each trial's points with probability proportional to det K_ZZ.

    The swap chain starts from the greedy subset. For 8 points, the total variation distance between
    the exact distribution and the result of a chain of the default length is below 0.01. All
    computations are in float64.

    Args:
        covariance: K, symmetric positive semi-definite, `batch_shape x n x n`.
        size: Number Q of points to draw for each trial, at least 1.
        draws: Source of random numbers: a ``torch.Generator``, a list of one generator per trial,
            an object with methods ``uniform`` and ``normal``, or None for PyTorch's global
            generator. Each trial draws one key, whatever the length of its chain.
        points: Whether each of the n points exists, `batch_shape x n`, bool; all by default.
        steps: Number of proposals of the chain, or ``"exact"`` for the sampler by eigenvalues.
        clip: If True, a trial with fewer than ``size`` points, or with a numerical rank below
            ``size``, draws fewer points, and ``size`` may exceed n. If False, a trial with too few
            points or too low a rank raises an error.

    Returns:
        Two tensors, both `batch_shape x Q`: the indices of the points drawn, int64; and the mask of
        the valid indices, bool. Valid indices come first.

    Raises:
        InputDataError: If shapes do not fit, if an entry is not finite, or if the number of
            generators differs from the number of trials. If ``clip`` is False, and a trial has
            fewer than ``size`` points or a numerical rank below ``size``.
        ValueError: If ``size`` or ``steps`` is below its lower limit.
    """
    size = require_integer("k_dpp: size", size, 1, "give the number of points to be drawn.")
    steps = require_steps("k_dpp", steps)
    shape, n = covariance.shape[:-2], covariance.shape[-1]
    # Residual variances below ε^(2/3) of the largest count as zero, where ε is the precision of K.
    # Determinant ratios lose digits if the inverse A is large; with the limit ε^(2/3) these ratios
    # retain a third of their digits.
    tolerance, tie = torch.finfo(covariance.dtype).eps ** (2 / 3), _tie_tolerance(covariance.dtype)
    K = covariance.double().reshape(math.prod(shape), n, n)
    if points is None:
        present = torch.ones(K.shape[:-1], dtype=torch.bool, device=K.device)
    else:
        present = points.reshape(K.shape[:-1])
        K = K * (present.unsqueeze(-1) & present.unsqueeze(-2))
    most = min(size, n)
    # The exact sampler needs all columns, so the greedy choice continues to the full rank.
    count = min(n, 2 * most + 16) if steps == "exact" else most
    while True:
        start, variance, columns = greedy_map(K, count, present, tie=tie)
        settled = variance <= tolerance * variance[..., :1]
        if steps != "exact" or count == n or bool(settled[..., -1].all()):
            break
        count = min(n, 2 * count)
    full_rank = (settled.long().cumsum(-1) == 0).sum(-1)
    rank = full_rank.clamp_max(most)
    if not clip:
        wrong = (~covariance.isfinite()).sum((-2, -1))
        require_trials(wrong == 0, wrong, "entries of covariance are not finite", "repair them.")
        # The greedy choice stops at ``size`` pivots, so the true rank may be larger.
        require_trials(
            rank.view(shape) >= size,
            rank.view(shape),
            f"is the numerical rank of the covariance, below the size = {size} to be drawn",
            "all larger subsets have determinant 0; draw fewer points, or pass clip=True.",
        )
    used = torch.arange(most, device=K.device) < rank.unsqueeze(-1)
    numbers = draws_for(draws, shape, K)
    key = draw_keys(numbers).reshape(-1)
    if steps == "exact":
        # Even counters for points, odd for eigenvectors, whatever the numbers of both.
        points_at, vectors_at = (
            2 * torch.arange(size, device=key.device) for size in (most, count)
        )
        uniform = uniforms(key.unsqueeze(-1), torch.cat([points_at, vectors_at + 1]))
        # Columns whose pivots are below the tolerance contain only rounding errors.
        factor = columns.masked_fill(settled.unsqueeze(-2), 0.0)
        index = sample_by_eigenvalues(factor, full_rank, rank, uniform)
    else:
        number = present.sum(-1)
        length = default_steps(number, rank) if steps is None else number * 0 + steps
        index = swap_chain(K, start, rank, present, length, key)
    return index.view(*shape, most), used.view(*shape, most)
