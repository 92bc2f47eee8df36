"""Compiled rounds against the recursion: the same study by both in turn, in one run.

    python -m benchmarks.speed.compiled [--trials 1024] [--repeats 5] [--threads N] [--out FILE]

The setting is that of [ET] figure 4: 50 x 50 arms, ε = 0.03, 200 rounds, float64, on a CPU. World,
normal variates and results are included, compiling is not. Processor time stands beside the time
that passes, since it does not depend on what else the machine is doing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.arguments import command_line
from benchmarks.speed.common import begin, cores, write
from benchmarks.speed.runs import STRATEGIES
from botorch_tv.papers.event_triggered import FIGURE_4
from botorch_tv.simulation import StudyResult, World, run_study
from botorch_tv.strategies import Strategy

PLAYED = ("ET-GP-UCB", "GP-UCB", "TV-GP-UCB")
HORIZON = FIGURE_4.horizon


class Time(NamedTuple):
    """Microseconds per trial and round."""

    passed: float
    used: float
    """By all threads together."""


def timed(
    world: World, strategy: Strategy, trials: int, compiled: bool
) -> tuple[Time, StudyResult]:
    """One study.

    Args:
        world: What is played.
        strategy: Who plays.
        trials: How many.
        compiled: Whether rounds are compiled.
    """
    passed, used = time.perf_counter(), time.process_time()
    result = run_study(
        world,
        {"it": strategy},
        trials=trials,
        horizon=HORIZON,
        compiled=compiled,
        progress=False,
    )
    rounds = 1e-6 * trials * HORIZON
    found = Time((time.perf_counter() - passed) / rounds, (time.process_time() - used) / rounds)
    return found, result


def compare(world: World, strategy: Strategy, trials: int, repeats: int) -> dict[str, Any]:
    """Both ways of playing, in turn.

    Args:
        world: What is played.
        strategy: Who plays.
        trials: How many.
        repeats: How often.

    Raises:
        AssertionError: If a choice differs.
    """
    timed(world, strategy, 8, True)  # compiles
    pairs = []
    for _ in range(repeats):
        (eager, expected), (compiled, found) = (
            timed(world, strategy, trials, one) for one in (False, True)
        )
        assert (expected.data["index"] == found.data["index"]).all()
        pairs.append((eager, compiled))
    times = np.array(pairs)  # repeats x 2 x 2
    ratios = np.median(times[:, 0] / times[:, 1], axis=0)
    eager, compiled = (Time(*one) for one in np.median(times, axis=0).tolist())
    return {
        "eager_us": eager._asdict(),
        "compiled_us": compiled._asdict(),
        "ratio": Time(*ratios.tolist())._asdict(),
        "ratios": (times[:, 0] / times[:, 1]).tolist(),
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    return command_line(
        "speed.compiled", __doc__, trials=1024, repeats=5, threads=cores()
    ).parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Time every strategy; returns the record that is written."""
    options = parse(arguments)
    facts = begin(options.threads, seed=0, packages=("numba",))
    world, *_ = FIGURE_4.cases["epsilon-0.03"].stage()
    found = {}
    for name in PLAYED:
        found[name] = one = compare(world, STRATEGIES[name](), options.trials, options.repeats)
        print(
            f"{name}: {one['eager_us']['passed']:.1f} µs per trial and round, compiled "
            f"{one['compiled_us']['passed']:.1f}, {one['ratio']['passed']:.2f} times as fast; "
            f"by processor time {one['ratio']['used']:.2f} times"
        )
    record = {
        "benchmark": "compiled",
        **facts,
        "parameters": {
            "trials": options.trials,
            "repeats": options.repeats,
            "horizon": HORIZON,
            "dtype": "float64",
        },
        "strategies": found,
    }
    write(record, options.out)
    return record


if __name__ == "__main__":
    main()
