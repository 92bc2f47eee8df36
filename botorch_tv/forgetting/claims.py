"""Whether a decay is what it says: a covariance, and Markovian where it claims to be."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_tv.forgetting.decay import Decay, require_defined
from botorch_tv.validation import require

SPANS = (0.1, 1.0, 10.0, 100.0)
"""Times since the origin within which a decay is looked at."""
TIMES = 12
TOLERANCE = 1e-8
"""As a share of the standard deviations at both times."""
GOLDEN = 0.6180339887498949


def require_sound(decay: Decay) -> None:
    """Look at a decay at some times, evenly spread but in no rhythm.

    Args:
        decay: Anybody's.

    Raises:
        ValueError: If it defines nothing, is no covariance there, or not as Markovian as it claims.
    """
    require_defined(decay)
    unit = (torch.arange(TIMES, dtype=torch.float64) * GOLDEN % 1).sort().values
    for span in SPANS:
        _require_sound_at(decay, span * unit)


@torch.no_grad()
def _require_sound_at(decay: Decay, time: Tensor) -> None:
    name, q = repr(decay), len(time)
    covariance = decay.covariance(time.unsqueeze(-1), time)
    require(
        isinstance(covariance, Tensor) and covariance.shape == (q, q),
        f"the covariance of {name} between {q} and {q} times has shape "
        f"{tuple(getattr(covariance, 'shape', ()))}; compute it elementwise, so that shapes "
        "broadcast.",
    )
    wrong = ~covariance.isfinite()
    if bool(wrong.any()):
        i, j = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"the covariance of {name} between times {time[i]:.4g} and {time[j]:.4g} is "
            f"{covariance[i, j].item()}, but it must be finite; check the formula, or count time "
            "in another unit."
        )
    variance = covariance.diagonal()
    least = int(variance.argmin())
    require(
        bool(variance[least] > 0),
        f"the variance of {name} is {variance[least].item():.4g} at time {time[least]:.4g} since "
        "the origin, but it must be positive at all times.",
    )
    scale = variance.sqrt().unsqueeze(-1) * variance.sqrt()
    told = decay.prior_variance(time)
    _require_equal(name, "prior_variance(t) and covariance(t, t)", told, variance, variance, time)
    _require_equal(
        name, "covariance(s, t) and covariance(t, s)", covariance, covariance.mT, scale, time
    )
    correlation = covariance / scale
    lowest, highest = torch.linalg.eigvalsh(correlation)[[0, -1]].tolist()
    require(
        lowest > -TOLERANCE * highest,
        f"{name} is no covariance: the correlations between {q} times up to {time[-1]:.4g} have "
        f"eigenvalues from {lowest:.3g} to {highest:.3g}, but none may be below -1e-8 of the "
        "largest; check the formula against a positive definite function.",
    )
    if decay.markovian:
        _require_markovian(decay, correlation, covariance, scale, time)


def _require_markovian(
    decay: Decay, correlation: Tensor, covariance: Tensor, scale: Tensor, time: Tensor
) -> None:
    r, s, t = torch.combinations(torch.arange(len(time)), 3).unbind(-1)
    direct, by_way = correlation[r, t], correlation[r, s] * correlation[s, t]
    off = int((direct - by_way).abs().argmax())
    require(
        bool((direct - by_way)[off].abs() <= TOLERANCE),
        f"{decay!r} claims to be Markovian, but the correlation between times "
        f"{time[r[off]]:.4g} and {time[t[off]]:.4g} is {direct[off].item():.6g}, and "
        f"{by_way[off].item():.6g} by way of {time[s[off]]:.4g}; leave markovian False, and any "
        "inference is right.",
    )
    step = decay.transition(time.unsqueeze(-1), time) * decay.prior_variance(time).unsqueeze(-1)
    _require_equal(
        repr(decay),
        "prior_variance(s) attenuation(t - s) and covariance(s, t)",
        step.triu(),
        covariance.triu(),
        scale,
        time,
    )


def _require_equal(
    name: str, what: str, first: Tensor, second: Tensor, scale: Tensor, time: Tensor
) -> None:
    off = (first - second).abs() / scale
    worst = int(off.argmax())
    row, column = worst // len(time) if off.dim() == 2 else worst, worst % len(time)
    # Written so that NaN is refused.
    require(
        bool((off <= TOLERANCE).all()),
        f"{what} of {name} must agree, but they are {first.flatten()[worst].item():.6g} and "
        f"{second.flatten()[worst].item():.6g} at s = {time[row]:.4g}, t = {time[column]:.4g}; "
        "define one of them, or make them agree.",
    )
