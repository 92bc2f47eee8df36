"""Plot maps of the squared prediction error, and the weights of the adaptive strategy over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr
from matplotlib import colormaps
from matplotlib.ticker import MaxNLocator

from botorch_tv.drawing import VERMILION, Where, canvas, lighten, written
from botorch_tv.simulation.plots.curves import draw_curves, fit_scale, line_styles, name_curves
from botorch_tv.simulation.recorders import PLACE
from botorch_tv.simulation.study_record import StudyRecord
from botorch_tv.validation import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import Collection
    from matplotlib.figure import Figure

COLORS = "viridis"
ABREAST = 4
"""Largest number of maps in a row of the figure."""
TOP = 99.5
"""Percentile of the squared errors at which the colour scale ends; a few large errors exceed the
scale."""
DARKEST, LIGHTEST = 0.0, 0.85
"""Part of the colour map that curves use, as fractions of its length; its lightest end is not
used."""
ELONGATED = 4.0
"""Aspect ratio above which a map is stretched to fill its panel."""


def plot_prediction_error(
    result: StudyRecord,
    path: Where = None,
    *,
    across: int = 0,
    names: Sequence[str] = ("$x_1$", "$x_2$"),
    aspect: float = 1.0,
    strategy: str | None = None,
) -> Figure:
    """Plot squared prediction errors over the arms; strategies are ordered by their mean error.

    Arms on a lattice are drawn as an image, and other arms as dots; all panels share a colour
    scale. If arms have a single coordinate, a curve is drawn for each strategy.

    Args:
        result: A study with prediction errors.
        path: Where to write the figure; its extension selects the format.
        across: Index of the arms' coordinate that is drawn horizontally.
        names: Names of the coordinates.
        aspect: Length of a vertical unit divided by the length of a horizontal unit;
            1 / cos(latitude) for degrees of latitude and longitude.
        strategy: Label of the only strategy to draw. By default all strategies are drawn.

    Raises:
        ValueError: If the study did not record prediction errors, if the arms have more than two
            coordinates, or if the study has no strategy with the label ``strategy``.
    """
    places = np.asarray(result.prediction_error[PLACE].values, dtype=np.float64)
    require(
        places.shape[1] <= 2,
        f"The arms of this study have {places.shape[1]} coordinates, but a map shows at most two; "
        "use the numbers in result.prediction_error.",
    )
    scores = result.mean_squared_error()
    order = list(scores)
    if strategy is not None:
        result.require_strategy(strategy)
        order = [strategy]
    if places.shape[1] == 1:
        figure = canvas(8, 4.2)
        _curves(figure.subplots(), result, places[:, 0], order, names[0])
        return written(figure, path, _caption(result))
    places = places[:, [across, 1 - across]]
    rows = -(-len(order) // ABREAST)
    abreast = -(-len(order) // rows)
    height = 2.7 * (_height(places, aspect) or 1) + 0.75
    figure = canvas(2.9 * abreast + 0.9, height * rows + 0.4)
    panels = list(figure.subplots(rows, abreast, sharex=True, sharey=True, squeeze=False).flat)
    errors = result.prediction_error["mean"]
    top = float(np.percentile(errors.values, TOP)) or 1.0
    for number, (axes, label) in enumerate(zip(panels, order)):
        drawn = _draw(axes, errors.sel(strategy=label).values, top, places, aspect)
        axes.set_title(f"{label}: {scores[label]}", loc="left", fontsize=10)
        if number % abreast == 0:
            axes.set_ylabel(names[1 - across])
        if number + abreast >= len(order):  # no map lies below this map
            axes.set_xlabel(names[across])
            axes.tick_params(labelbottom=True)
    for axes in panels[len(order) :]:
        axes.set_visible(False)
    beyond: Literal["max", "neither"] = "max" if float(errors.max()) > top else "neither"
    bar = figure.colorbar(drawn, ax=panels, extend=beyond, shrink=0.85, pad=0.015, aspect=25)
    bar.set_label("squared prediction error", fontsize=9)
    bar.outline.set_visible(False)
    return written(figure, path, _caption(result))


def lattice(places: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The lattice of the arms, if they form a lattice.

    Args:
        places: Horizontal and vertical coordinates, `arms x 2`.

    Returns:
        Three arrays: the horizontal coordinates, increasing; the vertical coordinates, increasing;
        and the index of the arm at each lattice point, `vertical x horizontal`. None if the arms
        form no lattice.
    """
    xs, column = np.unique(places[:, 0], return_inverse=True)
    ys, row = np.unique(places[:, 1], return_inverse=True)
    if len(xs) * len(ys) != len(places) or min(len(xs), len(ys)) < 2:
        return None
    number = np.full((len(ys), len(xs)), -1)
    number[row.ravel(), column.ravel()] = np.arange(len(places))
    return (xs, ys, number) if (number >= 0).all() else None


def _height(places: np.ndarray, aspect: float) -> float | None:
    """Height of a map divided by its width; None if the map is stretched to fill its panel."""
    wide, high = np.ptp(places, axis=0) * [1, aspect]
    elongated = not wide / ELONGATED <= high <= wide * ELONGATED or high == 0
    return None if elongated else high / wide


