"""Worlds on boxes: time-varying test functions, and landscapes of moving peaks."""

from __future__ import annotations

import copy
import math
import random
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict, TypeVar, Unpack

import numpy as np
import torch
from torch import Tensor

from botorch_tv.even_points import even_points
from botorch_tv.gp.search import Search
from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds.base import Objective, World
from botorch_tv.strategies.box import Box
from botorch_tv.test_functions.base import TimeVaryingTestFunction
from botorch_tv.validation import require, require_integer, require_number

if TYPE_CHECKING:
    from deap.benchmarks.movingpeaks import MovingPeaks
    from gmpb import GMPB, GMPBConfig

PROBES = 64
"""Number of values by which a test function is identified, each at another point and time."""


class BoxWorld(World):
    """A test function as a world: strategies choose any point of its box.

    Round k is at time k. If the problem is a single function, all trials have this function, and
    differ only in noise and, with ``random_rounds``, in their first points. If the problem has
    ``batch_shape=(n,)``, trial i has function i, and a study may have up to n trials. Regret is the
    difference from ``optimal_value_at``.

    Args:
        problem: The test function; its coordinates are the domain.
        noise: Variance of the observation noise, in squared units of the scaled values; by default
            ``problem.noise_std**2 / scale**2``.
        shift: Number that is subtracted from the values of the problem, so that a prior mean of 0
            fits.
        scale: Positive number by which the shifted values are divided, so that a kernel of variance
            1 fits.
        random_rounds: Number of initial rounds in which all strategies of a trial play the same
            random points, as in experiments with an initial design. The result includes the regret
            of the rounds with random points.
        search: How strategies maximise over the box; see :class:`~botorch_tv.strategies.Box`.

    Attributes:
        problem: A copy of the test function.
        probe: Some values of the problem; when a study is resumed, they show whether the problem is
            the same.

    Raises:
        ValueError: If a number is out of range, if ``batch_shape`` has two or more dimensions, or
            if neither ``noise`` nor ``problem.noise_std`` is given.
    """

    domain: Box
    horizon: int
    maximize: bool

    def __init__(
        self,
        problem: TimeVaryingTestFunction,
        *,
        noise: float | None = None,
        shift: float = 0.0,
        scale: float = 1.0,
        random_rounds: int = 0,
        search: Search | None = None,
    ) -> None:
        name = type(problem).__name__
        require(
            len(problem.batch_shape) < 2,
            f"BoxWorld: {name} has batch_shape {tuple(problem.batch_shape)}, but batch_shape must "
            "be () or (n,), because trials have one dimension.",
        )
        shift = require_number("BoxWorld: shift", shift, "(-inf, inf)", "0 is no shift.")
        scale = require_number("BoxWorld: scale", scale, "(0, inf)", "1 is no scaling.")
        if noise is None:
            require(
                problem.noise_std is not None,
                f"BoxWorld: {name} has no noise of its own; give noise=0.0 or another variance.",
            )
            noise = (problem.noise_std / scale) ** 2
        fix = "0 is no initial design."
        random_rounds = require_integer("BoxWorld: random_rounds", random_rounds, 0, fix)
        super().__init__(Box(problem.spatial_bounds, search=search), noise)
        self.problem = copy.deepcopy(problem)
        self.shift, self.scale, self.random_rounds = shift, scale, random_rounds
        self.horizon = math.floor(problem.horizon)
        require(
            self.horizon >= 1,
            f"BoxWorld: horizon of {name} is {problem.horizon}, but it must be at least 1; give a "
            "longer horizon.",
        )
        self.maximize = not problem.is_minimization_problem
        self.probe = self._probe()

    def objectives(self, stream: Stream) -> Iterator[Objective]:
        shape = self.problem.batch_shape
        last = stream.first + stream.trials
        require(
            not shape or last <= shape[0],
            f"run_study: {self!r} has functions for {sum(shape)} trials, but the study needs trial "
            f"number {last}; run fewer trials, or draw more functions.",
        )
        problem, trials = self.problem, slice(stream.first, last)
        if problem.bounds.dtype != stream.dtype or problem.bounds.device != stream.device:
            problem = copy.deepcopy(problem).to(device=stream.device, dtype=stream.dtype)

        def at(time: float) -> Objective:
            def values(X: Tensor) -> Tensor:
                X = torch.cat([X, X.new_full((*X.shape[:-1], 1), time)], -1)
                if not shape:
                    return problem(X, noise=False)
                # The problem always evaluates all its functions. Functions of trials outside this
                # block are evaluated at arbitrary points.
                filled = X[:1].expand(*shape, *X.shape[1:]).clone()
                filled[trials] = X
                return problem(filled, noise=False)[trials]

            def best() -> Tensor:
                value = problem.optimal_value_at(time)
                return value[trials] if shape else value.expand(stream.trials)

            return _OnBox(self, stream, values, best)

        return (at(float(step)) for step in range(1, self.horizon + 1))

    def opening(self, stream: Stream) -> Tensor | None:
        if not self.random_rounds:
            return None
        return self.domain.from_unit(stream.uniform(self.random_rounds, self.domain.dim))

    def _probe(self) -> Tensor:
        dim = self.domain.dim
        U = even_points(PROBES, dim + 1).to(self.problem.bounds)
        # The times are whole numbers, because a study evaluates the problem only at rounds. Every
        # function of a batch is evaluated.
        times = (1 + U[:, dim:] * (self.horizon - 1)).round()
        X = torch.cat([self.domain.from_unit(U[:, :dim]), times], -1)
        values: Tensor = self.problem(X.expand(*self.problem.batch_shape, *X.shape), noise=False)
        return values.detach()


