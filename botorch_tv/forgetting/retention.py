"""Retention: which observations are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import torch
from torch import Size, Tensor

from botorch_tv.forgetting.levels import ErrorLevels, error_level
from botorch_tv.forgetting.parts import Log, Observation, Part
from botorch_tv.validation import require, settle_integer, settle_number, shown

Clock = Literal["rounds", "time"]
TriggerRule = Callable[[Tensor, Tensor, Tensor, float | Tensor, Tensor, float], Tensor]
"""(y, mean, sd, noise, rounds since the last reset, delta) -> a bool per trial."""


UNDEFINED = (
    "{} does not say what it keeps; define keep(log), which returns a Kept such as "
    "Kept(newest=20), or a bool per row of log.time."
)


class Kept(NamedTuple):
    """Which rows of the log are kept, and whether dropping the others is a reset.

    Dropped rows never return. A reset also restarts the clocks, such as the origin of a Wiener
    decay and the rounds t' of a trigger, and is reported by ``Info.reset``.

    Attributes:
        newest: How many of the newest rows to keep; None for all, 0 for none.
        where: The trials to which ``newest`` applies, `batch_shape`, bool; None for all trials.
        rows: Alternatively, any selection of rows, `batch_shape x n`, bool; ``newest`` is cheaper.
        reset: Whether this is a reset, of all trials or `batch_shape`, bool.
        aside: Rows that are left out for now, `batch_shape x n`, bool; None for none. They return
            as soon as an answer no longer names them.
    """

    newest: int | None = None
    where: Tensor | None = None
    rows: Tensor | None = None
    reset: bool | Tensor = False
    aside: Tensor | None = None


class Retention(Part):
    """A rule that forgets observations.

    It answers one question, :meth:`keep`, from the log and, if needed, from its own memory; see
    :class:`~botorch_tv.forgetting.parts.Part`. Rules combine,
    ``retention=(SlidingWindow(20), EventTrigger(0.1))``: a row is kept if all rules keep it, and a
    reset by one is a reset of all.

    Example:
        >>> class Sessions(Retention):
        ...     '''Forget everything before a pause longer than an hour.'''
        ...
        ...     def keep(self, log):
        ...         fresh = log.now - log.time[..., -1] > 3600
        ...         return Kept(newest=0, where=fresh, reset=fresh)
    """

    @property
    def on_observation(self) -> bool:
        """Whether rows leave only when an observation is made, never as time passes.

        Where it is True, :meth:`keep` is called after observations alone.
        """
        return False

    def keep(self, log: Log) -> Kept | Tensor:
        """Which rows to keep.

        Called after each observation, which is ``log.newest``, and before each choice, when
        ``log.now`` is the present and ``log.newest`` is None. Never called with an empty log.

        Args:
            log: The n remaining rows, oldest first.

        Returns:
            A :class:`Kept`, or a mask of the rows to keep, `batch_shape x n`, bool.
        """
        raise NotImplementedError(UNDEFINED.format(type(self).__name__))

    def band(self, sd: Tensor, noise: float | Tensor, since: Tensor) -> Tensor | None:
        """The threshold on |y - mean| above which the rule resets, for diagnosis.

        Args:
            sd: Predicted standard deviation, without observation noise, `batch_shape`.
            noise: Noise variance, a number or `batch_shape`.
            since: Rounds t' since the last reset, `batch_shape`, int64.

        Returns:
            `batch_shape`; None, as here, for rules of another form.
        """
        return None


@dataclass(frozen=True)
class KeepAll(Retention):
    """Keep every observation."""

    @property
    def on_observation(self) -> bool:
        return type(self) is KeepAll

    def keep(self, log: Log) -> Kept:
        return Kept()


def _check_clock(name: str, by: str) -> None:
    require(by in ("rounds", "time"), f"{name}: by is {by!r}; choose 'rounds' or 'time'.")


def _settle_length(rule: PeriodicReset | SlidingWindow, name: str) -> None:
    _check_clock(type(rule).__name__, rule.by)
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

    def keep(self, log: Log) -> Kept:
        if self.by == "time":
            current = self._number(log.now, log)
            # Times are in order, so that nothing of this period is newer than a row of an older.
            ended = self._number(log.time[..., -1], log) < current
            rows = self._number(log.time, log) == current.unsqueeze(-1)
            return Kept(rows=rows, reset=ended if log.newest is None else False)
        if log.newest is not None:
            return Kept()  # a period ends before a round is decided, not within one
        over = log.rounds % int(self.period)
        return Kept(newest=over, reset=over == 0)

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

    def keep(self, log: Log) -> Kept:
        if self.by == "time":
            return Kept(rows=log.now.unsqueeze(-1) - log.time <= self.window)
        return Kept(newest=int(self.window))


def prediction_band(sd: Tensor, noise: float | Tensor, since: Tensor, delta: float) -> Tensor:
    """How far an observation may lie from its prediction, [ET] eq. (10)-(11) and Lemma 3.

    With t' rounds since the last reset, π = π² t'² / 6 and L = ln(2π / δ_B):
    sqrt(2 L) sd(x) + sqrt(2 σ² L). Arguments are those of :func:`prediction_error`.
    """
    return _reach(sd, noise, error_level(since, delta, sd.dtype))


def _reach(sd: Tensor, noise: float | Tensor, level: Tensor) -> Tensor:
    return (sd + noise**0.5).mul_(level)


def prediction_error(
    y: Tensor, mean: Tensor, sd: Tensor, noise: float | Tensor, since: Tensor, delta: float
) -> Tensor:
    """Whether an observation lies outside the :func:`prediction_band`, [ET] eq. (10)-(11).

    On a static objective the probability of ever firing is at most δ_B.

    Args:
        y: The observation, `batch_shape`.
        mean: The predicted mean, `batch_shape`.
        sd: The predicted standard deviation, without observation noise, `batch_shape`.
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
        delta: δ_B, the probability of ever firing on a static objective, in (0, 1).
        rule: Decides whether to fire; see :func:`prediction_error` for its arguments.

    Raises:
        ValueError: If ``delta`` lies outside (0, 1).
    """

    delta: float = 0.1
    rule: TriggerRule = prediction_error

    def __post_init__(self) -> None:
        settle_number(self, "delta", "(0, 1)", "the papers use 0.1.")
        require(
            callable(self.rule),
            f"EventTrigger: rule is {self.rule!r}, but it is called with (y, mean, sd, noise, "
            "since, delta); give a function, or leave it out for the paper's.",
        )

    def __repr__(self) -> str:
        rule = getattr(self.rule, "__name__", repr(self.rule))
        return f"{type(self).__name__}(delta={self.delta}, rule={rule})"

    @property
    def on_observation(self) -> bool:
        return type(self).keep is EventTrigger.keep

    def keep(self, log: Log) -> Kept:
        if log.newest is None:
            return Kept()
        fired = self._contradicts(log, log.newest, log.since)
        return Kept(newest=1, where=fired, reset=fired)

    def _contradicts(self, log: Log, seen: Observation, since: Tensor) -> Tensor:
        if self.rule is prediction_error:  # the same, with levels that are known
            level = self._levels.at(since, log.rounds + 1, seen.sd)
            return (seen.y - seen.mean).abs_() > _reach(seen.sd, seen.noise, level)
        return self.rule(seen.y, seen.mean, seen.sd, seen.noise, since, self.delta)

    @cached_property
    def _levels(self) -> ErrorLevels:
        return ErrorLevels(self.delta)

    def band(self, sd: Tensor, noise: float | Tensor, since: Tensor) -> Tensor | None:
        if self.rule is not prediction_error:
            return None
        return prediction_band(sd, noise, since, self.delta)


class Contradictions(NamedTuple):
    """Observations in a row that contradicted the model and have fired nothing yet."""

    number: Tensor
    """How many, `batch_shape`, int64."""
    first: Tensor
    """Rounds before the first of them, `batch_shape`, int64; arbitrary where there is none."""


@dataclass(frozen=True, repr=False)
class ConfirmedTrigger(EventTrigger):
    """Forget when several observations in a row contradict the model, as one may be misread.

    A first contradiction is set aside: the posterior does without it. If the next ``confirm``
    observations contradict the model as well, all but these ``confirm + 1`` are forgotten. If one
    of them agrees, those set aside are dropped for good. A failed measurement does neither. Any
    reset begins the count anew.

    Before a trigger fires, an :class:`EventTrigger` would have fired at the first contradiction. So
    the probability of ever firing on a static objective is at most δ_B a fortiori, and a change is
    detected at least ``confirm`` rounds later.

    Args:
        delta: δ_B, as for :class:`EventTrigger`.
        rule: Decides whether an observation contradicts the model; see :func:`prediction_error`.
        confirm: How many contradictions must follow the first, at least 1.

    Raises:
        ValueError: If ``delta`` lies outside (0, 1), or ``confirm`` is no whole number from 1 on.
    """

    confirm: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_integer(self, "confirm", 1, "EventTrigger fires at the first contradiction.")

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, confirm={self.confirm})"

    def init(self, batch_shape: Size) -> Contradictions:
        none = torch.zeros(batch_shape, dtype=torch.int64, device="cpu")
        return Contradictions(none, none)

    def keep(self, log: Log) -> Kept:
        told = log.since - 1 if log.newest is None else log.since
        before, after = self._counted(log, told)
        looks = log.now.device.type == "cpu"
        if looks and not bool((before.number + after.number).any()):
            return Kept()
        n = log.time.shape[-1]
        row = torch.arange(log.rounds - n, log.rounds, device=log.now.device)
        fired = after.number > self.confirm
        refuted = (before.number > 0) & (after.number == 0)
        named = (row >= after.first.unsqueeze(-1)) & (after.number > 0).unsqueeze(-1)
        wrong = (row >= before.first.unsqueeze(-1)) & (row < log.rounds - 1)
        rows = torch.where(fired.unsqueeze(-1), named, ~(wrong & refuted.unsqueeze(-1)))
        return Kept(rows=rows, reset=fired, aside=named & ~fired.unsqueeze(-1))

    def update(self, log: Log) -> Contradictions:
        return self._counted(log, log.since - 1)[1]

    def _counted(self, log: Log, told: Tensor) -> tuple[Contradictions, Contradictions]:
        """The contradictions before and after the newest observation.

        Args:
            log: See :class:`~botorch_tv.forgetting.parts.Log`.
            told: Observations since the last reset, 0 where it was on the newest, `batch_shape`.
        """
        number, first = log.memory
        before = Contradictions(number.masked_fill(first < log.rounds - told, 0), first)
        if log.newest is None:
            return before, before
        contradicts = self._contradicts(log, log.newest, told.clamp_min(1)) & (told > 0)
        unknown = log.newest.noise.isinf()  # a failed measurement
        goes_on = torch.where(unknown, before.number, 0)
        return before, Contradictions(
            torch.where(contradicts, before.number + 1, goes_on),
            torch.where(before.number > 0, first, log.rounds - 1),
        )


def require_rules(retention: object) -> None:
    """Raise a ``ValueError`` unless it is a rule, or a tuple of rules, that defines ``keep``."""
    rules = retention if isinstance(retention, tuple) else (retention,)
    for rule in rules:
        require(
            isinstance(rule, Retention),
            f"Strategy: retention is {shown(rule)}, but it must be a Retention, or a tuple of "
            "them; KeepAll() keeps everything, SlidingWindow(window) the newest.",
        )
        require(
            type(rule).keep is not Retention.keep,
            UNDEFINED.format(type(rule).__name__),
        )
