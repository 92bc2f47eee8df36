"""The interface of recorders, which record quantities of a study besides regret."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import xarray as xr
from torch import Tensor

from botorch_tv.simulation.worlds.objective import Objective
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import Info, State, Suggestion


@dataclass(frozen=True)
class Variable:
    """A recorded quantity of every strategy.

    Args:
        sizes: Dimensions of the quantity in one round of one trial, with their lengths, such as
            ``{"arm": 25}``; empty for a number.
        dtype: Its type, such as ``"bool"`` or ``"int32"``; that of the study by default.
        averaged: Whether to keep only the mean over rounds and trials, with its standard error over
            trials as `..._standard_error`, instead of a value for every round of every trial.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    dtype: str | None = None
    averaged: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape in one round of one trial."""
        return tuple(self.sizes.values())


class Seen(NamedTuple):
    """One round of one strategy, in all trials that run together.

    Attributes:
        round: Number of the round, from 1.
        label: Label of the strategy.
        strategy: The strategy.
        state: Its state: before the observation in ``before``, after it in ``after``.
        suggestion: Its choice and prediction.
        objective: The world's truth f_t: ``objective.at(choice)``.
        best: The best value of f_t, `trials`.
        value: The value at the choice, f_t(x_t), `trials`.
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
        """The regret of values of f_t, `trials`."""
        return self.best - value if self.strategy.maximize else value - self.best


class Recorder(ABC):
    """Records quantities of every round; pass instances as ``run_study(..., record=(...,))``.

    Together ``before`` and ``after`` return the variables, each `trials` followed by its declared
    sizes. A recorder's attributes and code are part of the identity of a study, like those of
    worlds and strategies. One recorder sees many chunks of trials, several at once, so it must not
    store what it sees.
    """

    @abstractmethod
    def variables(self, domain: Domain) -> Mapping[str, Variable]:
        """The recorded variables, by name in the result.

        Raises:
            ValueError: If they cannot be recorded on this domain.
        """

    def before(self, seen: Seen) -> Mapping[str, Tensor]:
        """Quantities recorded before the strategy is told its observation."""
        return {}

    def after(self, seen: Seen, info: Info) -> Mapping[str, Tensor]:
        """Quantities recorded at the end of the round.

        Args:
            seen: The round, with the new state.
            info: What happened, including side queries to an expert.
        """
        return {}

    def labels(self, domain: Domain, strategies: Mapping[str, Strategy]) -> xr.Dataset:
        """Further variables of the result that do not depend on the trials, such as coordinates."""
        return xr.Dataset()


def require_recorded(data: xr.Dataset, names: Sequence[str], recorder: str, option: str) -> None:
    """Refuse a study that lacks given variables.

    Args:
        data: The study.
        names: The required variables.
        recorder: Name of the recorder that records them.
        option: The command-line option for it.

    Raises:
        ValueError: If one is missing, with its name and how to record it.
    """
    missing = [name for name in names if name not in data.variables]
    if missing:
        raise ValueError(
            f"This study did not record {', '.join(missing)}; run it again with "
            f"run_study(..., record=({recorder}(),)), or botorch-tv compare {option}."
        )
