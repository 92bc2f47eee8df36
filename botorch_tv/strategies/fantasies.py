"""Fantasies: pending points treated as measured, so that the next choice goes elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Size, Tensor

from botorch_tv.forgetting import KeepAll, Kept, Log, Retention
from botorch_tv.inference.process import BY_COUNT_OR_TIME
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.state import State


def as_if_measured(
    strategy: Strategy, state: State, X: Tensor, time: float, limit: float | None = None
) -> State:
    """The state as if the observation at a point were its predicted mean, or ``limit`` if worse.

    Before there are predictions, the observation is ``limit`` or, without it, a failed measurement:
    a fantasy must not set the units.

    Args:
        strategy: The strategy of the state; see :func:`for_fantasies`.
        state: Of one trial.
        X: The point with its context, `d + c`.
        time: Time of the measurement.
        limit: Upper bound on the observation (lower bound when minimising); None for none.
    """
    suggestion = strategy.suggestion_at(state, X, now=time)
    value, predicts, ok = suggestion.mean, bool(strategy.predicts(state)), None
    if limit is not None:
        worse = torch.minimum if strategy.maximize else torch.maximum
        bound = torch.full_like(value, limit)
        value = worse(value, bound) if predicts else bound
    elif not predicts:
        ok = torch.zeros_like(value, dtype=torch.bool)
    return strategy.tell(state, suggestion, value, ok=ok)[0]


def for_fantasies(strategy: Strategy) -> Strategy:
    """The strategy without triggers, learning and expert, which fantasies must not set off.

    Given the same data it makes the same choices.
    """
    strategy = strategy.without_expert()
    if not strategy.process.reacts and strategy.learning is None:
        return strategy
    rules = [
        rule if type(rule) in BY_COUNT_OR_TIME else Undisturbed(rule)
        for rule in strategy.process.retention
    ]
    quiet = tuple(rules) if rules else KeepAll()
    return replace(strategy, retention=quiet, learning=None)


@dataclass(frozen=True)
class Undisturbed(Retention):
    """A retention, whichever it is, that sees no new observation and remembers none.

    Args:
        rule: The retention.
    """

    rule: Retention

    def init(self, batch_shape: Size) -> Any:
        return self.rule.init(batch_shape)

    def keep(self, log: Log) -> Kept | Tensor:
        return self.rule.keep(log.before_a_choice())
