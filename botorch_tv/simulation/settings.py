"""The settings of a study, its recorded variables, and the number of trials that run together."""

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
from botorch_tv.identity import Description, describe, study_versions
from botorch_tv.memory import bytes_text, free_bytes
from botorch_tv.simulation.recorders import Play, Recorder, Variable
from botorch_tv.simulation.rules import Compilable, compilable, numbers_per_trial
from botorch_tv.simulation.streams import DRAWS, Stream
from botorch_tv.simulation.worlds import World
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.strategies.process_strategy import Composed, ProcessStrategy
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import State
from botorch_tv.validation import require

Arrays = dict[str, np.ndarray]
"""The recorded variables of a strategy in a block of trials, by name. An array has the shape
`trials x horizon`, followed by the sizes of the variable in a round. The array of an average has
only these sizes; another array has its scatter over trials."""
DIMENSIONS = ("strategy", "trial", "round")
MEMORY_SHARE = 0.5
"""Share of the free memory that the blocks of a study may use; the rest is for results and
temporary arrays."""
MOST_TRIALS = 512
"""Largest number of trials that run together on a CPU; larger blocks need more memory and are no
faster."""
BUSY_NUMBERS = 2**15
"""Smallest product of trials and arms that keeps a core busy. For smaller products the launch of an
operation takes longer than the operation, and Python launches operations one after another."""
BOX_POINTS = 512
"""Number of points of a box that the default search scores at once."""
BEGINNING = threading.RLock()
"""Lock held during kernel evaluations, because all threads share the settings of GPyTorch."""


