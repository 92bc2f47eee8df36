"""The colour and line of every strategy, the same in all plots."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

from botorch_tv.drawing import BLACK, BLUE, COLORS, GREEN, ORANGE, PURPLE, SKY, VERMILION
from botorch_tv.strategies.presets import PRESETS

LINES = ("solid", "dashed", "dotted", "dashdot")
SILVER, WINE = "#888888", "#882255"
"""Reserved for one strategy each."""


class LineStyle(NamedTuple):
    """How one strategy is drawn."""

    color: str
    line: str


HUES = {
    "black": BLACK,
    "blue": BLUE,
    "green": GREEN,
    "orange": ORANGE,
    "purple": PURPLE,
    "silver": SILVER,
    "sky": SKY,
    "vermilion": VERMILION,
    "wine": WINE,
}


def line_styles(labels: Iterable[str]) -> dict[str, LineStyle]:
    """A colour and a line for every strategy of a plot.

    Presets have those of their list, by name, short name or function. The colour of any other
    label is derived from the label; if it is taken, the next free one is used. The order of the
    labels does not matter.

    Args:
        labels: Labels of all strategies of the study, whether drawn or not.
    """
    labels = list(labels)
    styles: dict[str, LineStyle] = {}
    for label in sorted(set(labels), key=lambda one: (_key(one) not in _KNOWN, one)):
        taken = set(styles.values())
        own = _KNOWN.get(_key(label))
        styles[label] = _free(label, taken) if own is None or own in taken else own
    return {label: styles[label] for label in labels}


def _key(label: str) -> str:
    """A key that spellings of a name share, such as ET-GP-UCB and et_gp_ucb."""
    return re.sub(r"[^a-z0-9]", "", label.lower())


def _style(words: str) -> LineStyle:
    color, line = words.split()
    return LineStyle(HUES[color], line)


_KNOWN = {
    _key(name): _style(one.style)
    for function, one in PRESETS.items()
    for name in (*one.names, function)
}


def _free(label: str, taken: set[LineStyle]) -> LineStyle:
    """The first style with a free colour, else the first free style, from one set by the label."""
    first = int(hashlib.sha256(label.encode()).hexdigest(), 16) % len(COLORS)
    colors = COLORS[first:] + COLORS[:first]
    styles = [LineStyle(color, line) for line, color in product(LINES, colors)]
    seen = {one.color for one in taken}
    free = [one for one in styles if one.color not in seen]
    return next(iter([*free, *(one for one in styles if one not in taken), *styles]))
