"""Recorders of further variables of a study; subclass :class:`Recorder` for your own variables."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.simulation.worlds.base import Objective, OnArms, OutcomesOnArms, arguments_shown
from botorch_tv.strategies.adaptive import Adaptive
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import Info, State, Suggestion
from botorch_tv.validation import require

__all__ = [
    "Diagnosis",
    "PredictionError",
    "Recorder",
    "Seen",
    "Variable",
    "Violations",
    "Weights",
]


@dataclass(frozen=True)
class Variable:
    """A declaration of a quantity that is recorded for every strategy.

    Args:
        sizes: Dimensions of the quantity in one round of one trial, with their lengths, such as
            ``{"arm": 25}``; empty for a scalar.
        dtype: Type of the quantity, such as ``"bool"`` or ``"int32"``; the study's dtype by
            default.
        averaged: Whether to store only the mean over rounds and trials, instead of a value for
            every round of every trial. The standard error over trials is stored under the
            variable's name with the suffix `_standard_error`.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    dtype: str | None = None
    averaged: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the quantity in one round of one trial."""
        return tuple(self.sizes.values())


class Seen(NamedTuple):
    """One round of one strategy, in all trials of a block.

    Attributes:
        round: Number of the round, from 1.
        label: Label of the strategy.
        strategy: The strategy.
        state: The state of the strategy. ``before`` receives the state before the observation,
            ``after`` the state after the observation.
        suggestion: The strategy's choice x_t in this round, and its prediction.
        objective: The noiseless objectives f_t; ``objective.at(choice)`` gives their values.
        best: Tensor of shape `trials`, the best value of f_t.
        value: Tensor of shape `trials`, the value f_t(x_t) at the choice.
        observation: Tensor of shape `trials`, the observation y_t; NaN if the measurement failed.
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
        """The regret of choices, of shape `trials`, computed from the values of f_t at the choices.

        Args:
            value: The value of f_t at each choice, a tensor of shape `trials`.
        """
        return self.best - value if self.strategy.maximize else value - self.best


class Recorder(ABC):
    """Records quantities of every round; pass instances as ``run_study(..., record=(...,))``.

    A recorder declares its ``variables``. Each variable is returned either by ``before`` or by
    ``after``, as a tensor. The first dimension of the tensor is `trials`; the other dimensions are
    those that the variable declares. A recorder's attributes and code are part of the identity of a
    study. A recorder must not store its inputs, because it receives many blocks of trials, several
    of them in parallel.
    """

    def __repr__(self) -> str:
        return arguments_shown(self)

    @abstractmethod
    def variables(self, domain: Domain) -> Mapping[str, Variable]:
        """The recorded variables; each key is the name that a variable has in the result.

        Args:
            domain: The domain of the study.

        Raises:
            ValueError: If the variables cannot be recorded on this domain.
        """

    def before(self, seen: Seen) -> Mapping[str, Tensor]:
        """Quantities recorded before the strategy receives its observation.

        Args:
            seen: The round, with the state before the observation.

        Returns:
            A tensor for each variable, by name. The first dimension of the tensor is `trials`; the
            other dimensions are those that the variable declares.
        """
        return {}

    def after(self, seen: Seen, info: Info) -> Mapping[str, Tensor]:
        """Quantities recorded at the end of the round.

        Args:
            seen: The round, with the state after the observation.
            info: What the strategy reports after the observation, such as the number of queries to
                an expert.

        Returns:
            A tensor for each variable, by name. The first dimension of the tensor is `trials`; the
            other dimensions are those that the variable declares.
        """
        return {}

    def labels(self, domain: Domain, strategies: Mapping[str, Strategy]) -> xr.Dataset:
        """Further variables of the result that do not depend on the trials, such as coordinates.

        Args:
            domain: The domain of the study.
            strategies: The strategies by label.
        """
        return xr.Dataset()


