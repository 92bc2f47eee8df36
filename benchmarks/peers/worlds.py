"""Worlds for every environment: they need numpy, and scipy for optima that move."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.peers.slices import SLICES, least_costs

Values = Callable[[np.ndarray, float], np.ndarray]
"""From points `q x d` of the unit cube and a time to values `q`."""


@dataclass(frozen=True)
class World:
    """An objective that changes with time.

    Attributes:
        dim: Number of coordinates d.
        rounds: Number of rounds, a unit of time apart.
        noise: Standard deviation of a measurement.
        values: The objective.
        best: Its largest value at a time.
    """

    dim: int
    rounds: int
    noise: float
    values: Values
    best: Callable[[float], float]


def _of_peaks(
    place: Callable[[float], np.ndarray], height: Callable[[float], np.ndarray], width: np.ndarray
) -> tuple[Values, Callable[[float], float]]:
    """Values and maximum of 50 + max_i h_i(t) exp(-|x - c_i(t)|² / w_i)."""

    def values(X: np.ndarray, now: float) -> np.ndarray:
        squares = ((X[:, None] - place(now)) ** 2).sum(-1)
        found: np.ndarray = 50 + (height(now) * np.exp(-squares / width)).max(-1)
        return found

    return values, lambda now: 50 + float(height(now).max())


def turning(seed: int) -> World:
    """A peak that orbits with a period of 120 rounds, and a lower static peak."""
    phase, rest = np.random.default_rng([1, seed]).random((2, 2))

    def place(now: float) -> np.ndarray:
        angle = 2 * math.pi * (now / 120 + phase[0])
        turn = 0.5 + 0.3 * np.array([math.cos(angle), math.sin(angle)])
        return np.stack([turn, 0.1 + 0.8 * rest])

    values, best = _of_peaks(place, lambda now: np.array([10.0, 6.0]), np.array([0.08, 0.045]))
    return World(2, 60, 0.5, values, best)


def jumping(seed: int) -> World:
    """Abruptly changing: three peaks get new places and heights after every 40 rounds."""
    generator = np.random.default_rng([2, seed])
    places, heights = generator.random((3, 3, 2)), generator.uniform(4, 10, (3, 3))

    def stage(now: float) -> int:
        return min(int(now - 1) // 40, 2)

    values, best = _of_peaks(
        lambda now: places[stage(now)], lambda now: heights[stage(now)], np.full(3, 0.06)
    )
    return World(2, 100, 0.5, values, best)


def static(seed: int) -> World:
    """Four static peaks."""
    generator = np.random.default_rng([3, seed])
    places, heights = generator.random((4, 2)), generator.uniform(4, 10, 4)
    values, best = _of_peaks(lambda now: places, lambda now: heights, np.full(4, 0.06))
    return World(2, 60, 0.5, values, best)


def wandering(seed: int) -> World:
    """A peak that moves by a random walk, a step of 0.03 a round, within bounds."""
    generator = np.random.default_rng([4, seed])
    steps = generator.normal(0, 0.03, (101, 3))
    path = np.empty((101, 3))
    path[0] = generator.uniform(0.2, 0.8, 3)
    for number in range(1, 101):  # steps across a bound are reversed
        there, back = path[number - 1] + steps[number], path[number - 1] - steps[number]
        path[number] = np.where((there < 0.1) | (there > 0.9), back, there)
    values, best = _of_peaks(
        lambda now: path[int(now)][None], lambda now: np.array([10.0]), np.array([0.3])
    )
    return World(3, 80, 0.5, values, best)


def drifting(seed: int, dim: int) -> World:
    """Three peaks, each coordinate of which swings with a period of 200 to 600 rounds.

    In every dimension peaks are as wide, and move as far, as a share of the cube's diagonal.
    """
    generator = np.random.default_rng([5, dim, seed])
    phase, heights = generator.random((3, dim)), generator.uniform(4, 10, 3)
    turns = 1 / generator.uniform(200, 600, (3, dim))  # per round
    values, best = _of_peaks(
        lambda now: 0.5 + 0.3 * np.sin(2 * math.pi * (phase + now * turns)),
        lambda now: heights,
        np.full(3, 2 * 0.15**2 * dim),
    )
    return World(dim, 120, 0.5, values, best)


def among(seed: int, world: Callable[[int], World], dim: int) -> World:
    """A world in some of ``dim`` coordinates, at random; the others do not matter."""
    inner = world(seed)
    columns = np.sort(np.random.default_rng([9, dim, seed]).permutation(dim)[: inner.dim])

    def values(X: np.ndarray, now: float) -> np.ndarray:
        return inner.values(X[:, columns], now)

    return World(dim, inner.rounds, inner.noise, values, inner.best)


def gmpb(seed: int, rounds: int = 100, **settings: Any) -> World:
    """The Generalized Moving Peaks Benchmark of the package ``gmpb``, noiseless as it is.

    Args:
        seed: Seed of its landscape.
        rounds: Number of rounds.
        settings: Its configuration; ``change_frequency`` in rounds.
    """
    from gmpb import GMPB, GMPBConfig

    config = GMPBConfig(auto_step=False, **settings)
    past = []
    problem = GMPB(config, seed)
    for _ in range(rounds // config.change_frequency + 1):
        past.append(problem.get_state())
        problem.step_environment()
    problem.reset()
    stage = 0

    def reach(now: float) -> None:
        nonlocal stage
        wanted = int(now - 1) // config.change_frequency
        if wanted < stage:
            problem.reset()
            stage = 0
        for _ in range(wanted - stage):
            problem.step_environment()
        stage = wanted

    def values(X: np.ndarray, now: float) -> np.ndarray:
        reach(now)
        lower, upper = problem.global_bounds()
        return np.asarray(problem.evaluate_batch(lower + (upper - lower) * X))

    def best(now: float) -> float:
        return max(peak.h for peak in past[int(now - 1) // config.change_frequency].components)

    return World(config.d, rounds, 0.0, values, best)


def sliced(seed: int, name: str) -> World:
    """A cost of W-DBO's suite, negated, whose last coordinate is time; equal for all seeds."""
    slices, rounds = SLICES[name], 100
    return World(
        slices.coordinates - 1,
        rounds,
        math.sqrt(0.05) * slices.deviation(),
        lambda X, now: -slices.cost(X, now / rounds),
        lambda now: -least_costs(name, rounds)[int(now) - 1],
    )


