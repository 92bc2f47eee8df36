"""Small linear algebra shared by both kinds of inference."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.inference.costs import FEW_NUMBERS
from botorch_tv.inference.tensors import Scratch

PIVOT_TIE = 1 / 16
"""Pivots that differ by less than this share of the largest are equal."""


def first_maximum(score: Tensor, tolerance: float, scratch: Scratch) -> Tensor:
    """Index of the winner: the lowest whose score is within ``tolerance`` of the maximum.

    Grid symmetries and the plateau after a reset make many arms equal up to rounding; this rule
    lets two correct programs agree on which of them is played.

    Args:
        score: `batch_shape x M`.
        tolerance: Largest difference that counts as a tie, in units of the score.
        scratch: Memory for intermediate results.

    Returns:
        `batch_shape`, int64.
    """
    arms = score.shape[-1]
    if score.device.type != "cpu" or score.numel() < FEW_NUMBERS:
        near_best = score >= score.amax(-1, keepdim=True) - tolerance
        return near_best.view(torch.uint8).argmax(-1)
    # Counting down makes the lowest index the largest number; short integers reduce fastest.
    short = torch.int16 if arms < 2**15 else torch.int32
    near = scratch.take("near", score.shape, score, torch.bool)
    rank = scratch.take("rank", score.shape, score, short)
    torch.ge(score, score.amax(-1, keepdim=True) - tolerance, out=near)
    rank.copy_(near.view(torch.int8))  # as bytes: converting booleans is slow
    rank.mul_(torch.arange(arms, 0, -1, dtype=short, device=score.device))
    return arms - rank.amax(-1).to(torch.int64)


def random_maximum(score: Tensor, tolerance: float, uniform: Tensor) -> Tensor:
    """Index of one of those whose score is within ``tolerance`` of the maximum, all equally likely.

    Args:
        score: `batch_shape x M`.
        tolerance: Largest difference that counts as a tie, in units of the score.
        uniform: Random numbers in [0, 1), `batch_shape`.

    Returns:
        `batch_shape`, int64.
    """
    count = (score >= score.amax(-1, keepdim=True) - tolerance).cumsum(-1)
    number = count[..., -1:]
    # In single precision a number just below 1 may be rounded up by the product.
    place = torch.minimum((uniform.unsqueeze(-1) * number).long(), number - 1)
    return (count <= place).sum(-1)


def at_index(values: Tensor, index: Tensor) -> Tensor:
    """One entry per trial: `batch_shape x M` at `batch_shape` gives `batch_shape`."""
    return values.gather(-1, index.unsqueeze(-1)).squeeze(-1)


def leading(values: Tensor, dims: int) -> Tensor:
    """One entry per trial, to go with tensors of so many dimensions that lead with the trials."""
    return values.view((*values.shape, *[1] * (dims - values.dim())))


def clear_(tensor: Tensor, trials: Tensor, value: Tensor | float = 0.0) -> Tensor:
    """Overwrite the entries of some trials, and touch no others where that can be had.

    Args:
        tensor: `batch_shape x event_shape`; written to.
        trials: Which, a bool each, `batch_shape`.
        value: What to write, broadcastable to the event shape.

    Returns:
        The tensor.
    """
    if tensor.device.type == "cpu":
        # Numbers rather than bools as index: PyTorch would turn those into a pass over everything.
        some = trials.view(trials.shape or (1,)).nonzero(as_tuple=True)
        whole = tensor if trials.dim() > 0 else tensor.unsqueeze(0)
        whole[some] = torch.as_tensor(value, dtype=tensor.dtype, device=tensor.device)
        return tensor
    # Listing the trials would make another device wait.
    mask = leading(trials, tensor.dim())
    if isinstance(value, Tensor):
        return torch.where(mask, value, tensor, out=tensor)
    return tensor.masked_fill_(mask, value)


class PivotedFactor(NamedTuple):
    """A partial Cholesky factor C of a matrix K, columns in the order of their pivots."""

    columns: Tensor
    """C, `M x r`."""
    pivots: Tensor
    """The residual at each pivot before its column was taken, `r`."""
    residual: Tensor
    """Diagonal of K - C Cᵀ, `M`."""
    places: list[int]
    """Where the pivots are, `r`."""


def pivoted_cholesky(
    diagonal: Tensor, row: Callable[[int], Tensor], max_rank: int, tolerance: float
) -> PivotedFactor:
    """Partial Cholesky factor with complete pivoting.

    A pivot is the first that is at most a :data:`PIVOT_TIE` smaller than the largest. Symmetries
    make many equal up to rounding, which is not the same on every processor; a column is the same
    everywhere as long as rounding, relative to its pivot, stays far below the tie.

    Args:
        diagonal: Of a symmetric positive semi-definite matrix, `M`.
        row: Computes one of its rows, `M`; asked for the rows of pivots alone.
        max_rank: Stop after this many columns.
        tolerance: Stop once no diagonal entry of the residual exceeds this.
    """
    residual = diagonal.clone()
    factor = residual.new_empty(max_rank, len(residual))
    pivots: list[float] = []
    places: list[int] = []
    while len(pivots) < max_rank:
        rank, largest = len(pivots), float(residual.max())
        if largest <= tolerance:
            break
        place = int((residual >= (1 - PIVOT_TIE) * largest).view(torch.uint8).argmax())
        places.append(place)
        pivots.append(float(residual[place]))
        column = row(place) - factor[:rank, place] @ factor[:rank]
        column = column / pivots[-1] ** 0.5
        factor[rank] = column
        residual = residual - column.square()
        residual[place] = 0
    return PivotedFactor(factor[: len(pivots)].T, residual.new_tensor(pivots), residual, places)


def compressed(factor: Tensor, tolerance: float) -> tuple[Tensor, Tensor]:
    """The shortest factor of the same matrix: orthogonal columns, eigenvalues above a cut.

    Args:
        factor: F, `M x r`.
        tolerance: Eigenvalues of F Fᵀ below this share of the largest are dropped.

    Returns:
        F V, `M x r'` with r' <= r, and its rotation V, `r x r'`, whose columns are orthonormal.
    """
    eigenvalues, vectors = torch.linalg.eigh(factor.T @ factor)
    rotation = vectors[:, eigenvalues > tolerance * eigenvalues[-1]]
    return (factor @ rotation).contiguous(), rotation


class Spectrum(NamedTuple):
    """Eigenvalues of a symmetric matrix, ascending, `n`, and eigenvectors in columns, `n x n`."""

    eigenvalues: Tensor
    eigenvectors: Tensor


def mirrored_eigh(matrix: Tensor) -> Spectrum:
    """The eigenvectors of a symmetric matrix, each even or odd about its middle if that can be.

    A matrix that is its own mirror image up to rounding, such as a stationary kernel on points at
    equal distances, has such eigenvectors. Found among even and among odd vectors, they are so to
    the last bit, even those of eigenvalues that rounding would mix.

    Args:
        matrix: `n x n`.
    """
    rounding = 64 * torch.finfo(matrix.dtype).eps * matrix.abs().max()
    if bool((matrix - matrix.flip(0, 1)).abs().max() > rounding):
        return Spectrum(*torch.linalg.eigh(matrix))
    n, eye = len(matrix), torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    found = []
    for sign, count in ((1, n - n // 2), (-1, n // 2)):
        vectors = (eye + sign * eye.flip(0))[:, :count]
        vectors = vectors / torch.linalg.vector_norm(vectors, dim=0)
        values, turned = torch.linalg.eigh(vectors.T @ matrix @ vectors)
        found.append((values, vectors @ turned))
    eigenvalues, order = torch.cat([values for values, _ in found]).sort()
    return Spectrum(eigenvalues, torch.cat([vectors for _, vectors in found], -1)[:, order])


def ramp(values: Tensor, low: float | Tensor, high: float | Tensor) -> Tensor:
    """0 up to ``low``, 1 from ``high`` on and linear between."""
    return ((values - low) / (high - low)).clamp(0, 1)


def scaled(prior: Tensor, factor: Tensor | None) -> Tensor:
    """A prior variance `M` or covariance `* x q x q` times a factor per trial; None for 1."""
    if factor is None:
        return prior
    return leading(factor, factor.dim() + min(prior.dim(), 2)) * prior
