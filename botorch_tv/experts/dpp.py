"""Subsets of points that tell much and repeat little: k-determinantal point processes.

P(Z) = det K_ZZ / Σ_{|Z'| = Q} det K_Z'Z', |Z| = Q, [M] Definition 3.1. Many trials are drawn at
once, each with points, a number of points and a Q of its own. There are two samplers.

The exact sampler draws one point at a time. A point lies in the subset with probability
Σ_l λ_l v_l² e_{k-1}(λ without λ_l) / e_k(λ), with λ and v the eigenvalues and eigenvectors of K
(Kulesza and Taskar 2012, section 5.2). Given that it does, the others are a (k - 1)-DPP of K
conditioned on it. Drawn so, a subset is the same on every processor: eigenvectors of one
eigenvalue, which are any of a space, come in with one weight. To choose eigenvectors first (Kulesza
and Taskar 2011, Algorithm 1) needs their roots once instead of k times, but there they decide on
what is drawn. From a factor K = L Lᵀ with r columns it costs O(k (n r² + r³)): smooth kernels have
far fewer columns than points.

The swap chain of Burt, Rasmussen and van der Wilk (2020) proposes a point of the subset to leave
and a point outside to enter, each pair as likely as any other, and accepts with probability
min(1, det K_Z'Z' / det K_ZZ). With A = K_ZZ⁻¹, the coefficients u = A k_Zx of x and its residual
variance c = k(x, x) - uᵀ k_Zx, the ratio for x in and the i-th point out is

    ρ = A_ii c + u_i²,

O(Q²) each, and an accepted swap changes A by two terms of rank one. Until a proposal is accepted A
stands, so several are looked at together: all up to the first accepted are made, and the rest are
proposed again from the new subset. The random numbers belong to the number of the proposal, so how
many are looked at together does not change the chain.

How long a chain runs depends on the trial. If each trial took its numbers from the study's streams,
trials in one batch would change what later rounds see. So a trial draws one key per use, and its
numbers are a hash of the key and of how many were made before (SplitMix64 of Steele, Lea and Flood
2014), made where they are needed.
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
"""Numbers drawn per key. 16 bits are taken of each, which float32 holds with room to spare."""
_BITS = 16
_MANTISSA = 52


def draw_keys(draws: Draws) -> Tensor:
    """One key per trial, `batch_shape`, int64."""
    parts = (draws.uniform(KEY_PARTS).double() * 2**_BITS).long()
    key = torch.zeros_like(parts[..., 0])
    for part in parts.unbind(-1):
        key = (key << _BITS) ^ part
    return mixed(key)


def uniforms(key: Tensor, number: Tensor) -> Tensor:
    """The numbers of some keys, uniform on the open interval (0, 1).

    Args:
        key: From :func:`draw_keys`, of a shape that ``number`` broadcasts with, int64.
        number: Which of a key's numbers are wanted, counted from 0, int64.

    Returns:
        float64, of the shape that both broadcast to.
    """
    word = mixed(key + (number + 1) * GOLDEN)
    # Half a step off the ends, so that logarithms are finite.
    numbers: Tensor = (shifted(word, 64 - _MANTISSA).double() + 0.5) * 2.0**-_MANTISSA
    return numbers


def sample_by_eigenvalues(factor: Tensor, rank: Tensor, size: Tensor, uniform: Tensor) -> Tensor:
    """Exact draws.

    Args:
        factor: L, `N x n x r`, float64, with rows of zeros where there is no point.
        rank: Columns of it that are not zero, linearly independent, `N`.
        size: Points to draw, at most the rank, `N`.
        uniform: The number that decides on each point, `N x most`.

    Returns:
        Places of the points drawn, `N x most`; a trial uses its first ``size``.
    """
    smallest = torch.finfo(factor.dtype).tiny
    orthogonal, left = torch.linalg.qr(factor)
    free = torch.ones_like(factor[..., 0], dtype=torch.bool)
    most, drawn = uniform.shape[-1], []
    for number in range(most):
        # Roots of eigenvalues keep digits that eigenvalues of K lose. They come in falling order,
        # and every point drawn leaves one fewer.
        rotation, roots, _ = torch.linalg.svd(left, full_matrices=False)
        there = torch.arange(roots.shape[-1], device=roots.device) < (rank - number).unsqueeze(-1)
        # Only ratios matter, and numbers near 1 keep the logarithms short.
        log_values = 2 * (roots / roots[..., :1].clamp_min(smallest)).clamp_min(smallest).log()
        log_values = torch.where(there, log_values, -torch.inf)
        weight = log_values + log_polynomials_without_each(log_values, size - number - 1, most)
        weight = (weight - weight.amax(-1, keepdim=True)).exp().nan_to_num(nan=0.0)
        chance = ((orthogonal @ rotation).square() @ weight.unsqueeze(-1)).squeeze(-1)
        upto = (chance * free).cumsum(-1)
        target = uniform[..., number : number + 1] * upto[..., -1:]
        place = torch.searchsorted(upto, target, right=True).clamp_max(upto.shape[-1] - 1)
        drawn.append(place.squeeze(-1))
        free = free.scatter(-1, place, False)
        row = orthogonal.take_along_dim(place.unsqueeze(-1), -2) @ left
        direction = row / row.norm(dim=-1, keepdim=True).clamp_min(smallest)
        left = left - (left @ direction.mT) @ direction
    return torch.stack(drawn, -1)


def log_polynomials_without_each(log_values: Tensor, degree: Tensor, most: int) -> Tensor:
    """Ln e_k of all eigenvalues but one, for each of them, `N x n`.

    e_k(λ without λ_l) = Σ_m e_m(those before it) e_{k-m}(those after it), where nothing cancels.

    Args:
        log_values: ln λ, `N x n`; -inf for 0.
        degree: k, `N`; e_0 is taken where it is negative.
        most: More than the largest k.
    """
    degree = degree.clamp_min(0).unsqueeze(-1)
    before = log_elementary_polynomials(log_values, most - 1)[..., :-1, :]
    after = log_elementary_polynomials(log_values.flip(-1), most - 1).flip(-2)[..., 1:, :]
    rest = degree - torch.arange(most, device=degree.device)
    matching = after.take_along_dim(rest.clamp_min(0).unsqueeze(-2), -1)
    terms = torch.where((rest >= 0).unsqueeze(-2), before + matching, -torch.inf)
    return terms.logsumexp(-1)


def log_elementary_polynomials(log_values: Tensor, most: int) -> Tensor:
    """Ln e_k of the first l eigenvalues, e_k(λ_1..λ_l) = Σ_{|J| = k} Π_{j in J} λ_j.

    By e_k(λ_1..λ_l) = e_k(λ_1..λ_{l-1}) + λ_l e_{k-1}(λ_1..λ_{l-1}): sums of terms that are never
    negative, so nothing cancels, and in logarithms, so nothing leaves the floating-point range.

    Args:
        log_values: ln λ, `N x n`; -inf for 0.
        most: Largest k.

    Returns:
        `N x (n + 1) x (most + 1)`.
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
"""Proposals are looked at together, in all trials, up to so many coefficients."""
MOST_TOGETHER = 32
RENEW_TURNS = 64
"""The inverse is computed anew this often, because rank-one updates lose digits."""
GLANCE_TURNS = {"cpu": 1, "cuda": 32}
"""How often it is looked whether all chains have ended: a look makes a GPU wait."""