def _draw(
    axes: Axes, errors: np.ndarray, top: float, places: np.ndarray, aspect: float
) -> Collection:
    """The map of a strategy, on a colour scale from 0 to ``top``."""
    if _height(places, aspect) is not None:
        axes.set_aspect(aspect)
    crossing = lattice(places)
    if crossing is not None:
        xs, ys, number = crossing
        mesh = axes.pcolormesh(
            xs, ys, errors[number], shading="nearest", cmap=COLORS, vmin=0, vmax=top
        )
        mesh.set_rasterized(True)
        return mesh
    axes.margins(0.08)
    lighten(axes)
    axes.grid(False)
    (x, y), size = places.T, float(np.clip(4000 / len(places), 6, 90))
    return axes.scatter(x, y, c=errors, s=size, cmap=COLORS, vmin=0, vmax=top)


def _curves(
    axes: Axes, result: StudyRecord, places: np.ndarray, order: Sequence[str], name: str
) -> None:
    sorted_arms = np.argsort(places)
    maps = result.prediction_error.isel(arm=sorted_arms).sel(strategy=order)
    styles = line_styles(result.strategies)
    curves = dict(zip(order, zip(maps["mean"].values, maps["standard_error"].values)))
    draw_curves(axes, places[sorted_arms], curves, styles)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8))
    axes.set_xlim(float(places.min()), float(max(places.max(), places.min() + 1e-9)))
    fit_scale(axes, curves.values())
    name_curves(axes, curves, styles)
    axes.set(xlabel=name, ylabel="squared prediction error")


def _caption(result: StudyRecord) -> str:
    size = result.data.sizes
    over = f"{size['round']:,} rounds" if size["round"] > 1 else "one round"
    if size["trial"] == 1:
        return f"(posterior mean − objective)², mean over {over} of one trial."
    return (
        f"(posterior mean − objective)², mean over {over} and {size['trial']:,} trials; "
        "± 1 standard error over trials."
    )


TITLES = {
    "rate": "Rate of change ε",
    "hazard": "Hazard of a jump h",
    "lengthscale": "Lengthscale ℓ, as a fraction of the range",
    "noise_ratio": "Noise ratio ρ, noise variance over objective variance",
}
EDGES = 0.25, 0.75
"""Quantiles over trials between which a curve's band lies; wider bands would hide each other."""


def plot_weights(
    result: StudyRecord,
    path: Where = None,
    *,
    strategy: str | None = None,
) -> Figure:
    """Plot weights of an adaptive strategy's rates, hazards, lengthscales, noise ratios and jumps.

    Curves are means over all trials, with bands between the quartiles over trials.

    Args:
        result: A study with ``record=(Weights(),)``.
        path: Where to write the figure; its extension selects the format.
        strategy: Label of a strategy that uses the recorded bank (the candidate models); by default
            the first strategy that uses this bank.

    Raises:
        ValueError: If weights were not recorded, or if ``strategy`` does not use the recorded bank.
    """
    data = result.data
    require(
        "weight_rate" in data,
        "This study has no weights; run it with run_study(..., record=(Weights(),)).",
    )
    first = data["weight_rate"].isel(trial=0, round=0, rate=0).values
    able = [
        str(label) for label, weight in zip(data["strategy"].values, first) if np.isfinite(weight)
    ]
    label = able[0] if able and strategy is None else str(strategy)
    require(
        label in able,
        f"{label} has no recorded weights: it does not use the bank (the candidate models) given "
        f"to Weights; choose from {', '.join(able) or 'none'}, or "
        "add adaptive_gp_ucb() and give its bank to Weights.",
    )
    own = data.sel(strategy=label)
    figure = canvas(10, 1.55 * len(TITLES) + 1.9)
    ratios = [1.0] * len(TITLES) + [0.8]
    *above, below = figure.subplots(len(ratios), 1, sharex=True, height_ratios=ratios)
    for axes, name in zip(above, TITLES):
        _draw_weights(axes, own, name)
    _draw_bands(below, own["jump"].expand_dims("curve", -1), [VERMILION], [""])
    below.set_title("A jump came before the measurement", loc="left", fontsize=10.5)
    below.set(ylabel="chance", xlabel="round")
    figure.align_ylabels()
    title = f'Posterior weights of "{label}"'
    figure.suptitle(title, x=0.01, ha="left", fontsize=11.5)
    caption = "One trial."
    if own.sizes["trial"] > 1:
        caption = f"Mean of {own.sizes['trial']:,} trials; bands: between the quartiles."
    caption += " Rates and hazards count per median time between measurements."
    return written(figure, path, caption)


def _draw_weights(axes: Axes, own: xr.Dataset, name: str) -> None:
    """The weights of all values of a quantity, such as ε, in the order of the values."""
    values = own.sortby(name)
    labels = [f"{value:g}" for value in values[name].values]
    shades = [colormaps[COLORS](shade) for shade in np.linspace(LIGHTEST, DARKEST, len(labels))]
    _draw_bands(axes, values[f"weight_{name}"], shades, labels)
    axes.set_title(TITLES[name], loc="left", fontsize=10.5)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize="small")
    axes.set_ylabel("weight")


def _draw_bands(
    axes: Axes, values: xr.DataArray, colors: Sequence[Any], labels: Sequence[str]
) -> None:
    """Draw the mean over trials; with several trials, also the band between the quartiles."""
    rounds, whole = values["round"].values, values.values
    for color, label, curve in zip(colors, labels, np.moveaxis(whole, -1, 0)):
        axes.plot(rounds, curve.mean(0), color=color, linewidth=1.6, label=label)
        if len(whole) > 1:
            low, high = np.quantile(curve, EDGES, axis=0)
            axes.fill_between(rounds, low, high, color=color, alpha=0.18, linewidth=0)
    axes.set_ylim(-0.02, 1.02)
    lighten(axes)
