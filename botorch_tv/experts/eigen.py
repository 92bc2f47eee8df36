"""The exact sampler of a k-DPP, one point at a time, from the eigenvalues of its kernel.

A point lies in the subset with probability Σ_l λ_l v_l² e_{k-1}(λ without λ_l) / e_k(λ), with λ and
v the eigenvalues and eigenvectors of K (Kulesza and Taskar 2012, section 5.2). Given that it does,
the others are a (k - 1)-DPP of K conditioned on it. Drawn so, a subset is the same on every
processor: eigenvectors of one eigenvalue, which are any of a space, come in with one weight. To
choose eigenvectors first (Kulesza and Taskar 2011, Algorithm 1) needs their roots once instead of k
times, but there they decide on what is drawn.

From a factor K = L Lᵀ with r columns it costs O(k (n r² + r³)): smooth kernels have far fewer
columns than points.
"""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_tv.experts.counter import uniforms


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
    numbers = uniforms(key.unsqueeze(-1), torch.arange(most, device=key.device))
    return _in_turn(factor, rank, size, numbers)


def _in_turn(factor: Tensor, rank: Tensor, size: Tensor, uniform: Tensor) -> Tensor:
    """As above, with the number that decides on each point, `N x most`."""
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
