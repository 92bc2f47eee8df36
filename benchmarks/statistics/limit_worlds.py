"""Worlds with limits, several objectives and a context, whose best settings are known at any time.

A setting is a point of the unit cube; a world has objectives, which are maximised, and outcomes
that have upper limits. Times are 1, 2, … With limits:

- *drift*: a peak that orbits; the peak of the limited outcome travels around it.
- *rest*: nothing changes.
- *jump*: three peaks and the limited outcome move at rounds 41 and 71, in three dimensions.
- *threshold*: a peak that orbits; the level of the limited outcome jumps at rounds 36 and 68.
- *boundary*: in four dimensions the objective rests; what each coordinate costs, drifts.
- *furnace*: temperature, flow and one of two gases; yield whose optimum moves as the furnace ages,
  pressure that rises with wear.
- *station*: three compressors share a load and minimise energy; efficiencies fall with wear. The
  flow delivered, against a demand that is known, and the highest temperature are limited.
- *six*: six parameters, of which two matter; the objective drifts, the limit rests.
- *weekdays*: an A/B test of a price and a layout; the best of both depends on the day of the week,
  and drifts; complaints are limited.
- *optics*: twelve inputs of an X-ray beamline; pairs compensate each other. Smooth drift of all
  inputs, an abrupt move of four at rounds 46 and 76, a limit on the heat load that drifts.

With several objectives: *pair*, *leap* (which jumps), *oven* (yield, energy and a limit on
pressure), *triple* and *mirrors*. *aside* is *drift* with a context that changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
from botorch.utils.multi_objective.hypervolume import Hypervolume
from botorch.utils.multi_objective.pareto import is_non_dominated
from scipy.stats import norm, qmc  # type: ignore[import-untyped]
from torch import Tensor, from_numpy

Outcomes = Callable[[np.ndarray, float], np.ndarray]
"""From settings `q x d` and a time to outcomes `q x m`, objectives first."""
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
ROUNDS = 100


@dataclass(frozen=True)
class World:
    """Outcomes that change with time.

    Attributes:
        dim: Number of parameters d.
        outcomes: Outcomes without noise.
        noise: Standard deviation of a measurement of each outcome.
        limits: Largest value of each outcome after the objectives.
        start: A setting within the limits at all times of a world without jumps, else at first.
        jumps: Whether anything jumps.
        objectives: Number of objectives.
        choices: Number of values of the parameters that are not continuous, evenly spaced.
        context: The context at a time: a number in [0, 1], or a name of ``DAYS``.
        reference: The point from which hypervolume counts.
    """

    dim: int
    outcomes: Outcomes
    noise: tuple[float, ...]
    limits: tuple[float, ...]
    start: np.ndarray
    jumps: bool = False
    objectives: int = 1
    choices: Mapping[int, int] = field(default_factory=dict)
    context: Callable[[float], float | str] | None = None
    reference: tuple[float, ...] = ()

    def whole(self, X: np.ndarray) -> np.ndarray:
        """Settings with every choice moved to its nearest value."""
        X = np.clip(X, 0, 1)
        for column, count in self.choices.items():
            X[..., column] = np.round(X[..., column] * (count - 1)) / (count - 1)
        return X

    def excess(self, Y: np.ndarray) -> np.ndarray:
        """The largest excess over a limit, `q`; -inf without limits."""
        over = Y[..., self.objectives :] - np.array(self.limits)
        return np.asarray(over.max(-1, initial=-np.inf))

    def searched(
        self, now: float, near: np.ndarray, score: Callable[..., np.ndarray]
    ) -> np.ndarray:
        """Settings `q x d` of a search that keeps improving those with the highest scores."""
        random = np.random.default_rng(int(now))
        X = self.whole(np.concatenate([near, even(self.dim), self.start[None]]))
        for width in 0.2 * 0.55 ** np.arange(12):
            best = X[np.argsort(-score(self.outcomes(X, now)))[: len(near) or 32]]
            moved = random.choice(best, 1000)
            moved = moved + width * random.standard_normal(moved.shape) * (
                random.random(moved.shape) < max(0.3, 2 / self.dim)
            )
            X = np.concatenate([best, self.whole(moved)])
        return X

    def best(self, rounds: int = ROUNDS) -> list[float]:
        """The largest value within the limits at the times 1, 2, …"""
        found, near = [], np.empty((0, self.dim))

        def score(Y: np.ndarray) -> np.ndarray:
            return np.where(self.excess(Y) <= 0, Y[:, 0], -1e6 - self.excess(Y))

        for now in range(1, rounds + 1):
            X = self.searched(now, near, score)
            scores = score(self.outcomes(X, now))
            assert scores.max() > -1e6, f"no setting within the limits at {now}"
            found.append(float(scores.max()))
            near = X[np.argsort(-scores)[:32]]
        return found

    def front(self, now: float) -> np.ndarray:
        """Outcomes of the best compromises within the limits, `n x objectives`, densely."""
        k = self.objectives
        normals = np.abs(norm.ppf(0.5 + 0.5 * qmc.Sobol(k, seed=0).random(64)))
        extent = (self.outcomes(even(self.dim), now)[:, :k] - self.reference).max(0)
        every = []
        for weights in normals * extent + 1e-9:

            def score(Y: np.ndarray, weights: np.ndarray = weights) -> np.ndarray:
                above = ((Y[:, :k] - self.reference) / weights).min(-1)
                return np.where(self.excess(Y) <= 0, above, -1e6 - self.excess(Y))

            X = self.searched(now, np.empty((0, self.dim)), score)
            every.append(X[np.argsort(-score(self.outcomes(X, now)))[:4]])
        X, random = np.concatenate(every), np.random.default_rng(0)
        for width in 0.1 * 0.7 ** np.arange(12):  # fills the gaps
            X = X[random.permutation(len(X))[:400]]
            moved = random.choice(X, 600)
            X = np.concatenate([X, self.whole(moved + width * random.standard_normal(moved.shape))])
            Y = self.outcomes(X, now)
            X, Y = X[self.excess(Y) <= 0], self._within(Y)
            X = X[undominated(Y)]
        return self.outcomes(X, now)[:, :k]

    def _within(self, Y: np.ndarray) -> np.ndarray:
        return np.asarray(Y[self.excess(Y) <= 0][:, : self.objectives])

    def hypervolume(self, X: np.ndarray, now: float) -> float:
        """Hypervolume of the settings that are within the limits now."""
        return volume(self._within(self.outcomes(self.whole(X), now)), self.reference)


def undominated(Y: np.ndarray) -> np.ndarray:
    """Whether no other row dominates a row, `n`."""
    return np.asarray(is_non_dominated(from_numpy(Y)))


def non_dominated(Y: np.ndarray) -> np.ndarray:
    """The rows that no other row dominates."""
    return np.asarray(Y[undominated(Y)])


def volume(Y: np.ndarray, reference: tuple[float, ...]) -> float:
    """Hypervolume of rows above a reference point."""
    front: Tensor = from_numpy(non_dominated(Y))
    if not len(Y):
        return 0.0
    return float(Hypervolume(from_numpy(np.array(reference))).compute(front))


@cache
def even(dim: int) -> np.ndarray:
    """Settings spread evenly over the cube, `4096 x d`."""
    return np.asarray(qmc.Sobol(dim, seed=0).random(4096))


def _peak(X: np.ndarray, place: np.ndarray, width: float | np.ndarray) -> np.ndarray:
    """exp(-|(x - place) / width|² / 2)."""
    return np.asarray(np.exp(-0.5 * (((X - place) / width) ** 2).sum(-1)))


def _turn(now: float, period: float, phase: float) -> np.ndarray:
    angle = 2 * math.pi * (now / period + phase)
    return np.array([math.cos(angle), math.sin(angle)])


def drift(seed: int) -> World:
    """Objective and limit drift."""
    phase = np.random.default_rng([1, seed]).random(2)

    def outcomes(X: np.ndarray, now: float) -> np.ndarray:
        place = 0.5 + 0.22 * _turn(now, 160, phase[0])
        y = 50 + 10 * _peak(X, place, 0.3)
        return np.stack([y, 6 * _peak(X, place + 0.13 * _turn(now, 110, phase[1]), 0.2)], -1)

    corners = np.array([[0.02, 0.02], [0.98, 0.02], [0.02, 0.98], [0.98, 0.98]])
    start = min(
        corners, key=lambda x: max(outcomes(x[None], t)[0, 1] for t in range(1, ROUNDS + 1))
    )
    return World(2, outcomes, (0.5, 0.2), (3.0,), start)


def aside(seed: int) -> World:
    """*drift* with a context that changes nothing."""
    made, weather = drift(seed), np.random.default_rng([11, seed]).random(10 * ROUNDS)
    return replace(made, context=lambda now: float(weather[int(now)]))


def rest(seed: int) -> World:
    """Nothing changes."""
    place = np.random.default_rng([2, seed]).uniform(0.6, 0.85, 2)

    def outcomes(X: np.ndarray, now: float) -> np.ndarray:
        y = 50 + 10 * _peak(X, place, 0.3) + 4 * _peak(X, np.array([0.2, 0.8]), 0.15)
        return np.stack([y, 2 * X[:, 0] + 2 * X[:, 1] + 0.4 * np.sin(7 * X[:, 0])], -1)

    return World(2, outcomes, (0.5, 0.1), (2.2,), np.array([0.1, 0.1]))


def jump(seed: int) -> World:
    """Objective and limit jump."""
    random = np.random.default_rng([3, seed])
    places, heights = random.random((3, 3, 3)), random.uniform(4, 10, (3, 3))
    centers = random.uniform(0.25, 0.75, (3, 3))

    def outcomes(X: np.ndarray, now: float) -> np.ndarray:
        stage = (now > 40) + (now > 70)
        peaks = [h * _peak(X, p, 0.28) for h, p in zip(heights[stage], places[stage])]
        return np.stack([50 + np.max(peaks, 0), 8 * ((X - centers[stage]) ** 2).sum(-1)], -1)

    return World(3, outcomes, (0.5, 0.15), (2.0,), centers[0], jumps=True)


def threshold(seed: int) -> World:
    """The objective drifts, the limit jumps."""
    random = np.random.default_rng([4, seed])
    phase, levels = random.random(), random.permutation([0.0, -0.9, 0.8])

    def outcomes(X: np.ndarray, now: float) -> np.ndarray:
        y = 50 + 10 * _peak(X, 0.55 + 0.25 * _turn(now, 170, phase), 0.3)
        level = levels[(now > 35) + (now > 67)]
        slope = 2.4 * X[:, 0] + 2.0 * X[:, 1] + 0.3 * np.sin(6 * X[:, 1])
        return np.stack([y, slope + level], -1)

    return World(2, outcomes, (0.5, 0.1), (2.4,), np.array([0.1, 0.1]), jumps=True)


def boundary(seed: int) -> World:
    """The objective rests, the limit drifts."""
    random = np.random.default_rng([5, seed])
    place, periods, phases = (
        random.uniform(0.6, 0.8, 4),
        random.uniform(120, 240, 4),
        random.random(4),
    )

    def outcomes(X: np.ndarray, now: float) -> np.ndarray:
        prices = 1 + 0.5 * np.sin(2 * math.pi * (now / periods + phases))
        spent = (prices * (X + 0.5 * X**2)).sum(-1)
        return np.stack([50 + 10 * _peak(X, place, 0.45), spent], -1)

    return World(4, outcomes, (0.4, 0.12), (2.6,), np.full(4, 0.1))


def _furnace(seed: int) -> tuple[Outcomes, Callable[[np.ndarray], np.ndarray]]:
    """Yield and pressure, and the energy."""
    heat, flow, better = np.random.default_rng([6, seed]).uniform((0.3, 0.4, 0), (0.5, 0.7, 1))

    def outcomes(X: np.ndarray, now: float) -> np.ndarray:
        gas = X[:, 2] > 0.5
        age = now / ROUNDS
        place = np.stack([heat + 0.35 * age + 0.1 * gas, flow - 0.15 * age - 0.15 * gas], -1)
        good = _peak(X[:, :2], place, np.array([0.22, 0.26]))
        produced = 60 + 25 * good + 4 * (gas == (better > 0.5)) * good
        pressure = 1.4 + 2.6 * X[:, 0] + 2.4 * X[:, 1] ** 2 + 0.4 * gas + 0.7 * age
        return np.stack([produced, pressure], -1)

    return outcomes, lambda X: 10 + 20 * X[:, 0] ** 1.5 + 6 * X[:, 1] + 3 * (X[:, 2] > 0.5)


def furnace(seed: int) -> World:
    """Temperature, flow and gas; a limit on pressure; drift."""
    outcomes, _ = _furnace(seed)
    start = np.array([0.1, 0.2, 0.0])
    return World(3, outcomes, (0.8, 0.12), (3.6,), start, choices={2: 2})


def station(seed: int) -> World:
    """Compressors that share a load."""
    random = np.random.default_rng([7, seed])
    sizes, wear = random.uniform(0.8, 1.2, 3), random.uniform(0.05, 0.3, 3)
    best, phase = random.uniform(0.5, 0.75, 3), random.random()

    def demand(now: float) -> float:
        slow = math.sin(2 * math.pi * (now / 90 + phase))
        return 0.5 + 0.3 * slow + 0.15 * math.sin(2 * math.pi * now / 24)

    def outcomes(X: np.ndarray, now: float) -> np.ndarray:
        loads = 0.2 + 0.8 * X
        efficiency = (0.85 - wear * now / ROUNDS) * (1 - 0.9 * (loads - best) ** 2)
        energy = 10 * (sizes * loads**1.3 / efficiency).sum(-1)
        hottest = np.log(np.exp(6 * loads**1.5 / efficiency).sum(-1)) * 10
        short = 10 * (1.1 + 0.8 * demand(now) - (sizes * loads).sum(-1))
        return np.stack([-energy, short, hottest], -1)

    noise, limits = (0.4, 0.15, 1.0), (0.0, 90.0)
    made = World(3, outcomes, noise, limits, np.full(3, 0.8), context=demand)
    levels = np.linspace(0.4, 1, 61)[:, None].repeat(3, 1)
    worst = np.max([made.excess(outcomes(levels, t)) for t in range(1, ROUNDS + 1)], 0)
    return replace(made, start=levels[worst.argmin()])


def six(seed: int) -> World:
    """Six parameters, of which the first two matter."""
    phase = np.random.default_rng([8, seed]).random()

    def outcomes(X: np.ndarray, now: float) -> np.ndarray:
        y = 50 + 10 * _peak(X[:, :2], 0.5 + 0.25 * _turn(now, 180, phase), 0.25)
        return np.stack([y, 2 * X[:, 0] + 3 * X[:, 1] + 0.3 * np.sin(6 * X[:, 0])], -1)

    return World(6, outcomes, (0.5, 0.12), (2.4,), np.array([0.1, 0.1, *[0.5] * 4]))


def two_of_six(seed: int) -> World:
    """*six* with the parameters that matter alone."""
    made = six(seed)

    def outcomes(X: np.ndarray, now: float) -> np.ndarray:
        return made.outcomes(np.concatenate([X, np.full((len(X), 4), 0.5)], -1), now)

    return World(2, outcomes, made.noise, made.limits, made.start[:2])


def weekdays(seed: int) -> World:
    """Price and layout, by the day of the week."""
    random = np.random.default_rng([9, seed])
    places = np.where(np.arange(7)[:, None] < 5, [0.3, 0.4], [0.7, 0.65])
    places = places + random.uniform(-0.06, 0.06, (7, 2))
    phase = random.random()

    def outcomes(X: np.ndarray, now: float) -> np.ndarray:
        day = int(now) % 7
        place = places[day] + 0.08 * _turn(now, 200, phase)
        complaints = 1 + 3 * X[:, 0] + 1.5 * X[:, 1] * X[:, 0] + 0.5 * (day >= 5) * X[:, 1]
        return np.stack([20 + 8 * _peak(X, place, 0.25), complaints], -1)

    return World(
        2,
        outcomes,
        (0.4, 0.12),
        (2.9,),
        np.array([0.05, 0.3]),
        context=lambda now: DAYS[int(now) % 7],
    )


def optics(seed: int) -> World:
    """Twelve inputs of a beamline."""
    random = np.random.default_rng([10, seed])
    middle, periods, phases = (
        random.uniform(0.4, 0.6, 12),
        random.uniform(200, 500, 12),
        random.random(12),
    )
    kicks, moved = 0.15 * random.choice([-1, 1], (2, 12)), random.permutation(12)
    mask = np.zeros((2, 12))
    mask[0, moved[:4]] = mask[1, moved[4:8]] = 1
    weights = random.uniform(0.5, 2.0, 6)

    def outcomes(X: np.ndarray, now: float) -> np.ndarray:
        place = middle + 0.12 * np.sin(2 * math.pi * (now / periods + phases))
        place = place + (now > 45) * (kicks * mask)[0] + (now > 75) * (kicks * mask)[1]
        off = (X - place).reshape(len(X), 6, 2)
        blur = weights * ((off[..., 0] + 0.7 * off[..., 1]) ** 2 + 0.3 * off[..., 1] ** 2)
        flux = 100 * np.exp(-1.2 * blur.sum(-1))
        heat = 3 + 4 * (X - 0.45).mean(-1) / 0.3 + 0.5 * math.sin(2 * math.pi * now / 130)
        return np.stack([flux, heat + 0.02 * flux], -1)

    return World(12, outcomes, (2.0, 0.1), (5.0,), np.full(12, 0.3), jumps=True)


def pair(seed: int) -> World:
    """Two peaks that orbit in the square."""
    phase = np.random.default_rng([12, seed]).random(2)

    def outcomes(X: np.ndarray, now: float) -> np.ndarray:
        first = 0.35 + 0.15 * _turn(now, 150, phase[0])
        second = 0.65 + 0.15 * _turn(now, 200, phase[1])
        return 10 * np.stack([_peak(X, first, 0.3), _peak(X, second, 0.3)], -1)

    return World(2, outcomes, (0.3, 0.3), (), np.full(2, 0.5), objectives=2, reference=(0.0, 0.0))


def leap(seed: int) -> World:
    """Two peaks in three dimensions that jump at rounds 41 and 71."""
    places = np.random.default_rng([13, seed]).uniform(0.15, 0.85, (3, 2, 3))

    def outcomes(X: np.ndarray, now: float) -> np.ndarray:
        first, second = places[(now > 40) + (now > 70)]
        return 10 * np.stack([_peak(X, first, 0.35), _peak(X, second, 0.35)], -1)

    return World(
        3, outcomes, (0.3, 0.3), (), np.full(3, 0.5), True, objectives=2, reference=(0.0, 0.0)
    )


def oven(seed: int) -> World:
    """The furnace's yield and energy."""
    made, energy = _furnace(seed)

    def outcomes(X: np.ndarray, now: float) -> np.ndarray:
        Y = made(X, now)
        return np.stack([Y[:, 0], -energy(X), Y[:, 1]], -1)

    return World(
        3,
        outcomes,
        (0.8, 0.4, 0.12),
        (3.8,),
        np.array([0.1, 0.2, 0.0]),
        objectives=2,
        choices={2: 2},
        reference=(60.0, -32.0),
    )