GMPB_SETTINGS: dict[str, dict[str, Any]] = {
    # The suite of the competitions of 2024 and 2025, F1 to F10. Theirs has 100 times as many
    # evaluations between changes.
    "f1": {"d": 5, "m": 5},
    "f2": {"d": 5, "m": 10},
    "f3": {"d": 5, "m": 25},
    "f4": {"d": 5, "m": 50},
    "f5": {"d": 5, "m": 100},
    "f6": {"d": 5, "m": 10, "change_frequency": 25},
    "f7": {"d": 5, "m": 10, "change_frequency": 10},
    "f8": {"d": 5, "m": 10, "change_frequency": 5},
    "f9": {"d": 10, "m": 10},
    "f10": {"d": 20, "m": 10},
    # Twenty environments.
    "f2-100": {"d": 5, "m": 10, "change_frequency": 100, "rounds": 2000},
}
WORLDS: dict[str, Callable[[int], World]] = {
    "turning": turning,
    "jumping": jumping,
    "static": static,
    "wandering": wandering,
    **{
        f"gmpb-{name}": partial(gmpb, **({"change_frequency": 50} | settings))
        for name, settings in GMPB_SETTINGS.items()
    },
    **{f"slice-{name}": partial(sliced, name=name) for name in SLICES},
    **{f"drifting-{dim}": partial(drifting, dim=dim) for dim in (2, 4, 6, 8, 10)},
}
WORLDS |= {
    f"{name}-of-6": partial(among, world=WORLDS[name], dim=6)
    for name in ("turning", "jumping", "drifting-2")
}
