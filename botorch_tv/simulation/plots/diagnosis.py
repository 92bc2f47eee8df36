"""Plot reliability diagrams, and one trial over time with its predictions and triggered resets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from matplotlib.ticker import MaxNLocator

from botorch_tv.drawing import (
    BLACK,
    BLUE,
    GRAY,
    ORANGE,
    VERMILION,
    Where,
    canvas,
    lighten,
    written,
)
from botorch_tv.simulation.diagnosis import CAUSES, trigger_table, typical_trial, with_trigger
from botorch_tv.simulation.plots.curves import (
    Curve,
    LineStyle,
    draw_curves,
    line_styles,
    name_curves,
)
from botorch_tv.simulation.recorders import MODEL_NOISE, recorded
from botorch_tv.simulation.study_record import StudyRecord
from botorch_tv.validation import require

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEVEL = 0.9  # nominal level of the bands whose calibration is plotted over time
BLOCKS = 25  # approximate number of points of a curve over time; a point averages several rounds


def plot_calibration(result: StudyRecord, path: Where = None) -> Figure:
    """Reliability diagrams of objective and observation, and calibration over time.

    The curve of an overconfident strategy lies below the diagonal.

    Args:
        result: A diagnosed study.
        path: Where to write the figure; its extension selects the format.

    Raises:
        ValueError: If the study was not diagnosed.
    """
    block = max(1, round(result.data.sizes["round"] / BLOCKS))
    shares, by_round = result.calibration(), result.calibration_by_round(LEVEL, block)
    styles = line_styles(result.strategies)
    figure = canvas(13.5, 4.7)
    left, middle, right = figure.subplots(1, 3)
    _draw_reliability(left, shares, "objective", styles)
    _draw_reliability(middle, shares, "observation", styles)
    curves = _curves_with_predictions(by_round, "objective")
    draw_curves(right, by_round["round"].values, curves, styles)
    right.axhline(LEVEL, color=GRAY, linewidth=0.9, linestyle=(0, (1, 1.5)))
    right.set(ylim=(0, 1), xlabel="round", ylabel="share of trials inside")
    name_curves(right, curves, styles)
    right.set_title(f"Objective in its {LEVEL:.0%} band, through time", loc="left", fontsize=10.5)
    trials = result.data.sizes["trial"]
    over = f"{trials:,} trials; bands: ± 1 standard error" if trials > 1 else "One trial"
    together = f", {block} rounds averaged together" if block > 1 else ""
    caption = (
        f"{over}{together}. Dotted line: nominal share; curves below it are overconfident. "
        "Dots: each strategy's own band, mean ± √β sd."
    )
    return written(figure, path, caption)


def _draw_reliability(
    axes: Axes, shares: xr.Dataset, name: str, styles: Mapping[str, LineStyle]
) -> None:
    levels = shares["level"].values
    axes.plot([0, 1], [0, 1], color=GRAY, linewidth=0.9, linestyle=(0, (1, 1.5)))
    curves = _curves_with_predictions(shares, name)
    draw_curves(axes, levels, curves, styles)
    last = float(levels[-1])
    axes.set(xlim=(0, last), ylim=(0, 1), xlabel="nominal level of the band")
    axes.set_xticks([0, 0.2, 0.4, 0.6, 0.8, last])
    axes.xaxis.set_major_formatter("{x:g}")
    name_curves(axes, curves, styles)
    spread = "sd" if name == "objective" else "√(sd² + σ²)"
    axes.set_title(f"{name.title()} in mean ± z {spread}", loc="left", fontsize=10.5)
    if name == "objective":
        axes.set_ylabel("share of rounds inside")
        for label, (color, _) in styles.items():  # dot: the strategy's own band
            own = shares.sel(strategy=label)
            ends = float(own["played_level"]), float(own["played"])
            axes.plot(*ends, "o", color=color, markeredgecolor="white", clip_on=False)


def _curves_with_predictions(shares: xr.Dataset, name: str) -> dict[str, Curve]:
    """Shares and their standard errors by label, for all strategies that make predictions."""
    curves = {}
    for label in map(str, shares["strategy"].values):
        share = shares[name].sel(strategy=label).values
        if np.isfinite(share[-1]):
            curves[label] = share, shares[f"{name}_error"].sel(strategy=label).values
    return curves


def plot_triggers(
    result: StudyRecord,
    strategy: str | None = None,
    trial: int | None = None,
    path: Where = None,
) -> Figure:
    """Plot one trial of a strategy over time: predictions, observations, resets and their causes.

    For the choice of every round, the upper panel shows the mean, the trigger's band, the objective
    and the observation, in the units of y. The lower panel shows y − mean divided by half the width
    of the trigger's band. In the lower panel, a triggered reset is a dot above 1 or below -1; the
    line from 0 to the dot is divided into the model's error and the noise.

    Args:
        result: A diagnosed study.
        strategy: Label of a strategy with a trigger; by default the first strategy with a trigger.
        trial: Number of the trial; by default a trial with the typical number of resets.
        path: Where to write the figure; its extension selects the format.

    Raises:
        ValueError: If the study was not diagnosed, or if ``strategy`` is not a strategy with a
            trigger.
        KeyError: If the study has no trial with this number.
    """
    data = result.data
    armed = with_trigger(data)
    label = armed[0] if armed and strategy is None else str(strategy)
    require(
        label in armed,
        f"{label} does not reset by a trigger with a band; choose from "
        f"{', '.join(armed) or 'none'}, or add a strategy such as et_gp_ucb.",
    )
    number = int(data["trial"].values[typical_trial(data, label)]) if trial is None else trial
    own = data.sel(trial=[number])
    triggers = trigger_table(own.sel(strategy=[label]))
    names = ("observation", "objective", "mean", "sd", "band")
    values = {name: recorded(own, name, label)[0] for name in names}
    rounds = data["round"].values
    figure = canvas(11, 6.4)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1.5, 1])
    _draw_predictions(above, rounds, values, triggers)
    _draw_residuals(below, rounds, values, recorded(own, MODEL_NOISE, label)[0] ** 0.5, triggers)
    counts = triggers["cause"].value_counts()
    causes = ", ".join(f"{counts[cause]} by {cause}" for cause in CAUSES if cause in counts)
    headline = f"{label}, trial {number}: resets {len(triggers)}{causes and f' ({causes})'}"
    figure.suptitle(headline, x=0.01, ha="left", fontsize=11.5)
    trials = data.sizes["trial"]
    caption = ""
    if trials > 1:
        usual = result.mean_resets()[label]
        caption = f"One of {trials:,} trials, which reset {usual:.1f} times on average."
    return written(figure, path, caption)


def _draw_predictions(
    axes: Axes, rounds: np.ndarray, values: dict[str, np.ndarray], triggers: pd.DataFrame
) -> None:
    mean, band, objective = values["mean"], values["band"], values["objective"]
    _fill(axes, rounds, mean - band, mean + band, alpha=0.15, label="band of the trigger")
    edges = np.append(rounds, rounds[-1] + 1) - 0.5  # a round has width 1
    for line, color, label in ((mean, BLUE, "predicted mean"), (objective, BLACK, "objective")):
        axes.stairs(line, edges, baseline=None, color=color, linewidth=1.1, label=label)
    axes.plot(rounds, values["observation"], ".", color=GRAY, markersize=4, label="observation")
    if len(triggers):
        when, seen = triggers["round"], triggers["observation"]
        axes.plot(when, seen, "D", color=VERMILION, markersize=5, label="reset")
    axes.set_ylabel("at the arm played, units of y")
    for when in triggers["round"]:
        axes.axvline(when, color=VERMILION, linewidth=0.7, alpha=0.55, zorder=0.5)
    axes.set_xlim(edges[0], edges[-1])
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
    lighten(axes)
    axes.legend(ncols=5, frameon=False, fontsize=8.5, loc="lower left", bbox_to_anchor=(0, 1))


def _draw_residuals(
    axes: Axes,
    rounds: np.ndarray,
    values: dict[str, np.ndarray],
    noise_sd: np.ndarray,
    triggers: pd.DataFrame,
) -> None:
    mean, band, sd = values["mean"], values["band"], values["sd"]
    axes.axhspan(-1, 1, color=BLUE, alpha=0.15, linewidth=0, label="band: noise's part")
    part = sd / (sd + noise_sd)
    _fill(axes, rounds, -part, part, alpha=0.25, label="model's part")
    residual = (values["observation"] - mean) / band
    axes.plot(rounds, residual, ".", color=GRAY, markersize=4)
    when, limit = triggers["round"].to_numpy(), triggers["band"].to_numpy(dtype=float)
    objective = (triggers["objective"] - triggers["mean"]).to_numpy(dtype=float) / limit
    observed = (triggers["observation"] - triggers["mean"]).to_numpy(dtype=float) / limit
    if len(triggers):
        axes.vlines(when, 0, objective, color="black", linewidth=2.2, label="error of the model")
        axes.vlines(when, objective, observed, color=ORANGE, linewidth=2.2, label="noise")
    axes.plot(when, observed, "D", color=VERMILION, markersize=5)
    reach = 1.3 * float(np.nanmax(np.abs(residual), initial=1.15))
    axes.set(ylim=(-reach, reach), ylabel="(y − mean) / band", xlabel="round")
    lighten(axes)
    axes.legend(ncols=5, frameon=False, fontsize=8.5, loc="lower left", bbox_to_anchor=(0, 1))


def _fill(
    axes: Axes, rounds: np.ndarray, low: np.ndarray, high: np.ndarray, alpha: float, label: str
) -> None:
    """Draw a band between a lower and an upper value in every round."""
    edges = np.append(rounds, rounds[-1] + 1) - 0.5
    axes.stairs(
        high, edges, baseline=low, fill=True, color=BLUE, alpha=alpha, linewidth=0, label=label
    )
