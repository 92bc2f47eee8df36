"""Suggestions that wait for an answer."""

from __future__ import annotations

from collections.abc import Iterable

from botorch.exceptions import InputDataError

from botorch_tv.strategies.loop.log import Answer, NumberedSuggestion, Planned, short
from botorch_tv.validation import require_integer


class OpenSuggestions:
    """The suggestions without an answer, oldest first.

    Args:
        most: How many there may be at once.

    Raises:
        ValueError: If ``most`` is below 1.

    Attributes:
        plans: By number.
        asked: How many suggestions there have ever been, which is the number of the newest.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.asked = 0
        self.plans: dict[int, Planned] = {}

    @property
    def most(self) -> int:
        """How many there may be at once."""
        return self._most

    @most.setter
    def most(self, number: int) -> None:
        fix = "give how many measurements run side by side."
        self._most = require_integer("Loop: pending", number, 1, fix)

    def __len__(self) -> int:
        return len(self.plans)

    def __str__(self) -> str:
        return ", ".join(
            f"number {one.number} at {short(one.point)} for time {one.time:g}"
            for one in self.plans.values()
        )

    def require_room(self) -> None:
        """Raise an ``InputDataError`` if no other suggestion may be made."""
        if len(self) < self.most:
            return
        oldest = next(iter(self.plans))
        raise InputDataError(
            f"{_suggestions(len(self))} open and pending is {self.most}: {self}. "
            f"tell(y, suggestion={oldest}) what came out, discard({oldest}) what will never come, "
            "or allow more: loop.pending += 1."
        )

    def add(self, plan: Planned) -> None:
        """Take in a new one."""
        self.plans[plan.number] = plan
        self.asked = plan.number

    def find(self, meant: int | NumberedSuggestion | None, answers: Iterable[Answer]) -> Planned:
        """The open suggestion that is meant.

        Args:
            meant: It or its number; None for the only one.
            answers: To tell those that were answered from those that were discarded.

        Raises:
            InputDataError: If it is not open, or not clear.
        """
        if meant is None:
            return self._only()
        number = meant.number if isinstance(meant, NumberedSuggestion) else meant
        plan = self.plans.get(number) if isinstance(number, int) else None
        if plan is None:
            raise InputDataError(self._why_closed(number, answers))
        if isinstance(meant, NumberedSuggestion) and not meant.describes(plan):
            raise InputDataError(
                f"{meant!r} is of another loop; here number {number} is at {short(plan.point)} for "
                f"time {plan.time:g}."
            )
        return plan

    def _only(self) -> Planned:
        if len(self) == 0:
            raise InputDataError(
                "no suggestion is open; ask() for one, or observe(X, y) what nobody suggested."
            )
        if len(self) > 1:
            raise InputDataError(
                f"{_suggestions(len(self))} open: {self}; say which is meant, as in "
                f"suggestion={next(iter(self.plans))}."
            )
        return next(iter(self.plans.values()))

    def _why_closed(self, number: object, answers: Iterable[Answer]) -> str:
        others = f"open: {self}" if self.plans else "none is open"
        if not isinstance(number, int) or not 1 <= number <= self.asked:
            return f"there is no suggestion {number!r}; {others}. Give a number or what ask() gave."
        for one in answers:
            if one.planned.number == number:
                came = "failed" if one.y is None else f"gave {one.y:g}"
                return (
                    f"suggestion {number} has been answered already: at time {one.time:g} it "
                    f"{came}; observe(X, y, time=...) takes in another measurement; {others}."
                )
        return (
            f"suggestion {number} has been discarded; observe(X, y, time=...) takes in what was "
            f"measured after all; {others}."
        )


def _suggestions(number: int) -> str:
    return f"{number} suggestion{' is' if number == 1 else 's are'}"
