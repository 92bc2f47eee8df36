"""Benchmark landscapes of dynamic optimisation, as worlds: peaks that move, grow and shrink."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, Literal, TypedDict, TypeVar, Unpack

import numpy as np
import torch
from torch import Tensor

from botorch_tv.inference.search import Search
from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds.base import Objective, World
from botorch_tv.strategies.box import Box
from botorch_tv.validation import require, require_integer, require_number

if TYPE_CHECKING:
    from deap.benchmarks.movingpeaks import MovingPeaks
    from gmpb import GMPB, GMPBConfig

Landscape = TypeVar("Landscape")


class Played(TypedDict, total=False):
    """Options that all landscapes share; :class:`PeaksWorld` has the defaults."""

    noise: float
    shift: float
    scale: float
    search: Search | None


class PeaksWorld(World, Generic[Landscape]):
    """Landscapes that change at intervals and are constant in between, one for each trial.

    The domain is the unit cube, whatever the coordinates of the landscape. Values are maximised;
    regret is relative to the highest peak, which these benchmarks know.

    Args:
        dim: Number of coordinates d.
        period: Rounds between changes.
        noise: Variance of the observation noise, in scaled units.
        shift: Subtracted from the values of the landscape, for a prior mean of 0.
        scale: Divisor of the shifted values, positive, for a kernel of variance 1.
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
        self.shift = require_number(f"{name}: shift", shift, "(-inf, inf)", "0 leaves the values.")
        self.scale = require_number(f"{name}: scale", scale, "(0, inf)", "1 keeps the unit.")

    @abstractmethod
    def landscape(self, seed: int) -> Landscape:
        """The first landscape of a trial."""

    @abstractmethod
    def change(self, landscape: Landscape) -> None:
        """Advance a landscape to its next state, in place."""

    @abstractmethod
    def values(self, landscape: Landscape, X: np.ndarray) -> np.ndarray:
        """The values at points of the unit cube, `q x d` to `q`."""

    @abstractmethod
    def highest(self, landscape: Landscape) -> float:
        """The largest value of the landscape."""

    def objectives(self, stream: Stream) -> Iterator[Objective]:
        landscapes = [self.landscape(seed) for seed in stream.seeds()]
        while True:
            for _ in range(self.period):
                yield _Peaks(self, landscapes, stream)
            for one in landscapes:
                self.change(one)

    def _scaled(self, values: Sequence[float] | np.ndarray, stream: Stream) -> Tensor:
        given = torch.as_tensor(np.asarray(values), dtype=torch.float64, device="cpu")
        found = (given - self.shift) / self.scale
        return found.to(dtype=stream.dtype, device=stream.device)


class _Peaks(Objective, Generic[Landscape]):
    """The present landscapes of some trials."""

    def __init__(
        self, world: PeaksWorld[Landscape], landscapes: Sequence[Landscape], stream: Stream
    ) -> None:
        self.world, self.landscapes, self.stream = world, landscapes, stream

    def at(self, choice: Tensor) -> Tensor:
        X = (choice if choice.dim() == 3 else choice.unsqueeze(-2)).cpu().double().numpy()
        found = [self.world.values(one, points) for one, points in zip(self.landscapes, X)]
        values = self.world._scaled(np.stack(found), self.stream)
        return values if choice.dim() == 3 else values.squeeze(-1)

    def best(self, maximize: bool) -> Tensor:
        require(maximize, f"{self.world!r} knows only its highest value; use maximize=True.")
        return self.world._scaled([self.world.highest(one) for one in self.landscapes], self.stream)


class GMPBWorld(PeaksWorld["GMPB"]):
    """The Generalized Moving Peaks Benchmark [Yazdani et al. 2022] of the package ``gmpb``.

    Peaks are rotated, asymmetric and irregular. It is used in competitions at CEC.

    Args:
        config: Its settings, a ``gmpb.GMPBConfig``; ``change_frequency`` is the number of rounds
            between changes.
        noise: Variance of the observation noise, in scaled units.
        shift: See :class:`PeaksWorld`; values are up to 70, and far below 0 away from all peaks.
        scale: See :class:`PeaksWorld`.
        search: See :class:`PeaksWorld`.

    Raises:
        ValueError: If a number is out of range.
        ImportError: If the extra ``worlds`` is not installed.
    """

    def __init__(self, config: GMPBConfig, **played: Unpack[Played]) -> None:
        super().__init__(config.d, period=config.change_frequency, **played)
        self.config = config

    def landscape(self, seed: int) -> GMPB:
        try:
            from gmpb import GMPB
        except ImportError as error:
            raise ImportError("GMPBWorld needs: pip install 'botorch-tv[worlds]'") from error
        # This class changes the landscape, not the number of evaluations.
        return GMPB(replace(self.config, auto_step=False), seed)

    def change(self, landscape: GMPB) -> None:
        landscape.step_environment()

    def values(self, landscape: GMPB, X: np.ndarray) -> np.ndarray:
        lower, upper = landscape.global_bounds()
        return landscape.evaluate_batch(lower + (upper - lower) * X)

    def highest(self, landscape: GMPB) -> float:
        # The value at a centre is at least its peak's height, and no value exceeds every height.
        return max(peak.h for peak in landscape.get_state(copy=False).components)


class MovingPeaksWorld(PeaksWorld["MovingPeaks"]):
    """Branke's moving peaks [CEC 1999] of the package ``deap``.

    Args:
        dim: Number of coordinates d.
        scenario: 1 (five smooth hills), 2 (ten cones) or 3 (fifty cones).
        period: Rounds between changes; the scenarios have 5,000, 5,000 and 1,000.
        noise: Variance of the observation noise, in scaled units.
        shift: See :class:`PeaksWorld`; peaks are 30 to 70 high.
        scale: See :class:`PeaksWorld`.
        search: See :class:`PeaksWorld`.

    Raises:
        ValueError: If a number is out of range.
        ImportError: If the extra ``worlds`` is not installed.
    """

    def __init__(
        self,
        dim: int = 2,
        *,
        scenario: Literal[1, 2, 3] = 2,
        period: int,
        **played: Unpack[Played],
    ) -> None:
        super().__init__(dim, period=period, **played)
        require(
            scenario in (1, 2, 3),
            f"MovingPeaksWorld: scenario is {scenario!r}; give 1, 2 or 3.",
        )
        self.scenario = scenario

    def landscape(self, seed: int) -> MovingPeaks:
        try:
            from deap.benchmarks import movingpeaks
        except ImportError as error:
            raise ImportError("MovingPeaksWorld needs: pip install 'botorch-tv[worlds]'") from error
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
