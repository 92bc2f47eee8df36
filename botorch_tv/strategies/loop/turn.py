"""Threads that share a loop take turns."""

from __future__ import annotations

import functools
import inspect
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
    """A method that begins when no other thread is in one of the same object.

    A call that does not fit is refused with how it is called, which Python's own error leaves out.
    """
    signature = inspect.signature(method)

    @functools.wraps(method)
    def after_others(self: Held, /, *args: Given.args, **named: Given.kwargs) -> Answer:
        try:
            signature.bind(self, *args, **named)
        except TypeError as error:
            form = f"{type(self).__name__}.{method.__name__}({_arguments(signature)})"
            raise TypeError(f"{form}: {error}.") from None
        with self._turn:
            return method(self, *args, **named)

    return after_others


def _arguments(signature: inspect.Signature) -> str:
    """Names as a call has them, those that go by name behind a star."""
    _, *arguments = signature.parameters.values()
    named = [one.name for one in arguments if one.kind is one.KEYWORD_ONLY]
    others = [one.name for one in arguments if one.kind is one.POSITIONAL_OR_KEYWORD]
    return ", ".join([*others, *(["*"] if named else []), *named])
