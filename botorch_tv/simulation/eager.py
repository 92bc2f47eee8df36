"""Play the rounds of one chunk in PyTorch."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

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
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import Info, State


@dataclass
class _Player:
    """A strategy and its state in the trials of a chunk."""

    number: int
    """Index of the strategy."""
    label: str
    strategy: Strategy
    state: State
    stream: Stream | None
    """Random numbers for its choices; None if it needs none."""
    expert: Stream | None
    """Random numbers for its expert; None if it consults none."""


class EagerTable:
    """The states of all strategies in the trials of one chunk, played round by round.

    Args:
        settings: The study.
        templates: A state of every strategy by label, whose factored kernel the trials share.
        place: Records the current step, for error messages.
    """

    def __init__(
        self, settings: StudySettings, templates: Mapping[str, State], place: Place
    ) -> None:
        chunk = place.chunk
        self.settings, self.place, self.chunk = settings, place, chunk
        self.players = [
            _Player(
                number,
                label,
                strategy,
                strategy.init_like(templates[label], (chunk.trials,)),
                self.draws(f"strategy {label}") if strategy.draws else None,
                self.draws(f"expert {label}") if strategy.consults else None,
            )
            for number, (label, strategy) in enumerate(settings.strategies.items())
        ]
        self.spread = math.sqrt(settings.world.noise)
        self.disturb = settings.errors(chunk)
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
        """Random numbers for one purpose, for these trials."""
        return self.settings.stream(purpose, self.chunk)

    def play_round(self, step: int, objective: Objective) -> None:
        """One round of every strategy.

        Args:
            step: The round, counted from 0.
            objective: The objectives of all trials.
        """
        best = objective.best(self.settings.maximize)
        noise = self.disturb.normal()
        for player in self.players:
            self._play(player, step, objective, best, noise)
        self.records.close_round(step)

    def _play(
        self, player: _Player, step: int, objective: Objective, best: Tensor, noise: Tensor
    ) -> None:
        """One round of one strategy."""
        strategy, label, world = player.strategy, player.label, self.settings.world
        self.place.reach(step + 1, "the strategy {!r} chooses", label)
        if self.opening is not None and step < self.opening.shape[1]:
            suggestion = strategy.suggestion_at(player.state, self.opening[:, step])
        else:
            suggestion = strategy.ask(player.state, generator=player.stream)
        self.place.reach(step + 1, "the world answers the strategy {!r}", label)
        truth = objective.at(suggestion.choice)
        observation = truth + noise
        ok = world.available(step, suggestion.choice)
        seen = Seen(
            step + 1,
            label,
            strategy,
            player.state,
            suggestion,
            objective,
            best,
            truth,
            observation if ok is None else observation.masked_fill(~ok, math.nan),
        )
        self._record(player, seen, None)
        self.place.reach(step + 1, "the strategy {!r} is told", label)
        player.state, info = strategy.tell(
            player.state, suggestion, observation, ok=ok, check=False, consume=True
        )
        if player.expert is not None:
            self.place.reach(step + 1, "the strategy {!r} consults an expert", label)
            asked = self._consult(player, player.expert, step, objective)
            info = info._replace(side_queries=asked)
        self._record(player, seen._replace(state=player.state), info)

    def finished(self) -> tuple[list[str], Arrays]:
        """The labels of the strategies, and their records in this order."""
        return [one.label for one in self.players], self.records.finished()

    def _lasting(self) -> Collection[str]:
        """Names of the variables whose tensors are new in every round.

        None for a user's strategy, which may overwrite the same tensor in every round.
        """
        ours = all(is_ours(type(one.strategy)) for one in self.players)
        return Play().variables(self.settings.world.domain) if ours else ()

    def _record(self, player: _Player, seen: Seen, info: Info | None) -> None:
        """Call every recorder, before the observation or, with ``info``, after it."""
        for one in self.recorders:
            self.place.reach(seen.round, "{!r} records the strategy {!r}", one, seen.label)
            values = one.before(seen) if info is None else one.after(seen, info)
            self.records.note(player.number, one, values)

    def _consult(self, player: _Player, stream: Stream, step: int, objective: Objective) -> Tensor:
        """Answer a strategy's queries to an expert; returns their number, `trials`.

        The answers have independent noise of the same variance as observations.
        """
        state = player.state
        asked = player.strategy.consult(state, generator=stream)
        if asked is None:
            return torch.zeros(self.chunk.trials, dtype=torch.int64, device=state.time.device)
        # The largest possible number of variates, so that trials do not depend on each other.
        noise = self.spread * stream.normal(asked.limit)[..., : asked.mask.shape[-1]]
        answers = objective.at(asked.choice) + noise
        world = self.settings.world
        known = [world.available(step, one) for one in asked.choice.unbind(1)]
        measured = [one for one in known if one is not None]
        ok = torch.stack(measured, -1) if measured else None
        player.state = player.strategy.absorb(state, asked, answers, ok=ok, check=False)
        return asked.side_queries
