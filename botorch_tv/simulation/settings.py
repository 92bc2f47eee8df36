"""The settings of a study, what it records, and how many of its trials run together."""

from __future__ import annotations

import json
import math
import threading
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np
import torch
import xarray as xr

from botorch_tv.gp.arms import precise_rounds
from botorch_tv.identity import Description, describe, libraries
from botorch_tv.memory import bytes_text, free_bytes
from botorch_tv.simulation.recorders import Play, Recorder, Variable
from botorch_tv.simulation.rules import Compilable, known, numbers_per_trial
from botorch_tv.simulation.streams import DRAWS, Stream
from botorch_tv.simulation.worlds import World
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import State
from botorch_tv.validation import require

Arrays = dict[str, np.ndarray]
"""Variables of one strategy in a block of trials by name, each `trials x horizon` followed by its
own sizes. Averages have their own sizes alone, and come with their scatter over trials."""
DIMENSIONS = ("strategy", "trial", "round")
MEMORY_SHARE = 0.5
"""Share of free memory that a study may use; the rest is for results and temporaries."""
MOST_TRIALS = 512
"""Most trials together on a CPU; more take more memory and are no faster."""
BUSY_NUMBERS = 2**15
"""Fewest numbers, trials x arms, that keep a core busy. With fewer, starting an operation takes
longer than the operation, and Python starts the operations of all blocks one after the other."""
BOX_POINTS = 512
"""Points of a box that the default search scores at once."""
BEGINNING = threading.RLock()
"""Held while kernels are evaluated, because GPyTorch's settings are shared by all threads."""


