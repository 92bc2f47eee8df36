"""Curves with error bands, labels at their ends, and the colour and line of every strategy."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from botorch_tv import drawing
from botorch_tv.drawing import COLORS, lighten, settle_rounds
from botorch_tv.simulation.datasets import BlockMoments, blocks
from botorch_tv.simulation.study_record import StudyRecord
from botorch_tv.strategies.presets import PRESETS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINES = ("solid", "dashed", "dotted", "dashdot")


class LineStyle(NamedTuple):
    """How one strategy is drawn."""

    color: str
    line: str


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


_KNOWN = {
    _key(name): LineStyle(getattr(drawing, one.style.split()[0].upper()), one.style.split()[1])
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


LABEL_HEIGHT = 0.155  # inches per line of a label


class Curve(NamedTuple):
    """A mean over trials and its standard error, both `rounds`."""

    mean: np.ndarray
    error: np.ndarray


def regret_curve(result: StudyRecord, strategy: str, normalized: bool) -> Curve:
    """Mean regret up to every round.

    The error is that over trials.

    Args:
        result: The study.
        strategy: Label of one of its strategies.
        normalized: Whether to return R_t / t instead of R_t.
    """
    rounds = np.arange(1, result.data.sizes["round"] + 1) if normalized else 1
    parts = (part.values for part in blocks(result.regret.sel(strategy=strategy)))
    return mean_curve(np.cumsum(part, axis=-1) / rounds for part in parts)


def regret_curves(result: StudyRecord, normalized: bool) -> dict[str, Curve]:
    """Mean regret of every strategy up to every round, by label."""
    return {label: regret_curve(result, label, normalized) for label in result.strategies}


def mean_curve(parts: Iterable[np.ndarray]) -> Curve:
    """Mean over trials and its standard error, NaN for a single trial.

    Args:
        parts: Blocks of trials, `trials x rounds` each.
    """
    whole = BlockMoments.together(map(BlockMoments.of, parts))
    return Curve(whole.mean, whole.error)


def draw_curves(
    axes: Axes, rounds: np.ndarray, curves: Mapping[str, Curve], styles: Mapping[str, LineStyle]
) -> None:
    """Draw every curve with a band of one standard error."""
    marker = "o" if len(rounds) == 1 else ""  # a line of one point shows nothing
    for label, (mean, error) in curves.items():
        look = styles[label]
        axes.plot(rounds, mean, color=look.color, linestyle=look.line, linewidth=1.6, marker=marker)
        axes.fill_between(
            rounds, mean - error, mean + error, color=look.color, alpha=0.18, linewidth=0
        )
    settle_rounds(axes, rounds)
    lighten(axes)


def settle_scale(axes: Axes, curves: Iterable[Curve], skipped: float = 0.0) -> None:
    """Scale the vertical axis from 0 to the top of all curves.

    Args:
        axes: The axes.
        curves: Curves that must fit.
        skipped: Share of the first rounds that need not fit. Normalised regret starts at the level
            of random choices, several times the later values.
    """
    tops = []
    for mean, error in curves:
        first = int(skipped * len(mean))
        tops.append(float((mean + np.nan_to_num(error))[first:].max()))
    axes.set_ylim(0, 1.05 * max(tops) or 1.0)


def name_curves(axes: Axes, curves: Mapping[str, Curve], styles: Mapping[str, LineStyle]) -> None:
    """Label every curve at its right end; call it once the scale is final.

    Args:
        axes: The axes.
        curves: The curves by name.
        styles: Their colours.
    """
    to_axes = axes.transData + axes.transAxes.inverted()  # linear or logarithmic
    right = axes.get_xlim()[1]
    heights = {
        label: float(to_axes.transform((right, one.mean[-1]))[1]) for label, one in curves.items()
    }
    names = sorted(heights, key=heights.__getitem__)
    inches = axes.get_window_extent().height / axes.figure.dpi
    lines = [name.count("\n") + 1 for name in names]
    gaps = [LABEL_HEIGHT / inches * (one + other) / 2 for one, other in pairwise(lines)]
    places = spread_apart([heights[name] for name in names], gaps)
    for name, place in zip(names, places):
        color = styles[name].color
        line = {"arrowstyle": "-", "color": color, "linewidth": 0.7, "relpos": (0, 0.5)}
        axes.annotate(
            name,
            (1.0, heights[name]),
            xycoords="axes fraction",
            xytext=(1.035, place),
            textcoords="axes fraction",
            color=color,
            fontsize=9,
            va="center",
            arrowprops=line | {"shrinkA": 0, "shrinkB": 2},
        )


def spread_apart(places: Sequence[float], gaps: float | Sequence[float]) -> list[float]:
    """Move sorted positions apart until neighbours are at least a gap from each other.

    Neighbours that collide form a block which keeps its centre, so labels stay near their curves.

    Args:
        places: Positions in increasing order.
        gaps: Smallest distance between neighbours: one for all, or one for each pair.
    """
    from scipy.optimize import isotonic_regression

    packed = np.cumsum([0.0, *np.broadcast_to(gaps, len(places) - 1)])  # as close as allowed
    spread: list[float] = (isotonic_regression(places - packed).x + packed).tolist()
    return spread
