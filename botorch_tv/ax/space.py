"""Ax's parameters as axes of a space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ax.core.parameter import (
    ChoiceParameter,
    FixedParameter,
    Parameter,
    ParameterType,
    RangeParameter,
)
from ax.core.search_space import SearchSpace
from ax.core.types import TParameterization
from ax.exceptions.core import UnsupportedError

from botorch_tv.strategies.parameters import Axis, Choice, Number, Space

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
        super().__init__([_axis(one) for one in self.parameters.values()])

    def __eq__(self, other: object) -> bool:
        """Whether the parameters and their ranges are the same."""
        return isinstance(other, TrialSpace) and self.everything == other.everything

    __hash__ = None  # type: ignore[assignment]

    def covers(self, parameters: Mapping[str, Any]) -> bool:
        """Whether a trial lies in the search space; one outside would be moved to its boundary."""
        return all(one.validate(parameters[name]) for name, one in self.everything.items())

    def place(self, parameters: Mapping[str, Any]) -> tuple[float, ...]:
        """A trial's parameters as a point, `D` numbers."""
        inner = {name: _inner(one, parameters[name]) for name, one in self.parameters.items()}
        return self.point(inner)

    def parameterization(self, point: Any) -> TParameterization:
        """A point `D` as a trial's parameters, but for time."""
        inner = self.params(point)
        outer = {name: _outer(one, inner[name]) for name, one in self.parameters.items()}
        return outer | self.fixed


def _axis(parameter: Parameter) -> Axis:
    if isinstance(parameter, RangeParameter) and not parameter.logit_scale:
        whole = parameter.parameter_type == ParameterType.INT
        ends = (parameter.lower, parameter.upper)
        return Axis(parameter.name, Number(*ends, parameter.log_scale, 1 if whole else None))
    if isinstance(parameter, ChoiceParameter) and not parameter.is_hierarchical:
        if _ordered(parameter):
            return Axis(parameter.name, Number(0, len(parameter.values) - 1, step=1))
        return Axis(parameter.name, Choice(*parameter.values))
    raise UnsupportedError(
        f"The parameter {parameter.name!r} is {parameter}, but the adaptive strategy takes ranges "
        f"on a linear or logarithmic scale, choices and fixed values; {INSTEAD}"
    )


def _ordered(parameter: Parameter) -> bool:
    return isinstance(parameter, ChoiceParameter) and bool(parameter.is_ordered)


def _inner(parameter: Parameter, value: Any) -> Any:
    return parameter.values.index(value) if _ordered(parameter) else value


def _outer(parameter: Parameter, value: Any) -> Any:
    return parameter.values[value] if _ordered(parameter) else parameter.cast(value)
