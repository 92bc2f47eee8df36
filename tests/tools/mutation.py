"""Would the tests notice? Single small faults in the core, each of which some test should see.

    python -m tests.tools.mutation --out FOLDER [--count 160] [--seed 0] [--limit 30]

Draws lines of the core and a fault in each. Every fault is tried in a fork that imports the package
anew, against the tests that execute its line, quick tests of its folder first: those of the default
tier, and if none fails those marked `full`. FOLDER stores the faults' lines that each test executes
and the result of each fault: the same call resumes; use an empty folder when package or tests have
changed. `results/mutation.json` gets the counts, the faults that only a `full` test saw and those
that no test saw; those that it lists as equivalent, with a reason, do not count. Needs fork().
"""

from __future__ import annotations

import argparse
import ast
import importlib.machinery
import json
import os
import random
import resource
import signal
import sys
from bisect import bisect
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

Row = dict[str, Any]
Lines = dict[str, set[int]]  # by file
ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks/results/mutation.json"
CORE = """forgetting/ gp/ acquisition/ strategies/ experts/ kernels/ likelihoods/ models/ learning/
    simulation/worlds/ simulation/streams.py simulation/rounds.py simulation/recorders.py"""
WITHOUT_CORE = ("tests/benchmarks", "tests/cli", "tests/notebooks", "tests/papers", "tests/peers")
OPTIONS = ["-qq", "--no-summary", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist"]
TIERS = {"default": "not slow and not full", "full": "full and not slow"}
FIRST_TESTS = 3.0  # CPU seconds of the tests of a fault that run before others are imported
WARM = "torch gpytorch botorch hypothesis xarray pandas matplotlib.pyplot h5netcdf"
PAIRS = """Lt LtE Gt GtE Eq NotEq Is IsNot In NotIn And Or Add Sub Mult Div BitAnd BitOr
    min max amin amax minimum maximum argmin argmax any all floor ceil clamp_min clamp_max"""
FIRST, SECOND = PAIRS.split()[::2], PAIRS.split()[1::2]
OTHER = dict(zip(FIRST + SECOND, SECOND + FIRST))
OTHERS: Any = {getattr(ast, name, name): getattr(ast, OTHER[name], name) for name in OTHER}
UNORDERED = ("isinstance", "getattr", "min", "max", "range", "expand")
SPARED = ("annotation", "returns", "decorator_list", "bases")  # fields of nodes


def changes(node: Any) -> Iterator[ast.AST]:
    """Nodes that may stand in the place of a node by a single fault."""
    match node:
        case ast.Compare(left, [operator], right):
            yield ast.Compare(left, [OTHERS[type(operator)]()], right)
        case ast.BoolOp(operator, values):
            yield ast.BoolOp(OTHERS[type(operator)](), values)
        case ast.BinOp(left, operator, right) if type(operator) in OTHERS:
            yield ast.BinOp(left, OTHERS[type(operator)](), right)
        case ast.UnaryOp(ast.Not() | ast.USub() | ast.Invert(), operand):
            yield operand
        case ast.IfExp(test, body, orelse):
            yield ast.IfExp(test, orelse, body)
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value) | float(value)):
            yield ast.Constant(1.5 * value if isinstance(value, float) and value else value + 1)
        case ast.Attribute(value, name) if name in OTHER:
            yield ast.Attribute(value, OTHER[name], node.ctx)
        case ast.Call(function, [*first, last, swapped], keywords):
            if ast.unparse(function).split(".")[-1] not in UNORDERED:
                yield ast.Call(function, [*first, swapped, last], keywords)
        case ast.Expr() | ast.AugAssign() | ast.Raise():
            yield ast.Pass()


def places(node: Any) -> Iterator[tuple[Any, ast.AST]]:
    """Nodes of a tree and what may stand in their place; texts, errors and types are spared."""
    name = ast.unparse(node.func).split(".")[-1] if isinstance(node, ast.Call) else ""
    spared = isinstance(node, ast.Import | ast.ImportFrom | ast.Assert | ast.JoinedStr)
    spared |= isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    if spared or name in ("cast", "warn", "TypeVar") or name.endswith("Error"):
        return
    yield from ((node, new) for new in changes(node))
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and field not in SPARED:
                yield from places(child)


