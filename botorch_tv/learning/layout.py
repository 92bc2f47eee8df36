"""Hyperparameters as one vector per loop, with bounds and priors.

The vector holds ln ℓ for every lengthscale, ln s of the output scale, ln σ², and
ln(1 + rate / c) of the rate of change (ε or σ_w²). The last is linear around 0, which is so met
exactly and with a slope, and logarithmic above c, where rates differ by factors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from botorch.utils.types import DEFAULT
from torch import Tensor
from torch.distributions import HalfNormal, LogNormal

from botorch_tv.forgetting import Decay, Markov, Wiener
from botorch_tv.learning.densities import Prior, log_density
from botorch_tv.learning.refit import Free, Refit
from botorch_tv.learning.stationary import Stationary
from botorch_tv.validation import require

KNEE = 1e-3
"""The rate c per unit of time below which the scale is linear."""
LARGEST_EPSILON = 0.999
RESTLESS = 0.1
"""Rate from which the second search of a first fit starts."""
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
    """ε or σ_w², `m`."""


@dataclass(frozen=True)
class Layout:
    """Where each hyperparameter stands, between which bounds, under which prior.

    Args:
        lengthscales: How many lengthscales there are.
        given: The vector that says what the user gave, `p`.
        lower: Lower bounds, `p`; equal to ``upper`` where nothing is learned.
        upper: Upper bounds, `p`.
        priors: Distributions of the lengthscales, output scale, noise and rate, in this order.
    """

    lengthscales: int
    given: Tensor
    lower: Tensor
    upper: Tensor
    priors: tuple[Prior | None, ...]

    @property
    def size(self) -> int:
        """The number p of entries."""
        return self.lengthscales + 3

    @property
    def parts(self) -> tuple[slice, ...]:
        """Entries of the lengthscales, output scale, noise and rate."""
        m = self.lengthscales
        return slice(0, m), slice(m, m + 1), slice(m + 1, m + 2), slice(m + 2, m + 3)

    @property
    def restless(self) -> Tensor:
        """What the user gave, but for a high rate of change, `p`."""
        vector = self.given.clone()
        vector[-1] = math.log1p(RESTLESS / KNEE)
        return vector

    def values(self, vector: Tensor) -> Values:
        """What a vector stands for, `m x p`."""
        m = self.lengthscales
        positive = vector[:, : m + 2].exp()
        rate = KNEE * torch.expm1(vector[:, m + 2])
        return Values(positive[:, :m], positive[:, m], positive[:, m + 1], rate)

    def natural(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """The hyperparameters themselves and their derivatives by the vector, `m x p` each."""
        positive = vector[:, :-1].exp()
        slope = KNEE * vector[:, -1:].exp()
        rate = KNEE * torch.expm1(vector[:, -1:])
        return torch.cat([positive, rate], -1), torch.cat([positive, slope], -1)

    def log_prior(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """The logarithm of the prior density and its derivatives, `m` and `m x p`."""
        natural, inner = self.natural(vector)
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
    match decay:
        case Markov():
            rate, free, most = decay.epsilon, refit.epsilon, LARGEST_EPSILON
        case Wiener():
            rate, free, most = decay.sigma_w2, refit.sigma_w2, 1e3
        case _:
            rate, free, most = 0.0, None, 0.0
    rows.append(_Row("rate", free, _number(rate), _number(0.0), _number(max(most, rate)), near))
    for row in rows:
        row.check()
    return Layout(
        lengthscales=kernel.lengthscales,
        given=_vector([row.given for row in rows]),
        lower=_vector([row.lowest for row in rows]),
        upper=_vector([row.highest for row in rows]),
        priors=tuple(row.prior for row in rows),
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


def _vector(parts: list[Tensor]) -> Tensor:
    """Lengthscales, output scale, noise and rate as a vector."""
    return torch.cat([*(part.log() for part in parts[:3]), torch.log1p(parts[3] / KNEE)])
