"""The plot of a loop: observations and choices over time, and slices of the posterior."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from botorch.posteriors import Posterior
from torch import Tensor

from botorch_tv.drawing import (
    BLACK,
    BLUE,
    GRAY,
    GREEN,
    VERMILION,
    canvas,
    figure_of,
    lighten,
    settle_log,
    settle_times,
    settle_whole,
    written,
)
from botorch_tv.loop.clock import SPANS, Units
from botorch_tv.loop.log import Place
from botorch_tv.loop.table import OBJECTIVE, names_of
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.strategies.expressions import Limit
from botorch_tv.strategies.parameters import BoxParameter, Choice, Parameter

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


POSTERIOR, MEASURED, FAILED, BEST = BLUE, BLACK, VERMILION, GREEN
OPEN: dict[str, Any] = {"color": MEASURED, "marker": "o", "fillstyle": "none", "linestyle": ""}
PREDICTED: dict[str, Any] = dict(fmt="o", color=POSTERIOR, ms=3, elinewidth=3, alpha=0.35)
LEGEND: dict[str, Any] = dict(borderaxespad=0, ncols=5, frameon=False, fontsize="small")
SLICE = 101
"""Number of points at which a slice of the posterior on a box is plotted."""
FEW = 25
"""Largest number of values for which a slice of the posterior is drawn as dots, not as a line."""
Kind = Parameter | None
"""Type of a parameter; None if coordinates have no names."""


def _place(kind: Kind, value: Any) -> float:
    """The coordinate of a value on an axis; for a choice, the index of the value."""
    return float(kind.index(value) if isinstance(kind, Choice) else value)


def _settle(axis: Axis, kind: Kind, values: Sequence[float]) -> None:
    """Set the scale of an axis, and its ticks at possible values of a parameter."""
    log = isinstance(kind, BoxParameter) and kind.log
    axis.axes.set(**{f"{axis.axis_name}scale": "log" if log else "linear"})  # type: ignore[attr-defined]
    if isinstance(kind, Choice):
        axis.set_ticks(range(len(kind.choices)), [str(choice) for choice in kind.choices])
    elif not log:
        settle_whole(axis, values)
    elif values:
        settle_log(axis, min(values), max(values))


def draw_loop(
    frames: tuple[pd.DataFrame, pd.DataFrame],
    domain: Domain,
    units: Units,
    best: Tensor | None,
    predict: Callable[[Tensor], Posterior] | None,
    advised: Sequence[Place],
    path: str | os.PathLike[str] | None,
    ax: Axes | None,
    ylabel: str,
    limits: Sequence[Limit] = (),
) -> Figure:
    """Draw the figure of :meth:`Loop.plot`.

    Args:
        frames: The measurements, and the open suggestions with the same columns.
        domain: The domain.
        units: The names and units of the parameters.
        best: The best point, `d + c`, through which slices go; None for no slices.
        predict: Function that returns the posterior at points.
        advised: Times and points of past recommendations.
        path: The file; None to write none.
        ax: Axes for the observations alone; None to draw all panels.
        ylabel: Name of the observations.
        limits: Limits on outcomes; each has a panel.
    """
    kinds: dict[str, Any] = dict(units.parameters or dict.fromkeys(names_of(domain)))
    times = [time for frame in frames for time in frame["time"]]
    span: Any = SPANS[units.clock.unit] if units.clock.unit else 1.0

    def settle(axes: Axes) -> None:
        """Set the axis of time; a single time has a unit of time on either side."""
        if min(times) == max(times):
            axes.set_xlim(times[0] - span, times[0] + span)
        settle_times(axes)
        lighten(axes)

    if ax is not None:
        figure = figure_of(ax, path)
        _draw_values(ax, *frames, ylabel)
        settle(ax)
        return figure
    heights = [3.0] + [1.9] * (len(kinds) + len(limits))
    figure = canvas(10, 0.2 + sum(heights))
    grid = figure.add_gridspec(len(heights), 2, height_ratios=heights, width_ratios=[3, 2])
    values = figure.add_subplot(grid[0, :])
    values.set_title("Observations and predictions", loc="left")
    _draw_values(values, *frames, ylabel)
    settle(values)
    for row, limit in enumerate(limits):
        limited = figure.add_subplot(grid[1 + len(kinds) + row, :])
        _draw_limit(limited, frames[0], units.outcomes, limit)
        settle(limited)
    for row, (name, kind) in enumerate(kinds.items()):
        chosen = figure.add_subplot(grid[1 + row, slice(None) if best is None else 0])
        # The whole range is shown, so the axis does not change from measurement to measurement.
        _draw_chosen(chosen, *frames, row, kind, _range(domain, units, row, kind))
        chosen.set_ylabel(name)
        settle(chosen)
        if row == 0:
            dotted = "" if best is None else ", dotted: recommended now"
            dotted += ", line: recommended then" if advised else ""
            chosen.set_title(f"Settings{dotted}", loc="left")
        if best is not None and predict is not None:
            (now,) = _places(domain, units, best.unsqueeze(0), row, kind)
            chosen.axhline(now, color=BEST, linestyle="dotted")
            if advised:
                then = _places(domain, units, best.new_tensor([x for _, x in advised]), row, kind)
                when = [units.clock.shown(time) for time, _ in advised]
                chosen.plot(when, then, color=BEST, linewidth=1)  # type: ignore[arg-type]
            axes = figure.add_subplot(grid[1 + row, 1])
            X = _along(domain, best, row)
            _draw_slice(axes, predict(X), _places(domain, units, X, row, kind), kind)
            axes.axvline(now, color=BEST, linestyle="dotted")
            axes.set(xlabel=name, ylabel=ylabel)
            lighten(axes)
            if row == 0:
                axes.set_title("Posterior now, ± 2 sd", loc="left")
    if frames[0]["time"].dtype.kind == "f":  # an axis of dates needs no label
        (limited if limits else chosen).set_xlabel("time")
    return written(figure, path)


def _draw_values(axes: Axes, table: pd.DataFrame, waiting: pd.DataFrame, ylabel: str) -> None:
    """Draw observations and predictions over time."""
    good, bad = table[table["ok"]], table[~table["ok"]]
    label = "predicted, ± 2 sd"
    for rows in (table, waiting):
        predicted = rows[rows["mean"].notna()]
        if len(predicted):
            band = predicted["time"], predicted["mean"], 2 * predicted["sd"]
            axes.errorbar(*band, **PREDICTED, label=label)
            label = ""
    y = good[OBJECTIVE if OBJECTIVE in good else "y"]
    axes.plot(good["time"], y, "o", color=MEASURED, markersize=4, label="measured")
    low = axes.get_ylim()[0]
    if len(bad):
        axes.plot(bad["time"], [low] * len(bad), "x", color=FAILED, label="failed")
    if len(waiting):
        axes.plot(waiting["time"], waiting["mean"].fillna(low), **OPEN, label="open")
    for n, time in enumerate(table[table["reset"]]["time"]):
        axes.axvline(time, color=GRAY, linestyle="dashed", label="" if n else "reset")
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), **LEGEND)  # above the panel
    axes.set_ylabel(ylabel)


def _draw_limit(axes: Axes, table: pd.DataFrame, outcomes: Sequence[str], limit: Limit) -> None:
    """Draw a limited outcome over time, its bound, and the measurements that violate it."""
    values = table.to_numpy()[:, -len(outcomes) :].astype(float).T
    y = limit.expression.value(dict(zip(outcomes, values)))
    bad = (y > limit.bound) if limit.upper else (y < limit.bound)
    axes.plot(table["time"], y, "o", color=MEASURED, markersize=3)
    if bad.any():
        axes.plot(table["time"][bad], y[bad], "o", color=FAILED, markersize=4, label="violated")
    axes.axhline(limit.bound, color=FAILED, linestyle="dashed", label=limit.text)
    axes.set_ylabel(limit.expression.text)
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), **LEGEND)


def _draw_chosen(
    axes: Axes, table: pd.DataFrame, waiting: pd.DataFrame, row: int, kind: Kind, ends: list[float]
) -> None:
    good, bad, column = table[table["ok"]], table[~table["ok"]], table.columns[1 + row]
    places = [_place(kind, value) for value in good[column]]
    axes.plot(good["time"], places, "o", color=MEASURED, markersize=3)
    axes.plot(bad["time"], [_place(kind, value) for value in bad[column]], "x", color=FAILED)
    axes.plot(waiting["time"], [_place(kind, value) for value in waiting[column]], **OPEN)
    _settle(axes.yaxis, kind, [*places, *ends])
    axes.update_datalim([(0, end) for end in ends], updatex=False)
    axes.autoscale_view(scalex=False)


def _places(domain: Domain, units: Units, X: Tensor, number: int, kind: Kind) -> list[float]:
    """The coordinates of points, `q x (d + c)`, on the axis of a parameter."""
    points = [units.point(point[: domain.dim]) for point in X.tolist()]
    rows = [list(point.values() if isinstance(point, dict) else point) for point in points]
    return [_place(kind, row[number]) for row in rows]


def _draw_slice(axes: Axes, posterior: Posterior, x: list[float], kind: Kind) -> None:
    """Draw the posterior at the places ``x`` along a parameter."""
    mean = posterior.mean.squeeze(-1).cpu().numpy()
    sd = posterior.variance.squeeze(-1).clamp_min(0).sqrt().cpu().numpy()
    if isinstance(kind, Choice):  # no values lie between choices
        look: dict[str, Any] = PREDICTED | dict(ecolor=(POSTERIOR, 0.18), elinewidth=6, alpha=None)
        axes.errorbar(x, mean, 2 * sd, **look)
        axes.margins(x=0.2)
    else:
        axes.plot(x, mean, color=POSTERIOR, marker="o" if len(x) <= FEW else "", markersize=3)
        axes.fill_between(x, mean - 2 * sd, mean + 2 * sd, color=POSTERIOR, alpha=0.18, linewidth=0)
    _settle(axes.xaxis, kind, x)


def _range(domain: Domain, units: Units, number: int, kind: Kind) -> list[float]:
    """The coordinates, on the axis of a parameter, of all arms or of points along a box."""
    box = cast(Box, domain)
    whole = domain.X if isinstance(domain, Grid) else _along(box, box.bounds[0], number)
    return _places(domain, units, whole, number, kind)


def _along(domain: Domain, best: Tensor, number: int) -> Tensor:
    """Points that differ from the best point in one parameter only, sorted by it, `q x (d + c)`."""
    if isinstance(domain, Grid):
        arms = domain.X.to(best)
        others = [other for other in range(domain.dim) if other != number]
        X = arms[(arms[:, others] == best[others]).all(-1)]
        return X[X[:, number].argsort()]
    assert isinstance(domain, Box)
    at = slice(number, number + 1)
    if domain.parameters is not None:
        axis, at = domain.parameters.axes[number], domain.parameters.places[number]
        if isinstance(axis, Choice) and axis.levels is not None:
            X = best.repeat(len(axis.levels), 1)
            X[:, at] = axis.levels.to(best)
            return X
    U = domain.to_unit(best[: domain.dim]).repeat(SLICE, 1)
    U[:, at] = torch.linspace(0, 1, SLICE, device="cpu").to(best).unsqueeze(-1)
    X = best[: domain.dim].repeat(SLICE, 1)
    X[:, at] = domain.from_unit(U)[:, at]
    X = torch.unique(X, dim=0)  # sorts, and removes duplicate integers
    return torch.cat([X, best[domain.dim :].expand(len(X), -1)], -1)
