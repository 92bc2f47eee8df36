"""What a strategy that is told nothing believes, in words."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.inference.mixture.bank import Bank
from botorch_tv.inference.mixture.moments import scales, weights
from botorch_tv.inference.mixture.running import RunningMixture

LIKELY = 0.5
"""From this chance on something is said to be so."""


class Believed(NamedTuple):
    """Of one trial, in the units of its data."""

    standing: float
    """Chance that the objective does not drift."""
    half_life: float
    """Time in which half of a correlation is gone, where it drifts; infinite where it cannot."""
    jumping: float
    """Chance that it jumps now and then."""
    between_jumps: float
    """Time from one jump to the next on average, where it jumps; infinite where it cannot."""
    jumped: float
    """Time of the newest jump that was more likely than not when it showed; NaN for none."""
    jumped_with: float
    """That chance."""
    lengthscale: float
    """In shares of the sides."""
    noise: float
    """Standard deviation of a measurement."""
    scale: float
    """Standard deviation of the objective over the domain."""


def believed(running: RunningMixture, bank: Bank, lengthscales: tuple[float, ...]) -> Believed:
    """What the only trial of a flat posterior holds likely."""
    share = weights(running.groups)[0]
    parts = (bank.rates, bank.hazards, bank.noise_ratios)
    by_part = share.view(-1, *(len(part) for part in parts))
    s2 = torch.stack([scales(one, running.shape)[0] for one in running.groups])
    members = s2.view(by_part.shape)
    ratios = members.new_tensor(bank.noise_ratios)
    rates, hazards = by_part.sum((0, 2, 3)), by_part.sum((0, 1, 3))
    spread, clock = float(running.units.spread[0]), float(running.units.clock[0])
    lengths = by_part.new_tensor(lengthscales).log()
    return Believed(
        standing=_without(rates, bank.rates),
        half_life=clock * 2 * math.log(2) / _mean_exponent(rates, bank.rates),
        jumping=1 - _without(hazards, bank.hazards),
        between_jumps=clock / _mean_exponent(hazards, bank.hazards),
        jumped=float(running.jumped[0]),
        jumped_with=float(running.jumped_with[0]),
        lengthscale=float((by_part.sum((1, 2, 3)) * lengths).sum().exp()),
        noise=spread * float((by_part * members * ratios).sum().sqrt()),
        scale=spread * float((share * s2).sum().sqrt()),
    )


def in_words(one: Believed) -> str:
    """A few sentences."""
    if one.standing >= LIKELY:
        drift = f"It stands still, apart from jumps, with {one.standing:.0%}."
    else:
        drift = f"It drifts: half of what is known is worth nothing after {one.half_life:.3g}."
    if not math.isnan(one.jumped):
        jump = f"It jumped before time {one.jumped:g}, with {one.jumped_with:.0%}."
    elif one.jumping >= LIKELY:
        jump = "It may jump, but has not been seen to."
    else:
        jump = "It has not been seen to jump."
    return (
        f"{drift} {jump} It varies by {one.scale:.3g} (standard deviation) over lengths of "
        f"{one.lengthscale:.2g} of the sides; a measurement is off by {one.noise:.2g}."
    )


def _without(share: Tensor, values: tuple[float, ...]) -> float:
    """Weight of the value 0."""
    return float(sum(float(weight) for weight, value in zip(share, values) if value == 0))


def _mean_exponent(share: Tensor, values: tuple[float, ...]) -> float:
    """-ln(1 - value) on average over the values that are not 0, 0 where there are none."""
    pairs = [(float(w), -math.log1p(-value)) for w, value in zip(share, values) if value > 0]
    total = sum(weight for weight, _ in pairs)
    return sum(w * one for w, one in pairs) / total if total > 0 else math.ulp(0.0)
