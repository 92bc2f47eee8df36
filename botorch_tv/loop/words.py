"""What a loop optimises, in words: an objective and constraints as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from botorch.exceptions import InputDataError

from botorch_tv.loop.input import FAILED, as_number, as_truth, parameters_of
from botorch_tv.loop.log import OpenBox, Problem, Restraints, Values
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.expressions import parse_limits, parse_objectives
from botorch_tv.strategies.outcomes import Outcomes
from botorch_tv.strategies.presets import adaptive_gp_ucb
from botorch_tv.strategies.process_strategy import ProcessStrategy
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.validation import require, shown

Texts = str | Sequence[str] | None


def stated(
    strategy: Strategy | None,
    domain: Domain,
    maximize: bool | None,
    objective: Texts,
    constraints: Texts,
    confidence: float | None,
    restraints: Restraints,
) -> tuple[Strategy, Domain]:
    """The strategy and the domain for an objective and constraints.

    Args:
        strategy: The strategy that models an outcome; None for ``adaptive_gp_ucb``.
        domain: The domain.
        maximize: As for :class:`Loop`.
        objective: As for :class:`Loop`.
        constraints: As for :class:`Loop`.
        confidence: As for :class:`Loop`.
        restraints: What restrains its choices.

    Raises:
        ValueError: If the words do not fit each other, the strategy or the domain.
    """
    plain = strategy or adaptive_gp_ucb(maximize=maximize is not False)
    if objective is None and not constraints:
        problem = "Loop: confidence or safe is given without constraints; omit it."
        require(confidence is None and restraints.safe is None, problem)
        return plain, domain
    fix = "to minimise, write a minus, objective='-cost'."
    require(None in (objective, maximize), f"Loop: objective and maximize are given; {fix}")
    if not isinstance(strategy, ProcessStrategy | None):
        raise ValueError(
            f"Loop: objective and constraints need a strategy with a single model, not {strategy!r}"
        )
    named = parameters_of(domain)
    parameters = {*(named or ()), *(named.contexts if named is not None else ())}
    limits = parse_limits(constraints) if constraints else ()
    own = [limit for limit in limits if {*limit.names} <= parameters]
    outer = tuple(limit for limit in limits if limit not in own)
    mixed = [limit.text for limit in outer if {*limit.names} & parameters]
    fix = "measure the left-hand side as an outcome of its own."
    require(not mixed, f"Loop: the constraints {mixed} have outcomes and parameters; {fix}")
    if own and named is not None:
        texts = [limit.text for limit in (*named.limits, *own)]
        given = 0 if named.contexts else domain.columns - domain.dim
        kind = OpenBox if isinstance(domain, OpenBox) else Box
        domain = kind({**named, **named.contexts}, context_dim=given, constraints=texts)
    if objective is None and not outer:
        return plain, domain
    alone = restraints.safe is None or (confidence is None and bool(outer))
    require(alone, "Loop: safe needs constraints on outcomes, and replaces confidence; omit that.")
    if objective is None:
        raise ValueError(
            f"Loop: the constraints {[limit.text for limit in outer]} have outcomes with names, "
            "but the objective has none; give objective='yield', and tell {'yield': 80, ...}."
        )
    made = Problem(parse_objectives(objective), outer)
    twice = ", ".join(name for name in made.names if name in parameters)
    require(not twice, f"Loop: {twice} is a parameter or context, and an outcome; rename one.")
    return made.outcomes(strategy or adaptive_gp_ucb(), restraints, confidence), domain


def outcomes_of(strategy: Strategy) -> tuple[str, ...]:
    """The names of the outcomes; empty for a single outcome without a name."""
    return strategy.names if isinstance(strategy, Outcomes) else ()


def as_values(strategy: Strategy, y: Any, ok: object = True, what: str = "y") -> Values:
    """A measurement as a number, or as a number for each named outcome; None if it failed.

    Args:
        strategy: The strategy of the loop.
        y: The measurement: a number; with named outcomes a dict, in which outcomes may be missing.
        ok: Whether the measurement succeeded.
        what: What the numbers are, for errors.

    Raises:
        InputDataError: If a value is not finite, or if a name is unknown.
    """
    if not as_truth("ok", ok):
        return None
    names = outcomes_of(strategy)
    if not names:
        if isinstance(y, Mapping):
            raise InputDataError(
                f"{what} is {shown(y)}, but this loop has one outcome without a name; tell a "
                "number, or begin with Loop(..., objective='yield')."
            )
        return as_number(what, y, FAILED)
    if not isinstance(y, Mapping) and len(names) == 1:
        y = {names[0]: y}
    example = ", ".join(f"{name!r}: ..." for name in names)
    if not isinstance(y, Mapping) or not {*y} <= {*names} or not y:
        raise InputDataError(
            f"{what} is {shown(y)}, but the outcomes are {', '.join(names)}; tell {{{example}}}, "
            "without those that are missing; for a failed measurement pass ok=False."
        )
    fix = "omit an outcome that was not measured."
    found = {name: as_number(name, value, fix) for name, value in y.items()}
    for own in strategy.expressions if isinstance(strategy, Outcomes) and what == "y" else ():
        if {*(own.names or ())} <= {*y} and not math.isfinite(value := own.value(found)):
            raise InputDataError(f"{own.text} is {value} at {shown(y)}; {fix}")
    return tuple(found.get(name, math.nan) for name in names)


def objective_of(strategy: Strategy, values: Values) -> float:
    """The value of the first objective; NaN if it is missing or failed."""
    if not isinstance(values, tuple):
        return math.nan if values is None else values
    assert isinstance(strategy, Outcomes)
    first = strategy.objectives[0].expression
    return float(first.value(dict(zip(strategy.names, values))))


def problem_data(strategy: Strategy) -> dict[str, Any] | None:
    """The words of a loop as JSON data, from which :func:`strategy_from` restores its strategy."""
    if not isinstance(strategy, Outcomes):
        return None
    return {
        "outcomes": strategy.names,
        "objective": [objective.text for objective in strategy.objectives],
        "constraints": [limit.text for limit in strategy.limits],
        "confidence": strategy.confidence,
        "safe": strategy.safe,
    }


def strategy_from(content: Mapping[str, Any], strategy: Strategy | None) -> Strategy:
    """The strategy for the words in a file.

    Args:
        content: The content of the file.
        strategy: The strategy, or the model of each outcome; None for the default.
    """
    problem = content.get("problem")
    if problem is None or not isinstance(strategy, ProcessStrategy | None):
        return strategy or adaptive_gp_ucb(maximize=content["strategy"]["maximize"] is not False)
    names, limits = tuple(problem["outcomes"]), problem["constraints"]
    objectives = parse_objectives(problem["objective"], names)
    made = Problem(objectives, parse_limits(limits, names) if limits else ())
    least, model = problem["confidence"], strategy or adaptive_gp_ucb()
    restraints = Restraints(least if problem["safe"] else None)
    return replace(made.outcomes(model, restraints, least), names=names)
