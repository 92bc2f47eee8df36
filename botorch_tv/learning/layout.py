"""Hyperparameters as one vector per loop, with bounds and priors.

The vector contains ln ℓ for every lengthscale ℓ, ln s for the output scale s, ln σ² for the noise
variance σ², and the decay's declared parameters. A natural value r that grows from 0, such as -ln(1
- ε) or σ_w², is stored as ln(1 + r / c) with c = :data:`KNEE`; any other natural value is stored as
r. The stored value ln(1 + r / c) is almost linear in r for small r, and logarithmic for r above c.
Unlike ln r, the value ln(1 + r / c) is finite at r = 0. The gradient does not vanish at r = 0, so a
search can reach r = 0.

A search measures time in units of the median gap between a loop's observations, so starting values,
bounds and default priors do not depend on the unit of time. Between searches, the vector is stored
in the user's unit of time, because the median gap between observations changes with the data.

Default priors have densities and derivatives in closed form; other priors use ``log_prob`` and
automatic differentiation, which is slower.
"""

from __future__ import annotations

import io
import math
from typing import Any

import torch
from botorch.utils.types import DEFAULT
from torch import Tensor
from torch.distributions import Distribution, HalfNormal, LogNormal

from botorch_tv.forgetting import Decay
from botorch_tv.forgetting.base import Parameter
from botorch_tv.forgetting.decay import ENDLESS
from botorch_tv.kernels.stationary import LearnableKernel
from botorch_tv.learning.refit import Free, Refit
from botorch_tv.validation import require


def log_density(prior: Distribution, value: Tensor) -> tuple[Tensor, Tensor]:
    """The log density of a prior, `m`, and its derivatives with respect to ``value``, `m x k`.

    Args:
        prior: Prior of each coordinate independently, or of all k coordinates jointly.
        value: Values, `m x k`: positive, or 0 if the prior is defined at 0.
    """
    # GPyTorch's priors are subclasses of PyTorch's distributions.
    if isinstance(prior, LogNormal | HalfNormal) and getattr(prior, "_transform", None) is None:
        loc, scale = (
            torch.as_tensor(parameter, device=value.device).detach().to(value)
            for parameter in (getattr(prior, "loc", 0.0), prior.scale)
        )
        if isinstance(prior, LogNormal):
            log = value.log()
            standard = (log - loc) / scale
            log = -0.5 * standard.square() - log - scale.log() - 0.5 * math.log(2 * math.pi)
            slope = -(standard / scale + 1) / value
        else:
            log = -0.5 * (value / scale).square() - scale.log() + 0.5 * math.log(2 / math.pi)
            slope = -value / scale.square()
        return log.expand_as(value).sum(-1), slope.expand_as(value)
    with torch.enable_grad():
        # 0 is replaced, because at 0 the densities of gamma and beta contain 0 ln 0, whose
        # derivative is NaN.
        value = torch.where(value == 0, 1e-300, value).detach().requires_grad_(True)
        log = prior.log_prob(value).reshape(len(value), -1).sum(-1)
        slope = torch.zeros_like(value)
        if log.requires_grad:  # False for a uniform prior: its density is constant
            (slope,) = torch.autograd.grad(log.sum(), value)
    return log.detach().to(value), slope


def on_device(prior: Any, device: torch.device) -> Any:
    """A copy of a prior on a device, in float64.

    PyTorch's distributions have no method ``to``, and the method ``to`` of some GPyTorch priors
    does not move the bounds of the prior. Therefore the prior is saved, and then loaded onto the
    device.
    """
    file = io.BytesIO()
    torch.save(prior, file)
    file.seek(0)
    moved = torch.load(file, map_location=device, weights_only=False)
    return moved.double() if isinstance(moved, torch.nn.Module) else moved


KNEE = 1e-3
"""The natural value c below which the transform is approximately linear."""
_LENGTHSCALES = (0.025, 100.0)
"""Bounds of lengthscales as fractions of the domain's range; the lower bound is BoTorch's."""


