"""What a loop writes down of an expert: what was asked, and what was answered."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_tv.experts.refresh import Consultation
from botorch_tv.strategies.loop.log import Table, short
from botorch_tv.strategies.state import State


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
    def key(self) -> tuple[float, int]:
        """Sorts it among answers by (time, arrival): behind all that had been told."""
        return (self.time, self.known)

    def consultation(self, state: State, told: int) -> Consultation:
        """As the strategy made it, had ``told`` rounds been told."""
        X = state.basis.variance.new_tensor(self.points)
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
class Reply:
    """What an expert answered.

    Attributes:
        question: What it was asked.
        y: The values; None where there is no answer.
    """

    question: Question
    y: tuple[float | None, ...]

    @property
    def unanswered(self) -> int:
        """Points without answer."""
        return sum(one is None for one in self.y)

    def values(self, state: State) -> tuple[Tensor, Tensor | None]:
        """Answers in the kind of a state, and which there are, `Q` each; None where all are."""
        own = state.basis.variance
        y = own.new_tensor([0.0 if one is None else one for one in self.y])
        if not self.unanswered:
            return y, None
        return y, torch.tensor([one is not None for one in self.y], device=own.device)


@dataclass(frozen=True, eq=False, repr=False)
class NumberedConsultation:
    """What a loop asks an expert: the values now, at points chosen before.

    Attributes:
        number: By which ``absorb`` knows it, counted from 1.
        X: The points, `Q x d`.
        time: The time that is asked about, that of the newest measurement.
    """

    number: int
    X: Tensor
    time: float

    @property
    def points(self) -> list[list[float]]:
        """The points as plain numbers."""
        rows: list[list[float]] = self.X.tolist()
        return rows

    def __len__(self) -> int:
        return len(self.X)

    def describes(self, other: Question) -> bool:
        """Whether it is what is written down there."""
        own = (self.number, tuple(map(tuple, self.points)), self.time)
        return own == (other.number, other.points, other.time)

    def __repr__(self) -> str:
        many = f"{len(self)} points" if len(self) > 1 else "1 point"
        shown = ", ".join(short(point) for point in self.points[:3])
        rest = ", ..." if len(self) > 3 else ""
        return f"Consultation {self.number}: {many} at time {self.time:g}: {shown}{rest}"


def numbered_consultation(asked: Question, state: State) -> NumberedConsultation:
    """A consultation that is written down, for those who are to measure."""
    X = state.basis.variance.new_tensor(asked.points)
    return NumberedConsultation(number=asked.number, X=X, time=asked.time)


def expert_table(replies: list[Reply], state: State, noise: float) -> Table:
    """Answers of an expert side by side, a row per point; ``noise`` is the strategy's."""
    rows = [
        (one.question.number, point, one.question.time, y)
        for one in replies
        for point, y in zip(one.question.points, one.y)
    ]
    own, n = state.basis.variance, len(rows)
    y = own.new_tensor([math.nan if value is None else value for *_, value in rows])
    return Table(
        number=torch.tensor([number for number, *_ in rows], dtype=torch.int64),
        X=own.new_tensor([point for _, point, *_ in rows]).view(n, state.domain.dim),
        context=own.new_zeros(n, 0),
        y=y,
        time=state.time.new_tensor([time for *_, time, _ in rows]),
        noise=torch.full_like(y, noise).masked_fill_(y.isnan(), math.inf),
        reset=torch.zeros(n, dtype=torch.bool),
    )
