"""The swap Markov chain of a k-DPP.

A step of the chain of Burt, Rasmussen and van der Wilk (2020) proposes a point of the subset to
leave and a point outside to enter, each pair as likely as any other, and accepts with probability
min(1, det K_Z'Z' / det K_ZZ). With A = K_ZZ⁻¹, the coefficients u = A k_Zx of x and its residual
variance c = k(x, x) - uᵀ k_Zx, the ratio for x in and the i-th point out is

    ρ = A_ii c + u_i²,

O(Q²) each, and an accepted swap changes A by two terms of rank one. Until a proposal is accepted A
stands, so several are looked at together: all up to the first accepted are made, and the rest are
proposed again from the new subset. The random numbers belong to the number of the proposal, so how
many are looked at together does not change the chain.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.experts.counter import uniforms
from botorch_tv.inference.linalg import at_index

LOOKAHEAD_NUMBERS = {"cpu": 2**14, "cuda": 2**20}
"""Proposals are looked at together, in all trials, up to so many coefficients."""
MOST_TOGETHER = 32
RENEW_TURNS = 64
"""The inverse is computed anew this often, because rank-one updates lose digits."""
GLANCE_TURNS = {"cpu": 1, "cuda": 32}
"""How often it is looked whether all chains have ended: a look makes a GPU wait."""


class _Proposals(NamedTuple):
    """The next m proposals of every trial, `N x m`."""

    leaving: Tensor
    """Places among the chosen."""
    entering: Tensor
    """Places among those outside."""
    threshold: Tensor
    """The ratio above which each is accepted."""


class _Outcome(NamedTuple):
    """What would become of m proposals from the same subset."""

    ratio: Tensor
    """ρ, `N x m`."""
    coefficients: Tensor
    """u of the points that enter, `N x m x Q`."""


def swap_chain(
    covariance: Tensor,
    chosen: Tensor,
    size: Tensor,
    points: Tensor,
    steps: Tensor,
    key: Tensor,
    *,
    together: int | None = None,
) -> Tensor:
    """Run the chain from a start.

    Args:
        covariance: K, `N x n x n`, float64.
        chosen: The start Z, numbers of points, `N x Q`, int64; a trial uses its first ``size``.
        size: Points per subset, `N`.
        points: Which of the n points there are, `N x n`, bool.
        steps: Proposals to be made, refused ones included, `N`.
        key: From :func:`~botorch_tv.experts.counter.draw_keys`, `N`.
        together: Proposals looked at together; the chain does not depend on it.

    Returns:
        The subset after so many proposals, `N x Q`.
    """
    place = chosen.device.type
    room = LOOKAHEAD_NUMBERS.get(place, 2**14) // max(1, chosen.numel())
    together = together or min(MOST_TOGETHER, max(2, room))
    used = torch.arange(chosen.shape[-1], device=chosen.device) < size.unsqueeze(-1)
    # Places not in use hold any numbers; they must not take a point out of the running.
    held = torch.zeros_like(points, dtype=torch.int64).scatter_add_(-1, chosen, used.long())
    free = points & (held == 0)
    outside = free.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)
    number = free.sum(-1)
    steps = torch.where((size > 0) & (number > 0), steps, 0)
    steps = steps - _coin(key, steps, (size == 1) & (number == 1)).long()
    done, chosen = torch.zeros_like(number), chosen.clone()
    ahead = torch.arange(together, device=chosen.device)
    turn, glance = 0, GLANCE_TURNS.get(place, 1)
    while turn % glance != 0 or bool((done < steps).any()):
        if turn % RENEW_TURNS == 0:
            inverse = _inverse(covariance, chosen, used)
        proposed = _proposals(key, done.unsqueeze(-1) + ahead, size, number)
        entering = outside.gather(-1, proposed.entering)
        outcome = _consider(covariance, inverse, chosen, used, entering, proposed.leaving)
        in_time = done.unsqueeze(-1) + ahead < steps.unsqueeze(-1)
        accepted = (outcome.ratio > proposed.threshold) & in_time
        moves, first = accepted.any(-1), accepted.to(torch.uint8).argmax(-1)
        leaving = at_index(proposed.leaving, first)
        _swap_(inverse, outcome, first, leaving, moves)
        _exchange_(chosen, leaving, outside, at_index(proposed.entering, first), moves)
        done = done + torch.where(moves, first + 1, together)
        turn += 1
    return chosen


def _coin(key: Tensor, steps: Tensor, tossed: Tensor) -> Tensor:
    """1 or 0 where tossed, `N`: of two points that are alike, every proposal swaps the one chosen.

    Such a chain goes back and forth and never forgets its start, unless its length is random.
    """
    beyond = 3 * steps.long().unsqueeze(-1)  # the first number that no proposal uses
    return tossed & (steps > 0) & (uniforms(key.unsqueeze(-1), beyond).squeeze(-1) < 0.5)


def _proposals(key: Tensor, step: Tensor, size: Tensor, number: Tensor) -> _Proposals:
    """The proposals of some steps, `N x m`; each has three random numbers of its own."""
    of_three = torch.arange(3, device=step.device).view(3, 1, 1)
    out, into, threshold = uniforms(key.unsqueeze(-1), 3 * step + of_three)
    return _Proposals(_place(out, size), _place(into, number), threshold)


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
) -> _Outcome:
    """Ratios and coefficients of some swaps, points that enter by their numbers, `N x m`."""
    n = covariance.shape[-1]
    flat = covariance.flatten(-2)
    at = entering.unsqueeze(-1) * n + chosen.unsqueeze(-2)
    among = flat.gather(-1, at.flatten(-2)).view(at.shape) * used.unsqueeze(-2)
    coefficients = among @ inverse
    residual = flat.gather(-1, entering * (n + 1)) - (coefficients * among).sum(-1)
    left = coefficients.gather(-1, leaving.unsqueeze(-1)).squeeze(-1)
    diagonal = inverse.diagonal(dim1=-2, dim2=-1).gather(-1, leaving)
    return _Outcome(diagonal * residual.clamp_min(0) + left.square(), coefficients)


def _swap_(
    inverse: Tensor, outcome: _Outcome, first: Tensor, leaving: Tensor, moves: Tensor
) -> None:
    """Bring A up to date with one swap where ``moves``, in place.

    First the point at place i leaves, with r = A_i / A_ii: A ← A - A_ii r rᵀ. Then x enters, with
    v = u - u_i r - e_i (its coefficients without i, and -1 at i): A ← A + (A_ii / ρ) v vᵀ.

    Args:
        inverse: A, written to, `N x Q x Q`.
        outcome: What the proposals come to.
        first: Which of them is accepted, `N`.
        leaving: Its place that is left, `N`.
        moves: Whether there is one at all, `N`.
    """
    count = inverse.shape[-1]
    row = inverse.gather(-2, leaving.view(-1, 1, 1).expand(-1, 1, count)).squeeze(-2)
    u = outcome.coefficients
    u = u.gather(-2, first.view(-1, 1, 1).expand(-1, 1, count)).squeeze(-2)
    at = leaving.unsqueeze(-1)
    variance = row.gather(-1, at)
    ratio = torch.where(moves, at_index(outcome.ratio, first), 1.0).unsqueeze(-1)
    r = row / variance
    v = torch.addcmul(u, u.gather(-1, at), r, value=-1)
    v.scatter_add_(-1, at, -torch.ones_like(variance))
    weight = variance * moves.unsqueeze(-1)
    inverse.addcmul_((weight * r).unsqueeze(-1), r.unsqueeze(-2), value=-1)
    inverse.addcmul_((weight / ratio * v).unsqueeze(-1), v.unsqueeze(-2))


def _exchange_(
    chosen: Tensor, leaving: Tensor, outside: Tensor, entering: Tensor, moves: Tensor
) -> None:
    """Exchange a point chosen and one outside, told by their places, where ``moves``."""
    old, new = at_index(chosen, leaving), at_index(outside, entering)
    chosen.scatter_(-1, leaving.unsqueeze(-1), torch.where(moves, new, old).unsqueeze(-1))
    outside.scatter_(-1, entering.unsqueeze(-1), torch.where(moves, old, new).unsqueeze(-1))


def _inverse(covariance: Tensor, chosen: Tensor, used: Tensor) -> Tensor:
    """A from scratch, `N x Q x Q`; the identity at places not in use."""
    at = chosen.unsqueeze(-1) * covariance.shape[-1] + chosen.unsqueeze(-2)
    among = covariance.flatten(-2).gather(-1, at.flatten(-2)).view(at.shape)
    among = among * (used.unsqueeze(-1) & used.unsqueeze(-2))
    among.diagonal(dim1=-2, dim2=-1).add_((~used).to(among.dtype))
    inverse: Tensor = torch.cholesky_inverse(torch.linalg.cholesky_ex(among).L)
    return inverse