def swap_chain(
    covariance: Tensor, chosen: Tensor, size: Tensor, points: Tensor, steps: Tensor, key: Tensor
) -> Tensor:
    """Run the chain from a start, which does not depend on how many proposals are looked at.

    Args:
        covariance: K, `N x n x n`, float64.
        chosen: The start Z, numbers of points, `N x Q`, int64; a trial uses its first ``size``.
        size: Points per subset, `N`.
        points: Which of the n points there are, `N x n`, bool.
        steps: Proposals to be made, refused ones included, `N`.
        key: From :func:`~botorch_tv.experts.dpp.draw_keys`, `N`.

    Returns:
        The subset after so many proposals, `N x Q`.
    """
    place = chosen.device.type
    room = LOOKAHEAD_NUMBERS.get(place, 2**14) // max(1, chosen.numel())
    together = min(MOST_TOGETHER, max(2, room))
    used = torch.arange(chosen.shape[-1], device=chosen.device) < size.unsqueeze(-1)
    # Places not in use hold any numbers; they must not take a point out of the running.
    held = torch.zeros_like(points, dtype=torch.int64).scatter_add_(-1, chosen, used.long())
    free = points & (held == 0)
    outside = free.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)
    number = free.sum(-1)
    steps = torch.where((size > 0) & (number > 0), steps, 0)
    # Of two points that are alike every proposal swaps the one chosen: such a chain goes back and
    # forth and never forgets its start, unless its length is random. The number is the first that
    # no proposal uses.
    coin = uniforms(key.unsqueeze(-1), 3 * steps.long().unsqueeze(-1)).squeeze(-1) < 0.5
    steps = steps - ((size == 1) & (number == 1) & (steps > 0) & coin).long()
    done, chosen = torch.zeros_like(number), chosen.clone()
    ahead = torch.arange(together, device=chosen.device)
    three = torch.arange(3, device=chosen.device).view(3, 1, 1)
    turn, glance = 0, GLANCE_TURNS.get(place, 1)
    while turn % glance != 0 or bool((done < steps).any()):
        if turn % RENEW_TURNS == 0:
            inverse = _inverse(covariance, chosen, used)
        step = done.unsqueeze(-1) + ahead
        # Each proposal has three random numbers of its own.
        out, into, threshold = uniforms(key.unsqueeze(-1), 3 * step + three)
        leaving, entering = _place(out, size), _place(into, number)
        ratio, coefficients = _consider(
            covariance, inverse, chosen, used, outside.gather(-1, entering), leaving
        )
        accepted = (ratio > threshold) & (step < steps.unsqueeze(-1))
        moves, first = accepted.any(-1), accepted.to(torch.uint8).argmax(-1)
        left = at_index(leaving, first)
        u = coefficients.gather(-2, first.view(-1, 1, 1).expand(-1, 1, chosen.shape[-1]))
        _swap_(inverse, u.squeeze(-2), at_index(ratio, first), left, moves)
        entered = at_index(entering, first)
        old, new = at_index(chosen, left), at_index(outside, entered)
        chosen.scatter_(-1, left.unsqueeze(-1), torch.where(moves, new, old).unsqueeze(-1))
        outside.scatter_(-1, entered.unsqueeze(-1), torch.where(moves, old, new).unsqueeze(-1))
        done = done + torch.where(moves, first + 1, together)
        turn += 1
    return chosen


