"""The picture of `benchmarks.speed.limits`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botorch_tv.drawing import GRAY, canvas, lighten, written
from botorch_tv.simulation.plots.curves import line_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHARES = {
    "share_of_limit": "least time /\ntime taken",
    "bandwidth_reached": "bandwidth\nreached",
    "matmul_reached": "matmul rate\nreached",
}


def draw(devices: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Plot cost and memory over the round, and shares of the limit, a row per device."""
    figure = canvas(12.5, 3.6 * len(devices))
    rows = figure.subplots(len(devices), 3, squeeze=False)
    for (cost, memory, shares), found in zip(rows, devices.values(), strict=True):
        cost.set_title(found["name"], loc="left", fontsize=9, color=GRAY)
        _draw_late(cost, found["late"], "median_us", 1.0, "µs per trial and round")
        _draw_late(memory, found["late"], "state_bytes_per_trial", 1e-3, "kB of state per trial")
        cost.legend(frameon=False, fontsize=8)
        _draw_shares(shares, found["strategies"])
    written(figure, path)


def _draw_late(
    axes: Axes, late: Mapping[str, list[dict[str, float]]], name: str, scale: float, title: str
) -> None:
    rounds = [entry["round"] for entry in next(iter(late.values()))]
    for label, (color, line) in line_styles(list(late)).items():
        values = [scale * entry[name] for entry in late[label]]
        axes.plot(rounds, values, color=color, linestyle=line, marker="o", label=label)
    axes.set_xscale("log")
    axes.set_xticks(rounds, [f"{number:,}" for number in rounds])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel("round")
    axes.set_ylabel(title)
    lighten(axes)


def _draw_shares(axes: Axes, strategies: Mapping[str, Mapping[str, float]]) -> None:
    """Bars, a group per share and a colour per strategy."""
    width = 0.8 / len(strategies)
    for number, (label, (color, _)) in enumerate(line_styles(list(strategies)).items()):
        places = [group + width * number for group in range(len(SHARES))]
        heights = [100 * strategies[label][name] for name in SHARES]
        bars = axes.bar(places, heights, width, color=color)
        axes.bar_label(bars, fmt="%.0f", fontsize=8, padding=1)
    axes.axhline(100, color=GRAY, linewidth=0.8, linestyle="dashed")
    middle = width * (len(strategies) - 1) / 2
    axes.set_xticks([group + middle for group in range(len(SHARES))], list(SHARES.values()))
    axes.tick_params(axis="x", labelsize=8)
    axes.set_ylabel("% of the limit of the device")
    lighten(axes)
