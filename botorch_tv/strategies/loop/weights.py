"""The weights of a loop's bank after every measurement, in the units of its times."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from botorch_tv.inference.mixture.bank import Bank
from botorch_tv.strategies.weights_picture import Band, Panel, draw_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from botorch_tv.strategies.loop.replay import Note


def draw_loop_weights(
    times: Sequence[object],
    notes: Sequence[Note],
    bank: Bank,
    columns: int,
    clock: float,
    unit: str,
    path: str | os.PathLike[str] | None,
    ax: Axes | None,
) -> Figure:
    """See :meth:`Inspection.plot_weights`.

    Args:
        times: Of the measurements.
        notes: Weights after each of them.
        bank: Of what.
        columns: Coordinates of the domain, context included.
        clock: Time in which rates and hazards count now; what was believed in another one has no
            place among these.
        unit: Of times, "hours"; empty where they are numbers.
        path: As there.
        ax: As there.
    """
    of = f" {unit}" if unit else ""
    other = np.array([note["clock"] not in ([], [clock]) for note in notes])
    # Rates of another clock are other rates, which the labels would belie.
    since = ", from where the usual time between measurements was found anew" if other.any() else ""
    titles = {
        "rate": (f"Drift: half of a correlation is gone after ...{of}{since}", _half_life),
        "hazard": (f"Jumps: one in ...{of}{since}", _between),
        "lengthscale": ("Lengthscale, in sides of the domain", _plain),
        "noise_ratio": ("Noise, standard deviation in those of the objective", _share),
    }
    timed = ("rate", "hazard")
    panels = []
    for name, (title, said) in titles.items():
        values = bank.values(columns)[name]
        order = sorted(range(len(values)), key=values.__getitem__)
        weight = np.array([note[name] for note in notes])[:, order]
        if name in timed:
            weight[other] = np.nan
        panels.append(Panel(title, [said(values[one], clock) for one in order], Band(weight)))
    jump = Band(np.array([note["jump"] for note in notes]))
    return draw_weights(
        times,
        panels,
        jump,
        xlabel="time",
        title="What is believed: the weight of every value",
        path=path,
        ax=ax,
    )


def _half_life(rate: float, clock: float) -> str:
    return "never" if rate == 0 else f"{clock * 2 * math.log(2) / -math.log1p(-rate):.3g}"


def _between(hazard: float, clock: float) -> str:
    return "never" if hazard == 0 else f"{clock / -math.log1p(-hazard):.3g}"


def _plain(value: float, clock: float) -> str:
    return f"{value:.3g}"


def _share(ratio: float, clock: float) -> str:
    return f"{math.sqrt(ratio):.0%}"
