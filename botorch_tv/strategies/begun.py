"""By which a state tells with which parts it was begun."""

from __future__ import annotations

import json
from itertools import zip_longest

from botorch_tv.identity import describe
from botorch_tv.identity.source import digest

MARK = " #"


def told_apart(words: str, part: object) -> str:
    """A part in words, with a fingerprint of what these leave out: numbers, attributes, code.

    Args:
        words: Where they are the same of two parts, these may differ.
        part: Anybody's.

    Raises:
        ValueError: If it cannot be described.
    """
    whole = json.dumps(describe(part, words), sort_keys=True, default=str)
    return f"{words}{MARK}{digest([whole.encode()])}"


def first_unlike(there: tuple[str, ...], here: tuple[str, ...]) -> tuple[str, str]:
    """The first part that differs, in words: as it was, and as it is.

    Args:
        there: From :func:`told_apart`.
        here: The same of others.
    """
    one, other = next(pair for pair in zip_longest(there, here, fillvalue="") if len(set(pair)) > 1)
    was, now = (part.rpartition(MARK)[0] or "nothing" for part in (one, other))
    return was, now if now != was else "one of other numbers, attributes or code"
