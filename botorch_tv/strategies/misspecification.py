"""Warnings about data, domains and clocks that contradict a prior by orders of magnitude.

Each warning is given once for a state and all states that follow from it.
"""

from __future__ import annotations

import math
import warnings

import torch
from gpytorch.kernels import Kernel, ScaleKernel
from torch import Tensor

from botorch_tv.gp.basis import Basis
from botorch_tv.gp.box import BoxPrior
from botorch_tv.gp.covariance import describe_kernel, evaluated
from botorch_tv.gp.process import Process
from botorch_tv.learning.refit import Refit
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.state import State
from botorch_tv.validation import MisspecificationWarning

FAR = 25.0
"""Distance from y to the prior mean, in standard deviations, above which the unit of y is probably
wrong."""
STEP, UNRELATED = 0.01, 0.1
"""Points that are the fraction ``STEP`` of a range apart should have a correlation of at least
``UNRELATED``. Otherwise a range spans over two hundred lengthscales, and a measurement predicts
nothing at other points."""
CONSTANT = 1e-4
"""Functions are practically constant if the variance of their differences between points is below
this fraction of the variance that independent points would have."""
FORGOTTEN = 1e-2
"""Data count as forgotten if their correlation, or the root of their weight, is below this."""
LOOKED_AT = 8
"""Number of arms whose covariance with all other arms is checked."""
STACK = 7
"""Argument ``stacklevel`` of a warning: number of stack frames up to the caller of the strategy."""


def warn_of_observation(
    process: Process,
    learning: Refit | None,
    state: State,
    y: Tensor,
    variance: Tensor,
    time: Tensor,
) -> None:
    """Warn at the first observation that is far outside the prior.

    Args:
        process: The process that defines the prior.
        learning: Which hyperparameters are learned, and when; None if none is learned.
        state: The state before the observation.
        y: The observation, `batch_shape`.
        variance: Noise variances, infinite where a measurement failed, `batch_shape`.
        time: Time of the measurement, `batch_shape`.
    """
    given, scale = process.given_mean, state.basis.scale
    if y.dim() == 0 and process.decay.is_static and given is not None:
        within = FAR * math.sqrt(scale**2 + float(variance))
        if abs(float(y) - given) <= within:
            return  # a single trial is checked with plain numbers, which is faster
    if learning and learning.outputscale and isinstance(process.kernel, ScaleKernel):
        return  # the variance is learned from the data
    if given is None and state.rounds == 0:
        return
    prior, mean = torch.full_like(y, scale**2), torch.full_like(y, given or 0.0)
    earlier, noise = state.history.y.tensor(), state.history.noise.tensor()
    if given is None:
        good = noise.isfinite()
        mean = (earlier * good).sum(-1) / good.sum(-1).clamp_min(1)
        variance = torch.where(good.any(-1), variance, math.inf)
        prior = 2 * prior  # the difference of two draws has twice the variance
    if not process.decay.is_static:
        elapsed = (time - state.data.origin).clamp_min(0)
        prior = prior * process.decay.prior_variance(elapsed).to(y)
    spread = (prior + variance).sqrt()
    far = (y - mean).abs() > FAR * spread
    before = (earlier - mean.unsqueeze(-1)).abs() / (prior.unsqueeze(-1) + noise).sqrt()
    if not bool(far.any()) or bool((before > FAR).any()):
        return
    first, centre, sd = (part[far][0].item() for part in (y, mean, spread))
    about = "the prior mean is" if given is not None else "the mean of earlier observations is"
    _warn(
        f"an observation is {first:.4g}, but {about} {centre:.4g} and the standard deviation of "
        f"kernel and noise is {sd:.2g}. With these values every choice is the same point: "
        'standardise y, or give mean="estimated" and state the outputscale of the kernel and the '
        "noise variance in the squared unit of y."
    )


def warn_of_domain(
    process: Process, learning: Refit | None, domain: Domain, prior: Basis | BoxPrior
) -> None:
    """Warn if a kernel makes all points of a domain uncorrelated, or all functions constant.

    Args:
        process: The process with the kernel.
        learning: Which hyperparameters are learned, and when; None if none is learned.
        domain: The domain of the strategy.
        prior: The prior on the domain.
    """
    kernel = process.kernel
    if isinstance(kernel, Tensor) or (learning is not None and learning.lengthscale is not None):
        return
    if isinstance(domain, Box):
        unrelated, share = _on_box(kernel, domain, prior.variance.device)
    else:
        assert isinstance(prior, Basis)
        unrelated, share = _on_arms(prior)
    if unrelated or share < CONSTANT:
        flat = (
            f"the variance of f(x) - f(x') is at most {max(share, 0.0):.2g} of the variance for "
            "uncorrelated points x and x', so functions are constant"
        )
        _warn(
            f"{describe_kernel(kernel)} on {domain!r}: {unrelated or flat}. Give lengthscales in "
            "the unit of the coordinates, such as a fifth of each range, or normalise points to "
            "the unit cube."
        )


