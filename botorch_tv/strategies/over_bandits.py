"""Bandits over bandits: how fast to forget is learned block by block."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Size, Tensor

from botorch_tv.strategies.committee import Committee
from botorch_tv.strategies.draws import Draws
from botorch_tv.strategies.state import State, Suggestion
from botorch_tv.validation import require, settle_integer, settle_number


class Block(NamedTuple):
    """Where EXP3 stands."""

    log_weights: Tensor
    """`batch_shape x P`."""
    member: Tensor
    """Who is followed in this block, `batch_shape`, int64; -1 before its first round."""
    reward: Tensor
    """Σ y of this block, `batch_shape`."""


@dataclass(frozen=True, kw_only=True, repr=False)
class BanditOverBandits(Committee):
    """Follow one member per block of H rounds, drawn by EXP3 from the rewards of earlier blocks.

    Cheung, Simchi-Levi, Zhu (AISTATS 2019), BOB, which Zhou and Shroff (2021) take up for Gaussian
    processes. Of P members that of weight s_p is drawn with chance
    u_p = (1 - γ) s_p / Σ s + γ / P, where γ = min(1, sqrt(P ln P / ((e - 1) ceil(T / H)))). After a
    block of total reward Q its weight is multiplied by

        exp(γ / (P u_p) (1/2 + Q / (2 H F + 4 R sqrt(H ln(T / sqrt(H)))))),

    whose bracket lies in [0, 1] with high chance where |f| <= F and the noise is R-sub-Gaussian.
    Their members forget everything when a block begins; others may be given.

    Args:
        members: Strategies, such as of several windows.
        block: Rounds H of a block.
        horizon: Rounds T in all.
        bound: F, of |f - mean|; 1 in the paper. Rewards count from the prior mean if it is known.
        R: That of the noise; its standard deviation in the first member unless given.

    Raises:
        ValueError: As :class:`Committee`, or if a number is out of range.
    """

    block: int
    horizon: int
    bound: float = 1.0
    R: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_integer(self, "block", 1, "give whole rounds.")
        settle_integer(self, "horizon", 1, "give whole rounds.")
        settle_number(self, "bound", "(0, inf)", "it bounds |f|.")
        require(
            self.block <= self.horizon,
            f"BanditOverBandits: block is {self.block}, but the horizon is {self.horizon}; a block "
            "is a part of it.",
        )
        if self.R is None:
            object.__setattr__(self, "R", self.noise**0.5)
        settle_number(self, "R", "[0, inf)", "it is a standard deviation.")

    @property
    def gamma(self) -> float:
        """γ, the share of blocks whose member is drawn evenly."""
        number, blocks = len(self.members), math.ceil(self.horizon / self.block)
        return min(1.0, math.sqrt(number * math.log(number) / ((math.e - 1) * blocks)))

    @property
    def draws(self) -> bool:
        """Always: of the member."""
        return True

    def chances(self, log_weights: Tensor) -> Tensor:
        """u, `batch_shape x P`."""
        share = torch.softmax(log_weights, -1)
        return (1 - self.gamma) * share + self.gamma / len(self.members)

    def start(self, batch_shape: Size) -> Block:
        return Block(
            torch.zeros((*batch_shape, len(self.members)), device="cpu"),
            torch.full(batch_shape, -1, device="cpu"),
            torch.zeros(batch_shape, device="cpu"),
        )

    def follow(self, state: State, suggestions: list[Suggestion], draws: Draws) -> Tensor:
        block: Block = state.memory.exploration
        # Drawn in every round, so that what members draw does not depend on blocks.
        below = self.chances(block.log_weights).cumsum(-1) <= draws.uniform().unsqueeze(-1)
        drawn = below.sum(-1).clamp_max(len(self.members) - 1)
        return torch.where(block.member < 0, drawn, block.member)

    def learn(self, state: State, suggestion: Suggestion, y: Tensor, noise: Tensor) -> Block:
        before: Block = state.memory.exploration
        ends = (state.told + 1) % self.block == 0
        member = suggestion.member
        if member is None:
            return self._next(before.log_weights) if ends else before
        base = 0.0 if isinstance(self.mean, str) else self.mean
        gained = (y - base) * (1.0 if self.maximize else -1.0)
        reward = before.reward + torch.where(noise.isfinite(), gained, 0.0)
        if not ends:
            return Block(before.log_weights, member, reward)
        return self._next(self._paid(before.log_weights, member, reward))

    def _next(self, log_weights: Tensor) -> Block:
        """The beginning of a block."""
        member = torch.full(log_weights.shape[:-1], -1, device=log_weights.device)
        return Block(log_weights, member, torch.zeros_like(log_weights[..., 0]))

    def _paid(self, log_weights: Tensor, member: Tensor, reward: Tensor) -> Tensor:
        """Log weights after a block."""
        H, T = self.block, self.horizon
        assert self.R is not None
        spread = math.sqrt(H * math.log(T / math.sqrt(H)))
        share = 0.5 + reward / (2 * H * self.bound + 4 * self.R * spread)
        index = member.unsqueeze(-1)
        chance = self.chances(log_weights).gather(-1, index)
        step = self.gamma / (len(self.members) * chance) * share.unsqueeze(-1)
        return log_weights.scatter_add(-1, index, step)

    def leading(self, state: State) -> Tensor:
        """Who is followed in this block; before its first round the one of most weight."""
        block: Block = state.memory.exploration
        return torch.where(block.member < 0, block.log_weights.argmax(-1), block.member)
