"""What waits for an answer: suggestions that are open, and consultations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

from botorch_tv.strategies.loop.cures import Act, Cure, RefusedInput, Words
from botorch_tv.strategies.loop.log import Answer, Planned, Question, Reply, Superseded
from botorch_tv.strategies.loop.shown import NumberedConsultation, NumberedSuggestion
from botorch_tv.strategies.loop.units import Units
from botorch_tv.strategies.spans import counted
from botorch_tv.validation import require_integer

MOST_OPEN = 16
"""Older consultations are given up, so that an expert who never answers costs no memory."""
Row = TypeVar("Row", Planned, Question)
Settled = TypeVar("Settled", Answer, Reply)
Meant = int | NumberedSuggestion | NumberedConsultation


class Waiting(ABC, Generic[Row, Settled]):
    """Rows without an answer, oldest first.

    Args:
        units: In which they are shown.

    Attributes:
        rows: By number.
        asked: How many there have ever been, which is the number of the newest.
    """

    kind: ClassVar[str]
    """What the items are called in error messages."""
    source: ClassVar[Words]
    """The call that makes them."""

    def __init__(self, units: Units) -> None:
        self.units, self.asked = units, 0
        self.rows: dict[int, Row] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        return ", ".join(
            f"number {one.number} {self.units.said(one)}" for one in self.rows.values()
        )

    @property
    def newest(self) -> Row | None:
        """The one made last."""
        return next(reversed(self.rows.values()), None)

    def add(self, row: Row) -> None:
        """Take in a new one."""
        self.rows[row.number] = row
        self.asked = row.number

    def find(self, meant: Meant, settled: Sequence[Settled]) -> Row:
        """The one that is meant.

        Args:
            meant: It or its number.
            settled: What was answered, to tell what became of those that are not open.

        Raises:
            InputDataError: If it is not open.
        """
        number = meant if isinstance(meant, int) else getattr(meant, "number", meant)
        others = f"open: {self}" if self.rows else "none is open"
        if type(number) is not int or not 1 <= number <= self.asked:
            raise RefusedInput(
                f"there is no {self.kind} {number!r}; {others}. Give a number or what ",
                (self.source, " gave."),
            )
        if number not in self.rows:
            reason = self._why_closed(number, settled)
            raise RefusedInput(f"{self.kind} {number} has been ", reason, f"; {others}.")
        row = self.rows[number]
        if not isinstance(meant, int) and meant.row != row:
            raise RefusedInput(f"{meant!r} is of another loop; here {self._what(row)}.")
        return row

    @abstractmethod
    def _what(self, row: Row) -> str:
        """The item with a number, in words."""

    @abstractmethod
    def _why_closed(self, number: int, settled: Sequence[Settled]) -> Words:
        """Why an item is not open."""


class OpenSuggestions(Waiting[Planned, Answer]):
    """The suggestions without an answer.

    Args:
        most: How many there may be at once.
        units: In which they are shown.

    Raises:
        ValueError: If ``most`` is below 1.
    """

    kind = "suggestion"
    source = Cure(Act.ASK)

    def __init__(self, most: int, units: Units) -> None:
        super().__init__(units)
        self.most = most

    @property
    def most(self) -> int:
        """How many there may be at once."""
        return self._most

    @most.setter
    def most(self, number: int) -> None:
        fix = "give how many measurements run side by side."
        self._most = require_integer("Loop: pending", number, 1, fix)

    def require_room(self) -> None:
        """Raise an ``InputDataError`` if no other suggestion may be made."""
        if len(self) < self.most:
            return
        oldest = next(iter(self.rows))
        raise RefusedInput(
            f"{self._how_many} open and pending is {self.most}: {self}. ",
            (Cure(Act.TELL, oldest), " says what came out, "),
            (Cure(Act.DISCARD, oldest), " that it will never come, and "),
            (Cure(Act.ALLOW, self.most + 1), " allows one more."),
        )

    def only(self) -> Planned:
        """The only one.

        Raises:
            InputDataError: If there is none, or another.
        """
        if len(self) == 0:
            raise RefusedInput(
                ("no suggestion is open; ", Cure(Act.ASK), " for one, or "),
                (Cure(Act.OBSERVE), " what nobody suggested."),
            )
        if len(self) > 1:
            raise RefusedInput(
                f"{self._how_many} open: {self}; say which is meant, as in ",
                (Cure(Act.MEANT, next(iter(self.rows))), "."),
            )
        return next(iter(self.rows.values()))

    @property
    def _how_many(self) -> str:
        return f"{counted(len(self), 'suggestions')} {'is' if len(self) == 1 else 'are'}"

    def _what(self, row: Planned) -> str:
        return f"number {row.number} is {self.units.said(row)}"

    def _why_closed(self, number: int, settled: Sequence[Answer]) -> Words:
        for one in settled:
            if one.number == number and isinstance(one, Superseded):
                removed = "answered already, but the answer was removed; "
                return removed, Cure(Act.OBSERVE_AT), " takes in another measurement"
            if one.number == number:
                when = self.units.clock.said(one.time)
                return (
                    f"answered already: at time {when} it {one.outcome}; ",
                    (Cure(Act.AMEND, number), " corrects that, and "),
                    (Cure(Act.OBSERVE_AT), " takes in another measurement"),
                )
        return "discarded; ", Cure(Act.OBSERVE_AT), " takes in what was measured after all"


class OpenConsultations(Waiting[Question, Reply]):
    """The consultations without answers, the newest ``MOST_OPEN`` of them."""

    kind = "consultation"
    source = "consult()"

    def add(self, row: Question) -> None:
        super().add(row)
        if len(self) > MOST_OPEN:
            del self.rows[next(iter(self.rows))]

    def answered(self, question: Question) -> None:
        """One is answered, which overtakes those before it."""
        self.rows = {number: one for number, one in self.rows.items() if number > question.number}

    def _what(self, row: Question) -> str:
        when = self.units.clock.said(row.time)
        return f"number {row.number} asks about {counted(len(row.points), 'points')} at time {when}"

    def _why_closed(self, number: int, settled: Sequence[Reply]) -> str:
        if any(one.number == number for one in settled):
            return "absorbed already"
        if settled and settled[-1].number > number:
            return (
                f"overtaken: answers to consultation {settled[-1].number}, "
                f"{self.units.said(settled[-1])}, have been absorbed, and answers that come after "
                "newer ones are dropped"
            )
        return f"given up, because {MOST_OPEN} newer ones wait for answers"
