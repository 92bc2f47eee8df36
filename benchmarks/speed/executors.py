"""What a second worker gains: a study by one process and by two.

    python -m benchmarks.speed.executors [--workers 2] [--trials 2048] [--horizon 200] [--points 50]
        [--repeats 3] [--out FILE]

The study of ``et-fig4``, GP-UCB, TV-GP-UCB and ET-GP-UCB in a Markov world, is handed to a
``ProcessPoolExecutor`` of one worker and of as many as asked for, each of one thread, in blocks of
the same size. Workers are started, and have played a study of one round, before the clock runs.
Both are timed in turn, so that a busy moment of the machine falls on both, and their results are
compared to the bit. Two workers should take at least 1.7 times less where two cores are free; the
load of the machine before the run is kept beside the figure.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from statistics import median
from typing import Any

import torch

from benchmarks.arguments import command_line
from benchmarks.speed.common import begin, write
from benchmarks.speed.runs import EPSILON, NOISE, STRATEGIES, kernel
from botorch_tv.simulation import MarkovWorld, StudyResult, run_study
from botorch_tv.strategies import Grid

PLAYED = ("GP-UCB", "TV-GP-UCB", "ET-GP-UCB")
WANTED = 1.7


def play(options: argparse.Namespace, executor: Executor, *, horizon: int) -> StudyResult:
    """The study, in blocks of which every worker has several."""
    grid = Grid.regular(options.points, 2)
    return run_study(
        MarkovWorld(grid, kernel=kernel(), epsilon=EPSILON, noise=NOISE),
        {label: STRATEGIES[label]() for label in PLAYED},
        trials=options.trials,
        horizon=horizon,
        chunk=max(1, options.trials // (4 * options.workers)),
        executor=executor,
        compiled=False,
        progress=False,
    )


def timed(options: argparse.Namespace, executor: Executor) -> tuple[float, StudyResult]:
    """Seconds of the study, and its result."""
    begin = time.perf_counter()
    result = play(options, executor, horizon=options.horizon)
    return time.perf_counter() - begin, result


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of one worker and of several, in turn."""
    spawn, numbers = get_context("spawn"), (1, options.workers)
    pools = {
        number: ProcessPoolExecutor(
            number, mp_context=spawn, initializer=torch.set_num_threads, initargs=(1,)
        )
        for number in numbers
    }
    try:
        for pool in pools.values():
            play(options, pool, horizon=1)
        seconds: dict[int, list[float]] = {number: [] for number in numbers}
        results = {}
        for _ in range(options.repeats):
            for number, pool in pools.items():
                took, results[number] = timed(options, pool)
                seconds[number].append(took)
    finally:
        for pool in pools.values():
            pool.shutdown()
    one, several = (results[number].data for number in numbers)
    ratios = [first / second for first, second in zip(*seconds.values())]
    return {
        "workers": options.workers,
        "trials": options.trials,
        "rounds": options.horizon,
        "arms": options.points**2,
        "seconds, one worker": seconds[1],
        "seconds, several": seconds[options.workers],
        "ratio": median(ratios),
        "wanted": WANTED,
        "identical": bool(all((one[name] == several[name]).all() for name in one.data_vars)),
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = command_line(
        "speed.executors", __doc__, trials=2048, horizon=200, points=50, repeats=3
    )
    parser.add_argument("--workers", type=int, default=2)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark.

    Args:
        arguments: The command line; that of the process unless given.
    """
    options = parse(arguments)
    facts = begin(1, seed=0)
    record = {"environment": facts} | measure(options)
    for key, value in record.items():
        if key != "environment":
            print(f"{key}: {value}")
    write(record, options.out)
    return record


if __name__ == "__main__":
    main()
