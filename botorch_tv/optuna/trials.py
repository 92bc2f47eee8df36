"""Trials of a study: their times, parameters and kinds."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState

from botorch_tv.loop.log import RECENT
from botorch_tv.strategies.parameters import Choice, Number, Parameter, Space
from botorch_tv.validation import require, require_number, shown


@dataclass(frozen=True)
class TrialClock:
    """The times of trials as numbers.

    Args:
        key: Name of the user attribute that contains the time of a trial; None to use Optuna's time
            stamps.
        unit: Unit of time stamps.

    Raises:
        ValueError: If the unit is not a positive timedelta.
    """

    key: str | None
    unit: timedelta

    def __post_init__(self) -> None:
        require(
            isinstance(self.unit, timedelta) and self.unit > timedelta(0),
            f"DriftSampler: unit is {shown(self.unit)}, but it must be a positive timedelta; give "
            "timedelta(hours=1).",
        )

    def measured(self, trial: FrozenTrial) -> float | None:
        """The time at which a trial was measured; None if the trial has no time."""
        if self.key is not None:
            return self._attribute(trial) if self.key in trial.user_attrs else None
        when = trial.datetime_complete or trial.datetime_start
        return None if when is None else self._number(when)

    def begun(self, trial: FrozenTrial) -> float:
        """The time for which the parameters of a trial are chosen.

        Raises:
            ValueError: If the trial lacks the user attribute with its time.
        """
        if self.key is None:
            return self._number(trial.datetime_start or datetime.now())
        require(
            self.key in trial.user_attrs,
            f"trial {trial.number} has no user attribute {self.key!r} with its time; call "
            f"trial.set_user_attr({self.key!r}, time) before the first suggest_.",
        )
        return self._attribute(trial)

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

    def _attribute(self, trial: FrozenTrial) -> float:
        assert self.key is not None
        name = f"trial {trial.number}: user attribute {self.key!r}"
        return require_number(name, trial.user_attrs[self.key], "(-inf, inf)", "give a number.")

    def _number(self, when: datetime) -> float:
        # Time stamps have no zone; they are in the zone of this computer.
        return when.timestamp() / self.unit.total_seconds()


def axis(distribution: BaseDistribution) -> Parameter:
    """The model's parameter for a distribution: a float, an integer or a category."""
    if isinstance(distribution, CategoricalDistribution):
        return Choice(*distribution.choices)
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

    def point_of(self, trial: FrozenTrial) -> tuple[float, ...] | None:
        """The point of a trial, `D`; None for a trial whose parameters do not fit this space.

        Points of finished trials are cached, because Optuna returns the same objects again.
        """
        before = self._points.get(trial.number)
        if before is not None and before[0] is trial:
            return before[1]
        # An enqueued trial may have values out of range.
        holds = self.asks(trial) and self.covers(trial.params)
        found = (trial, self.point(trial.params) if holds else None)
        if trial.state.is_finished():
            self._points[trial.number] = found
        return found[1]

    def asks(self, trial: FrozenTrial) -> bool:
        """Whether a trial has all parameters of this space, with the same distributions."""
        pairs = self.distributions.items()
        return all(trial.distributions.get(name) == own for name, own in pairs)


CERTAIN = 4
"""Weight of a violated constraint, as a number of failures."""
_logger: logging.Logger = optuna.logging.get_logger(__name__)


Trials = list[FrozenTrial]


def sort(
    trials: Sequence[FrozenTrial], space: StudySpace, clock: TrialClock
) -> tuple[list[tuple[float, FrozenTrial]], Trials, Trials, Trials, Trials]:
    """Sort the trials of a study.

    Args:
        trials: All trials.
        space: The modelled parameters. Ended trials that lack a parameter are dropped. Complete
            trials with a parameter value out of range are dropped with a warning.
        clock: The times of trials. Complete trials without a time are dropped with a warning.

    Returns:
        Five lists of trials. The first list contains complete and feasible trials with a finite
        value, each with the time of its measurement. The second list contains trials that failed,
        are infeasible or have an infinite value. The third list contains the pruned trials among
        the newest ``RECENT`` ended trials. The fourth list contains the newest ``RECENT`` of the
        running trials that have all parameters. The fifth list contains the running trials that
        lack a parameter.
    """
    valued, failed, pruned, running, undecided = [], [], [], [], []
    ended = [trial for trial in trials if trial.state.is_finished()]
    recent = {trial.number for trial in ended[-RECENT:]}
    for trial in trials:
        if trial.state == TrialState.RUNNING:
            if space.point_of(trial) is not None:
                running.append(trial)
            elif not space.asks(trial):
                undecided.append(trial)
        elif trial.state.is_finished() and space.point_of(trial) is not None:
            if trial.state == TrialState.PRUNED:
                if trial.number in recent:
                    pruned.append(trial)
            elif not _has_value(trial):
                failed.append(trial)
            elif (time := clock.measured(trial)) is not None:
                valued.append((time, trial))
            elif trial.number in recent:
                _logger.warning(
                    f"DriftSampler drops trial {trial.number}, which has no user attribute "
                    f"{clock.key!r} with its time; add the trial again by "
                    "study.add_trial(create_trial(..., user_attrs=...))."
                )
        elif trial.state == TrialState.COMPLETE and trial.number in recent and space.asks(trial):
            _logger.warning(
                f"DriftSampler drops trial {trial.number}: {trial.params} is out of range of "
                f"{space.distributions}; give suggest_ a wider range."
            )
    return valued, failed, pruned, running[-RECENT:], undecided


def _has_value(trial: FrozenTrial) -> bool:
    """Whether a trial has a finite value and satisfies the constraints."""
    if trial.state != TrialState.COMPLETE or len(trial.values) != 1:
        return False
    return math.isfinite(trial.values[0]) and not _infeasible(trial)


def failures(trial: FrozenTrial) -> int:
    """The weight of a failed trial, ``CERTAIN`` if a constraint is violated and 1 otherwise."""
    return CERTAIN if _infeasible(trial) else 1


def _infeasible(trial: FrozenTrial) -> bool:
    if hasattr(trial, "constraints"):
        return any(value > 0 for value in trial.constraints.values())
    return any(value > 0 for value in trial.system_attrs.get("constraints") or ())  # Optuna 4
