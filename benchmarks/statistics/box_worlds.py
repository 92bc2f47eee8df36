"""Worlds of six to twenty dimensions and recorded data, one trial at a time, on the unit cube."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from botorch.test_functions import Levy
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.even_points import even_points
from botorch_tv.papers.recordings import TRAFFIC, Recordings
from botorch_tv.papers.sensors import ROADS, SENSORS, TRAINING_DAYS, cells, mornings
from botorch_tv.simulation import PanelWorld
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.test_functions import DriftingFunction, DriftingHartmann, Orbit

PERIOD = 400.0
"""Rounds of an orbit of the first coordinate; other coordinates are up to twice as fast."""
APART = 137
"""Rounds between the starts of two trials on one orbit."""
NOISE = 0.02
"""Variance of the noise as a share of the function's over space and time."""
HOURS = 264
"""Last hours of the month, which are played; strategies may be given a model of earlier hours."""
PLAYED_DAYS = (5, 6)
"""Tuesday and Wednesday, in turn."""
READINGS = 300
"""At random places and times, to which the given kernel is fitted."""
RATES = (0.003, 0.01, 0.03, 0.1)
SHARES = (0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8)
"""Candidate lengthscales, times the square root of the dimension."""

Values = Callable[[Tensor, int], Tensor]
"""From points `q x d` of the unit cube and a round from 1 on to values `q`."""


@dataclass(frozen=True)
class Trial:
    """One trial, and the prior knowledge that may be given.

    Attributes:
        dim: Coordinates d.
        arms: Points that may be chosen, `M x d`; None for all of the cube.
        horizon: Rounds.
        value: The objective.
        highest: Its largest value in a round.
        noise: Standard deviation added to a reading.
        mean: Of the objective.
        scale: Standard deviation of the objective.
        kernel: Of the standardised objective.
        variance: Of the noise, in units of scale².
        epsilon: Rate of change.
    """

    dim: int
    arms: Tensor | None
    horizon: int
    value: Values
    highest: Callable[[int], float]
    noise: float
    mean: float
    scale: float
    kernel: Kernel | Tensor
    variance: float
    epsilon: float


def drifting(problem: Callable[..., DriftingFunction], seed: int, horizon: int) -> Trial:
    """A function whose optimum orbits, starting at a point of the orbit that the seed sets."""
    first = APART * seed
    function = problem(motion=Orbit(period=PERIOD), horizon=float(first + horizon + 1), negate=True)
    lower, upper = function.spatial_bounds.double()
    dim = function.spatial_dim

    def at(U: Tensor, times: Tensor) -> Tensor:
        found: Tensor = function(torch.cat([lower + (upper - lower) * U, times], -1), noise=False)
        return found

    def value(U: Tensor, t: int) -> Tensor:
        return at(U, U.new_full((len(U), 1), float(first + t)))

    times = 1 + (horizon - 1) * torch.linspace(0, 1, READINGS, dtype=torch.float64)
    places = even_points(READINGS, dim).double()
    places = places[torch.randperm(READINGS, generator=torch.Generator().manual_seed(seed))]
    readings = at(places, first + times.unsqueeze(-1))
    mean, scale = float(readings.mean()), float(readings.std())
    share, epsilon = likeliest(places, times, (readings - mean) / scale)
    return Trial(
        dim=dim,
        arms=None,
        horizon=horizon,
        value=value,
        highest=lambda t: float(function.optimal_value_at(float(first + t))),
        noise=NOISE**0.5 * scale,
        mean=mean,
        scale=scale,
        kernel=unit_kernel("se", share),
        variance=NOISE,
        epsilon=epsilon,
    )


