"""Trials of a study: their times, parameters and kinds."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any, cast

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState

from botorch_tv.loop.log import (
    RECENT,
    Censored,
    Measurement,
    Point,
    Values,
    patience,
    trial_answer,
)
from botorch_tv.strategies.parameters import Choice, Number, Parameter, Space
from botorch_tv.validation import require, require_duration, require_number, shown

BEGUN, ENDED = "botorch_tv:begun", "botorch_tv:ended"
"""System attributes with the times at which a trial began and ended, in seconds of UTC. Time stamps
of most storages have no zone, so workers in two zones would order their trials wrongly."""


def started(trial: FrozenTrial) -> float:
    """The time at which a trial began, in seconds of UTC; the present time if it has no stamp."""
    when = trial.datetime_start or datetime.now()
    return float(trial.system_attrs.get(BEGUN, when.timestamp()))


def present_trials(
    trials: Sequence[FrozenTrial], lost_after: timedelta | None
) -> list[FrozenTrial]:
    """All trials but the running trials that count as lost.

    Args:
        trials: All trials.
        lost_after: Duration after which a running trial counts as lost; None for the default.
    """
    durations = [
        trial.duration
        for trial in trials
        if trial.state == TrialState.COMPLETE and trial.duration  # 0 for added trials
    ]
    earliest = time.time() - patience(durations, lost_after).total_seconds()
    lives = TrialState.RUNNING
    return [trial for trial in trials if trial.state != lives or started(trial) >= earliest]


@dataclass(frozen=True)
class TrialClock:
    """The times of trials as numbers, and their contexts.

    Args:
        key: Name of the user attribute that contains the time of a trial; None to use Optuna's time
            stamps.
        unit: Unit of time stamps.
        keys: Names of the user attributes that contain the context of a trial.

    Raises:
        ValueError: If the unit is not a positive timedelta.
    """

    key: str | None
    unit: timedelta
    keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_duration("DriftSampler: unit", self.unit)

    def measured(self, trial: FrozenTrial) -> float | None:
        """The time at which a trial was measured; None if the trial has no time."""
        if self.key is not None:
            return _attribute(trial, self.key) if self.key in trial.user_attrs else None
        if ENDED in trial.system_attrs:
            return float(trial.system_attrs[ENDED]) / self.unit.total_seconds()
        when = trial.datetime_complete or trial.datetime_start
        return None if when is None else self._number(when)

    def context(self, trial: FrozenTrial) -> tuple[float, ...] | None:
        """The context of a trial; None if a value is missing."""
        if any(key not in trial.user_attrs for key in self.keys):
            return None
        return tuple(_attribute(trial, key) for key in self.keys)

    def lacking(self, trial: FrozenTrial) -> str:
        """A user attribute that a trial lacks, in words; empty if the trial has all."""
        needed = [(key, "context") for key in self.keys]
        needed += [] if self.key is None else [(self.key, "time")]
        missing = (
            f"{key!r} with its {what}" for key, what in needed if key not in trial.user_attrs
        )
        return next(missing, "")

    def begun(self, trial: FrozenTrial) -> float:
        """The time for which the parameters of a trial are chosen.

        Raises:
            ValueError: If the trial lacks the user attribute with its time, or with its context.
        """
        require(
            not (missing := self.lacking(trial)),
            f"trial {trial.number} has no user attribute {missing}; call "
            f"trial.set_user_attr({missing.replace(' with its', ',')}) before the first suggest_.",
        )
        if self.key is None:
            return started(trial) / self.unit.total_seconds()
        return _attribute(trial, self.key)

    def present(self, now: float | datetime | None, times: Iterable[float]) -> float:
        """Convert ``now`` to a number.

        If ``now`` is None, the result is the newest trial's time if ``key`` is set, and otherwise
        the current time.

        Raises:
            ValueError: If ``now`` is of another kind than the times of the trials.
        """
        if self.key is not None:
            fix = f"give a number, like the values of {self.key!r}."
            return max(times) if now is None else require_number("now", now, "(-inf, inf)", fix)
        require(
            now is None or isinstance(now, datetime),
            f"now is {shown(now)}, but trials have time stamps; give a datetime or None.",
        )
        return self._number(cast(datetime | None, now) or datetime.now())

    def _number(self, when: datetime) -> float:
        # Time stamps have no zone; they are in the zone of this computer.
        return when.timestamp() / self.unit.total_seconds()


def _attribute(trial: FrozenTrial, key: str) -> float:
    name = f"trial {trial.number}: user attribute {key!r}"
    return require_number(name, trial.user_attrs[key], "(-inf, inf)", "give a number.")


def axis(distribution: BaseDistribution) -> Parameter:
    """The model's parameter for a distribution: a float, an integer or a category."""
    if isinstance(distribution, CategoricalDistribution):
        # Optuna stores the first of several equal choices, such as 1, 1.0 and True.
        every = enumerate(distribution.choices)
        return Choice(*(c for place, c in every if distribution.to_internal_repr(c) == place))
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    return Number(distribution.low, distribution.high, distribution.log, distribution.step)