def require_recorded(data: xr.Dataset, *names: str) -> None:
    """Check that a study recorded the variables in ``names``.

    Raises:
        ValueError: If a variable is missing; the message names the variable and states how to
            record it.
    """
    missing = [name for name in names if name not in data.variables]
    recorder = "Diagnosis" if {*missing} & {*VARIABLES} else "PredictionError"
    require(
        not missing,
        f"This study did not record {', '.join(missing)}; run it again with "
        f"run_study(..., record=({recorder}(),)).",
    )


# ---------------------------------------------------------------- choices and regret


class Play(Recorder):
    """Records regret, resets, side queries and choices (the arm ``index`` or the point ``X``)."""

    def variables(self, domain: Domain) -> Mapping[str, Variable]:
        if isinstance(domain, Grid):
            choice = {"index": Variable(dtype="int32")}
        else:
            choice = {"X": Variable({"coordinate": domain.columns})}
        return {
            "regret": Variable(),
            "resets": Variable(dtype="bool"),
            "side_queries": Variable(dtype="int32"),
            **choice,
        }

    def after(self, seen: Seen, info: Info) -> Mapping[str, Tensor]:
        name = "X" if seen.suggestion.index is None else "index"
        return {
            "regret": seen.regret(seen.value),
            "resets": info.reset,
            "side_queries": info.side_queries,
            name: seen.suggestion.choice,
        }


# ---------------------------------------------------------------- predictions and bands

VARIABLES = {
    "observation": "the observation y_t",
    "objective": "the noiseless objective f_t(x_t)",
    "mean": "mean predicted at x_t before y_t was seen",
    "sd": "standard deviation of that prediction, without observation noise",
    "sqrt_beta": "sqrt(beta_t), half the width of the band played, in units of sd",
    "band": "threshold of the trigger for |y_t - mean|; NaN without a trigger",
    "simple_regret": "regret of the arm recommended before y_t was seen",
    "model_noise": "the strategy's estimate, before y_t, of the noise variance σ² of observations",
}
"""The variables that Diagnosis records, `strategy x trial x round`, and their meanings. Predictions
are NaN in the first rounds of a strategy that must first estimate the units of the observations."""
MODEL_NOISE = "model_noise"


class Diagnosis(Recorder):
    """Records predictions, bands and observations.

    With this recorder, a study takes about twice the time. The result has all variables in
    ``VARIABLES``. The methods :meth:`~StudyResult.triggers` and :meth:`~StudyResult.calibration`
    and the attribute :attr:`~StudyResult.simple_regret` need these variables.
    """

    def variables(self, domain: Domain) -> Mapping[str, Variable]:
        return dict.fromkeys(VARIABLES, Variable())

    def before(self, seen: Seen) -> Mapping[str, Tensor]:
        player, state, suggestion = seen.strategy, seen.state, seen.suggestion
        band, unknown = player.band(state, suggestion), suggestion.sd.new_tensor(math.nan)
        predicted = {
            "mean": suggestion.mean,
            "sd": suggestion.sd,
            "sqrt_beta": suggestion.sqrt_beta,
            "band": unknown if band is None else band,
            MODEL_NOISE: player.model_noise(state),
        }
        # If a strategy cannot predict yet, its mean, sd and band are placeholders. Placeholders
        # must not count in the calibration, so NaN replaces them.
        predicts = player.predicts(state)
        return {
            "observation": seen.observation,
            "objective": seen.value,
            "simple_regret": seen.regret(seen.objective.at(player.recommended_arm(state))),
            **{name: torch.where(predicts, value, unknown) for name, value in predicted.items()},
        }


def recorded(data: xr.Dataset, name: str, strategy: str) -> np.ndarray:
    """The values of a recorded variable for one strategy, `trials x rounds`, float64."""
    values = data[name].sel(strategy=strategy).transpose("trial", "round").values
    return np.asarray(values, dtype=np.float64)


# ---------------------------------------------------------------- prediction errors, arm by arm

MAP, MAP_ERROR = "prediction_error", "prediction_error_standard_error"
"""Names of two variables, `strategy x arm`: the squared prediction error, averaged over rounds and
trials, and the standard error of this average."""
SQUARED_ERROR = "squared_error"
"""Name of the squared prediction error, averaged over the arms, `strategy x trial x round`."""
PLACE = "position"
"""Name of the variable with the coordinates of the arms, `arm x coordinate`."""


