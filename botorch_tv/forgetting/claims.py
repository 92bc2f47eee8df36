"""Whether a decay or an inflation is what it says, and as learnable as it claims."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from botorch_tv.forgetting.base import (
    Decay,
    Inflation,
    Parameter,
    Values,
    require_defined,
    with_values,
)
from botorch_tv.validation import did_you_mean, require, shown

SPANS = (0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5)
"""Times since the origin within which a decay is looked at."""
ORDINARY = 100.0
"""Up to here it must be a number."""
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
        ValueError: If it defines nothing, is no covariance there, or not as Markovian as it claims.
    """
    require_defined(decay)
    require_declared(decay)
    unit = (torch.arange(TIMES, dtype=torch.float64, device="cpu") * GOLDEN % 1).sort().values
    time = torch.tensor(SPANS, dtype=torch.float64, device="cpu").unsqueeze(-1) * unit
    shape = (*time.shape, TIMES)
    with _computed(decay):
        covariance = decay.covariance(time.unsqueeze(-1), time.unsqueeze(-2))
    require(
        isinstance(covariance, Tensor) and covariance.shape == shape,
        f"the covariance of {decay!r} between times `{len(SPANS)} x {TIMES} x 1` and "
        f"`{len(SPANS)} x 1 x {TIMES}` has shape {tuple(getattr(covariance, 'shape', ()))}; "
        "compute it elementwise, so that shapes broadcast.",
    )
    # What grows without end may leave every range in times that nobody counts to.
    counted = covariance.isfinite().flatten(1).all(-1)
    counted[: SPANS.index(ORDINARY) + 1] = True
    look = _Look(decay, time[counted].unsqueeze(-1).expand(-1, -1, TIMES), covariance[counted])
    look.require_consistent()
    look.require_semidefinite()
    if decay.markovian:
        look.require_markovian()
    again = decay.covariance(time.unsqueeze(-1), time.unsqueeze(-2))
    _require_again(decay, "covariance", covariance, again)


@torch.no_grad()
def require_inflating(inflation: Inflation) -> None:
    """Look at an inflation at some lags.

    Args:
        inflation: Anybody's.

    Raises:
        ValueError: If it does not compute from tensors or has not what it declares, is NaN there
            or minus infinity, or changes the noise of what has just been observed.
    """
    require_declared(inflation)
    lag = torch.tensor(
        [[0.0, *SPANS[: SPANS.index(ORDINARY) + 1]]], dtype=torch.float64, device="cpu"
    )
    with _computed(inflation):
        factor = inflation.log_factor(lag.clone())
    require(
        isinstance(factor, Tensor) and factor.shape == lag.shape,
        f"log_factor of {inflation!r} for lags `1 x {lag.shape[-1]}` is {shown(factor)}; compute "
        "it elementwise, of the same shape.",
    )
    for value, age in zip(factor[0].tolist(), lag[0].tolist(), strict=True):
        require(
            value > -math.inf,  # neither NaN
            f"log_factor of {inflation!r} is {value} at lag {age:g}, but it is the logarithm of a "
            "positive factor; math.inf is that of an observation that says nothing.",
        )
    require(
        abs(float(factor[0, 0])) <= TOLERANCE,
        f"log_factor of {inflation!r} is {float(factor[0, 0]):.6g} at lag 0, but a new observation "
        "has the noise that was told, so that it must be 0 there; put what multiplies all noises "
        "into noise.",
    )
    _require_again(inflation, "log_factor", factor, inflation.log_factor(lag.clone()))


def require_declared(part: Decay | Inflation) -> None:
    """Raise a ``ValueError`` unless what a part declares as parameters are its attributes."""
    for name in part.parameters:
        if not hasattr(part, name):
            there = [one for one in (*vars(part), *vars(type(part))) if not one.startswith("_")]
            raise ValueError(
                f"{part!r} declares the parameter {name!r}, but has no attribute of that name; "
                f"declare the names that its formula reads.{did_you_mean(name, there)}"
            )


def _require_again(part: Decay | Inflation, what: str, first: Tensor, second: Tensor) -> None:
    """Raise a ``ValueError`` unless a formula says the same when it is asked again."""
    require(
        torch.allclose(second, first, TOLERANCE, TOLERANCE, equal_nan=True),
        f"{what} of {part!r} says something else when it is asked again about the same times; "
        "compute from its arguments and from attributes that no call changes.",
    )


