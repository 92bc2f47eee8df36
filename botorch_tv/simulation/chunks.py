"""Some trials of a study, played side by side from the first round to the last."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_tv.forgetting import EventTrigger
from botorch_tv.inference.linalg import at_index
from botorch_tv.simulation.cut import Chunk
from botorch_tv.simulation.progress import Progress
from botorch_tv.simulation.records import Arrays, blank_records, on_host
from botorch_tv.simulation.settings import StudySettings
from botorch_tv.simulation.streams import Stream
from botorch_tv.strategies.state import State, Suggestion


@dataclass(frozen=True)
class Game:
    """A study ready to be played.

    Args:
        settings: All that decides a trial.
        templates: A state of every strategy by label, whose factored kernel the trials share.
    """

    settings: StudySettings
    templates: Mapping[str, State]

    def play(self, chunk: Chunk, progress: Progress, stop: threading.Event) -> Arrays | None:
        """Play some trials.

        Args:
            chunk: Which.
            progress: Told of every round.
            stop: Ends the game after the current round once it is set.

        Returns:
            The variables recorded, each `strategies x trials x horizon`; None if stopped.
        """
        table = _Table(self.settings, self.templates, chunk)
        rounds = iter(self.settings.world.rounds(table.draws("world")))
        for step in range(self.settings.horizon):
            if stop.is_set():
                return None
            values = next(rounds, None)
            if values is None:
                raise ValueError(
                    f"run_study: {self.settings.world!r} ended after {step} rounds, but horizon is "
                    f"{self.settings.horizon}; give horizon={step} or less."
                )
            table.play_round(step, values)
            progress.add(chunk.trials)
        return on_host(table.records)


class _Table:
    """A game under way: the states of all strategies in the trials of one chunk."""

    def __init__(
        self, settings: StudySettings, templates: Mapping[str, State], chunk: Chunk
    ) -> None:
        self.settings, self.chunk = settings, chunk
        self.players = list(settings.strategies.values())
        self.states = [
            player.init_like(templates[label], (chunk.trials,))
            for label, player in settings.strategies.items()
        ]
        self.streams = [
            self.draws(f"strategy {label}") if player.exploration.random else None
            for label, player in settings.strategies.items()
        ]
        self.experts = [
            self.draws(f"expert {label}") if player.consults else None
            for label, player in settings.strategies.items()
        ]
        self.disturb = self.draws("noise")
        self.spread = math.sqrt(settings.world.noise)
        self.maximize = self.players[0].maximize
        first_arm = settings.world.first_arm(self.draws("first arm"))
        self.start = None
        if first_arm is not None:
            self.start = settings.world.domain.X.to(self.states[0].basis.variance)[first_arm]
        self.records = blank_records(
            (settings.horizon, len(self.players), chunk.trials),
            dtype=settings.dtype,
            device=settings.device,
            diagnose=settings.diagnose,
        )

    def draws(self, purpose: str) -> Stream:
        """Random numbers of these trials for one purpose."""
        own = self.settings
        return Stream(own.seed, purpose, *self.chunk, dtype=own.dtype, device=own.device)

    def play_round(self, step: int, values: Tensor) -> None:
        """One round of every strategy.

        Args:
            step: The round, counted from 0.
            values: The objective of every trial, `trials x M`.
        """
        world = self.settings.world
        # Written once a round for all strategies: small writes would take longer than the bandits.
        seen: dict[str, list[Tensor]] = {name: [] for name in self.records}
        best = self._best(values)
        noise = self.spread * self.disturb.normal()
        for number, player in enumerate(self.players):
            state = self.states[number]
            if step == 0 and self.start is not None:
                suggestion = player.suggestion_at(state, self.start)
            else:
                suggestion = player.ask(state, generator=self.streams[number])
            truth = at_index(values, suggestion.choice)
            observation = truth + noise
            ok = world.available(step, suggestion.choice)
            if self.settings.diagnose:
                told = observation if ok is None else observation.masked_fill(~ok, math.nan)
                noted = self._diagnosed(number, suggestion, values) | {"observation": told}
                for name, value in noted.items():
                    seen[name].append(value)
            self.states[number], info = player.tell(
                state,
                suggestion,
                observation,
                ok=ok,
                check=False,
                consume=True,
            )
            seen["regret"].append(self._regret(best, truth))
            seen["resets"].append(info.reset)
            seen["side_queries"].append(self._consult(number, step, values))
            seen["index"].append(suggestion.choice)
        for name, row in seen.items():
            self.records[name][step] = torch.stack(row)

    def _consult(self, number: int, step: int, values: Tensor) -> Tensor:
        """Let an expert answer what a strategy asks about this round; side queries, `trials`.

        Its errors are its own, as large as those of observations.
        """
        player, state, stream = self.players[number], self.states[number], self.experts[number]
        asked = None if stream is None else player.consult(state, generator=stream)
        if asked is None or stream is None:
            return torch.zeros(self.chunk.trials, dtype=torch.int64, device=values.device)
        # As many numbers as any trial could need, so that no trial's depend on the others.
        noise = self.spread * stream.normal(asked.limit)[..., : asked.choice.shape[-1]]
        answers = values.gather(-1, asked.choice) + noise
        world = self.settings.world
        known = [world.available(step, arm) for arm in asked.choice.unbind(-1)]
        measured = [one for one in known if one is not None]
        ok = torch.stack(measured, -1) if measured else None
        self.states[number] = player.absorb(state, asked, answers, ok=ok, check=False)
        return asked.count

    def _diagnosed(self, number: int, suggestion: Suggestion, values: Tensor) -> dict[str, Tensor]:
        """What a strategy knows before its observation, and how good its advice would be."""
        player, state = self.players[number], self.states[number]
        named = at_index(values, player.recommended_arm(state))
        trigger = player.retention
        band = None
        if isinstance(trigger, EventTrigger):
            band = trigger.band(suggestion.sd, player.noise, state.since)
        return {
            "objective": at_index(values, suggestion.choice),
            "mean": suggestion.mean,
            "sd": suggestion.sd,
            "multiplier": suggestion.multiplier,
            "band": torch.full_like(suggestion.sd, math.nan) if band is None else band,
            "simple_regret": self._regret(self._best(values), named),
        }

    def _best(self, values: Tensor) -> Tensor:
        """The value of the best arm, `trials`."""
        return values.amax(-1) if self.maximize else values.amin(-1)

    def _regret(self, best: Tensor, chosen: Tensor) -> Tensor:
        """How far chosen values fall short of the best, `trials`."""
        return best - chosen if self.maximize else chosen - best
