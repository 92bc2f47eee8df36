"""Ax's parameters as axes of a space."""

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

INSTEAD = "use time_varying_generation_strategy, which knows it, or leave it out."


class TrialSpace(Space):
    """The parameters of an experiment that are chosen, side by side.

    Ranges are numbers, on a logarithmic scale where Ax uses one. Ordered choices are whole numbers;
    unordered choices are as far apart as the ends of a range.

    Args:
        search_space: The search space of the experiment.
        time_parameter: The parameter that is fixed, which is left out.

    Raises:
        UnsupportedError: If there are constraints among parameters, or a parameter is of an
            unsupported kind.
    """

    def __init__(self, search_space: SearchSpace, time_parameter: str) -> None:
        if search_space.parameter_constraints:
            raise UnsupportedError(
                f"The search space has the constraints {search_space.parameter_constraints}, but "
                f"the adaptive strategy takes none among parameters; {INSTEAD}"
            )
        chosen = [one for one in search_space.parameters.values() if one.name != time_parameter]
        self.everything = {one.name: one.clone() for one in chosen}  # Ax changes ranges in place
        self.fixed = {one.name: one.value for one in chosen if isinstance(one, FixedParameter)}
        self.parameters = {one.name: one for one in chosen if one.name not in self.fixed}
        super().__init__({name: _axis(one) for name, one in self.parameters.items()})

    def covers(self, parameters: Mapping[str, Any]) -> bool:
        """Whether a trial lies in the search space; one outside would be moved to its boundary."""
        return all(one.validate(parameters[name]) for name, one in self.everything.items())

    def place(self, parameters: Mapping[str, Any]) -> tuple[float, ...]:
        """A trial's parameters as a point, `D` numbers."""
        inner = {}
        for name, one in self.parameters.items():
            value = parameters[name]
            inner[name] = one.values.index(value) if _ordered(one) else value
        return self.point(inner)

    def parameterization(self, point: Any) -> TParameterization:
        """A point `D` as a trial's parameters, but for time."""
        inner, outer = self.params(point), dict(self.fixed)
        for name, one in self.parameters.items():
            outer[name] = one.values[inner[name]] if _ordered(one) else one.cast(inner[name])
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
        f"The parameter {parameter.name!r} is {parameter}, but the adaptive strategy takes ranges "
        f"on a linear or logarithmic scale, choices and fixed values; {INSTEAD}"
    )


def _ordered(parameter: Parameter) -> bool:
    return isinstance(parameter, ChoiceParameter) and bool(parameter.is_ordered)


def adaptive_generation_strategy(
    time_parameter: str, initialization_trials: int = FIRST, seed: int = 0
) -> GenerationStrategy:
    """A strategy for Ax that needs no prior knowledge and discounts old trials.

    It is :func:`~botorch_tv.strategies.adaptive_gp_ucb`: no kernel, noise, scale or rate of change,
    and nothing is fitted. Parameters may be numbers, also on logarithmic scales, integers and
    choices, up to 20 columns, where a choice among k takes k - 1. Time is a range parameter, as for
    :func:`time_varying_generation_strategy`. Noise is learned, so standard errors that come with
    measurements are not used; that strategy uses them.

    Args:
        time_parameter: Name of that parameter.
        initialization_trials: Measured trials before which points fill the space, at least 2.
        seed: Of these points.

    Returns:
        A strategy for ``client.set_generation_strategy``, saved and loaded with the client.

    Raises:
        ValueError: If ``time_parameter`` is empty, or a number out of range.

    Example:
        >>> client.set_generation_strategy(adaptive_generation_strategy("hour"))
        >>> trials = client.get_next_trials(max_trials=3, fixed_parameters={"hour": now})
        >>> best_now(client, {"hour": now})
    """
    node = AdaptiveNode(time_parameter, initialization_trials, seed)
    return GenerationStrategy(name="AdaptiveGPUCB", nodes=[node])


