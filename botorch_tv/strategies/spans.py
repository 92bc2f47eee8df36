"""Spans of time and numbers of things in words."""

from __future__ import annotations


def span_in_words(length: float, unit: str) -> str:
    """A span of time, to three digits: ``1 hour``, ``46.6 hours``, ``3600 units of time``.

    Args:
        length: How many.
        unit: Of time, in the plural, ``"hours"``; empty where it has no name.
    """
    return counted(float(f"{length:.3g}"), unit or "units of time")


def counted(number: float, things: str) -> str:
    """How many of some things, said in the plural, there are: ``1 point``, ``3 points``."""
    first, *rest = things.split(" ", 1)
    first = first.removesuffix("s") if number == 1 else first
    return " ".join([f"{number:g}", first, *rest])