@dataclass(frozen=True)
class StudySettings:
    """The arguments of ``run_study`` that determine the trials of a study.

    A block of trials is represented by the range of the numbers of its trials.
    """

    world: World
    strategies: Mapping[str, Strategy]
    horizon: int
    seed: int
    dtype: torch.dtype
    device: torch.device
    record: Sequence[Recorder] = ()
    compiled: bool = False
    """Whether to compile or capture rounds if possible; the choices of arms are the same."""
    _states: dict[str, State] = field(default_factory=dict, init=False, repr=False, compare=False)
    _compilable: dict[str, Compilable | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __getstate__(self) -> dict[str, object]:
        """The settings without cached states and tables, which every worker computes itself."""
        given = {
            setting.name: getattr(self, setting.name) for setting in fields(self) if setting.init
        }
        return {**given, "_states": {}, "_compilable": {}}

    # ------------------------------------------------------------ recorded variables

    @property
    def recorders(self) -> tuple[Recorder, ...]:
        """All recorders, :class:`Play` first."""
        return (Play(), *self.record)

    @cached_property
    def variables(self) -> dict[str, Variable]:
        """The recorded variables by name."""
        domain = self.world.domain
        return {
            name: v for recorder in self.recorders for name, v in recorder.variables(domain).items()
        }

    @cached_property
    def empty(self) -> xr.Dataset:
        """An empty dataset for the result, with all variables but no trials.

        Raises:
            ValueError: If two recorders record the same variable, if two recorders use different
                sizes or coordinates for the same dimension, or if a recorder does not fit the
                domain.
        """
        domain, rounds = self.world.domain, np.arange(1, self.horizon + 1)
        labels = {"strategy": list(self.strategies), "trial": np.arange(0), "round": rounds}
        empty = xr.Dataset(coords=labels)
        recorded: set[Hashable] = {"study", "first", "made_with"}  # names used in files of blocks
        for recorder in self.recorders:
            own, given = recorder.variables(domain), recorder.labels(domain, self.strategies)
            try:
                blank = xr.Dataset()
                for name, variable in own.items():
                    blank = blank.assign(self._blank(name, variable))
                taken = {*blank.variables} & {*empty.variables, *given.variables, *recorded}
                taken |= recorded & {*given.variables}
                require(not taken, f"{', '.join(sorted(map(str, taken)))} is already recorded")
                # xarray itself raises errors for conflicting sizes and coordinates.
                empty = empty.merge(given, compat="no_conflicts", join="exact").merge(blank)
                recorded |= {*blank.variables}
            except (ValueError, TypeError) as error:
                raise ValueError(
                    f"run_study: {recorder!r} cannot be combined with the other recorders: "
                    f"{error}; change its variables or labels, or remove it from record."
                ) from error
        return empty

    def _blank(
        self, name: str, variable: Variable
    ) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """The empty arrays in which a result will store a recorded variable, by name."""
        taken = [size for size in variable.sizes if size in DIMENSIONS]
        require(not taken, f"{name} declares {', '.join(taken)}, which every variable has already")
        count, shape = len(self.strategies), variable.shape
        if variable.averaged:
            none = ("strategy", *variable.sizes), np.full((count, *shape), np.nan)
            return {name: none, error_of(name): none}
        kind = variable.dtype or _name(self.dtype)
        require(
            isinstance(getattr(torch, kind, None), torch.dtype),
            f"{name} has dtype {kind!r}; give a type of PyTorch and NumPy, such as 'int32'",
        )
        return {
            name: ((*DIMENSIONS, *variable.sizes), np.empty((count, 0, self.horizon, *shape), kind))
        }

    @property
    def every_round(self) -> dict[str, Variable]:
        """The variables that are stored for every round of every trial, by name."""
        return {
            name: variable for name, variable in self.variables.items() if not variable.averaged
        }

    @property
    def averaged(self) -> dict[str, Variable]:
        """The variables that are stored only as a mean over rounds and trials, by name."""
        return {name: variable for name, variable in self.variables.items() if variable.averaged}

    def shapes(self, trials: int) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        """Shape and type of each variable recorded for one strategy in ``trials`` trials.

        For each averaged variable, two variables are stored: the mean over trials, and the scatter
        (sum of squared deviations from the mean).
        """
        found: dict[str, tuple[tuple[int, ...], np.dtype]] = {}
        for name, variable in self.variables.items():
            kind = self.empty[name].dtype
            if variable.averaged:
                found |= {each: (variable.shape, kind) for each in (name, scatter_of(name))}
            else:
                found[name] = (trials, self.horizon, *variable.shape), kind
        return found

    def bytes_of(self, trials: int) -> int:
        """Size in bytes of the variables recorded for one strategy in ``trials`` trials."""
        return sum(math.prod(shape) * kind.itemsize for shape, kind in self.shapes(trials).values())

    # ------------------------------------------------------------ states and random numbers

    def states(self, labels: Iterable[str]) -> dict[str, State]:
        """The initial state of each strategy in ``labels``; kernel evaluations are cached.

        Raises:
            ValueError: If float32 is too imprecise for the number of rounds in a trial.
        """
        with BEGINNING:
            for label in labels:
                if label not in self._states:
                    strategy = self.strategies[label]
                    state = strategy.init(self.world.domain, dtype=self.dtype, device=self.device)
                    require_precision(label, strategy, state, self.horizon)
                    self._states[label] = state
            return {label: self._states[label] for label in labels}

    def compilable(self, labels: Iterable[str]) -> dict[str, Compilable]:
        """The strategies among ``labels`` that are compiled or run as CUDA graphs on a GPU."""
        if not self.compiled or self.record:  # recorders need the states of strategies
            return {}
        found = {}
        with BEGINNING:
            for label, state in self.states(labels).items():
                if label not in self._compilable:
                    strategy = self.strategies[label]
                    self._compilable[label] = compilable(self.world, strategy, state, self.horizon)
                if (tables := self._compilable[label]) is not None:
                    found[label] = tables
        return found

    def outgrown(self, label: str) -> None:
        """Play a strategy without compilation from now on."""
        self._compilable[label] = None

    def stream(self, purpose: str, block: range, *, spread: float = 1.0) -> Stream:
        """The random numbers that the trials of a block use for the given purpose."""
        first, trials = block.start, len(block)
        return Stream(
            self.seed, purpose, first, trials, dtype=self.dtype, device=self.device, spread=spread
        )

    def errors(self, block: range) -> Stream:
        """The observation noise in a block of trials."""
        return self.stream("noise", block, spread=math.sqrt(self.world.noise))

    @property
    def maximize(self) -> bool:
        """Whether the strategies maximise; all strategies have the same goal."""
        return next(iter(self.strategies.values())).maximize

    # ------------------------------------------------------------ identity

    def description(self) -> dict[str, Description]:
        """All settings as JSON. Studies with equal descriptions have the same trials."""
        return {
            "world": describe(self.world, "world"),
            "horizon": self.horizon,
            "seed": self.seed,
            "dtype": _name(self.dtype),
            "device": self.device.type,
            "record": sorted((describe(each, "record") for each in self.record), key=json.dumps),
            **study_versions(),
            "strategies": {
                label: describe(strategy, f"strategies.{label}")
                for label, strategy in self.strategies.items()
            },
        }

    def attributes(self) -> dict[str, str | int | float]:
        """The attributes of the result's dataset, such as the seed and the world."""
        try:
            world = json.dumps(describe(self.world, "world"))
        except ValueError:  # without a description of the world, the study cannot be resumed
            world = ""
        # Text in a netCDF file must not contain NUL, or characters without a UTF-8 encoding.
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
            "strategies": json.dumps(
                {label: repr(strategy) for label, strategy in self.strategies.items()}
            ),
            "device": device,
            "dtype": _name(self.dtype),
        }


