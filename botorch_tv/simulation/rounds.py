"""The rounds of a block of trials: played, recorded, and checked at the end."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from botorch_tv.simulation.captured import CapturedTable, cuda_graph
from botorch_tv.simulation.recorders import Recorder, Seen
from botorch_tv.simulation.rules import TooManyArms
from botorch_tv.simulation.settings import Arrays, StudySettings, scatter_of
from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds.base import Objective, OutcomesOnArms
from botorch_tv.strategies.outcomes import Outcomes
from botorch_tv.strategies.state import Info, State
from botorch_tv.validation import require

if TYPE_CHECKING:
    from botorch_tv.simulation.compiled import CompiledTable


class Place:
    """The current step of a study; if an error occurs, a note on the error names this step.

    Args:
        block: The numbers of the trials that are played, such as ``range(50, 100)``.
    """

    def __init__(self, block: range) -> None:
        self.block = block
        self.reach(0, "they are started")

    def reach(self, number: int, doing: str, *who: object) -> None:
        """Record the current step.

        Args:
            number: The round, counted from 1; before the first round, the number is 0.
            doing: A format string that describes the step. To save time, the format string is
                formatted only if an error occurs.
            who: The arguments of the format string.
        """
        self._step = number, doing, who

    def __str__(self) -> str:
        number, doing, who = self._step
        where = f"round {number} of " if number else ""
        return f"{where}{trials_of(self.block)}, as {doing.format(*who)}"


def trials_of(block: range) -> str:
    """Text that names the trials of a block."""
    return f"trials {block.start} to {block.stop - 1}"


# ---------------------------------------------------------------- progress, in whole trials

OFTEN, SELDOM = 0.1, 60.0
"""Seconds between two updates of the progress bar: on a screen, and in a log file, where every
update is a new line."""
TIMED = 5, 20
"""Rounds of a study between which its speed is measured; the first rounds are not typical."""


def progress_bar(trials: int, finished: int, *, shown: bool) -> tqdm[Any]:
    """A progress bar of trials, which is updated often on a screen, and seldom in a log file.

    Args:
        trials: Number of all trials of the study.
        finished: Number of trials already finished.
        shown: Whether to show the progress bar.
    """
    watched = sys.stderr.isatty() or "ipykernel" in sys.modules
    return tqdm(
        total=trials,
        initial=finished,
        unit="trial",
        disable=not shown,
        mininterval=OFTEN if watched else SELDOM,
        miniters=0,  # looks at the clock after every round
        maxinterval=SELDOM,
        bar_format="{l_bar}{bar}| {n:.1f}/{total} trials [{elapsed}<{remaining}]{postfix}",
    )


class Progress:
    """Counts the rounds of blocks that run in parallel, and advances a progress bar of trials.

    After the first rounds, a line states how long all rounds will take.

    Args:
        bar: The progress bar, which counts trials.
        horizon: Number of rounds in a trial.
        finished: Number of trials already finished.
    """

    def __init__(self, bar: tqdm[Any], horizon: int, finished: int = 0) -> None:
        self._bar, self._horizon = bar, horizon
        self._rounds = finished * horizon
        self._lock = threading.Lock()
        self._seen = [(time.perf_counter(), self._rounds)]

    def add(self, rounds: int) -> None:
        """Count finished rounds, summed over trials, and advance the progress bar."""
        with self._lock:
            self._rounds += rounds
            self._bar.update(self._rounds / self._horizon - self._bar.n)
            if len(self._seen) <= TIMED[-1] and not self._bar.disable:
                self._seen.append((time.perf_counter(), self._rounds))
                if len(self._seen) > TIMED[-1]:
                    self._write_estimate()

    def _write_estimate(self) -> None:
        (start, _), (begun, first), (ended, last) = (self._seen[call] for call in (0, *TIMED))
        trials = int(self._bar.total or 0)
        rest = (trials * self._horizon - last) * (ended - begun) / (last - first)
        text = f"About {ended - start + rest:.0f} s for {trials} trials, estimated from the first "
        self._bar.write(f"{text}{TIMED[-1]} rounds.", file=sys.stderr)


# ---------------------------------------------------------------- records

WRITTEN_TOGETHER = 16
"""Number of rounds that are written to the records at once; every write launches an operation on
the device."""


class Records:
    """The recorded variables of a block, which are written round by round.

    Args:
        settings: The settings of the study.
        labels: The labels of the recorded strategies.
        trials: Number of trials.
    """

    def __init__(self, settings: StudySettings, labels: Sequence[str], trials: int) -> None:
        self._labels, self._horizon = labels, settings.horizon
        dtype, device, strategies = settings.dtype, settings.device, len(labels)
        # Rounds are the first dimension, so a round is contiguous in memory.
        self._rounds = {
            name: torch.empty(
                (self._horizon, strategies, trials, *variable.shape),
                dtype=dtype if variable.dtype is None else getattr(torch, variable.dtype),
                device=device,
            )
            for name, variable in settings.every_round.items()
        }
        self._sums = {
            name: torch.zeros(strategies, trials, *variable.shape, dtype=dtype, device=device)
            for name, variable in settings.averaged.items()
        }
        self._kinds = {name: (array.shape[2:], array.dtype) for name, array in self._rounds.items()}
        self._kinds |= {name: (array.shape[1:], array.dtype) for name, array in self._sums.items()}
        self._row: dict[str, list[Tensor]] = {name: [] for name in self._rounds}
        self._first: dict[str, list[Tensor]] | None = {name: [] for name in self._rounds}
        """The tensors recorded in the first rounds. If a tensor changes later, recorders overwrite
        the variable in place."""
        self._overwritten: set[str] = set()
        self._added = dict.fromkeys(self._sums, 0)

    def note(self, number: int, recorder: Recorder, values: Mapping[str, Tensor]) -> None:
        """Store the values that a recorder returns for a strategy in the current round.

        Raises:
            ValueError: If a variable, its shape or its type was not declared.
        """
        for name, value in values.items():
            shape, kind = self._kinds.get(name, (None, None))
            if kind is None or value.shape != shape or not torch.can_cast(value.dtype, kind):
                declared = "nothing" if shape is None else f"{kind} of shape {tuple(shape)}"
                raise ValueError(
                    f"run_study: {recorder!r} recorded {name} as {value.dtype} of shape "
                    f"{tuple(value.shape)}, but variables() of the recorder declares {declared}; "
                    "record what variables() declares, with trials as the first dimension."
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
        """Write the variables of all strategies together; separate writes would take too long.

        Args:
            step: The round, counted from 0.

        Raises:
            ValueError: If a variable was not recorded exactly once per strategy.
        """
        waiting = step % WRITTEN_TOGETHER
        strategies = len(self._labels)
        counts = {name: len(row) - waiting * strategies for name, row in self._row.items()}
        for name, count in (counts | self._added).items():
            require(
                count == strategies,
                f"run_study: {name} was recorded {count} times in a round of {strategies} "
                "strategies; record every variable once for each strategy.",
            )
        if waiting + 1 == WRITTEN_TOGETHER or step + 1 == self._horizon:
            for name, row in self._row.items():
                torch.stack(row, out=self._rounds[name][step - waiting : step + 1].flatten(0, 1))
                row.clear()
            for name, given in (self._first or {}).items():
                if len({tensor.untyped_storage().data_ptr() for tensor in given}) < len(given):
                    self._overwritten.add(name)
            self._first = None
        self._added = dict.fromkeys(self._sums, 0)

    def finished(self) -> dict[str, Arrays]:
        """The recorded variables of every strategy, by label.

        Call this method after the last round.
        """
        found: dict[str, Arrays] = {label: {} for label in self._labels}
        for name, whole in self._rounds.items():
            host = whole.permute(1, 2, 0, *range(3, whole.dim())).contiguous().cpu().numpy()
            for label, own in zip(self._labels, host):
                found[label][name] = own
        for name, sums in self._sums.items():
            for label, of_strategy in zip(self._labels, sums):  # a loop saves memory
                of_trials = of_strategy.double() / self._horizon
                found[label][name] = (mean := of_trials.mean(0)).cpu().numpy()
                scatter = of_trials.sub_(mean).square_().sum(0)
                found[label][scatter_of(name)] = scatter.cpu().numpy()
        return found


# ---------------------------------------------------------------- in PyTorch


class EagerTable:
    """Plays some strategies in the trials of a block, round by round.

    Args:
        settings: The settings of the study.
        labels: The labels of the strategies.
        place: Records the current step of the study, for error messages.
    """

    def __init__(self, settings: StudySettings, labels: Sequence[str], place: Place) -> None:
        self.settings, self.place, self.block = settings, place, place.block
        self.states = {  # all states share the template's factored kernel
            label: settings.strategies[label].init_like(template, (len(self.block),))
            for label, template in settings.states(labels).items()
        }
        self.disturb = settings.errors(self.block)
        random = [label for label in labels if settings.strategies[label].draws]
        self.streams = {label: self.draws(f"strategy {label}") for label in random}
        self.experts = {label: self.draws(f"expert {label}") for label in labels}
        self.opening = settings.world.opening(self.draws("first arm"))
        self.records = Records(settings, labels, len(self.block))

    def draws(self, purpose: str) -> Stream:
        """The random numbers that the trials of the block use for the given purpose."""
        return self.settings.stream(purpose, self.block)

    def play_round(self, step: int, objective: Objective) -> None:
        """Play one round of every strategy.

        Args:
            step: The round, counted from 0.
            objective: The objectives of all trials.
        """
        best = objective.best(self.settings.maximize)
        several = self.settings.world.outcomes
        noise = self.disturb.normal(*([len(several)] if several else []))
        for number, label in enumerate(self.states):
            self._play(number, label, step, objective, best, noise)
        self.records.close_round(step)

    def finished(self) -> dict[str, Arrays]:
        """The recorded variables of every strategy, by its label."""
        return self.records.finished()

    def _play(
        self, number: int, label: str, step: int, objective: Objective, best: Tensor, noise: Tensor
    ) -> None:
        """Play one round of one strategy."""
        strategy, state = self.settings.strategies[label], self.states[label]
        world = self.settings.world
        self.place.reach(step + 1, "the strategy {!r} chooses", label)
        if self.opening is not None and step < self.opening.shape[1]:
            suggestion = strategy.suggestion_at(state, self.opening[:, step])
        else:
            suggestion = strategy.ask(state, generator=self.streams.get(label))
        self.place.reach(step + 1, "the world answers the strategy {!r}", label)
        truth, choice = objective.at(suggestion.choice), suggestion.choice
        ok = world.available(step, choice)
        if isinstance(objective, OutcomesOnArms):
            every = objective.outcomes_at(choice) + noise
            observation = every if isinstance(strategy, Outcomes) else every[:, 0]
            ok = objective.succeeds.gather(-1, choice.unsqueeze(-1)).squeeze(-1)
            measured = every[:, 0].masked_fill(~ok, math.nan)
        else:
            observation = truth + noise
            measured = observation if ok is None else observation.masked_fill(~ok, math.nan)
        seen = Seen(step + 1, label, strategy, state, suggestion, objective, best, truth, measured)
        self._record(number, seen, None)
        self.place.reach(step + 1, "the strategy {!r} observes", label)
        state, info = strategy.tell(
            state, suggestion, observation, ok=ok, check=False, consume=True
        )
        if strategy.consults:
            self.place.reach(step + 1, "the strategy {!r} consults an expert", label)
            state, asked = self._consulted(label, state, step, objective)
            info = info._replace(side_queries=asked)
        self.states[label] = state
        self._record(number, seen._replace(state=state), info)

    def _record(self, number: int, seen: Seen, info: Info | None) -> None:
        """Call every recorder: method ``after`` if ``info`` is given, otherwise ``before``."""
        for recorder in self.settings.recorders:
            self.place.reach(seen.round, "{!r} records the strategy {!r}", recorder, seen.label)
            values = recorder.before(seen) if info is None else recorder.after(seen, info)
            self.records.note(number, recorder, values)

    def _consulted(
        self, label: str, state: State, step: int, objective: Objective
    ) -> tuple[State, Tensor]:
        """Answer side queries; return the strategy's new state and the number of queries.

        The number has shape `trials`. The noise of the answers to side queries is independent of
        the noise of observations, and has the same variance.
        """
        strategy, stream = self.settings.strategies[label], self.experts[label]
        asked = strategy.consult(state, generator=stream)
        if asked is None:
            return state, torch.zeros(len(self.block), dtype=torch.int64, device=state.time.device)
        # For every trial the largest possible number of variates is drawn. The variates of a trial
        # therefore do not depend on the queries of other trials.
        noise = stream.normal(asked.limit)[..., : asked.mask.shape[-1]]
        world = self.settings.world
        answers = objective.at(asked.choice) + math.sqrt(world.noise) * noise
        measurable = [world.available(step, choice) for choice in asked.choice.unbind(1)]
        measured = [flags for flags in measurable if flags is not None]
        ok = torch.stack(measured, -1) if measured else None
        state = strategy.absorb(state, asked, answers, ok=ok, check=False)
        return state, asked.side_queries


# ---------------------------------------------------------------- from the first round to the last

BEATEN = 1e-3
"""Largest accepted absolute value of a negative regret, relative to the largest regret. Negative
regret occurs because a search for the best value of an objective is inexact."""


def play_block(
    settings: StudySettings,
    labels: Sequence[str],
    block: range,
    progress: Progress,
    stop: threading.Event,
) -> dict[str, Arrays] | None:
    """Play some strategies of a study in a block of trials.

    Args:
        settings: The settings of the study.
        labels: The labels of the strategies.
        block: The trial numbers of the block, such as ``range(50, 100)``.
        progress: The progress bar, which counts the rounds that are played.
        stop: An event; if it is set, no more rounds are played.

    Returns:
        The recorded variables of every strategy, by its label; None if ``stop`` was set.

    Raises:
        ValueError: If the world ends before the horizon, or if a regret is negative or not finite.
    """
    place, reached = Place(block), 0

    def played() -> dict[str, Arrays] | None:
        nonlocal reached
        tables = _tables(settings, labels, place, stop)
        world, horizon = settings.world, settings.horizon
        objectives = iter(world.objectives(settings.stream("world", block)))
        for step in range(horizon):
            if stop.is_set():
                return None
            place.reach(step + 1, "the world makes its objective")
            objective = next(objectives, None)
            if objective is None:
                raise ValueError(
                    f"run_study: {world!r} ended after {step} rounds, but horizon is {horizon}; "
                    f"give horizon={step} or less."
                )
            for table in tables:
                table.play_round(step, objective)
            if step >= reached:  # every round is counted once, even if the block is played again
                progress.add(len(block))
                reached = step + 1
        if stop.is_set():
            return None
        found = {label: arrays for table in tables for label, arrays in table.finished().items()}
        found = {label: found[label] for label in labels}
        _require_possible(settings, found, place)
        return found

    try:
        while True:
            try:
                return played()
            except TooManyArms as error:
                settings.outgrown(*error.args)
    except Exception as error:
        error.add_note(f"run_study: in {place}.")
        raise


def _tables(
    settings: StudySettings, labels: Sequence[str], place: Place, stop: threading.Event
) -> list[EagerTable | CapturedTable | CompiledTable]:
    """The objects that play a block: compiled or captured strategies, and all others."""
    gpu = settings.device.type == "cuda"
    # The compiler is optional, so a worker of an executor possibly lacks it.
    compilable = settings.compilable(labels) if gpu or find_spec("numba") is not None else {}
    tables: list[EagerTable | CapturedTable | CompiledTable] = []
    if others := [label for label in labels if label not in compilable]:
        tables.append(EagerTable(settings, others, place))
    if compilable and gpu:
        tables.append(CapturedTable(settings, compilable, place.block, cuda_graph(settings.device)))
    elif compilable:
        # The import is late, because the imported module loads the compiler.
        from botorch_tv.simulation.compiled import CompiledTable

        tables.append(CompiledTable(settings, compilable, place.block, stop))
    return tables


def _require_possible(settings: StudySettings, found: Mapping[str, Arrays], place: Place) -> None:
    """Raise an error unless all regrets are finite and not negative.

    The check runs once, at the end, to avoid synchronising with the device in every round. Slightly
    negative regrets are accepted, because rounding and an inexact search for the best value cause
    them.
    """
    regret = np.stack([arrays["regret"] for arrays in found.values()])
    wrong = ~np.isfinite(regret)
    if not wrong.any():
        wrong = regret < -BEATEN * max(regret.max(), 0.0)
    if not wrong.any():
        return
    step = int(wrong.any((0, 1)).argmax())
    number, trial = np.argwhere(wrong[:, :, step])[0]
    place.reach(step + 1, "regret is checked")
    world = settings.world
    source = type(getattr(world, "problem", world)).__name__
    raise ValueError(
        f"run_study: the regret of {list(found)[number]!r} in trial {place.block[trial]} is "
        f"{regret[number, trial, step]:.6g}, but it must be finite and at least 0. Either "
        f"{source} has NaN or infinite values, or one of its values is "
        f"{'above' if settings.maximize else 'below'} the best value that it reports. Clip the "
        "values, or correct the best value, which best() of the objective or _best_at() of the "
        "test function returns."
    )