@contextmanager
def _computed(part: Decay | Inflation) -> Iterator[None]:
    """Turn errors raised by a formula into a ``ValueError`` that says how to write it."""
    try:
        yield
    except Exception as error:
        raise ValueError(
            f"{part!r} cannot be computed from tensors of times ({error}); write its formula with "
            "functions of torch that broadcast, torch.exp and not math.exp."
        ) from error


class _Look(NamedTuple):
    """The correlations of a decay at some times s and t."""

    decay: Decay
    s: Tensor
    """`spans x TIMES x TIMES`; t is its transpose."""
    covariance: Tensor
    """Between s and t, of that shape."""

    @property
    def variance(self) -> Tensor:
        """At s."""
        return self.covariance.diagonal(dim1=-2, dim2=-1).unsqueeze(-1).expand_as(self.s)

    @property
    def scale(self) -> Tensor:
        """Product of the standard deviations at s and t."""
        deviation = self.variance.sqrt()
        return deviation * deviation.mT

    def require(self, good: Tensor, told: str, *values: Tensor) -> None:
        """Raise where something does not hold, naming values and times."""
        if bool(good.all()):
            return
        at = tuple((~good).nonzero()[0].tolist())
        shown = " and ".join(f"{value[at].item():.6g}" for value in values)
        raise ValueError(
            f"{told.format(repr(self.decay), shown)} (s = {self.s[at]:.4g} and "
            f"t = {self.s.mT[at]:.4g} since the origin)."
        )

    def require_same(self, what: str, one: Tensor, other: Tensor) -> None:
        """Raise unless two formulas agree; NaN never does."""
        told = f"{what} of {{}} must agree, but are {{}}; define one of them, or make them agree"
        self.require((one - other).abs() <= TOLERANCE * self.scale, told, one, other)

    def require_consistent(self) -> None:
        """Raise unless the covariance is finite, positive at all times, and as everywhere told."""
        limit = "it must be finite; check the formula, or count time in another unit"
        told = f"the covariance of {{}} is {{}}, but {limit}"
        self.require(self.covariance.isfinite(), told, self.covariance)
        told = "the variance of {} is {}, but it must be positive at all times"
        self.require(self.variance > 0, told, self.variance)
        with _computed(self.decay):
            prior = self.decay.prior_variance(self.s)
        self.require_same("prior_variance(s) and covariance(s, s)", prior, self.variance)
        what = "covariance(s, t) and covariance(t, s)"
        self.require_same(what, self.covariance, self.covariance.mT)

    def require_semidefinite(self) -> None:
        """Raise if correlations have a negative eigenvalue."""
        values = torch.linalg.eigvalsh(self.covariance / self.scale)
        share = float((values[:, 0] / values[:, -1]).min())
        require(
            share > -TOLERANCE,
            f"{self.decay!r} is no covariance: its correlations between {TIMES} times have "
            f"eigenvalues down to {share:.3g} of the largest, but none may be below -1e-8 of it; "
            "check the formula against a positive definite function.",
        )

    def require_markovian(self) -> None:
        """Raise unless all that is known of the past goes through the present."""
        r, s, t = torch.combinations(torch.arange(TIMES, device="cpu"), 3).unbind(-1)
        correlation = self.covariance / self.scale
        direct, by_way = correlation[:, r, t], correlation[:, r, s] * correlation[:, s, t]
        span, worst = divmod(int((direct - by_way).abs().argmax()), len(r))
        past, present, future = (self.s[span, one[worst], 0].item() for one in (r, s, t))
        direct, by_way = direct[span, worst], by_way[span, worst]
        require(
            bool((direct - by_way).abs() <= TOLERANCE),
            f"{self.decay!r} claims to be Markovian, but the correlation between times {past:.4g} "
            f"and {future:.4g} is {direct.item():.6g}, and {by_way.item():.6g} by way of "
            f"{present:.4g}; leave markovian False, and any inference is right.",
        )
        later = (self.s.mT >= self.s).to(self.s)
        step = self.decay.transition(self.s, self.s.mT) * self.variance
        what = "prior_variance(s) attenuation(t - s) and covariance(s, t)"
        self.require_same(what, later * step, later * self.covariance)


