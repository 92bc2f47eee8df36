"""Predict outcomes at the present time, and find the best setting tried so far."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from ax.adapter.torch import TorchAdapter
from ax.api.client import Client
from ax.api.types import TOutcome, TParameterization
from ax.core.arm import Arm
from ax.core.experiment import Experiment
from ax.core.observation import ObservationFeatures
from ax.core.optimization_config import OptimizationConfig
from ax.core.parameter import RangeParameter
from ax.core.search_space import SearchSpace
from ax.core.trial_status import TrialStatus
from ax.exceptions.core import UnsupportedError, UserInputError
from ax.generation_strategy.generator_spec import GeneratorSpec

from botorch_tv.ax.adaptive import AdaptiveNode, name_of, problem_of, single_trials
from botorch_tv.ax.surrogate import Clock, check_now, set_present
from botorch_tv.strategies.expressions import Limit, Objective
from botorch_tv.strategies.outcomes import undominated
from botorch_tv.validation import require_number, shown

Setting = tuple[TParameterization, dict[str, tuple[float, float]], int, str]
"""Type of a tried setting: parameters, predicted metrics, index of a trial, and name of its arm."""
MEASURED = (TrialStatus.COMPLETED, TrialStatus.EARLY_STOPPED)


def best_parameterization_now(client: Client, fixed_parameters: dict[str, float]) -> Setting:
    """The tried setting with the best predicted objective at the present time.

    ``client.get_best_parameterization`` ignores drift: it compares values of different times. This
    function compares posterior means at the present time. Settings that are predicted to violate an
    outcome constraint are excluded. With :func:`adaptive_generation_strategy`, settings that are
    more likely to fail than to succeed are excluded too, the newest trial is ignored while it is
    more than 2.5 standard deviations better than predicted, and its ``move_cost`` counts.

    Args:
        client: The client, with a strategy of :func:`time_varying_generation_strategy` or
            :func:`adaptive_generation_strategy`.
        fixed_parameters: The present time, such as ``{"t": 12.5}``.

    Returns:
        Four values, like those of ``client.get_best_parameterization``: the parameters, with the
        present time; the predicted mean and standard deviation of every metric; the index of the
        newest trial with these parameters; and the name of the trial's arm.

    Raises:
        UserInputError: If the generation strategy is of another kind; if there are no measurements;
            if ``fixed_parameters`` fixes a parameter other than the time; if the time is out of
            bounds or earlier than a trial; if no setting is predicted to satisfy all constraints
            and to succeed with probability above one half.
        KeyError: If no trial has measured the outcome of a constraint.
        ValueError: If the time is not a finite number.
        UnsupportedError: If there are several objectives, or if a constraint is relative.
    """
    found, (objective,) = _eligible(client, fixed_parameters, most=1)
    return max(found, key=lambda pair: _value(objective, pair[1][1]) - pair[0])[1]


def pareto_frontier_now(client: Client, fixed_parameters: dict[str, float]) -> list[Setting]:
    """The tried settings whose predicted objectives now no other tried setting dominates.

    Args:
        client: As in :func:`best_parameterization_now`.
        fixed_parameters: As in :func:`best_parameterization_now`.

    Returns:
        The settings, each as in :func:`best_parameterization_now`.

    Raises:
        UserInputError, KeyError, ValueError, UnsupportedError: As in
            :func:`best_parameterization_now`; several objectives are supported.
    """
    found, objectives = _eligible(client, fixed_parameters)
    values = [[_value(own, setting[1]) for own in objectives] for _, setting in found]
    best = undominated(torch.tensor([values], dtype=torch.float64, device="cpu"))[0].tolist()
    return [setting for (_, setting), good in zip(found, best) if good]


def _eligible(
    client: Client, fixed_parameters: dict[str, float], most: float = math.inf
) -> tuple[list[tuple[float, Setting]], tuple[Objective, ...]]:
    """The tried settings that are predicted to succeed and to keep all limits; the objectives.

    The cost of a move to each setting precedes it.

    Raises:
        UnsupportedError: If there are more than ``most`` objectives.
    """
    part, name = _timed(client)
    node = part if isinstance(part, AdaptiveNode) else None
    now = float(_time(client, fixed_parameters, name)[name])
    config = client._experiment.optimization_config
    objectives, limits = problem_of(config)
    if len(objectives) > most:
        raise UnsupportedError(
            f"The objective is {config.objective.expression!r}, but best_parameterization_now "
            "supports a single objective; call pareto_frontier_now."
        )
    tried = _tried(client._experiment, config, {name: now})
    added = client._experiment.search_space.backfill_values()
    points = [{**added, **arm.parameters, name: now} for _, arm in tried]
    predicted = _predicted(part, client._experiment, points, now, trusted=True)
    # costs() uses the node's model, which _predicted() has just updated.
    costs = [0.0] * len(points) if node is None else node.costs(points, now)
    found = [
        (cost, (point, outcomes, index, arm.name))
        for point, outcomes, (index, arm), cost in zip(points, predicted, tried, costs)
        if cost < math.inf and all(limit.keeps(_value(limit, outcomes)) for limit in limits)
    ]
    if not found:
        raise UserInputError(
            f"Each of the {len(tried)} settings tried is more likely to fail than to succeed at "
            f"time {now}, or predicted to violate an outcome constraint; run more trials, or relax "
            "the constraints."
        )
    return found, objectives


def predict_now(
    client: Client, points: Sequence[TParameterization], fixed_parameters: dict[str, float]
) -> list[dict[str, tuple[float, float]]]:
    """Predicted outcomes of settings at the present time, including untried settings.

    Args:
        client: As in :func:`best_parameterization_now`.
        points: The settings; a time in them is ignored.
        fixed_parameters: The present time, such as ``{"t": 12.5}``.

    Returns:
        For each setting, the posterior mean and standard deviation of every metric, in the format
        of ``client.predict``.

    Raises:
        UserInputError, ValueError: For the reasons given in
            :func:`best_parameterization_now`, or if a setting is not in the search space.
    """
    part, name = _timed(client)
    now = float(_time(client, fixed_parameters, name)[name])
    settings = [{**point, name: now} for point in points]
    for setting in settings:
        client._experiment.search_space.check_membership(
            setting, raise_error=True, check_all_parameters_present=True
        )
    return _predicted(part, client._experiment, settings, now)


def _timed(client: Client) -> tuple[AdaptiveNode | GeneratorSpec, str]:
    """The part of a client's strategy that makes predictions, and its time parameter's name.

    Raises:
        UserInputError: If the strategy has no time parameter.
    """
    strategy = client._maybe_generation_strategy
    for node in [] if strategy is None else strategy._nodes:
        if isinstance(node, AdaptiveNode):
            return node, node.time_parameter
        for spec in node.generator_specs:
            settings = spec.generator_kwargs
            if "surrogate_spec" in settings and Clock in settings.get("transforms", ()):
                return spec, settings["transform_configs"]["Clock"]["time_parameter"]
    raise UserInputError(
        f"The generation strategy {None if strategy is None else strategy.name!r} has no time "
        "parameter; give client.set_generation_strategy a time_varying_generation_strategy, or "
        "call client.get_best_parameterization."
    )


def _predicted(
    part: AdaptiveNode | GeneratorSpec,
    experiment: Experiment,
    points: list[TParameterization],
    now: float,
    trusted: bool = False,
) -> list[dict[str, tuple[float, float]]]:
    """For each setting: the posterior mean and standard deviation of every metric."""
    if isinstance(part, AdaptiveNode):
        return part.predicted(experiment, points, now, trusted)
    adapter = part.generator_enum(experiment=experiment, **part.generator_kwargs)
    assert isinstance(adapter, TorchAdapter)
    set_present(adapter.generator.surrogate, now, adapter.parameters)
    mean, covariance = adapter.predict([ObservationFeatures(parameters=point) for point in points])
    return [
        {name: (float(mean[name][i]), float(covariance[name][name][i]) ** 0.5) for name in mean}
        for i in range(len(points))
    ]


def _tried(
    experiment: Experiment, config: OptimizationConfig, present: dict[str, float]
) -> list[tuple[int, Arm]]:
    """For each measured setting in the search space: the index and the arm of its newest trial."""
    space = experiment.search_space
    rows = experiment.lookup_data().df.dropna(subset="mean").to_dict("records")
    measured = {(row["trial_index"], row["metric_name"]) for row in rows}
    last: dict[str, tuple[int, Arm]] = {}
    for trial in single_trials(experiment):
        index, names = trial.index, config.objective.metric_names
        done = trial.status in MEASURED and all((index, name) in measured for name in names)
        if done and space.check_membership({**trial.arm.parameters, **present}):
            setting = {**trial.arm.parameters, **present}
            last[Arm.md5hash(setting)] = (index, trial.arm)
    if not last:
        raise UserInputError("No trial has a value of the objective; complete a trial first.")
    return list(last.values())


def _value(part: Objective | Limit, predicted: dict[str, tuple[float, float]]) -> float:
    """The predicted value of a limit's formula, or of an objective, to be maximised."""
    means = {name: mean for name, (mean, _) in predicted.items()}
    name = name_of(part.expression)
    value = means[name] if name in means else part.expression.value(means)
    return float(-value if isinstance(part, Objective) and not part.maximize else value)


