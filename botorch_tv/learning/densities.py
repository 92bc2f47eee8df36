"""Logarithms of prior densities with their slopes.

The usual priors have both in closed form, which takes a few microseconds; any other goes through
``log_prob`` and automatic differentiation, which takes a few hundred, at every evaluation of the
posterior.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributions, nn

Prior = distributions.Distribution
"""A distribution of PyTorch, those of ``gpytorch.priors`` included."""


class Density(NamedTuple):
    """The logarithm of a density at some values, and its derivatives by them."""

    log: Tensor
    """`m`."""
    slope: Tensor
    """`m x k`."""


def log_density(prior: Prior, value: Tensor) -> Density:
    """The logarithm of a prior's density.

    Args:
        prior: Of one coordinate, independent between coordinates, or of all k together.
        value: Positive, or non-negative where the prior is defined there, `m x k`.
    """
    closed = _CLOSED.get(_kind(prior))
    if closed is None or getattr(prior, "_transform", None) is not None:
        return _differentiated(prior, value)
    log, slope = closed(prior, value)
    return Density(log.expand_as(value).sum(-1), slope.expand_as(value))


def on_device(prior: Any, device: torch.device) -> Any:
    """A copy of a prior whose parameters lie on a device.

    Those of PyTorch cannot be moved, and some of GPyTorch's leave their bounds behind.

    Args:
        prior: The prior, left as it is; None for none.
        device: Where its densities are asked for.
    """
    found: dict[int, Any] = {}
    _collect(prior, found)
    moved = {
        key: part.detach().to(device) for key, part in found.items() if isinstance(part, Tensor)
    }
    return copy.deepcopy(prior, moved)


def _collect(part: Any, found: dict[int, Any]) -> None:
    """Find the tensors of a distribution, which may refer to itself."""
    if id(part) in found:
        return
    if isinstance(part, Tensor):
        found[id(part)] = part
    elif isinstance(part, (Prior, distributions.Transform, nn.Module)):
        found[id(part)] = part
        for one in vars(part).values():
            _collect(one, found)
    elif isinstance(part, (list, tuple, dict)):
        for one in part.values() if isinstance(part, dict) else part:
            _collect(one, found)


def _kind(prior: Prior) -> type:
    """The distribution of PyTorch that a prior of GPyTorch is."""
    return next((kind for kind in type(prior).__mro__ if kind in _CLOSED), type(prior))


def _differentiated(prior: Prior, value: Tensor) -> Density:
    with torch.enable_grad():
        value = value.detach().requires_grad_(True)
        log = prior.log_prob(value).reshape(len(value), -1).sum(-1)
        slope = torch.zeros_like(value)
        if log.requires_grad:  # that of a uniform prior depends on nothing
            (slope,) = torch.autograd.grad(log.sum(), value)
    return Density(log.detach().to(value), slope)


def _like(value: Tensor, *parameters: Any) -> list[Tensor]:
    return [
        torch.as_tensor(parameter, device=value.device).detach().to(value)
        for parameter in parameters
    ]


def _log_normal(prior: Any, value: Tensor) -> tuple[Tensor, Tensor]:
    loc, scale = _like(value, prior.loc, prior.scale)
    log = value.log()
    standard = (log - loc) / scale
    density = -0.5 * standard.square() - log - scale.log() - 0.5 * math.log(2 * math.pi)
    return density, -(standard / scale + 1) / value


def _normal(prior: Any, value: Tensor) -> tuple[Tensor, Tensor]:
    loc, scale = _like(value, prior.loc, prior.scale)
    standard = (value - loc) / scale
    density = -0.5 * standard.square() - scale.log() - 0.5 * math.log(2 * math.pi)
    return density, -standard / scale


def _half_normal(prior: Any, value: Tensor) -> tuple[Tensor, Tensor]:
    (scale,) = _like(value, prior.scale)
    density = -0.5 * (value / scale).square() - scale.log() + 0.5 * math.log(2 / math.pi)
    return density, -value / scale.square()


def _half_cauchy(prior: Any, value: Tensor) -> tuple[Tensor, Tensor]:
    (scale,) = _like(value, prior.scale)
    ratio = value / scale
    density = math.log(2 / math.pi) - scale.log() - torch.log1p(ratio.square())
    return density, -2 * ratio / (scale * (1 + ratio.square()))


def _exponential(prior: Any, value: Tensor) -> tuple[Tensor, Tensor]:
    (rate,) = _like(value, prior.rate)
    return rate.log() - rate * value, -rate


def _gamma(prior: Any, value: Tensor) -> tuple[Tensor, Tensor]:
    shape, rate = _like(value, prior.concentration, prior.rate)
    density = shape * rate.log() - shape.lgamma() + torch.xlogy(shape - 1, value) - rate * value
    return density, _power_slope(shape - 1, value) - rate


def _beta(prior: Any, value: Tensor) -> tuple[Tensor, Tensor]:
    one, other = _like(value, prior.concentration1, prior.concentration0)
    density = torch.xlogy(one - 1, value) + torch.xlogy(other - 1, 1 - value)
    density = density + (one + other).lgamma() - one.lgamma() - other.lgamma()
    return density, _power_slope(one - 1, value) - _power_slope(other - 1, 1 - value)


def _power_slope(exponent: Tensor, value: Tensor) -> Tensor:
    """The derivative of exponent · ln(value), 0 everywhere where the exponent is."""
    return torch.where(exponent == 0, 0.0, exponent / value)


_CLOSED: dict[type, Callable[[Any, Tensor], tuple[Tensor, Tensor]]] = {
    distributions.LogNormal: _log_normal,
    distributions.Normal: _normal,
    distributions.HalfNormal: _half_normal,
    distributions.HalfCauchy: _half_cauchy,
    distributions.Exponential: _exponential,
    distributions.Gamma: _gamma,
    distributions.Beta: _beta,
}
