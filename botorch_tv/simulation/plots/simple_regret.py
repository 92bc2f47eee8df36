"""Plot simple regret: the regret of the arm recommended in every round."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from botorch_tv.drawing import canvas, figure_of, lighten, written
from botorch_tv.simulation.datasets import blocks, by_trial
from botorch_tv.simulation.plots.curves import (
    Curve,
    draw_curves,
    mean_curve,
    name_curves,
    settle_scale,
)
from botorch_tv.simulation.plots.line_styles import LineStyle, line_styles
from botorch_tv.simulation.study_record import StudyRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

UNSETTLED = 0.05  # share of the first rounds in which simple regret may exceed the scale


def plot_simple_regret(
    result: StudyRecord,
    path: str | os.PathLike[str] | None = None,
    *,
    ax: Axes | None = None,
) -> Figure:
    """Simple regret over time, next to the regret of the arms played.

    Simple regret is that of the arm with the best posterior mean before the round's observation.
    The difference from the regret of the arms played is the cost of exploration.

    Args:
        result: A diagnosed study.
        path: Where to write the figure; its extension selects the format.
        ax: Axes to draw simple regret over time on; their figure is returned.

    Raises:
        ValueError: If the study was not diagnosed, or both ``path`` and ``ax`` are given.
    """
    simple = result.simple_regret
    styles = line_styles(result.strategies)
    curves = {
        label: mean_curve(one.values for one in blocks(simple.sel(strategy=label)))
        for label in styles
    }
    if ax is not None:
        figure = figure_of(ax, path)
        _draw_curves(ax, result, curves)
        return figure
    figure = canvas(11.5, 4.4)
    left, right = figure.subplots(1, 2, width_ratios=[1.35, 1])
    _draw_curves(left, result, curves)
    _draw_prices(right, result, styles)
    trials = result.data.sizes["trial"]
    caption = f"Mean of {trials:,} trials; bands and bars: ± 1 standard error."
    caption = caption if trials > 1 else "One trial."
    return written(figure, path, caption)


def _draw_curves(axes: Axes, result: StudyRecord, curves: Mapping[str, Curve]) -> None:
    styles = line_styles(result.strategies)
    draw_curves(axes, result.data["round"].values, curves, styles)
    settle_scale(axes, curves.values(), UNSETTLED)
    axes.set_title("Regret of the arm recommended in each round", loc="left", fontsize=10.5)
    axes.set(xlabel="round", ylabel="simple regret")
    name_curves(axes, curves, styles)


def _draw_prices(axes: Axes, result: StudyRecord, styles: Mapping[str, LineStyle]) -> None:
    """A row per strategy with the regret of arms recommended and arms played, lowest on top."""
    recommended, played = (
        result.over_trials(by_trial(values, lambda one: one.mean("round")))
        for values in (result.simple_regret, result.regret)
    )
    order = sorted(styles, key=lambda label: played[label].mean)
    for row, label in enumerate(order):
        color = styles[label].color
        ends = recommended[label].mean, played[label].mean
        axes.plot(ends, (row, row), color=color, linewidth=1.2, alpha=0.6)
        for one, face in ((recommended[label], color), (played[label], "white")):
            axes.errorbar(
                one.mean,
                row,
                xerr=one.standard_error,
                fmt="o",
                color=color,
                markerfacecolor=face,
                markersize=6.5,
                elinewidth=2.6,
            )
    axes.set_yticks(range(len(order)), order)
    for tick, label in zip(axes.get_yticklabels(), order):
        tick.set_color(styles[label].color)
    axes.set(xlim=(0, None), ylim=(len(order) - 0.5, -0.5), xlabel="regret per round")
    axes.set_title("● recommended   ○ played", loc="left", fontsize=10.5)
    lighten(axes)
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.tick_params(axis="y", length=0)