def complete_trial_at(
    client: Client,
    trial_index: int,
    raw_data: TOutcome,
    fixed_parameters: dict[str, float] | None = None,
    *,
    parameters: TParameterization | None = None,
) -> int:
    """Complete a trial with its measurements, their actual time and the actual parameters.

    Ax cannot change the parameters of an existing trial. If the time or a parameter differs from
    the suggestion, a new trial with the actual values is attached and completed, and the suggested
    trial is abandoned.

    Args:
        client: The client.
        trial_index: Index of the suggested trial.
        raw_data: The measurements, in the format that ``Client.complete_trial`` takes. NaN is a
            failed measurement.
        fixed_parameters: The actual time, such as ``{"t": 12.5}``; the suggested time if None. If
            the client's strategy has no time parameter, ``fixed_parameters`` must name the range
            parameter that is the time.
        parameters: Values of the parameters that were set otherwise than suggested, such as
            ``{"temperature": 61.3}``. Numbers may lie outside their ranges.

    Returns:
        The index of the completed trial, which is ``trial_index`` if all actual values equal the
        suggestion.

    Raises:
        UserInputError: If the trial is not running, if ``fixed_parameters`` fixes a parameter other
            than the time, if the time is out of bounds, or if Ax refuses the data. After an error,
            a running trial stays running.
        ValueError: If the time or a value is not a finite number, or if ``parameters`` has an
            unknown name or choice. A running trial stays running.

    Example:
        >>> complete_trial_at(client, 7, {"y": 3.2}, {"t": 12.5}, parameters={"rate": 0.21})
    """
    trial = client._experiment.trials[trial_index]
    if not trial.status.is_running:
        raise UserInputError(
            f"Trial {trial_index} is {trial.status.name}, but only a running trial can be "
            "completed; attach another measurement by client.attach_trial."
        )
    suggested = trial.arm.parameters
    name = None
    with suppress(UserInputError):  # a strategy of another library is no error
        _, name = _timed(client)
    search, actual = client._experiment.search_space, parameters or {}
    measured = {**suggested, **{own: _actual(search, own, actual[own]) for own in actual}}
    search.check_membership(measured, raise_error=True, check_range_bounds=False)
    if fixed_parameters is not None:
        measured |= _time(client, fixed_parameters, name)
    elif name is not None and name in actual:
        measured |= _time(client, {name: actual[name]}, name)
    if measured == suggested:
        client.complete_trial(trial_index=trial_index, raw_data=raw_data)
        return trial_index
    index: int = client.attach_trial(parameters=measured)
    try:
        client.complete_trial(trial_index=index, raw_data=raw_data)
    except Exception:
        client.mark_trial_abandoned(trial_index=index)  # because the new trial is running
        raise
    client.mark_trial_abandoned(trial_index=trial_index)
    return index


def _time(
    client: Client, fixed_parameters: dict[str, float], name: str | None
) -> dict[str, float | int]:
    """The time as ``{parameter: time}``; ``name`` is None if the strategy has no time parameter."""
    given = list(fixed_parameters) if isinstance(fixed_parameters, Mapping) else []
    own = name or (given[0] if given else "")
    parameter = client._experiment.search_space.parameters.get(own)
    if given != [own] or not isinstance(parameter, RangeParameter):
        raise UserInputError(
            f"fixed_parameters is {shown(fixed_parameters)}, but must contain only the time; give "
            f"fixed_parameters={{{name or 'the range parameter that is time'!r}: now}}."
        )
    time = _actual(client._experiment.search_space, own, fixed_parameters[own])
    check_now(time, parameter)
    return {own: time}


def _actual(search: SearchSpace, name: str, value: Any) -> Any:
    """A value that a parameter had, in the type of the parameter if its values are a range."""
    parameter = search.parameters.get(name)
    if not isinstance(parameter, RangeParameter):
        return value
    number = require_number(name, value, "(-inf, inf)", "give the value that was set.")
    if parameter.cast(number) != number:
        raise UserInputError(f"{name!r} is {number}, but it must be an integer; round it.")
    return parameter.cast(number)