class AdaptiveNode(ExternalGenerationNode):  # type: ignore[misc]
    """The node of :func:`adaptive_generation_strategy`, for combination with other nodes.

    Running trials are treated as if their result were the predicted mean (Desautels et al., 2014),
    so that the next trial goes elsewhere; recent early-stopped ones as if it were the median of all
    values, or the predicted mean if that is worse. Failed trials lower the probability that trials
    near them succeed, see :mod:`botorch_tv.strategies.outcomes`, and say nothing about values.
    Suggestions depend only on the experiment.

    Args:
        time_parameter: See :func:`adaptive_generation_strategy`.
        initialization_trials: See :func:`adaptive_generation_strategy`.
        seed: See :func:`adaptive_generation_strategy`.
    """

    def __init__(
        self, time_parameter: str, initialization_trials: int = FIRST, seed: int = 0
    ) -> None:
        super().__init__(
            name="Adaptive",
            suggested_experiment_status=ExperimentStatus.OPTIMIZATION,
            should_deduplicate=False,  # settings are tried again, since they may have changed
        )
        self.time_parameter = time_parameter
        self.initialization_trials = require_integer(
            "initialization_trials", initialization_trials, 2, "a spread takes two."
        )
        self.seed = require_integer("seed", seed, 0, "give a whole number.")
        self._known: tuple[MeasurementLog, TrialSpace] | None = None
        self._begun: Experiment | None = None
        self._failed: list[Place] = []
        self._stopped: list[Place] = []
        self._made = 0
        self._now: float | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The attributes, without what can be recomputed from the experiment."""
        return self.__dict__ | {"_known": None, "_begun": None, "_failed": [], "_stopped": []}

    # ---------------------------------------------------------------- what Ax asks

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
                f"fixed_parameters has {sorted(given)}, but the adaptive strategy chooses all but "
                f"the time; give fixed_parameters={{{self.time_parameter!r}: now}}, and make "
                "others fixed parameters of the experiment."
            )
        self._now = float(given[self.time_parameter])
        check_now(self._now, experiment.search_space.parameters[self.time_parameter])
        # Of several asked for at once, the experiment has none yet.
        self._made = max(self._made, len(experiment.trials))
        return super()._gen(experiment=experiment, **rest)

    @without_gradients
    def update_generator_state(self, experiment: Experiment, data: Data) -> None:
        """Tell the strategy of all trials that have ended since.

        Raises:
            UserInputError: If the parameter of time is missing or unfit, or there is no objective.
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
                "constraint; use time_varying_generation_strategy, which knows both."
            )
        metric, weight = weights[0]
        maximize, space = weight > 0, TrialSpace(experiment.search_space, self.time_parameter)
        log, before = self._known or (None, None)
        alike = before is not None and before.everything == space.everything
        alike = alike and self._begun is experiment
        if log is None or not alike or log.strategy.maximize != maximize:
            log, self._begun = trial_log(adaptive_gp_ucb(maximize=maximize), space), experiment
        rows = measured(experiment, data, metric, space, self.time_parameter)
        self._known = (log.changed(rows, OLDEST), space)
        trials = experiment.trials.values()
        recent = [one for one in trials if one.status.is_terminal][-RECENT:]
        self._failed = self._ended(trials, TrialStatus.FAILED)
        self._stopped = self._ended(recent, TrialStatus.EARLY_STOPPED)

    def _ended(self, trials: Iterable[BaseTrial], status: TrialStatus) -> list[Place]:
        """When and where trials ended without a value."""
        assert self._known is not None
        _, space = self._known
        ended = [one for one in trials if one.status == status and isinstance(one, Trial)]
        settings = [one.arm.parameters for one in ended if one.arm]
        return [
            (float(one[self.time_parameter]), space.place(one))
            for one in settings
            if space.covers(one)
        ]

    def likely(self, points: list[TParameterization], now: float) -> list[bool]:
        """Which settings are likelier to succeed than to fail."""
        if self._known is None:  # another node predicts
            return [True] * len(points)
        log, space = self._known
        chance = log.success(now, self._failed)
        if chance is None or chance.fails:
            return [chance is None] * len(points)
        places = [space.place(one) for one in points]
        X = torch.tensor(places, dtype=torch.float64, device="cpu")
        likely: list[bool] = chance.strict().allows(X).tolist()
        return likely

    @without_gradients
    def get_next_candidate(self, pending_parameters: list[TParameterization]) -> TParameterization:
        """The parameters to try at the given time.

        Args:
            pending_parameters: Parameters of running trials.
        """
        assert self._known is not None
        assert self._now is not None
        (log, space), now, number = self._known, self._now, self._made
        self._made += 1
        if len(log.answers) < self.initialization_trials:
            X = space.filling(number, self.seed)
        else:
            now = max(now, float(log.state.time))
            running = [(now, space.place(one)) for one in pending_parameters if space.covers(one)]
            state = log.as_if_answered(running, now, self._stopped)
            X = log.choice(state, now, log.success(now, self._failed), retry=True).X
        return space.parameterization(X) | {self.time_parameter: self._now}

    # ---------------------------------------------------------------- what people ask

    @without_gradients
    def predicted(
        self, experiment: Experiment, points: list[TParameterization], now: float
    ) -> list[tuple[float, float]]:
        """Mean of the objective at some settings now, and its standard deviation without noise.

        Args:
            experiment: All that is known.
            points: Settings, with or without a time, which is not looked at.
            now: The present, from the newest trial on.

        Raises:
            UserInputError: If fewer trials are measured than units take.
            InputDataError: If ``now`` lies before one.
        """
        self.update_generator_state(experiment, experiment.lookup_data())
        assert self._known is not None
        log, space = self._known
        if len(log.answers) < self.initialization_trials:
            raise UserInputError(
                f"{len(log.answers)} trials are measured, but the model begins with "
                f"{self.initialization_trials}; run more, or lower initialization_trials."
            )
        places = [space.place(one) for one in points]
        X = torch.tensor(places, dtype=torch.float64, device="cpu")
        posterior = log.strategy.posterior(log.state, X, now=now)
        sd = posterior.variance.clamp_min(0).sqrt().squeeze(-1)
        return list(zip(posterior.mean.squeeze(-1).tolist(), sd.tolist()))


def measured(
    experiment: Experiment, data: Data, metric: str, space: TrialSpace, time_parameter: str
) -> list[Measurement]:
    """The trials in the search space that have ended with a value."""
    rows = data.df.to_dict("records")
    values = {one["trial_index"]: one["mean"] for one in rows if one["metric_name"] == metric}
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
                f"Trial {index} has {parameters}, which is out of the search space, so the "
                "adaptive strategy leaves it out; configure an experiment whose ranges hold it.",
                InputDataWarning,
                stacklevel=2,
            )
            continue
        time = float(parameters[time_parameter])
        found.append(trial_answer(time, index, space.place(parameters), value))
    return found
