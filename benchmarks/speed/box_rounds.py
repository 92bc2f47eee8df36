"""What a round of one loop on a box costs late: seconds of ``ask`` and ``tell`` at n observations.

    python -m benchmarks.speed.box_rounds [--told 200 1000 3000] [--repeats 3] [--threads 1]
        [--out FILE]

The loop is that of ``benchmarks.speed.boxes``, TV-GP-UCB and a Matérn-5/2 kernel in six dimensions,
which no few functions serve, so that every round is a regression. It is told n points by chance;
then the first choice is timed, for which the whole log is factored, and some rounds after it, for
which the factor has grown. Processor time is kept besides, which a busy machine shifts less.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import torch

from benchmarks.arguments import command_line
from benchmarks.speed.boxes import DIM, strategy
from benchmarks.speed.common import begin, write
from botorch_tv.strategies import Box, State, Strategy


def told(player: Strategy, number: int) -> State:
    """A state told of so many points by chance."""
    box = Box(torch.tensor([[0.0] * DIM, [1.0] * DIM], dtype=torch.float64))
    state = player.init(box)
    draw = torch.Generator().manual_seed(number)
    first = player.ask(state)
    for t in range(number):
        X = torch.rand(DIM, dtype=torch.float64, generator=draw)
        made = first._replace(X=X, time=first.time + t)
        state, _ = player.tell(state, made, 0.3 * torch.sin(5 * X).sum(), check=False)
    return state


def measure(number: int, repeats: int) -> dict[str, float]:
    """Seconds, and processor time, of the first choice and of a round after it."""
    player = strategy()
    state = told(player, number)
    begin, cpu = time.perf_counter(), time.process_time()
    suggestion = player.ask(state)
    first, first_cpu = time.perf_counter() - begin, time.process_time() - cpu
    rounds, rounds_cpu = [], []
    for _ in range(repeats):
        begin, cpu = time.perf_counter(), time.process_time()
        state, _ = player.tell(state, suggestion, 0.3 * torch.sin(5 * suggestion.X).sum())
        suggestion = player.ask(state)
        rounds.append(time.perf_counter() - begin)
        rounds_cpu.append(time.process_time() - cpu)
    return {
        "told": number,
        "seconds, first choice": first,
        "processor seconds, first choice": first_cpu,
        "seconds of a round": median(rounds),
        "processor seconds of a round": median(rounds_cpu),
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = command_line("speed.box_rounds", __doc__, repeats=3, threads=1)
    parser.add_argument("--told", type=int, nargs="+", default=[200, 1000, 3000])
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark.

    Args:
        arguments: The command line; that of the process unless given.
    """
    options = parse(arguments)
    facts = begin(options.threads, seed=0)
    rounds = []
    for number in options.told:
        rounds.append(measure(number, options.repeats))
        print(", ".join(f"{key} {value:.3g}" for key, value in rounds[-1].items()), flush=True)
    record = {"environment": facts, "rounds": rounds}
    write(record, options.out)
    return record


if __name__ == "__main__":
    main()
