"""When rules of retention are asked: before a round is decided, and once it is told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from botorch_tv.forgetting import Log, Observation
from botorch_tv.forgetting.parts import brought
from botorch_tv.inference.data import Data
from botorch_tv.inference.protocol import Inference
from botorch_tv.strategies.state import Memory, State

if TYPE_CHECKING:
    from botorch_tv.strategies.core import Strategy


def settled(inference: Inference, state: State, now: Tensor) -> tuple[Data, Tensor | None]:
    """What is left of the data when a round is decided at time ``now``, `batch_shape`.

    Returns:
        The data, and which trials have been reset, `batch_shape`, bool; None for none.
    """
    data, rules = state.data, inference.process.retention
    if not rules or data.rounds == data.dropped:
        return data, None
    logs = _logs(state, data, now, data.since, None)
    after, change = data.keep(rule.keep(log) for rule, log in zip(rules, logs))
    return inference.keep(data, after, change), change.reset


def told(
    inference: Inference,
    state: State,
    before: Data,
    after: Data,
    newest: Observation,
    *,
    consume: bool,
) -> tuple[Data, Tensor | None]:
    """The data once the newest row of the log, which ``after`` has, has been taken in.

    Args:
        inference: How the posterior is computed.
        state: Before the round.
        before: The data when the round was decided.
        after: The same with one row more.
        newest: The observation.
        consume: Whether the memory of ``before`` may be reused.

    Returns:
        As :func:`settled`.
    """
    rules = inference.process.retention
    logs = _logs(state, after, after.time, before.since, newest)
    data, change = after.keep(rule.keep(log) for rule, log in zip(rules, logs))
    return inference.observe(before, data, change, consume=consume), change.reset


def remembered(strategy: Strategy, state: State, newest: Observation, reset: Tensor) -> Memory:
    """What parts remember after a round.

    Args:
        strategy: Whose parts.
        state: After the round, its memory still that of before.
        newest: The observation.
        reset: Which trials were reset in the round, `batch_shape`, bool.
    """
    data, own = state.data, state.memory
    logs = _logs(state, data, data.time, data.since, newest, reset)
    rules = [rule.update(log) for rule, log in zip(strategy.process.retention, logs)]
    seen = replace(_log(state, data, data.time, data.since, newest, reset), memory=own.exploration)
    memory = Memory(tuple(rules), strategy.exploration.update(seen))
    kept: Memory = brought(memory, data.prior.variance.dtype, data.time.device)
    return kept


def _logs(
    state: State,
    data: Data,
    now: Tensor,
    since: Tensor,
    newest: Observation | None,
    reset: Tensor | None = None,
) -> list[Log]:
    """The log as each rule sees it."""
    log = _log(state, data, now, since, newest, reset)
    return [replace(log, memory=one) for one in state.memory.retention]


def _log(
    state: State,
    data: Data,
    now: Tensor,
    since: Tensor,
    newest: Observation | None,
    reset: Tensor | None = None,
) -> Log:
    history, first = data.history, data.dropped

    def points() -> Tensor:
        return state.domain.points(history.choice.tensor(first), data.prior.variance)

    return Log(
        time=history.time.tensor(first),
        y=history.y.tensor(first),
        noise=history.noise.tensor(first),
        now=now,
        rounds=data.rounds,
        since=since,
        first_time=data.first_time,
        newest=newest,
        reset=torch.zeros_like(now, dtype=torch.bool) if reset is None else reset,
        points=points,
        left=lambda: data.kept,
    )