@dataclass
class _OnBox(Objective):
    """The functions of some trials in one round, shifted and scaled as the world states.

    Args:
        world: The world, whose shift and scale are used.
        stream: The stream; results have its dtype and device.
        values: A function that maps points, `trials x q x d`, to values before shift and scale,
            `trials x q`.
        highest: A function that returns the best value of each trial's function, before shift and
            scale, `trials`.
    """

    world: BoxWorld | PeaksWorld[Any]
    stream: Stream
    values: Callable[[Tensor], Tensor]
    highest: Callable[[], Tensor]

    def at(self, choice: Tensor) -> Tensor:
        if choice.dim() == 2:
            return self.at(choice.unsqueeze(-2)).squeeze(-1)
        return self._scaled(self.values(choice))

    def best(self, maximize: bool) -> Tensor:
        return self._scaled(self.highest())

    def _scaled(self, values: Tensor) -> Tensor:
        scaled = (values - self.world.shift) / self.world.scale
        return scaled.to(dtype=self.stream.dtype, device=self.stream.device)


# ---------------------------------------------------------------- landscapes of peaks

Landscape = TypeVar("Landscape")


class Played(TypedDict, total=False):
    """Options of all worlds of peaks; :class:`PeaksWorld` describes the options."""

    noise: float
    shift: float
    scale: float
    search: Search | None


class PeaksWorld(World, Generic[Landscape]):
    """One landscape per trial; a landscape changes after every ``period`` rounds.

    The domain is the unit cube; its points are scaled to the coordinates of the landscape. Values
    are maximised. Regret is the difference from the highest peak, whose height the benchmark
    reports.

    Args:
        dim: Number of coordinates d.
        period: Number of rounds between changes of the landscape.
        noise: Variance of the observation noise, in squared units of the scaled values.
        shift: Number that is subtracted from the values of the landscape, so that a prior mean of 0
            fits.
        scale: Positive number by which the shifted values are divided, so that a kernel of variance
            1 fits.
        search: How strategies maximise over the box; see :class:`~botorch_tv.strategies.Box`.

    Raises:
        ValueError: If a number is out of range.
    """

    domain: Box
    maximize = True

    def __init__(
        self,
        dim: int,
        *,
        period: int,
        noise: float = 0.0,
        shift: float = 0.0,
        scale: float = 1.0,
        search: Search | None = None,
    ) -> None:
        name = type(self).__name__
        dim = require_integer(f"{name}: dim", dim, 1, "give the number of coordinates.")
        bounds = torch.tensor([[0.0] * dim, [1.0] * dim], dtype=torch.float64, device="cpu")
        super().__init__(Box(bounds, search=search), noise)
        self.period = require_integer(f"{name}: period", period, 1, "1 changes in every round.")
        self.shift = require_number(f"{name}: shift", shift, "(-inf, inf)", "0 is no shift.")
        self.scale = require_number(f"{name}: scale", scale, "(0, inf)", "1 is no scaling.")

    @abstractmethod
    def landscape(self, seed: int) -> Landscape:
        """The first landscape of a trial.

        Args:
            seed: Seed of the trial.
        """

    @abstractmethod
    def change(self, landscape: Landscape) -> None:
        """Advance a landscape to its next state, in place.

        Args:
            landscape: The landscape of a trial.
        """

    @abstractmethod
    def values(self, landscape: Landscape, X: np.ndarray) -> np.ndarray:
        """The values of a landscape at points of the unit cube, `q`.

        Args:
            landscape: The landscape of a trial.
            X: Points of the unit cube, `q x d`.
        """

    @abstractmethod
    def highest(self, landscape: Landscape) -> float:
        """The largest value of the landscape.

        Args:
            landscape: The landscape of a trial.
        """

    def objectives(self, stream: Stream) -> Iterator[Objective]:
        landscapes = [self.landscape(seed) for seed in stream.seeds()]

        def values(X: Tensor) -> Tensor:
            points = zip(landscapes, X.cpu().double().numpy())
            return torch.from_numpy(
                np.stack([self.values(landscape, x) for landscape, x in points])
            ).double()

        def best() -> Tensor:
            highest = [self.highest(landscape) for landscape in landscapes]
            return torch.tensor(highest, dtype=torch.float64, device="cpu")

        while True:
            for _ in range(self.period):
                yield _OnBox(self, stream, values, best)
            for landscape in landscapes:
                self.change(landscape)


