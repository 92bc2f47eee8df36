"""Retention: which observations are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from botorch_tv.forgetting.base import Log, Retained, Retention
from botorch_tv.validation import require, settle_integer, settle_number, shown

Clock = Literal["rounds", "time"]


@dataclass(frozen=True)
class KeepAll(Retention):
    """Keep every observation."""

    @property
    def on_observation(self) -> bool:
        return type(self) is KeepAll

    def keep(self, log: Log) -> Retained:
        return Retained()


def _settle_length(rule: PeriodicReset | SlidingWindow, name: str) -> None:
    require(
        rule.by in ("rounds", "time"),
        f"{type(rule).__name__}: by is {rule.by!r}; choose 'rounds' or 'time'.",
    )
    if rule.by == "rounds":
        settle_integer(rule, name, 1, "give whole rounds, or by='time' for units of time.")
    else:
        settle_number(rule, name, "(0, inf)", "it is a length of time; by='rounds' counts rounds.")


@dataclass(frozen=True)
class PeriodicReset(Retention):
    """Forget everything every N rounds: before deciding round t when (t - 1) mod N = 0.

    [B16] Algorithm 1.

    Args:
        period: N, in rounds (at least 1), or in units of time since the first observation.
        by: ``"rounds"`` or ``"time"``.

    Raises:
        ValueError: If ``period`` is below 1 round, or not a positive time.
    """

    period: float
    by: Clock = "rounds"

    def __post_init__(self) -> None:
        _settle_length(self, "period")

    def keep(self, log: Log) -> Retained:
        if self.by == "time":
            current = self._number(log.now, log)
            # Times are in order, so that nothing of this period is newer than a row of an older.
            ended = self._number(log.time[..., -1], log) < current
            rows = self._number(log.time, log) == current.unsqueeze(-1)
            return Retained(rows=rows, reset=ended if log.newest is None else False)
        if log.newest is not None:
            return Retained()  # a period ends before a round is decided, not within one
        over = log.rounds % int(self.period)
        return Retained(newest=over, reset=over == 0)

    def _number(self, time: Tensor, log: Log) -> Tensor:
        """Number of the period that holds a time, counted from 0 at the first observation."""
        first = log.first_time if time.dim() == log.now.dim() else log.first_time.unsqueeze(-1)
        return torch.floor((time - first) / self.period)


@dataclass(frozen=True)
class SlidingWindow(Retention):
    """Keep the newest W observations, as SW-GP-UCB does in [W22] and [ET] Appendix A.

    Args:
        window: W, in rounds (at least 1), or the largest age to keep in units of time.
        by: ``"rounds"`` or ``"time"``.

    Raises:
        ValueError: If ``window`` is below 1 round, or not a positive time.
    """

    window: float
    by: Clock = "rounds"

    def __post_init__(self) -> None:
        _settle_length(self, "window")

    @property
    def on_observation(self) -> bool:
        return self.by == "rounds"

    def keep(self, log: Log) -> Retained:
        if self.by == "time":
            return Retained(rows=log.now.unsqueeze(-1) - log.time <= self.window)
        return Retained(newest=int(self.window))


def require_rules(retention: object) -> None:
    """Raise a ``ValueError`` unless it is a rule, or a tuple of rules."""
    rules = retention if isinstance(retention, tuple) else (retention,)
    for rule in rules:
        require(
            isinstance(rule, Retention),
            f"Strategy: retention is {shown(rule)}, but it must be a Retention, or a tuple of "
            "them; KeepAll() keeps everything, SlidingWindow(window) the newest.",
        )
