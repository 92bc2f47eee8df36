"""When rules of retention are asked: before a round is decided, and once it is told."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.acquisition import Exploration
from botorch_tv.forgetting import EventTrigger, Kept, Log, Observation, Retention
from botorch_tv.forgetting.parts import Part, as_memory
from botorch_tv.identity.source import is_ours
from botorch_tv.inference.data import Data, checked
from botorch_tv.inference.protocol import Inference
from botorch_tv.inference.tensors import writes
from botorch_tv.strategies.state import Memory, State


def retained_at(inference: Inference, state: State, now: Tensor) -> tuple[Data, Tensor | None]:
    """What is left of the data when a round is decided at time ``now``, `batch_shape`.

    Returns:
        The data, and which trials have been reset, `batch_shape`, bool; None for none.
    """
    data, rules = state.data, inference.process.retention
    if not rules or data.rounds == data.dropped:
        return data, None
    after, change = data.keep(rule_answers(rules, state, data, now, data.since))
    return inference.keep(data, after, change), change.reset


def rule_answers(
    rules: tuple[Retention, ...],
    state: State,
    data: Data,
    now: Tensor,
    since: Tensor,
    newest: Observation | None = None,
) -> Iterator[Kept | Tensor]:
    """What each rule says is kept.

    Args:
        rules: Of retention.
        state: Where they have their memory.
        data: What they are asked about.
        now: When, `batch_shape`.
        since: Rounds since the last reset, `batch_shape`.
        newest: The observation just made; None before a choice.

    Raises:
        InputDataError: If somebody's own rule writes into the log, or a function of theirs into
            what an event trigger shows it.
    """
    for rule, memory in zip(rules, state.memory.retention):
        log = _log(state, data, now, since, memory, newest)
        with _read_only(rule, "keep", data, newest):
            answer = rule.keep(log)
        if not _ours(rule):
            answer = checked(answer, data.time, data.rounds - data.dropped)
            answer = copy.deepcopy(answer)  # the next may come in the same memory
        yield answer


def updated_memory(
    rules: tuple[Retention, ...],
    exploration: Exploration,
    state: State,
    newest: Observation,
    reset: Tensor,
) -> Memory:
    """What parts remember after a round.

    Args:
        rules: Of retention.
        exploration: The rule of choice.
        state: After the round, its memory still that of before.
        newest: The observation.
        reset: Which trials were reset in the round, `batch_shape`, bool.

    Raises:
        InputDataError: If somebody's own part writes into the log.
    """
    data, own = state.data, state.memory
    facts = (state, data, data.time, data.since)

    def updated(part: Part, memory: Any) -> Any:
        with _read_only(part, "update", data, newest):
            made = part.update(_log(*facts, memory, newest, reset))
        return as_memory(part, made, memory, data.prior.variance, reset.shape)

    return Memory(
        tuple(updated(rule, memory) for rule, memory in zip(rules, own.retention)),
        updated(exploration, own.exploration),
    )


@contextmanager
def _read_only(part: Part, method: str, data: Data, newest: Observation | None) -> Iterator[None]:
    """Raise an ``InputDataError`` if a part defined outside this package writes into its log."""
    if _ours(part):
        yield
        return
    before = _writes(data, newest)
    yield
    if _writes(data, newest) != before:
        triggered = isinstance(part, EventTrigger)
        name = f"the rule {part!r}" if triggered else f"{type(part).__name__}.{method}"
        raise InputDataError(
            f"{name} writes into what it is shown, which states share: this one is damaged. "
            "Compute without in-place operations, or on log.time.clone()."
        )


def _ours(part: Part) -> bool:
    """Whether a part, and the function that an event trigger calls, belong to this package."""
    return is_ours(type(part)) and (not isinstance(part, EventTrigger) or is_ours(part.rule))


def _writes(data: Data, newest: Observation | None) -> int:
    """How often anybody has written into tensors that a log shows."""
    rows = [one.tensor() for one in data.history]
    return writes(*rows, data.time, data.first_time, data.since, *(newest or ()))


class _Rows:
    """The rows of some data."""

    def __init__(self, state: State, data: Data) -> None:
        self._domain, self._data = state.domain, data

    @property
    def time(self) -> Tensor:
        return self._data.history.time.tensor(self._data.dropped)

    @property
    def y(self) -> Tensor:
        y, mask = self._data.history.y.tensor(self._data.dropped), self._data.mask
        return y if mask is None else torch.where(mask, y, 0.0)

    @property
    def noise(self) -> Tensor:
        noise, mask = self._data.history.noise.tensor(self._data.dropped), self._data.mask
        return noise if mask is None else torch.where(mask, noise, torch.inf)

    @property
    def X(self) -> Tensor:
        choice = self._data.history.choice.tensor(self._data.dropped)
        return self._domain.points(choice, self._data.prior.variance)

    @property
    def kept(self) -> Tensor:
        return self._data.kept


def _log(
    state: State,
    data: Data,
    now: Tensor,
    since: Tensor,
    memory: Any,
    newest: Observation | None,
    reset: Tensor | None = None,
) -> Log:
    return Log(
        _Rows(state, data),
        now=now,
        rounds=data.rounds,
        since=since,
        first_time=data.first_time,
        newest=newest,
        reset=reset,
        memory=memory,
    )
