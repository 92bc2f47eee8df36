"""Hyperparameters as one vector per loop, with bounds and priors.

The vector holds ln ℓ for every lengthscale, ln s of the output scale, ln σ², and what the decay
declares: ln(1 + r / c) of a natural value r that grows from 0, such as -ln(1 - ε) or σ_w², and r
itself else. The former is linear around 0, which is so met exactly and with a slope, and
logarithmic above c, where rates differ by factors.

A search counts time in the median gap between a loop's observations, so that what it starts from,
its bounds and the default priors mean the same in any unit; the vector that is kept between
searches counts it as the user does, since that gap changes with the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from botorch.utils.types import DEFAULT
from torch import Tensor
from torch.distributions import LogNormal

from botorch_tv.forgetting import Decay
from botorch_tv.forgetting.decay import ENDLESS
from botorch_tv.forgetting.parameter import Parameter
from botorch_tv.learning.densities import Prior, log_density, on_device
from botorch_tv.learning.learnable_kernel import LearnableKernel
from botorch_tv.learning.refit import Free, Refit
from botorch_tv.validation import require

KNEE = 1e-3
"""The natural value c below which the scale is linear."""
_LENGTHSCALES = (0.025, 100.0)
"""In units of the domain; the lower one is BoTorch's."""


class Values(NamedTuple):
    """Hyperparameters of m problems."""

    lengthscale: Tensor
    """`m x lengthscales`."""
    variance: Tensor
    """The kernel's output scale, `m`; 1 where it has none."""
    noise: Tensor
    """`m`."""
    decay: Tensor
    """Natural values of what the decay declares, over the unit of time of the vector, `m x k`."""


