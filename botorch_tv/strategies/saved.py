"""The layout of a saved state, by which another version recognises that it cannot read it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from botorch.exceptions import InputDataError

PACKAGE = __name__.partition(".")[0]


class Layout:
    """The classes of this package in a value, and what each consists of.

    Saved before the value itself, it is read before it, and refuses what has changed since.

    Args:
        classes: Module, name and fields of each.
    """

    def __init__(self, classes: tuple[tuple[str, str, tuple[str, ...]], ...]) -> None:
        self.classes = classes

    @classmethod
    def of(cls, value: object) -> Layout:
        """The layout of a value to be saved."""
        kinds = dict.fromkeys(_kinds(value, set()))
        return cls(tuple((one.__module__, one.__qualname__, _parts(one)) for one in kinds))

    def __reduce__(self) -> tuple[object, tuple[object]]:
        return _checked, (self.classes,)


def _checked(classes: tuple[tuple[str, str, tuple[str, ...]], ...]) -> Layout:
    for module, name, parts in classes:
        try:
            kind: Any = importlib.import_module(module)
            for one in name.split("."):
                kind = getattr(kind, one)
        except (ImportError, AttributeError):
            kind = None
        if kind is None or _parts(kind) != parts:
            what = "is not there any more" if kind is None else "consists of other parts now"
            raise InputDataError(
                f"this state was saved by another version of {PACKAGE}: {module}.{name} {what}. "
                "Load it with that version; or begin with strategy.init(domain), and tell it again "
                "what was measured. A Loop saved with loop.save(path) outlives versions."
            )
    return Layout(classes)


def _kinds(value: object, seen: set[int]) -> Iterator[type]:
    """The classes of this package in a value."""
    if id(value) in seen:
        return
    seen.add(id(value))
    kind = type(value)
    own = kind.__module__.partition(".")[0] == PACKAGE
    if own:
        yield kind
    if isinstance(value, (tuple, list)):
        parts = list(value)
    elif isinstance(value, dict):
        parts = list(value.values())
    elif own and is_dataclass(value):
        parts = [getattr(value, name) for name in _parts(kind)]
    else:
        return
    for part in parts:
        yield from _kinds(part, seen)


def _parts(kind: type) -> tuple[str, ...]:
    """Names of what a class consists of, as far as it says so."""
    if is_dataclass(kind):
        return tuple(one.name for one in fields(kind))
    return getattr(kind, "_fields", ())
