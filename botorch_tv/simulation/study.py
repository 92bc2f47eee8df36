"""Regret studies: many strategies on the same worlds and the same noise, thousands of trials."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple, Never

import torch
import xarray as xr

from botorch_tv.identity.versions import together
from botorch_tv.simulation.assembly import in_file, in_memory
from botorch_tv.simulation.checks import check_study, require_recorders
from botorch_tv.simulation.cut import Cut, choose_cut
from botorch_tv.simulation.devices import is_here, named_device, usable_device
from botorch_tv.simulation.executors import Executor, require_executor
from botorch_tv.simulation.folder import discard_results, require_disk, result_file
from botorch_tv.simulation.line_ups import open_line_ups
from botorch_tv.simulation.memory import fits_memory
from botorch_tv.simulation.recorders.recorder import Recorder
from botorch_tv.simulation.result import StudyResult
from botorch_tv.simulation.rules import require_compiled
from botorch_tv.simulation.runner import Runner, find_all
from botorch_tv.simulation.settings import StudySettings
from botorch_tv.simulation.worlds import World
from botorch_tv.strategies.core import Strategy
from botorch_tv.validation import as_path, refuse_unknown, require_integer

OTHER_NAMES = {
    **dict.fromkeys(("rounds", "T", "steps", "n_rounds"), "Give horizon=, the rounds per trial."),
    **dict.fromkeys(("runs", "repeats", "repetitions", "seeds"), "Give trials=, worlds drawn."),
    **dict.fromkeys(("jobs", "n_jobs", "threads"), "Give workers=, chunks computed in parallel."),
}
"""What to give instead of names that arguments have elsewhere."""
WORKERS_ELSEWHERE = 16
"""Workers that trials are dealt out to by an executor, which does not say how many it has."""


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
    **unknown: Never,
) -> StudyResult:
    """Run every strategy on the same worlds with the same noise.

    With ``save_to`` every finished chunk of trials is saved. After an interruption of any kind the
    same call resumes the study: saved chunks are read back bit by bit, and the other trials make
    the choices that they would have made. Their numbers agree up to rounding, which depends on the
    number of threads, ``chunk``, processor and device. More ``trials`` extend the study, fewer
    return the first ones. Added strategies are computed alone; omitted ones are named in a warning
    and stay in the folder. Several processes may run the same study in the same folder and share
    the work. A killed process loses the chunks in progress, so a smaller ``chunk`` loses less.

    The identity of a study includes the code of your own worlds, kernels and rules and whatever
    that refers to by name. Attributes and mutable globals whose name begins with an underscore do
    not count, so caches and counters are ignored; constructor arguments stored under such a name
    do count.

    Results larger than half of the free memory need ``save_to``: they stay in a file in that
    folder, and everything asked of the result is computed from a few trials at a time.

    With an ``executor`` chunks are tasks of its workers, on this machine or others. Tasks are
    pickled, draw random numbers by trial, and compute on a device of the worker; results equal
    those of a single process. Workers that can see the folder ``save_to`` save their chunks there
    themselves; otherwise they send them back and this process saves them. The executor is left
    open.

    Args:
        world: The distribution of objectives: on a grid, or a :class:`BoxWorld` on a box.
        strategies: Strategies by label; the labels identify them in the result.
        trials: Number of worlds drawn.
        horizon: Rounds T per trial.
        seed: Seed; a trial depends only on the seed and its own number.
        device: Where to compute; the domain's device by default.
        dtype: float64 or float32; the latter is refused for so many rounds that rounding errors
            would outweigh what is learned.
        chunk: Trials that run together; by default as found in ``save_to``, or from free memory.
            Choices do not depend on it; on a box they agree up to rounding, which gradient ascent
            and learned hyperparameters may amplify over many rounds.
        workers: Chunks computed in parallel; by default the number of PyTorch's threads on a CPU,
            else 1. Choices do not depend on it. With an ``executor``, the number of workers that
            trials are distributed over, by default 16 or more.
        save_to: Folder for finished chunks, created if missing.
        record: What to record besides regret, resets, side queries and choices: ``Diagnosis()``,
            ``PredictionError()``, or your own :class:`Recorder`. If averages are recorded, asking
            for fewer trials than ``save_to`` holds recomputes part of them.
        executor: Whose workers compute; this process by default. Anything with
            ``submit(function, *arguments)`` that returns an object with ``result()``, such as a
            ``ProcessPoolExecutor``; its ``batch()`` is used if it has one.
        compiled: Whether rounds on a grid run as machine code compiled by Numba
            (``pip install 'botorch-tv[fast]'``): 2 to 4 times as fast, with the same choices, after
            some ten seconds of compilation. Supports upper confidence bounds, noise that does not
            age, and one rule of retention, in float64 on a CPU, without recorders; other strategies
            run as usual. By default it is used if Numba is installed and the study is large enough
            to benefit. On a CUDA device True captures the rounds of the same strategies as CUDA
            graphs, which Python launches as a whole instead of operation by operation; if that
            fails, a warning is issued and the study runs without it. This has not yet been timed on
            a GPU, so it is off there by default.
        progress: Whether to show a progress bar; in a log file it is one line a minute.
        unknown: Rejected, with the likely name if misspelt.

    Returns:
        Regret, resets and choices of every strategy, trial and round. Choices are arm indices,
        ``index``, on a grid, and points, ``X`` with a dimension ``coordinate``, on a box. If the
        strategies minimise, regret is f_t(x_t) - min f_t.

    Raises:
        ImportError: If ``compiled`` is True on a CPU and Numba is not installed.
        ValueError: If ``world`` is not a world, ``strategies`` is not a mapping of labels to at
            least one strategy, a size is below 1, strategies differ in ``maximize`` or contradict
            the world, the world has fewer rounds than ``horizon`` or yields values that are not one
            per trial and arm, recorders do not fit the domain or each other, the device does not
            exist, memory cannot hold a single trial or the result without ``save_to``, or the
            folder holds another study or a damaged one.
        OSError: If ``save_to`` cannot be read or written; finished chunks stay intact.
        RuntimeError: If a worker of ``executor`` has other versions of libraries.
        TypeError: If there is no such argument.
        Exception: Any raised by a worker, or by the executor when it lost one, with a note on what
            happened and what to do; finished chunks are kept.
    """
    refuse_unknown("run_study", unknown, run_study, OTHER_NAMES)
    trials, horizon, seed = check_study(world, strategies, trials, horizon, seed)
    place = _place_of(world, device, executor)
    workers = _number_of(workers, place, executor)
    if chunk is not None:
        chunk = require_integer("run_study: chunk", chunk, 1, "give the trials that run together.")
    began = time.perf_counter()
    recorders = require_recorders(record)
    compiles = require_compiled(compiled, world, trials * horizon * len(strategies), place)
    settings = StudySettings(
        world, strategies, horizon, seed, dtype, place, recorders, compiled=compiles
    )
    fix = "give the name of a folder, or None."
    folder = None if save_to is None else as_path("run_study: save_to", save_to, fix)
    runner = Runner(trials, workers, progress, _on_disk(settings, trials, folder), executor)
    new_cut = partial(_new_cut, settings, runner, chunk, lasting=folder is not None)
    if folder is None:
        whole = _played(runner, settings, new_cut())
    else:
        whole = _gone_on(runner, settings, folder, new_cut, chunk)
    attributes = {
        "trials": trials,
        "trials_found": whole.found,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": time.perf_counter() - began,
    }
    return StudyResult(
        whole.data.assign_attrs(settings.attributes() | whole.made_with | attributes)
    )


def _place_of(
    world: World, device: torch.device | str | None, executor: Executor | None
) -> torch.device:
    """Where rounds are computed, which is looked for here unless somebody else's worker does."""
    require_executor(executor)
    place = named_device(world.domain.device if device is None else device)
    if executor is None:
        usable_device(place)
    return place