def warn_of_clock(process: Process, state: State, time: Tensor) -> None:
    """Warn at the third observation if everything was forgotten between successive observations.

    Args:
        process: The process with its decay, inflation and retention.
        state: The state before the observation.
        time: Time of the observation, `batch_shape`.
    """
    times = torch.cat([state.history.time.tensor(), time.unsqueeze(-1)], -1)
    units = torch.arange(3, dtype=times.dtype, device=times.device).expand_as(times)
    for (part, forgotten), (_, meant) in zip(_forgets(process, times), _forgets(process, units)):
        whole = forgotten.all(-1)  # both gaps count, because one long pause is no reason to warn
        # A part that forgets everything within one unit of time is probably meant to do so.
        if bool(whole.any()) and not bool(meant.any()):
            gap = times.diff(dim=-1)[tuple(whole.nonzero()[0])][-1].item()
            _warn(
                f"observations are {gap:g} units of time apart, and {part!r} forgets everything "
                "within that time. Give the parameters of this component per unit of the clock "
                "that now= and time= use (0.01 per hour is 0.01 / 3600 per second), or count time "
                "in the unit of these parameters."
            )


def _warn(message: str) -> None:
    warnings.warn(message, MisspecificationWarning, stacklevel=STACK)


def _on_box(kernel: Kernel, box: Box, device: torch.device) -> tuple[str, float]:
    """Two values: a message or "", and the largest relative variance between points.

    The message states that points of the box are uncorrelated. The second value is the largest
    variance of a difference between function values at two points, divided by the variance of a
    difference between independent values.
    """
    probe = box.probe(torch.float64, device)
    centre, ranges = probe[:1], box.extent.to(probe)[: box.dim]
    step = STEP * torch.nn.functional.pad(torch.diag(ranges), (0, box.context_dim))
    covariance = evaluated(kernel, torch.cat([probe, centre + step]))
    variance = covariance.diagonal()
    near = covariance[0, len(probe) :] / (variance[0] * variance[len(probe) :]).sqrt()
    unrelated, column = "", int(near.argmin())
    if float(near[column]) < UNRELATED:
        unrelated = (
            f"points {STEP * float(ranges[column]):.3g} apart in coordinate {column}, a hundredth "
            f"of the range, have correlation {float(near[column]):.2g}"
        )
    return unrelated, _share(variance + variance.unsqueeze(-1) - 2 * covariance, variance)


def _on_arms(basis: Basis) -> tuple[str, float]:
    """Two values for the arms of a grid: a message or "", and a variance, as in :func:`_on_box`."""
    if basis.arms < 2:
        return "", 1.0
    few = min(LOOKED_AT, basis.arms)
    index = torch.arange(few, device=basis.variance.device) * (basis.arms // few)
    covariance, variance = basis.expand(basis.row(index)).double(), basis.variance.double()
    scale = (variance[index].unsqueeze(-1) * variance).sqrt().clamp_min(torch.finfo().tiny)
    others = torch.ones_like(covariance).scatter_(-1, index.unsqueeze(-1), 0.0)
    correlation = float(((covariance / scale).abs() * others).max())
    unrelated = ""
    if correlation < FORGOTTEN**2:
        unrelated = (
            f"the largest correlation between arms is {correlation:.2g}: a measurement of an arm "
            "predicts nothing about other arms"
        )
    return unrelated, _share(variance[index].unsqueeze(-1) + variance - 2 * covariance, variance)


def _share(between: Tensor, variance: Tensor) -> float:
    return float(between.max()) / (2 * float(variance.max()))


def _forgets(process: Process, times: Tensor) -> list[tuple[object, Tensor]]:
    """The decay, the inflation and the retention, each with a tensor, `batch_shape x 2`, bool.

    The tensor states whether the part forgets everything between successive observations.
    """
    gap, decay, rules = times.diff(dim=-1), process.decay, process.retention
    # An oscillating decay may be uncorrelated at a single lag, so two lags are checked.
    both = torch.stack([gap, 0.97 * gap])
    start = torch.zeros_like(both)
    scale = decay.prior_variance(start) * decay.prior_variance(both)
    decayed = (decay.covariance(start, both).abs() < FORGOTTEN * scale.sqrt()).all(0)
    inflated = process.inflation.log_factor(gap) > -2 * math.log(FORGOTTEN)
    dropped = torch.zeros_like(gap, dtype=torch.bool)
    for lifetime in process.lifetimes:
        # A periodic reset may happen to fall into a short gap between observations. Therefore a
        # warning requires that even a tenth of the gap exceeds the period (or the window of a
        # sliding window).
        if lifetime.span:
            dropped = dropped | (0.1 * gap > lifetime.span)
    retention = rules[0] if len(rules) == 1 else rules
    return [(decay, decayed), (process.inflation, inflated), (retention, dropped)]
