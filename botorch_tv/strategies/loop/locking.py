"""A lock that lets threads share a loop."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from threading import RLock
from typing import Concatenate, ParamSpec, Protocol, TypeVar

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


class LoopLock:
    """A reentrant lock; copies and pickles of it are unlocked."""

    def __init__(self) -> None:
        self._lock = RLock()

    def __reduce__(self) -> tuple[type[LoopLock], tuple[()]]:
        return LoopLock, ()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


class Lockable(Protocol):
    """An object with a lock."""

    _lock: LoopLock


Held = TypeVar("Held", bound=Lockable)


def locked(
    method: Callable[Concatenate[Held, Given], Answer],
) -> Callable[Concatenate[Held, Given], Answer]:
    """A method that holds the object's lock while it runs.

    A call with wrong arguments is refused with the method's signature, which Python's own error
    leaves out.
    """
    signature = inspect.signature(method)

    @functools.wraps(method)
    def wrapped(self: Held, /, *args: Given.args, **named: Given.kwargs) -> Answer:
        try:
            signature.bind(self, *args, **named)
        except TypeError as error:
            form = f"{type(self).__name__}.{method.__name__}({_arguments(signature)})"
            raise TypeError(f"{form}: {error}.") from None
        with self._lock:
            return method(self, *args, **named)

    return wrapped


def _arguments(signature: inspect.Signature) -> str:
    """Names of arguments, keyword-only ones after a star."""
    _, *arguments = signature.parameters.values()
    named = [one.name for one in arguments if one.kind is one.KEYWORD_ONLY]
    others = [one.name for one in arguments if one.kind is one.POSITIONAL_OR_KEYWORD]
    return ", ".join([*others, *(["*"] if named else []), *named])
