"""Fingerprints of a strategy's parts, by which a state is matched with its strategy."""

from __future__ import annotations

import json
from itertools import zip_longest

from botorch_tv.identity import describe, digest

MARK = " #"


def fingerprinted(words: str, part: object) -> str:
    """A part in words, with a fingerprint of what the words leave out: numbers, attributes, code.

    Args:
        words: The words; different parts may share them.
        part: A part, possibly user-defined.

    Raises:
        ValueError: If it cannot be described.
    """
    whole = json.dumps(describe(part, words), sort_keys=True, default=str)
    return f"{words}{MARK}{digest(whole.encode())}"


def first_difference(there: tuple[str, ...], here: tuple[str, ...]) -> tuple[str, str]:
    """The first part that differs, in words: as it was, and as it is.

    Args:
        there: Parts as given by :func:`fingerprinted`.
        here: Parts of another strategy.
    """
    one, other = next(pair for pair in zip_longest(there, here, fillvalue="") if len(set(pair)) > 1)
    was, now = (part.rpartition(MARK)[0] or "nothing" for part in (one, other))
    return was, now if now != was else "one of other numbers, attributes or code"
