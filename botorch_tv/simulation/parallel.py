"""Independent jobs side by side on the cores of a CPU."""

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
    """Let PyTorch use this many threads per operation for a while."""
    before = torch.get_num_threads()
    if before == count:  # so that of several Python threads none restores what another has set
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
    """Work on several jobs at once.

    Batched tensor operations release the interpreter, so that Python threads suffice; each running
    its operations on one core avoids the barrier at the end of every operation.

    Args:
        work: From a job to its result. It should return early once the event is set.
        jobs: The jobs.
        workers: How many at once.

    Returns:
        The results, in the order of the jobs.

    Raises:
        Exception: The first that a job raised; the others are then told to stop. An interrupt
            from the keyboard stops them likewise.
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