def _place(uniform: Tensor, count: Tensor) -> Tensor:
    """One of ``count`` places, `N x m`; a product just below a whole number may round up to it."""
    places = count.unsqueeze(-1)
    return torch.minimum((uniform * places).long(), (places - 1).clamp_min(0))


def _consider(
    covariance: Tensor,
    inverse: Tensor,
    chosen: Tensor,
    used: Tensor,
    entering: Tensor,
    leaving: Tensor,
) -> tuple[Tensor, Tensor]:
    """Ratios ρ of some swaps, `N x m`, and coefficients u, `N x m x Q`.

    Points that enter are given by their numbers, those that leave by their places, `N x m`.
    """
    n = covariance.shape[-1]
    flat = covariance.flatten(-2)
    at = entering.unsqueeze(-1) * n + chosen.unsqueeze(-2)
    among = flat.gather(-1, at.flatten(-2)).view(at.shape) * used.unsqueeze(-2)
    coefficients = among @ inverse
    residual = flat.gather(-1, entering * (n + 1)) - (coefficients * among).sum(-1)
    left = coefficients.gather(-1, leaving.unsqueeze(-1)).squeeze(-1)
    diagonal = inverse.diagonal(dim1=-2, dim2=-1).gather(-1, leaving)
    return diagonal * residual.clamp_min(0) + left.square(), coefficients


