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
NEWEST = 128
"""Largest number of measurements from which relevances are estimated."""
SPARSITY = 1.0
"""Prior standard deviation of the logarithm of a relevance."""
STEP = 1.0
"""Relevances are powers of 2 whose exponents are multiples of this number."""
USUAL, SPREAD = 0.02, 1.5
"""Prior median of the rate of change and of the noise ratio, and the prior standard deviation of
their logarithms."""
LEAST, MOST = 1e-4, 1.0
"""Range of the rate of change and of the noise ratio."""
GAIN = 3.0
LIMIT = 8.0
"""Largest factor between a lengthscale and the middle lengthscale of the bank."""
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

    def first(self, rows: int) -> Measured:
        """The first measurements."""
        return Measured(*(part[:, :rows] for part in self))


def units_of(prior: BankPrior, measured: Measured, least: int) -> MixtureUnits:
    """Units from all measurements so far; fewer than ``least`` measurements do not suffice."""
    choice, y, good, time = measured
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
    _, y, good, time = measured
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
    """The most probable relevances given the newest measurements, `T x (d + c)`.

    Args:
        prior: The prior of the candidate processes.
        units: Units of y, time and context.
        measured: The measurements; failed measurements are not used.
    """
    number = prior.parameters
    if number == 1:
        return torch.ones_like(units.relevance)
    rows = slice(max(0, measured.y.shape[-1] - NEWEST), None)
    choice, y, good, time = (part[:, rows].detach() for part in measured)
    U = prior.at(choice, units._replace(relevance=torch.ones_like(units.relevance)))
    y = torch.where(good, (y - units.centre[:, None]) / units.spread[:, None], 0.0)
    time = torch.where(good, (time - time[:, :1]) / units.clock[:, None], 0.0).to(y)
    U = U / prior.lengthscales.log().mean().exp()
    # Vectors have logarithms: of the relevances, a common scale, the rate and the noise ratio.
    usual, own = math.log(USUAL), [0.0] * number
    middle = y.new_tensor([*own, 0.0, usual, usual])
    deviation = y.new_tensor([*(SPARSITY for _ in own), SPREAD, SPREAD, SPREAD])

    def value(vector: Tensor, trials: Tensor) -> tuple[Tensor, Tensor]:
        """The negative logarithm of the density, `m`, and its gradient, `m x p`."""
        with torch.enable_grad():
            vector = vector.detach().requires_grad_()
            trials = trials % len(y)
            scale, rate, ratio = vector[:, number:].exp().unbind(-1)
            factor = vector[:, :number].exp() * scale.unsqueeze(-1)
            mask = good[trials].to(y)
            X = U[trials] * factor[:, prior.groups].unsqueeze(-2)
            gap = (time[trials].unsqueeze(-1) - time[trials].unsqueeze(-2)).abs()
            K = 1 + gaussian(X, X, 1.0) * torch.exp(-rate[:, None, None] * gap)
            K = K * mask.unsqueeze(-1) * mask.unsqueeze(-2)
            K = K + torch.diag_embed(torch.where(good[trials], ratio.unsqueeze(-1), 1.0))
            root = torch.linalg.cholesky_ex(K).L
            solved = torch.linalg.solve_triangular(root, y[trials].unsqueeze(-1), upper=False)
            square, logs = solved.square().sum((-2, -1)), root.diagonal(dim1=-2, dim2=-1).log()
            total = (SHAPE + 0.5 * mask.sum(-1)) * torch.log1p(square / (2 * SHAPE)) + logs.sum(-1)
            from_middle = (vector - middle) / deviation
            total = total + 0.5 * from_middle.square().sum(-1)
            (gradient,) = torch.autograd.grad(total.sum(), vector)
        return total.detach(), gradient

    wide, least, most = math.log(LIMIT), math.log(LEAST), math.log(MOST)
    lower = y.new_tensor([*(-wide for _ in own), -wide, least, least]).repeat(2 * len(y), 1)
    upper = y.new_tensor([*(wide for _ in own), wide, most, most]).repeat(2 * len(y), 1)
    # The second half of the problems has equal relevances.
    lower[len(y) :, :number], upper[len(y) :, :number] = 0.0, 0.0
    start = middle.repeat(2 * len(y), 1)
    found = minimize(value, start, lower, upper, evaluations=80, value_tolerance=1e-6)
    log, gain = found.x[: len(y), :number], found.value[len(y) :] - found.value[: len(y)]
    log2 = (log - log.mul(2).exp().mean(-1, True).log() / 2) / math.log(2)
    log2 = torch.where(gain.unsqueeze(-1) > GAIN, (log2 / STEP).round() * STEP, 0.0)
    global LAST; LAST = gain
    return torch.exp2(log2)[:, prior.groups]
