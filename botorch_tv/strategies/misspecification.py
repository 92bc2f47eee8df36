"""Warnings where data, domain or clock are orders of magnitude from what a prior expects.

Each is given once for a state and those that follow from it, and only where values are looked at
anyway.
"""

from __future__ import annotations

import math
import warnings

import torch
from gpytorch.kernels import Kernel, ScaleKernel
from torch import Tensor

from botorch_tv.forgetting import PeriodicReset, SlidingWindow
from botorch_tv.forgetting.base import is_static
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
"""Standard deviations from the prior mean beyond which y is in another unit, not an outlier."""
STEP, UNRELATED = 0.01, 0.1
"""Points this share of a side apart should have at least this correlation: else a box has more than
two hundred lengthscales a side, and nothing measured tells of anywhere else."""
CONSTANT = 1e-4
"""A function whose differences have less than this share of its variance is flat."""
FORGOTTEN = 1e-2
"""A correlation, or a weight in standard deviations, below which data count as forgotten."""
LOOKED_AT = 8
"""Arms whose covariance with all others is looked at."""
STACK = 7
"""From a warning to whoever called the strategy."""


def warn_of_observation(
    process: Process,
    learning: Refit | None,
    state: State,
    y: Tensor,
    variance: Tensor,
    time: Tensor,
) -> None:
    """Warn at the first observation that no prior like this one could have made.

    Args:
        process: Whose prior it is.
        learning: What is found from the data; None for nothing.
        state: Before the observation.
        y: `batch_shape`.
        variance: Noise variances, infinite where a measurement failed, `batch_shape`.
        time: When it was made, `batch_shape`.
    """
    given, scale = process.given_mean, state.basis.scale
    if y.dim() == 0 and is_static(process.decay) and given is not None:
        within = FAR * math.sqrt(scale**2 + float(variance))
        if abs(float(y) - given) <= within:
            return  # a trial alone asks as numbers, which is faster
    if learning and learning.outputscale and isinstance(process.kernel, ScaleKernel):
        return  # the variance is found from the data
    if given is None and state.told == 0:
        return
    prior, mean = torch.full_like(y, scale**2), torch.full_like(y, given or 0.0)
    earlier, noise = state.history.y.tensor(), state.history.noise.tensor()
    if given is None:
        good = noise.isfinite()
        mean = (earlier * good).sum(-1) / good.sum(-1).clamp_min(1)
        variance = torch.where(good.any(-1), variance, math.inf)
        prior = 2 * prior  # two draws differ by twice the variance of one
    if not is_static(process.decay):
        elapsed = (time - state.data.origin).clamp_min(0)
        prior = prior * process.decay.prior_variance(elapsed).to(y)
    spread = (prior + variance).sqrt()
    far = (y - mean).abs() > FAR * spread
    before = (earlier - mean.unsqueeze(-1)).abs() / (prior.unsqueeze(-1) + noise).sqrt()
    if not bool(far.any()) or bool((before > FAR).any()):
        return
    first, centre, sd = (one[far][0].item() for one in (y, mean, spread))
    about = "the prior mean is" if given is not None else "observations before lie about"
    _warn(
        f"an observation is {first:.4g}, but {about} {centre:.4g} and the standard deviation of "
        f"kernel and noise {sd:.2g}, with which a strategy plays one point forever: give "
        'mean="estimated", a kernel whose outputscale, and a noise whose variance, is in the '
        "squared unit of y; or standardise y."
    )


