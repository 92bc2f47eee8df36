"""Plots of bounds and measured regret; requires matplotlib.

``botorch_tv.theory`` does not import this module; import it explicitly.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from botorch_tv.drawing import BLACK, COLORS, GRAY, canvas, draw_round_axis, lighten, written
from botorch_tv.simulation.plots.curves import (
    draw_curves,
    fit_scale,
    line_styles,
    name_curves,
    regret_curves,
)
from botorch_tv.simulation.result import StudyResult
from botorch_tv.theory.bogunovic import linear_sd_mismatch
from botorch_tv.theory.brunzema import sd_mismatch
from botorch_tv.theory.horizon import largest_constant, smallest_constant
from botorch_tv.validation import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Bound", "plot_bounds", "plot_mismatch", "plot_orders"]

Bound = Callable[[Tensor], Tensor]
"""Type of a function from horizons T = 1, 2, ..., `rounds`, to the bound at each, `rounds`."""


def plot_bounds(
    result: StudyResult,
    bounds: Mapping[str, Bound],
    strategy: str | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Figure:
    """Cumulative regret of one strategy in all trials, with upper bounds.

    The axis of regret is logarithmic, because bounds with the papers' constants exceed measured
    regret by orders of magnitude. A dotted line shows a trivial bound: t times the largest measured
    regret of a round.

    Args:
        result: The study.
        bounds: The bounds to draw: a mapping from labels to functions, with at least 1 entry.
        strategy: Label of the strategy; None for the first strategy of the study.
        path: File for the picture; the extension of the file name selects the format.

    Raises:
        ValueError: If there is no bound to draw, or if the strategy is not in the study.
    """
    label, horizons, drawn = _evaluated(result, strategy, bounds)
    regret = np.cumsum(result.regret.sel(strategy=label).values, axis=-1)  # `trials x rounds`
    curve, _ = regret_curves(result, normalized=False)[label]
    trivial = horizons * float(result.regret.sel(strategy=label).max())
    regret, mean = (np.where(values > 0, values, np.nan) for values in (regret, curve))
    figure = canvas(8.5, 4.8)
    axes = figure.subplots()
    color, _ = line_styles(result.strategies)[label]
    axes.plot(horizons, regret.T, color=color, linewidth=0.5, alpha=0.25)
    axes.plot(horizons, mean, color=color, linewidth=1.8, label=f"{label}, mean of trials")
    lines = itertools.cycle(("dashed", "dashdot", "solid"))
    for (name, values), line in zip(drawn.items(), lines):
        axes.plot(horizons, values, color="#000000", linestyle=line, linewidth=1.3, label=name)
    largest = "$t$ × largest regret of a round"
    axes.plot(horizons, trivial, color=GRAY, linestyle="dotted", linewidth=1, label=largest)
    axes.set(yscale="log", xlabel="round", ylabel="cumulative regret $R_t$")
    axes.set_xlim(float(horizons[0]), float(max(horizons[-1], horizons[0] + 1)))
    axes.legend(frameon=False, fontsize=8.5)
    lighten(axes)
    return written(figure, path)


def plot_orders(
    result: StudyResult,
    orders: Mapping[str, Bound],
    strategy: str | None = None,
    path: str | os.PathLike[str] | None = None,
    *,
    lower: Mapping[str, Bound] | None = None,
) -> Figure:
    """Normalised regret of one strategy, and orders of growth scaled to touch the regret curve.

    No constant is published for an order, so each constant is fitted to the second half of the
    rounds. In the second half of the rounds, an upper order with the smallest possible constant
    lies above the mean regret; a lower order with the largest possible constant lies below the mean
    regret. Because the constants are fitted, the plot compares shapes, not levels.

    Args:
        result: The study.
        orders: The upper orders with constant 1: a mapping from labels to functions. The mapping
            may be empty if ``lower`` contains an order.
        strategy: Label of the strategy; None for the first strategy of the study.
        path: File for the picture; the extension of the file name selects the format.
        lower: The lower orders with constant 1, for example :func:`markov_lower_bound`: a mapping
            from labels to functions.

    Raises:
        ValueError: If there is no order to draw, or if the strategy is not in the study.
    """
    below = {} if lower is None else dict(lower)
    label, horizons, drawn = _evaluated(result, strategy, {**orders, **below})
    total, _ = regret_curves(result, normalized=False)[label]
    late = len(horizons) // 2
    measured = torch.from_numpy(total[late:])
    curves = {label: regret_curves(result, normalized=True)[label]}
    for name, values in drawn.items():
        order = torch.from_numpy(values[late:])
        if name in below:
            constant, direction = largest_constant(order, measured), "below"
        else:
            constant, direction = smallest_constant(order, measured), "above"
        scaled = constant * values / horizons
        named = f"{name}\nx {constant:.3g}, fitted from {direction}"
        curves[named] = scaled, np.full_like(scaled, np.nan)
    # Styles depend on labels without the fitted constants, because the constants differ between
    # studies.
    styles = dict(zip(curves, line_styles([label, *drawn]).values()))
    figure = canvas(9.5, 4.4)
    axes = figure.subplots()
    draw_curves(axes, horizons, curves, styles)
    fit_scale(axes, [curves[label]], 0.1)
    low, high = axes.get_ylim()
    axes.set_ylim(low, max(high, *(1.1 * float(mean[-1]) for mean, _ in curves.values())))
    name_curves(axes, curves, styles)
    axes.set(xlabel="round", ylabel="normalised regret $R_t / t$")
    return written(figure, path)


def plot_mismatch(
    path: str | os.PathLike[str] | None = None,
    *,
    epsilons: Sequence[float] = (0.001, 0.01, 0.1, 0.3),
    noise: float = 0.02,
    longest: int = 100,
) -> Figure:
    """Bounds on the error in the standard deviation that a static model predicts, [ET] Figure 7.

    Solid lines are the bounds of [ET], :func:`botorch_tv.theory.sd_mismatch`; dashed lines are the
    bounds of [B16] (82), :func:`botorch_tv.theory.linear_sd_mismatch`; the black line is the
    trivial bound.

    Args:
        path: File for the picture; the extension of the file name selects the format.
        epsilons: Rates of change ε.
        noise: Noise variance σ², positive.
        longest: Largest number of rounds N since a reset.

    Raises:
        ValueError: If an argument is out of range.
    """
    figure = canvas(8.5, 4.8)
    axes = figure.subplots()
    N = torch.arange(1, longest + 1, dtype=torch.float64, device="cpu")
    trivial = sd_mismatch(N, epsilon=1.0, noise=noise)
    axes.plot(N, trivial, color=BLACK, linewidth=1.6, label="trivial bound")
    for epsilon, color in zip(epsilons, itertools.cycle(COLORS[:-1])):
        improved = sd_mismatch(N, epsilon=epsilon, noise=noise)
        previous = linear_sd_mismatch(N, epsilon=epsilon, noise=noise)
        axes.plot(N, improved, color=color, linewidth=1.6, label=f"ε = {epsilon:g}, [ET]")
        axes.plot(N, previous, color=color, linestyle="dashed", label=f"ε = {epsilon:g}, [B16]")
    draw_round_axis(axes, N.numpy())
    axes.set(xlabel="rounds $N$ since a reset", ylabel=r"bound on $\Delta^{(\sigma)}$")
    axes.set_ylim(0, 2 * float(trivial[-1]))
    axes.legend(frameon=False, fontsize=8.5)
    lighten(axes)
    return written(figure, path)


def _evaluated(
    result: StudyResult, strategy: str | None, bounds: Mapping[str, Bound]
) -> tuple[str, np.ndarray, dict[str, np.ndarray]]:
    """The label of the strategy to draw, the horizons, and every bound at each horizon."""
    label = result.strategies[0] if strategy is None else strategy
    result.require_strategy(label)
    require(len(bounds) > 0, "bounds is empty; give at least 1 bound by its label.")
    horizons = np.asarray(result.data["round"].values, dtype=float)
    T = torch.from_numpy(horizons)
    drawn = {name: bound(T).cpu().double().numpy() for name, bound in bounds.items()}
    return label, horizons, drawn
