"""The exact sampler of a k-DPP, from the eigenvalues of its kernel.

Kulesza and Taskar (2011), Algorithm 1: a k-DPP is a mixture of determinantal processes, each
spanned by k eigenvectors and drawn with probability proportional to the product of their
eigenvalues. From a factor K = L Lᵀ with r columns it costs O(n r²): smooth kernels have far fewer
columns than points.
"""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_tv.experts.counter import uniforms
from botorch_tv.inference.linalg import at_index
from botorch_tv.inference.random import mixed


def sample_by_eigenvalues(
    factor: Tensor, rank: Tensor, size: Tensor, most: int, key: Tensor
) -> Tensor:
    """Exact draws.

    Args:
        factor: L, `N x n x r`, float64, with rows of zeros where there is no point.
        rank: Columns of it that are not zero, linearly independent, `N`.
        size: Points to draw, at most the rank, `N`.
        most: The largest of ``size``, or more.
        key: From :func:`~botorch_tv.experts.counter.draw_keys`, `N`.

    Returns:
        Places of the points drawn, `N x most`; a trial uses its first ``size``.
    """
    # The roots of the eigenvalues keep digits that eigenvalues of K lose in its largest ones.
    orthogonal, triangular = torch.linalg.qr(factor)
    rotation, roots, _ = torch.linalg.svd(triangular, full_matrices=False)
    smallest = torch.finfo(roots.dtype).tiny
    # Only ratios matter, and numbers near 1 keep the logarithms short. Roots come in falling order.
    log_values = 2 * (roots / roots[..., :1].clamp_min(smallest)).clamp_min(smallest).log()
    there = torch.arange(roots.shape[-1], device=roots.device) < rank.unsqueeze(-1)
    log_values = torch.where(there, log_values, -torch.inf)
    kept = _eigenvectors(log_values, size, most, _numbers(key, roots.shape[-1]))
    vectors = (orthogonal @ rotation) * kept.unsqueeze(-2)
    # Numbers of another key: how many the eigenvectors take depends on other trials.
    return _projection_sample(vectors, size, most, _numbers(mixed(key), most))


def _numbers(key: Tensor, count: int) -> Tensor:
    return uniforms(key.unsqueeze(-1), torch.arange(count, device=key.device))


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


def _eigenvectors(log_values: Tensor, size: Tensor, most: int, uniform: Tensor) -> Tensor:
    """Which eigenvectors span the process, `N x n`, bool; ``size`` of them."""
    polynomials = log_elementary_polynomials(log_values, most)
    left, kept = size, []
    for last in range(log_values.shape[-1] - 1, -1, -1):
        fewer = at_index(polynomials[..., last, :], (left - 1).clamp_min(0))
        all_of_them = at_index(polynomials[..., last + 1, :], left)
        chance = (log_values[..., last] + fewer - all_of_them).exp()
        taken = (left > 0) & (uniform[..., last] < chance)
        left = left - taken.long()
        kept.append(taken)
    return torch.stack(kept[::-1], -1)


def _projection_sample(vectors: Tensor, size: Tensor, most: int, uniform: Tensor) -> Tensor:
    """Points of the process with kernel P = V Vᵀ, `N x n x r -> N x most`.

    One after the other, each with probability proportional to what is left of P's diagonal, which
    then loses the column of the point just drawn, as in a pivoted Cholesky factorisation.
    """
    left = vectors.square().sum(-1)
    columns = torch.zeros(*left.shape, most, dtype=left.dtype, device=left.device)
    drawn = []
    for number in range(most):
        upto = left.cumsum(-1)
        target = uniform[..., number] * upto[..., -1]
        place = torch.searchsorted(upto, target.unsqueeze(-1), right=True)
        place = place.clamp_max(left.shape[-1] - 1)
        at = place.unsqueeze(-1)
        here = vectors.gather(-2, at.expand(-1, 1, vectors.shape[-1]))
        before = columns.gather(-2, at.expand(-1, 1, most))
        column = (vectors @ here.mT - columns @ before.mT).squeeze(-1)
        pivot = left.gather(-1, place).clamp_min(torch.finfo(left.dtype).tiny)
        column = column / pivot.sqrt()
        column = column * (number < size).unsqueeze(-1)
        columns[..., number] = column
        left = (left - column.square()).clamp_min(0).scatter(-1, place, 0.0)
        drawn.append(place.squeeze(-1))
    return torch.stack(drawn, -1)
