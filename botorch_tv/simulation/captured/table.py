"""Some trials of a study whose rounds are captured, like those of a chunk that are not."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from botorch_tv.inference.basis import Basis
from botorch_tv.simulation.captured.parts import Stage
from botorch_tv.simulation.captured.player import Player
from botorch_tv.simulation.captured.replayed import Capture, Recorder, Replayed, Work
from botorch_tv.simulation.in_numbers.known import Known
from botorch_tv.simulation.settings import Arrays, Chunk, StudySettings
from botorch_tv.simulation.worlds.base import InFeatures, Objective, OnArms


class CapturedTable:
    """Strategies whose rounds are captured, in the trials of one chunk.

    Args:
        settings: The study.
        served: What is played, by label, and the basis of its kernel.
        chunk: The trials.
        capture: Records a round; None where every operation is started by itself.
    """

    def __init__(
        self,
        settings: StudySettings,
        served: Mapping[str, tuple[Known, Basis]],
        chunk: Chunk,
        capture: Capture | None,
    ) -> None:
        self._recorder = Recorder(capture)
        self._shape = trials, horizon = chunk.trials, settings.horizon
        self._noise = settings.errors(chunk)
        some = next(iter(served.values()))[1].variance
        self._stage = Stage(
            some.new_empty(trials, len(some)), some.new_empty(trials), some.new_empty(trials)
        )
        self._maximize = settings.maximize
        self._given: Tensor | None = None
        self._bring: Work | None = None
        self._players = {
            label: Player(
                known,
                basis,
                self._stage,
                trials=trials,
                horizon=horizon,
                recorder=self._recorder,
            )
            for label, (known, basis) in served.items()
        }

    def play_round(self, step: int, objective: Objective) -> None:
        """One round of every strategy.

        Args:
            step: The round, counted from 0.
            objective: That of every trial.
        """
        assert isinstance(objective, OnArms)
        if self._given is None or self._bring is None:
            self._given, work = self._brought(objective)
            self._bring = Replayed(work, self._recorder, [self._stage.values, self._stage.best])
        self._given.copy_(_shown(objective))
        self._stage.noise.copy_(self._noise.normal())
        self._bring()
        for player in self._players.values():
            player.play_round(step)

    def finished(self) -> tuple[list[str], Arrays]:
        """What was recorded, and of which strategies in this order."""
        logs = [one.log() for one in self._players.values()]
        none = np.zeros((len(logs), *self._shape), dtype=np.int32)
        arrays = {name: np.stack([one[name] for one in logs]) for name in logs[0]}
        return list(self._players), {**arrays, "side_queries": none}

    def _brought(self, objective: OnArms) -> tuple[Tensor, Work]:
        """Where objectives like this one are to be written, and what brings them to the stage."""
        stage = self._stage
        reduce = torch.amax if self._maximize else torch.amin
        given, expand = stage.values, None
        if isinstance(objective, InFeatures):
            given = torch.empty_like(objective.coordinates)
            # Nobody else works in the memory of this basis.
            expand = objective.basis.to(given.dtype, given.device).expand

        def work() -> None:
            if expand is not None:
                expand(given, out=stage.values)
            reduce(stage.values, -1, out=stage.best)

        return given, work


def _shown(objective: OnArms) -> Tensor:
    """What there is of an objective without work: coordinates, or values on the arms."""
    return objective.coordinates if isinstance(objective, InFeatures) else objective.values
