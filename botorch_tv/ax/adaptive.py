"""The strategy ``adaptive_gp_ucb`` as a generation strategy for Ax."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from ax.core.base_trial import BaseTrial
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.experiment_status import ExperimentStatus
from ax.core.generator_run import GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.core.parameter import (
    ChoiceParameter,
    FixedParameter,
    Parameter,
    ParameterType,
    RangeParameter,
)
from ax.core.search_space import SearchSpace
from ax.core.trial import Trial
from ax.core.trial_status import TrialStatus
from ax.core.types import TParameterization
from ax.exceptions.core import UnsupportedError, UserInputError
from ax.generation_strategy.external_generation_node import ExternalGenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from botorch.exceptions import InputDataWarning

from botorch_tv.ax.surrogate import check_now, check_search_space
from botorch_tv.gp.mixture.bank import FIRST
from botorch_tv.gp.tensors import without_gradients
from botorch_tv.loop.log import (
    OLDEST,
    RECENT,
    Measurement,
    MeasurementLog,
    Place,
    trial_answer,
    trial_log,
)
from botorch_tv.strategies.parameters import BoxParameter, Choice, Number, Space
from botorch_tv.strategies.presets import adaptive_gp_ucb
from botorch_tv.validation import require_integer

INSTEAD = "use time_varying_generation_strategy, which supports it, or drop it."


class TrialSpace(Space):
    """Converts the parameters of an experiment, except for time, to points and back.

    Ranges are linear or logarithmic as in Ax. Ordered choices are integers. Any two values of an
    unordered choice are as far apart as the ends of a range.

    Args:
        search_space: The search space of the experiment.
        time_parameter: Name of the time parameter.

    Raises:
        UnsupportedError: If there are constraints among parameters, or if a parameter is of an
            unsupported kind.
    """

    def __init__(self, search_space: SearchSpace, time_parameter: str) -> None:
        if search_space.parameter_constraints:
            raise UnsupportedError(
                f"The search space has the constraints {search_space.parameter_constraints}, but "
                f"the adaptive strategy supports no parameter constraints; {INSTEAD}"
            )
        parameters = search_space.parameters.items()
        chosen = {name: parameter for name, parameter in parameters if name != time_parameter}
        # Copies, because Ax modifies ranges in place.
        self.everything = {name: parameter.clone() for name, parameter in chosen.items()}
        self.fixed = {
            name: parameter.value
            for name, parameter in chosen.items()
            if isinstance(parameter, FixedParameter)
        }
        self.parameters = {
            name: parameter for name, parameter in chosen.items() if name not in self.fixed
        }
        super().__init__({name: _axis(parameter) for name, parameter in self.parameters.items()})

    def covers(self, parameters: Mapping[str, Any]) -> bool:
        """Whether parameters lie in the search space."""
        return all(own.validate(parameters[name]) for name, own in self.everything.items())

    def place(self, parameters: Mapping[str, Any]) -> tuple[float, ...]:
        """The point, `D` numbers, for given values of the parameters."""
        inner = {}
        for name, parameter in self.parameters.items():
            value = parameters[name]
            inner[name] = parameter.values.index(value) if _ordered(parameter) else value
        return self.point(inner)

    def parameterization(self, point: Any) -> TParameterization:
        """The values of the parameters, except time, at a point, `D` numbers."""
        inner, outer = self.params(point), dict(self.fixed)
        for name, parameter in self.parameters.items():
            value = inner[name]
            outer[name] = parameter.values[value] if _ordered(parameter) else parameter.cast(value)
        return outer


def _axis(parameter: Parameter) -> BoxParameter | Choice:
    if isinstance(parameter, RangeParameter) and not parameter.logit_scale:
        whole = parameter.parameter_type == ParameterType.INT
        ends = (parameter.lower, parameter.upper)
        return Number(*ends, parameter.log_scale, 1 if whole else None)
    if isinstance(parameter, ChoiceParameter) and not parameter.is_hierarchical:
        if _ordered(parameter):
            return Number(0, len(parameter.values) - 1, step=1)
        return Choice(*parameter.values)
    raise UnsupportedError(
        f"The parameter {parameter.name!r} is {parameter}, but the adaptive strategy supports "
        f"ranges on a linear or logarithmic scale, choices and fixed values; {INSTEAD}"
    )


def _ordered(parameter: Parameter) -> bool:
    return isinstance(parameter, ChoiceParameter) and bool(parameter.is_ordered)


def adaptive_generation_strategy(
    time_parameter: str, initialization_trials: int = FIRST, seed: int = 0
) -> GenerationStrategy:
    """A generation strategy for Ax that discounts old trials and needs no prior knowledge.

    The strategy is :func:`~botorch_tv.strategies.adaptive_gp_ucb`. Parameters may be floats (also
    on logarithmic scales), integers and choices. Points may have up to 20 columns; a choice among k
    values has k - 1 columns. Time is a range parameter, as in
    :func:`time_varying_generation_strategy`. The noise is learned, so standard errors of
    measurements are not used.

    Args:
        time_parameter: Name of the time parameter.
        initialization_trials: Number of trials to measure before the model is used, at least 2;
            until then suggestions cover the search space evenly.
        seed: Seed of the suggestions before the model is used.

    Returns:
        A strategy for ``client.set_generation_strategy``; the client saves and loads it.

    Raises:
        ValueError: If ``time_parameter`` is empty, or another argument is out of range.

    Example:
        >>> client.set_generation_strategy(adaptive_generation_strategy("hour"))
        >>> trials = client.get_next_trials(max_trials=3, fixed_parameters={"hour": now})
        >>> best_now(client, {"hour": now})
    """
    node = AdaptiveNode(time_parameter, initialization_trials, seed)
    return GenerationStrategy(name="AdaptiveGPUCB", nodes=[node])


class AdaptiveNode(ExternalGenerationNode):  # type: ignore[misc]
    """The node that :func:`adaptive_generation_strategy` uses, for strategies with several nodes.

    Running trials count as if their value were the predicted mean (Desautels et al., 2014). Recent
    early-stopped trials count as if their value were the worse of two values: the median of all
    values and the predicted mean. Failed trials lower the predicted probability of success near
    them; see :mod:`botorch_tv.strategies.outcomes`. Suggestions depend only on the experiment and
    the arguments.

    Args:
        time_parameter: As in :func:`adaptive_generation_strategy`.
        initialization_trials: As in :func:`adaptive_generation_strategy`.
        seed: As in :func:`adaptive_generation_strategy`.

    Raises:
        ValueError: If ``initialization_trials`` or ``seed`` is out of range.
    """

    def __init__(
        self, time_parameter: str, initialization_trials: int = FIRST, seed: int = 0
    ) -> None:
        super().__init__(
            name="Adaptive",
            suggested_experiment_status=ExperimentStatus.OPTIMIZATION,
            should_deduplicate=False,  # the same setting may be tried again
        )
        self.time_parameter = time_parameter
        self.initialization_trials = require_integer(
            "initialization_trials", initialization_trials, 2, "a standard deviation needs two."
        )
        self.seed = require_integer("seed", seed, 0, "give an integer.")
        self._model: tuple[MeasurementLog, TrialSpace] | None = None
        self._begun: Experiment | None = None
        self._failed: list[Place] = []
        self._stopped: list[Place] = []
        self._made = 0
        self._now: float | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The attributes to save; all others are recomputed from the experiment."""
        return self.__dict__ | {"_model": None, "_begun": None, "_failed": [], "_stopped": []}

    # ---------------------------------------------------------------- the interface of Ax

    def _gen(
        self,
        experiment: Experiment,
        *,
        fixed_features: ObservationFeatures | None = None,
        **rest: Any,
    ) -> GeneratorRun:
        given = {} if fixed_features is None else fixed_features.parameters
        if set(given) != {self.time_parameter}:
            raise UserInputError(
                f"fixed_parameters has {sorted(given)}, but the adaptive strategy chooses all "
                f"parameters except time; give fixed_parameters={{{self.time_parameter!r}: now}}, "
                "and fix any other parameter in the search space of the experiment."
            )
        self._now = float(given[self.time_parameter])
        check_now(self._now, experiment.search_space.parameters[self.time_parameter])
        # Trials made earlier in the same call are not in the experiment yet, but must be counted.
        self._made = max(self._made, len(experiment.trials))
        return super()._gen(experiment=experiment, **rest)

    @without_gradients
    def update_generator_state(self, experiment: Experiment, data: Data) -> None:
        """Update the model with all trials of an experiment that have ended.

        Args:
            experiment: The experiment.
            data: All observations.

        Raises:
            UserInputError: If the time parameter is missing or invalid, or if there is no
                objective.
            UnsupportedError: If parameters, objective or constraints are not supported.
        """
        check_search_space(experiment.search_space, self.time_parameter)
        config = experiment.optimization_config
        if config is None:
            raise UserInputError("There is no objective; call client.configure_optimization.")
        weights = config.objective.metric_weights
        if config.objective.is_multi_objective or len(weights) != 1 or config.outcome_constraints:
            raise UnsupportedError(
                f"The objective is {config.objective.expression!r} with the constraints "
                f"{config.outcome_constraints}, but the adaptive strategy takes one outcome and no "
                "constraint; use time_varying_generation_strategy, which supports several outcomes "
                "and constraints."
            )
        metric, weight = weights[0]
        maximize, space = weight > 0, TrialSpace(experiment.search_space, self.time_parameter)
        log, before = self._model or (None, None)
        alike = before is not None and before.everything == space.everything
        alike = alike and self._begun is experiment
        if log is None or not alike or log.strategy.maximize != maximize:
            log, self._begun = trial_log(adaptive_gp_ucb(maximize=maximize), space), experiment
        rows = measured(experiment, data, metric, space, self.time_parameter)
        self._model = (log.changed(rows, OLDEST), space)
        trials = experiment.trials.values()
        recent = [trial for trial in trials if trial.status.is_terminal][-RECENT:]
        self._failed = self._ended(trials, TrialStatus.FAILED)
        self._stopped = self._ended(recent, TrialStatus.EARLY_STOPPED)

    def _ended(self, trials: Iterable[BaseTrial], status: TrialStatus) -> list[Place]:
        """The times and points of trials that ended without a value."""
        assert self._model is not None
        _, space = self._model
        ended = [trial for trial in trials if trial.status == status and isinstance(trial, Trial)]
        settings = [trial.arm.parameters for trial in ended if trial.arm]
        return [
            (float(setting[self.time_parameter]), space.place(setting))
            for setting in settings
            if space.covers(setting)
        ]

    def likely(self, points: list[TParameterization], now: float) -> list[bool]:
        """For each setting, whether it is more likely to succeed than to fail.

        Args:
            points: The settings.
            now: The present time.
        """
        if self._model is None:  # a different node makes the predictions
            return [True] * len(points)
        log, space = self._model
        chance = log.success(now, self._failed)
        if chance is None or chance.fails:
            return [chance is None] * len(points)
        places = [space.place(point) for point in points]
        X = torch.tensor(places, dtype=torch.float64, device="cpu")
        likely: list[bool] = chance.strict().allows(X).tolist()
        return likely

    @without_gradients
    def get_next_candidate(self, pending_parameters: list[TParameterization]) -> TParameterization:
        """The parameters of the next trial, at the time that the caller has fixed.

        Args:
            pending_parameters: Parameters of running trials.
        """
        assert self._model is not None
        assert self._now is not None
        (log, space), now, number = self._model, self._now, self._made
        self._made += 1
        if len(log.answers) < self.initialization_trials:
            X = space.filling(number, self.seed)
        else:
            now = max(now, float(log.state.time))
            running = [
                (now, space.place(pending))
                for pending in pending_parameters
                if space.covers(pending)
            ]
            state = log.as_if_answered(running, now, self._stopped)
            X = log.choice(state, now, log.success(now, self._failed), retry=True).X
        return space.parameterization(X) | {self.time_parameter: self._now}

    # ---------------------------------------------------------------- predictions

    @without_gradients
    def predicted(
        self, experiment: Experiment, points: list[TParameterization], now: float, trusted: bool
    ) -> list[tuple[float, float]]:
        """The posterior mean and standard deviation of the objective at ``now``, for each setting.

        Args:
            experiment: The experiment.
            points: The settings; a time in them is ignored.
            now: The present time, no earlier than the newest trial.
            trusted: Whether to ignore the newest trial if it is suspiciously good.

        Raises:
            UserInputError: If fewer than ``initialization_trials`` trials are measured.
            InputDataError: If ``now`` is earlier than the time of a trial.
        """
        self.update_generator_state(experiment, experiment.lookup_data())
        assert self._model is not None
        log, space = self._model
        if len(log.answers) < self.initialization_trials:
            raise UserInputError(
                f"{len(log.answers)} trials are measured, but the model needs "
                f"{self.initialization_trials}; run more trials, or lower initialization_trials."
            )
        places = [space.place(point) for point in points]
        X = torch.tensor(places, dtype=torch.float64, device="cpu")
        state = log.trusted if trusted else log.state
        posterior = log.strategy.posterior(state, X, now=now)
        sd = posterior.variance.clamp_min(0).sqrt().squeeze(-1)
        return list(zip(posterior.mean.squeeze(-1).tolist(), sd.tolist()))


def measured(
    experiment: Experiment, data: Data, metric: str, space: TrialSpace, time_parameter: str
) -> list[Measurement]:
    """A measurement for each trial that ended with a value and lies in the search space."""
    rows = data.df.to_dict("records")
    values = {row["trial_index"]: row["mean"] for row in rows if row["metric_name"] == metric}
    found = []
    for index, trial in experiment.trials.items():
        value = float(values.get(index, math.nan))
        if (
            trial.status != TrialStatus.COMPLETED
            or not isinstance(trial, Trial)
            or not math.isfinite(value)
        ):
            continue
        parameters = trial.arm.parameters
        if not space.covers(parameters):
            warnings.warn(
                f"The adaptive strategy drops trial {index}: {parameters} is out of the search "
                "space; configure an experiment with wider ranges.",
                InputDataWarning,
                stacklevel=2,
            )
            continue
        time = float(parameters[time_parameter])
        found.append(trial_answer(time, index, space.place(parameters), value))
    return found
