"""A synthetic panel, for tests and examples."""

from __future__ import annotations

import math

import numpy as np

from botorch_tv.simulation.panels.record import Panel
from botorch_tv.validation import require_integer, require_number

LENGTHSCALE = 0.3
"""Lengthscale of the covariance between sensors."""


def make_panel(
    rounds: int = 300,
    arms: int = 20,
    *,
    epsilon: float = 0.03,
    noise: float = 0.05,
    cycle: float = 0.5,
    day: int = 48,
    gaps: float = 0.02,
    seed: int = 0,
) -> Panel:
    """Synthetic sensors on a plane: a daily cycle, a drifting field, and noise.

    The field is Markov: f_1 = g_1, f_{t+1} = √(1-ε) f_t + √ε g_{t+1}, with draws g of variance 1
    and covariance exp(-|x - x'|² / (2 · 0.3²)) between sensors. The cycle is a sine that comes
    earlier in the east, by a quarter of a day over the unit square.

    Args:
        rounds: Rows.
        arms: Sensors, placed uniformly on the unit square.
        epsilon: Rate of change ε of the field per round, in [0, 1].
        noise: Variance of the noise of a reading.
        cycle: Amplitude of the daily cycle; 0 for none.
        day: Rounds per day.
        gaps: Share of readings that are missing, in [0, 1).
        seed: Same seed, same panel.

    Returns:
        A panel with times and coordinates.

    Raises:
        ValueError: If a parameter is out of range.
    """
    rounds = require_integer("make_panel: rounds", rounds, 1, "give the number of rows.")
    arms = require_integer("make_panel: arms", arms, 1, "give the number of sensors.")
    day = require_integer("make_panel: day", day, 1, "give the rounds of a day.")
    epsilon = require_number("make_panel: epsilon", epsilon, "[0, 1]", "0 keeps the field still.")
    gaps = require_number("make_panel: gaps", gaps, "[0, 1)", "0 leaves no reading out.")
    noise = require_number("make_panel: noise", noise, "[0, inf)", "0 adds none.")
    cycle = require_number("make_panel: cycle", cycle, "(-inf, inf)", "0 is no cycle.")
    random = np.random.default_rng(seed)
    places = random.random((arms, 2))
    apart = ((places[:, None] - places[None]) ** 2).sum(-1)
    eigenvalues, vectors = np.linalg.eigh(np.exp(-apart / (2 * LENGTHSCALE**2)))
    features = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    draws = random.standard_normal((rounds, arms)) @ features.T
    field = np.empty((rounds, arms))
    field[0] = draws[0]
    for t in range(1, rounds):
        field[t] = math.sqrt(1 - epsilon) * field[t - 1] + math.sqrt(epsilon) * draws[t]
    phase = np.arange(rounds)[:, None] / day + 0.25 * places[:, 0]
    values = field + cycle * np.sin(2 * np.pi * phase)
    values += math.sqrt(noise) * random.standard_normal((rounds, arms))
    values[random.random((rounds, arms)) < gaps] = np.nan
    minutes = (np.arange(rounds) * (1440 / day)).round().astype("timedelta64[m]")
    return Panel(
        values=values,
        arms=tuple(f"sensor {number}" for number in range(arms)),
        times=np.datetime64("2000-01-01T00:00") + minutes if day <= 1440 else None,
        coordinates=places,
    )
