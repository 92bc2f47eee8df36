"""Advice in a loop's errors, which the command line can express as shell commands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from botorch.exceptions import InputDataError


class Act(Enum):
    """A call or argument that an error may advise, in Python; ``{}`` stands for a number."""

    ASK = "ask()"
    TELL = "tell(y, suggestion={})"
    FAILED = "tell(ok=False)"
    OBSERVE_FAILED = "observe(X, ok=False)"
    AMEND = "amend({}, y=...)"
    AMEND_FAILED = "amend({}, ok=False)"
    REMOVE = "remove({})"
    MEANT = "suggestion={}"
    DISCARD = "discard({})"
    ALLOW = "loop.pending = {}"
    OBSERVE = "observe(X, y)"
    OBSERVE_AT = "observe(X, y, time=...)"
    NOW = "now"
    TIME = "time"
    DATE = "datetime.now(UTC)"
    UNIT = "Loop(..., unit='hours')"
    NUMBERS = "Loop(...) without unit"
    TABLE = "Loop.from_table"
    SHOW_TABLE = "table()"
    SAVE = "Loop.save"
    STRATEGY = "load it with the strategy it was made with"


@dataclass(frozen=True)
class Cure:
    """A call or argument that a message advises.

    Args:
        act: The call or argument.
        number: The number of a suggestion, or how many are meant.
    """

    act: Act
    number: int | None = None

    def __str__(self) -> str:
        return self.act.value.format(self.number)


Words = str | Cure | tuple["Words", ...]
"""A message, or a part of one."""


class Refusal(Exception):
    """An error whose message consists of words and cures.

    Args:
        words: The parts of the message, in order; parts may be nested in tuples.

    Attributes:
        parts: The parts as a flat tuple.
    """

    def __init__(self, *words: Words) -> None:
        self.parts = tuple(_flat(words))
        super().__init__("".join(map(str, self.parts)))


class RefusedInput(Refusal, InputDataError):  # type: ignore[misc]
    """Input that a loop refuses."""


class RefusedFile(Refusal, ValueError):
    """A loop's file that is refused."""


def _flat(words: tuple[Words, ...]) -> Iterator[str | Cure]:
    for one in words:
        if isinstance(one, tuple):
            yield from _flat(one)
        else:
            yield one
