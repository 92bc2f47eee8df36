"""Numerical checks of a custom decay or inflation and of the parameters it declares.

Wrong formulas or declarations would silently give wrong numbers. Three examples of mistakes are a
formula that is not a covariance function, a wrong declaration that a decay is Markovian, and an
undeclared dependence on the unit of time. The constructors of strategies, kernels and likelihoods
therefore evaluate each formula once, at a few times.
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
"""Lengths of the time intervals, each starting at the origin, in which a decay is evaluated."""
ORDINARY = 4
"""Number of ``SPANS``, counted from the shortest, in which the covariance must be finite."""
TIMES = 12
TOLERANCE = 1e-8
"""Tolerance of covariances, relative to the product of the standard deviations at both times."""
GOLDEN = 0.6180339887498949
TRIED = (0.3, 0.4)
"""Natural values of parameters at which a formula is evaluated, at times from 0 to 10."""
LONGER = 1.7
"""Length of a second unit of time, in which a formula must give the same results."""


@torch.no_grad()
def require_sound(decay: Decay) -> None:
    """Evaluate a decay at irregular times and check its properties.

    Args:
        decay: The decay.

    Raises:
        NotImplementedError: If the decay defines no covariance.
        ValueError: If the decay is not a covariance at these times, or claims to be Markovian but
            is not.
    """
    unit = (torch.arange(TIMES, dtype=torch.float64, device="cpu") * GOLDEN % 1).sort().values
    time = torch.tensor(SPANS, dtype=torch.float64, device="cpu").unsqueeze(-1) * unit
    s, t = time.unsqueeze(-1), time.unsqueeze(-2)
    covariance = _elementwise(decay, decay.covariance(s, t), (*time.shape, TIMES))
    # A growing variance may overflow in the longest intervals. Intervals with an overflow are not
    # checked.
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
            f"{decay!r}: {problem}, but at s = {s[at]:.4g} and t = {s.mT[at]:.4g} (times "
            f"since the origin) the results are {numbers}; correct the formula."
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
        f"{decay!r} is not a covariance: the correlation matrix of {TIMES} time points has a "
        f"negative eigenvalue, {share:.3g} of the largest eigenvalue; use a positive definite "
        "function.",
    )
    if decay.markovian:
        first, between, last = torch.combinations(torch.arange(TIMES, device="cpu"), 3).unbind(-1)
        by_way = correlation[:, first, between] * correlation[:, between, last]
        apart = float((correlation[:, first, last] - by_way).abs().max())
        require(
            apart <= TOLERANCE,
            f"{decay!r} claims to be Markovian, but correlations D(r, t) and D(r, s) D(s, t) "
            f"differ by {apart:.3g}; set markovian = False.",
        )
        later = (s.mT >= s).to(s)
        step = later * decay.transition(s, s.mT) * variance
        agree("prior_variance(s) attenuation(t - s) and covariance(s, t)", step, later * covariance)


@torch.no_grad()
def require_inflating(inflation: Inflation) -> None:
    """Evaluate an inflation at some lags and check its properties.

    Args:
        inflation: The inflation.

    Raises:
        ValueError: If ``log_factor`` does not compute elementwise, if it returns NaN or minus
            infinity, or if it is not 0 at lag 0.
    """
    lags = [0.0, *SPANS[:ORDINARY]]
    lag = torch.tensor([lags], dtype=torch.float64, device="cpu")
    factor = _elementwise(inflation, inflation.log_factor(lag), tuple(lag.shape))
    require(
        bool((factor > -math.inf).all()) and abs(float(factor[0, 0])) <= TOLERANCE,  # not NaN
        f"log_factor of {inflation!r} is {factor[0].tolist()} at lags {lags}, but it must be the "
        "logarithm of a positive factor, and 0 at lag 0; math.inf gives a row zero weight.",
    )


def _elementwise(part: Decay | Inflation, found: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The result of a formula, expanded to the required shape."""
    size = tuple(found.shape) if isinstance(found, Tensor) else shown(found)
    require(
        size in (shape, (1, *shape[1:])),
        f"{part!r} gives {size}, but the shape must be {shape}; compute elementwise, with "
        "broadcasting.",
    )
    return found.expand(shape)


def require_learnable(part: Decay | Inflation) -> None:
    """Raise an error unless a decay's or inflation's formula uses the parameters that it declares.

    The formula is evaluated as during learning, with a tensor of values for each parameter.

    Args:
        part: The decay or the inflation.

    Raises:
        ValueError: If the formula rejects tensors, if it is independent of a declared parameter, if
            it uses another value than the parameter's attribute, or if it depends on the unit of
            time in an undeclared way.
    """
    time = 10 * (torch.arange(TIMES, dtype=torch.float64, device="cpu") * GOLDEN % 1)
    tried = {key: _tried(entry, getattr(part, key)) for key, entry in part.parameters.items()}
    inputs = {key: value.clone().requires_grad_() for key, value in tried.items()}
    with torch.inference_mode(False), torch.enable_grad():
        found = _formula(part, inputs, time)
        total = found.sum() + sum(0 * value.sum() for value in inputs.values())
        slopes = torch.autograd.grad(total, list(inputs.values()))
    idle = [key for key, slope in zip(inputs, slopes, strict=True) if not bool(slope.any())]
    require(
        not idle,
        f"{part!r} declares {idle}, but its formula does not depend on all of these; in every "
        "call, compute from the attributes with torch functions.",
    )

    def same(first: Tensor, second: Tensor, message: str) -> None:
        good = (first - second).abs() <= TOLERANCE * second.abs().max()
        require(bool(good.all()), f"{part!r} {message}")

    for i in range(len(TRIED)):
        values = {key: value[i].item() for key, value in tried.items()}
        made: Any = part
        dataclass = dataclasses.is_dataclass(part)
        alone = dataclasses.replace(made, **values) if dataclass else with_values(made, values)
        same(
            _formula(alone, {}, time),
            found[i],
            f"gives different results with tensors and with the numbers {values}; compute "
            "elementwise from the attributes in every call, and store no derived values.",
        )
    factor = torch.full((len(TRIED),), LONGER, dtype=torch.float64, device="cpu")
    counted = {
        key: entry.counted(tried[key], factor, tried) for key, entry in part.parameters.items()
    }
    same(
        _formula(part, counted, time / LONGER),
        found,
        "gives results that depend on the unit of time; declare every number that has a unit of "
        "time, with its power of time (-1 for a rate, 1 for a duration).",
    )


def _tried(parameter: Parameter, given: float) -> Tensor:
    """Two values of a parameter at which to evaluate the formula."""
    if parameter.share is None and not callable(parameter.power) and parameter.power == 0:
        other = given + 1 if math.isinf(parameter.upper) else 0.5 * (given + parameter.upper)
        return torch.tensor([float(given), float(other)], dtype=torch.float64, device="cpu")
    value = parameter.value(torch.tensor(TRIED, dtype=torch.float64, device="cpu"))
    return value.clamp(parameter.lower, parameter.upper)


def _formula(part: Decay | Inflation, values: Values, time: Tensor) -> Tensor:
    """The covariance between all times, or the log factor at all lags, for each parameter value."""
    made = with_values(part, {key: value[:, None, None] for key, value in values.items()})
    first, second = time[None, :, None], time[None, None, :]
    found = made.covariance(first, second) if isinstance(made, Decay) else made.log_factor(first)
    count = max([1, *(len(value) for value in values.values())])
    return _elementwise(part, found, (count, TIMES, TIMES if isinstance(made, Decay) else 1))
