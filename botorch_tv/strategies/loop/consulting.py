"""Consultations that wait for an expert's answers."""

from __future__ import annotations

from collections.abc import Sequence

from botorch.exceptions import InputDataError

from botorch_tv.strategies.loop.consultations import NumberedConsultation, Question, Reply

MOST_OPEN = 16
"""Older consultations are given up, so that an expert who never answers costs no memory."""


class OpenConsultations:
    """The consultations without answers, oldest first.

    Attributes:
        questions: By number.
        asked: How many there have ever been, which is the number of the newest.
    """

    def __init__(self) -> None:
        self.asked = 0
        self.questions: dict[int, Question] = {}

    def __len__(self) -> int:
        return len(self.questions)

    def __str__(self) -> str:
        return ", ".join(
            f"number {one.number} about time {one.time:g}" for one in self.questions.values()
        )

    @property
    def newest(self) -> Question | None:
        """The one made last."""
        return next(reversed(self.questions.values()), None)

    def add(self, question: Question) -> None:
        """Take in a new one."""
        self.questions[question.number] = question
        self.asked = question.number
        if len(self) > MOST_OPEN:
            del self.questions[next(iter(self.questions))]

    def answered(self, question: Question) -> None:
        """One is answered, which overtakes those before it."""
        self.questions = {
            number: one for number, one in self.questions.items() if number > question.number
        }

    def find(self, meant: int | NumberedConsultation, replies: Sequence[Reply]) -> Question:
        """The open consultation that is meant.

        Args:
            meant: It or its number.
            replies: To tell what became of those that are not open, oldest first.

        Raises:
            InputDataError: If it is not open.
        """
        number = meant.number if isinstance(meant, NumberedConsultation) else meant
        known = isinstance(number, int) and not isinstance(number, bool)
        question = self.questions.get(number) if known else None
        if question is None:
            raise InputDataError(self._why_closed(number if known else meant, replies))
        if isinstance(meant, NumberedConsultation) and not meant.describes(question):
            raise InputDataError(
                f"{meant!r} is of another loop; here number {number} asks about "
                f"{len(question.points)} points at time {question.time:g}."
            )
        return question

    def _why_closed(self, number: object, replies: Sequence[Reply]) -> str:
        others = f"open: {self}" if self.questions else "none is open"
        if not isinstance(number, int) or number is True or not 1 <= number <= self.asked:
            return (
                f"there is no consultation {number!r}; {others}. Give a number or what consult() "
                "gave."
            )
        if any(one.question.number == number for one in replies):
            return f"consultation {number} has been absorbed already; {others}."
        if replies and replies[-1].question.number > number:
            newer = replies[-1].question
            return (
                f"consultation {number} has been overtaken: answers to consultation "
                f"{newer.number}, about time {newer.time:g}, have been absorbed, and answers that "
                f"come after newer ones are dropped; {others}."
            )
        return (
            f"consultation {number} has been given up, because {MOST_OPEN} newer ones wait for "
            f"answers; {others}."
        )
