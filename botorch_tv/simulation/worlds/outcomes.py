"""Worlds with several outcomes, of which one is the objective and others are limited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import torch
from torch import Tensor

from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds.base import GridWorld, Objective, OnArms, World
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.expressions import Limit, parse_limits
from botorch_tv.validation import require


class OutcomesOnArms(OnArms):
    """Outcomes given by their values on all arms of a grid; the first is the objective.

    The best arm is the best of those that keep all limits. The value of an arm that violates a
    limit is at most that of the best arm, so regret is not negative.

    Args:
        outcomes: Values of the m outcomes on all arms, `trials x m x M`.
        kept: Whether each arm keeps all limits, `trials x M`, bool.
        succeeds: Whether a measurement of each arm succeeds, `trials x M`, bool.
        maximize: Whether the objective is maximised.
    """

    def __init__(self, outcomes: Tensor, kept: Tensor, succeeds: Tensor, maximize: bool) -> None:
        self.outcomes, self.kept, self.succeeds, self.maximize = outcomes, kept, succeeds, maximize

    @cached_property
    def values(self) -> Tensor:  # type: ignore[override]
        best = self.best(self.maximize).unsqueeze(-1)
        own = self.outcomes[:, 0]
        clipped = torch.minimum(own, best) if self.maximize else torch.maximum(own, best)
        return torch.where(self.kept, own, clipped)

    def best(self, maximize: bool) -> Tensor:
        sign = 1 if maximize else -1
        allowed = (sign * self.outcomes[:, 0]).masked_fill(~self.kept, -torch.inf)
        return sign * allowed.amax(-1)

    def outcomes_at(self, choice: Tensor) -> Tensor:
        """The outcomes at an arm of each trial, `trials`; `trials x m`."""
        return self.outcomes.take_along_dim(choice.view(-1, 1, 1), -1).squeeze(-1)


class OutcomesWorld(World):
    """A distribution over several outcomes on a grid, each from a world of its own.

    Strategies of :class:`~botorch_tv.strategies.Outcomes` observe all outcomes, every other
    strategy the objective alone. Regret refers to the best arm that keeps all limits in the round.

    Args:
        worlds: The world of each outcome, by name, the objective first; all on one grid.
        noise: Variance of the observation noise of every outcome.
        constraints: Limits on outcomes, such as ``"pressure <= 1"``.
        failures: Limits on outcomes beyond which a measurement fails.
        maximize: Whether the objective is maximised.

    Raises:
        ValueError: If the grids differ, or if a limit names an unknown outcome.
    """

    domain: Domain
    only_values = False

    def __init__(
        self,
        worlds: Mapping[str, GridWorld],
        noise: float,
        constraints: str | Sequence[str] = (),
        failures: str | Sequence[str] = (),
        maximize: bool = True,
    ) -> None:
        every = list(worlds.values())
        domain = every[0].domain
        require(
            all(world.domain is domain for world in every),
            "OutcomesWorld: worlds have different grids; give all of them the same Grid.",
        )
        super().__init__(domain, noise)
        self.worlds, self.maximize = dict(worlds), maximize
        self.constraints, self.failures = constraints, failures
        self._limits, self._failures = (
            parse_limits(texts, tuple(worlds)) if texts else () for texts in (constraints, failures)
        )

    @property
    def outcomes(self) -> tuple[str, ...]:
        return tuple(self.worlds)

    def objectives(self, stream: Stream) -> Iterator[Objective]:
        for parts in zip(*(world.rounds(stream) for world in self.worlds.values())):
            values = torch.stack(parts, 1)
            kept, succeeds = (self._keeps(limits, values) for limits in self._both)
            yield OutcomesOnArms(values, kept, succeeds, self.maximize is not False)

    @property
    def _both(self) -> tuple[Sequence[Limit], Sequence[Limit]]:
        return self._limits, self._failures

    def _keeps(self, limits: Sequence[Limit], values: Tensor) -> Tensor:
        by_name = dict(zip(self.worlds, values.unbind(1)))
        kept = torch.ones_like(values[:, 0], dtype=torch.bool)
        for limit in limits:
            kept &= limit.keeps(limit.expression.value(by_name))
        return kept