def mutated(path: str, number: int) -> tuple[Row, bytes]:
    """A fault of a file by its number, and the file's text with the fault."""
    source = (ROOT / path).read_bytes()
    old, new = list(places(ast.parse(source)))[number]
    lines = source.splitlines(keepends=True)
    start = sum(map(len, lines[: old.lineno - 1])) + old.col_offset
    end = sum(map(len, lines[: old.end_lineno - 1])) + old.end_col_offset
    text = f"({ast.unparse(new)})" if isinstance(new, ast.expr) else ast.unparse(new)
    row = {"key": f"{path}:{old.lineno} {number}", "path": path, "number": number}
    row |= {"lines": [old.lineno, old.end_lineno], "before": source[start:end].decode()}
    row |= {"line": lines[old.lineno - 1].decode().strip(), "after": text}
    return row, source[:start] + text.encode() + source[end:]


def draw(count: int, seed: int) -> list[Row]:
    """Lines of the core, drawn without replacement, with a fault each."""
    lines: dict[tuple[str, int], list[int]] = {}
    for path in core():
        for number, (node, _) in enumerate(places(ast.parse((ROOT / path).read_text()))):
            lines.setdefault((path, node.lineno), []).append(number)
    chance = random.Random(seed)
    drawn = chance.sample(list(lines), count)
    return [mutated(place[0], chance.choice(lines[place]))[0] for place in drawn]


def core() -> list[str]:
    """The files that faults are drawn from."""
    files = (file.relative_to(ROOT).as_posix() for file in (ROOT / "botorch_tv").rglob("*.py"))
    parts = tuple(f"botorch_tv/{part}" for part in CORE.split())
    return sorted(file for file in files if file.startswith(parts) and "__init__" not in file)


