"""Some trials of a study, played side by side from the first round to the last."""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from botorch_tv.identity.source import is_ours
from botorch_tv.simulation.captured.fusing import fastest
from botorch_tv.simulation.captured.replayed import cuda_graph
from botorch_tv.simulation.captured.table import CapturedTable
from botorch_tv.simulation.compiled.serving import Service, TooManyArms, served
from botorch_tv.simulation.cut import Chunk
from botorch_tv.simulation.progress import Progress
from botorch_tv.simulation.recorders.play import Play
from botorch_tv.simulation.recorders.recorder import Seen
from botorch_tv.simulation.records import Arrays, Records
from botorch_tv.simulation.settings import StudySettings
from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds.box import BoxWorld
from botorch_tv.simulation.worlds.objective import Objective
from botorch_tv.strategies.state import Info, State

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
        place = _Place(chunk)
        with place:
            return self._played(place, progress, stop)

    def _played(self, place: _Place, progress: Progress, stop: threading.Event) -> Arrays | None:
        counted = _Counted(progress, place.chunk.trials)
        while True:
            try:
                return self._attempt(place, counted, stop)
            except TooManyArms as error:
                self.outgrown.add(error.label)

    def _attempt(self, place: _Place, counted: _Counted, stop: threading.Event) -> Arrays | None:
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

    def _require_finite(self, regret: np.ndarray, place: _Place) -> None:
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

    def _require_unbeaten(self, regret: np.ndarray, place: _Place) -> None:
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
        self, place: _Place, stop: threading.Event
    ) -> list[_Table | CompiledTable | CapturedTable]:
        """The strategies whose rounds are compiled or captured, and all others."""
        settings, graphs = self.settings, self.settings.captured
        services = {
            label: one for label, one in self.services.items() if label not in self.outgrown
        }
        others = [
            label for label in settings.strategies if label not in services and label not in graphs
        ]
        tables: list[_Table | CompiledTable | CapturedTable] = []
        if others:
            tables.append(_Table(settings.of(others), self.templates, place))
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


class _Place:
    """Where the play is, which is told of errors within.

    Args:
        chunk: The trials.
    """

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.reach(0, "they are begun")

    def reach(self, number: int, doing: str, *who: object) -> None:
        """Go on to another round, counted from 1, or another part of it.

        Args:
            number: Of the round.
            doing: What is done, with `{!r}` for each of those who do it: put into words only once
                there is an error, since a round has many parts.
            who: They.
        """
        self._round, self._doing, self._who = number, doing, who

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            number = f"round {self._round} of " if self._round else ""
            doing = self._doing.format(*self._who)
            error.add_note(f"run_study: in {number}{self.chunk}, as {doing}.")


class _Table:
    """A study under way: the states of all strategies in the trials of one chunk."""

    def __init__(
        self, settings: StudySettings, templates: Mapping[str, State], place: _Place
    ) -> None:
        chunk = place.chunk
        self.settings, self.place, self.chunk = settings, place, chunk
        self.labels = list(settings.strategies)
        self.players = list(settings.strategies.values())
        self.states = [
            player.init_like(templates[label], (chunk.trials,))
            for label, player in settings.strategies.items()
        ]
        self.streams = [
            self.draws(f"strategy {label}") if player.draws else None
            for label, player in settings.strategies.items()
        ]
        self.experts = [
            self.draws(f"expert {label}") if player.consults else None
            for label, player in settings.strategies.items()
        ]
        self.spread = math.sqrt(settings.world.noise)
        self.disturb = settings.errors(chunk)
        self.maximize = settings.maximize
        self.opening = settings.world.opening(self.draws("first arm"))
        self.recorders = settings.recorders
        self.records = Records(
            settings.layout,
            chunk.trials,
            dtype=settings.dtype,
            device=settings.device,
            lasting=self._lasting(),
        )

    def draws(self, purpose: str) -> Stream:
        """Random numbers of these trials for one purpose."""
        return self.settings.stream(purpose, self.chunk)

    def play_round(self, step: int, objective: Objective) -> None:
        """One round of every strategy.

        Args:
            step: The round, counted from 0.
            objective: That of every trial.
        """
        world = self.settings.world
        best = objective.best(self.maximize)
        noise = self.disturb.normal()
        for number, player in enumerate(self.players):
            state, label = self.states[number], self.labels[number]
            self.place.reach(step + 1, "the strategy {!r} chooses", label)
            if self.opening is not None and step < self.opening.shape[1]:
                suggestion = player.suggestion_at(state, self.opening[:, step])
            else:
                suggestion = player.ask(state, generator=self.streams[number])
            self.place.reach(step + 1, "the world answers the strategy {!r}", label)
            truth = objective.at(suggestion.choice)
            observation = truth + noise
            ok = world.available(step, suggestion.choice)
            seen = Seen(
                step + 1,
                label,
                player,
                state,
                suggestion,
                objective,
                best,
                truth,
                observation if ok is None else observation.masked_fill(~ok, math.nan),
            )
            self._record(number, seen, None)
            self.place.reach(step + 1, "the strategy {!r} is told", label)
            self.states[number], info = player.tell(
                state,
                suggestion,
                observation,
                ok=ok,
                check=False,
                consume=True,
            )
            stream = self.experts[number]
            if stream is not None:
                self.place.reach(step + 1, "the strategy {!r} consults an expert", label)
                asked = self._consult(number, stream, step, objective)
                info = info._replace(side_queries=asked)
            self._record(number, seen._replace(state=self.states[number]), info)
        self.records.close_round(step)

    def finished(self) -> tuple[list[str], Arrays]:
        """What was recorded, and of which strategies in this order."""
        return self.labels, self.records.finished()

    def _lasting(self) -> Collection[str]:
        """Variables whose tensors are new in every round.

        Somebody's own strategy may give the same one in every round, with other numbers in it.
        """
        ours = all(is_ours(type(one)) for one in self.players)
        return Play().variables(self.settings.world.domain) if ours else ()

    def _record(self, number: int, seen: Seen, info: Info | None) -> None:
        """Let every recorder see a round: before the observation, or what happened after it."""
        for one in self.recorders:
            self.place.reach(seen.round, "{!r} records the strategy {!r}", one, seen.label)
            told = one.before(seen) if info is None else one.after(seen, info)
            self.records.note(number, one, told)

    def _consult(self, number: int, stream: Stream, step: int, objective: Objective) -> Tensor:
        """Let an expert answer what a strategy asks about this round; side queries, `trials`.

        Its errors are its own, as large as those of observations.
        """
        player, state = self.players[number], self.states[number]
        asked = player.consult(state, generator=stream)
        if asked is None:
            return torch.zeros(self.chunk.trials, dtype=torch.int64, device=state.time.device)
        # As many numbers as any trial could need, so that no trial's depend on the others.
        noise = self.spread * stream.normal(asked.limit)[..., : asked.mask.shape[-1]]
        answers = objective.at(asked.choice) + noise
        world = self.settings.world
        known = [world.available(step, one) for one in asked.choice.unbind(1)]
        measured = [one for one in known if one is not None]
        ok = torch.stack(measured, -1) if measured else None
        self.states[number] = player.absorb(state, asked, answers, ok=ok, check=False)
        return asked.side_queries
