"""Retention of rows: which observations are kept at all."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from botorch_tv.validation import require, settle_integer, settle_number

Clock = Literal["rounds", "time"]
TriggerRule = Callable[[Tensor, Tensor, Tensor, float | Tensor, Tensor, float], Tensor]
"""(y, mean, sd, noise, rounds since the last reset, delta) -> a bool per trial."""


class Retention(ABC):  # noqa: B024 - every hook has a default; a rule overrides those that fit it
    """A rule that drops observations; the base class keeps all.

    A rule acts through whichever of three hooks fits it. ``first_kept`` and ``resets`` are known
    from the number of rounds alone, so they cost nothing; ``live`` looks at times; ``fires`` looks
    at data, one answer per trial.
    """

    uses_time: bool = False
    """Whether ``live`` must be asked, because rows are dropped by their age in time."""
    uses_data: bool = False
    """Whether ``fires`` must be asked."""
    restarts: bool = False
    """Whether dropping rows is a reset, from which the clock of a Wiener decay counts anew."""
    slides: bool = False
    """Whether rows leave one by one while newer ones stay."""

    def first_kept(self, told: int) -> int:
        """Number of the oldest observation kept after ``told`` rounds, counted from 0."""
        return 0

    def resets(self, told: int) -> bool:
        """Whether everything is forgotten once ``told`` rounds have been told."""
        return False

    def live(self, time: Tensor, now: Tensor, first: Tensor) -> Tensor:
        """Which observations are kept at time ``now``.

        Args:
            time: Times of the observations, `batch_shape x n`.
            now: The present, `batch_shape x 1`.
            first: Time of the first observation, `batch_shape x 1`.

        Returns:
            A bool per observation, `batch_shape x n`.
        """
        return torch.ones_like(time, dtype=torch.bool)

    def fires(
        self, y: Tensor, mean: Tensor, sd: Tensor, noise: float | Tensor, since: Tensor
    ) -> Tensor:
        """Which trials forget all but the observation just made; each argument `batch_shape`."""
        return torch.zeros_like(since, dtype=torch.bool)

    def band(self, sd: Tensor, noise: float | Tensor, since: Tensor) -> Tensor | None:
        """What |y - mean| must exceed to fire, `batch_shape`, for those who ask why it did.

        None for rules of another form, as here; arguments are those of :meth:`fires`.
        """
        return None


@dataclass(frozen=True)
class KeepAll(Retention):
    """Every observation is kept."""


def _check_clock(name: str, by: str) -> None:
    require(by in ("rounds", "time"), f"{name}: by is {by!r}; choose 'rounds' or 'time'.")


def _settle_length(rule: PeriodicReset | SlidingWindow, name: str) -> None:
    _check_clock(type(rule).__name__, rule.by)
    if rule.by == "rounds":
        settle_integer(rule, name, 1, "give whole rounds, or by='time' for units of time.")
    else:
        limit = "a length of time is positive and finite; by='rounds' counts rounds."
        settle_number(rule, name, "(0, inf)", limit)


@dataclass(frozen=True)
class PeriodicReset(Retention):
    """Forget everything every N rounds: before deciding round t when (t - 1) mod N = 0.

    [B16] Algorithm 1.

    Args:
        period: N, in told rounds (at least 1), or in units of time since the first observation.
        by: ``"rounds"`` or ``"time"``.

    Raises:
        ValueError: If ``period`` is below 1 round, or not a positive time.
    """

    period: float
    by: Clock = "rounds"

    restarts = True

    def __post_init__(self) -> None:
        _settle_length(self, "period")

    @property
    def uses_time(self) -> bool:  # type: ignore[override]
        return self.by == "time"

    def first_kept(self, told: int) -> int:
        return 0 if self.uses_time else told - told % int(self.period)

    def resets(self, told: int) -> bool:
        return not self.uses_time and told % int(self.period) == 0

    def live(self, time: Tensor, now: Tensor, first: Tensor) -> Tensor:
        if not self.uses_time:
            return super().live(time, now, first)
        return self.window_number(time, first) == self.window_number(now, first)

    def window_number(self, time: Tensor, first: Tensor) -> Tensor:
        """Number of the period that holds ``time``, counted from 0 at the first observation."""
        return torch.floor((time - first) / self.period)


@dataclass(frozen=True)
class SlidingWindow(Retention):
    """Keep the newest W observations, as SW-GP-UCB does in [W22] and [ET] Appendix A.

    Args:
        window: W, in told rounds (at least 1), or the largest age kept in units of time.
        by: ``"rounds"`` or ``"time"``.

    Raises:
        ValueError: If ``window`` is below 1 round, or not a positive time.
    """

    window: float
    by: Clock = "rounds"

    slides = True

    def __post_init__(self) -> None:
        _settle_length(self, "window")

    @property
    def uses_time(self) -> bool:  # type: ignore[override]
        return self.by == "time"

    def first_kept(self, told: int) -> int:
        return 0 if self.uses_time else max(0, told - int(self.window))

    def live(self, time: Tensor, now: Tensor, first: Tensor) -> Tensor:
        if not self.uses_time:
            return super().live(time, now, first)
        return now - time <= self.window


def prediction_band(sd: Tensor, noise: float | Tensor, since: Tensor, delta: float) -> Tensor:
    """How far an observation may lie from its prediction, [ET] eq. (10)-(11) and Lemma 3.

    With t' rounds since the last reset, π = π² t'² / 6 and L = ln(2π / δ_B):
    sqrt(2 L) sd(x) + sqrt(2 σ² L). Arguments are those of :func:`prediction_error`.
    """
    union = math.pi**2 * since.to(sd.dtype) ** 2 / 6
    doubled = 2 * (torch.log(2 * union) - math.log(delta))  # 1 / delta may be no number
    return torch.sqrt(doubled) * sd + torch.sqrt(noise * doubled)


def prediction_error(
    y: Tensor, mean: Tensor, sd: Tensor, noise: float | Tensor, since: Tensor, delta: float
) -> Tensor:
    """Whether an observation lies outside the :func:`prediction_band`, [ET] eq. (10)-(11).

    On a static objective the chance that it ever fires is at most δ_B.

    Args:
        y: The observation, `batch_shape`.
        mean: The mean predicted before it was made, `batch_shape`.
        sd: The standard deviation of that prediction, without observation noise, `batch_shape`.
        noise: Noise variance σ² of the observation, a number or `batch_shape`.
        since: Rounds t' since the last reset, `batch_shape`.
        delta: δ_B.

    Returns:
        A bool per trial, `batch_shape`.
    """
    return (y - mean).abs() > prediction_band(sd, noise, since, delta)


@dataclass(frozen=True, repr=False)
class EventTrigger(Retention):
    """Forget all but the newest observation when it contradicts the model, [ET] Algorithm 1.

    Args:
        delta: δ_B, the chance of ever firing on an objective that stands still, in (0, 1).
        rule: Decides whether to fire; see :func:`prediction_error` for its arguments.

    Raises:
        ValueError: If ``delta`` lies outside (0, 1).
    """

    delta: float = 0.1
    rule: TriggerRule = prediction_error

    uses_data = True
    restarts = True

    def __post_init__(self) -> None:
        settle_number(
            self,
            "delta",
            "(0, 1)",
            "a probability of false alarm lies strictly between 0 and 1; the papers use 0.1.",
        )
        require(
            callable(self.rule),
            f"EventTrigger: rule is {self.rule!r}, but it is called with (y, mean, sd, noise, "
            "since, delta); give a function, or leave it out for the paper's.",
        )

    def __repr__(self) -> str:
        rule = getattr(self.rule, "__name__", repr(self.rule))
        return f"EventTrigger(delta={self.delta}, rule={rule})"

    def fires(
        self, y: Tensor, mean: Tensor, sd: Tensor, noise: float | Tensor, since: Tensor
    ) -> Tensor:
        return self.rule(y, mean, sd, noise, since, self.delta)

    def band(self, sd: Tensor, noise: float | Tensor, since: Tensor) -> Tensor | None:
        if self.rule is not prediction_error:
            return None
        return prediction_band(sd, noise, since, self.delta)
