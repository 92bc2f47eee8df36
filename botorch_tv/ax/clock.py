"""The time parameter, which Ax must not transform."""

from __future__ import annotations

from typing import Any

from ax.adapter.base import Adapter
from ax.adapter.data_utils import ExperimentData
from ax.adapter.random import RandomAdapter
from ax.adapter.transforms.base import Transform
from ax.core.observation import ObservationFeatures
from ax.core.optimization_config import OptimizationConfig
from ax.core.parameter import ParameterType, RangeParameter
from ax.core.search_space import SearchSpace
from ax.exceptions.core import UserInputError


class Clock(Transform):  # type: ignore[misc]
    """Refuses a search space that transforms time; changes nothing else.

    Rates of change count per unit of time, so time has to reach the model as the trial has it. Put
    first among the transforms, with ``transform_configs={"Clock": {"time_parameter": "t"}}``.

    Args:
        search_space: The search space, in the user's terms.
        experiment_data: The data so far; not used.
        adapter: The adapter that uses this transform.
        config: The name of the parameter, under ``"time_parameter"``.

    Raises:
        UserInputError: If the parameter is missing, not a range, on another than a linear scale, or
            the only one that can be chosen.
    """

    no_op_for_experiment_data = True

    def __init__(
        self,
        search_space: SearchSpace | None = None,
        experiment_data: ExperimentData | None = None,
        adapter: Adapter | None = None,
        config: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(search_space, experiment_data, adapter, config)
        self.time_parameter: str = self.config["time_parameter"]
        assert search_space is not None, "Clock requires search space"
        check_search_space(search_space, self.time_parameter)
        self.parameter = search_space.parameters[self.time_parameter].clone()

    def transform_optimization_config(
        self,
        optimization_config: OptimizationConfig,
        adapter: Adapter | None = None,
        fixed_features: ObservationFeatures | None = None,
    ) -> OptimizationConfig:
        now = None if fixed_features is None else fixed_features.parameters.get(self.time_parameter)
        if now is not None:
            check_now(now, self.parameter)
        elif isinstance(adapter, RandomAdapter):
            # A random design would draw a time like any other parameter. Of models this is asked
            # also when nothing is suggested; PresentAcquisition checks when something is.
            check_fixed(now, self.time_parameter)
        return super().transform_optimization_config(optimization_config, adapter, fixed_features)


def check_search_space(search_space: SearchSpace, time_parameter: str) -> None:
    """Raise unless ``time_parameter`` is a range on a linear scale beside other parameters.

    Raises:
        UserInputError: If it is not.
    """
    parameters = search_space.parameters
    fix = (
        f"give configure_experiment a RangeParameterConfig(name={time_parameter!r}, "
        'parameter_type="float", bounds=(0, horizon)) among the others.'
    )
    if time_parameter not in parameters:
        raise UserInputError(
            f"The time parameter is {time_parameter!r}, but the search space has "
            f"{sorted(parameters)}; {fix}"
        )
    parameter = parameters[time_parameter]
    if not isinstance(parameter, RangeParameter):
        raise UserInputError(
            f"The time parameter {time_parameter!r} is a {type(parameter).__name__}, but times are "
            f"numbers from a range; {fix}"
        )
    if parameter.parameter_type != ParameterType.FLOAT:
        raise UserInputError(
            f"The time parameter {time_parameter!r} takes integers, to which Ax would cut times "
            f"such as 3.5; {fix}"
        )
    if parameter.log_scale or parameter.logit_scale:
        scale = "log" if parameter.log_scale else "logit"
        raise UserInputError(
            f"The time parameter {time_parameter!r} is on a {scale} scale, but rates of change "
            "count per unit of time; leave out its scaling."
        )
    if len(search_space.tunable_parameters) < 2:
        raise UserInputError(
            f"The search space has no parameter to choose but {time_parameter!r}, which is time; "
            "add those that are tuned."
        )


def check_now(now: float, parameter: RangeParameter) -> None:
    """Raise if the present lies out of the bounds of the parameter of time.

    Raises:
        UserInputError: If so.
    """
    if not parameter.lower <= now <= parameter.upper:
        raise UserInputError(
            f"{parameter.name!r} is fixed at {now}, but its bounds are "
            f"({parameter.lower}, {parameter.upper}); configure the experiment with bounds that "
            "hold the whole run, they may be as wide as you like."
        )


def check_fixed(now: object, time_parameter: str, call: str = "get_next_trials(..., ") -> None:
    """Raise unless the present time was given; ``call`` is where it belongs.

    Raises:
        UserInputError: If ``now`` is None.
    """
    if now is None:
        raise UserInputError(
            f"The time of the trial is not given, but {time_parameter!r} is time and cannot be "
            f"chosen; call {call}fixed_parameters={{{time_parameter!r}: now}})."
        )
