"""The observations kept, ready for regression: noise by their age, covariance by their times."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_tv.forgetting.base import Decay
from botorch_tv.inference.data import Data, Present
from botorch_tv.inference.process import Process
from botorch_tv.inference.regression import Observations


def observations_of(
    data: Data,
    process: Process,
    present: Present,
    *,
    inflation_power: int = 1,
    decay: Decay | None = None,
    noise_factor: Tensor | None = None,
    pairs: bool = True,
) -> Observations:
    """The observations kept, ready for regression.

    Args:
        data: The log, and what is kept of it.
        process: How they are forgotten.
        present: When.
        inflation_power: 2 squares the factor on the noise, as the doubly weighted gain does.
        decay: Takes the place of the process's.
        noise_factor: Multiplies all noise variances, `batch_shape`; None for 1.
        pairs: Whether temporal factors among all rows are wanted.

    Returns:
        One row per observation that some trial keeps.
    """
    log, first, estimates = data.history, data.dropped, process.known_mean is None
    choice, y, time = log.choice.tensor(first), log.y.tensor(first), log.time.tensor(first)
    noise = log.noise.tensor(first)
    if process.known_mean:
        y = y - process.known_mean
    if noise_factor is not None:
        noise = noise * noise_factor.unsqueeze(-1)
    root = noise.rsqrt()
    if process.ages:
        lag = present.reference.unsqueeze(-1) - time
        growth = inflation_power * process.inflation.log_factor(lag)
        root = torch.exp(-0.5 * (noise.log() + growth))
    mask = data.mask
    if mask is not None:
        root = root * mask
    root = root.to(y.dtype)
    if not process.moves:
        return Observations(choice, y, root, estimates_mean=estimates)
    decay = process.decay if decay is None else decay
    elapsed = data.elapsed
    age = (present.now.unsqueeze(-1) - data.origin.unsqueeze(-1)).clamp_min(0)
    return Observations(
        choice,
        y,
        root,
        decay=temporal_rows(decay, elapsed, 0, elapsed.shape[-1]).to(y) if pairs else None,
        present_decay=decay.covariance(elapsed, age).to(y.dtype),
        prior_factor=decay.prior_variance(age.squeeze(-1)).to(y.dtype),
        estimates_mean=estimates,
    )


def temporal_rows(decay: Decay, elapsed: Tensor, first: int, last: int) -> Tensor:
    """Temporal factors of some rows with all up to them, `batch_shape x (last - first) x last`.

    Args:
        decay: Of a process.
        elapsed: Times of all rows, `batch_shape x n`.
        first: Number of the first of them.
        last: Number of the one behind the last.
    """
    those, others = elapsed[..., first:last].unsqueeze(-1), elapsed[..., :last].unsqueeze(-2)
    return decay.covariance(those, others)