def _number_of(workers: int | None, place: torch.device, executor: Executor | None) -> int:
    """How many chunks are computed side by side."""
    if workers is None:
        threads = torch.get_num_threads()
        workers = threads if place.type == "cpu" else 1
        if executor is not None:
            workers = max(threads, WORKERS_ELSEWHERE)
    return require_integer(
        "run_study: workers", workers, 1, "give the chunks computed side by side."
    )


def _on_disk(settings: StudySettings, trials: int, folder: Path | None) -> int:
    """Bytes of the result if memory does not hold it, so that it stays in a file; else 0.

    Raises:
        ValueError: If there is no folder for it, or no room there.
    """
    if fits_memory(settings, trials, lasting=folder is not None):
        return 0
    size = settings.layout.bytes_of(trials)
    if folder is not None:
        require_disk(folder, size)
    return size


def _new_cut(settings: StudySettings, runner: Runner, chunk: int | None, *, lasting: bool) -> Cut:
    """How trials that nobody has played are cut into chunks."""
    # Without the device of its workers, this machine chooses as if they had none.
    planned = (
        settings if is_here(settings.device) else replace(settings, device=torch.device("cpu"))
    )
    return choose_cut(
        planned, trials=runner.trials, chunk=chunk, workers=runner.workers, lasting=lasting
    )


class _Whole(NamedTuple):
    """All trials of a study."""

    data: xr.Dataset
    found: int
    """How many were found finished."""
    made_with: dict[str, str]
    """Versions of the libraries that computed them."""


def _played(runner: Runner, settings: StudySettings, cut: Cut) -> _Whole:
    """Let all strategies play, and keep nothing but the result."""
    with in_memory(settings.layout, runner.trials) as assembly:
        found = runner.play(settings, cut, assembly.taker(list(settings.strategies)))
    return _Whole(assembly.data, found, together(map(json.loads, sorted(runner.made_with))))


def _gone_on(
    runner: Runner,
    settings: StudySettings,
    folder: Path,
    new_cut: Callable[[], Cut],
    chunk: int | None,
) -> _Whole:
    """Let all strategies play that a folder does not hold.

    Args:
        runner: Plays.
        settings: The study.
        folder: Where it is kept.
        new_cut: How trials are cut that it does not hold.
        chunk: Trials that are to run together, if that was said.
    """
    description, layout, trials = settings.description(), settings.layout, runner.trials
    line_ups = open_line_ups(folder, description, new_cut, layout=layout, chunk=chunk)
    file = result_file(folder, description, trials) if runner.besides else None
    found, made_with = trials, []
    with in_memory(layout, trials) if file is None else in_file(layout, trials, file) as assembly:
        for one in line_ups:
            cut, take = one.folder.cut, assembly.taker(one.kept)
            if one.left_out:
                find_all(one, cut.chunks(trials), take)
            else:
                found = min(found, runner.play(settings.of(one.kept), cut, take, one.folder))
            made_with.append(one.folder.versions())
    if file is not None:
        discard_results(folder, but=file)
    return _Whole(assembly.data, found, together(made_with))
