"""The colour and line of every strategy, the same in all plots."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

from botorch_tv.drawing import BLACK, BLUE, COLORS, GREEN, ORANGE, PURPLE, SKY, VERMILION

LINES = ("solid", "dashed", "dotted", "dashdot")
SILVER, WINE = "#888888", "#882255"
"""Reserved for one strategy each."""


class LineStyle(NamedTuple):
    """How one strategy is drawn."""

    color: str
    line: str


NAMED = {
    ("GP-UCB", "GP"): LineStyle(BLACK, "solid"),
    ("TV-GP-UCB", "TV"): LineStyle(BLUE, "solid"),
    ("R-GP-UCB", "R"): LineStyle(ORANGE, "solid"),
    ("ET-GP-UCB", "ET"): LineStyle(VERMILION, "solid"),
    ("WGP-UCB", "WGP", "W", "w_gp_ucb"): LineStyle(GREEN, "solid"),
    ("SW-GP-UCB", "SW"): LineStyle(SKY, "solid"),
    ("UI-GP-UCB", "UI"): LineStyle(PURPLE, "solid"),
    ("Adaptive-GP-UCB", "Adaptive"): LineStyle(WINE, "solid"),
    ("IGP-UCB", "IGP"): LineStyle(BLUE, "dashed"),
    ("BR-GP-UCB", "BR"): LineStyle(ORANGE, "dashed"),
    ("GP-TS", "TS"): LineStyle(VERMILION, "dashed"),
    ("GP-EI", "EI"): LineStyle(GREEN, "dashed"),
    ("GP-PI", "PI"): LineStyle(PURPLE, "dashed"),
    ("TV-BayesOpt",): LineStyle(SKY, "dashed"),
    ("UI-TVBO",): LineStyle(PURPLE, "dashdot"),
    ("SparQ-GP-UCB", "SparQ"): LineStyle(VERMILION, "dashdot"),
    ("W-SparQ-GP-UCB", "W-SparQ"): LineStyle(PURPLE, "dotted"),
    ("GLR-GP-UCB", "GLR"): LineStyle(VERMILION, "dotted"),
    ("W-DBO",): LineStyle(GREEN, "dashdot"),
    ("PE-GP-UCB", "PE"): LineStyle(BLUE, "dashdot"),
    ("BOB-GP-UCB", "BOB"): LineStyle(SKY, "dashdot"),
    ("R-PERP",): LineStyle(ORANGE, "dashdot"),
    ("Random", "random_search"): LineStyle(SILVER, "dotted"),
}
"""Styles of the algorithms, by their names. Colours differ within every figure of the papers."""


def line_styles(labels: Iterable[str]) -> dict[str, LineStyle]:
    """A colour and a line for every strategy of a plot.

    Algorithms have those of :data:`NAMED`, by name, short name or preset. The colour of any other
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


_KNOWN = {_key(name): style for names, style in NAMED.items() for name in names}


def _free(label: str, taken: set[LineStyle]) -> LineStyle:
    """The first style with a free colour, else the first free style, from one set by the label."""
    first = int(hashlib.sha256(label.encode()).hexdigest(), 16) % len(COLORS)
    colors = COLORS[first:] + COLORS[:first]
    styles = [LineStyle(color, line) for line, color in product(LINES, colors)]
    seen = {one.color for one in taken}
    free = [one for one in styles if one.color not in seen]
    return next(iter([*free, *(one for one in styles if one not in taken), *styles]))
