"""Single faults of a source file: where they are, how they read, and the file with one in it."""

from __future__ import annotations

import ast
import copy
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mutation.changes import Change, changes


@dataclass(frozen=True)
class Mutant:
    """One fault: in ``function`` of ``path``, ``before`` reads ``after``.

    Attributes:
        path: File, from the root of the checkout.
        function: Qualified name of the outermost function around it; empty in a class or module.
        kind: The sort of fault.
        before: The statement (of a compound one the head) as it is.
        after: The same with the fault.
        lines: First and last line of that statement.
        number: Which of the file's faults it is.
    """

    path: str
    function: str
    kind: str
    before: str
    after: str
    lines: tuple[int, int]
    number: int

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What stays the same as lines move."""
        return self.path, self.function, self.before, self.after


@dataclass(frozen=True)
class Candidate:
    """A fault that may be drawn, before anyone writes down how it reads."""

    function: str
    kind: str
    before: str
    number: int


def candidates(root: Path, path: str) -> list[Candidate]:
    """All single faults of a file."""
    tree = ast.parse((root / path).read_text())
    found, heads = [], dict[ast.stmt, str]()
    for number, (place, (kind, _, _)) in enumerate(_all(tree)):
        if place.statement not in heads:
            heads[place.statement] = _head(place.statement)
        found.append(Candidate(place.function, kind, heads[place.statement], number))
    return found


def mutants_of(root: Path, path: str, numbers: Container[int] | None = None) -> list[Mutant]:
    """Some or all single faults of a file, by their numbers."""
    tree = ast.parse((root / path).read_text())
    found = []
    for number, (place, (kind, old, new)) in enumerate(_all(tree)):
        if numbers is None or number in numbers:
            before, after = (
                _head(one) for one in (place.statement, _replaced(place.statement, old, new))
            )
            found.append(Mutant(path, place.function, kind, before, after, place.lines, number))
    return found


def mutated(root: Path, mutant: Mutant) -> ast.Module:
    """The file's tree with the fault in it; every line where it was."""
    tree = ast.parse((root / mutant.path).read_text())
    for number, (_, (_, old, new)) in enumerate(_all(tree)):
        if number == mutant.number:
            whole = _replaced(tree, old, new)
            assert isinstance(whole, ast.Module)
            return ast.fix_missing_locations(whole)
    raise ValueError(f"{mutant.path} has no fault number {mutant.number}: it was edited since")


@dataclass(frozen=True)
class _Place:
    statement: ast.stmt
    function: str

    @property
    def lines(self) -> tuple[int, int]:
        first, last = self.statement.lineno, self.statement.end_lineno or self.statement.lineno
        body = getattr(self.statement, "body", None)
        return first, max(first, body[0].lineno - 1) if body else last


def _all(tree: ast.Module) -> Iterator[tuple[_Place, Change]]:
    for place in _statements(tree.body, "", ""):
        for change in changes(place.statement):
            yield place, change


def _statements(body: list[ast.stmt], around: str, function: str) -> Iterator[_Place]:
    """Every statement and the outermost function it runs in."""
    for statement in body:
        yield _Place(statement, function)
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            name = f"{around}.{statement.name}".lstrip(".")
            runs = isinstance(statement, ast.FunctionDef) and not function
            yield from _statements(statement.body, name, name if runs else function)
            continue
        for part in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, part, []), around, function)
        for handler in getattr(statement, "handlers", []):
            yield from _statements(handler.body, around, function)


def _replaced(tree: ast.AST, old: ast.AST, new: ast.AST) -> ast.AST:
    """The tree with one node for another; the nodes above it are copies."""
    if tree is old:
        return new
    for field, value in ast.iter_fields(tree):
        several = isinstance(value, list)
        parts = value if several else [value]
        for at, part in enumerate(parts):
            if isinstance(part, ast.AST):
                changed = _replaced(part, old, new)
                if changed is not part:
                    tree = copy.copy(tree)
                    several_changed = [*parts[:at], changed, *parts[at + 1 :]]
                    setattr(tree, field, several_changed if several else changed)
                    return tree
    return tree


def _head(statement: ast.AST) -> str:
    """A statement as text, a compound one without its body."""
    if not hasattr(statement, "body") or not isinstance(statement.body, list):
        return ast.unparse(statement)
    alone = copy.copy(statement)
    for part in ("body", "orelse", "handlers", "finalbody"):
        if hasattr(alone, part):
            setattr(alone, part, [ast.Pass()] if part in ("body", "finalbody") else [])
    return ast.unparse(alone).split("\n    pass")[0]
