"""Runs collected tests in a child and says which was the first to fail."""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
import threading
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest

_MEMORY = 8 * 2**30  # bytes more than at the start; a fault may ask for more than there is
_SECONDS, _TIMES = 30, 10  # of processor time a test may take: so long, and so often its usual time


@dataclass
class Ran:
    """What a test did when nothing was wrong: CPU seconds, and the lines of the core it ran."""

    name: str
    passed: bool
    seconds: float
    lines: dict[str, list[int]] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        return asdict(self)


class Reports:
    """A pytest plugin that remembers whether a test failed."""

    def __init__(self) -> None:
        self.failed = False
        self.error = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = True
            crash = getattr(report.longrepr, "reprcrash", None)
            self.error = str(getattr(crash, "message", report.longrepr))[:200]


def prepare(scratch: Path) -> None:
    """Keeps a child's output, memory and files to itself."""
    os.setsid()
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    os.environ["PYTEST_DEBUG_TEMPROOT"] = os.environ["TMPDIR"] = str(scratch)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, used + _MEMORY))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)


def first_failure(
    items: Sequence[pytest.Item], usual: dict[str, float]
) -> tuple[str, str, int] | None:
    """Runs tests in their order up to the first that fails: its name, its error, its place."""
    for number, item in enumerate(items):
        limit = _SECONDS + _TIMES * usual.get(item.nodeid, 0.0)
        signal.setitimer(signal.ITIMER_PROF, limit)
        reports = _run(item, items[number + 1] if number + 1 < len(items) else None)
        signal.setitimer(signal.ITIMER_PROF, 0)
        if reports.failed:
            return item.nodeid, reports.error, number
    return None


def trace(items: Sequence[pytest.Item], root: Path, core: frozenset[str]) -> list[Ran]:
    """Runs tests of one file one by one and notes the lines of the core that each ran."""
    files = {str(root / name): name for name in core}
    found = []
    for number, item in enumerate(items):
        seen: dict[str, set[int]] = {}
        start = _cpu()
        with _Tracing(files, seen):
            reports = _run(item, items[number + 1] if number + 1 < len(items) else None)
        lines = {name: sorted(numbers) for name, numbers in seen.items()}
        found.append(Ran(item.nodeid, not reports.failed, _cpu() - start, lines))
    return found


def living(paths: Iterable[str]) -> dict[str, list[FunctionType]]:
    """All functions of some files that live in this process, by file."""
    found: dict[str, list[FunctionType]] = {path: [] for path in paths}
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename in found:
            found[one.__code__.co_filename].append(one)
    return found


def put_in(tree: CodeType, functions: Iterable[FunctionType]) -> int:
    """Gives the living functions of a file the code they have in another version of the file.

    Args:
        tree: The other version's module, compiled with lines where they were.
        functions: The file's functions.

    Returns:
        How many functions have other code now; 0 where one cannot have it, as it shares other
        variables with the function around it.
    """
    fresh: dict[tuple[str, int], list[CodeType]] = {}
    for code in _functions(tree):
        fresh.setdefault((code.co_qualname, code.co_firstlineno), []).append(code)
    changed = 0
    for one in functions:
        for code in fresh.get((one.__code__.co_qualname, one.__code__.co_firstlineno), []):
            if code == one.__code__:
                continue
            if len(code.co_freevars) != len(one.__code__.co_freevars):
                return 0
            one.__code__ = code
            changed += 1
    return changed


def _functions(code: CodeType) -> list[CodeType]:
    found = []
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found += [constant, *_functions(constant)]
    return found


def _run(item: pytest.Item, following: pytest.Item | None) -> Reports:
    reports = Reports()
    manager = item.config.pluginmanager
    manager.register(reports)
    try:
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
    finally:
        manager.unregister(reports)
    return reports


def _cpu() -> float:
    """CPU seconds of this process and of the children it waited for."""
    return sum(os.times()[:4])


class _Tracing:
    def __init__(self, files: dict[str, str], seen: dict[str, set[int]]) -> None:
        self.files, self.seen = files, seen

    def __enter__(self) -> None:
        sys.settrace(self._call)
        threading.settrace(self._call)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        threading.settrace(None)

    def _call(self, frame: FrameType, event: str, argument: object) -> Any:
        name = self.files.get(frame.f_code.co_filename)
        if name is None:
            return None
        numbers = self.seen.setdefault(name, set())
        numbers.add(frame.f_lineno)

        def line(inner: FrameType, event: str, argument: object) -> Any:
            numbers.add(inner.f_lineno)
            return line

        return line
