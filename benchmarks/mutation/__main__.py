"""Tries single faults of the core against the tests.

    python -m benchmarks.mutation --out FOLDER [--count 300] [--seed 0] [--workers 2]
        [--limit 120] [--within botorch_tv/gp ...] [--again] [--write FILE]

Every fault runs in a fork of a process that has imported and collected everything, against the
tests that execute its line, likely killers first, up to the first that fails. FOLDER keeps what
each test does without a fault (`usual.jsonl`) and what became of each fault (`faults.jsonl`); the
same call goes on where the last ended. ``--again`` tries once more what no test saw; ``--tests``
takes the tests of some files or folders alone. ``--write`` keeps the counts, and what no test saw,
in a file. Needs a system that forks.

The exit status is 0 where at least 95 % were seen; what `equivalent.toml` names does not count.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.mutation import server
from benchmarks.mutation.children import each
from benchmarks.mutation.draw import core, draw
from benchmarks.mutation.mutants import Mutant
from benchmarks.mutation.results import GOAL, Results, counted, equivalents, report
from benchmarks.mutation.usual import Usual, test_files

ROOT = Path(__file__).resolve().parents[2]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutation")
    parser.add_argument("--out", type=Path, required=True, help="folder of the answers")
    parser.add_argument("--count", type=int, default=300, help="faults")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--workers", type=int, default=2, help="faults tried at once")
    parser.add_argument(
        "--limit", type=float, default=120.0, help="usual CPU seconds of the tests of one fault"
    )
    parser.add_argument("--within", nargs="*", default=[], help="beginnings of paths")
    parser.add_argument("--tests", nargs="*", default=[], help="beginnings of paths of tests")
    parser.add_argument("--again", action="store_true", help="try once more what no test saw")
    parser.add_argument("--write", type=Path, help="file for the counts, as JSON")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs what is not done yet and prints the summary."""
    options = parse(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)
    mutants = draw(ROOT, options.count, options.seed, options.within)
    same = equivalents()
    results = Results(options.out / "faults.jsonl")
    tried = [
        mutant
        for mutant in mutants
        if mutant.key not in same and not results.done(mutant, again=options.again)
    ]
    random.Random(options.seed).shuffle(tried)  # so that those done are a fair sample
    if tried:
        _try(tried, results, options)
        results = Results(results.path)
    text, share = report(mutants, results, same)
    print(f"{_commit()}, seed {options.seed}\n{text}")
    if options.write:
        # Imported now, for what tries faults imports the package itself.
        from benchmarks.speed.common import environment, write

        command = f"python -m benchmarks.mutation --count {options.count} --seed {options.seed}"
        here = environment(seed=options.seed) | {"command": command}
        write({"benchmark": "mutation", **here, **counted(mutants, results, same)}, options.write)
    sys.exit(share < GOAL)


def _try(mutants: list[Mutant], results: Results, options: argparse.Namespace) -> None:
    for _ in server.warm():
        pass
    import torch
    from hypothesis import Phase, settings

    torch.set_num_threads(1)
    phases = (Phase.explicit, Phase.generate)  # a failure need not be made small
    settings.register_profile(
        "mutation", derandomize=True, deadline=None, database=None, phases=phases
    )
    settings.load_profile("mutation")
    usual_path = options.out / "usual.jsonl"
    inside = [mutant for mutant in mutants if mutant.function]
    total, number = len(mutants), 0

    def note(mutant: Mutant, answer: server.Answer) -> None:
        nonlocal number
        number += 1
        results.add(mutant, answer)
        place = f"{mutant.path}:{mutant.lines[0]}"
        print(f"{number}/{total} {answer['status']}: {place} {mutant.kind}", flush=True)

    collector = os.fork()
    if collector == 0:
        plugin = server.Server(
            ROOT,
            Usual(usual_path, ROOT),
            frozenset(core(ROOT)),
            lambda: inside,
            note,
            workers=options.workers,
            limit=options.limit,
        )
        code = 1
        try:
            import pytest

            code = pytest.main(
                [*server.OPTIONS, *test_files(ROOT, options.tests)], plugins=[plugin]
            )
        finally:
            os._exit(code)
    os.waitpid(collector, 0)
    retained = Results(results.path)
    results.answers = retained.answers
    number = len(inside)
    rest = [
        mutant
        for mutant in mutants
        if retained.answers.get(mutant.key, {}).get("status", "not placed") == "not placed"
        or (not mutant.function and not retained.done(mutant, again=options.again))
    ]
    total = number + len(rest)
    work = server.in_a_new_import(ROOT, Usual(usual_path, ROOT), limit=options.limit)
    for mutant, answer in each(rest, work, workers=options.workers, seconds=900):
        note(mutant, server.as_verdict(answer))


def _commit() -> str:
    """The commit, with a mark where files differ from it."""
    asked = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+changes", "--exclude=*"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown commit"


if __name__ == "__main__":
    main()
