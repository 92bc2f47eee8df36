"""The base class of strategies that are composed of ordinary strategies, their members."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import torch
from torch import Size

from botorch_tv.gp.data import Prior
from botorch_tv.gp.process import Inference, Process
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import State


class Composed(Strategy):
    """A strategy composed of members, each with a state of its own.

    The state of a composed strategy is the state of the first member, with the states of all
    members in ``members``.
    """

    members: tuple[Strategy, ...]

    def together(self, states: list[State]) -> State:
        """The state of this strategy, given the states of the members."""
        return states[0]._replace(members=tuple(states))

    def pairs(self, state: State) -> Iterator[tuple[Strategy, State]]:
        """The members, each with its state."""
        return zip(self.members, state.members)

    @property
    def maximize(self) -> bool:
        """Whether the first member maximises."""
        return self.members[0].maximize

    @property
    def process(self) -> Process:
        """The first member's process."""
        return self.members[0].process

    def inference_for(self, domain: Domain, prior: Prior | None = None) -> Inference:
        """The inference of the first member.

        Args:
            domain: The domain.
            prior: The prior on the domain.
        """
        return self.members[0].inference_for(domain, prior)

    @functools.cached_property
    def _begun(self) -> tuple[str, ...]:
        return tuple(part for member in self.members for part in member._begun)

    @property
    def draws(self) -> bool:
        """Whether choices may use random numbers."""
        return any(member.draws for member in self.members)

    def _init(self, domain: Domain, shape: Size, dtype: torch.dtype, device: torch.device) -> State:
        return self.together(
            [member._init(domain, shape, dtype, device) for member in self.members]
        )

    def init_like(self, state: State, batch_shape: Size | tuple[int, ...]) -> State:
        pairs = self.pairs(state)
        return self.together([member.init_like(own, batch_shape) for member, own in pairs])

    def numbers_per_trial(self, state: State, horizon: int, trials: int = 1) -> int:
        pairs = self.pairs(state)
        return sum(member.numbers_per_trial(own, horizon, trials) for member, own in pairs)
