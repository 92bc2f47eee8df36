"""The times of trials."""

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
    """Times of trials, as numbers.

    Args:
        key: Name of the user attribute with the time; None for Optuna's time stamps.
        unit: Unit of time stamps.

    Raises:
        ValueError: If the unit is no positive span of time.
    """

    key: str | None
    unit: timedelta

    def __post_init__(self) -> None:
        require(
            isinstance(self.unit, timedelta) and self.unit > timedelta(0),
            f"DriftSampler: unit is {shown(self.unit)}, but it must be a positive span of time; "
            "give timedelta(hours=1).",
        )

    def measured(self, trial: FrozenTrial) -> float | None:
        """The time at which a trial was measured; None if unknown."""
        if self.key is not None:
            return self._attribute(trial) if self.key in trial.user_attrs else None
        when = trial.datetime_complete or trial.datetime_start
        return None if when is None else self._number(when)

    def begun(self, trial: FrozenTrial) -> float:
        """The time for which the parameters of a trial are chosen.

        Raises:
            ValueError: If its time should be in a user attribute that it lacks.
        """
        if self.key is None:
            return self._number(trial.datetime_start or datetime.now())
        require(
            self.key in trial.user_attrs,
            f"trial {trial.number} has no user attribute {self.key!r}, so what time it is for is "
            f"not known; call trial.set_user_attr({self.key!r}, time) before the first suggest_.",
        )
        return self._attribute(trial)

    def present(self, now: float | datetime | None, times: Iterable[float]) -> float:
        """The time now: as given, else by the clock, else that of the newest trial.

        Raises:
            ValueError: If it is of another kind than the times of the trials.
        """
        if self.key is not None:
            fix = f"give a number, as {self.key!r} has them."
            return max(times) if now is None else require_number("now", now, "(-inf, inf)", fix)
        require(
            now is None or isinstance(now, datetime),
            f"now is {shown(now)}, but trials have time stamps; give a datetime, or leave it out.",
        )
        return self._number(cast(datetime | None, now) or datetime.now())

    def _attribute(self, trial: FrozenTrial) -> float:
        assert self.key is not None
        name = f"trial {trial.number}: user attribute {self.key!r}"
        return require_number(name, trial.user_attrs[self.key], "(-inf, inf)", "give a number.")

    def _number(self, when: datetime) -> float:
        # Time stamps have no zone; they are read in that of this computer, with its summer time.
        return when.timestamp() / self.unit.total_seconds()


def axis(distribution: BaseDistribution) -> Parameter:
    """The parameter of a distribution: a float, an integer or a category."""
    if isinstance(distribution, CategoricalDistribution):
        return Choice(*distribution.choices)
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    return Number(distribution.low, distribution.high, distribution.log, distribution.step)


class StudySpace(Space):
    """Parameters of a study side by side.

    Args:
        distributions: By name.
    """

    def __init__(self, distributions: Mapping[str, BaseDistribution]) -> None:
        self.distributions = dict(distributions)
        super().__init__({name: axis(one) for name, one in distributions.items()})
        self._known: dict[int, tuple[FrozenTrial, tuple[float, ...] | None]] = {}

    def point_of(self, trial: FrozenTrial) -> tuple[float, ...] | None:
        """Where a trial lies, `D` numbers; None unless it has a value of each, of the same ranges.

        Optuna changes no trial that is finished, and hands out the same object again: what was
        found of it is kept, since comparing distributions of all trials takes long.
        """
        before = self._known.get(trial.number)
        if before is not None and before[0] is trial:
            return before[1]
        # A range may have been left by ``enqueue_trial``, which Optuna lets pass with a warning.
        holds = self.asks(trial) and self.covers(trial.params)
        found = (trial, self.point(trial.params) if holds else None)
        if trial.state.is_finished():
            self._known[trial.number] = found
        return found[1]

    def asks(self, trial: FrozenTrial) -> bool:
        """Whether a trial has chosen a value of each, from the same distributions."""
        pairs = self.distributions.items()
        return all(trial.distributions.get(name) == one for name, one in pairs)


CERTAIN = 4
"""Failures that a constraint above 0 counts as."""
_logger: logging.Logger = optuna.logging.get_logger(__name__)


Trials = list[FrozenTrial]


def sort(
    trials: Sequence[FrozenTrial], space: StudySpace, clock: TrialClock
) -> tuple[list[tuple[float, FrozenTrial]], Trials, Trials, Trials, Trials]:
    """Sort the trials of a study.

    Args:
        trials: All trials.
        space: The parameters modelled. Trials without one of them are left out; those with a value
            out of range, with a warning.
        clock: The times of trials. Complete trials without a time are left out with a warning.

    Returns:
        Complete, feasible and finite trials, with the time of measurement; failed, infeasible or
        infinite ones; pruned ones, of the newest ``RECENT`` that have ended; running ones with
        parameters, of the newest ``RECENT``; running ones whose parameters are not all known yet.
    """
    valued, failed, pruned, running, undecided = [], [], [], [], []
    recent = {one.number for one in [one for one in trials if one.state.is_finished()][-RECENT:]}
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
                    f"Trial {trial.number} has no user attribute {clock.key!r}, so when it was "
                    "measured is not known, and DriftSampler leaves it out; add it once more by "
                    "study.add_trial(create_trial(..., user_attrs=...))."
                )
        elif trial.state == TrialState.COMPLETE and trial.number in recent and space.asks(trial):
            _logger.warning(
                f"Trial {trial.number} has {trial.params}, which is out of range of "
                f"{space.distributions}, so DriftSampler leaves it out; give suggest_ a range that "
                "holds it."
            )
    return valued, failed, pruned, running[-RECENT:], undecided


def _has_value(trial: FrozenTrial) -> bool:
    """Whether a trial has a finite value and satisfies the constraints."""
    if trial.state != TrialState.COMPLETE or len(trial.values) != 1:
        return False
    return math.isfinite(trial.values[0]) and not _infeasible(trial)


def failures(trial: FrozenTrial) -> int:
    """As how many failures a trial counts; what violates a constraint is no glitch."""
    return CERTAIN if _infeasible(trial) else 1


def _infeasible(trial: FrozenTrial) -> bool:
    if hasattr(trial, "constraints"):
        return any(one > 0 for one in trial.constraints.values())
    return any(one > 0 for one in trial.system_attrs.get("constraints") or ())  # of Optuna 4
