"""Linear algebra shared by inference on grids and on boxes."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_tv.gp.tensors import Scratch

FEW_NUMBERS = 2**15
"""Largest number of scores for which an argmax of bytes is faster than a maximum of ranks."""

TIE_TOLERANCE = 1e-7
"""Largest difference of scores that count as equal, in units of the largest prior standard
deviation."""


def first_maximum(score: Tensor, tolerance: float, scratch: Scratch) -> Tensor:
    """The lowest index whose score is within ``tolerance`` of the maximum.

    The scores of many arms are equal up to rounding on symmetric grids and after a reset. Because
    the lowest index wins a tie, programs with different rounding errors select the same arm.

    Args:
        score: The scores, `batch_shape x M`.
        tolerance: Largest difference that counts as a tie, in units of the score.
        scratch: Memory for intermediate results.

    Returns:
        The index, `batch_shape`, int64.
    """
    arms = score.shape[-1]
    if score.device.type != "cpu" or score.numel() < FEW_NUMBERS:
        near_best = score >= score.amax(-1, keepdim=True) - tolerance
        return near_best.view(torch.uint8).argmax(-1)
    # Ranks decrease with the index, so the lowest index wins. Short integers are the fastest type.
    short = torch.int16 if arms < 2**15 else torch.int32
    near = scratch.take("near", score.shape, score, torch.bool)
    rank = scratch.take("rank", score.shape, score, short)
    torch.ge(score, score.amax(-1, keepdim=True) - tolerance, out=near)
    rank.copy_(near.view(torch.int8))  # as bytes, because converting booleans is slow
    rank.mul_(torch.arange(arms, 0, -1, dtype=short, device=score.device))
    return arms - rank.amax(-1).to(torch.int64)


def random_maximum(score: Tensor, tolerance: float, uniform: Tensor) -> Tensor:
    """A uniformly random index among those whose score is within ``tolerance`` of the maximum.

    Args:
        score: The scores, `batch_shape x M`.
        tolerance: Largest difference that counts as a tie, in units of the score.
        uniform: Random numbers in [0, 1), `batch_shape`.

    Returns:
        The index, `batch_shape`, int64.
    """
    count = (score >= score.amax(-1, keepdim=True) - tolerance).cumsum(-1)
    number = count[..., -1:]
    # In single precision, the product may be rounded up to ``number``.
    place = torch.minimum((uniform.unsqueeze(-1) * number).long(), number - 1)
    return (count <= place).sum(-1)


def at_index(values: Tensor, index: Tensor) -> Tensor:
    """For each trial, the entry of ``values``, `batch_shape x M`, at ``index``, `batch_shape`."""
    return values.gather(-1, index.unsqueeze(-1)).squeeze(-1)


def leading(values: Tensor, dims: int) -> Tensor:
    """A tensor `batch_shape` with dimensions of size 1 appended, ``dims`` dimensions in total."""
    return values.view((*values.shape, *[1] * (dims - values.dim())))


def clear_(tensor: Tensor, trials: Tensor, value: Tensor | float = 0.0) -> Tensor:
    """Overwrite the entries of some trials in place.

    Args:
        tensor: The tensor to modify, `batch_shape x event_shape`.
        trials: The trials to overwrite, `batch_shape`, bool.
        value: New value, broadcastable to the event shape.

    Returns:
        The modified ``tensor``.
    """
    if tensor.device.type == "cpu":
        # On a CPU, indices replace the mask, because a mask makes PyTorch read the whole tensor.
        some = trials.view(trials.shape or (1,)).nonzero(as_tuple=True)
        whole = tensor if trials.dim() > 0 else tensor.unsqueeze(0)
        whole[some] = torch.as_tensor(value, dtype=tensor.dtype, device=tensor.device)
        return tensor
    # On another device, a mask is used, because indices would have to wait for the device.
    mask = leading(trials, tensor.dim())
    if isinstance(value, Tensor):
        return torch.where(mask, value, tensor, out=tensor)
    return tensor.masked_fill_(mask, value)


def ramp(values: Tensor, low: float | Tensor, high: float | Tensor) -> Tensor:
    """A function that is 0 up to ``low``, 1 from ``high`` on, and linear between them."""
    return ((values - low) / (high - low)).clamp(0, 1)


def scaled(prior: Tensor, factor: Tensor | None) -> Tensor:
    """Multiply a prior variance, `M`, or covariance, `* x q x q`, by factors; None means 1."""
    if factor is None:
        return prior
    return leading(factor, factor.dim() + min(prior.dim(), 2)) * prior
