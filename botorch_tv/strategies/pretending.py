"""Measurements that nobody has made yet, pretended to have given something."""

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
    strategy: Strategy, state: State, X: Tensor, time: float, least: float | None = None
) -> State:
    """The state as if a point had given the mean predicted, or ``least`` where that is worse.

    While nothing is predicted yet it is ``least``, and without it but a round that passed: what
    nobody measured sets no units.

    Args:
        strategy: Whose state it is; see :func:`credulous`.
        state: Of one trial.
        X: The point with its context, `d + c`.
        time: When.
        least: What it gave, if the mean is no worse; None for the mean.
    """
    suggestion = strategy.suggestion_at(state, X, now=time)
    value, predicts, ok = suggestion.mean, bool(strategy.predicts(state)), None
    if least is not None:
        worse = torch.minimum if strategy.maximize else torch.maximum
        bound = torch.full_like(value, least)
        value = worse(value, bound) if predicts else bound
    elif not predicts:
        ok = torch.zeros_like(value, dtype=torch.bool)
    return strategy.tell(state, suggestion, value, ok=ok)[0]


def credulous(strategy: Strategy) -> Strategy:
    """The strategy without what pretended answers must not set off; it makes the same choices.

    Nor does it cry for an expert: the rounds that are pretended are no reason to.
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
