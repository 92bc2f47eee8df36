"""Optuna's distributions as axes of a space."""

from __future__ import annotations

from collections.abc import Mapping

from botorch.exceptions import InputDataError
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial

from botorch_tv.strategies.parameters import Axis, Choice, Number, Space
from botorch_tv.validation import shown


def axis(name: str, distribution: BaseDistribution) -> Axis:
    """The axis of a parameter.

    Raises:
        InputDataError: If its distribution is unknown.
    """
    if isinstance(distribution, CategoricalDistribution):
        return Axis(name, Choice(*distribution.choices))
    if isinstance(distribution, (FloatDistribution, IntDistribution)):
        one = distribution
        return Axis(name, Number(one.low, one.high, one.log, one.step))
    raise InputDataError(
        f"{name!r} has the distribution {shown(distribution)}, but floats, integers and categories "
        "are known; choose among these."
    )


class StudySpace(Space):
    """Parameters of a study side by side.

    Args:
        distributions: By name.
    """

    def __init__(self, distributions: Mapping[str, BaseDistribution]) -> None:
        self.distributions = dict(distributions)
        super().__init__([axis(name, one) for name, one in distributions.items()])
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

    def holds(self, trial: FrozenTrial) -> bool:
        """Whether a trial has a value of each that lies in the range of all."""
        return self.point_of(trial) is not None
