"""Hyperparameters as one vector per loop, with bounds and priors.

The vector holds ln ℓ for every lengthscale, ln s of the output scale, ln σ², and what the decay
declares: ln(1 + r / c) of a natural value r that grows from 0, such as -ln(1 - ε) or σ_w², and r
itself else. The former is linear around 0, which is so met exactly and with a slope, and
logarithmic above c, where rates differ by factors.

A search counts time in the median gap between a loop's observations, so that what it starts from,
its bounds and the default priors mean the same in any unit; the vector that is kept between
searches counts it as the user does, since that gap changes with the data.

The usual priors have their densities and slopes in closed form, which takes a few microseconds; any
other goes through ``log_prob`` and automatic differentiation, a hundred times slower.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from botorch.utils.types import DEFAULT
from torch import Tensor, distributions, nn
from torch.distributions import LogNormal

from botorch_tv.forgetting import Decay
from botorch_tv.forgetting.base import Parameter
from botorch_tv.forgetting.decay import ENDLESS
from botorch_tv.kernels.stationary import LearnableKernel
from botorch_tv.learning.refit import Free, Prior, Refit
from botorch_tv.validation import require


def log_density(prior: Prior, value: Tensor) -> tuple[Tensor, Tensor]:
    """The logarithm of a prior's density, `m`, and its derivatives by the values, `m x k`.

    Args:
        prior: Of one coordinate, independent between coordinates, or of all k together.
        value: Positive, or non-negative where the prior is defined there, `m x k`.
    """
    # A prior of GPyTorch is a subclass of the distribution of PyTorch.
    closed = next((_CLOSED[kind] for kind in type(prior).__mro__ if kind in _CLOSED), None)
    if closed is not None and getattr(prior, "_transform", None) is None:
        log, slope = closed(prior, value)
        return log.expand_as(value).sum(-1), slope.expand_as(value)
    with torch.enable_grad():
        value = value.detach().requires_grad_(True)
        log = prior.log_prob(value).reshape(len(value), -1).sum(-1)
        slope = torch.zeros_like(value)
        if log.requires_grad:  # that of a uniform prior depends on nothing
            (slope,) = torch.autograd.grad(log.sum(), value)
    return log.detach().to(value), slope


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


def _half_normal(prior: Any, value: Tensor) -> tuple[Tensor, Tensor]:
    (scale,) = _like(value, prior.scale)
    density = -0.5 * (value / scale).square() - scale.log() + 0.5 * math.log(2 / math.pi)
    return density, -value / scale.square()


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
    distributions.HalfNormal: _half_normal,
    distributions.Gamma: _gamma,
    distributions.Beta: _beta,
}


KNEE = 1e-3
"""The natural value c below which the scale is linear."""


@dataclass(frozen=True)
class ParameterRow:
    """A hyperparameter, of which there are j entries in the vector: several for lengthscales.

    Args:
        name: As the user knows it.
        free: How it is learned; None where it is not.
        given: What the user gave, per unit of the user's, `j`.
        least: Lower bound where the user gives none, `j`.
        most: Upper bound likewise, `j`.
        usual: Prior likewise.
        declared: What the decay says of it; None for what has no unit of time.
    """

    name: str
    free: Free | None
    given: Tensor
    least: Tensor
    most: Tensor
    usual: Prior | None
    declared: Parameter | None = None

    def __post_init__(self) -> None:
        lowest, highest = self.ends
        require(
            bool(((lowest <= self.given) & (self.given <= highest)).all()),
            f"Refit: {self.name} starts from {self.given.tolist()}, outside its bounds "
            f"{lowest.tolist()} and {highest.tolist()}; widen them by Free(lower=..., upper=...), "
            "or start inside.",
        )

    @property
    def ends(self) -> tuple[Tensor, Tensor]:
        """Bounds, `j` each; those of the decay's are per unit of the user's."""
        if self.free is None:
            return self.given, self.given
        low, high = self.free.lower, self.free.upper
        return (
            self.least if low is None else torch.full_like(self.least, low),
            self.most if high is None else torch.full_like(self.most, high),
        )

    @property
    def prior(self) -> Prior | None:
        """Its prior, if it has one."""
        if self.free is None:
            return None
        return self.usual if self.free.prior == DEFAULT else self.free.prior

    @property
    def told(self) -> bool:
        """Whether its prior is the user's, per unit of the user's."""
        return self.free is not None and self.free.prior != DEFAULT

    def entry(self, natural: Tensor) -> Tensor:
        """The entries of a vector that stand for natural values."""
        if self.declared is None:
            return natural.log()
        return torch.log1p(natural / KNEE) if self.declared.grows_from_zero else natural

    def natural(self, entry: Tensor) -> tuple[Tensor, Tensor]:
        """Natural values, and their derivatives by the entries."""
        if self.declared is None:
            return entry.exp(), entry.exp()
        if self.declared.grows_from_zero:
            return KNEE * torch.expm1(entry), KNEE * entry.exp()
        return entry, torch.ones_like(entry)

    def presumed(self, natural: Tensor) -> tuple[Tensor, Tensor | float]:
        """The quantity its prior is on, and its derivative with respect to the natural value."""
        if self.declared is None or self.declared.share is None:
            return natural, 1.0
        value = self.declared.presumed(self.declared.value(natural))
        return value, 1 - value

    def searched_ends(self, given: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Bounds of a search, `... x 1`: those declared hold in its unit, the user's in the user's.

        Args:
            given: What the user gave, as the search has it, `... x 1`.
            low: The lower bound likewise.
            high: The upper bound likewise.
        """
        if self.declared is None or self.free is None:
            return low, high
        ends = (self.free.lower, self.free.upper)
        if self.declared.share == "kept":  # whose natural value falls
            ends = ends[::-1]
        least, most = (self.entry(given.new_tensor(end)) for end in self.declared.natural_bounds())
        return (
            torch.minimum(given, least) if ends[0] is None else low,
            torch.maximum(given, most) if ends[1] is None else high,
        )


