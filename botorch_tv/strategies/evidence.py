"""What each observation in the log is worth now: where the three kinds of forgetting meet."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.forgetting import Decay, Inflation, Retention
from botorch_tv.forgetting.static import is_static
from botorch_tv.inference.regression import Evidence
from botorch_tv.strategies.state import State


class Retained(NamedTuple):
    """The rows of a log from the oldest that some trial keeps, n in number."""

    choice: Tensor
    """`batch_shape x n`, or `batch_shape x n x d` on a box."""
    y: Tensor
    """`batch_shape x n`."""
    noise: Tensor
    """Variances as told, infinite where a measurement failed, `batch_shape x n`."""
    time: Tensor
    """`batch_shape x n`."""
    kept: Tensor
    """Whether a trial keeps the row, `batch_shape x n`, bool."""
    origin: Tensor
    """Time of the first observation kept, now without any, `batch_shape x 1`."""


def retained(state: State, retention: Retention, now: Tensor) -> Retained:
    """What is left of the log at time ``now``, `batch_shape`."""
    first, present = state.dropped, now.unsqueeze(-1)
    noise, time = state.history.noise.tensor(first), state.history.time.tensor(first)
    number = torch.arange(first, state.told, device=time.device)
    kept = number >= state.start.unsqueeze(-1)
    origin = state.origin.unsqueeze(-1)
    if retention.uses_time:
        kept = kept & retention.live(time, present, state.first_time.unsqueeze(-1))
        if retention.restarts:
            candidates = torch.where(kept & noise.isfinite(), time, present)
            origin = torch.cat([candidates, present], dim=-1).amin(-1, keepdim=True)
    choice, y = state.history.choice.tensor(first), state.history.y.tensor(first)
    return Retained(choice, y, noise, time, kept, origin)


def gather_evidence(
    state: State,
    *,
    mean: float | None,
    decay: Decay,
    inflation: Inflation,
    retention: Retention,
    now: Tensor,
    reference: Tensor,
    inflation_power: int = 1,
    noise_factor: Tensor | None = None,
) -> Evidence:
    """The observations kept at time ``now``, ready for regression.

    Args:
        state: The log and where each trial's data begin.
        mean: The prior mean; None where it is to be estimated.
        decay: How covariance falls with time.
        inflation: How noise grows with the lag.
        retention: Which observations are kept.
        now: The present, `batch_shape`.
        reference: Time from which lags are counted, `batch_shape`.
        inflation_power: 2 squares the factor on the noise, as the doubly weighted gain does.
        noise_factor: Multiplies all noise variances, `batch_shape`; None for 1.

    Returns:
        One row per observation that some trial keeps.
    """
    choice, y, noise, time, kept, origin = retained(state, retention, now)
    if mean:
        y = y - mean
    if noise_factor is not None:
        noise = noise * noise_factor.unsqueeze(-1)
    present = now.unsqueeze(-1)
    lag = reference.unsqueeze(-1) - time
    log_noise = noise.log() + inflation_power * inflation.log_factor(lag)
    root = (torch.exp(-0.5 * log_noise) * kept).to(y.dtype)
    if is_static(decay):
        return Evidence(choice, y, root, estimates_mean=mean is None)
    # Times before the origin belong to rows that are not kept; any finite factor will do for them.
    elapsed = (time - origin).clamp_min(0)
    age = (present - origin).clamp_min(0)
    return Evidence(
        choice,
        y,
        root,
        decay=decay.covariance(elapsed.unsqueeze(-1), elapsed.unsqueeze(-2)).to(y.dtype),
        present_decay=decay.covariance(elapsed, age).to(y.dtype),
        prior_factor=decay.prior_variance(age.squeeze(-1)).to(y.dtype),
        estimates_mean=mean is None,
    )
