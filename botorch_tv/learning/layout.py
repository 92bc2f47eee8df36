"""Hyperparameters as one vector per loop, with bounds and priors.

The vector holds ln ℓ for every lengthscale, ln s of the output scale, ln σ², and ln(1 + r / c) of
the rate of change r, which is -ln(1 - ε) or σ_w². The last is linear around 0, which is so met
exactly and with a slope, and logarithmic above c, where rates differ by factors.

Rates are per unit of time. A search counts time in the median gap between a loop's observations,
so that what it starts from, its bounds and the default priors mean the same in any unit; the vector
that is kept between searches counts it as the user does, since that gap changes with the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from botorch.utils.types import DEFAULT
from torch import Tensor
from torch.distributions import HalfNormal, LogNormal

from botorch_tv.forgetting import Decay, Markov, Wiener
from botorch_tv.learning.densities import Prior, log_density, on_device
from botorch_tv.learning.refit import Free, Refit
from botorch_tv.learning.stationary import Stationary
from botorch_tv.validation import require

KNEE = 1e-3
"""The rate c below which the scale is linear."""
LARGEST_EPSILON = 0.999
"""Over the median gap."""
LARGEST_DECAY = 1e30
"""Stands for the infinite -ln(1 - ε) of ε = 1, in any unit of time and float32."""
RESTLESS = 0.1
"""Rate over the median gap from which the second search of a first fit starts."""
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
    rate: Tensor
    """-ln(1 - ε) or σ_w² over the unit of time of the vector, `m`."""


@dataclass(frozen=True)
class Layout:
    """Where each hyperparameter stands, between which bounds, under which prior.

    Args:
        lengthscales: How many lengthscales there are.
        given: The vector that says what the user gave, `p`, per unit of the user's.
        lower: Lower bounds, `p`; equal to ``upper`` where nothing is learned. That of the rate is
            per unit of the user's.
        upper: Upper bounds, `p`; likewise.
        most: Upper bound of the rate over the median gap, where the user gave none.
        priors: Distributions of the lengthscales, output scale, noise and rate, in this order.
        markov: Whether the rate is that of ``Markov``, whose prior is one of ε.
        told: Whether the prior of the rate is the user's, per unit of the user's.
    """

    lengthscales: int
    given: Tensor
    lower: Tensor
    upper: Tensor
    most: float | None
    priors: tuple[Prior | None, ...]
    markov: bool
    told: bool

    @property
    def size(self) -> int:
        """The number p of entries."""
        return self.lengthscales + 3

    @property
    def parts(self) -> tuple[slice, ...]:
        """Entries of the lengthscales, output scale, noise and rate."""
        m = self.lengthscales
        return slice(0, m), slice(m, m + 1), slice(m + 1, m + 2), slice(m + 2, m + 3)

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
        return _counted_in(vector, unit)

    def kept(self, vector: Tensor, unit: Tensor) -> Tensor:
        """The inverse: vectors of a search, `... x p`, as they are kept."""
        return _counted_in(vector, 1 / unit)

    def restless(self, unit: Tensor) -> Tensor:
        """What the user gave, but for a high rate of change, as kept, `... x p`."""
        vector = self.given.expand(*unit.shape, -1).clone()
        rate = _decay(RESTLESS) if self.markov else RESTLESS
        vector[..., -1] = torch.log1p(rate / unit / KNEE)
        return vector

    def bounds(self, unit: Tensor) -> tuple[Tensor, Tensor]:
        """Of the vectors of a search, `... x p` each."""
        every = (one.expand(*unit.shape, -1) for one in (self.given, self.lower, self.upper))
        given, lower, upper = (self.searched(one, unit) for one in every)
        if self.most is not None:
            given = given[..., -1:]
            most = given.clamp_min(math.log1p(self.most / KNEE))
            upper = torch.cat([upper[..., :-1], most], -1)
        return lower, upper

    def values(self, vector: Tensor) -> Values:
        """What a vector stands for, `m x p`."""
        m = self.lengthscales
        positive = vector[:, : m + 2].exp()
        rate = KNEE * torch.expm1(vector[:, m + 2])
        return Values(positive[:, :m], positive[:, m], positive[:, m + 1], rate)

    def natural(self, vector: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
        """What priors are priors of, and the derivatives by the vector, `m x p` each.

        Args:
            vector: Of a search, `m x p`.
            unit: In which it counts time, `m`.
        """
        positive = vector[:, :-1].exp()
        slope = KNEE * vector[:, -1:].exp()
        rate = KNEE * torch.expm1(vector[:, -1:])
        if self.told:
            rate, slope = rate / unit.unsqueeze(-1), slope / unit.unsqueeze(-1)
        if self.markov:  # ε = 1 - e^(-rate)
            rate, slope = -torch.expm1(-rate), slope * torch.exp(-rate)
        return torch.cat([positive, rate], -1), torch.cat([positive, slope], -1)

    def log_prior(self, vector: Tensor, unit: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The logarithm of the prior density and its derivatives, `m` and `m x p`.

        Args:
            vector: Of a search, `m x p`.
            unit: In which it counts time, `m`; that of the user unless given.
        """
        unit = torch.ones_like(vector[:, 0]) if unit is None else unit
        natural, inner = self.natural(vector, unit)
        log, slope = vector.new_zeros(len(vector)), torch.zeros_like(vector)
        for part, prior in zip(self.parts, self.priors):
            if prior is not None:
                density = log_density(prior, natural[:, part])
                log += density.log
                slope[:, part] = density.slope * inner[:, part]
        return log, slope