_LENGTHSCALES = (0.025, 100.0)
"""In units of the domain; the lower one is BoTorch's."""


@dataclass(frozen=True)
class ParameterLayout:
    """Where each hyperparameter stands, between which bounds, under which prior.

    Args:
        rows: Lengthscale, output scale, noise, and the k that the decay declares.
        given: The vector that says what the user gave, `p`, per unit of the user's.
        lower: Lower bounds, `p`; equal to ``upper`` where nothing is learned. Those of the decay
            are per unit of the user's, and count where the user gave them.
        upper: Upper bounds, `p`; likewise.
        priors: Of the rows.
    """

    rows: tuple[ParameterRow, ...]
    given: Tensor
    lower: Tensor
    upper: Tensor
    priors: tuple[Prior | None, ...]

    @classmethod
    def of(cls, rows: list[ParameterRow]) -> ParameterLayout:
        """The layout of some rows."""

        def entry(row: ParameterRow, end: Tensor) -> Tensor:
            if row.declared is not None:
                end = row.declared.natural(end).clamp(-ENDLESS, ENDLESS)
            return row.entry(end)

        given, low, high = (
            torch.cat([entry(row, end) for row, end in zip(rows, ends, strict=True)])
            for ends in zip(*((row.given, *row.ends) for row in rows), strict=True)
        )
        # Of a share kept the natural value falls.
        lower, upper = torch.minimum(low, high), torch.maximum(low, high)
        return cls(tuple(rows), given, lower, upper, tuple(row.prior for row in rows))

    @property
    def size(self) -> int:
        """The number p of entries."""
        return len(self.given)

    @property
    def learns_decay(self) -> bool:
        """Whether anything of the decay is learned."""
        return any(row.declared is not None and row.free is not None for row in self.rows)

    def to(self, device: torch.device) -> ParameterLayout:
        """A copy on a device, priors included."""
        return replace(
            self,
            given=self.given.to(device),
            lower=self.lower.to(device),
            upper=self.upper.to(device),
            priors=tuple(on_device(prior, device) for prior in self.priors),
        )

    def searched(self, vector: Tensor, unit: Tensor) -> Tensor:
        """Vectors `... x p` as a search has them, in which time counts in ``unit``, `...`."""
        others = self.named(self._decay(vector)[0])
        return torch.cat(
            [
                part
                if row.declared is None
                else row.entry(row.natural(part)[0] * _wide(row.declared.stretch(unit, others)))
                for row, part in self._split(vector)
            ],
            -1,
        )

    def kept(self, vector: Tensor, unit: Tensor) -> Tensor:
        """The inverse: vectors of a search, `... x p`, as they are kept."""
        return self.searched(vector, 1 / unit)

    def fast_start(self, unit: Tensor) -> Tensor:
        """The user's values, but with a high rate of change, in the form kept, `... x p`."""
        parts = []
        for row, part in self._split(self.searched(self.given.expand(*unit.shape, -1), unit)):
            start = None if row.declared is None else row.declared.fast_start
            if row.declared is not None and start is not None:
                part = row.entry(torch.full_like(part, row.declared.number(start)))
            parts.append(part)
        return self.kept(torch.cat(parts, -1), unit)

    def bounds(self, unit: Tensor) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds of the search vectors, `... x p` each."""
        every = (one.expand(*unit.shape, -1) for one in (self.given, self.lower, self.upper))
        split = zip(*(self._split(self.searched(one, unit)) for one in every), strict=True)
        ends = [row.searched_ends(one, low, high) for (row, one), (_, low), (_, high) in split]
        lower, upper = (torch.cat(parts, -1) for parts in zip(*ends, strict=True))
        return lower, upper

    def values(self, vector: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The parameter values of m problems that vectors encode, `m x p`.

        Returns:
            Lengthscales, `m x lengthscales`; the kernel's output scale, `m`, 1 where it has none;
            noise, `m`; natural values of what the decay declares, over the unit of time of the
            vector, `m x k`, and their derivatives by the entries of the vector, `m x k`.
        """
        lengthscale, variance, noise, *_ = (row.natural(p)[0] for row, p in self._split(vector))
        return lengthscale, variance.squeeze(-1), noise.squeeze(-1), *self._decay(vector)

    def named(self, natural: Tensor) -> dict[str, Tensor]:
        """Values of what the decay declares, `...` each, from natural ones, `... x k`."""
        rows = [row for row in self.rows if row.declared is not None]
        named = zip(rows, natural.unbind(-1), strict=True)
        return {row.name: row.declared.value(one) for row, one in named if row.declared}

    def log_prior(self, vector: Tensor, unit: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The logarithm of the prior density and its derivatives, `m` and `m x p`.

        Args:
            vector: Of a search, `m x p`.
            unit: In which it counts time, `m`; that of the user unless given.
        """
        unit = torch.ones_like(vector[:, 0]) if unit is None else unit
        log, slopes = vector.new_zeros(len(vector)), []
        for (row, part), prior in zip(self._split(vector), self.priors, strict=True):
            if prior is None:
                slopes.append(torch.zeros_like(part))
                continue
            natural, slope = row.natural(part)
            if row.declared is not None and row.told:
                factor = _wide(row.declared.stretch(1 / unit, {}))
                natural, slope = natural * factor, slope * factor
            value, inner = row.presumed(natural)
            density, by_value = log_density(prior, value)
            log += density
            slopes.append(by_value * slope * inner)
        return log, torch.cat(slopes, -1)

    def _split(self, vector: Tensor) -> list[tuple[ParameterRow, Tensor]]:
        """Every row and its entries, `... x j`."""
        parts = torch.split(vector, [len(row.given) for row in self.rows], -1)
        return list(zip(self.rows, parts, strict=True))

    def _decay(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """Natural values of what the decay declares, and their slopes, `... x p -> ... x k`."""
        none = vector[..., :0]
        parts = [(none, none), *(row.natural(part) for row, part in self._split(vector)[3:])]
        natural, slope = (torch.cat(each, -1) for each in zip(*parts, strict=True))
        return natural, slope


def layout(
    refit: Refit, kernel: LearnableKernel, decay: Decay, noise: float, extent: Tensor
) -> ParameterLayout:
    """The layout for a kernel, a decay and a schedule.

    Args:
        refit: What is learned, and under which priors.
        kernel: Its parameters are where the first search starts.
        decay: Likewise.
        noise: Likewise, a variance.
        extent: Sides of the domain as the kernel sees it, `d`, in which lengthscales are measured.

    Raises:
        ValueError: If the parameters given lie outside the bounds asked for, the decay declares
            none though they are to be learned, or not those that ``refit`` names.
    """
    d, variance = len(extent), kernel.variance
    sides = extent if kernel.lengthscales > 1 else extent.log().mean().exp().reshape(1)
    sides, lengthscale = sides.double().cpu(), kernel.lengthscale.cpu()
    lowest, highest = kernel.bounds("lengthscale")
    least, most = kernel.bounds("outputscale") if kernel.scaled else (0.0, math.inf)
    shortest = torch.minimum(torch.clamp(_LENGTHSCALES[0] * sides, min=lowest), lengthscale)
    longest = torch.maximum(torch.clamp(_LENGTHSCALES[1] * sides, max=highest), lengthscale)
    usual = LogNormal(math.log(0.2 * math.sqrt(d)) + sides.log(), 0.75)
    usual = kernel.prior("lengthscale") or usual
    rows = [ParameterRow("lengthscale", refit.lengthscale, lengthscale, shortest, longest, usual)]
    given, low, high = _numbers(variance, max(1e-4 * variance, least), min(1e4 * variance, most))
    usual = kernel.prior("outputscale") or LogNormal(_numbers(math.log(variance))[0], 1.0)
    free = refit.outputscale if kernel.scaled else None
    rows.append(ParameterRow("outputscale", free, given, low, high, usual))
    given, low, high = _numbers(noise, min(1e-4 * variance, noise), max(1e2 * variance, noise))
    usual = LogNormal(_numbers(math.log(variance) - 4.0)[0], 1.0)
    rows.append(ParameterRow("noise", refit.noise, given, low, high, usual))
    for name, free in refit.of_decay(decay).items():
        parameter = decay.parameters[name]
        require(
            free is None or free.prior == DEFAULT or not callable(parameter.power),
            f"Refit: the unit of {name} depends on other parameters, so that a prior per unit of "
            "time changes with them; declare it with the parameter, for the unit it is learned in.",
        )
        # Anything is possible in some unit of time; what is declared bounds a search.
        given, low, high = _numbers(
            getattr(decay, name),
            0.0 if parameter.grows_from_zero else -math.inf,
            math.inf if parameter.share is None else 1.0,
        )
        rows.append(ParameterRow(name, free, given, low, high, parameter.prior, parameter))
    return ParameterLayout.of(rows)


def _numbers(*values: float) -> tuple[Tensor, ...]:
    return torch.tensor(values, dtype=torch.float64, device="cpu").unsqueeze(-1).unbind()


def _wide(factor: float | Tensor) -> float | Tensor:
    """A factor per problem, beside entries `... x 1`."""
    return factor.unsqueeze(-1) if isinstance(factor, Tensor) else factor
