"""Plot the weights of the adaptive strategy over time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from botorch_tv.simulation.study_record import StudyRecord
from botorch_tv.strategies.weights_picture import Band, Panel, draw_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {
    "rate": "Rate of change ε",
    "hazard": "Hazard of a jump h",
    "lengthscale": "Lengthscale ℓ, in sides of the domain",
    "noise_ratio": "Noise ratio ρ, variance in those of the objective",
}
EDGES = 0.25, 0.75
"""Quantiles over trials at the edges of a band; wider bands would hide each other."""


def plot_weights(
    result: StudyRecord,
    strategy: str | None = None,
    trial: int | None = None,
    path: str | os.PathLike[str] | None = None,
    *,
    ax: Axes | None = None,
) -> Figure:
    """The weights of rates, hazards, lengthscales and noise ratios, and of jumps, round by round.

    Args:
        result: A study with ``record=(Weights(),)``.
        strategy: Label of a strategy with that bank; the first one by default.
        trial: Number of the trial; by default the mean and the middle half of all trials.
        path: Where to write the figure; its extension selects the format.
        ax: Axes to draw the weights of rates on; their figure is returned.

    Raises:
        ValueError: If weights were not recorded, there is no such strategy or trial, or both
            ``path`` and ``ax`` are given.
    """
    label = _label(result, strategy)
    data = result.data
    if trial is not None:
        result.require_trial(trial)
    own = data.sel(strategy=label) if trial is None else data.sel(strategy=label, trial=[trial])
    panels = []
    for name, heading in TITLES.items():
        values = own.sortby(name)
        names = [f"{value:g}" for value in values[name].values]
        panels.append(Panel(heading, names, _band(values[f"weight_{name}"])))
    caption = "One trial."
    if trial is not None:
        caption = f"Trial {trial}."
    elif own.sizes["trial"] > 1:
        caption = f"Mean of {own.sizes['trial']:,} trials, and the middle half of them."
    return draw_weights(
        data["round"].values,
        panels,
        _band(own["jump"].expand_dims("curve", -1)),
        xlabel="round",
        title=f'What "{label}" came to believe: the weight of every value',
        caption=f"{caption} Rates and hazards count per median time between measurements.",
        path=path,
        ax=ax,
    )


def _label(result: StudyRecord, strategy: str | None) -> str:
    """The label of a strategy with weights, by default the first.

    Raises:
        ValueError: If the study has no weights, or no weights of this strategy.
    """
    data = result.data
    if "weight_rate" not in data:
        raise ValueError(
            "This study has no weights; run it with run_study(..., record=(Weights(),))."
        )
    first = data["weight_rate"].isel(trial=0, round=0, rate=0).values
    able = [str(one) for one, w in zip(data["strategy"].values, first) if np.isfinite(w)]
    if not able:
        raise ValueError(
            "No strategy of this study has the recorded bank; add adaptive_gp_ucb(), and give its "
            "bank to Weights."
        )
    if strategy is None:
        return able[0]
    result.require_strategy(strategy)
    if strategy not in able:
        raise ValueError(
            f"{strategy} has no weights of the recorded bank; choose from {', '.join(able)}."
        )
    return strategy


def _band(values: object) -> Band:
    """Mean and quantiles over trials of `trial x round x curve`."""
    whole = np.asarray(values)
    if len(whole) == 1:
        return Band(whole[0])
    low, high = np.quantile(whole, EDGES, axis=0)
    return Band(whole.mean(0), low, high)
