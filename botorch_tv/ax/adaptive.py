"""The strategy ``adaptive_gp_ucb`` as a generation strategy for Ax."""

from __future__ import annotations

import functools
import math
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from statistics import median
from typing import Any

import torch
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.experiment_status import ExperimentStatus
from ax.core.generator_run import GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.core.optimization_config import OptimizationConfig
from ax.core.parameter import (
    ChoiceParameter,
    FixedParameter,
    Parameter,
    ParameterType,
    RangeParameter,
)
from ax.core.parameter_constraint import ParameterConstraint
from ax.core.search_space import SearchSpace
from ax.core.trial import Trial
from ax.core.types import ComparisonOp, TParameterization
from ax.exceptions.core import UnsupportedError, UserInputError
from ax.generation_strategy.external_generation_node import ExternalGenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from botorch.exceptions import InputDataWarning

from botorch_tv.ax.surrogate import check_now, check_search_space, dropped
from botorch_tv.gp.mixture.bank import FIRST
from botorch_tv.gp.tensors import without_gradients
from botorch_tv.hints import hinted
from botorch_tv.loop.log import (
    OLDEST,
    Censored,
    Measurement,
    MeasurementLog,
    Point,
    Problem,
    Restraints,
    trial_answer,
    trial_log,
)
from botorch_tv.strategies.expressions import (
    Expression,
    parse_limits,
    parse_objectives,
)
from botorch_tv.strategies.feasible import Cost
from botorch_tv.strategies.mixed_search import MixedSearch
from botorch_tv.strategies.outcomes import Outcomes
from botorch_tv.strategies.parameters import BoxParameter, Choice, Number, Space
from botorch_tv.strategies.presets import adaptive_gp_ucb
from botorch_tv.validation import require_duration, require_integer

INSTEAD = "use time_varying_generation_strategy, which supports it, or drop it."


