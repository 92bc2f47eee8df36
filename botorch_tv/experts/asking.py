"""Which past points an expert is asked about."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_tv.experts.dpp import Steps, k_dpp
from botorch_tv.inference.basis import Basis
from botorch_tv.inference.box import BoxPrior
from botorch_tv.inference.random import mixed
from botorch_tv.strategies.draws import Draws
from botorch_tv.strategies.state import State


def draw_points(state: State, size: int, draws: Draws, steps: Steps) -> tuple[Tensor, Tensor]:
    """Distinct past choices, drawn by a k-DPP.

    The device is waited for twice, so that no more is computed than the trials need.

    Args:
        state: All that has been told, one round or more.
        size: Points to draw; fewer where there are fewer, or their covariance has a lower rank.
        draws: Random numbers of the trials.
        steps: As in :func:`~botorch_tv.experts.dpp.k_dpp`.

    Returns:
        The choices, `batch_shape x Q` or `batch_shape x Q x d`, and which of them count,
        `batch_shape x Q`. Q is what the trial with the most points needs.
    """
    log = state.history.choice.tensor()
    if state.time.numel() == 0:
        first = log.narrow(state.time.dim(), 0, 1)
        return first, torch.zeros(*state.time.shape, 1, dtype=torch.bool, device=log.device)
    place, order = distinct(log, state.time.dim())
    candidates = int(place.sum(-1).amax())
    order = order[..., :candidates]
    there = place.gather(-1, order)
    choice = _taken(log, order)
    drawn = k_dpp(_gram(state, choice), size, draws, points=there, steps=steps, clip=True)
    count = max(1, int(drawn.mask.sum(-1).amax()))
    mask = drawn.mask[..., :count]
    # Entries that do not count repeat the first point, which is always one of the trial's own.
    index = torch.where(mask, drawn.index[..., :count], 0)
    return _taken(choice, index), mask


def distinct(choice: Tensor, batch_dims: int) -> tuple[Tensor, Tensor]:
    """Which rows of a log are new choices.

    Args:
        choice: Arms, `batch_shape x n`, or points, `batch_shape x n x d`.
        batch_dims: Dimensions of the batch shape.

    Returns:
        Whether no row before is the same, `batch_shape x n`, bool, and the numbers of the rows with
        those that are new in front, in their order, `batch_shape x n`.
    """
    word = choice if choice.dim() == batch_dims + 1 else _fingerprint(choice)
    # Equal words become neighbours, the oldest first.
    ordered, order = word.sort(dim=-1, stable=True)
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    new = torch.zeros_like(first).scatter(-1, order, first)
    return new, new.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)


def _fingerprint(points: Tensor) -> Tensor:
    """64 bits that are equal where points are, `* x d -> *`; two in 10^18 collide by chance."""
    bits = (points.double() + 0.0).view(torch.int64)  # adding 0 turns -0 into 0
    word = torch.zeros_like(bits[..., 0])
    for part in bits.unbind(-1):
        word = mixed(word ^ part)
    return word


def _taken(choice: Tensor, number: Tensor) -> Tensor:
    """Rows of a log by number, `batch_shape x n [x d]` at `batch_shape x q`."""
    if choice.dim() == number.dim():
        return choice.gather(-1, number)
    return choice.gather(-2, number.unsqueeze(-1).expand(*number.shape, choice.shape[-1]))


def _gram(state: State, choice: Tensor) -> Tensor:
    """Prior covariance among choices, `batch_shape x n x n`."""
    if isinstance(state.basis, Basis):
        return state.basis.gram(choice)
    assert isinstance(state.basis, BoxPrior)
    flat = choice.reshape(-1, *choice.shape[-2:])
    covariance = state.basis.points.covariance(flat, flat)
    return covariance.view(*choice.shape[:-1], choice.shape[-2])
