"""Small linear algebra shared by both kinds of inference."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_tv.gp.tensors import Scratch

FEW_NUMBERS = 2**15
"""Scores up to which an argmax of bytes, one operation, is faster than a maximum of ranks."""

TIE_TOLERANCE = 1e-7
"""Scores this close, in units of the largest prior standard deviation, are equal."""


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


def ramp(values: Tensor, low: float | Tensor, high: float | Tensor) -> Tensor:
    """0 up to ``low``, 1 from ``high`` on and linear between."""
    return ((values - low) / (high - low)).clamp(0, 1)


def scaled(prior: Tensor, factor: Tensor | None) -> Tensor:
    """A prior variance `M` or covariance `* x q x q` times a factor per trial; None for 1."""
    if factor is None:
        return prior
    return leading(factor, factor.dim() + min(prior.dim(), 2)) * prior
