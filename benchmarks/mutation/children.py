"""Forks children a few at a time and hands back what each said before it ended."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

_Task = TypeVar("_Task")


@dataclass
class _Child:
    task: Any
    scratch: Path
    deadline: float
    late: bool = False


def each(
    tasks: Iterable[_Task], work: Callable[[_Task, Path], Any], *, workers: int, seconds: float
) -> Iterator[tuple[_Task, Any]]:
    """Does every task in a fork of this process and gives its answer as it comes.

    Args:
        tasks: What to do.
        work: Called with a task and a folder of its own; its answer travels as JSON.
        workers: Children at once.
        seconds: After so long a child is stopped.

    Yields:
        The task with its answer; with the name of a signal where a child died, "timed out" where
        it took too long and ``{"error": ...}`` where it raised.
    """
    waiting = iter(tasks)
    running: dict[int, _Child] = {}
    more = True
    while more or running:
        while more and len(running) < workers:
            try:
                task = next(waiting)
            except StopIteration:
                more = False
                break
            scratch = Path(tempfile.mkdtemp(prefix="mutation-"))
            pid = os.fork()
            if pid == 0:
                _child(task, work, scratch)
            running[pid] = _Child(task, scratch, time.monotonic() + seconds)
        for pid in list(running):
            ended, status = os.waitpid(pid, os.WNOHANG)
            child = running[pid]
            if not ended and time.monotonic() > child.deadline and not child.late:
                child.late = True
                _stop(pid)
            if ended:
                del running[pid]
                _stop_group(pid)  # what it started and left behind
                yield child.task, _answer(child, status)
                shutil.rmtree(child.scratch, ignore_errors=True)
        time.sleep(0.01)


def _child(task: Any, work: Callable[[Any, Path], Any], scratch: Path) -> None:
    code = 1
    try:
        answer: Any
        try:
            answer = work(task, scratch)
        except BaseException as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        (scratch / "answer.json").write_text(json.dumps(answer))
        code = 0
    finally:
        os._exit(code)


def _stop(pid: int) -> None:
    _stop_group(pid)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _stop_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _answer(child: _Child, status: int) -> Any:
    path = child.scratch / "answer.json"
    if path.exists():
        return json.loads(path.read_text())
    if child.late:
        return "timed out"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return "timed out" if number == signal.SIGPROF else signal.Signals(number).name
    return {"error": "ended without an answer"}