@dataclass(frozen=True)
class StudySettings:
    """Everything that determines a trial: the arguments of ``run_study`` with the same names.

    A block of trials is the range of their numbers.
    """

    world: World
    strategies: Mapping[str, Strategy]
    horizon: int
    seed: int
    dtype: torch.dtype
    device: torch.device
    record: Sequence[Recorder] = ()
    compiled: bool = False
    """Whether to compile or capture rounds where possible; choices do not depend on it."""
    _states: dict[str, State] = field(default_factory=dict, init=False, repr=False, compare=False)
    _known: dict[str, Compilable | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __getstate__(self) -> dict[str, object]:
        """The settings without states and layout, which every worker makes for itself."""
        given = {one.name: getattr(self, one.name) for one in fields(self) if one.init}
        return {**given, "_states": {}, "_known": {}}

    # ------------------------------------------------------------ what is recorded

    @property
    def recorders(self) -> tuple[Recorder, ...]:
        """All recorders, :class:`Play` first."""
        return (Play(), *self.record)

    @cached_property
    def variables(self) -> dict[str, Variable]:
        """The recorded variables by name."""
        domain = self.world.domain
        return {name: v for one in self.recorders for name, v in one.variables(domain).items()}

    @cached_property
    def empty(self) -> xr.Dataset:
        """The result with no trials.

        Raises:
            ValueError: If two recorders record the same variable, their dimensions conflict, or one
                does not fit the domain.
        """
        domain, rounds = self.world.domain, np.arange(1, self.horizon + 1)
        labels = {"strategy": list(self.strategies), "trial": np.arange(0), "round": rounds}
        empty = xr.Dataset(coords=labels)
        recorded: set[Hashable] = {"study", "first", "made_with"}  # names in files of blocks
        for one in self.recorders:
            own, given = one.variables(domain), one.labels(domain, self.strategies)
            try:
                blank = xr.Dataset()
                for name, variable in own.items():
                    blank = blank.assign(self._blank(name, variable))
                taken = {*blank.variables} & {*empty.variables, *given.variables, *recorded}
                taken |= recorded & {*given.variables}
                require(not taken, f"{', '.join(sorted(map(str, taken)))} is already recorded")
                # xarray reports other conflicts, such as sizes.
                empty = empty.merge(given, compat="no_conflicts", join="exact").merge(blank)
                recorded |= {*blank.variables}
            except (ValueError, TypeError) as error:
                raise ValueError(
                    f"run_study: {one!r} cannot be combined with the other recorders: {error}; "
                    "change its variables or labels, or leave it out."
                ) from error
        return empty

    def _blank(
        self, name: str, variable: Variable
    ) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """The variables of an empty result for one recorded variable."""
        taken = [one for one in variable.sizes if one in DIMENSIONS]
        require(not taken, f"{name} declares {', '.join(taken)}, which every variable has anyway")
        count, shape = len(self.strategies), variable.shape
        if variable.averaged:
            none = ("strategy", *variable.sizes), np.full((count, *shape), np.nan)
            return {name: none, error_of(name): none}
        kind = variable.dtype or _name(self.dtype)
        require(
            isinstance(getattr(torch, kind, None), torch.dtype),
            f"{name} has dtype {kind!r}; give one that PyTorch and NumPy know, such as 'int32'",
        )
        return {
            name: ((*DIMENSIONS, *variable.sizes), np.empty((count, 0, self.horizon, *shape), kind))
        }

    @property
    def every_round(self) -> dict[str, Variable]:
        """The variables retained for every round of every trial."""
        return {name: one for name, one in self.variables.items() if not one.averaged}

    @property
    def averaged(self) -> dict[str, Variable]:
        """The variables averaged over rounds and trials."""
        return {name: one for name, one in self.variables.items() if one.averaged}

    def shapes(self, trials: int) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        """Shapes and types of the variables of one strategy in some trials.

        Averages are over these trials, and come with their scatter over trials.
        """
        found: dict[str, tuple[tuple[int, ...], np.dtype]] = {}
        for name, one in self.variables.items():
            kind = self.empty[name].dtype
            if one.averaged:
                found |= {each: (one.shape, kind) for each in (name, scatter_of(name))}
            else:
                found[name] = (trials, self.horizon, *one.shape), kind
        return found

    def bytes_of(self, trials: int) -> int:
        """Size of the records of one strategy in some trials, in memory or in a file."""
        return sum(math.prod(shape) * kind.itemsize for shape, kind in self.shapes(trials).values())

    # ------------------------------------------------------------ what is played

    def states(self, labels: Iterable[str]) -> dict[str, State]:
        """A state of some strategies by label; made once, because it evaluates kernels.

        Raises:
            ValueError: If single precision is too coarse for this many rounds.
        """
        with BEGINNING:
            for label in labels:
                if label not in self._states:
                    strategy = self.strategies[label]
                    state = strategy.init(self.world.domain, dtype=self.dtype, device=self.device)
                    require_precision(label, strategy, state, self.horizon)
                    self._states[label] = state
            return {label: self._states[label] for label in labels}

    def known(self, labels: Iterable[str]) -> dict[str, Compilable]:
        """Those of some strategies whose rounds are compiled, or captured as CUDA graphs."""
        if not self.compiled or self.record:  # recorders need the states of every round
            return {}
        found = {}
        with BEGINNING:
            for label, state in self.states(labels).items():
                if label not in self._known:
                    strategy = self.strategies[label]
                    self._known[label] = known(self.world, strategy, state, self.horizon)
                if (one := self._known[label]) is not None:
                    found[label] = one
        return found

    def outgrown(self, label: str) -> None:
        """Play a strategy without compiling it from here on."""
        self._known[label] = None

    def stream(self, purpose: str, block: range, *, spread: float = 1.0) -> Stream:
        """Random numbers for one purpose and the trials of a block."""
        return Stream(
            self.seed,
            purpose,
            block.start,
            len(block),
            dtype=self.dtype,
            device=self.device,
            spread=spread,
        )

    def errors(self, block: range) -> Stream:
        """The observation noise of the trials of a block."""
        return self.stream("noise", block, spread=math.sqrt(self.world.noise))

    @property
    def maximize(self) -> bool:
        """Whether the strategies, all alike, maximise."""
        return next(iter(self.strategies.values())).maximize

    # ------------------------------------------------------------ what it is

    def description(self) -> dict[str, Description]:
        """All settings as JSON. Studies with equal descriptions have the same trials."""
        recorders = sorted((describe(one, "record") for one in self.record), key=json.dumps)
        kinds = [one["type"].rpartition(".")[2] for one in recorders]
        numbers = [kinds[: place + 1].count(kind) for place, kind in enumerate(kinds)]
        return {
            "world": describe(self.world, "world"),
            "horizon": self.horizon,
            "seed": self.seed,
            "dtype": _name(self.dtype),
            "device": self.device.type,
            "record": {
                kind if number == 1 else f"{kind} ({number})": one
                for kind, number, one in zip(kinds, numbers, recorders)
            },
            "botorch_tv": libraries()["botorch_tv"],
            "strategies": {
                label: describe(one, f"strategies.{label}")
                for label, one in self.strategies.items()
            },
        }

    def attributes(self) -> dict[str, str | int | float]:
        """The attributes of a result."""
        try:
            world = json.dumps(describe(self.world, "world"))
        except ValueError:  # it cannot be described, nor be resumed
            world = ""
        # Without what a file cannot hold: NUL, and characters without UTF-8 encoding.
        shown = repr(self.world).replace("\0", "\\0").encode(errors="backslashreplace").decode()
        device = self.device.type
        if device == "cuda" and _is_here(self.device):
            device = torch.cuda.get_device_name(self.device)
        return {
            "seed": self.seed,
            "horizon": self.horizon,
            "noise": float(self.world.noise),
            "world": shown,
            "world_description": world,
            "draws": DRAWS,
            "goal": "the largest value" if self.maximize else "the smallest value",
            "strategies": json.dumps({label: repr(one) for label, one in self.strategies.items()}),
            "device": device,
            "dtype": _name(self.dtype),
            **libraries(),
        }


def scatter_of(name: str) -> str:
    """Name of the sum of squared deviations of an average; blocks have it, results do not."""
    return f"{name}_scatter"


def error_of(name: str) -> str:
    """Name of the standard error of an average."""
    return f"{name}_standard_error"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def require_precision(label: str, strategy: Strategy, state: State, horizon: int) -> None:
    """Raise a ``ValueError`` if rounding would exceed the information in late observations."""
    inference = strategy.inference_for(state.domain, state.basis)
    retained, most = (
        inference.process.most_retained(horizon),
        precise_rounds(inference, state.basis),
    )
    require(
        retained <= most,
        f"run_study: {label!r} may retain {retained:,} observations of an objective assumed to "
        f"be static, but in float32 rounding errors outweigh what it learns beyond {most:,.0f}; "
        "give dtype=torch.float64, fewer rounds, or a strategy that forgets.",
    )


# ---------------------------------------------------------------- devices and memory


def usable_device(device: torch.device | str, *, elsewhere: bool = False) -> torch.device:
    """The device of this name.

    Args:
        device: A device or its name, such as ``"cpu"`` or ``"cuda:1"``.
        elsewhere: Whether another machine may have it.

    Raises:
        ValueError: If PyTorch knows no such device, or this machine has none.
    """
    try:
        place = torch.device(device)
    except RuntimeError as error:
        raise ValueError(
            f"device is {device!r}, but PyTorch knows no such device; give 'cpu' or 'cuda'."
        ) from error
    require(
        elsewhere or _is_here(place),
        f"device is '{place}', but PyTorch sees {torch.cuda.device_count()} CUDA devices; give "
        "'cpu', or install PyTorch with CUDA on a machine with a GPU.",
    )
    return place


def device_of_worker(device: torch.device, number: int) -> torch.device:
    """The device of this machine for one task; tasks are spread over several GPUs in turn.

    Args:
        device: The device of the study; ``"cuda"`` stands for any GPU.
        number: Number of the task.

    Raises:
        ValueError: If this machine has no such device.
    """
    place = usable_device(device)
    if place.type == "cuda" and place.index is None:
        return torch.device("cuda", number % torch.cuda.device_count())
    return place


def _is_here(device: torch.device) -> bool:
    return device.type != "cuda" or (device.index or 0) < torch.cuda.device_count()


def chunk_size(settings: StudySettings, *, trials: int, workers: int) -> int:
    """Number of trials that run together.

    Args:
        settings: The study.
        trials: Trials of the whole study.
        workers: Blocks that run in parallel.

    Returns:
        As many trials as memory allows, but few enough to keep all workers busy.

    Raises:
        ValueError: If memory cannot hold a single trial.
    """
    if not _is_here(settings.device):  # without the device of its workers, as if they had none
        settings = replace(settings, device=torch.device("cpu"))
    states, horizon = settings.states(settings.strategies), settings.horizon
    graphs = settings.known(states) if settings.device.type == "cuda" else {}
    variance = next(iter(states.values())).basis.variance
    rounds, averages = (
        sum(math.prod(one.shape) for one in some.values())
        for some in (settings.every_round, settings.averaged)
    )

    def needed(together: int) -> int:
        """Bytes for this many trials together."""
        held = (horizon * rounds + averages) * len(states)
        for label, state in states.items():
            if label in graphs:
                held += numbers_per_trial(graphs[label], horizon)
            else:
                held += settings.strategies[label].numbers_per_trial(state, horizon, together)
        return together * held * variance.element_size()

    free, single = free_bytes(variance.device), needed(1)
    require(
        single <= free,
        f"run_study: a single trial of {horizon:,} rounds takes {bytes_text(single)}, but only "
        f"{bytes_text(free)} of memory are free on {variance.device}; use fewer arms, rounds "
        "or strategies.",
    )
    share = max(-(-trials // workers), -(-BUSY_NUMBERS // _breadth(settings.world.domain)))
    most = min(share, trials)
    if variance.device.type == "cpu":
        most = min(most, MOST_TRIALS)
    room = MEMORY_SHARE * free / workers
    return max(1, bisect_right(range(1, most + 1), room, key=needed))


def threads_per_chunk(settings: StudySettings, chunk: int, *, trials: int, workers: int) -> int:
    """PyTorch threads for each block: one where operations are small, or several run at once."""
    if chunk * _breadth(settings.world.domain) < BUSY_NUMBERS:
        return 1  # small operations cost more to share than to compute
    return max(1, torch.get_num_threads() // min(workers, -(-trials // chunk)))


def _breadth(domain: Domain) -> int:
    """Numbers per trial in a typical operation: the arms, or the points of a box scored at once."""
    return len(domain) if isinstance(domain, Grid) else BOX_POINTS


def fits_memory(settings: StudySettings, trials: int, *, lasting: bool) -> bool:
    """Whether the result of a study fits into memory.

    Args:
        settings: The study.
        trials: Number of trials.
        lasting: Whether the result may stay in a folder instead.

    Raises:
        ValueError: If it does not fit, and there is no folder.
    """
    result = len(settings.strategies) * settings.bytes_of(trials)
    free = free_bytes(torch.device("cpu"))
    fits = result <= MEMORY_SHARE * free
    require(
        fits or lasting,
        f"run_study: results of {len(settings.strategies)} strategies x {trials:,} trials x "
        f"{settings.horizon:,} rounds take {bytes_text(result)}, more than {MEMORY_SHARE:.0%} "
        f"of the {bytes_text(free)} of memory that are free; give save_to=FOLDER (--save-to on "
        "the command line) to keep them on disk, or at most "
        f"trials={max(1, int(MEMORY_SHARE * trials * free / result)):,}.",
    )
    return fits