def require_learnable(part: Decay | Inflation) -> None:
    """Raise unless the formula of a decay or an inflation is one of the parameters it declares.

    It is tried with tensors, as learning does: a value per trial, each at its own times.

    Args:
        part: Anybody's.

    Raises:
        ValueError: If it cannot be evaluated so, does not depend on a parameter, computes from
            anything but the attribute of that name, or changes with the unit of time.
    """
    unit = torch.arange(TIMES, dtype=torch.float64, device="cpu") * GOLDEN % 1
    name, time = repr(part), 10 * unit
    tried = {key: _tried(one, getattr(part, key)) for key, one in part.parameters.items()}
    leaves = {key: one.clone().requires_grad_() for key, one in tried.items()}
    with torch.inference_mode(False), torch.enable_grad():
        found = _formula(part, leaves, time.unsqueeze(0))
        total = found.sum() + sum(0 * leaf.sum() for leaf in leaves.values())
        slopes = torch.autograd.grad(total, list(leaves.values()))
    idle = [key for key, slope in zip(leaves, slopes, strict=True) if not bool(slope.any())]
    require(
        not idle,
        f"{name} declares {idle}, but its formula does not change with it; compute with "
        f"{' and '.join('self.' + key for key in idle)} by functions of torch, each time.",
    )
    for i in range(len(TRIED)):
        values = {key: one[i].item() for key, one in tried.items()}
        made: Any = part
        if dataclasses.is_dataclass(part):
            alone = dataclasses.replace(made, **values)
        else:
            alone = with_values(made, values)
        _require_same(
            found[i : i + 1],
            _formula(alone, {}, time.unsqueeze(0)),
            f"{name} says one thing with a tensor of values and another with {values}; compute "
            "elementwise from the attributes each time, and store nothing derived from them.",
        )
    factor = torch.full((len(TRIED),), LONGER, dtype=torch.float64, device="cpu")
    counted = {key: one.counted(tried[key], factor, tried) for key, one in part.parameters.items()}
    _require_same(
        found,
        _formula(part, counted, time.unsqueeze(0) / LONGER),
        f"{name} is another formula once time is counted in another unit; declare every number "
        "that has a unit of time, with its power of time (-1 for a rate, 1 for a duration).",
    )


def _tried(parameter: Parameter, given: float) -> Tensor:
    timeless = parameter.share is None and not callable(parameter.power) and parameter.power == 0
    if timeless:
        other = given + 1 if math.isinf(parameter.upper) else 0.5 * (given + parameter.upper)
        return torch.tensor([float(given), float(other)], dtype=torch.float64, device="cpu")
    value = parameter.value(torch.tensor(TRIED, dtype=torch.float64, device="cpu"))
    return value.clamp(parameter.lower, parameter.upper)


def _formula(part: Decay | Inflation, values: Values, time: Tensor) -> Tensor:
    """The covariance between all times, or the factor at all lags, for each of the values."""
    wide = {key: one[:, None, None] for key, one in values.items()}
    made, count = with_values(part, wide), max([1, *(len(one) for one in values.values())])
    first, second = time.unsqueeze(-1), time.unsqueeze(-2)
    try:
        if isinstance(made, Decay):
            found = made.covariance(first, second)
        else:
            found = made.log_factor(first)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{part!r} cannot be computed from tensors of values, which learning does ({error}); "
            "write its formula with functions of torch that broadcast."
        ) from error
    shape = (count, time.shape[-1], time.shape[-1] if isinstance(made, Decay) else 1)
    if found.shape == (1, *shape[1:]):
        return found.expand(shape)
    require(
        found.shape == shape,
        f"{part!r} gives shape {tuple(found.shape)} for values `{count} x 1 x 1`, but {shape} is "
        "wanted; compute elementwise, so that shapes broadcast.",
    )
    return found


def _require_same(found: Tensor, wanted: Tensor, message: str) -> None:
    scale = wanted.abs().max()
    require(bool(((found - wanted).abs() <= TOLERANCE * scale).all()), message)
