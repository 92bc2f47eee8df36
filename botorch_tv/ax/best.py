"""What settings would give now, and the best of those tried so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from ax.adapter.torch import TorchAdapter
from ax.api.client import Client
from ax.api.types import TOutcome, TParameterization
from ax.core.arm import Arm
from ax.core.experiment import Experiment
from ax.core.observation import ObservationFeatures
from ax.core.optimization_config import OptimizationConfig
from ax.core.parameter import RangeParameter
from ax.core.trial import Trial
from ax.core.trial_status import TrialStatus
from ax.core.types import ComparisonOp
from ax.exceptions.core import UnsupportedError, UserInputError
from ax.generation_strategy.generator_spec import GeneratorSpec

from botorch_tv.ax.adaptive import AdaptiveNode, TrialSpace
from botorch_tv.ax.surrogate import Clock, check_now, set_present
from botorch_tv.validation import require_number, shown

MEASURED = (TrialStatus.COMPLETED, TrialStatus.EARLY_STOPPED)


def best_now(
    client: Client, fixed_parameters: dict[str, float]
) -> tuple[TParameterization, dict[str, tuple[float, float]], int, str]:
    """The tried setting whose predicted objective is best at present.

    ``client.get_best_parameterization`` compares trials as they were when they ran, and an old
    success stays the best for ever. This compares their settings at one time, now, by the posterior
    mean of the model, fitted to all that has been measured. Where there are outcome constraints,
    only settings whose predicted outcomes satisfy them count. With
    :func:`adaptive_generation_strategy` settings that are likelier to fail than to succeed do not
    count.

    Args:
        client: The client, with a strategy of :func:`time_varying_generation_strategy` or
            :func:`adaptive_generation_strategy`.
        fixed_parameters: The present time, ``{"t": 12.5}``.

    Returns:
        As ``client.get_best_parameterization``: the parameters, with the present time; mean and
        standard deviation predicted for every metric there; the index of the trial which ran that
        setting last; and the name of its arm.

    Raises:
        UserInputError: If the strategy is another one, the time is not that of its parameter, lies
            before a trial or out of bounds, nothing has been measured, or each setting is predicted
            to break an outcome constraint or is more likely to fail than to succeed.
        KeyError: If no trial has measured an outcome under a constraint.
        ValueError: If the time is no finite number.
        UnsupportedError: If there are several objectives, or a constraint is relative.
    """
    part, name = _timed(client)
    node = part if isinstance(part, AdaptiveNode) else None
    now = float(_time(client, fixed_parameters, name)[name])
    config = client._experiment.optimization_config
    if config is None:
        raise UserInputError("There is no objective; call client.configure_optimization first.")
    if config.objective.is_multi_objective or any(
        one.relative for one in config.outcome_constraints
    ):
        raise UnsupportedError(
            f"The objective is {config.objective.expression!r} with the constraints "
            f"{config.outcome_constraints}, but one objective has a best setting, and constraints "
            "are in units of the outcome; ask client.get_pareto_frontier, or give such bounds."
        )
    tried = _tried(client._experiment, config, name, node)
    points = [{**arm.parameters, name: now} for _, arm in tried]
    predicted = _predicted(part, client._experiment, points, now)
    # After a prediction, which makes the strategy learn.
    likely = [True] * len(points) if node is None else node.likely(points, now)
    eligible = [i for i, one in enumerate(predicted) if likely[i] and _allowed(config, one)]
    if not eligible:
        raise UserInputError(
            f"Each of the {len(tried)} settings tried is more likely to fail than to succeed at "
            f"{now}, or predicted to break an outcome constraint; run more trials, or loosen the "
            "constraints."
        )
    best = max(eligible, key=lambda i: _weighted(config.objective.metric_weights, predicted[i]))
    index, arm = tried[best]
    return points[best], predicted[best], index, arm.name


def predict_now(
    client: Client, points: Sequence[TParameterization], fixed_parameters: dict[str, float]
) -> list[dict[str, tuple[float, float]]]:
    """Predicted outcomes of settings at present, tried or not.

    Args:
        client: As for :func:`best_now`.
        points: Settings; a time in them is ignored.
        fixed_parameters: The present time, ``{"t": 12.5}``.

    Returns:
        As ``client.predict``: for each, mean and standard deviation of every metric, without
        observation noise.

    Raises:
        UserInputError, ValueError: As :func:`best_now`, or if a point is not in the search space.
    """
    part, name = _timed(client)
    now = float(_time(client, fixed_parameters, name)[name])
    settings = [{**one, name: now} for one in points]
    for one in settings:
        client._experiment.search_space.check_membership(
            one, raise_error=True, check_all_parameters_present=True
        )
    return _predicted(part, client._experiment, settings, now)


def _timed(client: Client) -> tuple[AdaptiveNode | GeneratorSpec, str]:
    """The node or generator of a client's strategy that predicts, and its parameter of time.

    Raises:
        UserInputError: If none knows a time.
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
        f"The generation strategy is {None if strategy is None else strategy.name!r}, which knows "
        "no present time; give client.set_generation_strategy that of "
        "time_varying_generation_strategy, or ask client.get_best_parameterization."
    )