class Plugin:
    """Notes which lines, of some in files, each test executes, and the tests that fail."""

    def __init__(self, lines: Lines) -> None:
        self.lines = {str(ROOT / file): (file, lines[file]) for file in lines}
        self.within: dict[CodeType, tuple[str, set[int]]] = {}  # the lines in a function
        self.tests: list[Row] = []
        self.failed: dict[str, str] = {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        found: Lines = {}

        def enter(frame: Any, event: str, argument: object) -> Any:
            if (code := frame.f_code) not in self.within:
                file, lines = self.lines.get(code.co_filename, ("", set()))
                self.within[code] = file, lines & {line for *_, line in code.co_lines() if line}
            file, lines = self.within[code]
            if not file or lines <= found.setdefault(file, set()):
                return None

            def note(frame: Any, event: str, argument: object) -> Any:
                if frame.f_lineno in lines:
                    found[file].add(frame.f_lineno)
                return note

            return note

        start = sum(os.times()[:4])
        sys.settrace(enter if self.lines else None)
        yield
        sys.settrace(None)
        row = {"name": item.nodeid, "seconds": sum(os.times()[:4]) - start}
        self.tests.append(row | {"lines": {file: sorted(found[file]) for file in found}})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed |= {report.nodeid: str(report.longrepr)[-200:]} if report.failed else {}


def run(marks: str, parts: list[list[str]], lines: Lines, fault: Row | None = None) -> Row:
    """Runs parts of the tests, up to the first failure if the package has a fault; notes lines."""
    if fault:
        loader = importlib.machinery.SourceFileLoader
        path, original = str(ROOT / fault["path"]), loader.get_code
        code = compile(mutated(fault["path"], fault["number"])[1], path, "exec")
        loaded = {path: lambda *_: code}
        get_code = lambda self, name: loaded.get(self.path, original)(self, name)  # noqa: E731
        loader.get_code = get_code  # type: ignore
    plugin, options = Plugin(lines), [*OPTIONS, "-m", marks, *(["-x"] if fault else [])]
    failed = any(pytest.main([*options, *names], plugins=[plugin]) for names in parts if names)
    passed = [test for test in plugin.tests if test["name"] not in plugin.failed]
    status = "killed" if failed else "survived"
    return {"status": status, "failed": plugin.failed, "tests": passed if lines else []}


def concerned(fault: Row, tests: list[Row], limit: float) -> list[list[str]]:
    """Tests that execute a fault's line, near and quick tests first, as far as time allows.

    If at most one does, the line may run at import: other tests that enter its file follow.
    """
    lines, path = {*range(fault["lines"][0], fault["lines"][1] + 1)}, fault["path"]
    folder = f"tests/{path.split('/')[1]}/"
    inside = [test for test in tests if path in test["lines"]]
    inside.sort(key=lambda test: (not test["name"].startswith(folder), test["seconds"]))
    on_line = [test for test in inside if not lines.isdisjoint(test["lines"][path])]
    near = on_line if len(on_line) > 1 else on_line + [t for t in inside if t not in on_line]
    total = list(accumulate(test["seconds"] for test in near))
    few = bisect(total, FIRST_TESTS)
    names = [test["name"] for test in near[: max(1, bisect(total, limit))]]
    return [names[:few], names[few:]]


def forked(file: Path, seconds: int, work: Callable[..., Row], *arguments: Any) -> Row:
    """The result of a call in a fork, or what ended it, at the latest a limit of CPU time."""
    if (child := os.fork()) == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        signal.alarm(3 * seconds)
        try:
            file.write_text(json.dumps(work(*arguments)))
        finally:
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    result: Row = json.loads(file.read_text()) if file.exists() else {"status": f"ended {status}"}
    file.unlink(missing_ok=True)
    return result


def each(log: Path, rows: list[Row], work: Callable[[Row], Row]) -> list[Row]:
    """The rows with their results, from the log or computed now and appended to it."""
    log.touch()
    done = {row["key"]: row for row in map(json.loads, log.read_text().splitlines())}
    for row in rows:
        if row["key"] not in done:
            done[row["key"]] = row | work(row)
            with log.open("a") as out:
                out.write(json.dumps(done[row["key"]]) + "\n")
            print(len(done), row["key"], done[row["key"]].get("status", ""), flush=True)
    return [done[row["key"]] for row in rows]


def counted(faults: list[Row], equivalent: list[Row]) -> Row:
    """What became of how many faults; whatever ended a test run otherwise was seen."""
    names = ("path", "line", "before", "after")
    same = [[row[name] for name in names] for row in equivalent]
    real = [row for row in faults if [row[name] for name in names] not in same]
    unseen = [{name: row[name] for name in names} for row in real if survives(row)]
    late = [row for row in real if row["tier"] == "full" and not survives(row)]
    full = [{name: row[name] for name in (*names, "failed")} for row in late]
    counts = {"faults": len(faults), "seen": len(real) - len(unseen), "of": len(real)}
    counts |= {"seen_by_full_tests_only": len(full)}
    return {**counts, "full_only": full, "unseen": unseen, "equivalent": equivalent}


def survives(fault: Row) -> bool:
    """Whether no test failed."""
    return fault["status"] in ("survived", "ended 0")


def main(arguments: list[str] | None = None) -> None:
    """Tries the faults that have no result yet, and writes the counts."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.mutation")
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--count", type=int, default=160, help="number of faults")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--limit", type=float, default=30.0, help="CPU seconds of a fault's tests")
    options = parser.parse_args(arguments)
    (out := options.out.resolve()).mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)
    for name in WARM.split():
        importlib.import_module(name)
    found = sorted(str(file) for file in Path("tests").glob("*/**/test_*.py"))
    files = [{"key": file} for file in found if not file.startswith(WITHOUT_CORE)]
    answer, faults = out / "answer.json", draw(options.count, options.seed)
    for tier in TIERS:
        left = [fault for fault in faults if survives({"status": "survived", **fault})]
        lines: Lines = {fault["path"]: set() for fault in left}
        for fault in left:
            lines[fault["path"]].update(range(fault["lines"][0], fault["lines"][1] + 1))

        def traced(row: Row, marks: str = TIERS[tier], lines: Lines = lines) -> Row:
            return forked(answer, 600, run, marks, [[row["key"]]], lines)

        rows = each(out / f"{tier}-tests.jsonl", files, traced)
        tests = [test for row in rows for test in row.get("tests", [])]

        def tried(fault: Row, tier: str = tier, tests: list[Row] = tests) -> Row:
            parts, most = concerned(fault, tests, options.limit), int(60 + 3 * options.limit)
            result = forked(answer, most, run, "not slow", parts, {}, fault)
            return {"failed": {}, **result, "tier": tier}

        done = {row["key"]: row for row in each(out / f"{tier}-faults.jsonl", left, tried)}
        faults = [done.get(fault["key"], fault) for fault in faults]
    result = counted(faults, json.loads(RESULTS.read_text()).get("equivalent", []))
    from benchmarks.records import environment, write  # imports the package

    origin = environment(seed=options.seed)
    write({"benchmark": "mutation", **origin, "count": options.count, **result}, RESULTS)


if __name__ == "__main__":
    main()
