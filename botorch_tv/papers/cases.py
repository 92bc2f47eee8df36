"""The cases of an experiment: one study each, on drawn objectives or on a record."""

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
    """What a user wants otherwise than the experiment has it.

    Attributes:
        noise: Variance of the noise; None for the experiment's own.
        data: Folder of records; None for records made up.
    """

    noise: float | None = None
    data: Path | None = None


class Stage(NamedTuple):
    """All of a study but its size.

    Attributes:
        world: What is played on.
        strategies: Who plays, by label.
        doubt: Why nothing can be judged from it; empty where it can.
        trials: The most trials that differ from each other; None for any number.
        horizon: The most rounds it is meant for; None for any number.
    """

    world: World
    strategies: dict[str, Strategy]
    doubt: str = ""
    trials: int | None = None
    horizon: int | None = None


class Case(ABC):
    """One study of an experiment."""

    title: str
    """What distinguishes it, as a caption."""

    @property
    @abstractmethod
    def noise(self) -> float | None:
        """Variance of the noise unless told otherwise; None where it comes with the data."""

    @abstractmethod
    def stage(self, setting: Setting) -> Stage:
        """World and strategies."""


@dataclass(frozen=True)
class Drawn(Case):
    """A study whose objectives are drawn. World and strategies are made from the noise variance.

    Args:
        title: What distinguishes it, as a caption.
        variance: Variance of the noise, or how to find it.
        world: Where objectives are drawn from.
        strategies: Who meets in it, by label.
        horizon: Rounds, where the experiment has more.
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
    """A study on recorded data; a trial is identified by its starting row.

    Args:
        title: What distinguishes it, as a caption.
        world: From the records there are.
        strategies: From that world: its covariance, its noise and its rate of change.
        trials: How many trials of that world differ; as many as it has arms unless given.
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