def _swap_(inverse: Tensor, u: Tensor, ratio: Tensor, leaving: Tensor, moves: Tensor) -> None:
    """Bring A up to date with one swap where ``moves``, in place.

    First the point at place i leaves, with r = A_i / A_ii: A ← A - A_ii r rᵀ. Then x enters, with
    v = u - u_i r - e_i (its coefficients without i, and -1 at i): A ← A + (A_ii / ρ) v vᵀ.

    Args:
        inverse: A, written to, `N x Q x Q`.
        u: Coefficients of the point that enters, `N x Q`.
        ratio: ρ, `N`.
        leaving: The place that is left, `N`.
        moves: Whether there is one at all, `N`.
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
    """A from scratch, `N x Q x Q`; the identity at places not in use."""
    at = chosen.unsqueeze(-1) * covariance.shape[-1] + chosen.unsqueeze(-2)
    among = covariance.flatten(-2).gather(-1, at.flatten(-2)).view(at.shape)
    among = among * (used.unsqueeze(-1) & used.unsqueeze(-2))
    among.diagonal(dim1=-2, dim2=-1).add_((~used).to(among.dtype))
    inverse: Tensor = torch.cholesky_inverse(torch.linalg.cholesky_ex(among).L)
    return inverse


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
    covariance: Tensor, count: int, points: Tensor | None = None, *, tie: float | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The greedy approximation of the most probable subset.

    Each point taken has the largest variance given those before it, so that the determinant grows
    by the largest factor; of equal ones the first, where an equal has half of it at least. This is
    Cholesky factorisation with complete pivoting, O(n Q²), and its pivots tell the numerical rank.

    Args:
        covariance: K, `batch_shape x n x n`.
        count: How many points to take, at least 1.
        points: Which of the n points there are, `batch_shape x n`, bool; all unless given.
        tie: How close variances are equal, as a share of the largest; by default that of K's dtype.

    Returns:
        Places in the order in which points are taken, int64, and the variance of each given those
        before it, 0 once all are taken, both `batch_shape x count`; and C with K ≈ C Cᵀ, exact on
        the points taken, `batch_shape x n x count`.
    """
    tie = _tie_tolerance(covariance.dtype) if tie is None else tie
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
    return torch.stack(index, -1), torch.stack(variance, -1), columns


def _tie_tolerance(dtype: torch.dtype) -> float:
    """How close residual variances are equal, as a share of the largest variance.

    Those of points that are alike differ by the rounding of K, which is not the same on every
    processor; in float32 it is far above that of the float64 in which they are computed.
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
        Places of the points drawn, int64, and which of these count, bool, both `batch_shape x Q`; a
        trial uses its first ones.

    Raises:
        InputDataError: If shapes do not fit, entries are not finite, or a trial has fewer points
            than it should draw, or a lower numerical rank, or generators are not one per trial.
        ValueError: If ``size`` or ``steps`` is below its limit.
    """
    size = require_integer("k_dpp: size", size, 1, "give the number of points to be drawn.")
    steps = require_steps("k_dpp", steps)
    shape, n = covariance.shape[:-2], covariance.shape[-1]
    # Residual variances below ε^(2/3) of the largest, for the precision in which K was computed,
    # count as settled. Determinant ratios, whose digits are lost in proportion to the inverse, then
    # keep a third of theirs.
    tolerance, tie = torch.finfo(covariance.dtype).eps ** (2 / 3), _tie_tolerance(covariance.dtype)
    K = covariance.double().reshape(math.prod(shape), n, n)
    if points is None:
        there = torch.ones(K.shape[:-1], dtype=torch.bool, device=K.device)
    else:
        there = points.reshape(K.shape[:-1])
        K = K * (there.unsqueeze(-1) & there.unsqueeze(-2))
    most = min(size, n)
    # The exact sampler needs all columns: greedy choice goes on until nothing is left to learn.
    count = min(n, 2 * most + 16) if steps == "exact" else most
    while True:
        start, variance, columns = greedy_map(K, count, there, tie=tie)
        settled = variance <= tolerance * variance[..., :1]
        if steps != "exact" or count == n or bool(settled[..., -1].all()):
            break
        count = min(n, 2 * count)
    full_rank = (settled.long().cumsum(-1) == 0).sum(-1)
    rank = full_rank.clamp_max(most)
    if not clip:
        wrong = (~covariance.isfinite()).sum((-2, -1))
        require_trials(wrong == 0, wrong, "entries of covariance are not finite", "repair them.")
        # Greedy choice stops at ``size`` pivots, so a full count only says that the rank suffices.
        require_trials(
            rank.view(shape) >= size,
            rank.view(shape),
            f"is the numerical rank of the covariance, below the size = {size} to be drawn",
            "all larger subsets have determinant 0; draw fewer, or pass clip=True.",
        )
    used = torch.arange(most, device=K.device) < rank.unsqueeze(-1)
    numbers = draws_for(draws, shape, K)
    key = draw_keys(numbers).reshape(-1)
    if steps == "exact":
        uniform = uniforms(key.unsqueeze(-1), torch.arange(most, device=key.device))
        # What is below the tolerance is rounding.
        factor = columns.masked_fill(settled.unsqueeze(-2), 0.0)
        index = sample_by_eigenvalues(factor, full_rank, rank, uniform)
    else:
        number = there.sum(-1)
        length = default_steps(number, rank) if steps is None else number * 0 + steps
        index = swap_chain(K, start, rank, there, length, key)
    return index.view(*shape, most), used.view(*shape, most)