class StudySpace(Space):
    """The space of the parameters of a study, in which every trial is a point.

    Args:
        distributions: A mapping from parameter names to distributions.
    """

    def __init__(self, distributions: Mapping[str, BaseDistribution]) -> None:
        self.distributions = dict(distributions)
        super().__init__({name: axis(distribution) for name, distribution in distributions.items()})
        self._points: dict[int, tuple[FrozenTrial, tuple[float, ...] | None]] = {}

    def held(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values, by name, that parameters of this space can have."""

        def has(name: str) -> bool:
            try:
                own = self.distributions[name]
                return own._contains(own.to_internal_repr(values[name]))
            except (KeyError, ValueError):
                return False

        return {name: value for name, value in values.items() if has(name)}

    def point_of(self, trial: FrozenTrial) -> tuple[float, ...] | None:
        """The point of a trial, `D`; None if a value is missing or has no place in this space.

        See :meth:`placed`. Points of finished trials are cached, because Optuna returns the same
        objects again.
        """
        before = self._points.get(trial.number)
        if before is not None and before[0] is trial:
            return before[1]
        placed, lacking = self.placed(trial.params)
        point = None if lacking else placed
        if trial.state.is_finished():
            self._points[trial.number] = (trial, point)
        return point


def modelled(trials: Sequence[FrozenTrial], least: int) -> dict[str, BaseDistribution]:
    """The newest distributions of the parameters that are modelled.

    A parameter is modelled if it has several possible values, and if all complete trials since its
    first trial have it. If it was added to a study, this takes ``least`` complete trials.

    Args:
        trials: All trials.
        least: Number of complete trials from which an added parameter is modelled.
    """
    complete = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    found = {}
    for name in sorted(complete[-1].distributions) if complete else ():
        has = [name in trial.distributions for trial in complete]
        if has == sorted(has) and (has[0] or sum(has) >= least):
            every = (trial.distributions.get(name) for trial in reversed(trials))
            found[name] = next(distribution for distribution in every if distribution is not None)
    return {name: distribution for name, distribution in found.items() if not distribution.single()}


def of_one_kind(name: str, distribution: BaseDistribution, trials: Sequence[FrozenTrial]) -> bool:
    """Whether all distributions of a parameter equal the given one but for range and step."""

    def kind(own: BaseDistribution) -> tuple[Any, ...]:
        return type(own), getattr(own, "log", None), getattr(own, "choices", None)

    every = (trial.distributions.get(name) for trial in trials)
    return all(own is None or kind(own) == kind(distribution) for own in every)


_logger: logging.Logger = optuna.logging.get_logger(__name__)


Trials = list[FrozenTrial]


def rows_of(
    trials: Sequence[FrozenTrial], space: StudySpace, clock: TrialClock, constraints: Sequence[str]
) -> list[Measurement]:
    """The finished trials of a study as rows of a log, in order of time.

    A trial that failed, or that has an infinite value, has the value None, as has a pruned trial
    without an earlier complete trial. Trials without a place in the space are dropped; trials
    without a time or a context are dropped with a warning. A failed trial without a time has the
    time of the newest trial before it.

    Args:
        trials: All trials, in order of number.
        space: The modelled parameters.
        clock: The times and contexts of trials.
        constraints: The names of the constraints, whose values follow the values of objectives.
    """
    placed = {
        trial.number: trial
        for trial in trials
        if trial.state.is_finished() and space.point_of(trial) is not None
    }
    newest, last, timed = max(placed, default=0), None, list[tuple[float, int, Point]]()
    for number, trial in placed.items():
        when, context = clock.measured(trial), clock.context(trial)
        failed = trial.state != TrialState.PRUNED and _values(trial, constraints) is None
        when = last if when is None and failed else when
        if when is not None and context is not None:
            last = when if last is None else max(last, when)
            timed.append((when, number, space.point(trial.params) + context))
        elif number > newest - RECENT:
            _logger.warning(
                f"DriftSampler drops trial {number}, which has no user attribute "
                f"{clock.lacking(trial)}; add the trial again by "
                "study.add_trial(create_trial(..., user_attrs=...))."
            )
    complete, rows = list[FrozenTrial](), list[Measurement]()
    for when, number, point in sorted(timed):
        trial, kind, y = placed[number], Measurement, _values(placed[number], constraints)
        if trial.state == TrialState.PRUNED:
            kind, bounded = Censored, complete and len(complete[0].values) == 1
            y = bound(trial, complete) if bounded else None
        elif y is not None:
            complete.append(trial)
        rows.append(trial_answer(when, number, point, y, kind))
    return rows


def bound(trial: FrozenTrial, earlier: Sequence[FrozenTrial]) -> float:
    """A bound on the value of a pruned trial, which would have been no better.

    The last intermediate value of the pruned trial has a rank among the values that the complete
    trials had at the same step. The bound is the final value with this rank among the complete
    trials. If none of them has a value at this step, the bound is their median.

    Args:
        trial: The pruned trial.
        earlier: The complete trials that ended before it, at least one.
    """
    step, given = trial.last_step, trial.intermediate_values
    last = math.nan if step is None else given[step]
    pairs = [
        (other.intermediate_values[step], other.values[0])
        for other in earlier
        if step in other.intermediate_values
    ]
    if not pairs or math.isnan(last):
        return float(median(other.values[0] for other in earlier))
    at_step, values = np.sort(np.array(pairs), axis=0).T
    return float(np.interp(last, at_step, values))


def constraints_of(trial: FrozenTrial) -> dict[str, float]:
    """The values of a trial's constraints by name; a constraint above 0 is violated."""
    if hasattr(trial, "constraints"):
        return dict(trial.constraints)
    given = trial.system_attrs.get("constraints") or ()  # Optuna 4
    return {str(number): value for number, value in enumerate(given)}


def _values(trial: FrozenTrial, constraints: Sequence[str]) -> Values:
    """The values of objectives and constraints, NaN if a constraint is missing.

    None if the trial failed, or if a value is infinite.
    """
    given = constraints_of(trial)
    every = (*(trial.values or ()), *(given.get(key, math.nan) for key in constraints))
    if trial.state != TrialState.COMPLETE or any(map(math.isinf, every)):
        return None
    return every if len(every) > 1 else every[0]
