"""Priors that are rejected when their errors leave their band."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Size, Tensor

from botorch_tv.strategies.committee import Committee
from botorch_tv.strategies.draws import Draws
from botorch_tv.strategies.state import State, Suggestion
from botorch_tv.validation import settle_number


class Record(NamedTuple):
    """Statistics of the rounds in which each member chose, each `batch_shape x P`."""

    rejected: Tensor
    """bool."""
    plays: Tensor
    """How often, int64."""
    errors: Tensor
    """Σ (y - mean)."""
    band: Tensor
    """Σ sqrt(beta) sd."""
    noise: Tensor
    """Σ σ²."""


@dataclass(frozen=True, kw_only=True, repr=False)
class PriorElimination(Committee):
    """PE-GP-UCB, Ziomek, Adachi, Osborne (AISTATS 2025): the prior is one of several.

    Among the remaining members, the one with the highest upper bound at its own choice is followed.
    It is rejected when, over the n rounds in which it was followed,

        |Σ (y - mean)| > Σ sqrt(beta) sd + sqrt(2 Σσ² ln(P π² n² / (3 δ))).

    The first sum bounds the errors of a prior whose bands hold, the second the noise, by a union
    bound over P members and all n that fails with probability at most δ. Only the paper's
    introduction was available: the rule follows its summary, the constants of the second term are
    derived here. The last member is never rejected.

    Args:
        members: Strategies with different priors, exploring by upper confidence bounds.
        delta: δ, the probability that noise alone ever rejects a prior whose bands hold, in (0, 1).

    Raises:
        ValueError: As :class:`Committee`, or if ``delta`` lies outside (0, 1).
    """

    delta: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_number(self, "delta", "(0, 1)", "0.1 is usual.")

    def start(self, batch_shape: Size) -> Record:
        zeros = torch.zeros((*batch_shape, len(self.members)), device="cpu")
        return Record(zeros.bool(), zeros.long(), zeros, zeros, zeros)

    def follow(self, state: State, suggestions: list[Suggestion], draws: Draws) -> Tensor:
        sign = 1.0 if self.maximize else -1.0
        bounds = [sign * one.mean + one.sqrt_beta * one.sd for one in suggestions]
        rejected = state.memory.exploration.rejected
        return torch.stack(bounds, -1).masked_fill(rejected, -math.inf).argmax(-1)

    def learn(self, state: State, suggestion: Suggestion, y: Tensor, noise: Tensor) -> Record:
        before: Record = state.memory.exploration
        if suggestion.member is None:
            return before
        one_hot = torch.nn.functional.one_hot(suggestion.member, len(self.members)).bool()
        counts = one_hot & noise.isfinite().unsqueeze(-1)

        def added(total: Tensor, value: Tensor) -> Tensor:
            return total + torch.where(counts, value.unsqueeze(-1), 0.0).to(total)

        plays = before.plays + counts
        errors = added(before.errors, y - suggestion.mean)
        band = added(before.band, suggestion.sqrt_beta * suggestion.sd)
        variance = added(before.noise, noise)
        union = len(self.members) * math.pi**2 / (3 * self.delta)
        rounds = torch.log(union * plays.clamp_min(1).to(errors).square())
        beyond = errors.abs() > band + (2 * variance * rounds).sqrt()
        rejected = before.rejected | (beyond & counts)
        alone = rejected.all(-1, keepdim=True)
        return Record(torch.where(alone, before.rejected, rejected), plays, errors, band, variance)

    def leading(self, state: State) -> Tensor:
        """The remaining member that chose most often; the first of several."""
        record: Record = state.memory.exploration
        return record.plays.masked_fill(record.rejected, -1).argmax(-1)

    def rejected(self, state: State) -> Tensor:
        """Which members have been rejected, `batch_shape x P`, bool."""
        return state.memory.exploration.rejected  # type: ignore[no-any-return]
