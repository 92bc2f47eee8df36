"""Whether a decay or an inflation is what it says, and as learnable as it claims.

A formula that is no covariance, not Markovian though it says so, or in another unit of time than it
declares, would give wrong numbers and no error. It is tried once, at a few times, when a strategy,
a kernel or a likelihood is made of it.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from torch import Tensor

from botorch_tv.forgetting.base import (
    Decay,
    Inflation,
    Parameter,
    Values,
    with_values,
)
from botorch_tv.validation import require, shown

SPANS = (0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5)
"""Times since the origin within which a decay is looked at."""
ORDINARY = 4
"""Of the first so many of them it must be a number."""
TIMES = 12
TOLERANCE = 1e-8
"""As a share of the standard deviations at both times."""
GOLDEN = 0.6180339887498949
TRIED = (0.3, 0.4)
"""Natural values of parameters at which a formula is tried, in a unit of which there are ten."""
LONGER = 1.7
"""Another unit of time, in which it must say the same."""


@torch.no_grad()
def require_sound(decay: Decay) -> None:
    """Look at a decay at some times, evenly spread but in no rhythm.

    Args:
        decay: Anybody's.

    Raises:
        NotImplementedError: If it defines nothing.
        ValueError: If it is no covariance there, or not as Markovian as it claims.
    """
    unit = (torch.arange(TIMES, dtype=torch.float64, device="cpu") * GOLDEN % 1).sort().values
    time = torch.tensor(SPANS, dtype=torch.float64, device="cpu").unsqueeze(-1) * unit
    s, t = time.unsqueeze(-1), time.unsqueeze(-2)
    covariance = _elementwise(decay, decay.covariance(s, t), (*time.shape, TIMES))
    # What grows without end may leave every range in times that nobody counts to.
    counted = covariance.isfinite().flatten(1).all(-1)
    counted[:ORDINARY] = True
    s, covariance = s[counted].expand(-1, -1, TIMES), covariance[counted]
    variance = covariance.diagonal(dim1=-2, dim2=-1).unsqueeze(-1).expand_as(s)
    scale = variance.sqrt() * variance.sqrt().mT

    def hold(good: Tensor, problem: str, *values: Tensor) -> None:
        if bool(good.all()):
            return
        at = tuple((~good).nonzero()[0].tolist())
        numbers = " and ".join(f"{value[at].item():.6g}" for value in values)
        raise ValueError(
            f"{decay!r}: {problem}, but at s = {s[at]:.4g} and t = {s.mT[at]:.4g} since the origin "
            f"it gives {numbers}; mend the formula."
        )

    def agree(formulas: str, first: Tensor, second: Tensor) -> None:
        good = (first - second).abs() <= TOLERANCE * scale
        hold(good, f"{formulas} must agree", first, second)

    hold(covariance.isfinite(), "the covariance must be finite", covariance)
    hold(variance > 0, "the variance must be positive at all times", variance)
    agree("prior_variance(s) and covariance(s, s)", decay.prior_variance(s), variance)
    agree("covariance(s, t) and covariance(t, s)", covariance, covariance.mT)
    correlation = covariance / scale
    values = torch.linalg.eigvalsh(correlation)
    share = float((values[:, 0] / values[:, -1]).min())
    require(
        share > -TOLERANCE,
        f"{decay!r} is no covariance: correlations between {TIMES} times have eigenvalues down to "
        f"{share:.3g} of the largest, but none may be negative; give a positive definite function.",
    )
    if decay.markovian:
        first, between, last = torch.combinations(torch.arange(TIMES, device="cpu"), 3).unbind(-1)
        by_way = correlation[:, first, between] * correlation[:, between, last]
        apart = float((correlation[:, first, last] - by_way).abs().max())
        require(
            apart <= TOLERANCE,
            f"{decay!r} claims to be Markovian, but the correlation between times is off by "
            f"{apart:.3g} from that by way of a time between; leave markovian False.",
        )
        later = (s.mT >= s).to(s)
        step = later * decay.transition(s, s.mT) * variance
        agree("prior_variance(s) attenuation(t - s) and covariance(s, t)", step, later * covariance)


@torch.no_grad()
def require_inflating(inflation: Inflation) -> None:
    """Look at an inflation at some lags.

    Args:
        inflation: Anybody's.

    Raises:
        ValueError: If it does not compute from tensors, is NaN there or minus infinity, or changes
            the noise of what has just been observed.
    """
    lags = [0.0, *SPANS[:ORDINARY]]
    lag = torch.tensor([lags], dtype=torch.float64, device="cpu")
    factor = _elementwise(inflation, inflation.log_factor(lag), tuple(lag.shape))
    require(
        bool((factor > -math.inf).all()) and abs(float(factor[0, 0])) <= TOLERANCE,  # nor NaN
        f"log_factor of {inflation!r} is {factor[0].tolist()} at lags {lags}, but it is the "
        "logarithm of a positive factor, and 0 at lag 0; math.inf says that a row counts nothing.",
    )


def _elementwise(part: Decay | Inflation, found: Tensor, shape: tuple[int, ...]) -> Tensor:
    """What a formula gives, in the shape wanted."""
    size = tuple(found.shape) if isinstance(found, Tensor) else shown(found)
    require(
        size in (shape, (1, *shape[1:])),
        f"{part!r} gives {size} where {shape} is wanted; compute elementwise, so that shapes "
        "broadcast.",
    )
    return found.expand(shape)


def require_learnable(part: Decay | Inflation) -> None:
    """Raise unless the formula of a decay or an inflation is one of the parameters it declares.

    It is tried with tensors, as learning does: a value per trial, each at its own times.

    Args:
        part: Anybody's.

    Raises:
        ValueError: If it cannot be evaluated so, does not depend on a parameter, computes from
            anything but the attribute of that name, or changes with the unit of time.
    """
    time = 10 * (torch.arange(TIMES, dtype=torch.float64, device="cpu") * GOLDEN % 1)
    tried = {key: _tried(one, getattr(part, key)) for key, one in part.parameters.items()}
    leaves = {key: one.clone().requires_grad_() for key, one in tried.items()}
    with torch.inference_mode(False), torch.enable_grad():
        found = _formula(part, leaves, time)
        total = found.sum() + sum(0 * leaf.sum() for leaf in leaves.values())
        slopes = torch.autograd.grad(total, list(leaves.values()))
    idle = [key for key, slope in zip(leaves, slopes, strict=True) if not bool(slope.any())]
    require(
        not idle,
        f"{part!r} declares {idle}, but its formula does not change with it; compute from the "
        "attribute by functions of torch, each time.",
    )

    def same(first: Tensor, second: Tensor, message: str) -> None:
        good = (first - second).abs() <= TOLERANCE * second.abs().max()
        require(bool(good.all()), f"{part!r} {message}")

    for i in range(len(TRIED)):
        values = {key: one[i].item() for key, one in tried.items()}
        made: Any = part
        dataclass = dataclasses.is_dataclass(part)
        alone = dataclasses.replace(made, **values) if dataclass else with_values(made, values)
        same(
            _formula(alone, {}, time),
            found[i],
            f"gives one result with tensors and another with {values}; compute elementwise from "
            "the attributes each time, and store nothing derived from them.",
        )
    factor = torch.full((len(TRIED),), LONGER, dtype=torch.float64, device="cpu")
    counted = {key: one.counted(tried[key], factor, tried) for key, one in part.parameters.items()}
    same(
        _formula(part, counted, time / LONGER),
        found,
        "is another formula once time is counted in another unit; declare every number that has a "
        "unit of time, with its power of time (-1 for a rate, 1 for a duration).",
    )


def _tried(parameter: Parameter, given: float) -> Tensor:
    """Two values of a parameter at which its formula is tried."""
    if parameter.share is None and not callable(parameter.power) and parameter.power == 0:
        other = given + 1 if math.isinf(parameter.upper) else 0.5 * (given + parameter.upper)
        return torch.tensor([float(given), float(other)], dtype=torch.float64, device="cpu")
    value = parameter.value(torch.tensor(TRIED, dtype=torch.float64, device="cpu"))
    return value.clamp(parameter.lower, parameter.upper)


def _formula(part: Decay | Inflation, values: Values, time: Tensor) -> Tensor:
    """The covariance between all times, or the factor at all lags, for each of the values."""
    made = with_values(part, {key: one[:, None, None] for key, one in values.items()})
    first, second = time[None, :, None], time[None, None, :]
    found = made.covariance(first, second) if isinstance(made, Decay) else made.log_factor(first)
    count = max([1, *(len(one) for one in values.values())])
    return _elementwise(part, found, (count, TIMES, TIMES if isinstance(made, Decay) else 1))