def likeliest(X: Tensor, times: Tensor, y: Tensor) -> tuple[float, float]:
    """Lengthscale and rate of the largest marginal likelihood of standardised readings."""
    lag, square = (times[:, None] - times).abs(), torch.cdist(X, X).square()
    identity = torch.eye(len(y), dtype=y.dtype)

    def fit(pair: tuple[float, float]) -> float:
        lengthscale, rate = pair
        K = torch.exp(-0.5 * square / lengthscale**2) * (1 - rate) ** (lag / 2)
        root = torch.linalg.cholesky(K + NOISE * identity)
        white = torch.linalg.solve_triangular(root, y.unsqueeze(-1), upper=False)
        return -float(0.5 * white.square().sum() + root.diagonal().log().sum())

    longer = math.sqrt(X.shape[-1])
    return max(itertools.product((longer * share for share in SHARES), RATES), key=fit)


def recorded(
    values: np.ndarray, places: np.ndarray, train: int, horizon: int, **model: Any
) -> Trial:
    """Readings after the first ``train`` rows, to which the given model is fitted."""
    world = PanelWorld(values, train, first_arm=None, **model)
    low, high = places.min(0), places.max(0)
    arms = torch.from_numpy((places - low) / np.where(high > low, high - low, 1.0))
    usual = float(world.mean) if world.mean.dim() == 0 else 0.0
    rows = usual + world.scale * world.objective

    def value(U: Tensor, t: int) -> Tensor:
        return rows[t - 1][torch.cdist(U, arms).argmin(-1)]

    return Trial(
        dim=arms.shape[-1],
        arms=arms,
        horizon=min(horizon, world.horizon),
        value=value,
        highest=lambda t: float(rows[t - 1].max()),
        noise=0.0,
        mean=usual,
        scale=float(world.scale),
        kernel=world.kernel,
        variance=world.model_noise,
        epsilon=world.epsilon,
    )


def temperature(records: Recordings, seed: int, horizon: int) -> Trial:
    """Kelvin in cells drawn for the seed, in the last hours of the month."""
    panel = records.temperature()
    assert panel.coordinates is not None
    chosen = cells(len(panel.arms), SENSORS, [2016, seed])
    train = len(panel.values) - HOURS
    return recorded(panel.values[:, chosen], panel.coordinates[chosen], train, horizon)


def traffic(records: Recordings, seed: int, horizon: int, *, usual: bool) -> Trial:
    """Speeds on roads drawn for the seed on a morning, or their excess over the usual speed."""
    panel, places = records.traffic(), road_places(records)
    located = np.flatnonzero(np.isfinite(places).all(-1))
    chosen = located[cells(len(located), ROADS, [2016, seed])]
    rows, length = mornings(panel.values[:, chosen], PLAYED_DAYS[seed % len(PLAYED_DAYS)])
    return recorded(
        rows,
        places[chosen],
        len(TRAINING_DAYS) * length,
        horizon,
        center="arm" if usual else "all",
        groups=length,
    )


def road_places(records: Recordings) -> np.ndarray:
    """Coordinates of roads in a plane, `arms x 2`; NaN for isolated roads.

    The record has an adjacency exp(-distance²), 0 for distant roads. Classical scaling embeds the
    distances along roads in the plane.
    """
    if records.folder is None:
        places = records.traffic().coordinates
        assert places is not None
        return places
    with np.load(records.folder / TRAFFIC) as archive:
        near = archive["adjacency"].astype(float)
    along = np.where(near > 0, np.sqrt(-np.log(np.clip(near, 1e-9, 1))), np.inf)
    for road in range(len(near)):  # shortest paths by Floyd and Warshall
        along = np.minimum(along, along[:, road, None] + along[road])
    joined = np.flatnonzero(np.isfinite(along[np.isfinite(along).sum(-1).argmax()]))
    middle = np.eye(len(joined)) - 1 / len(joined)
    square = along[np.ix_(joined, joined)] ** 2
    worth, vectors = np.linalg.eigh(-0.5 * middle @ square @ middle)
    places = np.full((len(near), 2), np.nan)
    places[joined] = vectors[:, -2:] * np.sqrt(worth[-2:])
    return places


def levy(dim: int, **moving: Any) -> DriftingFunction:
    """Levy's function: a sum of squares with a single zero."""
    return DriftingFunction(Levy(dim=dim), **moving)


def hartmann(**moving: Any) -> DriftingFunction:
    """Hartmann's function of six parameters."""
    return DriftingHartmann(6, **moving)
