"""Play the trials of one chunk together, from the first round to the last."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from botorch_tv.identity.source import is_ours
from botorch_tv.simulation.captured import CapturedTable, cuda_graph
from botorch_tv.simulation.cut import Chunk
from botorch_tv.simulation.eager import EagerTable
from botorch_tv.simulation.place import Place
from botorch_tv.simulation.progress import Progress
from botorch_tv.simulation.records import Arrays
from botorch_tv.simulation.rules import TooManyArms
from botorch_tv.simulation.settings import StudySettings
from botorch_tv.simulation.worlds.box import BoxWorld
from botorch_tv.strategies.state import State

if TYPE_CHECKING:
    from botorch_tv.simulation.compiled import CompiledTable, Service

BEATEN = 1e-3
"""Share of the largest regret by which the best value of a user's world may be exceeded, because a
numerical search for it is inexact."""


@dataclass(frozen=True)
class PreparedStudy:
    """A study ready to be played.

    Args:
        settings: Everything that determines a trial.
        templates: A state of every strategy by label, whose factored kernel the trials share.
        outgrown: Labels of strategies that chose too many arms for compiled rounds.
    """

    settings: StudySettings
    templates: Mapping[str, State]
    outgrown: set[str] = field(default_factory=set)

    def play(self, chunk: Chunk, progress: Progress, stop: threading.Event) -> Arrays | None:
        """Play a chunk.

        Args:
            chunk: Its trials.
            progress: Counts the rounds.
            stop: Ends the play after the current round once it is set.

        Returns:
            The records; None if stopped.
        """
        place, rounds = Place(chunk), _RoundsPlayed(progress, chunk.trials)
        with place:
            while True:
                try:
                    return self._attempt(place, rounds, stop)
                except TooManyArms as error:
                    self.outgrown.add(error.label)  # play again, this strategy uncompiled

    def _attempt(self, place: Place, rounds: _RoundsPlayed, stop: threading.Event) -> Arrays | None:
        """Play a chunk once.

        Raises:
            TooManyArms: If a strategy chooses too many arms for compiled rounds.
        """
        settings, chunk = self.settings, place.chunk
        draws = settings.stream("world", chunk)
        tables = self._tables(place, stop)
        objectives = iter(settings.world.objectives(draws))
        for step in range(self.settings.horizon):
            if stop.is_set():
                return None
            place.reach(step + 1, "the world makes its objective")
            objective = next(objectives, None)
            if objective is None:
                raise ValueError(
                    f"run_study: {self.settings.world!r} ended after {step} rounds, but horizon is "
                    f"{self.settings.horizon}; give horizon={step} or less."
                )
            for table in tables:
                table.play_round(step, objective)
            rounds.reach(step + 1)
        if stop.is_set():
            return None
        arrays = self._joined([one.finished() for one in tables])
        self._require_finite(arrays["regret"], place)
        self._require_unbeaten(arrays["regret"], place)
        return arrays

    def _require_finite(self, regret: np.ndarray, place: Place) -> None:
        """Raise unless all regrets, `strategies x trials x rounds`, are finite.

        Checked only once, at the end, to avoid synchronising with the device in every round.
        """
        missing = ~np.isfinite(regret)
        if not missing.any():
            return
        step = int(missing.any((0, 1)).argmax())
        number, trial = np.argwhere(missing[:, :, step])[0]
        place.reach(step + 1, "regret is counted")
        raise ValueError(
            f"run_study: the regret of {list(self.settings.strategies)[number]!r} in trial "
            f"{place.chunk.first + trial} is {regret[number, trial, step]}, but it must be finite: "
            f"{self.settings.world!r} has NaN or infinite values, or a strategy was told one; clip "
            "them, or give the world arms that can be measured."
        )

    def _require_unbeaten(self, regret: np.ndarray, place: Place) -> None:
        """Raise if a value of a user's world exceeds the best value that the world reports.

        Rounding and an inexact search for the best value are tolerated.
        """
        world, least = self.settings.world, regret.min()
        source = world.problem if isinstance(world, BoxWorld) else world
        if is_ours(type(source)) or least >= -BEATEN * max(regret.max(), 0.0):
            return
        number, trial, step = np.unravel_index(regret.argmin(), regret.shape)
        place.reach(int(step) + 1, "regret is counted")
        raise ValueError(
            f"run_study: the regret of {list(self.settings.strategies)[number]!r} in trial "
            f"{place.chunk.first + trial} is {least:.6g}, but regret cannot be negative: a value "
            f"{'exceeds' if self.settings.maximize else 'is below'} the best value that "
            f"{type(source).__name__} reports; correct best() of its objectives, or _best_at of "
            "the test function."
        )

    def _tables(
        self, place: Place, stop: threading.Event
    ) -> list[EagerTable | CompiledTable | CapturedTable]:
        """One table each for the compiled, the captured, and all other strategies."""
        settings, graphs = self.settings, self.settings.captured
        services = {
            label: one for label, one in self.services.items() if label not in self.outgrown
        }
        others = [
            label for label in settings.strategies if label not in services and label not in graphs
        ]
        tables: list[EagerTable | CompiledTable | CapturedTable] = []
        if others:
            tables.append(EagerTable(settings.of(others), self.templates, place))
        if services:
            # Imported only here, because it imports the compiler.
            from botorch_tv.simulation.compiled import CompiledTable

            tables.append(CompiledTable(settings, services, place.chunk, stop))
        if graphs:
            graph = cuda_graph(settings.device)
            tables.append(CapturedTable(settings, graphs, place.chunk, graph))
        return tables

    @cached_property
    def services(self) -> dict[str, Service]:
        """The strategies whose rounds are compiled, by label."""
        own = self.settings
        if not own.compiled or own.record:  # recorders need the states of every round
            return {}
        if find_spec("numba") is None:  # a worker may do without
            return {}
        from botorch_tv.simulation.compiled import served

        return served(own.world, own.strategies, self.templates, own.horizon)

    def _joined(self, parts: Sequence[tuple[list[str], Arrays]]) -> Arrays:
        """The records of all tables, in the order of the strategies."""
        if len(parts) == 1:
            return parts[0][1]
        labels = [label for some, _ in parts for label in some]
        order = [labels.index(label) for label in self.settings.strategies]
        first, *_ = (arrays for _, arrays in parts)
        return {
            name: np.concatenate([arrays[name] for _, arrays in parts])[order] for name in first
        }


class _RoundsPlayed:
    """Counts the rounds of a chunk, each once even if the chunk is played again.

    Args:
        progress: Receives the counts.
        trials: Number of trials in the chunk.
    """

    def __init__(self, progress: Progress, trials: int) -> None:
        self._progress, self._trials, self._rounds = progress, trials, 0

    def reach(self, rounds: int) -> None:
        """Report the number of rounds played."""
        if rounds > self._rounds:
            self._progress.add(self._trials * (rounds - self._rounds))
            self._rounds = rounds