def scatter_of(name: str) -> str:
    """Name of the sum of squared deviations of an averaged variable; results omit this sum."""
    return f"{name}_scatter"


def error_of(name: str) -> str:
    """Name of the standard error of an averaged variable."""
    return f"{name}_standard_error"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def require_precision(label: str, strategy: Strategy, state: State, horizon: int) -> None:
    """Raise a ``ValueError`` if rounding errors exceed the information in late observations."""
    member = strategy.members[0] if isinstance(strategy, Composed) else strategy
    assert isinstance(member, ProcessStrategy)
    inference = member.inference_for(state.domain, state.basis)
    retained = inference.process.most_retained(horizon)
    most = precise_rounds(inference, state.basis)
    require(
        retained <= most,
        f"run_study: {label!r} may retain {retained:,} observations of a static objective, but "
        f"with more than {most:,.0f} observations, rounding errors in float32 exceed the "
        "information of an observation; give dtype=torch.float64, fewer rounds, or a strategy that "
        "forgets.",
    )


# ---------------------------------------------------------------- devices and memory


def usable_device(device: torch.device | str, *, remote: bool = False) -> torch.device:
    """The device with the given name.

    Args:
        device: A device or its name, such as ``"cpu"`` or ``"cuda:1"``.
        remote: Whether the device may be on another machine.

    Raises:
        ValueError: If PyTorch does not support the device, or if ``remote`` is False and this
            machine does not have the device.
    """
    try:
        place = torch.device(device)
    except RuntimeError as error:
        raise ValueError(
            f"device is {device!r}, but PyTorch has no such device; give 'cpu' or 'cuda'."
        ) from error
    require(
        remote or _is_here(place),
        f"device is '{place}', but PyTorch sees {torch.cuda.device_count()} CUDA devices; give "
        "'cpu', or install PyTorch with CUDA on a machine with a GPU.",
    )
    return place


def device_of_worker(device: torch.device, number: int) -> torch.device:
    """The device for a task on this machine; if there are several GPUs, tasks use them in turn.

    Args:
        device: The device of the study; ``"cuda"`` stands for any GPU.
        number: Number of the task.

    Raises:
        ValueError: If this machine does not have the device.
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
        settings: The settings of the study.
        trials: Number of trials of the whole study.
        workers: Number of blocks that run in parallel.

    Returns:
        A number of trials that fits into memory and is small enough to keep all workers busy.

    Raises:
        ValueError: If memory cannot hold a single trial.
    """
    if not _is_here(settings.device):  # the memory of the workers' device is unknown
        settings = replace(settings, device=torch.device("cpu"))
    states, horizon = settings.states(settings.strategies), settings.horizon
    graphs = settings.compilable(states) if settings.device.type == "cuda" else {}
    variance = next(iter(states.values())).basis.variance
    rounds, averages = (
        sum(math.prod(tensor.shape) for tensor in some.values())
        for some in (settings.every_round, settings.averaged)
    )

    def needed(together: int) -> int:
        """Number of bytes of memory that a block with this many trials needs."""
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
    budget = MEMORY_SHARE * free / workers
    return max(1, bisect_right(range(1, most + 1), budget, key=needed))


def threads_per_chunk(settings: StudySettings, chunk: int, *, trials: int, workers: int) -> int:
    """PyTorch threads for a block: 1 if operations are small, else an equal share of all."""
    if chunk * _breadth(settings.world.domain) < BUSY_NUMBERS:
        return 1  # distributing small operations takes longer than computing them
    return max(1, torch.get_num_threads() // min(workers, -(-trials // chunk)))


def _breadth(domain: Domain) -> int:
    """Values per trial in an operation: number of arms, or of box points scored together."""
    return len(domain) if isinstance(domain, Grid) else BOX_POINTS


def fits_memory(settings: StudySettings, trials: int, *, lasting: bool) -> bool:
    """Whether the result of a study fits into memory.

    Args:
        settings: The settings of the study.
        trials: Number of trials.
        lasting: Whether the study has a folder; if it has a folder, the result need not fit into
            memory.

    Raises:
        ValueError: If the result does not fit into memory and the study has no folder.
    """
    result = len(settings.strategies) * settings.bytes_of(trials)
    free = free_bytes(torch.device("cpu"))
    fits = result <= MEMORY_SHARE * free
    require(
        fits or lasting,
        f"run_study: results of {len(settings.strategies)} strategies x {trials:,} trials x "
        f"{settings.horizon:,} rounds take {bytes_text(result)}, more than {MEMORY_SHARE:.0%} "
        f"of the {bytes_text(free)} of memory that are free; give save_to=FOLDER (--save-to on "
        "the command line) to store them on disk, or at most "
        f"trials={max(1, int(MEMORY_SHARE * trials * free / result)):,}.",
    )
    return fits
