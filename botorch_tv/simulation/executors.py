"""Play the blocks of a study in threads of this process, or in the workers of an executor."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
from tqdm.auto import tqdm

from botorch_tv.files import this_host
from botorch_tv.identity import differences, libraries, study_versions
from botorch_tv.memory import torch_threads
from botorch_tv.simulation.rounds import Progress, play_block, trials_of
from botorch_tv.simulation.settings import Arrays, StudySettings, device_of_worker
from botorch_tv.simulation.store import Store

OWN_NOTE = "run_study: in "
"""Prefix of the notes that are added to errors within a study, but not to errors of the
executor."""
PATIENCE_SECONDS = 600.0
"""Time in seconds after which this process computes a block even if another process is computing
it."""
Blocks = dict[str, Arrays]
"""The blocks of several strategies for the same trials, by the label of the strategy."""
Task = tuple[Sequence[str], range]
"""The labels of some strategies, and the numbers of the trials that they play."""
Take = Callable[[str, range, Arrays], None]
"""A function that receives a finished block: label of the strategy, trials, and variables."""

Job = TypeVar("Job")
Result = TypeVar("Result")


class Future(Protocol):
    """The future of a task; methods ``done()`` and ``cancel()``, as in Python, are optional."""

    def result(self) -> Any:
        """Wait until the function ends; return its result, or raise its error."""


class Executor(Protocol):
    """Runs functions elsewhere, as the executors of ``concurrent.futures`` do.

    An optional method ``batch()`` returns a context manager. Tasks that are submitted within this
    context are sent together.
    """

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future:
        """Schedule a function call."""


# ---------------------------------------------------------------- in this process


def side_by_side(
    work: Callable[[Job, threading.Event], Result], jobs: Sequence[Job], workers: int
) -> list[Result]:
    """Run jobs in parallel, in Python threads.

    Threads suffice, because batched tensor operations release Python's lock. Each thread uses one
    core. If an operation used several cores, the faster cores would have to wait for the slowest
    core.

    Args:
        work: A function that takes a job and a stop event, and returns the result of the job. If
            the stop event is set, the function should return early.
        jobs: The jobs.
        workers: Largest number of jobs that run at the same time.

    Returns:
        The results, in the order of the jobs.

    Raises:
        Exception: The first error of a job. An error or a keyboard interrupt sets the stop event.
    """
    stop = threading.Event()
    if workers == 1 or len(jobs) < 2:
        return [work(job, stop) for job in jobs]
    pool = ThreadPoolExecutor(min(workers, len(jobs)))
    try:
        futures = [pool.submit(work, job, stop) for job in jobs]
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
        return [future.result() for future in futures]
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


def play_here(
    settings: StudySettings,
    store: Store | None,
    tasks: Sequence[Task],
    take: Take,
    workers: int,
    progress: Progress,
) -> None:
    """Play blocks in threads of this process.

    If another process is computing a block, this process computes all other blocks first, and then
    waits for this block. If the other process dies, this process computes the block itself.

    Args:
        settings: The settings of the study.
        store: The folder of finished blocks; None if there is no folder.
        tasks: The blocks to compute.
        take: A function that is called once for each block, in any order and from any thread.
        workers: Largest number of blocks that run in parallel.
        progress: The progress bar, which counts the rounds that are played.
    """

    def work(insist: bool, task: Task, stop: threading.Event) -> bool:
        blocks = _computed(settings, store, *task, insist, progress, stop)
        for label, block in (blocks or {}).items():
            take(label, task[1], block)
        return blocks is not None

    for insist in (False, True):
        done = side_by_side(partial(work, insist), tasks, workers)
        tasks = [task for task, finished in zip(tasks, done) if not finished]


def _computed(
    settings: StudySettings,
    store: Store | None,
    labels: Sequence[str],
    chunk: range,
    insist: bool,
    progress: Progress,
    stop: threading.Event,
) -> Blocks | None:
    """Read or play the blocks of a task; None if stopped, or if another process plays the blocks.

    With ``insist`` the blocks are computed even while another process is computing them.
    """
    patience = PATIENCE_SECONDS if insist else 0.0
    claim = nullcontext(True) if store is None else store.claim(chunk, patience, stop)
    with claim as mine:
        if not (mine or insist):
            return None
        blocks = {} if store is None else store.find(labels, chunk)
        missing = [label for label in labels if label not in blocks]
        if not missing:
            progress.add(len(chunk) * settings.horizon)
            return blocks
        found = play_block(settings, missing, chunk, progress, stop)
        if found is None:
            return None
        made_with = np.array(json.dumps(libraries(), sort_keys=True))
        for label, arrays in found.items():
            blocks[label] = arrays | {"made_with": made_with}
            if store is not None:
                store.save(label, chunk, blocks[label])
        return blocks


# ---------------------------------------------------------------- in workers of an executor


def play_elsewhere(
    executor: Executor,
    settings: StudySettings,
    store: Store | None,
    tasks: Sequence[Task],
    take: Take,
    threads: int,
) -> None:
    """Let the workers of an executor play blocks.

    Workers with access to the folder of the study save their blocks there; these blocks survive the
    death of the calling process. Workers without access to the folder send their blocks to the
    calling process, which saves them.

    Args:
        executor: The executor whose workers play the blocks.
        settings: The settings of the study.
        store: The folder of finished blocks; None if there is no folder.
        tasks: The blocks to compute.
        take: A function that is called once for each block.
        threads: Number of PyTorch threads for each block.

    Raises:
        Exception: The first error of a task or of the executor. If the executor raises an error, a
            note on this error states how to continue. An error or a keyboard interrupt cancels
            pending tasks; finished blocks stay intact.
    """
    versions = study_versions()

    def receive(task: Task, played: Blocks | None) -> bool:
        """Save and pass on the blocks of a task; return whether all blocks are present."""
        labels, chunk = task
        found = {} if store is None else store.find(labels, chunk)
        if store is not None:
            for label in (played or {}).keys() - found.keys():
                store.save(label, chunk, (played or {})[label])
        found = (played or {}) | found
        if len(found) == len(labels):
            for label, block in found.items():
                take(label, chunk, block)
        return len(found) == len(labels)

    for insist in (False, True):  # a second try, because files may appear late
        waiting: list[tuple[Task, Future]] = []
        remaining = []
        try:
            batch = getattr(executor, "batch", nullcontext)
            with _explained(store), batch() if tasks else nullcontext():
                for number, task in enumerate(tasks):
                    own = settings, store, *task, insist, number, threads, versions
                    waiting.append((task, executor.submit(play_task, *own)))
            while waiting:
                # Wait for the first future if no future is done, or if futures have no method
                # done().
                done = next((pair for pair in waiting if _is_done(pair[1])), waiting[0])
                waiting.remove(done)
                task, future = done
                with _explained(store):
                    played = future.result()
                if not receive(task, played):
                    remaining.append(task)
        except BaseException:
            for task, future in waiting:
                with suppress(Exception):  # only the first error is reported
                    if not _is_done(future):
                        future.cancel()  # type: ignore[attr-defined]
                    elif store is not None:
                        receive(task, future.result())
            raise
        tasks = remaining


def play_task(
    settings: StudySettings,
    store: Store | None,
    labels: Sequence[str],
    chunk: range,
    insist: bool,
    number: int,
    threads: int,
    versions: Mapping[str, str],
) -> Blocks | None:
    """Play a block, in a worker.

    Args:
        settings: The settings of the study.
        store: The folder of finished blocks; None if there is no folder.
        labels: The labels of the strategies that are to play.
        chunk: The trial numbers of the block, such as ``range(50, 100)``.
        insist: Whether to compute and return a block even if another process is computing it or has
            saved it.
        number: Number of the task.
        threads: Number of PyTorch threads.
        versions: The versions in the identity of the study, in the calling process.

    Returns:
        The block of every strategy; None if the blocks are in the folder, or another process is
        computing them.

    Raises:
        RuntimeError: If the worker has another version of this package or of PyTorch. A
            ``RuntimeError`` also replaces an error that cannot be pickled.
        Exception: Any error of a world, a strategy or a recorder, with a note on where it occurred.
    """
    with _sendable_errors(chunk):
        if unlike := differences(versions, study_versions()):
            raise RuntimeError(
                f"run_study: a worker on {this_host()} computes another study: "
                f"{'; '.join(unlike)}; install the same versions on all machines."
            )
        if store is not None and not store.is_here():
            store = None
        settings = replace(settings, device=device_of_worker(settings.device, number))
        with torch_threads(threads), tqdm(disable=True) as silent:
            progress, stop = Progress(silent, settings.horizon), threading.Event()
            blocks = _computed(settings, store, labels, chunk, insist, progress, stop)
        return None if store is not None and not insist else blocks


def _is_done(future: Future) -> bool:
    done = getattr(future, "done", None)
    return callable(done) and bool(done())


@contextmanager
def _explained(store: Store | None) -> Iterator[None]:
    """Add advice to errors of the executor, but not to errors within the study."""
    try:
        yield
    except Exception as error:
        # Some executors raise an error of their own whose text contains the worker's error.
        if not any(OWN_NOTE in text for text in (str(error), *getattr(error, "__notes__", ()))):
            advice = "give save_to=FOLDER to save finished trials for another call"
            if store is not None:
                advice = f"finished trials are saved in {store.path} and not played again"
            error.add_note(
                "run_study: no result came back. If a task or its result could not be pickled, "
                "define worlds, strategies, recorders and their functions at the top level of a "
                "module. If a worker was lost, repeat the call, with a new executor if the old "
                f"executor is broken; {advice}."
            )
        raise


@contextmanager
def _sendable_errors(chunk: range) -> Iterator[None]:
    """Add a note on where an error occurred; raise only its text if the error cannot be pickled."""
    try:
        yield
    except Exception as error:
        error.add_note(f"{OWN_NOTE}{trials_of(chunk)}, on {this_host()}.")
        try:  # the constructor of an error may raise anything
            same = pickle.loads(pickle.dumps(error)).__notes__ == error.__notes__
        except Exception:
            same = False
        if same:
            raise
        text = "\n".join([f"{type(error).__name__}: {error}", *error.__notes__])
        raise RuntimeError(text) from error
