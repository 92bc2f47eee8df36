"""Run independent jobs in parallel on the cores of a CPU."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

import torch

Job = TypeVar("Job")
Result = TypeVar("Result")


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Set PyTorch's number of threads per operation within a ``with`` block."""
    before = torch.get_num_threads()
    if before == count:  # so that no Python thread undoes the setting of another
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def side_by_side(
    work: Callable[[Job, threading.Event], Result], jobs: Sequence[Job], workers: int
) -> list[Result]:
    """Run jobs in parallel, in Python threads.

    Threads suffice, because batched tensor operations release the interpreter. One core per thread
    avoids the barrier at the end of every parallel operation.

    Args:
        work: Maps a job to its result. It should return early once the event is set.
        jobs: The jobs.
        workers: Largest number of jobs at once.

    Returns:
        The results, in the order of the jobs.

    Raises:
        Exception: The first error of a job; the event is then set, as it is on a keyboard
            interrupt.
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
