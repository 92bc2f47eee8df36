"""What a loop writes down: suggestions and answers to them, questions to an expert and replies.

All are plain data, which is what its file holds, field by field.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from botorch_tv.strategies.domains import Grid
from botorch_tv.strategies.state import Consultation, State, Suggestion

Extended = TypeVar("Extended", bound="Planned | Question")


@dataclass(frozen=True, slots=True)
class Prediction:
    """What was predicted of a measurement before it was made.

    Attributes:
        mean: Posterior mean of the objective there and then.
        sd: Its standard deviation, without observation noise.
        sqrt_beta: Width of the confidence band in standard deviations, sqrt(beta), when it was
            chosen.
    """

    mean: float
    sd: float
    sqrt_beta: float


@dataclass(frozen=True, slots=True)
class Planned:
    """A point to measure.

    Attributes:
        number: Of the suggestion; -1, -2, ... for measurements that were not suggested.
        point: Its coordinates, the context behind.
        arm: Its number among the arms of a grid; None on a box.
        planned_for: The time for which it was chosen.
        known: Answers that had arrived by then.
        predicted: From these; None where there was none, or nobody needs it.
    """

    number: int
    point: tuple[float, ...]
    arm: int | None
    planned_for: float
    known: int
    predicted: Prediction | None

    @property
    def points(self) -> tuple[tuple[float, ...], ...]:
        """The one point."""
        return (self.point,)

    @property
    def arms(self) -> tuple[int, ...] | None:
        """Its arm."""
        return None if self.arm is None else (self.arm,)

    @property
    def name(self) -> str:
        """Its name in error messages."""
        number = self.number
        return f"suggestion {number}" if number > 0 else f"measurement {number}"

    def __str__(self) -> str:
        return f"at {short(self.point)} for time {self.planned_for:g}"

    def suggestion(self, state: State) -> Suggestion:
        """As the strategy made it."""
        own, said = like(state), self.predicted
        numbers = (math.nan,) * 3 if said is None else (said.mean, said.sd, said.sqrt_beta)
        mean, sd, sqrt_beta = own.new_tensor(numbers).unbind()
        return Suggestion(
            X=own.new_tensor(self.point),
            index=None if self.arm is None else torch.tensor(self.arm, device=own.device),
            mean=mean,
            sd=sd,
            sqrt_beta=sqrt_beta,
            time=state.time.new_tensor(self.planned_for),
        )


def planned(suggestion: Suggestion, number: int, known: int, *, predicts: bool) -> Planned:
    """A strategy's suggestion, as a loop writes it down.

    Args:
        suggestion: It.
        number: Of the suggestion or measurement.
        known: Answers that had arrived.
        predicts: Whether the strategy predicted anything.
    """
    numbers = (suggestion.mean, suggestion.sd, suggestion.sqrt_beta)
    return Planned(
        number=number,
        point=tuple(suggestion.X.tolist()),
        arm=None if suggestion.index is None else int(suggestion.index),
        planned_for=float(suggestion.time),
        known=known,
        predicted=Prediction(*(float(one) for one in numbers)) if predicts else None,
    )


def unpredicted(state: State, X: Tensor, number: int, time: float, known: int) -> Planned:
    """A point `d + c` that nobody suggested and of which nobody needs a prediction.

    Raises:
        InputDataError: If it lies outside the domain.
    """
    choice = state.domain.locate(X)
    arm = int(choice) if isinstance(state.domain, Grid) else None
    point = state.domain.points(choice, like(state))
    return Planned(number, tuple(point.tolist()), arm, time, known, None)


@dataclass(frozen=True, slots=True)
class Answer(Planned):
    """What was measured where it was planned.

    Attributes:
        y: The value; None where the measurement failed.
        time: When it was really made.
        noise: Its noise variance; None for the strategy's.
        arrival: How many answers had arrived before.
    """

    y: float | None
    time: float
    noise: float | None
    arrival: int

    @property
    def outcome(self) -> str:
        """The value in words."""
        return "failed" if self.y is None else f"gave {self.y:g}"


@dataclass(frozen=True, slots=True)
class Superseded(Answer):
    """An answer that no longer counts.

    Attributes:
        became: ``"amended"`` or ``"removed"``.
    """

    became: str


@dataclass(frozen=True, slots=True)
class Question:
    """Points that an expert is to measure again.

    Attributes:
        number: Of the consultation, counted from 1.
        points: The coordinates of each.
        arms: Their numbers among the arms of a grid; None on a box.
        time: The time that is asked about, that of the newest answer told by then.
        known: Answers that had been told by then.
    """

    number: int
    points: tuple[tuple[float, ...], ...]
    arms: tuple[int, ...] | None
    time: float
    known: int

    @property
    def name(self) -> str:
        """Its name in error messages."""
        return f"consultation {self.number}"

    @property
    def key(self) -> tuple[float, int]:
        """Sorts it among answers by (time, arrival): behind all that had been told."""
        return (self.time, self.known)

    def __str__(self) -> str:
        return f"about time {self.time:g}"

    def consultation(self, state: State, told: int) -> Consultation:
        """As the strategy made it, had ``told`` rounds been told."""
        X = like(state).new_tensor(self.points)
        return Consultation(
            X=X,
            choice=X if self.arms is None else torch.tensor(self.arms, device=X.device),
            mask=torch.ones(len(self.points), dtype=torch.bool, device=X.device),
            time=state.time.new_tensor(self.time),
            told=told,
            limit=len(self.points),
        )


def question(asked: Consultation, number: int, known: int) -> Question | None:
    """A strategy's consultation, as a loop writes it down; None where it asks about no point."""
    choice, X = asked.choice[asked.mask], asked.X[asked.mask]
    if len(X) == 0:
        return None
    return Question(
        number=number,
        points=tuple(tuple(point) for point in X.tolist()),
        arms=None if choice.is_floating_point() else tuple(choice.tolist()),
        time=float(asked.time),
        known=known,
    )