def layout(refit: Refit, kernel: Stationary, decay: Decay, noise: float, extent: Tensor) -> Layout:
    """The layout for a kernel, a decay and a schedule.

    Args:
        refit: What is learned, and under which priors.
        kernel: Its parameters are where the first search starts.
        decay: Likewise.
        noise: Likewise, a variance.
        extent: Sides of the domain as the kernel sees it, `d`, in which lengthscales are measured.

    Raises:
        ValueError: If the parameters given lie outside the bounds asked for.
    """
    variance, d = kernel.variance, len(extent)
    sides = extent if kernel.lengthscales > 1 else extent.log().mean().exp().reshape(1)
    sides = sides.double().cpu()
    low, high = kernel.bounds("lengthscale")
    given = kernel.lengthscale.cpu()
    rows = [
        _Row(
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
        _Row(
            "outputscale",
            refit.outputscale if kernel.scaled else None,
            _number(variance),
            _number(max(1e-4 * variance, low)),
            _number(min(1e4 * variance, high)),
            kernel.prior("outputscale") or LogNormal(_number(math.log(variance)), 1.0),
        ),
        _Row(
            "noise",
            refit.noise,
            _number(noise),
            _number(min(1e-4 * variance, noise)),
            _number(max(1e2 * variance, noise)),
            LogNormal(_number(math.log(variance) - 4.0), 1.0),
        ),
    ]
    near = HalfNormal(_number(0.25))
    markov = isinstance(decay, Markov)
    match decay:
        case Markov():
            rate, free, end, most = decay.epsilon, refit.epsilon, 1.0, _decay(LARGEST_EPSILON)
        case Wiener():
            rate, free, end, most = decay.sigma_w2, refit.sigma_w2, math.inf, 1e3
        case _:
            rate, free, end, most = 0.0, None, 0.0, 0.0
    rows.append(_Row("rate", free, _number(rate), _number(0.0), _number(end), near))
    for row in rows:
        row.check()
    return Layout(
        lengthscales=kernel.lengthscales,
        given=_vector([row.given for row in rows], markov),
        lower=_vector([row.lowest for row in rows], markov),
        upper=_vector([row.highest for row in rows], markov),
        most=most if free is not None and free.upper is None else None,
        priors=tuple(row.prior for row in rows),
        markov=markov,
        told=free is not None and free.prior != DEFAULT,
    )


@dataclass(frozen=True)
class _Row:
    """One kind of hyperparameter: what was given, and what applies unless said otherwise."""

    name: str
    free: Free | None
    given: Tensor
    least: Tensor
    most: Tensor
    usual: Prior

    @property
    def lowest(self) -> Tensor:
        if self.free is None:
            return self.given
        return self.least if self.free.lower is None else self.least * 0 + self.free.lower

    @property
    def highest(self) -> Tensor:
        if self.free is None:
            return self.given
        return self.most if self.free.upper is None else self.most * 0 + self.free.upper

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


def _vector(parts: list[Tensor], markov: bool) -> Tensor:
    """Lengthscales, output scale, noise and rate as a vector."""
    rate = -torch.log1p(-parts[3]).clamp_min(-LARGEST_DECAY) if markov else parts[3]
    return torch.cat([*(part.log() for part in parts[:3]), torch.log1p(rate / KNEE)])


def _decay(epsilon: float) -> float:
    """-ln(1 - ε)."""
    return -math.log1p(-epsilon)


def _counted_in(vector: Tensor, unit: Tensor) -> Tensor:
    """A vector whose rate is over another unit of time."""
    rate = torch.expm1(vector[..., -1]) * unit
    return torch.cat([vector[..., :-1], torch.log1p(rate).unsqueeze(-1)], -1)
