"""Strategies as they are, round by round, in the trials of one chunk."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from botorch_tv.identity.source import is_ours
from botorch_tv.simulation.place import Place
from botorch_tv.simulation.recorders.play import Play
from botorch_tv.simulation.recorders.recorder import Seen
from botorch_tv.simulation.records import Arrays, Records
from botorch_tv.simulation.settings import StudySettings
from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds.objective import Objective
from botorch_tv.strategies.state import Info, State


class EagerTable:
    """A study under way: the states of all strategies in the trials of one chunk.

    Args:
        settings: The study.
        templates: A state of every strategy by label, whose factored kernel the trials share.
        place: Told where the play is.
    """

    def __init__(
        self, settings: StudySettings, templates: Mapping[str, State], place: Place
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