class PredictionError(Recorder):
    """Records the error of the posterior mean at every arm of a grid.

    With this recorder, a study takes up to twice the time, and the result of the study has the
    attributes :attr:`~StudyResult.prediction_error` and :attr:`~StudyResult.squared_error`.
    """

    def variables(self, domain: Domain) -> Mapping[str, Variable]:
        require(
            isinstance(domain, Grid),
            f"run_study: record has PredictionError(), but {domain!r} has no arms; use a Grid, or "
            "Diagnosis() for the predictions at the points chosen.",
        )
        assert isinstance(domain, Grid)
        return {SQUARED_ERROR: Variable(), MAP: Variable({"arm": len(domain)}, averaged=True)}

    def before(self, seen: Seen) -> Mapping[str, Tensor]:
        mean, objective = seen.strategy.arm_means(seen.state), seen.objective
        if isinstance(objective, OnArms):
            values = objective.values
        else:
            values = objective.at(torch.arange(mean.shape[-1], device=mean.device).expand_as(mean))
        error = (mean - values).square_()
        return {SQUARED_ERROR: error.mean(-1), MAP: error}

    def labels(self, domain: Domain, strategies: Mapping[str, Strategy]) -> xr.Dataset:
        assert isinstance(domain, Grid)
        places = domain.X.detach().cpu().numpy().astype(np.float64)
        coords = {"arm": np.arange(len(places)), PLACE: (("arm", "coordinate"), places)}
        return xr.Dataset(coords=coords)


# ---------------------------------------------------------------- weights of the adaptive strategy


@dataclass(frozen=True)
class Weights(Recorder):
    """Records an adaptive strategy's weights: rates, hazards, lengthscales, noise ratios and jumps.

    The recorded variables are in the ``data`` of the result. The variable ``weight_rate``,
    `strategy x trial x round x rate`, has the posterior weights of the rates of change. Likewise
    ``weight_hazard``, ``weight_lengthscale`` and ``weight_noise_ratio`` have the posterior weights
    of hazards, lengthscales and noise ratios. The variable ``jump``, `strategy x trial x round`, is
    the probability that the objective jumped just before the newest observation. All variables are
    NaN for strategies that do not use ``bank``.

    Args:
        bank: The candidate models that the recorded strategies use.
    """

    bank: Bank = field(default_factory=Bank)

    def variables(self, domain: Domain) -> Mapping[str, Variable]:
        values = self.bank.values(domain.columns)
        weights = {f"weight_{name}": Variable({name: len(grid)}) for name, grid in values.items()}
        return {**weights, "jump": Variable()}

    def after(self, seen: Seen, info: Info) -> Mapping[str, Tensor]:
        player, like = seen.strategy, seen.value
        if isinstance(player, Adaptive) and player.bank == self.bank:
            weights, jump = player.marginals(seen.state), player.jump(seen.state)
        else:
            values = self.bank.values(seen.state.domain.columns)
            weights = {
                name: like.new_full((*like.shape, len(grid)), math.nan)
                for name, grid in values.items()
            }
            jump = torch.full_like(like, math.nan)
        return {**{f"weight_{name}": weight for name, weight in weights.items()}, "jump": jump}

    def labels(self, domain: Domain, strategies: Mapping[str, Strategy]) -> xr.Dataset:
        values = self.bank.values(domain.columns)
        return xr.Dataset(coords={name: np.array(grid) for name, grid in values.items()})


class Violations(Recorder):
    """Records whether the choice of each round violates a limit of an :class:`OutcomesWorld`."""

    def variables(self, domain: Domain) -> Mapping[str, Variable]:
        return {"violated": Variable(dtype="bool")}

    def after(self, seen: Seen, info: Info) -> Mapping[str, Tensor]:
        assert isinstance(seen.objective, OutcomesOnArms)
        arm = seen.suggestion.choice.unsqueeze(-1)
        return {"violated": ~seen.objective.kept.gather(-1, arm).squeeze(-1)}
