"""What may be recorded of a study besides regret: the one contract of all recorders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import xarray as xr
from torch import Tensor

from botorch_tv.simulation.worlds.objective import Objective
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.state import Info, State, Suggestion


@dataclass(frozen=True)
class Variable:
    """A recorded quantity of every strategy.

    Args:
        sizes: Dimensions of what is recorded in one round of one trial, with their lengths, such
            as ``{"arm": 25}``; none for a number.
        dtype: Its type, such as ``"bool"`` or ``"int32"``; that of the study unless given.
        averaged: Whether the mean over rounds and trials does, kept with its standard error over
            trials as `..._standard_error`, instead of a value for every round of every trial.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    dtype: str | None = None
    averaged: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of its dimensions in one round of one trial."""
        return tuple(self.sizes.values())


class Seen(NamedTuple):
    """One round of one strategy, in all trials that run together.

    Attributes:
        round: Its number, from 1.
        label: That of the strategy.
        strategy: Which chooses.
        state: What it knows: before the observation in ``before``, after it in ``after``.
        suggestion: What it chose, and what it predicted there.
        objective: The world's truth f_t: ``objective.at(choice)``.
        best: The best value of f_t, `trials`.
        value: The value chosen, f_t(x_t), `trials`.
        observation: y_t, `trials`; NaN where the measurement failed.
    """

    round: int
    label: str
    strategy: Strategy
    state: State
    suggestion: Suggestion
    objective: Objective
    best: Tensor
    value: Tensor
    observation: Tensor

    def regret(self, value: Tensor) -> Tensor:
        """How far values of f_t fall short of the best, `trials`."""
        return self.best - value if self.strategy.maximize else value - self.best


class Recorder(ABC):
    """Records quantities of every round; pass instances as ``run_study(..., record=(...,))``.

    What ``before`` and ``after`` return together are the variables, each `trials` followed by the
    sizes that it declares. What a recorder is made of, its code included, is part of what a study
    is, as for worlds and strategies. One recorder sees many chunks of trials, several at once: it
    keeps nothing of what it sees.
    """

    @abstractmethod
    def variables(self, domain: Domain) -> Mapping[str, Variable]:
        """What is recorded, by the names that the result has it under.

        Raises:
            ValueError: If nothing of the kind can be recorded on this domain.
        """

    def before(self, seen: Seen) -> Mapping[str, Tensor]:
        """What is recorded before the strategy is told its observation."""
        return {}

    def after(self, seen: Seen, info: Info) -> Mapping[str, Tensor]:
        """What is recorded at the end of the round.

        Args:
            seen: The round, with the new state.
            info: What happened, the side queries of an expert included.
        """
        return {}

    def labels(self, domain: Domain, strategies: Mapping[str, Strategy]) -> xr.Dataset:
        """What the result holds besides, whatever is played: coordinates, say, or constants."""
        return xr.Dataset()


def require_recorded(data: xr.Dataset, names: Sequence[str], recorder: str, option: str) -> None:
    """Refuse a study that lacks some variables.

    Args:
        data: The study.
        names: What is needed.
        recorder: Name of the recorder of this package that records it.
        option: That of the command line.

    Raises:
        ValueError: If one is missing, naming it and how to get it.
    """
    missing = [name for name in names if name not in data.variables]
    if missing:
        raise ValueError(
            f"This study did not record {', '.join(missing)}; run it again with "
            f"run_study(..., record=({recorder}(),)), or botorch-tv compare {option}."
        )