@dataclass(frozen=True, slots=True)
class Reply(Question):
    """What an expert answered to it.

    Attributes:
        y: The values; None where there is no answer.
    """

    y: tuple[float | None, ...]

    @property
    def unanswered(self) -> int:
        """Points without answer."""
        return sum(one is None for one in self.y)

    def values(self, state: State) -> tuple[Tensor, Tensor | None]:
        """Answers in the kind of a state, and which there are, `Q` each; None where all are."""
        own = like(state)
        y = own.new_tensor([0.0 if one is None else one for one in self.y])
        if not self.unanswered:
            return y, None
        return y, torch.tensor([one is not None for one in self.y], device=own.device)


def extended(kind: type[Extended], row: Planned | Question, **more: Any) -> Extended:
    """A row with the fields that an :class:`Answer` or :class:`Reply` has besides."""
    return kind(**{one.name: getattr(row, one.name) for one in fields(row)}, **more)


def recounted(answers: Iterable[Answer], *others: Iterable[Any]) -> tuple[list[Any], ...]:
    """Answers in order of time, and other rows, after some answers were removed or added.

    Arrivals are counted anew, 0 to n - 1, and so is how many of these answers each row knew.
    """
    order = sorted(answers, key=lambda one: one.arrival)
    arrivals = [one.arrival for one in order]

    def known(row: Any) -> Any:
        return replace(row, known=bisect_left(arrivals, row.known))

    anew = [replace(known(one), arrival=arrival) for arrival, one in enumerate(order)]
    anew.sort(key=lambda one: (one.time, one.arrival))
    return anew, *([known(row) for row in rows] for rows in others)


def like(state: State) -> Tensor:
    """A tensor of the dtype and device in which all is computed."""
    return state.basis.variance


def short(point: Sequence[float]) -> str:
    """A point, to four digits."""
    return f"[{', '.join(f'{one:.4g}' for one in point)}]"