class GMPBWorld(PeaksWorld["GMPB"]):
    """The Generalized Moving Peaks Benchmark [Yazdani et al. 2022], from the package ``gmpb``.

    Peaks are rotated, asymmetric and irregular. Competitions at CEC use this benchmark.

    Args:
        config: Settings of the benchmark; ``change_frequency`` is the number of rounds between
            changes of the landscape.
        **played: ``noise``, ``shift``, ``scale``, ``search``; see :class:`PeaksWorld`. Values reach
            70 at peaks, and are far below 0 away from all peaks.

    Raises:
        ValueError: If a number is out of range.
        ImportError: If the extra ``worlds`` is not installed.
    """

    def __init__(self, config: GMPBConfig, **played: Unpack[Played]) -> None:
        super().__init__(config.d, period=config.change_frequency, **played)
        self.config = config

    def landscape(self, seed: int) -> GMPB:
        from gmpb import GMPB

        # The world, not the number of evaluations, determines when the landscape changes.
        return GMPB(replace(self.config, auto_step=False), seed)

    def change(self, landscape: GMPB) -> None:
        landscape.step_environment()

    def values(self, landscape: GMPB, X: np.ndarray) -> np.ndarray:
        lower, upper = landscape.global_bounds()
        return landscape.evaluate_batch(lower + (upper - lower) * X)

    def highest(self, landscape: GMPB) -> float:
        # The largest value is the largest height: the value at the centre of a peak is at least the
        # height of this peak, and no value exceeds all heights.
        return max(peak.h for peak in landscape.get_state(copy=False).components)


class MovingPeaksWorld(PeaksWorld["MovingPeaks"]):
    """Branke's moving peaks [CEC 1999], from the package ``deap``.

    Args:
        dim: Number of coordinates d.
        scenario: 1 (five smooth hills), 2 (ten cones) or 3 (fifty cones).
        period: Number of rounds between changes of the landscape; ``deap`` uses 5,000 rounds in
            scenarios 1 and 2, and 1,000 rounds in scenario 3.
        **played: ``noise``, ``shift``, ``scale``, ``search``; see :class:`PeaksWorld`. Peaks are 30
            to 70 high.

    Raises:
        ValueError: If a number is out of range.
        ImportError: If the extra ``worlds`` is not installed.
    """

    def __init__(
        self, dim: int = 2, *, scenario: Literal[1, 2, 3] = 2, period: int, **played: Unpack[Played]
    ) -> None:
        super().__init__(dim, period=period, **played)
        require(scenario in (1, 2, 3), f"MovingPeaksWorld: scenario is {scenario!r}; give 1 to 3.")
        self.scenario = scenario

    def landscape(self, seed: int) -> MovingPeaks:
        from deap.benchmarks import movingpeaks

        scenarios = (movingpeaks.SCENARIO_1, movingpeaks.SCENARIO_2, movingpeaks.SCENARIO_3)
        settings = scenarios[self.scenario - 1]
        return movingpeaks.MovingPeaks(self.domain.dim, random.Random(seed), **settings)

    def change(self, landscape: MovingPeaks) -> None:
        landscape.changePeaks()

    def values(self, landscape: MovingPeaks, X: np.ndarray) -> np.ndarray:
        lower, upper = landscape.min_coord, landscape.max_coord
        return np.array([landscape(x, count=False)[0] for x in lower + (upper - lower) * X])

    def highest(self, landscape: MovingPeaks) -> float:
        return float(landscape.globalMaximum()[0])
