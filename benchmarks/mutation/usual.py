"""What every test does when nothing is wrong, kept in a file; and which tests a fault concerns."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.mutation.judge import Ran
from benchmarks.mutation.mutants import Mutant

FOLDERS = (
    *("acquisition", "ax", "bad_input", "conformance", "experts", "forgetting", "gp", "kernels"),
    *("learning", "likelihoods", "loop", "models", "optuna", "robustness", "simulation"),
    *("strategies", "theory_functions"),
)


def test_files(root: Path, within: Sequence[str]) -> list[str]:
    """The files whose tests are run against faults of the core; of some beginnings, if given."""
    found = [
        path for name in FOLDERS for path in sorted((root / "tests" / name).rglob("test_*.py"))
    ]
    names = [path.relative_to(root).as_posix() for path in found]
    return [name for name in names if name.startswith(tuple(within) or "")]


class Usual:
    """The tests of the suite without a fault; files that did not change are not run again."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path, self.root = path, root
        self._shared = _digest(
            [*sorted((root / "botorch_tv").rglob("*.py")), *sorted((root / "tests").rglob("*.py"))],
            leave_out="test_",
        )
        self.tests: dict[str, list[Ran]] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                entry = json.loads(line)
                if entry["digest"] == self._of(entry["file"]):
                    self.tests[entry["file"]] = [Ran(**one) for one in entry["tests"]]

    def add(self, file: str, tests: list[Ran]) -> None:
        """Notes the tests of a file."""
        self.tests[file] = tests
        plain = [one.plain() for one in tests]
        entry = {"file": file, "digest": self._of(file), "tests": plain}
        with self.path.open("a") as out:
            out.write(json.dumps(entry) + "\n")

    def seconds(self) -> dict[str, float]:
        return {one.name: one.seconds for tests in self.tests.values() for one in tests}

    def failing(self) -> list[str]:
        return [one.name for tests in self.tests.values() for one in tests if not one.passed]

    def concerned(
        self, mutant: Mutant, seconds: float, *, whole_file: bool = False
    ) -> tuple[list[str], int]:
        """The tests to run against a fault, likely killers first.

        Tests of the file's own name come first, then those of the folder that mirrors it, then
        the others; quick ones before slow ones, and of one test function's cases not all at once.

        Args:
            mutant: The fault; in a class or module it concerns all tests that enter the file.
            seconds: The usual CPU seconds of all tests together at most.
            whole_file: Whether it concerns them in a function, too.

        Returns:
            Their names, and how many there are without the limit of time.
        """
        first, last = mutant.lines
        lines = range(first, last + 1) if mutant.function and not whole_file else None
        found: list[tuple[float, Ran]] = []
        for file, tests in self.tests.items():
            weight = _nearness(mutant.path, file)
            spent: dict[str, float] = {}
            for test in sorted(tests, key=lambda one: one.seconds):
                ran = test.lines.get(mutant.path, [])
                if test.passed and ran and (lines is None or any(line in lines for line in ran)):
                    function = test.name.split("[")[0]
                    spent[function] = spent.get(function, 0.0) + test.seconds
                    found.append((weight * spent[function], test))
        found.sort(key=lambda entry: entry[0])
        names: list[str] = []
        total = 0.0
        for _, test in found:
            total += test.seconds
            if names and total > seconds:
                break
            names.append(test.name)
        return names, len(found)

    def _of(self, file: str) -> str:
        return self._shared + _digest([self.root / file])


def _nearness(path: str, file: str) -> float:
    module = Path(path)
    if Path(file).stem == f"test_{module.stem}":
        return 0.1
    return 0.3 if module.parts[1] == Path(file).parts[1] else 1.0


def _digest(paths: Sequence[Path], leave_out: str = "") -> str:
    whole = hashlib.sha256()
    for path in paths:
        if path.exists() and not (leave_out and path.name.startswith(leave_out)):
            whole.update(path.read_bytes())
    return whole.hexdigest()[:16]
