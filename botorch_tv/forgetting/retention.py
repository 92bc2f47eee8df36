"""Rules that decide which observations are retained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.forgetting.base import Lifetime, Log, Retained, Retention
from botorch_tv.validation import require, settle_integer, settle_number, shown

Clock = Literal["rounds", "time"]


@dataclass(frozen=True)
class KeepAll(Retention):
    """Retain every observation."""

    on_observation = True
    retained_for = Lifetime()

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
        settle_number(rule, name, "(0, inf)", "give a length of time, or by='rounds'.")


@dataclass(frozen=True)
class PeriodicReset(Retention):
    """Forget all observations every N rounds: before each round t with (t - 1) mod N = 0.

    R-GP-UCB uses periodic resets, [B16] Algorithm 1.

    Args:
        period: Length N of a period: a number of rounds, at least 1, or a positive length of time.
            The first period starts at the first observation.
        by: Unit of ``period``: ``"rounds"`` or ``"time"``.

    Raises:
        ValueError: If ``period`` is below 1 (in rounds), or not positive (in units of time).
    """

    period: float
    by: Clock = "rounds"

    def __post_init__(self) -> None:
        _settle_length(self, "period")

    @property
    def retained_for(self) -> Lifetime:  # type: ignore[override]
        in_rounds = self.by == "rounds"
        return Lifetime(period=int(self.period)) if in_rounds else Lifetime(span=self.period)

    def keep(self, log: Log) -> Retained:
        if self.by == "time":
            current = self._number(log.now, log)
            # Times are in order, so the last row decides whether a period has ended.
            ended = self._number(log.time[..., -1], log) < current
            rows = self._number(log.time, log) == current.unsqueeze(-1)
            return Retained(rows=rows, reset=ended if log.newest is None else False)
        if log.newest is not None:
            return Retained()  # a period ends before a choice, never after an observation
        over = log.rounds % int(self.period)
        return Retained(newest=over, reset=over == 0)

    def _number(self, time: Tensor, log: Log) -> Tensor:
        """Number of the period that contains a time, counted from 0 at the first observation."""
        first = log.first_time if time.dim() == log.now.dim() else log.first_time.unsqueeze(-1)
        return torch.floor((time - first) / self.period)


@dataclass(frozen=True)
class SlidingWindow(Retention):
    """Retain the newest W observations, as SW-GP-UCB does in [W22] and [ET] Appendix A.

    Args:
        window: Length W of the window: a number of rounds, at least 1; or a positive length of
            time, the largest age of a retained observation.
        by: Unit of ``window``: ``"rounds"`` or ``"time"``.

    Raises:
        ValueError: If ``window`` is below 1 (in rounds), or not positive (in units of time).
    """

    window: float
    by: Clock = "rounds"

    def __post_init__(self) -> None:
        _settle_length(self, "window")

    @property
    def on_observation(self) -> bool:  # type: ignore[override]
        return self.by == "rounds"

    @property
    def retained_for(self) -> Lifetime:  # type: ignore[override]
        in_rounds = self.by == "rounds"
        return Lifetime(window=int(self.window)) if in_rounds else Lifetime(span=self.window)

    def keep(self, log: Log) -> Retained:
        if self.by == "time":
            return Retained(rows=log.now.unsqueeze(-1) - log.time <= self.window)
        return Retained(newest=int(self.window))


def require_rules(retention: object) -> None:
    """Raise a ``ValueError`` unless ``retention`` is a Retention or a tuple of Retentions."""
    rules = retention if isinstance(retention, tuple) else (retention,)
    for rule in rules:
        require(
            isinstance(rule, Retention),
            f"Strategy: retention is {shown(rule)}, but it must be a Retention or a tuple of "
            "Retentions, such as KeepAll() or SlidingWindow(window).",
        )


def checked(answer: Retained | Tensor, time: Tensor, rows: int) -> Retained:
    """Check the answer of a retention rule, and return it as a ``Retained``.

    Args:
        answer: The result of ``keep``.
        time: Time of the newest observation, `batch_shape`.
        rows: Number n of rows in the log that was passed to the rule.

    Raises:
        InputDataError: If the answer has a wrong type or shape, or if it contradicts itself.
    """
    retained = Retained(rows=answer) if isinstance(answer, Tensor) else answer
    if not isinstance(retained, Retained):
        raise InputDataError(
            f"a retention returned {shown(answer)}, but keep() must return a Retained, such as "
            "Retained(newest=20), or a bool tensor of shape batch_shape x n."
        )
    newest, where, each = retained.newest, retained.where, time.shape
    for name in ("rows", "aside", "where", "reset"):
        mask, shape = getattr(retained, name), (*each, rows) if name in ("rows", "aside") else each
        if mask is None or (name == "reset" and isinstance(mask, bool)):
            continue
        found = (mask.dtype, mask.shape, mask.device) if isinstance(mask, Tensor) else shown(mask)
        if found != (torch.bool, shape, time.device):
            raise InputDataError(
                f"a retention answered with {name} {found}, but it must be a bool tensor of shape "
                f"{tuple(shape)} on {time.device}; compare log.time, which is batch_shape x n, "
                "with log.now.unsqueeze(-1)."
            )
    if newest is not None and (type(newest) is not int or newest < 0):
        raise InputDataError(
            f"a retention returned newest={shown(newest)}, but newest must be a whole number from "
            "0 on; return rows=, a bool per row, if trials differ."
        )
    if (where is not None and newest is None) or (newest is not None and retained.rows is not None):
        raise InputDataError(
            "a retention answered with rows= and newest=, or with where= but no newest=; return "
            "only one of rows= and newest=, and add newest= to where=; newest=0 forgets all rows."
        )
    return retained
