"""Pytest plugins that collect the tests once and then run them against one fault after another."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from benchmarks.mutation import judge
from benchmarks.mutation.children import each
from benchmarks.mutation.judge import Ran
from benchmarks.mutation.mutants import Mutant, mutated
from benchmarks.mutation.usual import Usual

OPTIONS = ("-qq", "-s", "--no-summary", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist")
Answer = dict[str, Any]


class Server:
    """Runs tests against faults inside functions: the code of a living function is exchanged."""

    def __init__(
        self,
        root: Path,
        usual: Usual,
        core: frozenset[str],
        faults: Callable[[], list[Mutant]],
        note: Callable[[Mutant, Answer], None],
        *,
        workers: int,
        limit: float,
    ) -> None:
        self.root, self.usual, self.core = root, usual, core
        self.faults, self.note = faults, note
        self.workers, self.limit = workers, limit

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        functions = judge.living(str(self.root / name) for name in self.core)
        gc.freeze()  # children share what was imported
        self._measure(session.items)
        by_name = {item.nodeid: item for item in session.items}
        seconds = self.usual.seconds()

        def work(mutant: Mutant, scratch: Path) -> Answer:
            judge.prepare(scratch)
            names, of = self.usual.concerned(mutant, self.limit)
            if not names:  # the line may run as the package is imported
                return {"status": "not placed"}
            path = str(self.root / mutant.path)
            if not judge.put_in(compile(mutated(self.root, mutant), path, "exec"), functions[path]):
                return {"status": "not placed"}
            return verdict([by_name[name] for name in names], seconds, of)

        for mutant, answer in each(self.faults(), work, workers=self.workers, seconds=900):
            self.note(mutant, as_verdict(answer))
        return True

    def _measure(self, items: list[pytest.Item]) -> None:
        files: dict[str, list[pytest.Item]] = {}
        for item in items:
            files.setdefault(item.nodeid.split("::")[0], []).append(item)

        def work(file: str, scratch: Path) -> list[Answer]:
            judge.prepare(scratch)
            return [one.plain() for one in judge.trace(files[file], self.root, self.core)]

        missing = [file for file in files if file not in self.usual.tests]
        for file, answer in each(missing, work, workers=self.workers, seconds=3600):
            if not isinstance(answer, list):
                print(f"{file}: {answer}; its tests are left out", flush=True)
                continue
            self.usual.add(file, [Ran(**one) for one in answer])
            spent = sum(one["seconds"] for one in answer)
            print(f"without a fault: {file}, {len(answer)} tests, {spent:.0f} s", flush=True)
        for name in self.usual.failing():
            print(f"fails without a fault, left out: {name}", flush=True)


class Single:
    """Runs the tests named, in their order, up to the first that fails."""

    def __init__(self, names: list[str], of: int, seconds: dict[str, float]) -> None:
        self.names, self.of, self.seconds = names, of, seconds
        self.answer: Answer = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        by_name = {item.nodeid: item for item in session.items}
        lost = [name for name in self.names if name not in by_name]
        if lost or session.testsfailed:
            self.answer = {"status": "killed", "test": "collection", "error": str(lost[:1])}
        else:
            items = [by_name[name] for name in self.names]
            self.answer = verdict(items, self.seconds, self.of)
        return True


def in_a_new_import(root: Path, usual: Usual, *, limit: float) -> Callable[[Mutant, Path], Answer]:
    """What a child does that tries a fault of a module or class: it imports the package anew."""
    seconds = usual.seconds()

    def work(mutant: Mutant, scratch: Path) -> Answer:
        judge.prepare(scratch)
        names, of = usual.concerned(mutant, limit)
        if not names:
            names, of = usual.concerned(mutant, limit, whole_file=True)
        if not names:
            return {"status": "survived", "ran": 0, "of": 0}
        path = str(root / mutant.path)
        tree = compile(mutated(root, mutant), path, "exec")
        sys.meta_path.insert(0, _Finder(mutant.path, path, tree))
        plugin = Single(names, of, seconds)
        files = sorted({name.split("::")[0] for name in names})
        pytest.main([*OPTIONS, *files], plugins=[plugin])
        return plugin.answer or {"status": "killed", "test": "collection", "error": ""}

    return work


def verdict(items: list[pytest.Item], seconds: dict[str, float], of: int) -> Answer:
    """Whether some test fails."""
    found = judge.first_failure(items, seconds)
    if found is None:
        return {"status": "survived", "ran": len(items), "of": of}
    name, error, number = found
    return {"status": "killed", "test": name, "error": error, "ran": number + 1, "of": of}


def as_verdict(answer: Any) -> Answer:
    """A child's answer; one that died was noticed."""
    if answer == "timed out":
        return {"status": "timed out"}
    if isinstance(answer, str):
        return {"status": "killed", "test": "", "error": answer}
    if "error" in answer and "status" not in answer:
        return {"status": "not run", **answer}
    return dict(answer)


class _Finder(MetaPathFinder):
    def __init__(self, name: str, path: str, code: CodeType) -> None:
        self.name = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        self.path, self.code = path, code

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        loader = _Loader(fullname, self.path, self.code)
        return spec_from_file_location(fullname, self.path, loader=loader)


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, code: CodeType) -> None:
        super().__init__(fullname, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        return self._code


def warm() -> Iterator[str]:
    """Imports what all children need; nothing of this package's own."""
    for name in (
        *("torch", "gpytorch", "botorch", "hypothesis", "hypothesis.extra.numpy", "xarray"),
        *("pandas", "matplotlib.pyplot", "h5netcdf", "tqdm"),
    ):
        __import__(name)
        yield name
