"""The times of trials."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from optuna.trial import FrozenTrial

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
            self.key is None or isinstance(self.key, str),
            f"DriftSampler: time_key is {shown(self.key)}, but it must be the name of a user "
            "attribute, or None for the trials' time stamps.",
        )
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
            return (
                max(times)
                if now is None
                else require_number(
                    "now", now, "(-inf, inf)", f"give a number, as {self.key!r} has them."
                )
            )
        require(
            now is None or (isinstance(now, datetime) and now.tzinfo is None),
            f"now is {shown(now)}, but trials have time stamps; give a datetime without time zone, "
            "as Optuna's are, or leave it out.",
        )
        assert now is None or isinstance(now, datetime)
        return self._number(now or datetime.now())

    def _attribute(self, trial: FrozenTrial) -> float:
        assert self.key is not None
        name = f"trial {trial.number}: user attribute {self.key!r}"
        return require_number(name, trial.user_attrs[self.key], "(-inf, inf)", "give a number.")

    def _number(self, when: datetime) -> float:
        # Time stamps have no zone; they are read in that of this computer, with its summer time.
        return when.timestamp() / self.unit.total_seconds()