def triple(seed: int) -> World:
    """Three peaks in four dimensions that drift."""
    random = np.random.default_rng([14, seed])
    places, phases = random.uniform(0.3, 0.7, (3, 4)), random.random((3, 4))

    def outcomes(X: np.ndarray, now: float) -> np.ndarray:
        swing = 0.15 * np.sin(2 * math.pi * (now / 180 + phases))
        return 10 * np.stack([_peak(X, place, 0.4) for place in places + swing], -1)

    return World(4, outcomes, (0.3,) * 3, (), np.full(4, 0.5), objectives=3, reference=(0.0,) * 3)


def mirrors(seed: int) -> World:
    """Flux and sharpness of six mirrors, with smooth drift and a jump of two at round 56."""
    random = np.random.default_rng([15, seed])
    places, phases = random.uniform(0.3, 0.7, (2, 6)), random.random(6)
    kick = np.where(np.arange(6) < 2, 0.2, 0.0) * random.choice([-1, 1], 6)

    def outcomes(X: np.ndarray, now: float) -> np.ndarray:
        moved = 0.1 * np.sin(2 * math.pi * (now / 250 + phases)) + (now > 55) * kick
        return 10 * np.stack([_peak(X, place, 0.5) for place in places + moved], -1)

    return World(
        6, outcomes, (0.3, 0.3), (), np.full(6, 0.5), True, objectives=2, reference=(0.0, 0.0)
    )


LIMITED = {
    made.__name__: made
    for made in (
        drift, rest, jump, threshold, boundary, furnace, station, six, weekdays, optics,
    )
}  # fmt: skip
SEVERAL = {made.__name__: made for made in (pair, leap, oven, triple, mirrors)}
WORLDS = {**LIMITED, **SEVERAL, "aside": aside, "two_of_six": two_of_six}
