"""The rounds of a block of trials: played, recorded, and checked at the end."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from botorch_tv.simulation.captured import CapturedTable, cuda_graph
from botorch_tv.simulation.recorders import Recorder, Seen
from botorch_tv.simulation.rules import TooManyArms
from botorch_tv.simulation.settings import Arrays, Chunk, ResultLayout, StudySettings, scatter_of
from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds.base import Objective
from botorch_tv.simulation.worlds.box import BoxWorld
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import Info, State

if TYPE_CHECKING:
    from botorch_tv.simulation.compiled import CompiledTable, Service


class Place:
    """A context manager that adds the current step of a study to errors, as a note.

    Args:
        chunk: The trials being played.
    """

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.reach(0, "they are begun")

    def reach(self, number: int, doing: str, *who: object) -> None:
        """Record the current step.

        Args:
            number: The round, from 1; 0 before the first.
            doing: What happens in this step, a format string. It is formatted only on an error,
                because a round has many steps.
            who: The arguments of the format string.
        """
        self._round, self._doing, self._who = number, doing, who

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            number = f"round {self._round} of " if self._round else ""
            doing = self._doing.format(*self._who)
            error.add_note(f"run_study: in {number}{self.chunk}, as {doing}.")


# ---------------------------------------------------------------- progress, in whole trials

OFTEN, SELDOM = 0.1, 60.0
"""Seconds between updates of the bar on a screen, and in a log, which keeps every update."""


def progress_bar(trials: int, known: int, *, shown: bool) -> tqdm[Any]:
    """A bar that counts trials; it is updated often on a screen, and seldom in a log file.

    Args:
        trials: Number of all trials.
        known: Number of trials already finished.
        shown: Whether to show the bar.
    """
    watched = sys.stderr.isatty() or "ipykernel" in sys.modules
    return tqdm(
        total=trials,
        initial=known,
        unit="trial",
        disable=not shown,
        mininterval=OFTEN if watched else SELDOM,
        maxinterval=SELDOM,
    )


class Progress:
    """Advances a bar of whole trials by the rounds of chunks that run in parallel.

    Args:
        bar: The bar, which counts trials.
        horizon: Rounds per trial.
        known: Number of trials already finished.
    """

    def __init__(self, bar: tqdm[Any], horizon: int, known: int = 0) -> None:
        self._bar, self._horizon = bar, horizon
        self._rounds = known * horizon
        self._lock = threading.Lock()

    def add(self, rounds: int) -> None:
        """Count more rounds, each of one trial."""
        with self._lock:
            self._rounds += rounds
            self._bar.update(self._rounds // self._horizon - self._bar.n)


# ---------------------------------------------------------------- what is recorded

WRITTEN_TOGETHER = 16
"""Rounds written at once, because every write costs a kernel launch."""


class Records:
    """The records of a chunk.

    Args:
        layout: What is recorded.
        trials: Number of trials.
        dtype: Type of real numbers.
        device: Device of the chunk.
    """

    def __init__(
        self, layout: ResultLayout, trials: int, *, dtype: torch.dtype, device: torch.device
    ) -> None:
        strategies = self._strategies = layout.empty.sizes["strategy"]
        self._horizon = layout.horizon
        # Rounds come first, so that a round is contiguous.
        self._rounds = {
            name: torch.empty(
                (layout.horizon, strategies, trials, *one.shape),
                dtype=dtype if one.dtype is None else getattr(torch, one.dtype),
                device=device,
            )
            for name, one in layout.every_round.items()
        }
        self._sums = {
            name: torch.zeros(strategies, trials, *one.shape, dtype=dtype, device=device)
            for name, one in layout.averaged.items()
        }
        self._kinds = {name: (one.shape[2:], one.dtype) for name, one in self._rounds.items()}
        self._kinds |= {name: (one.shape[1:], one.dtype) for name, one in self._sums.items()}
        self._row: dict[str, list[Tensor]] = {name: [] for name in self._rounds}
        self._first: dict[str, list[Tensor]] | None = {name: [] for name in self._rounds}
        """What was given in the first rounds; a tensor given twice is overwritten by its owner."""
        self._overwritten: set[str] = set()
        self._added = dict.fromkeys(self._sums, 0)

    def note(self, number: int, recorder: Recorder, values: Mapping[str, Tensor]) -> None:
        """Take the values that a recorder returns for one strategy in the current round.

        Raises:
            ValueError: If a variable, its shape or its type was not declared.
        """
        for name, value in values.items():
            shape, kind = self._kinds.get(name, (None, None))
            if kind is None or value.shape != shape or not torch.can_cast(value.dtype, kind):
                declared = "nothing" if shape is None else f"{kind} of shape {tuple(shape)}"
                raise ValueError(
                    f"run_study: {recorder!r} recorded {name} as {value.dtype} of shape "
                    f"{tuple(value.shape)}, but its variables() declares {declared}, trials first; "
                    "make the two agree."
                )
            if name in self._row:
                if self._first is not None:
                    self._first[name].append(value)
                copied = self._first is not None or name in self._overwritten
                self._row[name].append(value.clone() if copied else value)
            else:
                self._sums[name][number] += value
                self._added[name] += 1

    def close_round(self, step: int) -> None:
        """Write the round for all strategies at once; single writes would dominate the run time.

        Args:
            step: The round, counted from 0.

        Raises:
            ValueError: If a variable was not recorded exactly once per strategy.
        """
        waiting = step % WRITTEN_TOGETHER
        counts = {name: len(row) - waiting * self._strategies for name, row in self._row.items()}
        for name, count in (counts | self._added).items():
            if count != self._strategies:
                raise ValueError(
                    f"run_study: {name} was recorded {count} times in a round of "
                    f"{self._strategies} strategies; record every variable once for each."
                )
        if waiting + 1 == WRITTEN_TOGETHER or step + 1 == self._horizon:
            for name, row in self._row.items():
                torch.stack(row, out=self._rounds[name][step - waiting : step + 1].flatten(0, 1))
                row.clear()
            for name, given in (self._first or {}).items():
                if len({one.untyped_storage().data_ptr() for one in given}) < len(given):
                    self._overwritten.add(name)
            self._first = None
        self._added = dict.fromkeys(self._sums, 0)

    def finished(self) -> Arrays:
        """All records, on the host; call it after the last round."""
        arrays = {
            name: whole.permute(1, 2, 0, *range(3, whole.dim())).contiguous().cpu().numpy()
            for name, whole in self._rounds.items()
        }
        for name, sums in self._sums.items():
            means, scatters = [], []
            for of_strategy in sums:  # one at a time, to save memory
                of_trials = of_strategy.double() / self._horizon
                means.append(of_trials.mean(0))
                scatters.append(of_trials.sub_(means[-1]).square_().sum(0))
            arrays[name] = torch.stack(means).cpu().numpy()
            arrays[scatter_of(name)] = torch.stack(scatters).cpu().numpy()
        return arrays


# ---------------------------------------------------------------- in PyTorch


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
            settings.layout, chunk.trials, dtype=settings.dtype, device=settings.device
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


# ---------------------------------------------------------------- from the first round to the last

BEATEN = 1e-3
"""Share of the largest regret by which the best value of a world may be exceeded, because a search
for it is inexact."""


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
        place, reached = Place(chunk), 0

        def reach(rounds: int) -> None:
            """Count each round once, even if the chunk is played again."""
            nonlocal reached
            if rounds > reached:
                progress.add(chunk.trials * (rounds - reached))
                reached = rounds

        with place:
            while True:
                try:
                    return self._attempt(place, reach, stop)
                except TooManyArms as error:
                    self.outgrown.add(error.label)  # play again, this strategy uncompiled

    def _attempt(
        self, place: Place, reach: Callable[[int], None], stop: threading.Event
    ) -> Arrays | None:
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
            reach(step + 1)
        if stop.is_set():
            return None
        arrays = self._joined([one.finished() for one in tables])
        self._require_possible(arrays["regret"], place)
        return arrays

    def _require_possible(self, regret: np.ndarray, place: Place) -> None:
        """Raise unless all regrets, `strategies x trials x rounds`, are finite and not negative.

        Checked only once, at the end, to avoid synchronising with the device in every round.
        Rounding and an inexact search for the best value are tolerated.
        """
        world, maximize = self.settings.world, self.settings.maximize
        wrong = ~np.isfinite(regret)
        if not wrong.any():
            wrong = regret < -BEATEN * max(regret.max(), 0.0)
        if not wrong.any():
            return
        step = int(wrong.any((0, 1)).argmax())
        number, trial = np.argwhere(wrong[:, :, step])[0]
        place.reach(step + 1, "regret is counted")
        source = type(world.problem if isinstance(world, BoxWorld) else world).__name__
        raise ValueError(
            f"run_study: the regret of {list(self.settings.strategies)[number]!r} in trial "
            f"{place.chunk.first + trial} is {regret[number, trial, step]:.6g}, but it must be "
            f"finite and cannot be negative: {source} has NaN or infinite values, or one that "
            f"{'exceeds' if maximize else 'is below'} the best that it reports; clip its values, "
            "or correct best() of its objectives, or _best_at of the test function."
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
