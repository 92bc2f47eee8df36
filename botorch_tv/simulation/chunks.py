"""Some trials of a study, played side by side from the first round to the last."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from botorch_tv.identity.source import is_ours
from botorch_tv.simulation.captured.fusing import fastest
from botorch_tv.simulation.captured.replayed import cuda_graph
from botorch_tv.simulation.captured.table import CapturedTable
from botorch_tv.simulation.compiled.serving import Service, TooManyArms, served
from botorch_tv.simulation.cut import Chunk
from botorch_tv.simulation.eager import EagerTable
from botorch_tv.simulation.place import Place
from botorch_tv.simulation.progress import Progress
from botorch_tv.simulation.records import Arrays
from botorch_tv.simulation.settings import StudySettings
from botorch_tv.simulation.worlds.box import BoxWorld
from botorch_tv.strategies.state import State

if TYPE_CHECKING:
    from botorch_tv.simulation.compiled.table import CompiledTable

BEATEN = 1e-3
"""A best value of somebody's own may be missed by so much of the largest regret: a search ends."""


@dataclass(frozen=True)
class PreparedStudy:
    """A study ready to be played.

    Args:
        settings: All that decides a trial.
        templates: A state of every strategy by label, whose factored kernel the trials share.
        outgrown: Strategies of which compiled rounds have met too many arms, by label.
    """

    settings: StudySettings
    templates: Mapping[str, State]
    outgrown: set[str] = field(default_factory=set)

    def play(self, chunk: Chunk, progress: Progress, stop: threading.Event) -> Arrays | None:
        """Play some trials.

        Args:
            chunk: Which.
            progress: Told of every round.
            stop: Ends the play after the current round once it is set.

        Returns:
            What was recorded; None if stopped.
        """
        place = Place(chunk)
        with place:
            return self._played(place, progress, stop)

    def _played(self, place: Place, progress: Progress, stop: threading.Event) -> Arrays | None:
        counted = _Counted(progress, place.chunk.trials)
        while True:
            try:
                return self._attempt(place, counted, stop)
            except TooManyArms as error:
                self.outgrown.add(error.label)

    def _attempt(self, place: Place, counted: _Counted, stop: threading.Event) -> Arrays | None:
        """What was recorded, where compiled rounds turn out to serve what they play."""
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
            counted.reach(step + 1)
        if stop.is_set():
            return None
        arrays = self._joined([one.finished() for one in tables])
        self._require_finite(arrays["regret"], place)
        self._require_unbeaten(arrays["regret"], place)
        return arrays

    def _require_finite(self, regret: np.ndarray, place: Place) -> None:
        """Raise unless the regret, `strategies x trials x rounds`, is a number everywhere.

        Looked at here alone: a device is not waited for within a round.
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
            f"{self.settings.world!r} has a value that is not, or one was told; clip them, or give "
            "the world arms that can be measured."
        )

    def _require_unbeaten(self, regret: np.ndarray, place: Place) -> None:
        """Raise where a value is better than what the world says is the best there is.

        By more than rounding, or a search for the best, leaves. Looked at here for the same reason.
        """
        world, least = self.settings.world, regret.min()
        makes = world.problem if isinstance(world, BoxWorld) else world
        if is_ours(type(makes)) or least >= -BEATEN * max(regret.max(), 0.0):
            return
        number, trial, step = np.unravel_index(regret.argmin(), regret.shape)
        place.reach(int(step) + 1, "regret is counted")
        raise ValueError(
            f"run_study: the regret of {list(self.settings.strategies)[number]!r} in trial "
            f"{place.chunk.first + trial} is {least:.6g}, but no value may be better than the best "
            f"there is: {type(makes).__name__} tells of a best value that is "
            f"{'exceeded' if self.settings.maximize else 'undercut'}; give the best of all its "
            "values, as the objective of a World does by best(), a test function by "
            "_best_at."
        )

    def _tables(
        self, place: Place, stop: threading.Event
    ) -> list[EagerTable | CompiledTable | CapturedTable]:
        """The strategies whose rounds are compiled or captured, and all others."""
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
            # Where the compiler is imported.
            from botorch_tv.simulation.compiled.table import CompiledTable

            tables.append(CompiledTable(settings, services, place.chunk, stop))
        if graphs:
            _, basis = next(iter(graphs.values()))
            passes = fastest(basis.arms, settings.dtype, settings.device)
            graph = cuda_graph(settings.device)
            tables.append(CapturedTable(settings, graphs, place.chunk, graph, passes))
        return tables

    @cached_property
    def services(self) -> dict[str, Service]:
        """What compiled rounds play, by label."""
        own = self.settings
        if not own.compiled or own.record:  # a recorder may ask for anything
            return {}
        return served(own.world, own.strategies, self.templates, own.horizon)

    def _joined(self, parts: Sequence[tuple[list[str], Arrays]]) -> Arrays:
        """What all strategies recorded, in their order."""
        if len(parts) == 1:
            return parts[0][1]
        labels = [label for some, _ in parts for label in some]
        order = [labels.index(label) for label in self.settings.strategies]
        first, *_ = (arrays for _, arrays in parts)
        return {
            name: np.concatenate([arrays[name] for _, arrays in parts])[order] for name in first
        }


class _Counted:
    """Progress of some trials that may begin anew: no round is counted twice.

    Args:
        progress: Is told.
        trials: How many.
    """

    def __init__(self, progress: Progress, trials: int) -> None:
        self._progress, self._trials, self._rounds = progress, trials, 0

    def reach(self, rounds: int) -> None:
        """So many rounds are played."""
        if rounds > self._rounds:
            self._progress.add(self._trials * (rounds - self._rounds))
            self._rounds = rounds
