"""What the adaptive strategy has learned, in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from botorch_tv.inference.mixture.bank import Bank
from botorch_tv.inference.mixture.moments import member_weights, scales, weights
from botorch_tv.inference.mixture.running import RunningMixture
from botorch_tv.strategies.spans import span_in_words

LIKELY = 0.5
"""Probability from which a statement is called probable."""
SURE = 0.95
"""Probability from which a statement is made without "probably". Below it the prior probability is
given as well, since the posterior may differ little from it."""

LEARNED = 0.05
"""A jump that was not seen is mentioned if its probability exceeds the prior's by this much."""


Edge = Literal["least", "most"] | None
"""Whether most of the weight lies on the smallest or the largest value of the bank. The truth may
then lie outside the bank's range."""


class Believed(NamedTuple):
    """What the weights of one trial say, in the units of its data."""

    drifts: bool
    """Whether the bank has a rate above 0."""
    standing: float
    """Probability that the objective does not drift."""
    presumed_standing: float
    """The prior probability of that."""
    half_life: float
    """Time in which the correlation falls by half if it drifts; infinite if no member drifts."""
    rate_edge: Edge
    jumps: bool
    """Whether the bank has a hazard above 0."""
    jumping: float
    """Probability that the hazard is above 0."""
    presumed_jumping: float
    """The prior probability of that."""
    jumped: float
    """Time of the newest jump whose probability exceeded one half; NaN for none."""
    jumped_with: float
    """The probability of that jump."""
    lengthscale: float
    """In fractions of the sides."""
    lengthscale_edge: Edge
    noise: float
    """Standard deviation of a measurement."""
    noise_edge: Edge
    scale: float
    """Standard deviation of the objective over the domain."""


def believed(running: RunningMixture, bank: Bank, lengthscales: tuple[float, ...]) -> Believed:
    """Summarise the weights of a posterior with one trial, its batch shape flattened."""
    members = bank.members(running.shape)
    share = weights(running.groups)[0]
    parts = (bank.rates, bank.hazards, bank.noise_ratios)
    by_member = member_weights(running.groups, members)
    by_part = by_member.view(-1, *(len(part) for part in parts))
    s2 = torch.stack([scales(one, running.shape)[0] for one in running.groups])
    rates, hazards = by_part.sum((0, 2, 3)), by_part.sum((0, 1, 3))
    spread, clock = float(running.units.spread[0]), float(running.units.clock[0])
    lengths, shares = by_part.new_tensor(lengthscales).log(), by_part.sum((1, 2, 3))
    moving = [one for one in range(len(bank.rates)) if bank.rates[one] > 0]
    return Believed(
        drifts=bool(moving),
        standing=_without(rates, bank.rates),
        presumed_standing=bank.rates.count(0.0) / len(bank.rates),
        half_life=clock * 2 * math.log(2) / _mean_exponent(rates, bank.rates),
        rate_edge=_edge(rates[moving], [bank.rates[one] for one in moving]),
        jumps=any(one > 0 for one in bank.hazards),
        jumping=1 - _without(hazards, bank.hazards),
        presumed_jumping=1 - bank.hazards.count(0.0) / len(bank.hazards),
        jumped=float(running.jumped[0]),
        jumped_with=float(running.jumped_with[0]),
        lengthscale=float((shares * lengths).sum().exp()),
        lengthscale_edge=_edge(shares, lengthscales),
        noise=spread * float((share * s2 * members.noise).sum().sqrt()),
        noise_edge=_edge(by_part.sum((0, 1, 2)), bank.noise_ratios, least=SURE),
        scale=spread * float((share * s2).sum().sqrt()),
    )


def in_words(one: Believed, said: Callable[[float], str], unit: str) -> str:
    """Say it in a few sentences.

    Args:
        one: The summary.
        said: Writes a time in words.
        unit: Unit of time, such as "hours"; empty if it has no name.
    """
    return " ".join(part for part in (_drift(one, unit), _jump(one, said), _size(one)) if part)


def _drift(one: Believed, unit: str) -> str:
    if not one.drifts:
        return ""
    if one.standing >= LIKELY:
        jumps = " but for jumps" if one.jumps else ""
        probably, chance = _guessed(one.standing, one.presumed_standing)
        return f"It {probably}stands still{jumps} ({chance})."
    edge = _beyond(one.rate_edge, least=" or more", most=" or less")  # the slower, the longer
    probably, chance = _guessed(1 - one.standing, 1 - one.presumed_standing)
    return (
        f"It {probably}drifts ({chance}): {'if so, ' if probably else ''}its correlation with what "
        f"it was falls by half in {span_in_words(one.half_life, unit)}{edge}."
    )


def _guessed(share: float, presumed: float) -> tuple[str, str]:
    """The word "probably" or nothing, and the probability, if need be with the prior's."""
    if share >= SURE:
        return "", _chance(share)
    return "probably ", f"{_chance(share)}; before any measurement {_chance(presumed)}"


def _jump(one: Believed, said: Callable[[float], str]) -> str:
    if not one.jumps:
        return ""
    if not math.isnan(one.jumped):
        return (
            f"It jumped between the measurement of time {said(one.jumped)} and the one before "
            f"({_chance(one.jumped_with)})."
        )
    if one.jumping >= max(LIKELY, one.presumed_jumping + LEARNED):
        _, chance = _guessed(one.jumping, one.presumed_jumping)
        return f"It may jump ({chance}), but has not been seen to."
    return "It has not been seen to jump."


def _size(one: Believed) -> str:
    length, noise = _beyond(one.lengthscale_edge), _beyond(one.noise_edge)
    return (
        f"It varies by {one.scale:.3g} over lengths of {one.lengthscale:.2g} of the sides{length}; "
        f"the noise of a measurement is {one.noise:.2g}{noise} (standard deviations)."
    )


def _beyond(edge: Edge, least: str = " or less", most: str = " or more") -> str:
    """Added to a number if the truth may lie outside the bank's range."""
    return "" if edge is None else least if edge == "least" else most


def _chance(share: float) -> str:
    """A probability in percent, never 0 or 100."""
    if share > 0.99:
        return "more than 99 %"
    return f"{share:.0%}".replace("%", " %") if share >= 0.01 else "less than 1 %"


def _edge(share: Tensor, values: Sequence[float], least: float = LIKELY) -> Edge:
    """Whether most of the weight lies on the smallest or on the largest of several values.

    Args:
        share: The weights.
        values: The values they belong to.
        least: Share of the weight from which the smallest value counts as the edge. For noise this
            is nearly all of it, since one of two values always has more than half. For the largest
            value half is enough, because drift and jumps explain part of what more noise would.
    """
    if len(values) < 2:
        return None
    total = float(share.sum())
    if float(share[values.index(min(values))]) > least * total:
        return "least"
    return "most" if float(share[values.index(max(values))]) > LIKELY * total else None


def _without(share: Tensor, values: tuple[float, ...]) -> float:
    """The weight of the value 0."""
    return float(sum(float(weight) for weight, value in zip(share, values) if value == 0))


def _mean_exponent(share: Tensor, values: tuple[float, ...]) -> float:
    """The mean of -ln(1 - value) over the values above 0; nearly 0 if there are none."""
    pairs = [(float(w), -math.log1p(-value)) for w, value in zip(share, values) if value > 0]
    total = sum(weight for weight, _ in pairs)
    return sum(w * one for w, one in pairs) / total if total > 0 else math.ulp(0.0)