def warn_of_domain(
    process: Process, learning: Refit | None, domain: Domain, prior: Basis | BoxPrior
) -> None:
    """Warn where a kernel holds all points of a domain for unrelated, or for one.

    Args:
        process: Whose kernel it is.
        learning: What is found from the data; None for nothing.
        domain: Where it chooses.
        prior: What the kernel says about functions there.
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
        flat = f"differences have {max(share, 0.0):.2g} of the variance: it is held for constant"
        _warn(
            f"{describe_kernel(kernel)} on {domain!r}: {unrelated or flat}. Give lengthscales in "
            "the unit of the coordinates, such as a fifth of each side, or normalise these to the "
            "unit cube."
        )


def warn_of_clock(process: Process, state: State, time: Tensor) -> None:
    """Warn at the third observation if everything was forgotten between any two.

    Args:
        process: Whose decay, inflation and retention forget.
        state: Before the observation.
        time: Of the observation, `batch_shape`.
    """
    times = torch.cat([state.history.time.tensor(), time.unsqueeze(-1)], -1)
    units = torch.arange(3, dtype=times.dtype, device=times.device).expand_as(times)
    for (part, forgotten), (_, meant) in zip(_forgets(process, times), _forgets(process, units)):
        whole = forgotten.all(-1)  # no pause, but every time
        # Meant where a single unit of time is enough to forget.
        if bool(whole.any()) and not bool(meant.any()):
            gap = times.diff(dim=-1)[tuple(whole.nonzero()[0])][-1].item()
            _warn(
                f"observations are {gap:g} units of time apart, over which {part!r} forgets "
                "everything before. Give its parameter per unit of the clock that now= and time= "
                "use (0.01 an hour is 0.01 / 3600 a second), or count time in its unit."
            )


def _warn(message: str) -> None:
    warnings.warn(message, MisspecificationWarning, stacklevel=STACK)


def _on_box(kernel: Kernel, box: Box, device: torch.device) -> tuple[str, float]:
    """How points of a box are unrelated, in words, or "", and the share of variance between any."""
    probe = box.probe(torch.float64, device)
    centre, sides = probe[:1], box.extent.to(probe)[: box.dim]
    step = STEP * torch.nn.functional.pad(torch.diag(sides), (0, box.context_dim))
    covariance = evaluated(kernel, torch.cat([probe, centre + step]))
    variance = covariance.diagonal()
    beside = covariance[0, len(probe) :] / (variance[0] * variance[len(probe) :]).sqrt()
    unrelated, column = "", int(beside.argmin())
    if float(beside[column]) < UNRELATED:
        unrelated = (
            f"points {STEP * float(sides[column]):.3g} apart in coordinate {column}, a hundredth "
            f"of the side, have correlation {float(beside[column]):.2g}"
        )
    return unrelated, _share(variance + variance.unsqueeze(-1) - 2 * covariance, variance)


def _on_arms(basis: Basis) -> tuple[str, float]:
    """The same of arms."""
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
            f"the largest correlation between arms is {correlation:.2g}, so that nothing measured "
            "at one tells of another"
        )
    return unrelated, _share(variance[index].unsqueeze(-1) + variance - 2 * covariance, variance)


def _share(between: Tensor, variance: Tensor) -> float:
    return float(between.max()) / (2 * float(variance.max()))


def _forgets(process: Process, times: Tensor) -> list[tuple[object, Tensor]]:
    """Parts, and whether each forgets all between times `batch_shape x 3`, each and the next."""
    gap, decay, rules = times.diff(dim=-1), process.decay, process.retention
    both = torch.stack([gap, 0.97 * gap])  # what oscillates may be uncorrelated at one time alone
    start = torch.zeros_like(both)
    scale = decay.prior_variance(start) * decay.prior_variance(both)
    decayed = (decay.covariance(start, both).abs() < FORGOTTEN * scale.sqrt()).all(0)
    inflated = process.inflation.log_factor(gap) > -2 * math.log(FORGOTTEN)
    dropped = torch.zeros_like(gap, dtype=torch.bool)
    for rule in rules:
        if isinstance(rule, (PeriodicReset, SlidingWindow)) and rule.by == "time":
            # Not by chance at the end of a period: a tenth of the time between is enough, too.
            length = rule.period if isinstance(rule, PeriodicReset) else rule.window
            dropped = dropped | (0.1 * gap > length)
    retention = rules[0] if len(rules) == 1 else rules
    return [(decay, decayed), (process.inflation, inflated), (retention, dropped)]
