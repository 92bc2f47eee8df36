"""The units of trials: of y, time and context, and the relevance of each parameter.

The units come from the measurements of a trial, so y, context and time may have any units.
Measurements made at the same time are treated together, so their order does not matter.

The relevance of a parameter is the factor by which its coordinates are multiplied, relative to the
other parameters. Relevances maximise the marginal likelihood of the newest measurements times a
prior density. The model has a single process, whose lengthscale per parameter, rate of change and
noise ratio are free; scale and constant are integrated out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.forgetting.base import median_gap
from botorch_tv.gp.linalg import leading
from botorch_tv.gp.mixture.bank import FIRST, BankPrior, MixtureUnits
from botorch_tv.gp.mixture.span import gaussian
from botorch_tv.gp.quasi_newton import minimize

APART = 3.0
"""Largest ratio between the clock and the median time between all measurements, in either
direction. It is about the ratio of neighbouring rates of a bank."""
FEWEST = 16
"""Number of rounds from which relevances are estimated."""
NEWEST = 128
"""Largest number of measurements from which relevances are estimated."""
SPARSITY = 1.0
"""Prior standard deviation of the logarithm of a relevance."""
STEP = 1.0
"""Relevances are powers of 2 whose exponents are multiples of this number."""
USUAL, SPREAD = 0.02, 1.5
"""Prior median of the rate of change and of the noise ratio, and the prior standard deviation of
their logarithms."""
LEAST = 1e-4
"""Lower limit of the rate of change and of the noise ratio, which are at most 1."""
GAIN = 6.0
"""Smallest increase of the logarithm of the density by which relevances change."""
LIMIT = 8.0
"""Upper limit of relevances and of the common factor; the lower limit is its inverse."""
SHAPE = 2.0
"""Parameters of the inverse gamma distribution of the scale, as for a bank."""


class Measured(NamedTuple):
    """All measurements of T trials, in order of time."""

    choice: Tensor
    """Arms, `T x n`, int64; or points with their context, `T x n x (d + c)`."""
    y: Tensor
    """Values, `T x n`."""
    good: Tensor
    """Whether each measurement succeeded, `T x n`, bool."""
    time: Tensor
    """Times, `T x n`."""
    variance: Tensor
    """Given noise variances in squared units of y, `T x n`; 0 if not given."""

    def first(self, rows: int) -> Measured:
        """The first measurements."""
        return Measured(*(part[:, :rows] for part in self))


def units_of(prior: BankPrior, measured: Measured, least: int) -> MixtureUnits:
    """Units from all measurements so far; fewer than ``least`` measurements do not suffice."""
    choice, y, good, time, _ = measured
    context = y.new_zeros(*y.shape, 0)
    if prior.context_dim:
        context = choice[..., len(prior.lower) :]
    number = good.sum(-1)
    share = good.to(y) / number.clamp_min(1).unsqueeze(-1)
    centre = (share * y).sum(-1)
    spread = (share * (y - centre.unsqueeze(-1)).square()).sum(-1).sqrt()
    # Measurements that differ only at the level of rounding count as equal.
    largest = (good * y.abs()).amax(-1) if y.shape[-1] else torch.zeros_like(centre)
    differs = spread > 1e3 * torch.finfo(y.dtype).eps * largest
    middle = (share.unsqueeze(-1) * context).sum(-2)
    around = (share.unsqueeze(-1) * (context - middle.unsqueeze(-2)).square()).sum(-2).sqrt()
    return MixtureUnits(
        centre=centre,
        spread=torch.where(differs, spread, 1.0),
        clock=median_gap(time, good),
        context_centre=middle,
        context_spread=torch.where(around > 0, around, 1.0),
        ready=(number >= least) & differs,
        relevance=y.new_ones(len(y), len(prior.groups)),
    )


def checks_units(number: int) -> bool:
    """Whether clock and relevances are checked after ``number`` rounds: at 8, 16, 32, ..."""
    return number >= 2 * FIRST and number & (number - 1) == 0


def units_now(
    prior: BankPrior, units: MixtureUnits, settled: bool, measured: Measured, least: int
) -> tuple[MixtureUnits, bool, Tensor]:
    """Update the units of y, time and context, and the relevances, after the newest measurement.

    After enough measurements, further measurements at later times do not change the centres and
    spreads of y and of the context. The clock is later replaced by the median time between all
    measurements, if clock and median differ much. The correction of the clock matters if the first
    measurements follow each other much faster than the later measurements, for example in a short
    test run. If the clock were not corrected, it would be so short that even the smallest positive
    rate of the bank would be too fast.

    Args:
        prior: The prior of the candidate processes.
        units: Units before the measurement.
        settled: Whether the units of all trials are final.
        measured: All measurements so far.
        least: Number of measurements that are required to set the units of a trial.

    Returns:
        Three results: the units; whether the units of y and of the context of all trials are final;
            and which trials have other units than before and must process all measurements again,
            `T`, bool.
    """
    _, y, good, time, _ = measured
    n, anew = y.shape[-1], torch.zeros_like(units.ready)
    earlier_rows = good & (time < time[:, -1:])
    if not settled:
        found = units_of(prior, measured, least)
        earlier = units_of(prior, measured._replace(good=earlier_rows), least)
        moving = ~earlier.ready & (~units.ready | found.ready)
        pairs = zip(found, units)
        units = MixtureUnits(
            *(torch.where(leading(moving, new.dim()), new, old) for new, old in pairs)
        )
        if n >= least:
            # The host waits for the device here, but only until the units are final.
            settled, anew = not bool(moving.any()), moving & units.ready & good[:, -1]
    if checks_units(n):
        clock = median_gap(time, good)
        ratio = clock / units.clock
        apart = units.ready & ((ratio > APART) | (ratio < 1 / APART))
        units, anew = units._replace(clock=torch.where(apart, clock, units.clock)), anew | apart
    if checks_units(n) and n >= FEWEST and prior.parameters > 1:
        # The newest measurements may lack others of their time.
        relevance = relevances(prior, units, measured._replace(good=earlier_rows))
        relevance = torch.where(units.ready.unsqueeze(-1), relevance, units.relevance)
        anew = anew | (relevance != units.relevance).any(-1)
        units = units._replace(relevance=relevance)
    return units, settled, anew


def units_after(prior: BankPrior, measured: Measured, least: int) -> MixtureUnits:
    """The units of trials whose measurements, ``measured``, are processed one after another."""
    units, settled = units_of(prior, measured.first(0), least), False
    for rows in range(max(1, least), measured.y.shape[-1] + 1):
        if not settled or checks_units(rows):
            units, settled, _ = units_now(prior, units, settled, measured.first(rows), least)
    return units


def relevances(prior: BankPrior, units: MixtureUnits, measured: Measured) -> Tensor:
    """The relevances that the newest measurements support, `T x (d + c)`.

    Relevances change only if this raises the logarithm of the density by ``GAIN``; all are equal at
    first. Their mean square is about 1, so a bank whose lengthscales suit all parameters suits the
    relevant ones.

    Args:
        prior: The prior of the candidate processes.
        units: Units of y, time and context, and the present relevances.
        measured: The measurements; failed measurements are not used.
    """
    log, gain = fitted(prior, units, measured)
    log2 = (log - 0.5 * (2 * log).exp().mean(-1, keepdim=True).log()) / math.log(2)
    found = ((log2 / STEP).round() * STEP).exp2()[:, prior.groups]
    return torch.where(gain.unsqueeze(-1) > GAIN, found, units.relevance)


def fitted(prior: BankPrior, units: MixtureUnits, measured: Measured) -> tuple[Tensor, Tensor]:
    """The most probable logarithms of the relevances of p parameters, `T x p`.

    The second result is the logarithm of their density relative to that of the present relevances,
    `T`. Other numbers of the model are the most probable ones for each.
    """
    p, rows = prior.parameters, slice(max(0, measured.y.shape[-1] - NEWEST), None)
    choice, y, good, time, variance = (part[:, rows].detach() for part in measured)
    U = prior.at(choice, units._replace(relevance=torch.ones_like(units.relevance)))
    y = torch.where(good, (y - units.centre[:, None]) / units.spread[:, None], 0.0)
    time = torch.where(good, (time - time[:, :1]) / units.clock[:, None], 0.0).to(y)
    U, mask, T = U / prior.lengthscales.log().mean().exp(), good.to(y), len(y)
    both, gap = mask.unsqueeze(-1) * mask.unsqueeze(-2), time.unsqueeze(-1) - time.unsqueeze(-2)
    own = mask * (variance == 0)  # given variances are relative to the spread of the first y
    given = (variance / units.spread[:, None].square()).clamp(LEAST, 1 / LEAST)
    data = U, y, mask, both, gap.abs(), own, torch.where(good, given, 1.0)
    # Vectors have the logarithms of the relevances, a common factor, the rate and the noise ratio.
    usual = math.log(USUAL)
    middle = y.new_tensor([*[0.0] * p, 0.0, usual, usual])
    deviation = y.new_tensor([*[SPARSITY] * p, SPREAD, SPREAD, SPREAD])

    def value(vector: Tensor, problems: Tensor) -> tuple[Tensor, Tensor]:
        """The negative logarithm of the density, `m`, and its gradient, `m x (p + 3)`."""
        U, y, mask, both, gap, own, given = (part[problems % T] for part in data)
        factor, rate, ratio = vector[:, : p + 1].exp(), *vector[:, p + 1 :].exp().unbind(-1)
        X = U * (factor[:, :p] * factor[:, p:])[:, prior.groups].unsqueeze(-2)
        spatial = gaussian(X, X, 1.0) * torch.exp(-rate[:, None, None] * gap) * both
        K = spatial + both + torch.diag_embed(torch.where(own > 0, ratio.unsqueeze(-1), given))
        root = torch.linalg.cholesky_ex(K).L
        inverse = torch.cholesky_inverse(root)
        solved = (inverse @ y.unsqueeze(-1)).squeeze(-1)
        square, power = (y * solved).sum(-1), SHAPE + 0.5 * mask.sum(-1)
        total = power * torch.log1p(square / (2 * SHAPE))
        total = total + root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        outer = (power / (2 * SHAPE + square))[:, None, None] * solved.unsqueeze(-1)
        by = 0.5 * inverse - outer * solved.unsqueeze(-2)  # the derivative by K
        by_ratio = ratio * (by.diagonal(dim1=-2, dim2=-1) * own).sum(-1)
        by = by * spatial
        by_rate = -rate * (by * gap).sum((-2, -1))
        columns = 2 * (X * (by @ X) - X.square() * by.sum(-1, keepdim=True)).sum(-2)
        relevance = torch.zeros_like(factor[:, :p]).index_add(-1, prior.groups, columns)
        rest = [columns.sum(-1), by_rate, by_ratio]
        gradient = torch.cat([relevance, torch.stack(rest, -1)], -1)
        apart = (vector - middle) / deviation
        return total + 0.5 * apart.square().sum(-1), gradient + apart / deviation

    wide, low = [math.log(LIMIT)] * (p + 1), math.log(LEAST)
    ends = y.new_tensor([[*(-end for end in wide), low, low], [*wide, 0.0, 0.0]])
    lower, upper = (end.repeat(2 * T, 1) for end in ends)
    # The second half of the problems has the present relevances.
    present = torch.zeros_like(y[:, :1]).repeat(1, p)
    present = present.index_copy(-1, prior.groups, units.relevance.log())
    lower[T:, :p], upper[T:, :p] = present, present
    start = middle.expand(2 * T, -1)
    found = minimize(value, start, lower, upper, evaluations=60, value_tolerance=1e-5)
    return found.x[:T, :p], found.value[T:] - found.value[:T]
