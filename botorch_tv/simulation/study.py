"""Regret studies: many strategies on the same objectives with the same noise, in many trials."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import torch

from botorch_tv.hints import hinted
from botorch_tv.memory import torch_threads
from botorch_tv.simulation.executors import Executor, Task, play_elsewhere, play_here
from botorch_tv.simulation.recorders import Recorder
from botorch_tv.simulation.result import StudyResult
from botorch_tv.simulation.rounds import Progress, progress_bar
from botorch_tv.simulation.rules import require_compiled
from botorch_tv.simulation.settings import (
    Arrays,
    StudySettings,
    chunk_size,
    fits_memory,
    threads_per_chunk,
    usable_device,
)
from botorch_tv.simulation.store import Gathered, Store
from botorch_tv.simulation.worlds import World
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.validation import require, require_integer

WORKERS_ELSEWHERE = 16
"""Number of workers that an executor is assumed to have; executors do not report this number."""


@hinted
def run_study(
    world: World,
    strategies: Mapping[str, Strategy],
    *,
    trials: int = 50,
    horizon: int = 400,
    seed: int = 0,
    device: torch.device | str | None = None,
    dtype: torch.dtype = torch.float64,
    chunk: int | None = None,
    workers: int | None = None,
    save_to: str | os.PathLike[str] | None = None,
    record: Sequence[Recorder] = (),
    executor: Executor | None = None,
    compiled: bool | None = None,
    progress: bool = True,
) -> StudyResult:
    """Run every strategy on the same objectives, drawn from a world, with the same noise.

    With ``save_to``, every finished block of trials of a strategy is immediately written to a file.
    After an interruption of any kind, the same call of ``run_study`` resumes the study. The
    repeated call reads the saved blocks unchanged; in the remaining trials, strategies make the
    same choices as in a study without interruption. Numbers that the repeated call computes may
    differ by rounding, which depends on the number of threads, ``chunk``, processor and device. A
    call with more ``trials`` extends the study; a call with fewer ``trials`` returns the first
    trials. If a call adds strategies, only the added strategies are computed. If a call omits
    strategies, a warning names these strategies, and their files stay in the folder. Several
    processes may run the same study in the same folder and share the work. If a process is killed,
    the blocks in progress are lost; if ``chunk`` is smaller, fewer trials are lost.

    The identity of a study consists of its settings, the version of this package, the version of
    PyTorch without its patch number, the source of your own worlds, kernels and rules, and
    everything that this source refers to by name. Comments and docstrings do not count. Code
    without source, as in ``python -c``, counts as compiled. The identity ignores attributes and
    mutable globals whose names begin with an underscore, because they may be caches or counters.
    The identity includes every constructor argument, even if an attribute with a leading underscore
    stores the argument. Other versions of libraries are recorded, and a warning names them.

    If a result is larger than half of the free memory, ``save_to`` is required; the result then
    stays in the files of the folder ``save_to``, and its statistics are computed from a few trials
    at a time.

    With an ``executor``, its workers compute the blocks, on this machine or others. A block is sent
    as a pickled task, and computed on a device of the worker. Random numbers depend on the trial
    and not on the worker, so the results are the same as in a single process. Workers with access
    to the folder ``save_to`` save their blocks in it; workers without access send their blocks to
    this process, which saves them. The executor is not shut down.

    Args:
        world: The distribution of objectives: on a grid, or a :class:`BoxWorld` on a box.
        strategies: The strategies; each key is the label of a strategy in the result.
        trials: Number of trials, each with its own objectives from the world.
        horizon: Number of rounds T in a trial.
        seed: Seed; a trial depends only on the seed and on the number of the trial.
        device: Device of the computation; the domain's device by default.
        dtype: float64 or float32; float32 raises an error if rounding errors would exceed the
            information in late observations.
        chunk: Number of trials that run together; by default the number stored in ``save_to``, or a
            number derived from free memory. Choices on a grid do not depend on ``chunk``. On a box,
            choices depend on ``chunk`` through rounding errors, which gradient ascent and learned
            hyperparameters may amplify over many rounds.
        workers: Number of blocks computed in parallel; by default the number of PyTorch's threads
            on a CPU, and 1 on other devices. Choices do not depend on ``workers``. With an
            ``executor``, ``workers`` is the number of workers over which trials are distributed, by
            default 16 or more.
        save_to: Folder for finished blocks, created if missing.
        record: Recorders of further variables: ``Diagnosis()``, ``PredictionError()``, or your own
            :class:`Recorder`. Regret, resets, side queries and choices are always recorded. If
            averages are recorded, a call with fewer trials than ``save_to`` contains may recompute
            some trials.
        executor: An executor whose workers compute the blocks, such as a ``ProcessPoolExecutor``;
            by default this process computes them. The executor needs a method ``submit(function,
            *arguments)`` that returns an object with a method ``result()``. If the executor also
            has a method ``batch()``, tasks are sent in batches.
        compiled: Whether rounds on a grid run as machine code compiled by Numba (``pip install
            'botorch-tv[fast]'``): 2 to 4 times as fast, with the same choices, after about ten
            seconds of compilation. Compilation on a CPU requires float64 and an empty ``record``. A
            strategy can be compiled if it uses upper confidence bounds and at most one rule of
            retention (reset, trigger or window), and if the noise variance does not grow with the
            age of observations. Strategies that cannot be compiled run without compilation. The
            default on a CPU is True if Numba is installed and the study is large enough to benefit.
            If ``compiled`` is True on a CUDA device, rounds are recorded as CUDA graphs, which
            Python launches as a whole: on an H200, 2 to 3.5 times as fast for up to 512 trials on
            2,500 arms, and up to 1.5 times as slow from 4,096 trials on. There the default is True
            for up to two million trials times arms. CUDA graphs have the same requirements as
            compilation; in addition, the strategy must have no window. If the recording of a CUDA
            graph fails, a warning is issued and the study runs without CUDA graphs.
        progress: Whether to show a progress bar; in a log file, the bar is a new line every minute.

    Returns:
        Regret, resets and choices of every strategy, trial and round. On a grid, choices are
        indices of arms, stored in the variable ``index``. On a box, choices are points, stored in
        the variable ``X`` with the further dimension ``coordinate``. If the strategies minimise,
        regret is f_t(x_t) - min f_t.

    Raises:
        ImportError: If ``compiled`` is True on a CPU and Numba is not installed.
        ValueError: If ``world`` is not a world; if ``strategies`` is not a mapping of labels to at
            least one strategy; if a size is below 1; if strategies differ in ``maximize`` or
            contradict the world; if the world has fewer rounds than ``horizon`` or yields values of
            the wrong shape; if recorders do not fit the domain or each other; if the device does
            not exist; if memory cannot hold a single trial; if memory cannot hold the result and
            ``save_to`` is None; if the folder contains another study or a damaged file.
        OSError: If ``save_to`` cannot be read or written; finished blocks stay intact.
        KeyboardInterrupt: If interrupted; a note states what is finished and how to resume.
        RuntimeError: If a worker of ``executor`` has another version of this package or of PyTorch
            than this process.
        Exception: Any error of a worker, and any error of an executor, such as a lost worker. If
            the executor raises an error, a note on this error states how to continue. Finished
            blocks stay intact.
    """
    began = time.perf_counter()
    trials, horizon, seed, chunk = _check_study(world, strategies, trials, horizon, seed, chunk)
    place = world.domain.device if device is None else device
    place = usable_device(place, remote=executor is not None)
    workers = _workers(workers, place, executor)
    folder = None if save_to is None else Path(save_to)
    compiles = require_compiled(compiled, world, trials, trials * horizon * len(strategies), place)
    settings = StudySettings(
        world, strategies, horizon, seed, dtype, place, tuple(record), compiled=compiles
    )
    in_memory = fits_memory(settings, trials, lasting=folder is not None)
    size = partial(chunk_size, settings, trials=trials, workers=workers)
    store = None if folder is None else Store(folder, settings, chunk, size)
    chunk = (chunk or size()) if store is None else store.chunk
    whole = Gathered(settings, trials, None if in_memory else store)
    tasks: list[Task] = []
    for first in range(0, trials, chunk):
        block = range(first, min(first + chunk, trials))
        found = {} if store is None else store.find(strategies, block, warn=True)
        for label, arrays in found.items():
            whole.take(label, block, arrays)
        if missing := [label for label in strategies if label not in found]:
            tasks.append((missing, block))
    finished = whole.finished()
    if store is not None:
        store.require_space(
            sum(len(labels) * settings.bytes_of(len(block)) for labels, block in tasks)
        )
    threads = threads_per_chunk(settings, chunk, trials=trials, workers=workers)
    with torch_threads(threads), progress_bar(trials, finished, shown=progress) as bar:

        def take(label: str, block: range, arrays: Arrays) -> None:
            whole.take(label, block, arrays)
            bar.update(whole.finished() - bar.n)

        try:
            if executor is None:
                counted = Progress(bar, horizon, finished)
                play_here(settings, store, tasks, whole.take, workers, counted)
            else:
                play_elsewhere(executor, settings, store, tasks, take, threads)
        except KeyboardInterrupt as error:
            text = "but lost: only a study with save_to=FOLDER (--save-to FOLDER) can be resumed."
            if folder is not None:
                text = f"and saved in {folder}; run the same study again to resume it."
            count = f"{whole.finished()} of {trials} trials are finished, in blocks of {chunk}, "
            error.add_note(count + text)
            raise
    attributes = {
        "trials": trials,
        "trials_found": finished,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": time.perf_counter() - began,
    }
    made_with = _joined(whole.made_with)
    return StudyResult(whole.dataset().assign_attrs(settings.attributes() | made_with | attributes))


def _joined(made_with: set[str]) -> dict[str, str]:
    """The versions of the libraries that computed a study, with a warning if they differ."""
    versions: dict[str, dict[str, None]] = {}
    for libraries in map(json.loads, sorted(made_with)):
        for name, version in libraries.items():
            versions.setdefault(name, {})[version] = None
    found = {name: ", ".join(every) for name, every in versions.items()}
    if len(made_with) > 1:
        several = ", ".join(
            f"{name} {version}" for name, version in found.items() if ", " in version
        )
        warnings.warn(
            f"The study has trials computed with different versions: {several}. Results may "
            "differ; use another folder for a study with a single version.",
            stacklevel=4,
        )
    return found


def _workers(workers: int | None, place: torch.device, executor: Executor | None) -> int:
    """The number of blocks that are computed in parallel."""
    if workers is not None:
        return require_integer("run_study: workers", workers, 1, "it is a number of blocks.")
    if executor is not None:
        return max(torch.get_num_threads(), WORKERS_ELSEWHERE)
    return torch.get_num_threads() if place.type == "cpu" else 1


def _check_study(
    world: World,
    strategies: Mapping[str, Strategy],
    trials: int,
    horizon: int,
    seed: int,
    chunk: int | None,
) -> tuple[int, int, int, int | None]:
    """Check the arguments of ``run_study``.

    Returns:
        Trials, horizon, seed and chunk as whole numbers.
    """
    require(isinstance(world, World), f"run_study: world is {world!r}; give a world to play in.")
    require(
        isinstance(strategies, Mapping) and len(strategies) > 0,
        f"run_study: strategies is {strategies!r}; give a dict of labels and at least one "
        "strategy.",
    )
    for label, strategy in strategies.items():
        require(
            isinstance(label, str) and label.isprintable() and label.strip() != "",
            f"run_study: the label {label!r} cannot be printed or stored in a file; give text.",
        )
        fault = f"run_study: {label!r} is {strategy!r}; give a strategy, such as adaptive_gp_ucb()."
        require(isinstance(strategy, Strategy), fault)
    trials = require_integer("run_study: trials", trials, 1, "it is the number of worlds drawn.")
    seed = require_integer("run_study: seed", seed, 0, "give a seed of 0 or more.")
    horizon = require_integer("run_study: horizon", horizon, 1, "give the number of rounds.")
    if chunk is not None:
        chunk = require_integer("run_study: chunk", chunk, 1, "it is the size of a block.")
    require(
        world.horizon is None or horizon <= world.horizon,
        f"run_study: horizon is {horizon}, but {world!r} has {world.horizon} rounds; give "
        f"horizon={world.horizon} or less.",
    )
    minimising = [label for label, strategy in strategies.items() if not strategy.maximize]
    require(
        len(minimising) in (0, len(strategies)),
        f"run_study: maximize is False for {', '.join(minimising)} and True for the other "
        "strategies, but regret needs a common goal; give all strategies the same maximize.",
    )
    require(
        world.maximize in (None, not minimising),
        f"run_study: maximize is {not minimising} for the strategies, but {world!r} is to be "
        f"{'maximised' if world.maximize else 'minimised'}; give strategies "
        f"maximize={world.maximize}, or construct the problem with the opposite negate=.",
    )
    return trials, horizon, seed, chunk
