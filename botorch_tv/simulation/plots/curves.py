"""Functions that plot regret and resets over time, and functions that draw and label curves."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from botorch_tv import drawing
from botorch_tv.drawing import (
    COLORS,
    Where,
    canvas,
    draw_round_axis,
    lighten,
    written,
)
from botorch_tv.simulation.datasets import BlockMoments, blocks, by_trial
from botorch_tv.simulation.study_record import StudyRecord
from botorch_tv.strategies.listing import PRESETS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES = ("solid", "dashed", "dotted", "dashdot")


LineStyle = tuple[str, str]
"""The colour and the line style of a strategy."""


def line_styles(labels: Iterable[str]) -> dict[str, LineStyle]:
    """A colour and a line style for every strategy of a plot.

    If a label names a preset (by its full name, a short name or its function's name), the style of
    the label is fixed. If a label names no preset, the text of the label determines a colour; if
    this colour is taken, the next free colour is used. Styles do not depend on the order of the
    labels.

    Args:
        labels: Labels of all strategies of the study, whether drawn or not.
    """
    labels = list(labels)
    listed: dict[str, LineStyle] = {}
    for function, preset in PRESETS.items():
        color, line = preset.style.split()
        style = getattr(drawing, color.upper()), line
        listed |= {_key(name): style for name in (*preset.names, function)}
    styles: dict[str, LineStyle] = {}
    for label in sorted(set(labels), key=lambda name: (_key(name) not in listed, name)):
        taken = set(styles.values())
        own = listed.get(_key(label))
        styles[label] = _free(label, taken) if own is None or own in taken else own
    return {label: styles[label] for label in labels}


def _key(label: str) -> str:
    """A key that is the same for all spellings of a name, such as ET-GP-UCB and et_gp_ucb."""
    return re.sub(r"[^a-z0-9]", "", label.lower())


def _free(label: str, taken: set[LineStyle]) -> LineStyle:
    """First style with a free colour, else first free style, in an order set by the label."""
    first = int(hashlib.sha256(label.encode()).hexdigest(), 16) % len(COLORS)
    styles = [(color, line) for line in LINES for color in COLORS[first:] + COLORS[:first]]
    colors = {color for color, _ in taken}
    return min(styles, key=lambda style: (style in taken, style[0] in colors))


LABEL_HEIGHT = 0.155  # height of a line of a label, in inches


Curve = tuple[np.ndarray, np.ndarray]
"""The two arrays of a curve: mean over trials and its standard error, each `rounds`."""


def regret_curves(result: StudyRecord, normalized: bool) -> dict[str, Curve]:
    """Mean regret of every strategy up to every round, by label.

    Args:
        result: The study.
        normalized: Whether to divide the cumulative regret R_t by the number of rounds t.
    """
    rounds = np.arange(1, result.data.sizes["round"] + 1) if normalized else 1
    curves = {}
    for label in result.strategies:
        parts = (part.values for part in blocks(result.regret.sel(strategy=label)))
        curves[label] = mean_curve(np.cumsum(part, axis=-1) / rounds for part in parts)
    return curves


def mean_curve(parts: Iterable[np.ndarray]) -> Curve:
    """Mean over trials, and standard error of the mean, which is NaN for a single trial.

    Args:
        parts: The values to average: for each block of trials, an array `trials x rounds`.
    """
    whole = BlockMoments.together(map(BlockMoments.of, parts))
    return whole.mean, whole.error


def draw_curves(
    axes: Axes, rounds: np.ndarray, curves: Mapping[str, Curve], styles: Mapping[str, LineStyle]
) -> None:
    """Draw every curve with a band of one standard error."""
    marker = "o" if len(rounds) == 1 else ""  # a line through one point is invisible
    for label, (mean, error) in curves.items():
        color, line = styles[label]
        axes.plot(rounds, mean, color=color, linestyle=line, linewidth=1.6, marker=marker)
        axes.fill_between(rounds, mean - error, mean + error, color=color, alpha=0.18, linewidth=0)
    draw_round_axis(axes, rounds)
    lighten(axes)


def fit_scale(axes: Axes, curves: Iterable[Curve], skipped: float = 0.0) -> None:
    """Scale the vertical axis from 0 to the top of all curves.

    Args:
        axes: The axes.
        curves: Curves that must fit into the axes.
        skipped: Share of the rounds, at the beginning of a trial, in which curves may exceed the
            axes. Normalised regret starts at the level of random choices, which is several times
            its later level.
    """
    tops = [
        float((mean + np.nan_to_num(error))[int(skipped * len(mean)) :].max())
        for mean, error in curves
    ]
    axes.set_ylim(0, 1.05 * max(tops) or 1.0)


def name_curves(axes: Axes, curves: Mapping[str, Curve], styles: Mapping[str, LineStyle]) -> None:
    """Label every curve at its right end; the scale of the axes must be final.

    Args:
        axes: The axes.
        curves: The curves by name.
        styles: The colour and line style of each curve, by the name of the curve.
    """
    to_axes = axes.transData + axes.transAxes.inverted()  # for linear and logarithmic scales
    right = axes.get_xlim()[1]
    heights = {
        label: float(to_axes.transform((right, mean[-1]))[1]) for label, (mean, _) in curves.items()
    }
    names = sorted(heights, key=heights.__getitem__)
    inches = axes.get_window_extent().height / axes.figure.dpi
    lines = [name.count("\n") + 1 for name in names]
    gaps = [LABEL_HEIGHT / inches * (first + second) / 2 for first, second in pairwise(lines)]
    beside: dict[str, Any] = {"xycoords": "axes fraction", "fontsize": 9, "va": "center"}
    line = {"arrowstyle": "-", "linewidth": 0.7, "relpos": (0, 0.5), "shrinkA": 0, "shrinkB": 2}
    for name, place in zip(names, spread_apart([heights[name] for name in names], gaps)):
        color, end, start = styles[name][0], (1.0, heights[name]), (1.035, place)
        arrow = line | {"color": color}
        axes.annotate(name, end, start, color=color, arrowprops=arrow, **beside)


def spread_apart(places: Sequence[float], gaps: float | Sequence[float]) -> list[float]:
    """Move sorted positions apart until neighbours are at least a gap from each other.

    Neighbours that overlap form a block with a fixed centre, so labels stay near their curves.

    Args:
        places: Positions in increasing order.
        gaps: Smallest distance between neighbouring positions: a number for all pairs of
            neighbours, or a number for each pair.
    """
    from scipy.optimize import isotonic_regression  # type: ignore[import-untyped]

    # Positions that are as close to each other as the gaps allow.
    packed = np.cumsum([0.0, *np.broadcast_to(gaps, len(places) - 1)])
    return (isotonic_regression(places - packed).x + packed).tolist()


# ---------------------------------------------------------------- pictures

UNSETTLED = 0.1  # share of initial rounds in which normalised regret may exceed the scale
RASTER_TRIALS = 25  # largest number of rows of ticks; more rows merge into grey on a usual screen


def plot_regret(result: StudyRecord, path: Where = None) -> Figure:
    """Normalised and cumulative regret, with resets as ticks below the curves.

    Lines are means over trials, with bands of ± 1 standard error. Each strategy that resets has a
    strip of ticks, with a row for each of the first 25 trials and a tick for each reset.

    Args:
        result: The study.
        path: Where to write the figure; its extension selects the format.
    """
    resetting = {label: mean for label, mean in result.mean_resets().items() if mean > 0}
    figure = canvas(11, 4.4 + 0.75 * len(resetting))
    grid = figure.add_gridspec(1 + len(resetting), 2, height_ratios=[5.5] + [1] * len(resetting))
    lowest, total = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[:, 1])
    _draw_regret(lowest, result, True)
    _draw_regret(total, result, False)
    for row, (label, mean) in enumerate(resetting.items(), start=1):
        lowest.tick_params(labelbottom=False)
        lowest = figure.add_subplot(grid[row, 0], sharex=lowest)
        _draw_resets(lowest, result, label, mean)
    for axes in (lowest, total):
        axes.set_xlabel("round")
    return written(figure, path, _caption(result, ticks=bool(resetting)))


def plot_panels(
    results: Mapping[str, StudyRecord],
    path: Where = None,
    *,
    one_scale: bool = True,
    logarithmic: bool = False,
    resets: bool = False,
) -> Figure:
    """Normalised regret of several studies in panels, or cumulative regret on logarithmic axes.

    Args:
        results: The studies, at least one; each key is the title of a panel.
        path: Where to write the figure; its extension selects the format.
        one_scale: Whether all panels share the vertical scale; give False if their units differ.
        logarithmic: Whether to draw cumulative regret on two logarithmic axes, for curves that
            differ by orders of magnitude over many rounds.
        resets: Whether to draw a strip of ticks below each panel for every strategy that resets, as
            :func:`plot_regret` does.
    """
    means = [result.mean_resets() if resets else {} for result in results.values()]
    resetting = list(dict.fromkeys(label for each in means for label in each if each[label] > 0))
    figure, stacks = _stacks(len(results), len(resetting), one_scale)
    panels = stacks[:, 0]
    curves = [regret_curves(result, not logarithmic) for result in results.values()]
    every = [curve for of_panel in curves for curve in of_panel.values()]
    for axes, of_panel, (title, result) in zip(panels, curves, results.items()):
        draw_curves(axes, result.data["round"].values, of_panel, line_styles(of_panel))
        axes.set_title(title, loc="left", fontsize=10.5)
        if logarithmic:
            axes.set(xscale="log", yscale="log")
        else:
            fit_scale(axes, every if one_scale else of_panel.values(), UNSETTLED)
    for axes, of_panel in zip(panels, curves):  # labels need the final scales
        name_curves(axes, of_panel, line_styles(of_panel))
    for stack, result, mean in zip(stacks, results.values(), means):
        for axes, label in zip(stack[1:], resetting):
            _draw_resets(axes, result, label, mean[label])
            draw_round_axis(axes, result.data["round"].values)
        stack[-1].set_xlabel("round")
    label = "cumulative regret $R_t$" if logarithmic else "normalised regret $R_t / t$"
    for axes in panels:
        axes.set_ylabel(label if axes.get_subplotspec().is_first_col() else "")
    return written(figure, path, _caption(*results.values(), ticks=bool(resetting)))


def _stacks(studies: int, strips: int, one_scale: bool) -> tuple[Figure, np.ndarray]:
    """A figure, and for each study a stack of axes, a panel above strips of ticks."""
    columns = studies if studies < 4 else 2
    rows, parts = -(-studies // columns), 1 + strips
    figure = canvas(4.4 * columns, (3.6 + 0.65 * strips) * rows + 0.4)
    ratios = [5.5, *[1.0] * strips] * rows
    grid = figure.subplots(parts * rows, columns, squeeze=False, height_ratios=ratios)
    stacks = grid.reshape(rows, parts, columns).swapaxes(1, 2).reshape(-1, parts)
    for axes in stacks[studies:].flat:
        axes.set_visible(False)
    for axes in stacks[:, :-1].flat:
        axes.tick_params(labelbottom=False)
    for number, axes in enumerate(stacks[1:studies, 0] if one_scale else (), start=1):
        axes.sharey(stacks[0, 0])
        axes.tick_params(labelleft=number % columns == 0)
    return figure, stacks[:studies]


def plot_first_reset(
    results: Mapping[float, StudyRecord],
    periods: Mapping[float, int],
    path: Where = None,
) -> Figure:
    """Histogram of the round in which the event trigger first resets, [ET] Figure 4.

    Args:
        results: For each rate of change ε, a study whose first strategy is event-triggered.
        periods: For each rate of change ε, the reset period of R-GP-UCB, drawn as a vertical line.
        path: Where to write the figure; its extension selects the format.
    """
    figure = canvas(8, 4.4)
    axes = figure.subplots()
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
        side = "left" if periods[epsilon] == max(periods.values()) else "right"
        above = {"transform": axes.get_xaxis_transform(), "va": "bottom", "ha": side}
        axes.text(periods[epsilon], 1.0, f" N = {periods[epsilon]}", above, color=color)
    axes.set(xlim=(0, max(horizon, *periods.values())), ylim=(0, None))
    axes.set_xlabel("round of the first reset by the event trigger")
    axes.set_ylabel("share of all trials, per round")
    axes.legend(frameon=False, loc="upper right", title="dashed: period N of R-GP-UCB")
    lighten(axes)
    return written(figure, path)


def _draw_regret(axes: Axes, result: StudyRecord, normalized: bool) -> None:
    styles, curves = line_styles(result.strategies), regret_curves(result, normalized)
    draw_curves(axes, result.data["round"].values, curves, styles)
    fit_scale(axes, curves.values(), UNSETTLED if normalized else 0.0)
    name_curves(axes, curves, styles)
    title = "Normalised regret $R_t / t$" if normalized else "Cumulative regret $R_t$"
    axes.set_title(title, loc="left")


def _draw_resets(axes: Axes, result: StudyRecord, label: str, mean: float) -> None:
    fired = result.resets.sel(strategy=label).isel(trial=slice(RASTER_TRIALS)).values
    rounds, (color, _) = result.data["round"].values, line_styles(result.strategies)[label]
    rows = list(range(len(fired)))
    axes.eventplot([rounds[row] for row in fired], lineoffsets=rows, linewidths=1.4, colors=color)
    axes.set(ylim=(len(fired) - 0.5, -0.5), yticks=[])
    beside = {"transform": axes.transAxes, "fontsize": 8, "va": "center", "color": color}
    axes.text(1.035, 0.5, f"{label}\n{mean:.1f} resets", beside)
    lighten(axes)


def _caption(*results: StudyRecord, ticks: bool) -> str:
    counts = sorted({result.data.sizes["trial"] for result in results})
    trials = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    band = f"Mean of {trials} trials; bands: ± 1 standard error."
    rows = min(counts[-1], RASTER_TRIALS)
    last = f" Ticks: resets, one row per trial (first {rows})." if ticks else ""
    return (band if counts[-1] > 1 else "One trial.") + last


UNSETTLED_SIMPLE = 0.05  # share of initial rounds in which curves may exceed the scale


def plot_simple_regret(result: StudyRecord, path: Where = None) -> Figure:
    """Simple regret over time, next to the regret of the arms played.

    The simple regret of a round is the regret of the arm with the best posterior mean before the
    observation. The cost of exploration is the regret of the arms played minus the simple regret.

    Args:
        result: A diagnosed study.
        path: Where to write the figure; its extension selects the format.

    Raises:
        ValueError: If the study was not diagnosed.
    """
    simple = result.simple_regret
    styles = line_styles(result.strategies)
    curves = {
        label: mean_curve(block.values for block in blocks(simple.sel(strategy=label)))
        for label in styles
    }
    figure = canvas(11.5, 4.4)
    left, right = figure.subplots(1, 2, width_ratios=[1.35, 1])
    draw_curves(left, result.data["round"].values, curves, styles)
    fit_scale(left, curves.values(), UNSETTLED_SIMPLE)
    left.set_title("Regret of the arm recommended in each round", loc="left", fontsize=10.5)
    left.set(xlabel="round", ylabel="simple regret")
    name_curves(left, curves, styles)
    _draw_prices(right, result, styles)
    return written(figure, path, _caption(result, ticks=False))


def _draw_prices(axes: Axes, result: StudyRecord, styles: Mapping[str, LineStyle]) -> None:
    """Draw a row per strategy, with the regret of arms recommended and of arms played."""
    recommended, played = (
        result.over_trials(by_trial(values, lambda value: value.mean("round")))
        for values in (result.simple_regret, result.regret)
    )
    order = sorted(styles, key=lambda label: played[label].mean)
    dot: dict[str, Any] = {"fmt": "o", "markersize": 6.5, "elinewidth": 2.6}
    for row, label in enumerate(order):
        color, _ = styles[label]
        ends = recommended[label].mean, played[label].mean
        axes.plot(ends, (row, row), color=color, linewidth=1.2, alpha=0.6)
        for (mean, error), face in ((recommended[label], color), (played[label], "white")):
            axes.errorbar(mean, row, xerr=error, color=color, markerfacecolor=face, **dot)
    axes.set_yticks(range(len(order)), order)
    for tick, label in zip(axes.get_yticklabels(), order):
        tick.set_color(styles[label][0])
    axes.set(xlim=(0, None), ylim=(len(order) - 0.5, -0.5), xlabel="regret per round")
    axes.set_title("● recommended   ○ played", loc="left", fontsize=10.5)
    lighten(axes)
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.tick_params(axis="y", length=0)