class ParameterLayout:
    """Position, bounds and prior of each hyperparameter in the vector.

    Lengthscales come first, then the output scale, the noise and the k parameters of the decay.

    Args:
        refit: The hyperparameters that are learned, with their priors.
        kernel: The kernel; its parameters are initial values.
        decay: The decay; its parameters are initial values.
        noise: Initial value of the noise variance.
        extent: Ranges of the kernel's columns in the domain, `d`; default bounds and priors of
            lengthscales are relative to these ranges.
        device: Device of the vectors; the CPU by default.

    Attributes:
        given: The vector of the user's values, `p`, in the user's unit of time.
        size: The number p of entries of the vector.
        learns_decay: Whether any parameter of the decay is learned.

    Raises:
        ValueError: If an initial value lies outside its bounds, or if the decay does not declare
            the parameters to learn.
    """

    def __init__(
        self,
        refit: Refit,
        kernel: LearnableKernel,
        decay: Decay,
        noise: float,
        extent: Tensor,
        device: torch.device | None = None,
    ) -> None:
        self._lengthscales = len(kernel.lengthscale)
        self._head = self._lengthscales + 2
        of_decay = refit.of_decay(decay)
        self._declared = {name: decay.parameters[name] for name in of_decay}
        self.learns_decay = any(of_decay.values())
        rows = _of_kernel(refit, kernel, noise, extent)
        for name, parameter in self._declared.items():
            # Declared bounds refer to the unit of time of a search. Here the bounds are only the
            # limits of the parameter's range.
            least = 0.0 if parameter.grows_from_zero else -math.inf
            most = math.inf if parameter.share is None else 1.0
            ends = _numbers(getattr(decay, name), least, most)
            rows[name] = (of_decay[name], ends, parameter.prior)
        self._priors: list[tuple[slice, Parameter | None, bool, Distribution]] = []
        natural, first, device = [], 0, device or torch.device("cpu")
        for name, (free, ends, prior) in rows.items():
            columns, declared = slice(first, first + len(ends[0])), self._declared.get(name)
            own = free is not None and free.prior != DEFAULT
            if free is not None and own:
                prior = free.prior
                require(
                    not (prior and declared and callable(declared.power)),
                    f"Refit: the unit of {name} depends on other parameters, so Free(prior=...) is "
                    "ambiguous; declare the prior in the decay's Parameter.",
                )
            if free is not None and prior is not None:
                self._priors.append((columns, declared, own, on_device(prior, device)))
            natural.append(torch.stack(_natural_entry(name, free, ends, declared)))
            first = columns.stop
        grows = [parameter.grows_from_zero for parameter in self._declared.values()]
        self._grows = torch.tensor(grows, dtype=torch.bool, device=device)
        entries = self._entries(torch.cat(natural, -1).to(device))
        # The user's bounds of decay parameters refer to the user's unit of time. The declared
        # bounds and the declared ``fast_start`` refer to the unit of time of a search.
        self.given, self._lower, self._upper, self._least, self._most, self._fast = entries
        self.size = len(self.given)

    def searched(self, vector: Tensor, unit: Tensor) -> Tensor:
        """Convert stored vectors to vectors of a search.

        Args:
            vector: Stored vectors, `... x p`, in the user's unit of time.
            unit: Unit of time of each search, `...`.
        """
        natural, _ = self._natural(vector)
        others, stretched = self.named(natural[..., self._head :]), natural.clone()
        for column, parameter in enumerate(self._declared.values(), self._head):
            stretched[..., column] *= parameter.stretch(unit, others)
        entries = self._entries(stretched)
        return torch.cat([vector[..., : self._head], entries[..., self._head :]], -1)

    def retained(self, vector: Tensor, unit: Tensor) -> Tensor:
        """Convert vectors of a search, `... x p`, to stored vectors."""
        return self.searched(vector, 1 / unit)

    def fast_start(self, unit: Tensor) -> Tensor:
        """Stored vectors, `... x p`: the user's values, but with high rates of decay."""
        start = self.searched(self.given.expand(*unit.shape, -1), unit)
        return self.retained(torch.where(self._fast.isnan(), start, self._fast), unit)

    def bounds(self, unit: Tensor) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds of the search vectors, `... x p` each."""
        given, lower, upper = (
            self.searched(vector.expand(*unit.shape, -1), unit)
            for vector in (self.given, self._lower, self._upper)
        )
        return (
            torch.where(self._least.isnan(), lower, torch.minimum(given, self._least)),
            torch.where(self._most.isnan(), upper, torch.maximum(given, self._most)),
        )

    def values(self, vector: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Decode the vectors of m problems, `m x p`.

        Returns:
            Five tensors: the l lengthscales, `m x l`; the kernel's output scale, `m`, or 1 for a
                kernel without an output scale; the noise variance, `m`; natural values of the
                decay's parameters in the vector's unit of time, `m x k`; and the derivatives of
                these natural values with respect to the entries of the vector, `m x k`.
        """
        natural, slope = self._natural(vector)
        n, head = self._lengthscales, self._head
        return natural[:, :n], natural[:, n], natural[:, n + 1], natural[:, head:], slope[:, head:]

    def named(self, natural: Tensor) -> dict[str, Tensor]:
        """Convert natural values, `... x k`, to a dict from names to values of decay parameters."""
        named = zip(self._declared.items(), natural.unbind(-1), strict=True)
        return {name: parameter.value(entry) for (name, parameter), entry in named}

    def log_prior(self, vector: Tensor, unit: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The log prior density, `m`, and its derivatives with respect to ``vector``, `m x p`.

        Args:
            vector: Vectors of hyperparameters in a search, `m x p`.
            unit: Unit of time of the vectors, `m`; the user's unit by default.
        """
        unit = torch.ones_like(vector[:, 0]) if unit is None else unit
        log, slopes = torch.zeros_like(vector[:, 0]), torch.zeros_like(vector)
        natural, slope = self._natural(vector)
        for columns, declared, own, prior in self._priors:
            value, by_entry = natural[:, columns], slope[:, columns]
            if declared is not None and own:
                factor = declared.stretch(1 / unit, {}).unsqueeze(-1)
                value, by_entry = value * factor, by_entry * factor
            if declared is not None and declared.share is not None:
                value = declared.prior_quantity(declared.value(value))
                by_entry = by_entry * (1 - value)
            density, by_value = log_density(prior, value)
            log += density
            slopes[:, columns] = by_value * by_entry
        return log, slopes

    def _natural(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """The natural values that entries of vectors `... x p` encode, and their derivatives."""
        scales, rates = vector[..., : self._head].exp(), vector[..., self._head :]
        natural = torch.where(self._grows, KNEE * torch.expm1(rates), rates)
        slope = torch.where(self._grows, KNEE * rates.exp(), 1.0)
        return torch.cat([scales, natural], -1), torch.cat([scales, slope], -1)

    def _entries(self, natural: Tensor) -> Tensor:
        """The vectors that encode natural values, `... x p`."""
        scales, rates = natural[..., : self._head].log(), natural[..., self._head :]
        return torch.cat([scales, torch.where(self._grows, (rates / KNEE).log1p(), rates)], -1)


Row = tuple[Free | None, tuple[Tensor, ...], Distribution | None]
"""How a hyperparameter is learned; its initial value and default bounds; its default prior."""


def _of_kernel(
    refit: Refit, kernel: LearnableKernel, noise: float, extent: Tensor
) -> dict[str, Row]:
    """The hyperparameters of the kernel and the noise, by name."""
    ranges = extent if kernel.lengthscales > 1 else extent.log().mean().exp().reshape(1)
    ranges, lengthscale = ranges.double().cpu(), kernel.lengthscale.cpu()
    lowest, highest = kernel.bounds("lengthscale")
    shortest = torch.minimum(torch.clamp(_LENGTHSCALES[0] * ranges, min=lowest), lengthscale)
    longest = torch.maximum(torch.clamp(_LENGTHSCALES[1] * ranges, max=highest), lengthscale)
    usual = LogNormal(math.log(0.2 * math.sqrt(len(extent))) + ranges.log(), 0.75)
    variance = kernel.variance
    least, most = kernel.bounds("outputscale") if kernel.scaled else (0.0, math.inf)
    return {
        "lengthscale": (
            refit.lengthscale,
            (lengthscale, shortest, longest),
            kernel.prior("lengthscale") or usual,
        ),
        "outputscale": (
            refit.outputscale if kernel.scaled else None,
            _numbers(variance, max(1e-4 * variance, least), min(1e4 * variance, most)),
            kernel.prior("outputscale") or LogNormal(_numbers(math.log(variance))[0], 1.0),
        ),
        "noise": (
            refit.noise,
            _numbers(noise, min(1e-4 * variance, noise), max(1e2 * variance, noise)),
            LogNormal(_numbers(math.log(variance) - 4.0)[0], 1.0),
        ),
    }


def _natural_entry(
    name: str, free: Free | None, ends: tuple[Tensor, ...], declared: Parameter | None
) -> list[Tensor]:
    """Six natural values of a hyperparameter: initial value, bounds, and the ends of a search.

    Args:
        name: Name of the hyperparameter.
        free: How it is learned; None if it is fixed.
        ends: Initial value and default bounds.
        declared: The parameter of the decay; None for a hyperparameter of kernel or noise.

    Returns:
        Initial value, lower bound and upper bound in the user's unit of time; then lower bound,
            upper bound and fast start of a search in the unit of the search, NaN where there is
            none.

    Raises:
        ValueError: If the initial value lies outside its bounds.
    """
    start, low, high = ends if free is not None else (ends[0], ends[0], ends[0])
    lower, upper = (None, None) if free is None else (free.lower, free.upper)
    low = low if lower is None else torch.full_like(start, lower)
    high = high if upper is None else torch.full_like(start, upper)
    require(
        bool(((low <= start) & (start <= high)).all()),
        f"Refit: {name} starts from {start.tolist()}, outside its bounds {low.tolist()} "
        f"and {high.tolist()}; widen the bounds by Free(lower=..., upper=...), or change "
        "the initial value.",
    )
    if declared is None:
        return [start, low, high, *start.new_full((3, len(start)), math.nan)]
    start, low, high = (
        declared.natural(value).clamp(-ENDLESS, ENDLESS) for value in (start, low, high)
    )
    if declared.share == "retained":  # a larger share has a smaller natural value
        low, high, lower, upper = high, low, upper, lower
    least, most = declared.natural_bounds()
    fast = declared.fast_start
    searched = _numbers(
        least if free and lower is None else math.nan,
        most if free and upper is None else math.nan,
        math.nan if fast is None else declared.number(fast),
    )
    return [start, low, high, *searched]


def _numbers(*values: float) -> tuple[Tensor, ...]:
    return torch.tensor(values, dtype=torch.float64, device="cpu").unsqueeze(-1).unbind()
