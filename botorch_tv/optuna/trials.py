"""The trials of a study, sorted into those with a value, running ones, and failed ones."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import NamedTuple

import optuna
from optuna.trial import FrozenTrial, TrialState

from botorch_tv.optuna.clock import TrialClock
from botorch_tv.optuna.space import StudySpace
from botorch_tv.strategies.trial_history import RECENT

CERTAIN = 4
"""Failures that a constraint above 0 counts as."""
_logger: logging.Logger = optuna.logging.get_logger(__name__)


class Sorted(NamedTuple):
    """The trials that a model of some parameters can use."""

    valued: list[tuple[float, FrozenTrial]]
    """Complete, feasible and finite, with the time of measurement."""
    failed: list[FrozenTrial]
    """Failed, infeasible or infinite."""
    pruned: list[FrozenTrial]
    """Pruned, of the newest ``RECENT`` that have ended."""
    running: list[FrozenTrial]
    """With parameters and without an end, of the newest ``RECENT``."""
    undecided: list[FrozenTrial]
    """Running trials whose parameters are not all known yet."""


def sort(trials: Sequence[FrozenTrial], space: StudySpace, clock: TrialClock) -> Sorted:
    """Sort the trials of a study.

    Args:
        trials: All trials.
        space: The parameters modelled. Trials without one of them are left out; those with a value
            out of range, with a warning.
        clock: The times of trials. Complete trials without a time are left out with a warning.
    """
    found = Sorted([], [], [], [], [])
    ended = [one for one in trials if one.state.is_finished()]
    recent = {one.number for one in ended[-RECENT:]}
    for trial in trials:
        if trial.state == TrialState.RUNNING:
            if space.holds(trial):
                found.running.append(trial)
            elif not space.asks(trial):
                found.undecided.append(trial)
        elif trial.state.is_finished() and space.holds(trial):
            if trial.state == TrialState.PRUNED:
                if trial.number in recent:
                    found.pruned.append(trial)
            elif not _has_value(trial):
                found.failed.append(trial)
            elif (time := clock.measured(trial)) is not None:
                found.valued.append((time, trial))
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
    del found.running[:-RECENT]
    return found


def _has_value(trial: FrozenTrial) -> bool:
    """Whether a trial has a finite value and satisfies the constraints."""
    if trial.state != TrialState.COMPLETE or len(trial.values) != 1:
        return False
    return math.isfinite(trial.values[0]) and not _infeasible(trial)


def failures(trial: FrozenTrial) -> int:
    """As how many failures a trial counts; what violates a constraint is no glitch."""
    return CERTAIN if _infeasible(trial) else 1


def _infeasible(trial: FrozenTrial) -> bool:
    return any(one > 0 for one in _constraints(trial))


def _constraints(trial: FrozenTrial) -> Sequence[float]:
    if hasattr(trial, "constraints"):
        return list(trial.constraints.values())
    return trial.system_attrs.get("constraints") or ()  # as Optuna 4 keeps them
