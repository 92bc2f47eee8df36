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
from botorch_tv.learning.densities import Prior, log_density, on_device
from botorch_tv.learning.learnable_kernel import LearnableKernel
from botorch_tv.learning.refit import Refit
from botorch_tv.learning.row import ParameterRow
from botorch_tv.validation import require

_LENGTHSCALES = (0.025, 100.0)
"""In units of the domain; the lower one is BoTorch's."""


class ParameterValues(NamedTuple):
    """Hyperparameters of m problems."""

    lengthscale: Tensor
    """`m x lengthscales`."""
    variance: Tensor
    """The kernel's output scale, `m`; 1 where it has none."""
    noise: Tensor
    """`m`."""
    decay: Tensor
    """Natural values of what the decay declares, over the unit of time of the vector, `m x k`."""
    decay_slope: Tensor
    """Their derivatives by the entries of the vector, `m x k`."""


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
        given, low, high = (
            torch.cat([row.entry(_finite(row, end)) for row, end in zip(rows, ends, strict=True)])
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

    def values(self, vector: Tensor) -> ParameterValues:
        """The parameter values that a vector encodes, `m x p`."""
        lengthscale, variance, noise, *_ = (row.natural(p)[0] for row, p in self._split(vector))
        decay, slope = self._decay(vector)
        return ParameterValues(lengthscale, variance.squeeze(-1), noise.squeeze(-1), decay, slope)

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
            density = log_density(prior, value)
            log += density.log
            slopes.append(density.slope * slope * inner)
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
    of_decay = _decay_rows(refit, decay)  # first, for it refuses what cannot be learned
    space = [_lengthscale_row(refit, kernel, extent), _outputscale_row(refit, kernel)]
    return ParameterLayout.of([*space, _noise_row(refit, kernel.variance, noise), *of_decay])


def _lengthscale_row(refit: Refit, kernel: LearnableKernel, extent: Tensor) -> ParameterRow:
    sides = extent if kernel.lengthscales > 1 else extent.log().mean().exp().reshape(1)
    sides = sides.double().cpu()
    low, high = kernel.bounds("lengthscale")
    given = kernel.lengthscale.cpu()
    return ParameterRow(
        "lengthscale",
        refit.lengthscale,
        given,
        torch.minimum(torch.clamp(_LENGTHSCALES[0] * sides, min=low), given),
        torch.maximum(torch.clamp(_LENGTHSCALES[1] * sides, max=high), given),
        kernel.prior("lengthscale")
        or LogNormal(math.log(0.2 * math.sqrt(len(extent))) + sides.log(), 0.75),
    )


def _outputscale_row(refit: Refit, kernel: LearnableKernel) -> ParameterRow:
    variance = kernel.variance
    low, high = kernel.bounds("outputscale") if kernel.scaled else (0.0, math.inf)
    return ParameterRow(
        "outputscale",
        refit.outputscale if kernel.scaled else None,
        _number(variance),
        _number(max(1e-4 * variance, low)),
        _number(min(1e4 * variance, high)),
        kernel.prior("outputscale") or LogNormal(_number(math.log(variance)), 1.0),
    )


def _noise_row(refit: Refit, variance: float, noise: float) -> ParameterRow:
    return ParameterRow(
        "noise",
        refit.noise,
        _number(noise),
        _number(min(1e-4 * variance, noise)),
        _number(max(1e2 * variance, noise)),
        LogNormal(_number(math.log(variance) - 4.0), 1.0),
    )


def _decay_rows(refit: Refit, decay: Decay) -> list[ParameterRow]:
    rows, frees = [], refit.of_decay(decay)
    for name, parameter in decay.parameters.items():
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
        rows.append(
            ParameterRow(
                name, free, value, _number(least), _number(most), parameter.prior, parameter
            )
        )
    return rows


def _number(value: float) -> Tensor:
    return torch.tensor([value], dtype=torch.float64, device="cpu")


def _finite(row: ParameterRow, value: Tensor) -> Tensor:
    """A natural value in place of an infinite one."""
    if row.declared is None:
        return value
    return row.declared.natural(value).clamp(-ENDLESS, ENDLESS)


def _wide(factor: float | Tensor) -> float | Tensor:
    """A factor per problem, beside entries `... x 1`."""
    return factor.unsqueeze(-1) if isinstance(factor, Tensor) else factor
