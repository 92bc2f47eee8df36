"""The faults tried, one a line of a file; those that change nothing are named with a reason."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.mutation.mutants import Mutant

EQUIVALENT = Path(__file__).with_name("equivalent.toml")
GOAL = 0.95  # of the faults that change anything
Key = tuple[str, str, str, str]


def equivalents(path: Path = EQUIVALENT) -> dict[Key, str]:
    """Faults known to change nothing that is promised, with the reason why."""
    entries = tomllib.loads(path.read_text()).get("equivalent", [])
    return {
        (one["path"], one["function"], one["before"], one["after"]): one["reason"]
        for one in entries
    }


class Results:
    """Answers kept in a JSON-lines file; the last of a fault counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: dict[Key, dict[str, Any]] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                entry = json.loads(line)
                key = entry["path"], entry["function"], entry["before"], entry["after"]
                self.answers[key] = entry

    def add(self, mutant: Mutant, answer: dict[str, Any]) -> None:
        """Writes down what became of a fault."""
        entry = asdict(mutant) | answer
        self.answers[mutant.key] = entry
        with self.path.open("a") as out:
            out.write(json.dumps(entry) + "\n")

    def done(self, mutant: Mutant, *, again: bool) -> bool:
        """Whether a fault need not be tried; ``again`` tries those that no test saw."""
        status = self.answers.get(mutant.key, {}).get("status", "not run")
        open_ = {"not run", "not placed"} | ({"survived"} if again else set())
        return status not in open_


def report(mutants: list[Mutant], results: Results, same: dict[Key, str]) -> tuple[str, float]:
    """The summary, the survivors with their place and difference, and the share that was seen."""
    counts: Counter[str] = Counter()
    lines: list[str] = []
    for mutant in mutants:
        answer = results.answers.get(mutant.key, {"status": "not run"})
        status = answer["status"]
        if status == "survived" and mutant.key in same:
            status = "equivalent"
        counts[status] += 1
        if status in ("survived", "not run"):
            lines += difference(mutant, answer)
    seen = counts["killed"] + counts["timed out"]
    real = len(mutants) - counts["equivalent"]
    share = seen / max(1, real)
    numbers = ", ".join(f"{name} {number}" for name, number in sorted(counts.items()))
    lines.append(f"{len(mutants)} faults: {numbers}; seen {seen} of {real}, {share:.1%}")
    return "\n".join(lines), share


def difference(mutant: Mutant, answer: dict[str, Any]) -> list[str]:
    """A fault as a reader wants to see it."""
    tests = f"{answer.get('ran', 0)} of {answer.get('of', 0)} tests"
    place = f"{mutant.path}:{mutant.lines[0]} {mutant.function}"
    head = f"{place} ({mutant.kind}; {answer['status']}, {tests})"
    before, after = ([*text.splitlines()] for text in (mutant.before, mutant.after))
    return [head, *(f"  - {line}" for line in before), *(f"  + {line}" for line in after), ""]
