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
SEEN = ("killed", "timed out")
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

    def status(self, mutant: Mutant, same: dict[Key, str]) -> str:
        """What became of a fault; "equivalent" for one that is known to change nothing."""
        status: str = self.answers.get(mutant.key, {"status": "not run"})["status"]
        return "equivalent" if mutant.key in same and status not in SEEN else status

    def done(self, mutant: Mutant, *, again: bool) -> bool:
        """Whether a fault need not be tried; ``again`` tries those that no test saw."""
        status = self.answers.get(mutant.key, {}).get("status", "not run")
        open_ = {"not run", "not placed"} | ({"survived"} if again else set())
        return status not in open_


def counted(mutants: list[Mutant], results: Results, same: dict[Key, str]) -> dict[str, Any]:
    """What became of how many faults, and those that no test saw, ready for JSON."""
    counts: Counter[str] = Counter()
    unseen = []
    for mutant in mutants:
        status = results.status(mutant, same)
        counts[status] += 1
        if status not in (*SEEN, "equivalent"):
            told = {name: getattr(mutant, name) for name in ("path", "function", "before", "after")}
            unseen.append({"status": status} | told)
    seen, real = sum(counts[one] for one in SEEN), len(mutants) - counts["equivalent"]
    return {
        "faults": len(mutants),
        "counts": dict(sorted(counts.items())),
        "seen": seen,
        "of": real,
        "share": seen / max(1, real),
        "unseen": unseen,
    }


def report(mutants: list[Mutant], results: Results, same: dict[Key, str]) -> tuple[str, float]:
    """The summary, the survivors with their place and difference, and the share that was seen."""
    lines: list[str] = []
    for mutant in mutants:
        if results.status(mutant, same) not in (*SEEN, "equivalent"):
            lines += difference(mutant, results.answers.get(mutant.key, {"status": "not run"}))
    found = counted(mutants, results, same)
    numbers = ", ".join(f"{name} {number}" for name, number in found["counts"].items())
    share: float = found["share"]
    told = f"{numbers}; seen {found['seen']} of {found['of']}, {share:.1%}"
    lines.append(f"{len(mutants)} faults: {told}")
    return "\n".join(lines), share


def difference(mutant: Mutant, answer: dict[str, Any]) -> list[str]:
    """A fault as a reader wants to see it."""
    tests = f"{answer.get('ran', 0)} of {answer.get('of', 0)} tests"
    place = f"{mutant.path}:{mutant.lines[0]} {mutant.function}"
    head = f"{place} ({mutant.kind}; {answer['status']}, {tests})"
    before, after = ([*text.splitlines()] for text in (mutant.before, mutant.after))
    return [head, *(f"  - {line}" for line in before), *(f"  + {line}" for line in after), ""]
