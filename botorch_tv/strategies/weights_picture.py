"""The weights of a bank through time, as a picture."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib import colormaps

from botorch_tv.drawing import VERMILION, canvas, figure_of, lighten, settle_times, written

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DARKEST, LIGHTEST = 0.0, 0.85
"""Ends of the colour map that are told from each other and from paper."""


class Band(NamedTuple):
    """Curves through time."""

    middle: np.ndarray
    """`times x curves`, NaN where there is nothing to draw."""
    low: np.ndarray | None = None
    """Lower edge of a band around them, likewise; None for none."""
    high: np.ndarray | None = None


class Panel(NamedTuple):
    """The weights of the values of one quantity."""

    title: str
    values: Sequence[str]
    """The label of each curve, from the smallest value to the largest."""
    weight: Band


def draw_weights(
    times: Sequence[object] | np.ndarray,
    panels: Sequence[Panel],
    jump: Band,
    *,
    xlabel: str,
    title: str = "",
    caption: str = "",
    path: str | os.PathLike[str] | None = None,
    ax: Axes | None = None,
) -> Figure:
    """A panel per quantity and, below, the chance that a jump came before each measurement.

    Args:
        times: Of the measurements.
        panels: One for each quantity.
        jump: A single curve.
        xlabel: What the times are.
        title: Above everything.
        caption: Below everything.
        path: Where to write the picture; its ending chooses the format.
        ax: Axes of a caller to draw the first panel on, alone.
    """
    if ax is not None:
        figure = figure_of(ax, path)
        _draw_panel(ax, times, panels[0])
        ax.set_xlabel(xlabel)
        settle_times(ax)
        return figure
    figure = canvas(10, 1.55 * len(panels) + 1.9)
    *above, below = figure.subplots(
        len(panels) + 1, 1, sharex=True, height_ratios=[1.0] * len(panels) + [0.8]
    )
    for axes, panel in zip(above, panels):
        _draw_panel(axes, times, panel)
    below.set_title("A jump came before the measurement", loc="left", fontsize=10.5)
    _draw(below, times, jump, [VERMILION], [""])
    below.set(ylabel="chance", xlabel=xlabel)
    settle_times(below)
    figure.align_ylabels()
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=11.5)
    return written(figure, path, caption)


def _draw_panel(axes: Axes, times: Sequence[object] | np.ndarray, panel: Panel) -> None:
    axes.set_title(panel.title, loc="left", fontsize=10.5)
    shades = np.linspace(LIGHTEST, DARKEST, len(panel.values))
    colors = [colormaps["viridis"](shade) for shade in shades]
    _draw(axes, times, panel.weight, colors, panel.values)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize="small")
    axes.set_ylabel("weight")


def _draw(
    axes: Axes,
    times: Sequence[object] | np.ndarray,
    band: Band,
    colors: Sequence[object],
    names: Sequence[str],
) -> None:
    seen = np.isfinite(band.middle).all(1).sum()
    marker = "o" if seen == 1 else ""  # a line of one point shows nothing
    for number, (color, name) in enumerate(zip(colors, names)):
        look = {"color": color, "linewidth": 1.6, "marker": marker, "label": name}
        axes.plot(times, band.middle[:, number], **look)  # type: ignore[arg-type]
        if band.low is not None and band.high is not None:
            edges = band.low[:, number], band.high[:, number]
            axes.fill_between(times, *edges, color=color, alpha=0.18, linewidth=0)  # type: ignore[arg-type]
    axes.set_ylim(-0.02, 1.02)
    lighten(axes)