def _predicted(
    part: AdaptiveNode | GeneratorSpec,
    experiment: Experiment,
    points: list[TParameterization],
    now: float,
) -> list[dict[str, tuple[float, float]]]:
    """Mean and standard deviation of every metric, for each of some settings."""
    if isinstance(part, AdaptiveNode):
        predicted = part.predicted(experiment, points, now)
        (metric,) = experiment.optimization_config.objective.metric_names
        return [{metric: one} for one in predicted]
    adapter = part.generator_enum(experiment=experiment, **part.generator_kwargs)
    assert isinstance(adapter, TorchAdapter)
    set_present(adapter.generator.surrogate, now, adapter.parameters)
    mean, covariance = adapter.predict([ObservationFeatures(parameters=one) for one in points])
    return [
        {name: (float(mean[name][i]), float(covariance[name][name][i]) ** 0.5) for name in mean}
        for i in range(len(points))
    ]


def _tried(
    experiment: Experiment, config: OptimizationConfig, name: str, node: AdaptiveNode | None
) -> list[tuple[int, Arm]]:
    """Each known setting whose objective was measured, with the trial that ran it last."""
    space = None if node is None else TrialSpace(experiment.search_space, name)
    rows = experiment.lookup_data().df.to_dict("records")
    measured = {(one["trial_index"], one["metric_name"]) for one in rows}
    last: dict[str, tuple[int, Arm]] = {}
    for index, trial in sorted(experiment.trials.items()):
        if not isinstance(trial, Trial) or trial.arm is None or trial.status not in MEASURED:
            continue
        done = all((index, one) in measured for one in config.objective.metric_names)
        if done and (space is None or space.covers(trial.arm.parameters)):
            setting = {key: value for key, value in trial.arm.parameters.items() if key != name}
            last[Arm.md5hash(setting)] = (index, trial.arm)
    if not last:
        raise UserInputError("No trial has its objective measured; run one before.")
    return list(last.values())


def _weighted(weights: list[tuple[str, float]], predicted: dict[str, tuple[float, float]]) -> float:
    return float(sum(weight * predicted[metric][0] for metric, weight in weights))


def _allowed(config: OptimizationConfig, predicted: dict[str, tuple[float, float]]) -> bool:
    for constraint in config.outcome_constraints:
        value = _weighted(constraint.metric_weights, predicted)
        above = constraint.op is ComparisonOp.GEQ
        if value < constraint.bound if above else value > constraint.bound:
            return False
    return True


def complete_trial_at(
    client: Client, trial_index: int, raw_data: TOutcome, fixed_parameters: dict[str, float]
) -> int:
    """Complete a trial with its measurements and the time they were made.

    A trial of Ax keeps the parameters it was suggested with. Where the time turned out to be
    another one, a second trial is attached with the same setting and the true time, and the one
    suggested is abandoned, so that only the true one counts.

    Args:
        client: The client.
        trial_index: The trial that was suggested.
        raw_data: What was measured, as ``Client.complete_trial`` takes it.
        fixed_parameters: The time as it really was, ``{"t": 12.5}``. With a strategy of another
            library, any one range parameter is taken for time.

    Returns:
        The index of the trial that has the data: ``trial_index`` if the time is the one suggested.

    Raises:
        UserInputError: If the trial is not running, ``fixed_parameters`` is not that of time, the
            time is out of its bounds, or Ax refuses the data. A running trial runs on.
        ValueError: If the time is no finite number; the trial runs on.
    """
    trial = client._experiment.trials[trial_index]
    if not trial.status.is_running:
        raise UserInputError(
            f"Trial {trial_index} is {trial.status.name}, but only a running trial can be "
            "completed; attach another measurement by client.attach_trial."
        )
    suggested = trial.arm.parameters
    name = None
    with suppress(UserInputError):  # a strategy of another library
        _, name = _timed(client)
    measured = {**suggested, **_time(client, fixed_parameters, name)}
    if measured == suggested:
        client.complete_trial(trial_index=trial_index, raw_data=raw_data)
        return trial_index
    index: int = client.attach_trial(parameters=measured)
    try:
        client.complete_trial(trial_index=index, raw_data=raw_data)
    except Exception:
        client.mark_trial_abandoned(trial_index=index)  # or it would count as running for ever
        raise
    client.mark_trial_abandoned(trial_index=trial_index)
    return index


def _time(
    client: Client, fixed_parameters: dict[str, float], name: str | None
) -> dict[str, float | int]:
    """The time by its parameter's name, which is None where no strategy knows it."""
    given = list(fixed_parameters) if isinstance(fixed_parameters, Mapping) else []
    own = name or (given[0] if given else "")
    parameter = client._experiment.search_space.parameters.get(own)
    if given != [own] or not isinstance(parameter, RangeParameter):
        raise UserInputError(
            f"fixed_parameters is {shown(fixed_parameters)}, but it takes the time alone; give "
            f"fixed_parameters={{{name or 'the range parameter that is time'!r}: now}}."
        )
    time = require_number(own, fixed_parameters[own], "(-inf, inf)", "give the time.")
    check_now(time, parameter)
    if parameter.cast(time) != time:
        raise UserInputError(f"{own!r} is {time}, but it takes whole numbers; give one.")
    return {own: parameter.cast(time)}
