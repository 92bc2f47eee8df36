"""Threads that share a loop take turns."""

from __future__ import annotations

import functools
from collections.abc import Callable
from threading import RLock
from typing import Concatenate, ParamSpec, Protocol, TypeVar

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


class Turn:
    """Held by one thread at a time, which may take it again; a copy is held by none."""

    def __init__(self) -> None:
        self._lock = RLock()

    def __reduce__(self) -> tuple[type[Turn], tuple[()]]:
        return Turn, ()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


class Shared(Protocol):
    """What threads may share."""

    _turn: Turn


Held = TypeVar("Held", bound=Shared)


def in_turn(
    method: Callable[Concatenate[Held, Given], Answer],
) -> Callable[Concatenate[Held, Given], Answer]:
    """A method that begins when no other thread is in one of the same object."""

    @functools.wraps(method)
    def after_others(self: Held, /, *args: Given.args, **named: Given.kwargs) -> Answer:
        with self._turn:
            return method(self, *args, **named)

    return after_others
