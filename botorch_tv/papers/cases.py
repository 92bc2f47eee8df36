"""The cases of an experiment: one study each, on drawn objectives or on recorded data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from botorch_tv.papers.recordings import STAND_IN, Recordings
from botorch_tv.simulation import GridWorld, World
from botorch_tv.strategies import Strategy

AnyWorld = TypeVar("AnyWorld", bound=GridWorld)


class Setting(NamedTuple):
    """The user's changes to an experiment.

    Attributes:
        noise: Variance of the noise; None for the experiment's own.
        data: Folder of records; None for synthetic ones.
    """

    noise: float | None = None
    data: Path | None = None


class Stage(NamedTuple):
    """A study without its size.

    Attributes:
        world: The world.
        strategies: The strategies by label.
        doubt: Why the paper cannot be judged by it; empty if it can.
        trials: Largest number of distinct trials; None for any number.
        horizon: Largest number of rounds; None for any number.
    """

    world: World
    strategies: dict[str, Strategy]
    doubt: str = ""
    trials: int | None = None
    horizon: int | None = None


class Case(ABC):
    """One study of an experiment."""

    title: str
    """A caption that distinguishes the case."""

    @property
    @abstractmethod
    def noise(self) -> float | None:
        """Default variance of the noise; None if it depends on the data."""

    @abstractmethod
    def stage(self, setting: Setting) -> Stage:
        """The world and the strategies."""


@dataclass(frozen=True)
class Drawn(Case):
    """A study on drawn objectives. World and strategies are made from the noise variance.

    Args:
        title: A caption that distinguishes the case.
        variance: Variance of the noise, or a function that computes it.
        world: Makes the world.
        strategies: Makes the strategies, by label.
        horizon: Number of rounds, if the experiment has more.
    """

    title: str
    variance: float | Callable[[], float]
    world: Callable[[float], World]
    strategies: Callable[[float], dict[str, Strategy]]
    horizon: int | None = None

    @cached_property
    def noise(self) -> float:
        return self.variance() if callable(self.variance) else self.variance

    def stage(self, setting: Setting) -> Stage:
        noise = self.noise if setting.noise is None else setting.noise
        return Stage(self.world(noise), self.strategies(noise), horizon=self.horizon)


@dataclass(frozen=True)
class Recorded(Case, Generic[AnyWorld]):
    """A study on recorded data.

    Args:
        title: A caption that distinguishes the case.
        world: Makes the world from the records.
        strategies: Makes the strategies from the world's covariance, noise and rate of change.
        trials: Number of distinct trials; by default the number of arms, because trials differ in
            their first arm.
    """

    title: str
    world: Callable[[Recordings], AnyWorld]
    strategies: Callable[[AnyWorld], dict[str, Strategy]]
    trials: int | None = None

    @property
    def noise(self) -> None:
        return None

    def stage(self, setting: Setting) -> Stage:
        world = self.world(Recordings(setting.data))
        doubt = STAND_IN if setting.data is None else ""
        differing = len(world.domain) if self.trials is None else self.trials
        return Stage(world, self.strategies(world), doubt, trials=differing)
