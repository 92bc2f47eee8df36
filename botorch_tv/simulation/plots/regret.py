"""Plot regret and simple regret over time, resets, and the rounds of first resets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from botorch_tv.drawing import COLORS, Where, canvas, figure_of, lighten, panel, written
from botorch_tv.simulation.datasets import blocks, by_trial
from botorch_tv.simulation.plots.curves import (
    Curve,
    LineStyle,
    draw_curves,
    line_styles,
    mean_curve,
    name_curves,
    regret_curves,
    settle_scale,
)
from botorch_tv.simulation.study_record import StudyRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

UNSETTLED = 0.1  # share of the first rounds in which normalised regret may exceed the scale
RASTER_TRIALS = 25  # more rows than this merge into grey on a usual screen


def plot_regret(
    result: StudyRecord, path: Where = None, *, ax: Axes | None = None, normalized: bool = True
) -> Figure:
    """Normalised and cumulative regret, with resets as ticks below.

    Lines are means over trials, with bands of one standard error to either side. Each strategy
    that resets gets a strip of ticks: a row for each of the first 25 trials, a tick per reset.

    Args:
        result: The study.
        path: Where to write the figure; its extension selects the format.
        ax: Axes to draw one kind of regret on, without resets; their figure is returned.
        normalized: Which kind: normalised if True, else cumulative.

    Raises:
        ValueError: If both ``path`` and ``ax`` are given.
    """
    if ax is not None:
        figure = figure_of(ax, path)
        _draw_regret(ax, result, normalized)
        ax.set_xlabel("round")
        return figure
    resetting = {label: mean for label, mean in result.mean_resets().items() if mean > 0}
    figure = canvas(11, 4.4 + 0.75 * len(resetting))
    grid = figure.add_gridspec(1 + len(resetting), 2, height_ratios=[5.5] + [1] * len(resetting))
    average, total = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[:, 1])
    _draw_regret(average, result, True)
    _draw_regret(total, result, False)
    strips = [
        figure.add_subplot(grid[row, 0], sharex=average) for row in range(1, 1 + len(resetting))
    ]
    for strip, (label, mean) in zip(strips, resetting.items()):
        _draw_resets(strip, result, label, mean)
    left = [average, *strips]
    for axes in left[:-1]:
        axes.tick_params(labelbottom=False)
    for axes in (left[-1], total):
        axes.set_xlabel("round")
    return written(figure, path, _caption(result, ticks=bool(strips)))


def plot_panels(
    results: Mapping[str, StudyRecord],
    path: Where = None,
    *,
    one_scale: bool = True,
    logarithmic: bool = False,
) -> Figure:
    """Normalised regret of several studies side by side, or cumulative regret on logarithmic axes.

    Args:
        results: The studies by the titles of their panels; at least one.
        path: Where to write the figure; its extension selects the format.
        one_scale: Whether all panels share one scale; False if their units differ.
        logarithmic: Whether to draw cumulative regret on two logarithmic axes, for curves that
            differ by orders of magnitude over many rounds.
    """
    columns = len(results) if len(results) < 4 else 2
    rows = -(-len(results) // columns)
    figure = canvas(4.4 * columns, 3.6 * rows + 0.4)
    panels = figure.subplots(rows, columns, sharey=one_scale, squeeze=False)
    for axes in panels.flat[len(results) :]:
        axes.set_visible(False)
    curves = {
        title: regret_curves(result, normalized=not logarithmic)
        for title, result in results.items()
    }
    for axes, (title, result) in zip(panels.flat, results.items()):
        rounds = result.data["round"].values
        draw_curves(axes, rounds, curves[title], line_styles(result.strategies))
        axes.set_title(title, loc="left", fontsize=10.5)
        axes.set_xlabel("round")
    if logarithmic:
        for axes in panels.flat[: len(results)]:
            axes.set(xscale="log", yscale="log")
    elif one_scale:
        every = [curve for of_panel in curves.values() for curve in of_panel.values()]
        settle_scale(panels[0, 0], every, UNSETTLED)
    else:
        for axes, of_panel in zip(panels.flat, curves.values()):
            settle_scale(axes, of_panel.values(), UNSETTLED)
    for axes, of_panel in zip(panels.flat, curves.values()):
        name_curves(axes, of_panel, line_styles(list(of_panel)))
    for axes in panels[:, 0]:
        axes.set_ylabel("cumulative regret $R_t$" if logarithmic else "normalised regret $R_t / t$")
    return written(figure, path, _caption(*results.values(), ticks=False))


def plot_first_reset(
    results: Mapping[float, StudyRecord],
    periods: Mapping[float, int],
    path: Where = None,
    *,
    ax: Axes | None = None,
) -> Figure:
    """Histogram of the round of the event trigger's first reset, [ET] Figure 4.

    Args:
        results: The studies by rate of change ε; the first strategy of each resets.
        periods: The period of R-GP-UCB for the same ε, drawn as a vertical line.
        path: Where to write the figure; its extension selects the format.
        ax: Axes to draw on instead; their figure is returned.

    Raises:
        ValueError: If both ``path`` and ``ax`` are given.
    """
    figure, axes = panel(ax, path, 8, 4.4)
    horizon = max(result.data.sizes["round"] for result in results.values())
    width = max(1, horizon // 100)
    edges = np.arange(0.5, horizon + width + 0.5, width)
    for (epsilon, result), color in zip(results.items(), COLORS):
        first = result.first_reset().isel(strategy=0).values
        share = np.histogram(first[~np.isnan(first)], bins=edges)[0] / len(first) / width
        never = float(np.isnan(first).mean())
        label = f"ε = {epsilon:g}: {len(first):,} trials, {never:.1%} never reset"
        axes.stairs(share, edges, fill=True, alpha=0.3, color=color)
        axes.stairs(share, edges, color=color, linewidth=1.4, label=label)
        axes.axvline(periods[epsilon], color=color, linewidth=1.8, linestyle="dashed")
        axes.annotate(
            f" N = {periods[epsilon]}",
            (periods[epsilon], 1.0),
            xycoords=("data", "axes fraction"),
            va="bottom",
            ha="left" if periods[epsilon] == max(periods.values()) else "right",
            color=color,
        )
    axes.set(xlim=(0, max(horizon, *periods.values())), ylim=(0, None))
    axes.set_xlabel("round of the first reset by the event trigger")
    axes.set_ylabel("share of all trials, per round")
    axes.legend(frameon=False, loc="upper right", title="dashed: period N of R-GP-UCB")
    lighten(axes)
    return written(figure, path) if ax is None else figure


def _draw_regret(axes: Axes, result: StudyRecord, normalized: bool) -> None:
    styles, curves = line_styles(result.strategies), regret_curves(result, normalized)
    draw_curves(axes, result.data["round"].values, curves, styles)
    settle_scale(axes, curves.values(), UNSETTLED if normalized else 0.0)
    name_curves(axes, curves, styles)
    title = "Normalised regret $R_t / t$" if normalized else "Cumulative regret $R_t$"
    axes.set_title(title, loc="left")


def _draw_resets(axes: Axes, result: StudyRecord, label: str, mean: float) -> None:
    fired = result.resets.sel(strategy=label).isel(trial=slice(RASTER_TRIALS)).values
    rounds = result.data["round"].values
    axes.eventplot(
        [rounds[row] for row in fired],
        lineoffsets=list(range(len(fired))),
        linelengths=1.0,
        linewidths=1.4,
        colors=line_styles(result.strategies)[label].color,
    )
    axes.set(ylim=(len(fired) - 0.5, -0.5), yticks=[])
    axes.annotate(
        f"{label}\n{mean:.1f} resets",
        (1.035, 0.5),
        xycoords="axes fraction",
        fontsize=8,
        va="center",
        color=line_styles(result.strategies)[label].color,
    )
    lighten(axes)


def _caption(*results: StudyRecord, ticks: bool) -> str:
    counts = sorted({result.data.sizes["trial"] for result in results})
    trials = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    band = (
        f"Mean of {trials} trials; bands: ± 1 standard error." if counts[-1] > 1 else "One trial."
    )
    rows = min(counts[-1], RASTER_TRIALS)
    return band + (f" Ticks: resets, one row per trial (first {rows})." if ticks else "")


UNSETTLED_SIMPLE = 0.05  # share of the first rounds in which simple regret may exceed the scale


def plot_simple_regret(
    result: StudyRecord, path: Where = None, *, ax: Axes | None = None
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
        _draw_simple_regret(ax, result, curves)
        return figure
    figure = canvas(11.5, 4.4)
    left, right = figure.subplots(1, 2, width_ratios=[1.35, 1])
    _draw_simple_regret(left, result, curves)
    _draw_prices(right, result, styles)
    trials = result.data.sizes["trial"]
    caption = f"Mean of {trials:,} trials; bands and bars: ± 1 standard error."
    caption = caption if trials > 1 else "One trial."
    return written(figure, path, caption)


def _draw_simple_regret(axes: Axes, result: StudyRecord, curves: Mapping[str, Curve]) -> None:
    styles = line_styles(result.strategies)
    draw_curves(axes, result.data["round"].values, curves, styles)
    settle_scale(axes, curves.values(), UNSETTLED_SIMPLE)
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
