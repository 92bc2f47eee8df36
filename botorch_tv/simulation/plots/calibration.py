"""Plot reliability diagrams: observed against nominal coverage of the bands."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from botorch_tv.drawing import GRAY, canvas, figure_of, written
from botorch_tv.simulation.plots.curves import Curve, draw_curves, name_curves
from botorch_tv.simulation.plots.line_styles import LineStyle, line_styles
from botorch_tv.simulation.study_record import StudyRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEVEL = 0.9  # of the bands plotted over time
BLOCKS = 25  # approximate number of points that rounds are averaged into


def plot_calibration(
    result: StudyRecord,
    path: str | os.PathLike[str] | None = None,
    level: float = LEVEL,
    *,
    ax: Axes | None = None,
) -> Figure:
    """Reliability diagrams of objective and observation, and calibration over time.

    A curve below the diagonal belongs to an overconfident strategy.

    Args:
        result: A diagnosed study.
        path: Where to write the figure; its extension selects the format.
        level: Nominal level of the bands plotted over time, in (0, 1).
        ax: Axes to draw the diagram of the objective on; their figure is returned.

    Raises:
        ValueError: If the study was not diagnosed, the level lies outside (0, 1), or both ``path``
            and ``ax`` are given.
    """
    block = max(1, round(result.data.sizes["round"] / BLOCKS))
    shares, by_round = result.calibration(), result.calibration_by_round(level, block)
    styles = line_styles(result.strategies)
    if ax is not None:
        figure = figure_of(ax, path)
        _draw_objective(ax, shares, styles)
        return figure
    figure = canvas(13.5, 4.7)
    left, middle, right = figure.subplots(1, 3)
    _draw_objective(left, shares, styles)
    _draw_reliability(middle, shares, "observation", styles)
    middle.set_title("Observation in mean ± z √(sd² + σ²)", loc="left", fontsize=10.5)
    _draw_by_round(right, by_round, styles)
    right.set_title(f"Objective in its {level:.0%} band, through time", loc="left", fontsize=10.5)
    return written(figure, path, _caption(result, block))


def _draw_objective(axes: Axes, shares: xr.Dataset, styles: Mapping[str, LineStyle]) -> None:
    _draw_reliability(axes, shares, "objective", styles)
    axes.set_title("Objective in mean ± z sd", loc="left", fontsize=10.5)
    axes.set_ylabel("share of rounds inside")
    _draw_played(axes, shares, styles)


def _draw_reliability(
    axes: Axes, shares: xr.Dataset, name: str, styles: Mapping[str, LineStyle]
) -> None:
    levels = shares["level"].values
    axes.plot([0, 1], [0, 1], color=GRAY, linewidth=0.9, linestyle=(0, (1, 1.5)))
    curves = _known_curves(shares, name)
    draw_curves(axes, levels, curves, styles)
    last = float(levels[-1])
    axes.set(xlim=(0, last), ylim=(0, 1), xlabel="nominal level of the band")
    axes.set_xticks([0, 0.2, 0.4, 0.6, 0.8, last])
    axes.xaxis.set_major_formatter("{x:g}")
    name_curves(axes, curves, styles)


def _draw_played(axes: Axes, shares: xr.Dataset, styles: Mapping[str, LineStyle]) -> None:
    """A dot per strategy for the band played, mean ± sqrt(beta_t) sd."""
    for label, look in styles.items():
        one = shares.sel(strategy=label)
        axes.plot(
            float(one["played_level"]),
            float(one["played"]),
            "o",
            color=look.color,
            markeredgecolor="white",
            markersize=7,
            clip_on=False,
        )


def _draw_by_round(axes: Axes, by_round: xr.Dataset, styles: Mapping[str, LineStyle]) -> None:
    curves = _known_curves(by_round, "objective")
    draw_curves(axes, by_round["round"].values, curves, styles)
    axes.axhline(by_round.attrs["level"], color=GRAY, linewidth=0.9, linestyle=(0, (1, 1.5)))
    axes.set(ylim=(0, 1), xlabel="round", ylabel="share of trials inside")
    name_curves(axes, curves, styles)


def _known_curves(shares: xr.Dataset, name: str) -> dict[str, Curve]:
    """Shares and their errors by label, without strategies that make no predictions."""
    curves = {}
    for label in map(str, shares["strategy"].values):
        share = shares[name].sel(strategy=label).values
        if np.isfinite(share[-1]):
            curves[label] = Curve(share, shares[f"{name}_error"].sel(strategy=label).values)
    return curves


def _caption(result: StudyRecord, block: int) -> str:
    trials = result.data.sizes["trial"]
    over = f"{trials:,} trials; bands: ± 1 standard error" if trials > 1 else "One trial"
    together = f", {block} rounds counted together" if block > 1 else ""
    return (
        f"{over}{together}. Dotted: as promised; curves below it are too sure. "
        "Dots: the band played, mean ± √β sd."
    )