class TrialSpace(Space):
    """Converts the parameters of an experiment, except for time, to points and back.

    Ranges are linear or logarithmic as in Ax. Ordered choices are equally spaced. Any two values of
    an unordered choice are as far apart as the ends of a range.

    Args:
        search_space: The search space of the experiment.
        time_parameter: Name of the time parameter.

    Raises:
        UnsupportedError: If a constraint among parameters involves the time or is an equality, or
            if a parameter is of an unsupported kind.
    """

    def __init__(self, search_space: SearchSpace, time_parameter: str) -> None:
        parameters = search_space.parameters.items()
        chosen = {name: parameter for name, parameter in parameters if name != time_parameter}
        # Copies, because Ax modifies ranges in place.
        self.everything = {name: parameter.clone() for name, parameter in chosen.items()}
        self.backfill = search_space.backfill_values()
        self.fixed = {n: p.value for n, p in chosen.items() if isinstance(p, FixedParameter)}
        self.parameters = {n: p for n, p in chosen.items() if n not in self.fixed}
        every, known = search_space.parameter_constraints, self.fixed.keys()
        limits = [
            self._limit(c, time_parameter) for c in every if not {*c.constraint_dict} <= known
        ]
        super().__init__({name: _axis(own) for name, own in self.parameters.items()}, limits)

    def _limit(self, constraint: ParameterConstraint, time_parameter: str) -> str:
        """A constraint on parameters as text; values of fixed parameters are inserted."""
        weights, bound = {**constraint.constraint_dict}, constraint.bound
        if time_parameter in weights or getattr(constraint, "is_equality", False):
            raise UnsupportedError(
                f"{constraint} involves the time {time_parameter!r} or is an equality, but the "
                f"adaptive strategy supports inequalities among other parameters; {INSTEAD}"
            )
        bound -= sum(weights.pop(name) * self.fixed[name] for name in {*self.fixed} & {*weights})
        return comparison(weights.items(), "<=", bound)

    def inner(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Values of parameters in the model; fixed and unknown parameters are omitted."""
        return {name: parameters[name] for name in self.parameters if name in parameters}

    def place(self, parameters: Mapping[str, Any]) -> tuple[float, ...] | None:
        """The point, `D` numbers, for given values of the parameters; None if there is no point.

        A number outside its range has a point outside the unit cube. A choice that was removed or a
        different fixed value has no point. If a parameter was added, earlier trials have its
        backfill value.
        """
        whole = {**self.backfill, **parameters}
        point, lacking = self.placed(whole)
        alike = all(name in whole and whole[name] == own for name, own in self.fixed.items())
        return point if alike and not lacking else None

    def parameterization(self, point: Any) -> TParameterization:
        """The values of the parameters, except time, at a point, `D` numbers."""
        inner, outer = self.params(point), dict(self.fixed)
        return outer | {name: own.cast(inner[name]) for name, own in self.parameters.items()}


def _axis(parameter: Parameter) -> BoxParameter | Choice:
    if isinstance(parameter, RangeParameter) and not parameter.logit_scale:
        whole = parameter.parameter_type == ParameterType.INT
        ends = (parameter.lower, parameter.upper)
        return Number(*ends, parameter.log_scale, 1 if whole else None)
    if isinstance(parameter, ChoiceParameter) and not parameter.is_hierarchical:
        return Choice(*parameter.values, ordered=bool(parameter.is_ordered))
    raise UnsupportedError(
        f"The parameter {parameter.name!r} is {parameter}, but the adaptive strategy supports "
        f"ranges on a linear or logarithmic scale, choices and fixed values; {INSTEAD}"
    )


def comparison(weights: Iterable[tuple[str, float]], sign: str, bound: float) -> str:
    """A linear inequality as text."""
    terms = (f"`{name}`" if weight == 1 else f"{weight!r} * `{name}`" for name, weight in weights)
    return f"{' + '.join(terms)} {sign} {bound!r}"


def problem_of(config: OptimizationConfig | None) -> Problem:
    """The objectives, and the limits on outcomes, among them the thresholds of objectives.

    Raises:
        UserInputError: If there is no objective.
        UnsupportedError: If a limit is relative to a baseline.
    """
    if config is None:
        raise UserInputError("There is no objective; call client.configure_optimization first.")
    limits, texts = (*config.outcome_constraints, *getattr(config, "objective_thresholds", ())), []
    for limit in limits:
        if limit.relative:
            raise UnsupportedError(
                f"{limit} is relative to a baseline, but only absolute bounds are supported; give "
                "a number."
            )
        sign = "<=" if limit.op is ComparisonOp.LEQ else ">="
        texts.append(comparison(limit.metric_weights, sign, limit.bound))
    objectives = parse_objectives(config.objective.expression, config.objective.metric_names)
    return Problem(objectives, parse_limits(texts) if texts else ())


def name_of(expression: Expression) -> str:
    """The metric that a formula consists of, otherwise the formula."""
    (first, *_) = expression.names or ("",)
    return first if expression == Expression(f"`{first}`") else expression.text


@hinted
def adaptive_generation_strategy(
    time_parameter: str,
    initialization_trials: int = FIRST,
    seed: int = 0,
    lost_after: timedelta | None = None,
    safe: float | None = None,
    max_step: Mapping[str, float] | None = None,
    move_cost: Cost | None = None,
) -> GenerationStrategy:
    """A generation strategy for Ax that discounts old trials and needs no prior knowledge.

    The strategy is :func:`~botorch_tv.strategies.adaptive_gp_ucb`; with several objectives, or with
    constraints on outcomes, it predicts each outcome, see :class:`~botorch_tv.strategies.Outcomes`.
    Constraints on outcomes have absolute bounds; missing outcomes are allowed. Constraints on
    parameters are kept exactly. Parameters may be floats (also
    on logarithmic scales), integers and choices. Points may have up to 20 columns; a choice among k
    values has k - 1 columns. Time is a range parameter, as in
    :func:`time_varying_generation_strategy`. The noise is learned; a standard error (sem) above 0
    replaces it for a measurement.

    Args:
        time_parameter: Name of the time parameter.
        initialization_trials: Number of trials to measure before the model is used, at least 2;
            until then suggestions cover the search space evenly, unless ``safe`` or ``max_step``
            restricts them.
        seed: Seed of the suggestions before the model is used.
        lost_after: Duration after which a running trial counts as lost, for example because its
            worker was killed. The default is 10 times the median duration of the suggested trials
            that have ended, but at least a minute.
        safe: Probability with which every trial must keep the constraints on outcomes, such as
            0.99, as for :class:`~botorch_tv.Loop`. Before the first suggestion, attach a trial at a
            setting that is known to be safe.
        max_step: The largest difference between a suggestion and the newest trial that is not
            abandoned, such as ``{"temperature": 20}``, in the units of the parameters. Attached
            trials are not restricted.
        move_cost: The cost of a move from that trial, in the units of the objective, as for
            :class:`~botorch_tv.Loop`; also in :func:`best_parameterization_now`. A function takes
            two dicts, and is not saved.

    Returns:
        A strategy for ``client.set_generation_strategy``; the client saves and loads it.

    Raises:
        ValueError: If ``time_parameter`` is empty, or another argument is out of range. At the
            first suggestion, if ``safe`` has no constraints on outcomes.
        InputDataError: As for :class:`~botorch_tv.Loop`. If ``safe`` has no first trial.

    Example:
        >>> client.set_generation_strategy(adaptive_generation_strategy("hour"))
        >>> trials = client.get_next_trials(max_trials=3, fixed_parameters={"hour": now})
        >>> best_parameterization_now(client, {"hour": now})
    """
    restraints = safe, max_step, move_cost
    node = AdaptiveNode(time_parameter, initialization_trials, seed, lost_after, *restraints)
    return GenerationStrategy(name="AdaptiveGPUCB", nodes=[node])


class AdaptiveNode(ExternalGenerationNode):  # type: ignore[misc]
    """The node that :func:`adaptive_generation_strategy` uses, for strategies with several nodes.

    Running trials count as if their value were the predicted mean (Desautels et al., 2014), until
    they are lost. An early-stopped trial is a bound: its value would have been no better than the
    median of earlier values; with several objectives it is dropped. Failed trials, and trials whose
    outcomes all are NaN or infinite, lower the predicted probability of success near them; see
    :mod:`botorch_tv.strategies.feasible`. Suggestions depend only on the experiment, the arguments
    and, because of ``lost_after``, on the present time.

    Args:
        time_parameter: As in :func:`adaptive_generation_strategy`.
        initialization_trials: As in :func:`adaptive_generation_strategy`.
        seed: As in :func:`adaptive_generation_strategy`.
        lost_after: As in :func:`adaptive_generation_strategy`.
        safe: As in :func:`adaptive_generation_strategy`.
        max_step: As in :func:`adaptive_generation_strategy`.
        move_cost: As in :func:`adaptive_generation_strategy`.

    Raises:
        ValueError: If a number is out of range.
    """

    def __init__(
        self,
        time_parameter: str,
        initialization_trials: int = FIRST,
        seed: int = 0,
        lost_after: timedelta | None = None,
        safe: float | None = None,
        max_step: Mapping[str, float] | None = None,
        move_cost: Cost | None = None,
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
        if lost_after is not None:
            require_duration("lost_after", lost_after)
        self.lost_after = lost_after
        self._restraints = Restraints(safe, max_step, move_cost).checked()
        self._newest: TParameterization = {}
        self._model: tuple[MeasurementLog, TrialSpace] | None = None
        self._begun: tuple[Any, ...] | None = None
        self._measured = self._made = 0
        self._now: float | None = None
        self._held: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """The attributes to save; all others are recomputed from the experiment."""
        return self.__dict__ | {"_model": None, "_begun": None}

    # ---------------------------------------------------------------- the interface of Ax

    def _gen(
        self,
        experiment: Experiment,
        *,
        fixed_features: ObservationFeatures | None = None,
        pending_observations: dict[str, list[ObservationFeatures]] | None = None,
        **rest: Any,
    ) -> GeneratorRun:
        own, search = self.time_parameter, experiment.search_space
        fixed = search.get_disabled_parameter_fixed_features(fixed_features)
        given = {} if fixed is None else {**fixed.parameters}
        if not {own} <= given.keys() <= search.parameters.keys():
            raise UserInputError(
                f"fixed_parameters has {sorted(given)}, but it must have the time, and may hold "
                f"parameters of the search space; give fixed_parameters={{{own!r}: now}}."
            )
        self._now = float(given.pop(own))
        check_now(self._now, search.parameters[own])
        alone = SearchSpace(list(search.parameters.values()))  # constraints need all parameters
        alone.check_membership(given, raise_error=True, check_all_parameters_present=False)
        self._held = {name: search.parameters[name].cast(value) for name, value in given.items()}
        # Trials made earlier in the same call are not in the experiment yet, but must be counted.
        self._made = max(self._made, len(experiment.trials))
        # Ax counts a completed trial as running while an outcome is missing.
        trials = experiment.trials.items()
        gone = {index for index, trial in trials if trial.status.is_completed}
        gone |= dropped(experiment, self.lost_after)
        running = {
            metric: [one for one in every if one.trial_index not in gone]
            for metric, every in (pending_observations or {}).items()
        }
        return super()._gen(experiment=experiment, pending_observations=running, **rest)

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
        problem = problem_of(experiment.optimization_config)
        space = TrialSpace(experiment.search_space, self.time_parameter)
        begun = (experiment, problem, space.everything, space.limits)
        if self._model is None or self._begun != begun:
            strategy = problem.strategy(adaptive_gp_ucb(), self._restraints)
            self._begun, self._model = begun, (trial_log(strategy, space), space)
            self._restraints.checked(self._model[0].state.domain)
        log, _ = self._model
        named = isinstance(log.strategy, Outcomes)
        rows = ended(experiment, data, problem, named, space, self.time_parameter)
        self._measured = sum(type(row) is Measurement and row.y is not None for row in rows)
        self._model = (log.changed(rows, OLDEST), space)
        if self._made <= len(experiment.trials):  # else a newer suggestion is not among them yet
            arms = [own.arm for own in single_trials(experiment) if not own.status.is_abandoned]
            self._newest = space.backfill | (arms[-1].parameters if arms else {})

    def costs(self, points: list[TParameterization], now: float) -> list[float]:
        """The cost of a move to each setting; infinite if the setting is more likely to fail.

        Args:
            points: The settings.
            now: The present time.
        """
        if self._model is None:  # a different node makes the predictions
            return [0.0] * len(points)
        (log, space), chance = self._model, self._model[0].success(now)
        price = self._restraints.moves(*space.placed(self._newest)).price(log.state)
        places = [space.place(point) for point in points]
        X = torch.tensor([places], dtype=torch.float64, device="cpu")
        cost = torch.zeros_like(X[0, :, 0]) if price is None else price(X[0])
        if chance is not None:
            cost[~chance.strict().allowed(X)[0] | chance.fails] = math.inf
        return cost.tolist()

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
        held = space.inner(self._held)
        places = [place for place in map(space.place, pending_parameters) if place is not None]
        fills = self._measured < self.initialization_trials
        if fills and not self._restraints.from_the_first:
            X = MixedSearch(space, held).unused(number, self.seed, places)
        else:
            now = max(now, float(log.state.time))
            running = [(now, place) for place in places]
            source = torch.Generator().manual_seed(self.seed % 2**31 * 2**31 + number)
            moves = self._restraints.moves(*space.placed(self._newest))
            X = log.choice(now, running, held, retry=True, moves=moves, generator=source).X
        self._newest = space.parameterization(X) | self._held | {self.time_parameter: self._now}
        return self._newest

    # ---------------------------------------------------------------- predictions

    @without_gradients
    def predicted(
        self, experiment: Experiment, points: list[TParameterization], now: float, trusted: bool
    ) -> list[dict[str, tuple[float, float]]]:
        """The posterior mean and standard deviation at ``now`` of all outcomes, for each setting.

        Outcomes are metrics, and linear combinations of metrics in objectives and constraints, by
        their formula. Outcomes without measurements are missing.

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
        assert self._begun is not None
        log, space = self._model
        if self._measured < self.initialization_trials:
            raise UserInputError(
                f"{self._measured} trials are measured, but the model needs "
                f"{self.initialization_trials}; run more trials, or lower initialization_trials."
            )
        places = [space.place(point) for point in points]
        X = torch.tensor(places, dtype=torch.float64, device="cpu")
        state = log.trusted if trusted else log.state
        strategy: Any = log.strategy
        columns: dict[str, Iterable[tuple[float, float]]] = {}
        for own in self._begun[1].expressions:
            several = isinstance(strategy, Outcomes)
            member, at = strategy.member(state, own.text) if several else (strategy, state)
            if several and not bool(member.predicts(at)):
                continue
            posterior = member.posterior(at, X, now=now)
            sd = posterior.variance.clamp_min(0).sqrt().squeeze(-1)
            columns[name_of(own)] = zip(posterior.mean.squeeze(-1).tolist(), sd.tolist())
        return [dict(zip(columns, row)) for row in zip(*columns.values())]


def single_trials(experiment: Experiment) -> list[Trial]:
    """The trials of an experiment with a single setting, oldest first."""
    trials = (trial for _, trial in sorted(experiment.trials.items()))
    return [trial for trial in trials if isinstance(trial, Trial) and trial.arm is not None]


def ended(
    experiment: Experiment, data: Data, problem: Problem, named: bool, space: TrialSpace, time: str
) -> list[Measurement]:
    """Trials that ended and have a place: with values, with a bound on the value, and failed.

    Args:
        experiment: The experiment.
        data: All observations.
        problem: The objectives and limits.
        named: Whether the value of a row is a tuple of outcomes, not a number.
        space: The modelled parameters.
        time: Name of the time parameter.
    """
    names = problem.names
    rows = [row for row in data.df.to_dict("records") if row["metric_name"] in names]
    blank: Any = functools.partial(dict.fromkeys, names, math.nan)
    values, variances = defaultdict[int, Any](blank), defaultdict[int, Any](blank)
    for row in rows:
        index, name = row["trial_index"], row["metric_name"]
        values[index][name] = float(row["mean"])
        if row["sem"] > 0:
            variances[index][name] = float(row["sem"]) ** 2
    found, stopped = list[Measurement](), list[tuple[float, int, Point]]()
    earlier = list[tuple[float, float]]()
    for trial in single_trials(experiment):
        index, parameters = trial.index, trial.arm.parameters
        when, place = float(parameters[time]), space.place(parameters)
        measured = trial.status.is_completed and index in values
        if place is None:
            if measured:
                warnings.warn(
                    f"The adaptive strategy drops trial {index}: {parameters} has no place in the "
                    "search space; configure an experiment with all values that were used.",
                    InputDataWarning,
                    stacklevel=2,
                )
        elif measured and any(map(math.isfinite, given := tuple(values[index].values()))):
            y = tuple(value if math.isfinite(value) else math.nan for value in given)
            noise = tuple(variances[index].values()) if index in variances else None
            row = trial_answer(when, index, place, y if named else y[0])
            found.append(replace(row, noise=noise if named or noise is None else noise[0]))
            earlier.append((when, problem.expressions[0].value(dict(zip(names, y)))))
        elif measured or trial.status.is_failed:
            found.append(trial_answer(when, index, place, None))
        elif trial.status.is_early_stopped and len(problem.objectives) == 1:
            stopped.append((when, index, place))
    # The bound is the median of the earlier values; there is none for the first trials.
    for when, index, place in stopped:
        before = [y for then, y in earlier if then <= when and not math.isnan(y)]
        if before:
            found.append(trial_answer(when, index, place, median(before), Censored))
    return found