@dataclass(frozen=True)
class Layout:
    """Where each hyperparameter stands, between which bounds, under which prior.

    Args:
        lengthscales: How many lengthscales there are.
        parameters: What the decay declares, k in number.
        frees: How each of these is learned; None where it is not.
        given: The vector that says what the user gave, `p`, per unit of the user's.
        lower: Lower bounds, `p`; equal to ``upper`` where nothing is learned. Those of the decay
            are per unit of the user's, and count where the user gave them.
        upper: Upper bounds, `p`; likewise.
        priors: Distributions of the lengthscales, output scale, noise and each of the decay's.
    """

    lengthscales: int
    parameters: dict[str, Parameter]
    frees: tuple[Free | None, ...]
    given: Tensor
    lower: Tensor
    upper: Tensor
    priors: tuple[Prior | None, ...]

    @property
    def size(self) -> int:
        """The number p of entries."""
        return len(self.given)

    @property
    def learns_decay(self) -> bool:
        """Whether anything of the decay is learned."""
        return any(free is not None for free in self.frees)

    @property
    def spatial(self) -> int:
        """How many entries come before those of the decay."""
        return self.lengthscales + 2

    @property
    def parts(self) -> tuple[slice, ...]:
        """Entries of the lengthscales, output scale, noise and each of the decay's."""
        m = self.lengthscales
        return slice(0, m), *(slice(i, i + 1) for i in range(m, self.size))

    def to(self, device: torch.device) -> Layout:
        """The same, priors included, on a device."""
        return replace(
            self,
            given=self.given.to(device),
            lower=self.lower.to(device),
            upper=self.upper.to(device),
            priors=tuple(on_device(prior, device) for prior in self.priors),
        )

    def searched(self, vector: Tensor, unit: Tensor) -> Tensor:
        """Vectors `... x p` as a search has them, in which time counts in ``unit``, `...`."""
        natural = self.natural(vector)
        others = self.named(natural)
        stretched = [
            one * parameter.stretch(unit, others)
            for parameter, one in zip(self.parameters.values(), natural.unbind(-1), strict=True)
        ]
        return self._with_decay(vector, stretched)

    def kept(self, vector: Tensor, unit: Tensor) -> Tensor:
        """The inverse: vectors of a search, `... x p`, as they are kept."""
        return self.searched(vector, 1 / unit)

    def restless(self, unit: Tensor) -> Tensor:
        """What the user gave, but for a high rate of change, as kept, `... x p`."""
        vector = self.searched(self.given.expand(*unit.shape, -1), unit)
        natural = [
            one if parameter.restless is None else one * 0 + parameter.number(parameter.restless)
            for parameter, one in zip(
                self.parameters.values(), self.natural(vector).unbind(-1), strict=True
            )
        ]
        return self.kept(self._with_decay(vector, natural), unit)

    def bounds(self, unit: Tensor) -> tuple[Tensor, Tensor]:
        """Of the vectors of a search, `... x p` each."""
        every = (one.expand(*unit.shape, -1) for one in (self.given, self.lower, self.upper))
        given, lower, upper = (self.searched(one, unit) for one in every)
        of_decay = zip(self.parameters.values(), self.frees, strict=True)
        for i, (parameter, free) in enumerate(of_decay, self.spatial):
            if free is None:
                continue
            low, high = (
                _entry(parameter, given.new_tensor(end)) for end in parameter.natural_bounds()
            )
            ends = (free.lower, free.upper)
            if parameter.share == "kept":
                ends = ends[::-1]
            if ends[0] is None:
                lower[..., i] = torch.minimum(given[..., i], low)
            if ends[1] is None:
                upper[..., i] = torch.maximum(given[..., i], high)
        return lower, upper

    def values(self, vector: Tensor) -> Values:
        """What a vector stands for, `m x p`."""
        m = self.lengthscales
        positive = vector[:, : self.spatial].exp()
        return Values(positive[:, :m], positive[:, m], positive[:, m + 1], self.natural(vector))

    def natural(self, vector: Tensor) -> Tensor:
        """Natural values of what the decay declares, `... x p -> ... x k`."""
        entries = vector[..., self.spatial :]
        natural = [
            KNEE * torch.expm1(one) if parameter.grows_from_zero else one
            for parameter, one in zip(self.parameters.values(), entries.unbind(-1), strict=True)
        ]
        return torch.stack(natural, -1) if natural else entries

    def slope(self, natural: Tensor) -> Tensor:
        """Derivatives of natural values `... x k` by the vector's entries."""
        slope = [
            KNEE + one if parameter.grows_from_zero else torch.ones_like(one)
            for parameter, one in zip(self.parameters.values(), natural.unbind(-1), strict=True)
        ]
        return torch.stack(slope, -1) if slope else natural

    def named(self, natural: Tensor) -> dict[str, Tensor]:
        """Values of what the decay declares, `...` each, from natural ones, `... x k`."""
        named = zip(self.parameters.items(), natural.unbind(-1), strict=True)
        return {name: parameter.value(one) for (name, parameter), one in named}

    def log_prior(self, vector: Tensor, unit: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The logarithm of the prior density and its derivatives, `m` and `m x p`.

        Args:
            vector: Of a search, `m x p`.
            unit: In which it counts time, `m`; that of the user unless given.
        """
        unit = torch.ones_like(vector[:, 0]) if unit is None else unit
        presumed, inner = self._presumed(vector, unit)
        log, slope = vector.new_zeros(len(vector)), torch.zeros_like(vector)
        for part, prior in zip(self.parts, self.priors, strict=True):
            if prior is not None:
                density = log_density(prior, presumed[:, part])
                log += density.log
                slope[:, part] = density.slope * inner[:, part]
        return log, slope

    def _presumed(self, vector: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
        """What priors are priors of, and the derivatives by the vector, `m x p` each."""
        positive = vector[:, : self.spatial].exp()
        natural = self.natural(vector)
        values, slopes, others = [positive], [positive], self.named(natural)
        of_decay = zip(
            self.parameters.values(), self.frees, natural.mT, self.slope(natural).mT, strict=True
        )
        for parameter, free, one, slope in of_decay:
            if free is not None and free.prior != DEFAULT:  # the user's is per unit of the user's
                factor = parameter.stretch(1 / unit, others)
                one, slope = one * factor, slope * factor
            value = parameter.presumed(parameter.value(one))
            slope = slope if parameter.share is None else slope * (1 - value)
            values.append(value.unsqueeze(-1))
            slopes.append(slope.unsqueeze(-1))
        return torch.cat(values, -1), torch.cat(slopes, -1)

    def _with_decay(self, vector: Tensor, natural: list[Tensor]) -> Tensor:
        """Vectors `... x p` with other natural values, `...` each."""
        entries = [
            _entry(parameter, one).unsqueeze(-1)
            for parameter, one in zip(self.parameters.values(), natural, strict=True)
        ]
        return torch.cat([vector[..., : self.spatial], *entries], -1)


def layout(
    refit: Refit, kernel: LearnableKernel, decay: Decay, noise: float, extent: Tensor
) -> Layout:
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
    frees = refit.of_decay(decay)
    variance, d = kernel.variance, len(extent)
    sides = extent if kernel.lengthscales > 1 else extent.log().mean().exp().reshape(1)
    sides = sides.double().cpu()
    low, high = kernel.bounds("lengthscale")
    given = kernel.lengthscale.cpu()
    rows = [
        _Hyperparameter(
            "lengthscale",
            refit.lengthscale,
            given,
            torch.minimum(torch.clamp(_LENGTHSCALES[0] * sides, min=low), given),
            torch.maximum(torch.clamp(_LENGTHSCALES[1] * sides, max=high), given),
            kernel.prior("lengthscale")
            or LogNormal(math.log(0.2 * math.sqrt(d)) + sides.log(), 0.75),
        )
    ]
    low, high = kernel.bounds("outputscale") if kernel.scaled else (0.0, math.inf)
    rows += [
        _Hyperparameter(
            "outputscale",
            refit.outputscale if kernel.scaled else None,
            _number(variance),
            _number(max(1e-4 * variance, low)),
            _number(min(1e4 * variance, high)),
            kernel.prior("outputscale") or LogNormal(_number(math.log(variance)), 1.0),
        ),
        _Hyperparameter(
            "noise",
            refit.noise,
            _number(noise),
            _number(min(1e-4 * variance, noise)),
            _number(max(1e2 * variance, noise)),
            LogNormal(_number(math.log(variance) - 4.0), 1.0),
        ),
    ]
    parameters = dict(decay.parameters)
    for name, parameter in parameters.items():
        free = frees[name]
        require(
            free is None or free.prior == DEFAULT or not callable(parameter.power),
            f"Refit: the unit of {name} depends on other parameters, so that a prior per unit of "
            "time changes with them; declare it with the parameter, for the unit it is learned in.",
        )
        # Anything is possible in some unit of time; what is declared bounds a search.
        least = 0.0 if parameter.grows_from_zero else -math.inf
        most = math.inf if parameter.share is None else 1.0
        value = _number(float(getattr(decay, name)))
        usual = parameter.prior
        rows.append(_Hyperparameter(name, frees[name], value, _number(least), _number(most), usual))
    for row in rows:
        row.check()
    ends = [
        _vector(end, parameters)
        for end in ([row.lowest for row in rows], [row.highest for row in rows])
    ]
    return Layout(
        lengthscales=kernel.lengthscales,
        parameters=parameters,
        frees=tuple(frees.values()),
        given=_vector([row.given for row in rows], parameters),
        lower=torch.minimum(*ends),  # of a share kept the natural value falls
        upper=torch.maximum(*ends),
        priors=tuple(row.prior for row in rows),
    )


@dataclass(frozen=True)
class _Hyperparameter:
    """One kind of hyperparameter: what was given, and what applies unless said otherwise."""

    name: str
    free: Free | None
    given: Tensor
    least: Tensor
    most: Tensor
    usual: Prior | None

    @property
    def lowest(self) -> Tensor:
        if self.free is None:
            return self.given
        return (
            self.least if self.free.lower is None else torch.full_like(self.least, self.free.lower)
        )

    @property
    def highest(self) -> Tensor:
        if self.free is None:
            return self.given
        given = self.free.upper
        return self.most if given is None else torch.full_like(self.most, given)

    @property
    def prior(self) -> Prior | None:
        if self.free is None:
            return None
        return self.usual if self.free.prior == DEFAULT else self.free.prior

    def check(self) -> None:
        require(
            bool(((self.lowest <= self.given) & (self.given <= self.highest)).all()),
            f"Refit: {self.name} starts from {self.given.tolist()}, outside its bounds "
            f"{self.lowest.tolist()} and {self.highest.tolist()}; widen them by "
            f"Free(lower=..., upper=...), or start inside.",
        )


def _number(value: float) -> Tensor:
    return torch.tensor([value], dtype=torch.float64)


def _entry(parameter: Parameter, natural: Tensor) -> Tensor:
    """The entry of a vector that stands for a natural value."""
    return torch.log1p(natural / KNEE) if parameter.grows_from_zero else natural


def _vector(parts: list[Tensor], parameters: dict[str, Parameter]) -> Tensor:
    """Lengthscales, output scale, noise and what the decay declares as a vector."""
    decay = [
        _entry(parameter, parameter.natural(part).clamp(-ENDLESS, ENDLESS))
        for parameter, part in zip(parameters.values(), parts[3:], strict=True)
    ]
    return torch.cat([*(part.log() for part in parts[:3]), *decay])
